//! Reading a file as the ingestor does, without a store.

use std::path::PathBuf;

use folio_documents::{Options, Reading, TextReader, WorkerCommand, sniff};

/// Settings under which the test's own child binary reads, with short limits.
pub(crate) fn options() -> Options {
    Options {
        worker: Some(WorkerCommand { program: PathBuf::from(env!("CARGO_BIN_EXE_folio-read-file")) }),
        child_cpu_seconds: 5,
        child_seconds: 20,
        child_memory_bytes: 1024 * 1024 * 1024,
        ..Options::default()
    }
}

/// Sniffs and reads a file.
pub(crate) async fn read_with(options: Options, name: &str, content: &[u8]) -> Reading {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document");
    std::fs::write(&file, content).unwrap();
    let beginning = &content[..content.len().min(sniff::SNIFF_BYTES)];
    let media_type = sniff::sniff(name, beginning).unwrap();
    TextReader::new(options).read(media_type, &file, folder.path()).await.unwrap()
}

/// Sniffs and reads a file under [`options`].
pub(crate) async fn read(name: &str, content: &[u8]) -> Reading {
    read_with(options(), name, content).await
}

/// The text of all pages.
pub(crate) fn text(reading: &Reading) -> String {
    reading.pages.iter().map(|page| page.text.as_str()).collect::<Vec<_>>().join("\n")
}
