//! The project's own labelled documents, generated from five layouts in three languages as PDFs with text and as scans.

use folio_testkit::{pdf, scan};

use super::content::{Content, Language};
use super::layouts::{Layout, Sheet};
use super::truth::Truth;

/// Maximum number of a set of documents.
pub const SETS_MAX: u32 = 100;
/// Distance between the seeds of two sets.
const SEEDS_PER_SET: u64 = 1_000;

/// File formats of the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A PDF with a text layer.
    Text,
    /// A PDF that contains only an image.
    Scan,
    Png,
    Tiff,
}

/// A document that the project generates.
#[derive(Debug, Clone)]
pub struct Generated {
    pub truth: Truth,
    sheet: Sheet,
    form: Form,
}

/// Returns the documents of the first set: of each layout a PDF in each language, an English scan, and a German or French scan.
pub fn all() -> Vec<Generated> {
    set(1)
}

/// Returns the documents of a set. Each set has the same layouts with other contents. `number`: 1 to [`SETS_MAX`].
pub fn set(number: u32) -> Vec<Generated> {
    let mut documents = Vec::new();
    let first = (u64::from(number) - 1) * SEEDS_PER_SET + 1;
    for (at, layout) in Layout::ALL.into_iter().enumerate() {
        let scanned = if at % 2 == 0 { Language::German } else { Language::French };
        let image = |offset: usize| [Form::Png, Form::Tiff, Form::Scan][(2 * at + offset) % 3];
        for (language, form) in [
            (Language::English, Form::Text),
            (Language::German, Form::Text),
            (Language::French, Form::Text),
            (Language::English, image(0)),
            (scanned, image(1)),
        ] {
            let mut document = Generated::new(layout, language, form, first + documents.len() as u64);
            if number > 1 {
                document.truth.document = format!("set{number}-{}", document.truth.document);
            }
            documents.push(document);
        }
    }
    documents
}

/// Returns the bytes of the document with this name. None: the project generates no such document.
///
/// # Errors
/// A scan cannot be rendered, because pdftoppm is not installed.
pub fn bytes(name: &str) -> std::io::Result<Option<Vec<u8>>> {
    let number = name.strip_prefix("set").and_then(|rest| rest.split_once('-')?.0.parse().ok());
    let documents = number.filter(|number| (1..=SETS_MAX).contains(number)).map_or_else(all, set);
    documents.iter().find(|document| document.truth.document == name).map(Generated::bytes).transpose()
}

impl Generated {
    fn new(layout: Layout, language: Language, form: Form, seed: u64) -> Self {
        let sheet = layout.sheet(&Content::new(seed, language), language);
        let code = match language {
            Language::English => "en",
            Language::German => "de",
            Language::French => "fr",
        };
        let end = match form {
            Form::Text => ".pdf",
            Form::Scan => "-scan.pdf",
            Form::Png => "-scan.png",
            Form::Tiff => "-scan.tiff",
        };
        let truth = Truth {
            document: format!("{}-{code}{end}", layout.name()),
            generated: true,
            schema: sheet.schema(),
            fields: sheet.fields.clone(),
        };
        Self { truth, sheet, form }
    }

    /// Returns the printed text.
    pub fn text(&self) -> String {
        self.sheet.to_text()
    }

    fn bytes(&self) -> std::io::Result<Vec<u8>> {
        let pdf = pdf::document(&[self.sheet.page()]);
        match self.form {
            Form::Text => Ok(pdf),
            Form::Scan => Ok(scan::pdf_of_jpeg(&scan::render(&pdf, Some("jpeg"))?, 1)),
            Form::Png => scan::render(&pdf, Some("png")),
            Form::Tiff => scan::render(&pdf, Some("tiff")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::super::truth;
    use super::*;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../samples/eval");
    /// Environment variable that makes the test write the truth files.
    const WRITE: &str = "FOLIO_WRITE_GOLDEN";

    #[test]
    fn the_truth_files_equal_those_of_the_generated_documents() {
        let mut generated: Vec<Truth> = all().into_iter().map(|document| document.truth).collect();
        if std::env::var_os(WRITE).is_some() {
            for truth in &generated {
                let json = serde_json::to_string_pretty(truth).unwrap() + "\n";
                std::fs::write(Path::new(FOLDER).join(format!("{}.json", truth.document)), json).unwrap();
            }
        }
        generated.sort_by(|a, b| a.document.cmp(&b.document));
        let mut stored = truth::load(Path::new(FOLDER)).unwrap();
        stored.sort_by(|a, b| a.document.cmp(&b.document));
        assert_eq!(stored, generated, "{WRITE}=1 writes the files");
    }

    #[test]
    fn the_documents_cover_layouts_languages_and_scans_with_125_values() {
        let documents = all();
        let names: BTreeSet<_> = documents.iter().map(|document| document.truth.document.clone()).collect();
        let count = |part: &str| names.iter().filter(|name| name.contains(part)).count();
        assert_eq!((documents.len(), names.len()), (25, 25));
        assert_eq!(["-en", "-de", "-fr"].map(count), [10, 8, 7]);
        assert_eq!(["-scan.pdf", "-scan.png", "-scan.tiff"].map(count), [3, 4, 3]);
        assert!(Layout::ALL.iter().all(|layout| count(layout.name()) == 5));
        let values = documents.iter().flat_map(|document| document.truth.fields.values());
        assert_eq!(values.clone().filter(|value| !value.is_null()).count(), 125);
        assert_eq!(values.filter(|value| value.is_null()).count(), 25);
    }

    #[test]
    fn another_set_has_the_same_layouts_and_other_contents() {
        for (first, other) in all().iter().zip(set(2)) {
            assert_eq!(other.truth.document, format!("set2-{}", first.truth.document));
            assert!(other.truth.schema == first.truth.schema && other.truth.fields != first.truth.fields);
            assert_ne!(other.text(), first.text());
        }
        assert_ne!(bytes("set2-invoice-de.pdf").unwrap(), bytes("invoice-de.pdf").unwrap());
        assert!(bytes("set2-invoice-de.pdf").unwrap().is_some());
        assert_eq!(bytes("set101-invoice-de.pdf").unwrap(), None);
    }

    #[test]
    fn each_expected_text_is_printed_and_each_schema_is_strict() {
        for document in all().into_iter().chain(set(2)).chain(set(3)) {
            let text = document.text();
            let texts = document.truth.fields.iter().filter(|(name, _)| !name.ends_with("date"));
            for (name, value) in texts.filter_map(|(name, value)| Some((name, value.as_str()?))) {
                assert!(text.contains(value), "{}: {name}: {text}", document.truth.document);
            }
            assert!(text.chars().all(|c| u32::from(c) < 256), "the PDF writer supports Latin-1: {text}");
            let violations = folio_llm::schema::check_schema(&document.truth.schema, folio_llm::schema::Rules::Strict);
            assert!(violations.is_empty(), "{violations:?}");
        }
    }

    #[test]
    fn a_pdf_is_deterministic_and_an_unknown_name_has_no_document() {
        assert_eq!(bytes("invoice-de.pdf").unwrap(), bytes("invoice-de.pdf").unwrap());
        assert!(bytes("invoice-de.pdf").unwrap().unwrap().starts_with(b"%PDF"));
        assert_eq!(bytes("other.pdf").unwrap(), None);
    }
}
