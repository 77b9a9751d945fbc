//! Tests of invariant 6: another organization's resources are indistinguishable from missing ones.

use std::collections::BTreeSet;

use folio_tools::{CallContext, Registry, ToolError};
use folio_types::profile::Subject;
use folio_types::{
    DocumentId, ExtractionId, IngestionId, OrgId, Principal, PromptId, SchemaId, StackId, TagId, UserId,
};
use serde_json::{Value, json};

use crate::documents::section_ids;
use crate::fixture::{Fixture, id_of, invoice, text};
use crate::mcp::add_server;

/// Tools that do not refer to resources of an organization. A conversation runs `run_tasks`.
const UNRELATED: [&str; 6] =
    ["calculator", "help_schemas", "help_prompts", "validate_schema", "find_tools", "run_tasks"];

/// Ids of the first organization's resources, each with a nonexistent id.
struct Foreign(Vec<(String, String)>);

impl Foreign {
    /// Replaces ids of the first organization by nonexistent ones.
    fn missing(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (theirs, missing)| text.replace(theirs, missing))
    }
}

/// Returns whether a call succeeded, and its output for the model.
async fn output(test: &Fixture, context: &CallContext, name: &str, arguments: &Value) -> (bool, String) {
    match test.call_in(context, name, arguments).await {
        Ok(output) => (true, output.content.to_string()),
        Err(ToolError::ForModel(text)) => (false, text),
        Err(error) => panic!("{name} {arguments}: {error:?}"),
    }
}

#[tokio::test]
async fn invariant_6_resources_of_another_organization_look_missing_to_every_tool() {
    let mut test = Fixture::new().await;
    let tag = test.tag("billing").await;
    let (schema_revid, prompt_revid) = test.invoice_prompt().await;
    test.ok("dictionary_upsert", json!({ "term": "MY", "expansion": "Malaysia" })).await;
    test.extract(r#"{"total": 1}"#).await;
    test.models.add_own_model(&test.context.principal.org, "theirs");
    let (schema, prompt, document) = (id_of(&schema_revid), id_of(&prompt_revid), test.document());
    let section = section_ids(&mut test).await.remove(0);
    let image = format!("{}.p1i1", section.rsplit_once('.').unwrap().0);
    let extraction = test.context.working.extraction.as_ref().unwrap().id.clone();
    add_server(&test, &test.context.principal.org).await;
    let missing = ["unknown"];
    let foreign = Foreign(vec![
        (document.to_string(), DocumentId::derive(&missing).to_string()),
        (tag.to_string(), TagId::derive(&missing).to_string()),
        (schema.clone(), SchemaId::derive(&missing).to_string()),
        (prompt.clone(), PromptId::derive(&missing).to_string()),
        (extraction.to_string(), ExtractionId::derive(&missing).to_string()),
        ("theirs".to_owned(), "missing".to_owned()),
        ("tickets".to_owned(), "unknown".to_owned()),
    ]);
    let principal = Principal {
        org: OrgId::derive(&["other"]),
        user: UserId::derive(&["other"]),
        ..test.context.principal.clone()
    };
    test.models.add_own_model(&principal.org, "ours");
    // The context contains the first organization's document and working state.
    let other = |test: &Fixture| CallContext { principal: principal.clone(), ..test.next() };
    let working = serde_json::to_string(&test.context.working).unwrap();
    let nowhere = |test: &Fixture| CallContext {
        documents: vec![foreign.missing(document.as_str()).parse().unwrap()],
        working: serde_json::from_str(&foreign.missing(&working)).unwrap(),
        ..other(test)
    };
    let mut called = BTreeSet::from(UNRELATED.map(str::to_owned));
    for (name, arguments) in [
        ("get_ocr_text", json!({})),
        ("pdf_outline", json!({})),
        ("pdf_outline", json!({ "document_id": document })),
        ("section_reader", json!({ "section_id": section })),
        ("image_annotator", json!({ "image_id": image })),
        ("get_schema", json!({ "schema_revid": schema_revid })),
        ("validate_against_schema", json!({ "schema_revid": schema_revid, "data": {} })),
        ("get_prompt", json!({ "prompt_revid": prompt_revid })),
        ("list_prompts", json!({ "document_id": document })),
        ("get_tag", json!({ "tag_id": tag })),
        ("run_extraction", json!({ "prompt_revid": prompt_revid })),
        ("run_extraction", json!({})),
        ("run_extractions", json!({ "document_ids": [document], "prompt_revid": prompt_revid })),
        ("run_extractions", json!({ "document_ids": [document] })),
        ("get_extraction_result", json!({ "prompt_revid": prompt_revid })),
        ("get_extraction_result", json!({})),
        ("update_extraction_field", json!({ "path": "total", "value": 2 })),
        ("update_document", json!({ "document_id": document, "document_name": "x" })),
        ("update_document", json!({ "document_name": "x" })),
        ("delete_document", json!({ "document_id": document })),
        ("update_schema", json!({ "schema_id": schema, "name": "x" })),
        ("delete_schema", json!({ "schema_id": schema })),
        ("create_prompt", json!({ "name": "x", "content": "x", "schema_id": schema })),
        ("create_prompt", json!({ "name": "x", "content": "x", "tag_ids": [tag] })),
        ("create_prompt", json!({ "name": "x", "content": "x", "model": "theirs" })),
        ("update_prompt", json!({ "prompt_id": prompt, "content": "x" })),
        ("delete_prompt", json!({ "prompt_id": prompt })),
        ("update_tag", json!({ "tag_id": tag, "name": "x" })),
        ("delete_tag", json!({ "tag_id": tag })),
        ("dictionary_upsert", json!({ "term": "MY", "expansion": "x", "document_id": document })),
        ("dictionary_upsert", json!({ "term": "MY", "expansion": "x" })),
        ("dictionary_suggest", json!({ "document_id": document })),
        ("dictionary_suggest", json!({})),
        ("read_from_server", json!({ "server": "tickets", "tool": "find" })),
        ("write_to_server", json!({ "server": "tickets", "tool": "create" })),
    ] {
        let (found, with_foreign_ids) = output(&test, &other(&test), name, &arguments).await;
        assert!(!found, "{name} {arguments}: {with_foreign_ids}");
        let missing = serde_json::from_str(&foreign.missing(&arguments.to_string())).unwrap();
        let with_missing_ids = output(&test, &nowhere(&test), name, &missing).await;
        assert_eq!((false, foreign.missing(&with_foreign_ids)), with_missing_ids, "{name} {arguments}");
        called.insert(name.to_owned());
    }
    for (name, arguments) in [
        ("list_documents", json!({})),
        ("list_documents", json!({ "tag_ids": [tag] })),
        ("list_schemas", json!({})),
        ("list_prompts", json!({})),
        ("list_prompts", json!({ "tag_ids": [tag] })),
        ("list_tags", json!({})),
    ] {
        let listed = test.call_in(&other(&test), name, &arguments).await.unwrap();
        assert_eq!(listed.content["total"], json!(0), "{name} {arguments}");
        called.insert(name.to_owned());
    }
    // `folio-knowledge` tests the search itself.
    for arguments in
        [json!({ "query": "total" }), json!({ "query": "total", "document_ids": [document], "tag_ids": [tag] })]
    {
        let found = test.call_in(&other(&test), "retrieve_documents", &arguments).await.unwrap();
        assert_eq!(found.content["passages"], json!([]), "{arguments}");
    }
    called.insert("retrieve_documents".to_owned());
    // Terms of another organization have no entry.
    let looked_up = test.call_in(&other(&test), "dictionary_lookup", &json!({ "terms": ["MY"] })).await.unwrap();
    assert_eq!(looked_up.content, json!({ "entries": [], "missing": ["MY"] }));
    called.insert("dictionary_lookup".to_owned());
    let listed = test.call_in(&other(&test), "list_llm_models", &json!({})).await.unwrap().content["models"].clone();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|model| text(&model["model"])).collect();
    assert_eq!(names, ["base", "other", "ours"]);
    called.insert("list_llm_models".to_owned());
    let listed = test.call_in(&other(&test), "list_server_tools", &json!({})).await.unwrap();
    assert_eq!(listed.content["tools"], json!([]));
    called.insert("list_server_tools".to_owned());
    // A name of another organization is free, and creates a separate resource.
    for (name, arguments, id, theirs) in [
        ("create_tag", json!({ "name": "Billing" }), "tag_id", tag.as_str()),
        ("create_schema", json!({ "name": "Invoice", "response_format": invoice() }), "schema_id", &schema),
        ("create_prompt", json!({ "name": "Invoice", "content": "Read the total." }), "prompt_id", &prompt),
    ] {
        let made = test.call_in(&other(&test), name, &arguments).await.unwrap();
        assert_ne!(text(&made.content[id]), theirs, "{name}");
        if let Some(revision) = made.content.get(id.replace("_id", "_revid")) {
            assert!(text(revision).ends_with(".1"), "{name}: {revision}");
        }
        called.insert(name.to_owned());
    }
    let registry = Registry::standard().unwrap();
    // The agent of an extraction whose subject is an extraction of another organization, or a missing one.
    test.tools = registry.profile("extraction").unwrap();
    let (total, sure) = (json!({ "total": 2 }), json!({ "total": 1 }));
    for (name, arguments) in [
        ("get_document_text", json!({})),
        ("get_current_extraction", json!({})),
        ("identify_document", json!({ "document_type": "invoice", "confidence": 1 })),
        ("extract_fields", json!({ "fields": total, "confidences": sure })),
        ("update_field", json!({ "path": "total", "value": 2, "confidence": 1 })),
        ("remove_field", json!({ "path": "total" })),
        ("complete_extraction", json!({})),
    ] {
        for id in [extraction.clone(), ExtractionId::derive(&missing)] {
            let context = CallContext { subject: Some(Subject::Extraction(id)), ..other(&test) };
            let expected = (false, "The extraction was deleted. End your turn.".to_owned());
            assert_eq!(output(&test, &context, name, &arguments).await, expected, "{name}");
        }
        called.insert(name.to_owned());
    }
    // The agents of a run whose document belongs to another organization, or is missing.
    let run = Subject::Ingestion(IngestionId::derive(&["run"]));
    for (agent, name, arguments) in [
        ("ingest_planner", "ingestion_status", json!({})),
        ("summary_orchestrator", "summary_store", json!({ "summary": "x" })),
        ("summary_orchestrator", "summary_store", json!({ "summary": "x", "section_id": section })),
        ("chunk_builder", "chunk_generate", json!({})),
        ("hyperlink_auditor", "hyperlink_resolver", json!({ "target": document })),
        ("rag_ingestor", "rag_chunk_index", json!({ "chunks_id": "chk_1" })),
    ] {
        test.tools = registry.profile(agent).unwrap();
        let with_foreign = CallContext { subject: Some(run.clone()), ..other(&test) };
        let (found, with_foreign_ids) = output(&test, &with_foreign, name, &arguments).await;
        assert!(!found, "{name}: {with_foreign_ids}");
        let without = CallContext { subject: Some(run.clone()), ..nowhere(&test) };
        let with_missing_ids = output(&test, &without, name, &arguments).await;
        assert_eq!((false, foreign.missing(&with_foreign_ids)), with_missing_ids, "{name} {arguments}");
        called.insert(name.to_owned());
    }
    // The agents of a stack of another organization, or of a missing one.
    let document = test.document();
    let cells = json!([{ "column": "Total", "value": 2, "confidence": 1 }]);
    for (profile, name, arguments) in [
        ("stack", "list_documents", json!({})),
        ("stack", "get_document_text", json!({ "document_id": document })),
        ("stack", "define_columns", json!({ "columns": [{ "name": "Total", "type": "number" }] })),
        ("stack", "extract_row", json!({ "document_id": document, "cells": cells })),
        (
            "stack_row",
            "update_cell",
            json!({ "document_id": document, "column": "Total", "value": 2, "confidence": 1 }),
        ),
        ("stack_row", "get_table_state", json!({})),
        ("stack", "complete_table", json!({})),
    ] {
        test.tools = registry.profile(profile).unwrap();
        for id in [crate::stacks::stack(&test).await, StackId::derive(&missing)] {
            let context = CallContext { subject: Some(Subject::Stack(id)), ..other(&test) };
            let expected = (false, "The stack was deleted. End your turn.".to_owned());
            assert_eq!(output(&test, &context, name, &arguments).await, expected, "{name}");
        }
        called.insert(name.to_owned());
    }
    // The assistant, and the table of a stack of another organization or of none.
    test.tools = registry.profile("assistant").unwrap();
    let listed = test.call_in(&other(&test), "list_tables", &json!({})).await.unwrap();
    assert_eq!(listed.content["total"], json!(0));
    let stack = crate::stacks::stack(&test).await;
    let counted = |id: &str| json!({ "stack_id": id, "function": "count" });
    let (found, of_theirs) = output(&test, &other(&test), "ask_table", &counted(stack.as_str())).await;
    let unknown = StackId::derive(&missing);
    let of_none = output(&test, &other(&test), "ask_table", &counted(unknown.as_str())).await;
    assert_eq!((found, of_theirs.replace(stack.as_str(), unknown.as_str())), of_none);
    assert!(!found);
    let (found, by_name) = output(&test, &other(&test), "ask_table", &counted("Invoices")).await;
    assert!(!found && by_name.contains("No stack exists"), "{by_name}");
    called.extend(["list_tables", "ask_table"].map(str::to_owned));
    let all = registry.profiles().flat_map(|profile| profile.specs()).map(|spec| spec.name.to_owned());
    assert_eq!(called, all.collect(), "each tool is called across organizations");
    assert_eq!(test.models.requests().len(), 1);
}
