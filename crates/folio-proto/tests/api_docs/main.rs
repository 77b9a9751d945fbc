//! The reference in docs/api.md is generated from the proto files and the examples in docs/api/examples.
//! `cargo xtask docs` writes it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod examples;
mod reference;

use std::path::PathBuf;

use folio_proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::FileDescriptorSet;

/// The generated text follows this line.
const MARKER: &str = "<!-- `cargo xtask docs` writes the text below this line. -->\n";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn docs_api_md_contains_the_reference_that_the_proto_files_describe() {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let path = root().join("docs/api.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (conventions, written) = text.split_once(MARKER).expect("docs/api.md contains the marker of the reference");
    let reference = reference::render(&set, &examples::all());
    if std::env::var_os("FOLIO_WRITE_DOCS").is_some() {
        return std::fs::write(&path, [conventions, MARKER, &reference].concat()).unwrap();
    }
    let difference = written.lines().zip(reference.lines()).find(|(written, rendered)| written != rendered);
    assert!(
        written == reference,
        "docs/api.md differs from the proto files or the examples; run `cargo xtask docs`. First difference: {difference:?}"
    );
}
