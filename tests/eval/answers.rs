//! Data that another program extracted, as files: scores the values of programs with another API, such as an old version of Folio.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::report::{Answer, Cost, DocumentResult, Report};
use super::{Selection, bytes_of};

/// Maximum size of an answer, in bytes.
const ANSWER_BYTES: u64 = 1 << 20;

/// Writes the documents to a folder, which is created if missing.
///
/// # Errors
/// The truth files are unusable, no document matches the filter, or a document cannot be generated, read or written.
pub fn write_documents(selection: &Selection, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    for document in selection.truths()? {
        let path = folder.join(&document.document);
        let bytes = bytes_of(&selection.truth, &document)?;
        std::fs::write(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

/// Scores the files of a folder: the data of the document `invoice.pdf` are in `invoice.pdf.json`. A missing or malformed file is
/// part of the report.
///
/// # Errors
/// The truth files are unusable, or no document matches the filter.
pub fn score(selection: &Selection, folder: &Path) -> Result<Report> {
    let truths = selection.truths()?;
    let results = truths.iter().map(|truth| {
        let answer = read(&folder.join(format!("{}.json", truth.document)));
        DocumentResult::new(truth, answer.map_err(|error| format!("{error:#}")))
    });
    Ok(Report::new("answers", &folder.display().to_string(), "files", results.collect()))
}

fn read(path: &Path) -> Result<Answer> {
    let unreadable = || format!("{} cannot be read", path.display());
    let mut json = Vec::new();
    let file = std::fs::File::open(path).with_context(unreadable)?;
    file.take(ANSWER_BYTES + 1).read_to_end(&mut json).with_context(unreadable)?;
    ensure!(json.len() as u64 <= ANSWER_BYTES, "{} is larger than {ANSWER_BYTES} bytes", path.display());
    let data: Value = serde_json::from_slice(&json).with_context(|| format!("{} is not JSON", path.display()))?;
    Ok(Answer { data, evidence: None, incomplete: None, cost: Cost::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selection(truth: &Path, filter: &str) -> Selection {
        Selection { truth: truth.to_owned(), set: None, filter: filter.to_owned() }
    }

    #[test]
    fn each_file_is_scored_and_a_missing_or_malformed_one_has_only_missing_values() {
        let (truths, answers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["a.pdf", "b.pdf", "c.pdf", "d.pdf", "other.pdf"] {
            let fields = json!({"items.0.amount": 957, "number": "A-17"});
            let truth = json!({"document": name, "schema": {"type": "object"}, "fields": fields});
            std::fs::write(truths.path().join(format!("{name}.json")), truth.to_string()).unwrap();
        }
        let write = |name: &str, text: &str| std::fs::write(answers.path().join(name), text).unwrap();
        write("a.pdf.json", r#"{"items": [{"amount": 957.0}], "number": "A-18"}"#);
        write("b.pdf.json", "null and void");
        write("d.pdf.json", &"1".repeat(1 + (1 << 20)));
        let report = score(&selection(truths.path(), ".pdf"), answers.path()).unwrap();
        let errors: Vec<&str> =
            report.documents.iter().map(|document| document.error.as_deref().unwrap_or_default()).collect();
        let [a, b, c, d, other] = errors.as_slice() else { panic!("{errors:?}") };
        assert!(a.is_empty() && b.contains("is not JSON") && d.contains("larger than"), "{errors:?}");
        assert!(c.contains("cannot be read") && other.contains("cannot be read"), "{errors:?}");
        assert_eq!((report.counts.exact, report.counts.wrong, report.counts.missing), (1, 1, 8), "{report}");
        assert_eq!(report.mode, "answers");
        assert_eq!(score(&selection(truths.path(), "a.pdf"), answers.path()).unwrap().documents.len(), 1);
        assert!(score(&selection(truths.path(), "e.pdf"), answers.path()).is_err());
    }

    #[test]
    fn documents_are_written_under_their_names() {
        let (truths, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let write = |name: &str, is_generated: bool| {
            let truth = json!({
                "document": name, "generated": is_generated, "schema": {"type": "object"}, "fields": {"total": 1},
            });
            std::fs::write(truths.path().join(format!("{name}.json")), truth.to_string()).unwrap();
        };
        write("invoice-de.pdf", true);
        write("own.pdf", false);
        std::fs::write(truths.path().join("own.pdf"), b"%PDF own").unwrap();
        let target = folder.path().join("documents");
        write_documents(&selection(truths.path(), ""), &target).unwrap();
        let written = |name: &str| std::fs::read(target.join(name)).unwrap();
        assert_eq!(written("own.pdf"), b"%PDF own");
        assert_eq!(Some(written("invoice-de.pdf")), super::super::documents::bytes("invoice-de.pdf").unwrap());
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 2);
    }
}
