//! The boxes of extracted values in the project's own documents, compared with an independent reading (pdftotext).

use folio_proto::v1;
use folio_testkit::invoice::sample_invoice;
use folio_testkit::pdf_words::{self, PdfWord};
use folio_tests::eval::documents;
use serde_json::Value;

use crate::client::Client;
use crate::command_line::{folio, text};
use crate::process::Process;
use crate::within;

/// Number of characters in the box of a word, in addition to twice the word. The reference may join a word with its neighbours.
const FURTHER_CHARS: usize = 8;

/// Returns true if the box of a located word contains the same word in the reading of the reference, and no other line. The
/// reference may divide a word into several words: the words in the box must then compose the located word.
fn contains_word(area: &v1::BoundingBox, word: &str, page: &[PdfWord]) -> bool {
    let (left, top, right, bottom) =
        (f64::from(area.left), f64::from(area.top), f64::from(area.right), f64::from(area.bottom));
    let is_inside = |found: &&PdfWord| {
        let (x, y) = ((found.left + found.right) / 2.0, (found.top + found.bottom) / 2.0);
        (left..=right).contains(&x) && (top..=bottom).contains(&y)
    };
    let inside: String = page.iter().filter(is_inside).map(|found| found.text.as_str()).collect();
    inside.contains(word) && inside.chars().count() <= 2 * word.chars().count() + FURTHER_CHARS
}

#[tokio::test]
async fn the_box_of_each_located_word_contains_the_word() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Without a model endpoint, the offline model answers.
    let server = Process::start("folio", folder, &["serve", "--listen", "127.0.0.1:0", "--data", "data"], &[]);
    let (url, token) = (server.url(), std::fs::read_to_string(folder.join("data/admin.token")).unwrap());
    let variables = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.trim())];
    let client = Client::connect(&url, Some(token.trim())).await;
    let is_text = |name: &str| name.ends_with(".pdf") && !name.contains("-scan");
    let truths = documents::all().into_iter().map(|document| document.truth);
    let mut files = vec![("sample-invoice.pdf".to_owned(), sample_invoice(), None)];
    files.extend(truths.filter(|truth| is_text(&truth.document)).map(|truth| {
        let bytes = documents::bytes(&truth.document).unwrap().expect("a document");
        (truth.document, bytes, Some(truth.schema))
    }));
    let mut located = 0;
    for (name, bytes, schema) in &files {
        std::fs::write(folder.join(name), bytes).unwrap();
        let mut arguments = vec!["extract", name, "--output", "jsonl"];
        // Without a schema, one is derived.
        if let Some(schema) = schema {
            std::fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
            arguments.extend(["--schema", "schema.json"]);
        }
        let output = folio(folder, &arguments, &variables, "");
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        let request =
            v1::GetExtractionRequest { extraction_id: record["extraction_id"].as_str().expect("an id").to_owned() };
        let found = within("an extraction", client.extractions.clone().get_extraction(request)).await.unwrap();
        let extraction = found.into_inner().extraction.expect("an extraction");
        let pages = pdf_words::words(bytes).unwrap();
        for citation in &extraction.citations {
            let words: Vec<&str> = citation.quote.split_whitespace().collect();
            assert_eq!(words.len(), citation.boxes.len(), "{name}: {citation:?}");
            let page = &pages[citation.page as usize - 1];
            for (word, area) in words.iter().zip(&citation.boxes) {
                assert!(contains_word(area, word, page), "{name}: {word:?} at {area:?} of {}", citation.path);
                located += 1;
            }
        }
    }
    assert!(located > 5 * files.len(), "{located} words in {} documents", files.len());
    assert!(server.terminate());
}
