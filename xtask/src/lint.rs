//! `cargo xtask lint`: `buf lint` over the proto files.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::run::{finish, root};
use crate::tools::{BUF, Install, missing_of};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    install: Install,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments.install.require(|| missing_of(&[BUF]))?;
    let buf = BUF.path().context("buf is not found")?;
    finish(Command::new(buf).arg("lint").current_dir(root()))
}
