//! `cargo xtask docs`: writes the documents that are generated from the proto files, from the examples of the API and
//! from the declarations of the operations. Tests compare the documents with their sources.

use anyhow::Result;

use crate::run::{cargo, finish};

/// The tests that write a document if `FOLIO_WRITE_DOCS` is set.
const TESTS: [&str; 2] = ["--package folio-proto --test api_docs", "--package folio-operations --lib table"];

pub(crate) fn run() -> Result<()> {
    for test in TESTS {
        finish(cargo().arg("test").args(test.split(' ')).env("FOLIO_WRITE_DOCS", "1"))?;
    }
    Ok(())
}
