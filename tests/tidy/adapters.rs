//! Storage adapters execute plans: they name no kind of resource.

use std::path::Path;

use crate::{is_test, report, sources};

/// Folders of the storage adapters.
const ADAPTERS: &[&str] = &["crates/folio-storage-embedded/src", "crates/folio-storage-cql/src"];

/// Names of the CQL driver that contain the word of a kind.
const DRIVER: &[&str] = &["scylla::policies", "RetryPolicy", "retry_policy"];

/// Kinds of resources, as words of an identifier.
const KINDS: &str = "tag tags prompt prompts document documents extraction extractions member members provider providers \
                     policy policies webhook webhooks";

/// Returns true if an identifier in a line of code contains a kind as a word.
fn names_a_kind(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let code = DRIVER.iter().fold(code.to_owned(), |code, name| code.replace(name, ""));
    let mut word = String::new();
    let mut words = Vec::new();
    for letter in code.chars() {
        if (letter.is_uppercase() && word.chars().any(char::is_lowercase)) || !letter.is_alphanumeric() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_alphanumeric() {
            word.push(letter);
        }
    }
    words.push(word);
    words.iter().any(|word| KINDS.split(' ').any(|kind| kind == word.to_lowercase()))
}

/// Returns the lines that name a kind, without the unit tests of the source.
fn lines_of(file: &Path, text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let named = code.lines().enumerate().filter(|(_, line)| names_a_kind(line));
    named.map(|(at, line)| format!("{}:{}: {}", file.display(), at + 1, line.trim())).collect()
}

#[test]
fn no_storage_adapter_names_a_kind_of_resource() {
    let mut wrong = Vec::new();
    for folder in ADAPTERS {
        let inside = sources().into_iter().filter(|(file, _)| file.starts_with(folder));
        let inside: Vec<_> = inside.filter(|(file, _)| !is_test(file) && !file.ends_with("golden.rs")).collect();
        assert!(!inside.is_empty(), "{folder} has no sources: name the adapter's folder in ADAPTERS");
        wrong.extend(inside.iter().flat_map(|(file, text)| lines_of(file, text)));
    }
    report("a storage adapter knows a kind of resource", &wrong);
}

#[test]
fn a_line_that_names_a_kind_is_found() {
    assert!(names_a_kind("fn plan(change: TagChange) {"));
    assert!(names_a_kind("let document_id = row.id;"));
    assert!(names_a_kind("let policy = retry_policy(org);"));
    assert!(!names_a_kind(".retry_policy(Arc::new(DefaultRetryPolicy::new()))"));
    assert!(!names_a_kind("let staged = vintage(row); // a tag"));
}
