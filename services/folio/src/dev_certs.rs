//! `folio dev-certs`: certificates for mutual TLS between gateways and nodes.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use folio_cluster::dev_certs::write;
use folio_types::{Environment as _, System};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the certificates. It is created if missing, and no file in it is overwritten.
    #[arg(long, value_name = "FOLDER", default_value = "./folio-certs")]
    out: PathBuf,
    /// A further DNS name or address of nodes; may be given several times.
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let files = write(&arguments.out, &arguments.names, System.now())?;
    let mut out = std::io::stdout();
    for file in files {
        writeln!(out, "{}", file.display())?;
    }
    Ok(())
}
