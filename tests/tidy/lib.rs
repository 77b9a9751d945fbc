//! Tests of the sources themselves: imports between crates, file sizes, words, the form of documents.
//!
//! The package depends on nothing of Folio, so that `cargo test -p folio-tidy` compiles in seconds.
#![cfg(test)]

mod adapters;
mod bounds;
mod dependencies;
mod documents;
mod files;
mod language;
mod observability;
mod protocol;
mod stored_enums;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Returns every tracked file, and every untracked file that git does not ignore.
fn files() -> Vec<PathBuf> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(listing.status.success(), "git ls-files failed");
    let text = String::from_utf8(listing.stdout).expect("file names are UTF-8");
    let files: Vec<_> = text.lines().map(PathBuf::from).filter(|file| root().join(file).is_file()).collect();
    assert!(files.len() > 50, "only {} files were found", files.len());
    files
}

/// Returns the Rust sources, each with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let rust = files().into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs"));
    rust.map(|file| (file.clone(), std::fs::read_to_string(root().join(file)).expect("a source is readable"))).collect()
}

/// Returns true if a source is compiled for tests only.
fn is_test(file: &Path) -> bool {
    let text = file.to_string_lossy();
    text.starts_with("tests/")
        || text.contains("/tests/")
        || text.ends_with("tests.rs")
        || text.contains("folio-testkit")
}

/// Fails with the rule and every line, unless there are no lines.
fn report(rule: &str, lines: &[String]) {
    assert!(lines.is_empty(), "{rule}:\n{}", lines.join("\n"));
}
