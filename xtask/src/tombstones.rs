//! `cargo xtask tombstones`: counts the deleted rows that lists, searches, updates and sweeps read after many renames,
//! revisions and turns.

use anyhow::Result;

use crate::counts::passed;
use crate::run::cargo;
use crate::servers;
use crate::tools::Install;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of renames before the first measurement. The second measurement follows after as many further renames.
    #[arg(long, default_value_t = 2_000)]
    renames: usize,
    /// Number of turns before the first measurement. The second measurement follows after as many further turns.
    #[arg(long, default_value_t = 20_000)]
    turns: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    Install { install: false }.require(servers::missing)?;
    let mut command = cargo();
    command.args(["test", "--package", "folio-storage-cql", "--test", "cql", "tombstones"]);
    // One test after another, so that the renames do not delay the sweeps.
    command.args(["--", "--nocapture", "--test-threads", "1"]);
    command.env("FOLIO_TEST_RENAMES", arguments.renames.to_string());
    command.env("FOLIO_OPEN_TURNS", arguments.turns.to_string());
    passed(&mut command)
}
