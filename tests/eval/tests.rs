//! The offline rules on the project's own documents: all of them as text, and some through the program `eval`.

use std::process::Command;

use folio_tests::eval::comparison::Comparison;
use folio_tests::eval::intents::Matrix;
use folio_tests::eval::report::{DocumentResult, Evidence, Report};
use folio_tests::eval::retrieval::{QuestionKind, report::Report as RetrievalReport};
use folio_tests::eval::{Endpoint, bare, documents};
use folio_tests::harness::process::binary;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../samples/eval");
/// Minimum precision of the offline rules: a missing value is better than a wrong one.
const PRECISION_MIN: f64 = 0.9;

/// Runs the program on the documents whose names contain `filter`. Returns the report and the printed tables.
fn evaluated(filter: &str, more: &[&str]) -> (Report, String) {
    let arguments = [&["--truth", FOLDER, "--filter", filter], more].concat();
    let output = Command::new(binary("eval")).args(arguments).output().expect("the program starts");
    let tables = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{tables}");
    println!("{tables}");
    (serde_json::from_slice(&output.stdout).expect("stdout is one JSON object"), tables)
}

fn evaluate(filter: &str, more: &[&str]) -> Report {
    evaluated(filter, more).0
}

#[tokio::test]
async fn the_offline_rules_are_precise_on_the_texts_of_all_documents() {
    let (endpoint, _sim) = Endpoint::offline().await.expect("the offline rules start");
    let mut results = Vec::new();
    for document in documents::all() {
        let answer = bare::extract(&endpoint, &document.text(), &document.truth.schema).await;
        results.push(DocumentResult::new(&document.truth, answer.map_err(|error| format!("{error:#}"))));
    }
    let report = Report::new("bare", &endpoint.base_url, &endpoint.model, results);
    assert!(report.precision.is_some_and(|precision| precision >= PRECISION_MIN), "{report}");
    assert!(report.recall.is_some_and(|recall| recall >= 0.8), "{report}");
    assert!(report.documents.iter().all(|document| document.error.is_none()), "{report}");
}

#[test]
fn the_offline_rules_classify_labelled_questions() {
    let output =
        Command::new(binary("eval-intents")).args(["--questions", &format!("{FOLDER}/intents.jsonl")]).output();
    let output = output.expect("the program starts");
    let tables = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && tables.contains("precision"), "{tables}");
    println!("{tables}");
    let matrix: Matrix = serde_json::from_slice(&output.stdout).expect("stdout is one JSON object");
    let (all, right) = matrix.totals();
    // Only requests for a summary and expressions are recognized; other messages with words are questions.
    assert!(all >= 60 && right * 3 >= all && matrix.defaults == 0, "{tables}");
}

#[test]
fn pdfs_and_scans_of_a_layout_are_extracted_by_a_server() {
    let report = evaluate("items-", &[]);
    assert_eq!((report.mode.as_str(), report.documents.len()), ("folio", 5), "{report}");
    assert!(report.documents.iter().all(|document| document.error.is_none()), "{report}");
    assert!(report.precision.is_some_and(|precision| precision >= PRECISION_MIN), "{report}");
    assert!(report.recall.is_some_and(|recall| recall >= 0.6), "{report}");
    for document in &report.documents {
        let cost = document.cost;
        assert!(
            cost.windows == 1 && cost.model_calls >= 1 && cost.input_tokens > 0 && cost.output_tokens > 0,
            "{report}"
        );
        assert!(cost.credits >= 1, "{report}");
    }
}

#[test]
fn the_expected_values_of_other_documents_are_examples() {
    let report = evaluate("items-en", &["--examples", "1"]);
    let without = report.baseline.as_deref().expect("the documents are extracted without examples, too");
    assert_eq!((report.mode.as_str(), without.mode.as_str(), report.documents.len()), ("examples", "folio", 2));
    assert_eq!(without.cost.examples, 0, "{without}");
    assert!((1..=2).contains(&report.cost.examples), "{report}");
    assert_eq!(report.counts, without.counts, "the offline rules ignore examples: {without}{report}");
    assert!(report.cost.input_tokens > without.cost.input_tokens, "{without}{report}");
}

#[test]
fn the_agent_extracts_the_same_documents() {
    let (report, tables) = evaluated("items-en.pdf", &["--agent"]);
    let baseline = report.baseline.as_deref().expect("the documents are extracted without the agent, too");
    assert_eq!(
        (report.mode.as_str(), baseline.mode.as_str(), report.documents.len()),
        ("agent", "folio", 1),
        "{report}"
    );
    assert!(report.documents.iter().all(|document| document.error.is_none()), "{report}");
    assert_eq!(report.counts, baseline.counts, "both use the same rules: {baseline}{report}");
    // The offline rules read the text, save the fields, complete the extraction, and answer.
    assert_eq!((baseline.cost.model_calls, report.cost.model_calls), (1, 4), "{baseline}{report}");
    for (more, fewer) in [
        (report.cost.input_tokens, baseline.cost.input_tokens),
        (report.cost.output_tokens, baseline.cost.output_tokens),
        (report.cost.credits, baseline.cost.credits),
    ] {
        assert!(more > fewer && fewer > 0, "{baseline}{report}");
    }
    let comparison = Comparison::of(&report).expect("a baseline").to_string();
    assert!(tables.ends_with(&format!("{comparison}\n")), "{tables}");
}

#[test]
fn a_bare_call_of_the_same_rules_finds_the_same_values() {
    let (bare, folio) = (evaluate("items-en.pdf", &["--bare"]), evaluate("items-en.pdf", &[]));
    assert_eq!((bare.mode.as_str(), bare.documents.len()), ("bare", 1), "{bare}");
    let values = |report: &Report| {
        let fields = report.documents[0].fields.iter().map(|field| (field.path.clone(), field.extracted.clone()));
        fields.collect::<Vec<_>>()
    };
    assert_eq!(values(&bare), values(&folio), "{bare}{folio}");
    assert_eq!(bare.evidence, Evidence::default());
    assert_eq!(folio.evidence, Evidence { located: 5, ..Evidence::default() }, "{folio}");
    assert_eq!(bare.cost.credits, 0);
}

/// Runs the program `eval retrieval`. Returns the report.
fn evaluated_retrieval(more: &[&str]) -> RetrievalReport {
    let output = Command::new(binary("eval")).arg("retrieval").args(more).output().expect("the program starts");
    let tables = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{tables}");
    println!("{tables}");
    serde_json::from_slice(&output.stdout).expect("stdout is one JSON object")
}

#[test]
fn searches_of_the_generated_set_find_words_and_codes() {
    let report = evaluated_retrieval(&["--index"]);
    assert!(report.documents >= 40 && report.questions >= 120 && report.passages >= report.documents, "{report}");
    let recall = |mode: &str, kind: QuestionKind| {
        report.mode(mode).and_then(|result| result.kinds.get(&kind)).map(|means| means.recall_at_10)
    };
    for (mode, codes_min) in [("lexical", 0.9), ("hybrid", 0.7)] {
        assert!(recall(mode, QuestionKind::Words).is_some_and(|recall| recall >= 0.9), "{report}");
        assert!(recall(mode, QuestionKind::Code).is_some_and(|recall| recall >= codes_min), "{report}");
    }
    // Without common words, neither words nor hashes of words find a passage, except by chance.
    for mode in ["lexical", "dense"] {
        assert!(recall(mode, QuestionKind::Paraphrase).is_some_and(|recall| recall < 0.5), "{report}");
    }
}

#[test]
fn a_public_set_is_evaluated_by_documents_through_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = [
        (
            "corpus.jsonl",
            "{\"_id\": \"d1\", \"title\": \"Whales\", \"text\": \"Whales breathe air.\"}\n{\"_id\": \"d2\", \"text\": \"Iron rusts.\"}\n",
        ),
        ("queries.jsonl", "{\"_id\": \"q1\", \"text\": \"Do whales breathe air?\"}\n"),
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n"),
    ];
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("the file is written");
    }
    let report = evaluated_retrieval(&["--folder", &folder.path().to_string_lossy()]);
    assert_eq!((report.documents, report.questions), (2, 1), "{report}");
    assert!(report.modes.iter().all(|result| result.means.ndcg_at_10 == 1.0) && report.is_hybrid_best(), "{report}");
}
