//! Searches and answers of the command line, with the vectors, the order and the answers of llm-sim.

use std::path::Path;

use folio_testkit::wait_for;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::command_line::{folio, text};
use crate::sandbox::{Sandbox, Setup};

/// The model answers each question with a citation, and with one that does not occur in the passage.
const SCRIPT: &str = r#"
rules:
  - answer:
      text: '{"answer": "Within 30 days [1], with a discount [1].", "citations": [{"passage": 1, "quote": "payable within 30 days"}, {"passage": 1, "quote": "a discount of 5 %"}]}'
"#;

async fn start() -> Sandbox {
    let sandbox = Setup::new(SCRIPT)
        .with("FOLIO_MODELS__PROVIDERS__SIM__MODELS__VECTORS__KIND", "embedding")
        .with("FOLIO_MODELS__PROVIDERS__SIM__MODELS__RATES__KIND", "rerank")
        .with("FOLIO_MODELS__DEFAULT_RERANK_MODEL", "rates")
        .start()
        .await;
    printed(&sandbox, &["login", &sandbox.url()], &format!("{}\n", sandbox.token()));
    sandbox
}

fn printed(sandbox: &Sandbox, arguments: &[&str], input: &str) -> String {
    let folder: &Path = sandbox.folder();
    let output = folio(folder, arguments, &[], input);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json_of(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let out = printed(sandbox, &[arguments, &["--output", "json"]].concat(), "");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
}

#[tokio::test]
async fn documents_are_found_by_words_and_meaning_and_questions_are_answered() {
    let sandbox = start().await;
    let client = sandbox.client().await;
    let terms = client.upload("terms.txt", b"Invoices are payable within 30 days after their receipt.").await;
    client.upload("weather.txt", b"It rained all day at the coast.").await;
    let found = wait_for("the documents are indexed with vectors", LIMIT, || async {
        let found = json_of(&sandbox, &["search", "payable", "invoices"]);
        let ranks = found.as_array().unwrap().iter().filter(|passage| passage["dense"].is_object()).count();
        (ranks == 2).then_some(found)
    })
    .await;
    let first = &found[0];
    assert_eq!((&first["document_id"], &first["page"]), (&json!(terms), &json!(1)), "{found}");
    assert_eq!((&first["lexical"]["rank"], &first["dense"]["rank"]), (&json!(1), &json!(1)), "{found}");
    assert_eq!(first["highlights"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found[1]["lexical"], Value::Null, "the other document has no word of the query");
    let table = printed(&sandbox, &["search", "payable invoices"], "");
    assert!(table.starts_with("DOCUMENT_NAME") && table.contains("terms.txt"), "{table}");

    let ranked = json_of(&sandbox, &["search", "payable invoices", "--rerank", "--limit", "1"]);
    assert!(ranked[0]["relevance"].is_number() && ranked.as_array().unwrap().len() == 1, "{ranked}");
    let of_weather = json_of(&sandbox, &["search", "payable invoices", "--document", "weather.txt"]);
    assert_eq!((of_weather.as_array().unwrap().len(), &of_weather[0]["document_name"]), (1, &json!("weather.txt")));
    assert_eq!(json_of(&sandbox, &["search", "payable", "--until", "2020-01-01T00:00:00Z"]), json!([]));
    let section = printed(&sandbox, &["document", "section", first["section_id"].as_str().unwrap()], "");
    assert!(section.contains("payable within 30 days"), "{section}");

    let question = ["search", "--answer", "When are invoices payable?"];
    let answer = json_of(&sandbox, &question);
    assert_eq!(
        (&answer["answer"], &answer["removed_citations"]),
        (&json!("Within 30 days [1], with a discount [1]."), &json!(1))
    );
    assert_eq!(answer["citations"].as_array().unwrap().len(), 1);
    assert_eq!(answer["citations"][0]["document_id"], json!(terms));
    let shown = printed(&sandbox, &question, "");
    assert!(shown.contains("[1] terms.txt, page 1: \"payable within 30 days\""), "{shown}");
}

#[tokio::test]
async fn a_collection_restricts_a_search_to_the_documents_of_its_rule() {
    let sandbox = start().await;
    let client = sandbox.client().await;
    let terms = client.upload("terms.txt", b"Invoices are payable within 30 days after their receipt.").await;
    client.upload("other.txt", b"Rents are payable in advance.").await;
    printed(&sandbox, &["tag", "create", "contracts"], "");
    printed(&sandbox, &["document", "tag", "terms.txt", "--add", "contracts"], "");
    let made = json_of(&sandbox, &["collection", "create", "Terms", "--tag", "contracts"]);
    assert_eq!(json_of(&sandbox, &["collection", "show", "terms"]), made);
    let members = json_of(&sandbox, &["collection", "documents", "terms"]);
    assert_eq!((members.as_array().unwrap().len(), &members[0]["document_id"]), (1, &json!(terms)), "{members}");
    let found = wait_for("the tag of the document is indexed", LIMIT, || async {
        let found = json_of(&sandbox, &["search", "payable", "--collection", "terms"]);
        (found != json!([])).then_some(found)
    })
    .await;
    assert_eq!((found.as_array().unwrap().len(), &found[0]["document_id"]), (1, &json!(terms)), "{found}");

    let changed = json_of(&sandbox, &["collection", "update", "Terms", "--no-tags", "--metadata", "year=2026"]);
    assert_eq!((&changed["collection_id"], &changed["tag_ids"]), (&made["collection_id"], &json!([])), "{changed}");
    assert_eq!(changed["metadata"], json!({"year": "2026"}));
    assert_eq!(json_of(&sandbox, &["search", "payable", "--collection", "Terms"]), json!([]));
    printed(&sandbox, &["collection", "rm", "Terms"], "");
    assert_eq!(json_of(&sandbox, &["collection", "list"]), json!([]));
}
