//! Extraction with an OpenAI-compatible endpoint that the environment names: `FOLIO_TEST_MODEL_URL`, `FOLIO_TEST_MODEL` and,
//! if the endpoint needs one, the API key `FOLIO_TEST_MODEL_KEY`.

use folio_testkit::invoice::sample_invoice;
use folio_testkit::office::docx;
use serde_json::{Value, json};

use crate::command_line::{folio, text};

#[test]
fn an_endpoint_of_the_environment_extracts_a_pdf_and_an_office_file() {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(url), Some(model)) = (variable("FOLIO_TEST_MODEL_URL"), variable("FOLIO_TEST_MODEL")) else {
        eprintln!("skipped: FOLIO_TEST_MODEL_URL and FOLIO_TEST_MODEL name no OpenAI-compatible endpoint");
        return;
    };
    let key = variable("FOLIO_TEST_MODEL_KEY").unwrap_or_else(|| "none".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("invoice.pdf", &sample_invoice());
    write("invoice.docx", &docx(&["Invoice 17 of Nordwind Energie"], ["Total", "957.00"]));
    let schema = json!({
        "type": "object", "properties": {"total": {"type": ["number", "null"]}}, "required": ["total"],
        "additionalProperties": false,
    });
    write("schema.json", schema.to_string().as_bytes());
    let arguments =
        ["extract", "invoice.pdf", "invoice.docx", "--schema", "schema.json", "--model", model.as_str(), "--json"];
    let environment = [("OPENAI_BASE_URL", url.as_str()), ("OPENAI_API_KEY", key.as_str())];
    let output = folio(folder.path(), &arguments, &environment, "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(records.len(), 2, "{records:?}");
    for record in &records {
        let total = &record["data"]["total"];
        assert!(total.is_number() || total.is_null(), "{record}");
        let citations = record["citations"].as_array().expect("citations");
        // The total of both files is printed as 957.00; a model may return another number, which has no citation of it.
        let has_total =
            citations.iter().any(|found| found["quote"].as_str().is_some_and(|quote| quote.contains("957")));
        assert!(has_total || *total != json!(957.0), "{record}");
    }
}
