//! Tests of complete conversations with the offline model.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;
use crate::request::ChatRequest;

const INVOICE: &str = "INVOICE\n\nInvoice Number:  A-17\n\nInvoice Date:  2026-03-17\n\nTotal:  957.00 EUR\n";
const EXTRACT: &str = "create a schema and a prompt for documents like this and extract";

fn system(text: &str, working: &str) -> String {
    format!(
        "# Document\n\nid: doc_1\nfile name: \"bill.pdf\"\n\n# Document text\n\n<document_text>\n{text}\n</document_text>\n\n# \
         Working state\n\n{working}\n"
    )
}

/// A conversation in which the tools return `results` in order.
struct Chat {
    messages: Vec<Value>,
    called: Vec<(String, Value)>,
}

fn tools() -> Value {
    let names = "help_schemas help_prompts validate_schema create_schema update_schema create_prompt run_extraction \
                 list_schemas list_tags update_extraction_field get_ocr_text delete_document";
    names.split(' ').map(|name| json!({"type": "function", "function": {"name": name, "parameters": {}}})).collect()
}

fn respond(messages: &[Value]) -> Answer {
    let body = json!({"model": MODEL, "messages": messages, "tools": tools()});
    super::answer(&ChatRequest::parse(&body, 0).unwrap())
}

fn run(system: &str, user: &str, mut results: HashMap<&str, Vec<Value>>) -> (Chat, String) {
    let mut chat = Chat {
        messages: vec![json!({"role": "system", "content": system}), json!({"role": "user", "content": user})],
        called: Vec::new(),
    };
    for round in 1..=10 {
        let answer = respond(&chat.messages);
        if answer.calls.is_empty() {
            return (chat, answer.text);
        }
        let id = |index: usize| format!("call_{round}_{index}");
        let calls: Vec<Value> = answer.calls.iter().enumerate().map(|(index, call)| {
            json!({"id": id(index), "function": {"name": call.name, "arguments": call.arguments_text()}})
        }).collect();
        chat.messages.push(json!({"role": "assistant", "content": answer.text, "tool_calls": calls}));
        let mut has_failed = false;
        for (index, call) in answer.calls.iter().enumerate() {
            chat.called.push((call.name.clone(), call.arguments.clone()));
            if has_failed && call.arguments_text().contains("\"$") {
                let text = "Not run: the arguments refer to a call that failed.";
                chat.messages.push(json!({"role": "tool", "tool_call_id": id(index), "content": text}));
                continue;
            }
            let remaining = results.get_mut(call.name.as_str()).filter(|results| !results.is_empty());
            let result = remaining.map_or_else(|| usual(&call.name), |results| results.remove(0));
            has_failed |= result.is_string() || result.get("error").is_some();
            let text = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
            chat.messages.push(json!({"role": "tool", "tool_call_id": id(index), "content": text}));
        }
    }
    panic!("more than 10 rounds: {:?}", chat.called);
}

fn usual(tool: &str) -> Value {
    match tool {
        "validate_schema" => json!({"valid": true}),
        "create_schema" | "update_schema" => json!({"schema_revid": "sch_1.1", "schema_id": "sch_1", "version": 1}),
        "create_prompt" => json!({"prompt_revid": "prm_1.1", "prompt_id": "prm_1"}),
        "run_extraction" => json!({"extraction_id": "ext_1", "extraction": {"invoice_number": "A-17", "total": 957}}),
        _ => json!({"help": "…"}),
    }
}

fn names(chat: &Chat) -> Vec<&str> {
    chat.called.iter().map(|(name, _)| name.as_str()).collect()
}

/// The calls of one response.
const AT_ONCE: [&str; 3] = ["create_schema", "create_prompt", "run_extraction"];

#[test]
fn a_document_is_extracted_by_calls_of_one_response_that_refer_to_one_another() {
    let (chat, answer) = run(&system(INVOICE, ""), EXTRACT, HashMap::new());
    assert_eq!(names(&chat), AT_ONCE);
    assert_eq!(chat.messages.iter().filter(|message| message["role"] == "assistant").count(), 1, "one response");
    assert!(answer.contains("invoice_number: A-17") && answer.contains("no LLM"), "{answer}");
    let format = &chat.called[0].1["response_format"];
    let schema = &format["json_schema"]["schema"];
    assert_eq!(format["json_schema"]["strict"], true);
    assert_eq!(schema["additionalProperties"], false);
    let properties: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(properties, ["invoice_number", "invoice_date", "total", "currency"]);
    assert_eq!(schema["required"], json!(properties));
    assert_eq!(chat.called[1].1["schema_id"], "$create_schema.schema_id");
    assert_eq!(chat.called[2].1["prompt_revid"], "$create_prompt.prompt_revid");
}

#[test]
fn a_schema_alone_is_created_after_help_and_validation() {
    let (chat, _) = run(&system(INVOICE, ""), "create a schema for this document", HashMap::new());
    assert_eq!(names(&chat), ["help_schemas", "help_prompts", "validate_schema", "create_schema"]);
    assert_eq!(chat.called[2].1["response_format"], chat.called[3].1["response_format"]);
}

#[test]
fn calls_that_did_not_run_are_made_again_with_the_ids() {
    let busy = json!({"error": "the endpoint is busy"});
    let results = HashMap::from([("create_prompt", vec![busy])]);
    let (chat, answer) = run(&system(INVOICE, ""), EXTRACT, results);
    assert_eq!(names(&chat)[3..], ["create_prompt", "run_extraction"]);
    assert_eq!(chat.called[3].1["schema_id"], "sch_1");
    assert_eq!(chat.called[4].1["prompt_revid"], "prm_1.1");
    assert!(answer.contains("A-17"), "{answer}");
}

#[test]
fn a_rejected_call_ends_the_turn_and_is_not_repeated() {
    let rejected = json!("User rejected this action. Not this name.");
    let (chat, answer) = run(&system(INVOICE, ""), EXTRACT, HashMap::from([("create_schema", vec![rejected])]));
    assert_eq!(names(&chat), AT_ONCE);
    assert!(answer.contains("rejected") && answer.contains("create_schema"), "{answer}");
}

#[test]
fn a_taken_name_leads_to_a_new_version_of_the_existing_schema() {
    let taken = json!({"error": "NAME_TAKEN: a schema of that name is there"});
    let listed = json!({"total": 1, "schemas": [{"schema_id": "sch_9", "name": "invoice"}]});
    let results = HashMap::from([("create_schema", vec![taken]), ("list_schemas", vec![listed])]);
    let (chat, answer) = run(&system(INVOICE, ""), EXTRACT, results);
    assert!(names(&chat).contains(&"update_schema") && names(&chat).contains(&"run_extraction"), "{:?}", chat.called);
    assert!(answer.contains("A-17"));
    let update = chat.called.iter().find(|(name, _)| name == "update_schema").unwrap();
    assert_eq!(update.1["schema_id"], "sch_9");
}

/// A run without a person may not change the schema of another document.
#[test]
fn a_refused_update_of_the_schema_with_the_name_leads_to_another_name() {
    let taken = json!({"error": "NAME_TAKEN: a schema of that name is there"});
    let listed = json!({"schemas": [{"schema_id": "sch_9", "name": "Invoice"}], "total": 1});
    let results = HashMap::from([
        ("create_schema", vec![taken.clone()]),
        ("list_schemas", vec![listed]),
        ("update_schema", vec![json!({"error": "This run changes only what it has created."})]),
        ("create_prompt", vec![taken]),
    ]);
    let (chat, answer) = run(&system(INVOICE, ""), EXTRACT, results);
    assert!(answer.contains("A-17"), "{answer}: {:?}", chat.called);
    let created = |tool: &str| chat.called.iter().rfind(|(name, _)| name == tool).unwrap().1.clone();
    assert_eq!(created("create_schema")["name"], "Invoice (bill.pdf)");
    assert_eq!(created("create_prompt")["name"], "Invoice extraction (bill.pdf)");
    assert_eq!(created("create_prompt")["schema_id"], "sch_1");
}

#[test]
fn persistent_errors_end_in_an_explanation_within_the_rounds_of_a_turn() {
    for tool in ["validate_schema", "create_schema", "create_prompt", "run_extraction"] {
        let request = if tool == "validate_schema" { "create a schema" } else { EXTRACT };
        let broken = vec![json!({"error": "it is broken"}); 10];
        let results = HashMap::from([(tool, broken), ("list_schemas", vec![json!({"schemas": []})])]);
        let (_, answer) = run(&system(INVOICE, ""), request, results);
        assert!(answer.contains("it is broken"), "{tool}: {answer}");
    }
}

#[test]
fn a_document_whose_text_is_not_in_the_message_is_fetched() {
    let text = "# Document\n\nid: doc_1\nfile name: \"a.txt\"\n\n# Document text\n\nThe text is still being extracted from the file.\n";
    let pages = json!({"pages": [{"page": 1, "text": INVOICE}]});
    let (chat, _) = run(text, EXTRACT, HashMap::from([("get_ocr_text", vec![pages])]));
    assert_eq!(names(&chat)[0], "get_ocr_text");
    assert!(names(&chat).contains(&"create_schema"));
    let (_, answer) = run(text, EXTRACT, HashMap::from([("get_ocr_text", vec![json!({"error": "NO_TEXT"})])]));
    assert!(answer.contains("no text"), "{answer}");
}

#[test]
fn no_schema_is_created_for_a_text_without_labels_and_tables() {
    let prose =
        "The sea was calm that evening. Nobody spoke for a long while.\n\nThen the lights came up out of the mist.\n";
    let (chat, answer) = run(&system(prose, ""), EXTRACT, HashMap::new());
    assert_eq!(names(&chat), [""; 0]);
    assert!(answer.contains("no labelled value") && answer.contains("bill.pdf"), "{answer}");
    let ready = "prompt_revid: prm_1.1\n";
    assert_eq!(names(&run(&system(prose, ready), "extract", HashMap::new()).0), ["run_extraction"]);
}

#[test]
fn an_unknown_kind_is_named_after_its_heading_or_file() {
    let kind = |text: &str, file: &str| schema::propose(&reading::read(text), Some(file), text).kind;
    let table = "| Flat | Used |\n|---|---|\n| 1A | 429 |\n| 1B | 237 |\n";
    assert_eq!(kind(&format!("# Meter readings\n\n{table}"), "x.md"), "Meter readings");
    assert_eq!(kind(&format!("# Meters, Elm Court 4\n\n{table}"), "meter_readings-2026.md"), "Meter readings");
    assert_eq!(kind("name;qty\nBolt;120\nNut;80\n", "übersicht.csv"), "Übersicht");
    assert_eq!(kind("name;qty\nBolt;120\nNut;80\n", "scan_0001.csv"), "Document");
}

#[test]
fn a_value_is_changed_in_the_extraction() {
    let working = "prompt_revid: prm_1.1\nextraction: ext_1\n<extraction>\n{\"total\":957.5,\"tax\":1,\"items\":[{\"amount\":2}]}\n</extraction>";
    let done = HashMap::from([("update_extraction_field", vec![json!({"ok": true})])]);
    let (chat, answer) = run(&system(INVOICE, working), "Update the total to 1,250", done);
    assert_eq!(chat.called, [("update_extraction_field".to_owned(), json!({"path": "total", "value": 1250}))]);
    assert!(answer.contains("total is now 1250"), "{answer}");
    let german = "RECHNUNG\n\nGesamtbetrag: 957,50 €\nNetto: 804,62 €\n";
    for (answer, value) in
        [("1,250", json!(1250)), ("1.250", json!(1250)), ("692,34", json!(692.34)), ("1.250,5", json!(1250.5))]
    {
        let (chat, _) = run(&system(german, working), &format!("set the total to {answer}"), HashMap::new());
        assert_eq!(chat.called[0].1, json!({"path": "total", "value": value}), "{answer}");
    }
    let (chat, _) = run(&system(INVOICE, working), "set items.0.amount to 3", HashMap::new());
    assert_eq!(chat.called[0].1, json!({"path": "items.0.amount", "value": 3}));
    let (_, answer) = run(&system(INVOICE, ""), "set the total to 5", HashMap::new());
    assert!(answer.contains("no extraction"), "{answer}");
}

#[test]
fn with_a_working_prompt_extracting_takes_one_call() {
    let (chat, _) = run(&system(INVOICE, "prompt_revid: prm_7.2\n"), "please extract again", HashMap::new());
    assert_eq!(chat.called, [("run_extraction".to_owned(), json!({"prompt_revid": "prm_7.2"}))]);
}

#[test]
fn questions_are_answered_from_labels_and_other_requests_with_a_description() {
    let system = system(INVOICE, "");
    assert!(run(&system, "What is the total?", HashMap::new()).1.contains("957.00 EUR"));
    assert!(run(&system, "when was the invoice date", HashMap::new()).1.contains("2026-03-17"));
    assert!(run(&system, "Summarize this document", HashMap::new()).1.contains("A-17"));
    let answer = run(&system, "Tell me a joke", HashMap::new()).1;
    assert!(answer.contains("offline model") && answer.contains("no LLM"), "{answer}");
    let (chat, answer) =
        run(&system, "list tags", HashMap::from([("list_tags", vec![json!({"tags": [{"name": "paid"}]})])]));
    assert_eq!((names(&chat), answer.as_str()), (vec!["list_tags"], "There are 1 tags: paid."));
}

fn extracted(schema: Value, text: &str) -> Value {
    let body = json!({
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Extract the fields of the schema."},
            {"role": "user", "content": format!("<document_text>\n{text}\n</document_text>")},
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema}},
    });
    let answer = super::answer(&ChatRequest::parse(&body, 0).unwrap());
    serde_json::from_str(&answer.text).unwrap()
}

fn of(properties: Value) -> Value {
    let required: Vec<String> = properties.as_object().unwrap().keys().cloned().collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

#[test]
fn a_proposed_schema_extracts_each_value() {
    let text = "INVOICE\nInvoice Number: A-17\nDue: 16.04.2026\nTotal: 1.957,50 €\nPaid: nothing yet\n\nPos Description Quantity Amount\n1 \
                Box of paper 12 29,80\n2 Toner 4 35,00\n";
    let format = schema::propose(&reading::read(text), None, text).format;
    let data = extracted(format["json_schema"]["schema"].clone(), text);
    let expected = json!({
        "invoice_number": "A-17", "due": "2026-04-16", "total": 1957.5, "paid": "nothing yet", "currency": "EUR",
        "items": [
            {"pos": 1, "description": "Box of paper", "quantity": 12, "amount": 29.8},
            {"pos": 2, "description": "Toner", "quantity": 4, "amount": 35.0},
        ],
    });
    assert_eq!(data, expected);
}

#[test]
fn a_foreign_schema_is_filled_by_names_in_several_languages() {
    let nullable = |kind: &str| json!({"type": [kind, "null"]});
    let schema = of(json!({
        "invoiceNumber": {"type": "string"},
        "issue_date": {"type": "string", "description": "YYYY-MM-DD"},
        "total_amount": {"type": "number"},
        "supplier": of(json!({"name": nullable("string"), "tax_id": nullable("string")})),
        "currency": {"enum": ["USD", "EUR", null]},
        "shoe_size": nullable("integer"),
        "shoe_name": {"type": "string"},
        "line_items": {"type": "array", "items": of(json!({"item": {"type": "string"}, "qty": {"type": "integer"}, "price": nullable("number")}))},
    }));
    let text = "Rechnung\nRechnungsnummer: R-9\nRechnungsdatum: 02.01.2026\nLieferant: Muster GmbH\nUSt-IdNr.: DE1\n\nBezeichnung Menge \
                Einzelpreis\nSchraube M4 100 0,05\nMutter M4 50 0,04\n\nGesamtbetrag: 7,00 EUR\n";
    let expected = json!({
        "invoiceNumber": "R-9", "issue_date": "2026-01-02", "total_amount": 7.0,
        "supplier": {"name": "Muster GmbH", "tax_id": "DE1"}, "currency": "EUR", "shoe_size": null, "shoe_name": "",
        "line_items": [{"item": "Schraube M4", "qty": 100, "price": 0.05}, {"item": "Mutter M4", "qty": 50, "price": 0.04}],
    });
    assert_eq!(extracted(schema, text), expected);
}

#[test]
fn a_property_is_not_filled_with_the_value_of_another_meaning_or_type() {
    let names = ["tax_rate", "customer_number", "due_date", "total_amount_due", "tax_amount"];
    let schema = of(names.iter().map(|name| ((*name).to_owned(), json!({"type": ["string", "null"]}))).collect());
    let text = "Tax: 12.80\nCustomer: Brightwater 7\nDate: 2026-03-17\nTotal due on: 2026-04-16\nAmount: 5.00\n";
    let expected = json!({
        "tax_rate": null, "customer_number": null, "due_date": null, "total_amount_due": null, "tax_amount": "12.80",
    });
    assert_eq!(extracted(schema, text), expected);
}

#[test]
fn recursive_and_unusual_schemas_do_not_fail() {
    let recursive = json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]});
    assert!(extracted(recursive, INVOICE).is_object());
    assert_eq!(extracted(json!({"type": "array", "items": {"type": "string"}}), INVOICE), json!([]));
    assert_eq!(extracted(json!({"anyOf": [{"type": "null"}, {"$ref": "#/nowhere"}]}), ""), Value::Null);
}

#[test]
fn an_image_is_described_by_the_digest_of_its_bytes() {
    let message = |url: &str| {
        let image = json!({"type": "image_url", "image_url": {"url": url}});
        json!({"role": "user", "content": [{"type": "text", "text": "Hello."}, image]})
    };
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"caption": text, "steps": {}, "entities": {}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "image_description", "schema": schema}});
    let described = |url: &str, format: &Value| {
        let body = json!({"model": MODEL, "messages": [message(url)], "response_format": format});
        super::answer(&ChatRequest::parse(&body, 0).unwrap()).text
    };
    let (first, second) = ("data:image/jpeg;base64,/9j/AA==", "data:image/jpeg;base64,/9j/AQ==");
    let answer: Value = serde_json::from_str(&described(first, &format)).unwrap();
    assert!(answer["caption"].as_str().unwrap().starts_with("An image with the digest "), "{answer}");
    assert_eq!(described(first, &format), described(first, &format));
    assert_ne!(described(first, &format), described(second, &format));
    assert!(described(first, &Value::Null).contains("1 images"), "a chat names the images");
}
