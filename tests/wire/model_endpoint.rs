//! Real files with an OpenAI-compatible endpoint that the environment names: `FOLIO_TEST_MODEL_URL`, `FOLIO_TEST_MODEL` and,
//! if the endpoint needs one, the API key `FOLIO_TEST_MODEL_KEY`. `cargo xtask eval model` sets them.
//!
//! A model may read a value wrong. Therefore the tests check the rules of the server: each run ends, and a cited value is the
//! printed one. With `FOLIO_TEST_MODEL_EXACT`, the answers of the assistant must have the values of its specification.

use std::time::Duration;

use folio_proto::v1;
use folio_testkit::invoice::sample_invoice;
use folio_testkit::office::docx;
use serde_json::{Value, json};

use crate::assistant;
use crate::client::Client;
use crate::command_line::{folio, text};
use crate::process::Process;
use crate::real_documents::{Sample, create_prompt, extraction, proposal, run_agent, run_batch, samples, upload};

/// Maximum time of a run. A small model may need minutes for a document.
const RUN_LIMIT: Duration = Duration::from_secs(1_200);
/// The files of the runs: a PDF with several pages, a scan and a workbook.
const FILES: [&str; 3] = ["contract.pdf", "scan.png", "order.xlsx"];

/// An endpoint that the environment names.
struct Endpoint {
    url: String,
    model: String,
    key: String,
}

impl Endpoint {
    /// None: the environment names no endpoint, and the test is skipped.
    fn of_environment() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (Some(url), Some(model)) = (variable("FOLIO_TEST_MODEL_URL"), variable("FOLIO_TEST_MODEL")) else {
            eprintln!("skipped: FOLIO_TEST_MODEL_URL and FOLIO_TEST_MODEL name no OpenAI-compatible endpoint");
            return None;
        };
        Some(Self { url, model, key: variable("FOLIO_TEST_MODEL_KEY").unwrap_or_else(|| "none".to_owned()) })
    }

    fn variables(&self) -> [(&str, &str); 2] {
        [("OPENAI_BASE_URL", self.url.as_str()), ("OPENAI_API_KEY", self.key.as_str())]
    }
}

#[test]
fn an_endpoint_of_the_environment_extracts_a_pdf_and_an_office_file() {
    let Some(endpoint) = Endpoint::of_environment() else { return };
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("invoice.pdf", &sample_invoice());
    write("invoice.docx", &docx(&["Invoice 17 of Nordwind Energie"], ["Total", "957.00"]));
    let schema = json!({
        "type": "object", "properties": {"total": {"type": ["number", "null"]}}, "required": ["total"],
        "additionalProperties": false,
    });
    write("schema.json", schema.to_string().as_bytes());
    let arguments = [
        "extract",
        "invoice.pdf",
        "invoice.docx",
        "--schema",
        "schema.json",
        "--model",
        endpoint.model.as_str(),
        "--json",
    ];
    let output = folio(folder.path(), &arguments, &endpoint.variables(), "");
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

/// Checks that an extraction with the printed total cites it.
fn check(sample: &Sample, extraction: &v1::Extraction) {
    let data: Value = serde_json::from_str(&extraction.original_json).unwrap();
    let is_cited = extraction.citations.iter().any(|citation| citation.path == "total");
    assert!(is_cited || data["total"].as_f64() != Some(sample.total), "{}: {extraction:?}", sample.name);
}

#[tokio::test]
async fn an_endpoint_of_the_environment_runs_automatic_creation_the_agent_and_a_batch() {
    let Some(endpoint) = Endpoint::of_environment() else { return };
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--model", endpoint.model.as_str()];
    let timeouts = [
        ("FOLIO_MODELS__TIMEOUTS__FIRST_TOKEN_SECONDS", "600"),
        ("FOLIO_MODELS__TIMEOUTS__CALL_SECONDS", "900"),
        ("FOLIO_AUTO_CREATE__RUNNING_TIME_SECONDS", "1200"),
    ];
    let variables = [&endpoint.variables()[..], &timeouts].concat();
    let server = Process::start("folio", folder.path(), &arguments, &variables);
    let token = std::fs::read_to_string(folder.path().join("data/admin.token")).unwrap();
    let client = Client::try_connect_with(&server.url(), Some(token.trim()), RUN_LIMIT).await.unwrap();
    let mut uploaded = Vec::new();
    for sample in samples().into_iter().filter(|sample| FILES.contains(&sample.name.as_str())) {
        let document = upload(&client, &sample).await;
        uploaded.push((sample, document));
    }
    assert_eq!(uploaded.len(), FILES.len());
    for (sample, document) in &uploaded {
        let proposal = proposal(&client, document, RUN_LIMIT).await;
        match proposal.state() {
            v1::ProposalState::Proposed => assert!(!proposal.extraction_id.is_empty(), "{proposal:?}"),
            state => {
                assert_eq!(state, v1::ProposalState::Failed, "{}: {proposal:?}", sample.name);
                eprintln!("{}: the model made no proposal: {}", sample.name, proposal.reason);
            }
        }
    }
    let prompt = create_prompt(&client).await;
    for (sample, document) in &uploaded {
        let extraction = run_agent(&client, document, &prompt).await.extraction.expect("an extraction");
        match extraction.state() {
            v1::ExtractionState::Completed => check(sample, &extraction),
            state => {
                assert_eq!(state, v1::ExtractionState::Failed, "{}", sample.name);
                eprintln!("{}: the agent did not complete the extraction: {}", sample.name, extraction.failure);
            }
        }
    }
    let items = run_batch(&client, uploaded.iter().map(|(_, document)| document.clone()).collect(), &prompt).await;
    for (sample, document) in &uploaded {
        let item = &items[document];
        match item.state() {
            v1::JobItemState::Done => {
                let result: Value = serde_json::from_str(&item.result_json).unwrap();
                let id = result["extraction_id"].as_str().expect("an extraction");
                check(sample, &extraction(&client, id).await);
            }
            state => {
                assert_eq!(state, v1::JobItemState::Failed, "{}", sample.name);
                eprintln!("{}: the item of the batch failed: {:?}", sample.name, item.error);
            }
        }
    }
    assert!(server.terminate());
}

/// A model may classify or answer wrong, so that the test checks the rules of the server: sources are documents that the turn
/// retrieved, and a result is that of the calculator.
#[tokio::test]
async fn an_endpoint_of_the_environment_answers_as_the_assistant() {
    let Some(endpoint) = Endpoint::of_environment() else { return };
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--model", endpoint.model.as_str()];
    let timeouts =
        [("FOLIO_MODELS__TIMEOUTS__FIRST_TOKEN_SECONDS", "600"), ("FOLIO_MODELS__TIMEOUTS__CALL_SECONDS", "900")];
    let server = Process::start("folio", folder.path(), &arguments, &[&endpoint.variables()[..], &timeouts].concat());
    let token = std::fs::read_to_string(folder.path().join("data/admin.token")).unwrap();
    let (url, token) = (server.url(), token.trim());
    let client = Client::try_connect_with(&url, Some(token), RUN_LIMIT).await.unwrap();
    let documents = assistant::upload(&client).await;
    let environment = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token)];
    assistant::wait_for_index(folder.path(), &environment, &documents).await;
    let mut deviations = Vec::new();
    for text in [assistant::EXPENSE, assistant::RISKS, assistant::MARGIN] {
        let events = client.send(assistant::question("", text)).await.unwrap().end().await;
        match events.last().and_then(|event| event.kind.clone()) {
            Some(v1::event::Kind::Completed(completed)) => {
                let answer = assistant::answer(&completed);
                eprintln!("{}: {answer}", completed.answer_type);
                if !assistant::is_exact(text, &completed, &documents) {
                    deviations.push(format!("{text} {answer}"));
                }
                let sources = answer["sources"].as_array().expect("sources");
                assert!(sources.iter().all(|source| documents.iter().any(|id| source == id)), "{answer}");
                if completed.answer_type == "CalculationResponse" && answer["expression"] == "4200 - (1200 + 0.12*4200)"
                {
                    assert_eq!(answer["result"].to_string().trim_matches('"'), "2496");
                }
            }
            Some(v1::event::Kind::Failed(failed)) => {
                let reason = failed.error.unwrap_or_default().reason;
                assert!(["ANSWER_INVALID", "NO_PROGRESS"].contains(&reason.as_str()), "{reason}");
                deviations.push(format!("{text} {reason}"));
            }
            other => panic!("{other:?}"),
        }
    }
    eprintln!("{} of 3 answers have the values of the specification: {deviations:#?}", 3 - deviations.len());
    let must_be_exact = std::env::var("FOLIO_TEST_MODEL_EXACT").is_ok_and(|value| !value.is_empty());
    assert!(deviations.is_empty() || !must_be_exact, "{deviations:#?}");
}
