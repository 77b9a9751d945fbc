//! Tests of complete conversations with the offline model.

use serde_json::{Value, json};

use super::*;
use crate::request::ChatRequest;

const INVOICE: &str = "INVOICE\n\nInvoice Number:  A-17\n\nInvoice Date:  2026-03-17\n\nTotal:  957.00 EUR\n";
const GO: &str = "create a schema and a prompt for documents like this and extract";

fn system(text: &str, working: &str) -> String {
    format!(
        "# Document\n\nid: doc_1\nfile name: \"bill.pdf\"\n\n# Document text\n\n<document_text>\n{text}\n</document_text>\n\n# \
         Working state\n\n{working}\n"
    )
}

fn ask(messages: &[Value]) -> Answer {
    let names = ["help_schemas", "help_prompts", "validate_schema", "create_schema", "create_prompt", "run_extraction"];
    let tools = names.map(|name| json!({"type": "function", "function": {"name": name, "parameters": {}}}));
    let body = json!({"model": MODEL, "messages": messages, "tools": tools});
    super::answer(&ChatRequest::parse(&body, 0).unwrap())
}

/// Runs a conversation in which one tool returns `results` in order. Returns the calls and the last text.
fn run(system: &str, user: &str, tool: &str, mut results: Vec<Value>) -> (Vec<(String, Value)>, String) {
    let mut messages = vec![json!({"role": "system", "content": system}), json!({"role": "user", "content": user})];
    let mut called = Vec::new();
    for round in 1..=10 {
        let answer = ask(&messages);
        if answer.calls.is_empty() {
            return (called, answer.text);
        }
        let id = |index: usize| format!("call_{round}_{index}");
        let calls: Vec<Value> = answer.calls.iter().enumerate().map(|(index, call)| {
            json!({"id": id(index), "function": {"name": call.name, "arguments": call.arguments_text()}})
        }).collect();
        messages.push(json!({"role": "assistant", "content": answer.text, "tool_calls": calls}));
        for (index, call) in answer.calls.into_iter().enumerate() {
            let result = if call.name == tool && !results.is_empty() { results.remove(0) } else { usual(&call.name) };
            let text = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
            messages.push(json!({"role": "tool", "tool_call_id": id(index), "content": text}));
            called.push((call.name, call.arguments));
        }
    }
    panic!("more than 10 rounds: {called:?}");
}

fn usual(tool: &str) -> Value {
    match tool {
        "validate_schema" => json!({"valid": true}),
        "create_schema" => json!({"schema_revid": "sch_1.1", "schema_id": "sch_1", "version": 1}),
        "create_prompt" => json!({"prompt_revid": "prm_1.1", "prompt_id": "prm_1"}),
        "run_extraction" => json!({"extraction_id": "ext_1", "data": {"invoice_number": "A-17", "total": 957}}),
        _ => json!({"help": "…"}),
    }
}

fn names(called: &[(String, Value)]) -> Vec<&str> {
    called.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_document_is_extracted_call_by_call() {
    let (called, said) = run(&system(INVOICE, ""), GO, "", vec![]);
    let expected =
        ["help_schemas", "help_prompts", "validate_schema", "create_schema", "create_prompt", "run_extraction"];
    assert_eq!(names(&called), expected);
    assert!(said.contains("invoice_number: A-17") && said.contains("no LLM"), "{said}");
    let format = &called[3].1["response_format"];
    assert_eq!(called[2].1["schema"], *format);
    let schema = &format["json_schema"]["schema"];
    assert_eq!((&format["json_schema"]["strict"], &schema["additionalProperties"]), (&json!(true), &json!(false)));
    let properties: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(properties, ["invoice_number", "invoice_date", "total"]);
    assert_eq!(schema["required"], json!(properties));
    assert_eq!(called[4].1["schema_id"], "sch_1");
    assert_eq!(called[5].1, json!({"prompt_revid": "prm_1.1"}));
    let (called, _) = run(&system(INVOICE, "prompt_revid: prm_7.2\n"), "please extract again", "", vec![]);
    assert_eq!(called, [("run_extraction".to_owned(), json!({"prompt_revid": "prm_7.2"}))]);
}

#[test]
fn rejections_and_errors_end_in_an_explanation() {
    let rejected = json!("User rejected this action. Not this name.");
    let (called, said) = run(&system(INVOICE, ""), GO, "create_schema", vec![rejected]);
    assert_eq!(names(&called).last(), Some(&"create_schema"));
    assert!(said.contains("rejected") && said.contains("create_schema"), "{said}");
    for tool in ["validate_schema", "create_schema", "create_prompt", "run_extraction"] {
        let (_, said) = run(&system(INVOICE, ""), GO, tool, vec![json!({"error": "it is broken"}); 10]);
        assert!(said.contains("it is broken"), "{tool}: {said}");
    }
    let (called, said) = run(&system(INVOICE, ""), GO, "create_schema", vec![json!({"error": "NAME_TAKEN"})]);
    assert_eq!(called[4].1["name"], "Invoice (offline)");
    assert!(said.contains("A-17"), "{said}");
    for text in ["", "The sea was calm that evening.\nThen the lights came up out of the mist.\n"] {
        let (called, said) = run(&system(text, ""), GO, "", vec![]);
        assert!(called.is_empty() && (said.contains("no text") || said.contains("no labelled value")), "{said}");
    }
}

#[test]
fn questions_are_answered_from_labels_and_other_requests_with_a_description() {
    let said = |question: &str| run(&system(INVOICE, ""), question, "", vec![]).1;
    assert!(said("What is the total?").contains("957.00 EUR"));
    assert!(said("when was the invoice date").contains("2026-03-17"));
    let other = said("Tell me a joke");
    assert!(other.contains("offline model") && other.contains("no LLM"), "{other}");
}

fn extracted(schema: &Value, text: &str) -> Value {
    let body = json!({
        "model": MODEL,
        "messages": [{"role": "user", "content": format!("<document_text>\n{text}\n</document_text>")}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema}},
    });
    let answer = super::answer(&ChatRequest::parse(&body, 0).unwrap());
    serde_json::from_str(&answer.text).unwrap()
}

#[test]
fn its_own_schema_extracts_each_value() {
    let text = "INVOICE\nInvoice Number: A-17\nDue: 16.04.2026\nTotal: 1.957,50 €\nPaid: nothing yet\n\nPos Description Quantity Amount\n1 \
                Box of paper 12 29,80\n2 Toner 4 35,00\n";
    let format = schema::propose(&reading::read(text), text).format;
    let expected = json!({
        "invoice_number": "A-17", "due": "2026-04-16", "total": 1957.5, "paid": "nothing yet",
        "items": [
            {"pos": 1, "description": "Box of paper", "quantity": 12, "amount": 29.8},
            {"pos": 2, "description": "Toner", "quantity": 4, "amount": 35.0},
        ],
    });
    assert_eq!(extracted(&format["json_schema"]["schema"], text), expected);
}

#[test]
fn a_foreign_schema_is_filled_by_names() {
    let schema = json!({"type": "object", "properties": {
        "invoiceNumber": {"type": "string"},
        "total_amount": {"type": ["number", "null"]},
        "currency": {"type": ["string", "null"], "enum": ["USD", "EUR", null]},
        "shoe_size": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
        "seller": {"type": "object", "properties": {"vat_id": {"type": "string"}}},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"quantity": {"type": "integer"}}}},
        "tags": {"type": "array", "items": {"type": "string"}},
    }});
    let text = "Invoice number: R-9\nTotal: 7.00\nCurrency: eur\nVAT ID: DE1\n\nDescription Quantity\nNut M4 50\n";
    let expected = json!({
        "invoiceNumber": "R-9", "total_amount": 7.0, "currency": "EUR", "shoe_size": null, "seller": {"vat_id": "DE1"},
        "lines": [{"quantity": 50}], "tags": [],
    });
    assert_eq!(extracted(&schema, text), expected);
    let recursive = json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]});
    assert!(extracted(&recursive, INVOICE).is_object());
}
