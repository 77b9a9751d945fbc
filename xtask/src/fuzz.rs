//! `cargo xtask fuzz`: runs the fuzz targets for a longer time than the tests do.

use anyhow::Result;

use crate::counts::passed;
use crate::run::cargo;

/// Fuzz targets: the crate, the selection of its test binary, and the name of the test.
const TARGETS: &[(&str, &[&str], &str)] = &[
    ("folio-documents", &["--test", "documents"], "fuzz::damaged_pdfs_affect_only_themselves"),
    ("folio-gateway", &["--lib"], "proxy_protocol::tests::proxy_header_takes_any_bytes"),
    ("folio-llm", &["--lib"], "schema::fuzz::schema_checker_takes_any_schema_and_data"),
    ("folio-llm", &["--lib"], "stream::fuzz::stream_parser_takes_any_bytes"),
    ("folio-llm", &["--lib"], "stream::fuzz::stream_parser_takes_any_sequence_of_chunks"),
    ("folio-tools", &["--lib"], "path::tests::path_parser_takes_any_text"),
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Total duration in minutes, divided evenly among the targets.
    #[arg(long, default_value_t = 4)]
    minutes: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let each = arguments.minutes * 60_000 / TARGETS.len().max(1) as u64;
    for (package, binary, test) in TARGETS {
        passed(
            cargo()
                .args(["test", "--package", package])
                .args(*binary)
                .args(["--", "--exact", test, "--nocapture"])
                .env("BOLERO_RANDOM_TEST_TIME_MS", each.to_string())
                .env("BOLERO_RANDOM_ITERATIONS", u64::MAX.to_string()),
        )?;
    }
    Ok(())
}
