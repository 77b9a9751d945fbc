//! Tests of the dictionary tools.

use folio_resources::{DictionaryEntry, DictionaryEntryChange, NewDictionaryEntry, Provenance, Resource as _};
use folio_tools::{CallContext, ToolError};
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::{DocumentId, Timestamp};
use serde_json::json;

use crate::fixture::{Fixture, text};

async fn entry(test: &Fixture, key: &str) -> DictionaryEntry {
    let entries = test.context.resources.stores.of::<DictionaryEntry>();
    entries.by_name(&test.context.principal.org, key).await.unwrap().unwrap()
}

/// Stores an entry of a person.
async fn confirm(test: &Fixture, term: &str) {
    let new = NewDictionaryEntry {
        term: term.to_owned(),
        expansion: "Malaysia".to_owned(),
        disambiguation: None,
        tags: Vec::new(),
        sources: Vec::new(),
        provenance: Provenance::Person,
    };
    let (id, at) = (DictionaryEntry::derive_id(&[term]), Timestamp::constant(1_790_000_000, 0));
    let (org, change) = (test.context.principal.org.clone(), DictionaryEntryChange::Create(Box::new(new)));
    let write = Write::by_platform(org, "create".parse().unwrap(), at, Expected::Absent, change);
    let entries = test.context.resources.stores.of::<DictionaryEntry>();
    assert!(matches!(entries.decide(&id, write).await.unwrap(), WriteOutcome::Row(_)));
}

#[tokio::test]
async fn a_term_is_recorded_with_its_source_and_found_in_any_spelling() {
    let mut test = Fixture::new().await;
    let missing = test.ok("dictionary_lookup", json!({ "terms": ["MY"] })).await;
    assert_eq!(missing, json!({ "entries": [], "missing": ["MY"] }));
    let made = test.ok("dictionary_upsert", json!({ "term": "MY", "expansion": "Malaysia", "tags": ["APAC"] })).await;
    assert_eq!(made["name"], "MY");
    let found = test.ok("dictionary_lookup", json!({ "terms": [" ｍｙ", "SG"] })).await;
    let expected = json!({
        "term": "MY", "expansion": "Malaysia", "disambiguation": null, "tags": ["APAC"], "provenance": "agent",
        "source_document_ids": [test.document()],
    });
    assert_eq!(found, json!({ "entries": [expected], "missing": ["SG"] }));
    // Another inference replaces the meaning and keeps tags and sources.
    let other = test.add_document("other.pdf", &["MY 2026"], &[]).await;
    let inferred = json!({
        "term": "my", "expansion": "Model Year", "disambiguation": "In texts about cars.", "confidence": 0.25,
        "document_id": other,
    });
    let again = test.ok("dictionary_upsert", inferred).await;
    assert_eq!(again["dictionary_entry_id"], made["dictionary_entry_id"]);
    let found = test.ok("dictionary_lookup", json!({ "terms": ["MY"] })).await;
    let found = &found["entries"][0];
    assert_eq!((&found["expansion"], &found["confidence"]), (&json!("Model Year"), &json!(0.25)));
    assert_eq!(found["source_document_ids"], json!([test.document(), other]));
    assert_eq!((text(&found["provenance"]).as_str(), &found["tags"]), ("inferred", &json!(["APAC"])));
}

#[tokio::test]
async fn no_call_changes_a_meaning_that_a_person_confirmed() {
    let mut test = Fixture::new().await;
    confirm(&test, "MY").await;
    for arguments in [
        json!({ "term": "MY", "expansion": "Mine" }),
        json!({ "term": "my", "expansion": "Mine", "confidence": 1 }),
        json!({ "term": "ＭＹ", "expansion": "Mine", "tags": ["x"] }),
    ] {
        let message = test.error_of("dictionary_upsert", arguments).await;
        assert!(message.contains("Malaysia") && message.contains("by a person"), "{message}");
    }
    assert_eq!(entry(&test, "my").await.version, 1);
    // A person confirms the meaning while the call waits for its approval.
    test.ok("dictionary_upsert", json!({ "term": "SG", "expansion": "Singapore" })).await;
    let (context, arguments) = (test.next(), json!({ "term": "SG", "expansion": "Other" }));
    let plan = test.plan(&context, "dictionary_upsert", &arguments).await.unwrap();
    let before = entry(&test, "sg").await;
    let patch = folio_resources::DictionaryEntryPatch {
        expansion: Some("Singapore, the city".to_owned()),
        ..folio_resources::DictionaryEntryPatch::default()
    };
    let change = DictionaryEntryChange::Update(Box::new(patch));
    let at = Timestamp::constant(1_790_000_000, 0);
    let key = "confirm".parse().unwrap();
    let write = Write::by_platform(before.org.clone(), key, at, Expected::Version(before.version), change);
    test.context.resources.stores.of::<DictionaryEntry>().decide(&before.id, write).await.unwrap();
    assert_eq!(test.run(&context, "dictionary_upsert", &arguments, &plan).await, Err(ToolError::Conflict));
    assert_eq!(entry(&test, "sg").await.provenance, Provenance::Person);
}

#[tokio::test]
async fn invalid_calls_are_reported() {
    let mut test = Fixture::new().await;
    let ghost = DocumentId::derive(&["ghost"]);
    let cases = [
        (json!({ "term": " ", "expansion": "x" }), "term"),
        (json!({ "term": "x".repeat(101), "expansion": "x" }), "term"),
        (json!({ "term": "MY", "expansion": "" }), "expansion"),
        (json!({ "term": "MY", "expansion": "x", "tags": ["a;b"] }), "tags[0]"),
        (json!({ "term": "MY", "expansion": "x", "document_id": ghost }), "does not exist"),
        (json!({ "term": "MY", "expansion": "x", "document_id": "doc_1" }), "list_documents"),
    ];
    test.assert_errors("dictionary_upsert", cases).await;
    let cases = [(json!({ "terms": [] }), "at least one"), (json!({ "terms": ["MY", " "] }), "terms[1]")];
    test.assert_errors("dictionary_lookup", cases).await;
    let cases = [
        (json!({ "text": "MY", "document_id": test.document() }), "exclude each other"),
        (json!({ "document_id": ghost }), "does not exist"),
    ];
    test.assert_errors("dictionary_suggest", cases).await;
}

#[tokio::test]
async fn a_conversation_without_a_document_records_no_source() {
    let test = Fixture::new().await;
    let context = CallContext { documents: Vec::new(), ..test.next() };
    let arguments = json!({ "term": "MY", "expansion": "Malaysia" });
    test.call_in(&context, "dictionary_upsert", &arguments).await.unwrap();
    assert!(entry(&test, "my").await.sources.is_empty());
    let refused = test.call_in(&context, "dictionary_suggest", &json!({})).await.unwrap_err();
    assert!(matches!(&refused, ToolError::ForModel(text) if text.contains("no document")), "{refused:?}");
}

#[tokio::test]
async fn abbreviations_without_an_entry_are_suggested_with_their_contexts() {
    let mut test = Fixture::new().await;
    test.ok("dictionary_upsert", json!({ "term": "SG", "expansion": "Singapore" })).await;
    let words = "Sales in MY and SG rose. MY leads. The Gross Domestic Product (GDP) fell.";
    let found = test.ok("dictionary_suggest", json!({ "text": words })).await;
    let token = &found["tokens"][0];
    assert_eq!((&token["token"], &token["count"]), (&json!("MY"), &json!(2)));
    assert_eq!(token["contexts"].as_array().unwrap().len(), 2, "{token}");
    assert_eq!((found["tokens"].as_array().unwrap().len(), &found["known"]), (1, &json!(["SG"])));
    let document = test.add_document("report.txt", &["The VAT is due.", "VAT again, HQ."], &[]).await;
    let found = test.ok("dictionary_suggest", json!({ "document_id": document })).await;
    let tokens: Vec<_> = found["tokens"].as_array().unwrap().iter().map(|token| token["token"].clone()).collect();
    assert_eq!((tokens, found.get("truncated")), (vec![json!("VAT"), json!("HQ")], None));
    assert_eq!(test.ok("dictionary_suggest", json!({})).await["tokens"], json!([]), "the document of the thread");
    let letters = || ('A'..='Z').flat_map(|a| ('A'..='Z').map(move |b| format!("x {a}{b}")));
    let many: Vec<String> = letters().take(100).collect();
    let found = test.ok("dictionary_suggest", json!({ "text": many.join(" ") })).await;
    assert_eq!((found["tokens"].as_array().unwrap().len(), &found["more"]), (30, &json!(70)));
}
