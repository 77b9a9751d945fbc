//! Truth files: the expected values of documents. `samples/eval/README.md` specifies the format.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use folio_tools::path::Path as FieldPath;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of truth files of a folder.
pub const FILES_MAX: usize = 1_000;
/// Maximum size of a truth file, in bytes.
pub const FILE_BYTES: u64 = 1 << 20;
/// Maximum number of fields of a document.
pub const FIELDS_MAX: usize = 500;

/// The content of a truth file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// File name of the document, in the folder of the truth file.
    pub document: String,
    /// True if the document is one of the project's own, which are generated instead of read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generated: bool,
    /// JSON Schema of the extraction.
    pub schema: Value,
    /// Expected values by path, such as `items.0.amount`. Null: the document does not contain the value.
    pub fields: BTreeMap<String, Value>,
}

impl Truth {
    /// Parses and checks the content of a truth file.
    ///
    /// # Errors
    /// The content is no truth, or exceeds a bound.
    pub fn parse(json: &[u8]) -> Result<Self> {
        ensure!(json.len() as u64 <= FILE_BYTES, "the file is larger than {FILE_BYTES} bytes");
        let truth: Self = serde_json::from_slice(json)?;
        let name = &truth.document;
        ensure!(
            Path::new(name).file_name().is_some_and(|file| file == name.as_str()),
            "document {name:?} must be a file name without a folder"
        );
        ensure!(truth.schema.is_object(), "schema must be a JSON object");
        ensure!(!truth.fields.is_empty(), "fields must not be empty");
        ensure!(truth.fields.len() <= FIELDS_MAX, "fields has more than {FIELDS_MAX} entries");
        for path in truth.fields.keys() {
            path.parse::<FieldPath>().map_err(|error| anyhow::anyhow!("fields: {error}"))?;
        }
        Ok(truth)
    }
}

/// Reads the truth files of a folder: every file `*.json`, in the order of the file names.
///
/// # Errors
/// A file is unreadable or malformed, two files name the same document, or the folder has no truth files or too many.
pub fn load(folder: &Path) -> Result<Vec<Truth>> {
    let listed = std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut paths = Vec::new();
    for entry in listed {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            ensure!(paths.len() < FILES_MAX, "{} has more than {FILES_MAX} truth files", folder.display());
            paths.push(path);
        }
    }
    paths.sort();
    let mut truths: Vec<Truth> = Vec::new();
    for path in paths {
        let truth = read(&path).with_context(|| path.display().to_string())?;
        if truths.iter().any(|other| other.document == truth.document) {
            bail!("{}: another truth file names the document {:?} too", path.display(), truth.document);
        }
        truths.push(truth);
    }
    ensure!(!truths.is_empty(), "{} has no truth files (*.json)", folder.display());
    Ok(truths)
}

fn read(path: &Path) -> Result<Truth> {
    let mut json = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES + 1).read_to_end(&mut json)?;
    Truth::parse(&json)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn truth(fields: Value) -> Value {
        json!({"document": "a.pdf", "schema": {"type": "object"}, "fields": fields})
    }

    fn problem(truth: &Value) -> String {
        Truth::parse(truth.to_string().as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_truth_file_is_parsed_and_checked() {
        let parsed = Truth::parse(truth(json!({"items.0.amount": 1.5, "iban": null})).to_string().as_bytes()).unwrap();
        assert_eq!((parsed.document.as_str(), parsed.generated, parsed.fields.len()), ("a.pdf", false, 2));
        for (change, expected) in [
            (json!({"document": "../a.pdf"}), "file name"),
            (json!({"document": ""}), "file name"),
            (json!({"schema": []}), "JSON object"),
            (json!({"fields": {}}), "must not be empty"),
            (json!({"fields": {"a..b": 1}}), "malformed"),
            (json!({"feilds": {}}), "unknown field"),
        ] {
            let mut wrong = truth(json!({"total": 1}));
            for (name, value) in change.as_object().unwrap() {
                wrong[name] = value.clone();
            }
            assert!(problem(&wrong).contains(expected), "{change}: {}", problem(&wrong));
        }
    }

    #[test]
    fn fields_and_bytes_are_bounded() {
        let fields = |count: usize| (0..count).map(|at| (format!("f{at}"), json!(at))).collect::<Value>();
        assert!(Truth::parse(truth(fields(FIELDS_MAX)).to_string().as_bytes()).is_ok());
        assert!(problem(&truth(fields(FIELDS_MAX + 1))).contains("more than 500"));
        let long = "x".repeat(FILE_BYTES as usize);
        assert!(problem(&truth(json!({"name": long}))).contains("larger than"));
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let problem = || format!("{:#}", load(folder.path()).unwrap_err());
        let write = |name: &str, document: &str| {
            let mut truth = truth(json!({"total": 1}));
            truth["document"] = json!(document);
            std::fs::write(folder.path().join(name), truth.to_string()).unwrap();
        };
        assert!(problem().contains("no truth files"));
        write("b.json", "b.pdf");
        write("a.json", "c.pdf");
        std::fs::write(folder.path().join("notes.txt"), "{").unwrap();
        let names: Vec<_> = load(folder.path()).unwrap().into_iter().map(|truth| truth.document).collect();
        assert_eq!(names, ["c.pdf", "b.pdf"]);
        write("d.json", "b.pdf");
        assert!(problem().contains("d.json") && problem().contains("b.pdf"), "{}", problem());
        for at in 0..FILES_MAX {
            write(&format!("x{at}.json"), &format!("x{at}.pdf"));
        }
        assert!(problem().contains("more than 1000"), "{}", problem());
    }
}
