//! `cargo xtask lint`: `buf lint` over the proto files.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::run::{finish, root};
use crate::tools::{BUF, missing_of, require};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Install missing tools.
    #[arg(long)]
    install: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    require(|| missing_of(&[BUF]), arguments.install)?;
    let buf = BUF.path().context("buf is not found")?;
    finish(Command::new(buf).arg("lint").current_dir(root()))
}
