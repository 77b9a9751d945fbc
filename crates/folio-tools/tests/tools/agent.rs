//! Tests of the tools of the profile `extraction`, on a document with two pages.

use folio_resources::{
    AgentStep, CitationKind, Document, Extraction, ExtractionChange, ExtractionReport, ExtractionState, NewExtraction,
};
use folio_storage::NewPage;
use folio_storage::value::TextGap;
use folio_tools::extraction::{apply_edit, check_again, check_replacement, end_run};
use folio_tools::{Registry, ToolError};
use folio_types::op::{ClosedAs, Expected, OpKey, OpRow, OpState, Write, WriteOutcome};
use folio_types::profile::Subject;
use folio_types::{Digest, ExtractionId, Reason, SchemaRevId, ThreadId, limits};
use serde_json::{Value, json};

use crate::fixture::{Fixture, format_of, text};

/// A turn about an extraction in progress, with a prompt whose schema has these properties. None: without a schema.
async fn begun(properties: Option<Value>) -> (Fixture, ExtractionId) {
    let mut test = Fixture::new().await;
    let mut prompt = json!({ "name": "Invoice", "content": "Read the invoice." });
    if let Some(properties) = properties {
        let format = format_of(properties);
        let schema = test.ok("create_schema", json!({ "name": "Invoice", "response_format": format })).await;
        prompt["schema_id"] = schema["schema_id"].clone();
    }
    let made = test.ok("create_prompt", prompt).await;
    let new = NewExtraction {
        document: test.document(),
        prompt: text(&made["prompt_revid"]).parse().unwrap(),
        schema: made["schema_revid"].as_str().map(|revid| revid.parse::<SchemaRevId>().unwrap()),
        model: "base".to_owned(),
        data: json!({}),
        report: ExtractionReport::default(),
        approvals: None,
    };
    let id = ExtractionId::derive(&["agent"]);
    let (org, at) = (test.context.principal.org.clone(), test.context.resources.environment.now());
    let change = ExtractionChange::Begin(Box::new(new), test.context.call.turn.thread.clone());
    let write = Write::by_platform(org, "begin".parse().unwrap(), at, Expected::Absent, change);
    let extractions = test.context.resources.stores.of::<Extraction>();
    assert!(matches!(extractions.decide(&id, write).await.unwrap(), WriteOutcome::Row(_)));
    test.tools = Registry::standard().unwrap().profile("extraction").unwrap();
    test.context.subject = Some(Subject::Extraction(id.clone()));
    (test, id)
}

/// Starts a further run of the agent, in a thread.
async fn start_run(test: &Fixture, id: &ExtractionId, thread: ThreadId) {
    let start = AgentStep::Start { thread };
    test.write_extraction(id.as_str(), ExtractionChange::Agent(Box::new(start))).await;
}

fn total(value: Value, confidence: f64, quote: &str) -> Value {
    json!({
        "fields": { "total": value },
        "confidences": { "total": confidence },
        "citations": { "total": { "page": 1, "quote": quote } },
    })
}

#[tokio::test]
async fn each_call_is_stored_at_once_and_the_extraction_is_completed_at_the_end() {
    let (mut test, id) = begun(Some(json!({ "total": { "type": "number" }, "number": { "type": "string" } }))).await;
    let read = test.ok("get_document_text", json!({})).await;
    let expected =
        "Document (2 pages):\n\n--- page 1 ---\nInvoice INV-7\nTotal: 120.50\n--- page 2 ---\nSecond page: thank you\n";
    assert_eq!(read, json!({ "pages": 2, "text": expected }));
    let result = test.ok("identify_document", json!({ "document_type": " invoice ", "confidence": 0.9 })).await;
    assert_eq!(result, json!({ "result": "Document identified as 'invoice' (confidence: 0.9)" }));
    let result = test.ok("extract_fields", total(json!(120.5), 0.75, "Total: 120.50")).await;
    assert_eq!(result, json!({ "result": "Saved 1 fields to database" }));
    let partial = test.extraction(&id).await;
    assert_eq!((partial.state(), partial.current()), (ExtractionState::InProgress, &json!({ "total": 120.5 })));
    assert_eq!(partial.report.citations[0].kind, CitationKind::Cited);
    let error = test.error_of("complete_extraction", json!({})).await;
    assert!(
        error.starts_with("Cannot complete: the fields do not match the schema:\n") && error.contains("number"),
        "{error}"
    );
    let result = test.ok("update_field", json!({ "path": "number", "value": "INV-7", "confidence": 1 })).await;
    assert_eq!(result, json!({ "result": "Updated 'number' = \"INV-7\" (confidence: 1)" }));
    let current = test.ok("get_current_extraction", json!({})).await;
    let expected = json!({
        "status": "in_progress",
        "document_type": "invoice",
        "extracted_fields": { "total": 120.5, "number": "INV-7" },
        "confidence_scores": { "total": 0.75, "number": 1.0 },
        "citations": { "total": { "page": 1, "quote": "Total: 120.50" }, "number": null },
    });
    assert_eq!(current, expected);
    let result = test.ok("complete_extraction", json!({})).await;
    assert_eq!(result, json!({ "result": "Extraction complete. 2 fields saved." }));
    let completed = test.extraction(&id).await;
    assert_eq!((completed.state(), completed.version), (ExtractionState::Completed, 5));
    let coverage = &completed.report.coverage;
    assert_eq!((coverage.pages, coverage.located, coverage.cited, coverage.inferred), (2, 2, 1, 0));
    assert_eq!(completed.agent.unwrap().document_type.unwrap().name, "invoice");
    let error = test.error_of("remove_field", json!({ "path": "total" })).await;
    assert_eq!(error, "The extraction is completed, so it cannot be changed. End your turn.");
    assert!(test.models.requests().is_empty(), "no tool calls a model");
}

#[tokio::test]
async fn a_person_may_edit_partial_data_and_the_schema_is_enforced_once_it_is_complete() {
    let (mut test, id) = begun(Some(json!({ "total": { "type": "number" }, "number": { "type": "string" } }))).await;
    test.ok("extract_fields", total(json!(120.5), 0.75, "Total: 120.50")).await;
    let stores = test.context.resources.stores.clone();
    let partial = test.extraction(&id).await;
    let edited = apply_edit(&stores, &partial, "total", json!(99)).await.unwrap();
    assert_eq!(edited, json!({ "total": 99 }));
    check_replacement(&stores, &partial, "data", &json!({})).await.unwrap();
    test.ok("update_field", json!({ "path": "number", "value": "INV-7", "confidence": 1 })).await;
    test.ok("complete_extraction", json!({})).await;
    let completed = test.extraction(&id).await;
    let refused = apply_edit(&stores, &completed, "total", json!("x")).await.unwrap_err();
    assert_eq!(refused.reason, Reason::SchemaMismatch);
    let refused = check_replacement(&stores, &completed, "data", &json!({})).await.unwrap_err();
    assert_eq!(refused.reason, Reason::SchemaMismatch);
}

#[tokio::test]
async fn nested_fields_are_merged_updated_and_removed() {
    let (mut test, id) = begun(None).await;
    let error = test.error_of("complete_extraction", json!({})).await;
    assert_eq!(error, "Cannot complete: no fields extracted");
    for (fields, confidences) in [
        (
            json!({ "seller": { "name": "A" }, "items": [{ "n": 1 }] }),
            json!({ "seller": { "name": 1 }, "items": [{ "n": 0.5 }] }),
        ),
        (json!({ "seller": { "city": "B" } }), json!({ "seller": { "city": 0.25 } })),
    ] {
        test.ok("extract_fields", json!({ "fields": fields, "confidences": confidences })).await;
    }
    let item = json!({ "path": "items[1]", "value": { "n": 2, "unit": "kg" }, "confidence": 0.125 });
    test.ok("update_field", item).await;
    let result = test.ok("remove_field", json!({ "path": "items[0]" })).await;
    assert_eq!(result, json!({ "result": "Removed field at 'items[0]'" }));
    let stored = test.extraction(&id).await;
    let expected = json!({ "seller": { "name": "A", "city": "B" }, "items": [{ "n": 2, "unit": "kg" }] });
    assert_eq!(stored.current(), &expected);
    let confidences = stored.report.confidences.iter().map(|found| (found.path.as_str(), found.confidence));
    let expected = [("seller.name", 1.0), ("seller.city", 0.25), ("items[0].n", 0.125), ("items[0].unit", 0.125)];
    assert_eq!(confidences.collect::<Vec<_>>(), expected);
    test.ok("complete_extraction", json!({})).await;
}

#[tokio::test]
async fn invalid_arguments_are_described_and_nothing_is_written() {
    let (mut test, id) = begun(None).await;
    let name = "x".repeat(1_025);
    let page = |page: u32, quote: &str| {
        let mut arguments = total(json!(120.5), 0.5, quote);
        arguments["citations"]["total"]["page"] = page.into();
        arguments
    };
    test.assert_errors(
        "extract_fields",
        [
            (
                total(json!(1), 1.5, "Total"),
                "Validation failed:\n- confidences.total: Confidence must be 0.0-1.0, got 1.5",
            ),
            (total(json!(1), 0.5, "Sum: 120.50"), "The quote \"Sum: 120.50\" of 'total' does not occur on page 1."),
            (page(2, "Total: 120.50"), "does not occur on page 2"),
            (page(3, "Total: 120.50"), "names page 3, but the document has 2 pages"),
            (page(1, "12"), "citations.total: the quote has 2 characters"),
            (json!({ "fields": {}, "confidences": {} }), "at least one field"),
            (json!({ "fields": "x", "confidences": {} }), "fields must be an object"),
            (json!({ "fields": { name.clone(): { "a": 1 } }, "confidences": {} }), "use shorter names"),
            (json!({ "fields": { "a": { "b": 1 } }, "confidences": { "a": 1 } }), "confidences.a must be an object"),
        ],
    )
    .await;
    let update = |path: &str, confidence: Value| json!({ "path": path, "value": 1, "confidence": confidence });
    test.assert_errors(
        "update_field",
        [
            (update("a.b", json!(1)), "The path \"a.b\" does not exist"),
            (update("a..b", json!(1)), "is malformed"),
            (update("a", json!(-1)), "Confidence must be 0.0-1.0, got -1"),
            (
                json!({ "path": "a", "value": 1, "confidence": 1, "citation": {} }),
                "citation: expected an object with page",
            ),
            (json!({ "path": "a", "value": { name: 1 }, "confidence": 1 }), "use shorter names"),
        ],
    )
    .await;
    test.assert_errors("remove_field", [(json!({ "path": "total" }), "The path \"total\" does not exist")]).await;
    let long = "x".repeat(101);
    test.assert_errors(
        "identify_document",
        [
            (json!({ "document_type": long, "confidence": 1 }), "document_type has 101 characters"),
            (json!({ "document_type": " ", "confidence": 2 }), "Confidence must be 0.0-1.0, got 2"),
        ],
    )
    .await;
    test.assert_errors(
        "get_document_text",
        [(json!({ "page": 3 }), "page 3 is out of range: the document has 2 pages.")],
    )
    .await;
    assert_eq!(test.extraction(&id).await.version, 1);
}

#[tokio::test]
async fn a_quote_without_its_value_is_accepted_but_cites_nothing() {
    let (mut test, id) = begun(None).await;
    test.ok("extract_fields", total(json!(7.25), 0.5, "Total: 120.50")).await;
    assert!(test.extraction(&id).await.report.citations.is_empty());
    test.ok("complete_extraction", json!({})).await;
    assert_eq!(test.extraction(&id).await.report.coverage.inferred, 1);
}

#[tokio::test]
async fn an_edit_between_the_intent_and_the_write_is_a_conflict_with_the_current_value() {
    let (mut test, id) = begun(None).await;
    test.ok("extract_fields", total(json!(120.5), 0.5, "Total: 120.50")).await;
    let context = test.next();
    let arguments = json!({ "path": "total", "value": 1, "confidence": 1 });
    let plan = test.plan(&context, "update_field", &arguments).await.unwrap();
    assert_eq!(plan.expected, Expected::Version(2));
    test.write_extraction(id.as_str(), ExtractionChange::Edit { data: json!({ "total": 99 }) }).await;
    let conflict = test.run(&context, "update_field", &arguments, &plan).await.unwrap_err();
    assert_eq!(conflict, ToolError::Conflict);
    let text = test.write_tool("update_field").conflict(&context, &arguments).await.unwrap();
    let expected =
        "The extraction changed meanwhile, so nothing was written. The current value of 'total' is 99. Decide again.";
    assert_eq!(text, expected);
    let several = total(json!(1), 1.0, "Total");
    let text = test.write_tool("extract_fields").conflict(&context, &several).await.unwrap();
    assert!(text.contains("The current value of 'total' is 99."), "{text}");
    // The edit of the person is kept, and another write is based on it.
    test.ok("update_field", json!({ "path": "note", "value": "x", "confidence": 1 })).await;
    let stored = test.extraction(&id).await;
    let merged = json!({ "total": 99, "note": "x" });
    assert_eq!((stored.current(), &stored.original), (&merged, &merged));
    let paths: Vec<&str> = stored.report.confidences.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(paths, ["note"], "the model did not state the value of the person");
}

#[tokio::test]
async fn a_value_that_a_person_edited_has_no_citation_when_the_run_is_completed() {
    let (mut test, id) = begun(None).await;
    let fields = json!({ "total": 99, "number": "INV-7" });
    test.ok("extract_fields", json!({ "fields": fields, "confidences": { "total": 0.5, "number": 1 } })).await;
    let data = json!({ "total": 120.5, "number": "INV-7" });
    test.write_extraction(id.as_str(), ExtractionChange::Edit { data: data.clone() }).await;
    test.ok("complete_extraction", json!({})).await;
    let stored = test.extraction(&id).await;
    assert_eq!((stored.current(), &stored.original["total"]), (&data, &json!(99)));
    let paths: Vec<&str> = stored.report.citations.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(paths, ["number"], "the text contains the value of the person, which is not the original one");
}

#[tokio::test]
async fn invariant_3_a_repeated_write_has_one_effect_and_the_same_result() {
    let (mut test, id) = begun(None).await;
    for (name, arguments) in [
        ("identify_document", json!({ "document_type": "invoice", "confidence": 1 })),
        ("extract_fields", total(json!(120.5), 0.5, "Total: 120.50")),
        ("update_field", json!({ "path": "items", "value": [1], "confidence": 1 })),
        ("remove_field", json!({ "path": "items[0]" })),
        ("complete_extraction", json!({})),
    ] {
        let context = test.next();
        let plan = test.plan(&context, name, &arguments).await.unwrap();
        let first = test.run(&context, name, &arguments, &plan).await.unwrap();
        let version = test.extraction(&id).await.version;
        assert_eq!(test.run(&context, name, &arguments, &plan).await.unwrap(), first, "{name}");
        assert_eq!(test.extraction(&id).await.version, version, "{name}");
        let (ops, op) = (&test.context.resources.stores.ops, OpKey::Call(context.call.clone()));
        let row = ops.row(&context.principal.org, &plan.target, &op).await.unwrap().unwrap();
        let OpState::Done(result) = row.state else { panic!("{name}: {row:?}") };
        assert_eq!(test.write_tool(name).output(&plan.target, result, &arguments), first, "{name}");
        // A closed op never runs.
        let context = test.next();
        let (op, digest) = (OpKey::Call(context.call.clone()), Digest::of_json(&arguments));
        let closed = OpRow::closed(op, digest, ClosedAs::Aborted, test.context.resources.environment.now());
        ops.close(&context.principal.org, &plan.target, closed).await.unwrap();
        assert_eq!(test.run(&context, name, &arguments, &plan).await.unwrap_err(), ToolError::Conflict, "{name}");
    }
    test.ok("get_current_extraction", json!({})).await;
}

#[tokio::test]
async fn the_text_of_a_long_document_is_read_in_parts() {
    let (mut test, _) = begun(None).await;
    let page = |number| NewPage::of_text(number, format!("{number} {}", "word ".repeat(6_000)));
    let document = test.document();
    test.ingest(&document, (1..=5).map(page).collect()).await;
    let first = test.ok("get_document_text", json!({})).await;
    assert_eq!((&first["pages"], &first["next_page"]), (&json!(5), &json!(3)));
    assert!(first.to_string().len() <= limits::TOOL_RESULT_BYTES);
    let third = test.ok("get_document_text", json!({ "page": 3 })).await;
    assert!(text(&third["text"]).contains("--- page 3 ---\n3 word"), "{third}");
    assert!(!text(&third["text"]).contains("--- page 4 ---") && third["next_page"] == 4);
    assert!(test.ok("get_document_text", json!({ "page": 5 })).await.get("next_page").is_none());
    let rest = test.ok("get_document_text", json!({ "page": 5, "from_character": 29_997 })).await;
    assert!(text(&rest["text"]).ends_with("--- page 5 ---\nword \n"), "{rest}");
    let refused = test.error_of("get_document_text", json!({ "from_character": 1 })).await;
    assert!(refused.contains("state the page"), "{refused}");
    let refused = test.error_of("get_document_text", json!({ "page": 5, "from_character": 30_002 })).await;
    assert!(refused.contains("page 5 has 30002 characters"), "{refused}");
}

#[tokio::test]
async fn the_coverage_of_an_agent_names_the_pages_whose_text_is_missing_or_cut() {
    let (mut test, id) = begun(None).await;
    let page = |number, text: &str, gap| NewPage { gap, ..NewPage::of_text(number, text) };
    let pages = vec![
        page(1, "Total: 120.50", None),
        page(2, "", Some(TextGap::Missing)),
        page(3, "Total: 120.50", Some(TextGap::Cut)),
    ];
    test.ingest(&test.document(), pages).await;
    test.ok("extract_fields", total(json!(120.5), 0.5, "Total: 120.50")).await;
    test.ok("complete_extraction", json!({})).await;
    let coverage = test.extraction(&id).await.report.coverage;
    assert_eq!((coverage.pages, coverage.pages_read), (3, 2));
    assert_eq!((coverage.pages_missing, coverage.pages_incomplete), (1, 1));
    assert_eq!(coverage.incomplete_pages, [2, 3]);
}

#[tokio::test]
async fn a_further_run_corrects_a_completed_extraction() {
    let (mut test, id) = begun(None).await;
    test.ok("extract_fields", total(json!(120.5), 0.5, "Total: 120.50")).await;
    test.ok("complete_extraction", json!({})).await;
    start_run(&test, &id, test.context.call.turn.thread.clone()).await;
    test.ok("update_field", json!({ "path": "number", "value": "INV-7", "confidence": 1 })).await;
    test.ok("complete_extraction", json!({})).await;
    let stored = test.extraction(&id).await;
    assert_eq!(
        (stored.state(), stored.current()),
        (ExtractionState::Completed, &json!({ "total": 120.5, "number": "INV-7" }))
    );
    let kinds: Vec<CitationKind> = stored.report.citations.iter().map(|citation| citation.kind).collect();
    assert_eq!(kinds, [CitationKind::Cited, CitationKind::Located]);
    assert!(stored.fields.changes.iter().all(|change| change.is_by_agent));
}

#[tokio::test]
async fn a_run_that_another_one_replaced_changes_nothing() {
    let (mut test, id) = begun(None).await;
    test.ok("extract_fields", total(json!(120.5), 0.5, "Total: 120.50")).await;
    let (context, none) = (test.next(), json!({}));
    let plan = test.plan(&context, "complete_extraction", &none).await.unwrap();
    start_run(&test, &id, ThreadId::derive(&["further"])).await;
    let replaced = "Another run has replaced this one, so the extraction cannot be changed. End your turn.";
    assert_eq!(test.error_of("complete_extraction", none.clone()).await, replaced);
    assert_eq!(test.error_of("remove_field", json!({ "path": "total" })).await, replaced);
    let planned_before = test.run(&context, "complete_extraction", &none, &plan).await.unwrap_err();
    assert_eq!(planned_before, ToolError::Conflict);
    let (resources, principal) = (&test.context.resources, &test.context.principal);
    let (stores, thread, at) = (&resources.stores, &test.context.call.turn.thread, resources.environment.now());
    let state = end_run(stores, principal, (&id, thread), "the replaced run ended", at).await.unwrap();
    assert_eq!(state, ExtractionState::InProgress);
    let stored = test.extraction(&id).await;
    assert_eq!((stored.state(), stored.version), (ExtractionState::InProgress, 3));
}

#[tokio::test]
async fn citations_of_an_earlier_text_are_checked_again_after_another_write() {
    let (mut test, id) = begun(None).await;
    test.ok("extract_fields", total(json!(120.5), 0.5, "Total: 120.50")).await;
    let earlier = test.extraction(&id).await.report.text_generation;
    let document = test.document();
    test.ingest(&document, vec![NewPage::of_text(1, "Invoice INV-8".to_owned())]).await;
    test.ok("update_field", json!({ "path": "number", "value": "INV-8", "confidence": 1 })).await;
    let stored = test.extraction(&id).await;
    assert_eq!((stored.report.citations.len(), stored.report.text_generation), (1, earlier));
    let (stores, org) = (&test.context.resources.stores, &test.context.principal.org);
    let document = stores.of::<Document>().get(org, &document).await.unwrap().unwrap();
    let checked = check_again(stores, &document, stored).await.unwrap().report;
    let paths: Vec<&str> = checked.citations.iter().map(|citation| citation.path.as_str()).collect();
    assert_eq!((paths, checked.text_generation), (vec!["number"], document.text_generation));
}
