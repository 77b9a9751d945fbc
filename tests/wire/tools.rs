//! Tools of the document profile: called by a model, run by the server, their results returned to the model.

use std::collections::BTreeMap;

use folio_proto::v1;
use serde_json::Value;

use crate::client::{Client, ask};
use crate::sandbox::Sandbox;

/// A turn with the tools of prompts and extractions. Templates (`{{last.…}}`) insert ids from earlier results.
const SCRIPT: &str = r#"
rules:
  - when: {response_format: bill}
    answer: {text: '{"number": "A-17", "total": 957}'}
  - when: {user: prompts}
    rounds:
      - calls: [{name: help_prompts}, {name: list_llm_models}, {name: create_schema, arguments: {name: Bill, response_format: {type: json_schema, json_schema: {name: bill, strict: true, schema: {type: object, properties: {number: {type: string}, total: {type: number}}, required: [number, total], additionalProperties: false}}}}}]
      - calls: [{name: create_prompt, arguments: {name: Bills, content: Extract the bill., schema_id: "{{last.create_schema.schema_id}}", model: scripted}}]
      - calls:
          - {name: get_prompt, arguments: {prompt_revid: "{{last.create_prompt.prompt_revid}}"}}
          - {name: list_prompts, arguments: {}}
      - calls: [{name: update_prompt, arguments: {prompt_id: "{{last.create_prompt.prompt_id}}", content: Extract the whole bill.}}]
      - calls: [{name: run_extraction}]
      - calls: [{name: update_extraction_field, arguments: {path: total, value: 1250.5}}]
      - calls: [{name: get_extraction_result}, {name: get_ocr_text}]
      - calls: [{name: delete_schema, arguments: {schema_id: "{{last.create_schema.schema_id}}"}}]
      - calls: [{name: delete_prompt, arguments: {prompt_id: "{{last.create_prompt.prompt_id}}"}}, {name: delete_schema, arguments: {schema_id: "{{last.create_schema.schema_id}}"}}]
      - text: Prompts done.
"#;

/// Runs a turn that approves every call. Returns its completion, and the results of each tool in order.
async fn results(
    client: &Client,
    document: &str,
    text: &str,
) -> (v1::Completed, BTreeMap<String, Vec<(v1::CallStatus, Value)>>) {
    let request = v1::ChatRequest { auto_approve: true, ..ask(document, text) };
    let completed = client.send(request).await.expect("the chat is accepted").completed().await;
    let mut results: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for round in &completed.rounds {
        for (call, result) in round.calls.iter().zip(&round.results) {
            assert_eq!(call.call_id, result.call_id);
            let content = serde_json::from_str(&result.content).expect("a result is JSON");
            results.entry(call.name.clone()).or_default().push((result.status(), content));
        }
    }
    (completed, results)
}

#[track_caller]
fn ok<'a>(results: &'a BTreeMap<String, Vec<(v1::CallStatus, Value)>>, tool: &str, nth: usize) -> &'a Value {
    let (status, content) = &results[tool][nth];
    assert_eq!(*status, v1::CallStatus::Ok, "{tool}: {content}");
    content
}

#[track_caller]
fn failed<'a>(results: &'a BTreeMap<String, Vec<(v1::CallStatus, Value)>>, tool: &str, nth: usize) -> &'a str {
    let (status, content) = &results[tool][nth];
    assert_eq!(*status, v1::CallStatus::Failed, "{tool}: {content}");
    content["error"].as_str().expect("an error message")
}

#[tokio::test]
async fn the_tools_of_prompts_and_extractions_work() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let (completed, results) = results(&client, &document, "prompts").await;
    assert_eq!(completed.text, "Prompts done.");
    let calls = sandbox.sim.chat_requests().await.len();
    let counted = completed.usage.expect("the completed turn reports its usage").model_calls;
    assert_eq!(usize::try_from(counted), Ok(calls), "usage includes the calls of run_extraction");
    ok(&results, "help_prompts", 0);
    let models = ok(&results, "list_llm_models", 0).to_string();
    assert!(models.contains("extractor") && !models.contains("\"off\""), "{models}");
    let created = ok(&results, "create_prompt", 0);
    assert!(ok(&results, "get_prompt", 0).to_string().contains("Extract the bill."));
    assert!(ok(&results, "list_prompts", 0).to_string().contains("Bills"));
    let updated = ok(&results, "update_prompt", 0);
    assert_ne!(updated["prompt_revid"], created["prompt_revid"]);
    assert_eq!(updated["prompt_id"], created["prompt_id"]);
    let extracted = ok(&results, "run_extraction", 0);
    assert_eq!(extracted["prompt_revid"], updated["prompt_revid"], "run_extraction uses the working prompt");
    assert_eq!(extracted["data"]["total"], 957);
    ok(&results, "update_extraction_field", 0);
    assert!(ok(&results, "get_extraction_result", 0).to_string().contains("1250.5"));
    assert!(ok(&results, "get_ocr_text", 0).to_string().contains("A-17"));
    let used = failed(&results, "delete_schema", 0);
    assert!(used.contains("Bills") || used.contains("prm_"), "the error names the user of the schema: {used}");
    ok(&results, "delete_prompt", 0);
    ok(&results, "delete_schema", 1);
    let list = v1::ListExtractionsRequest { document_id: document, ..Default::default() };
    let kept = client.extractions.clone().list_extractions(list).await.unwrap().into_inner().extractions;
    assert_eq!(kept[0].original_json, "{\"number\":\"A-17\",\"total\":957}");
    assert_eq!(kept[0].edited_json.as_deref(), Some("{\"number\":\"A-17\",\"total\":1250.5}"));
}
