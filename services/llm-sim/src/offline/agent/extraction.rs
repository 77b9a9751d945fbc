//! The agent that writes an extraction: it reads the first pages, saves what the rules find in them, and completes the extraction.

use serde_json::{Value, json};

use super::history::{Step, Steps};
use crate::answer::{Answer, Call};
use crate::offline::fill::fill;
use crate::offline::reading;
use crate::offline::schema::propose;
use crate::offline::view;
use crate::request::ChatRequest;

/// The confidence in each value. The rules cannot estimate it.
const CONFIDENCE: f64 = 0.5;

/// Returns true if the conversation is that of the agent.
pub(super) fn is_offered(request: &ChatRequest) -> bool {
    request.offers("complete_extraction")
}

pub(super) fn next(request: &ChatRequest) -> Answer {
    let (steps, is_correction) = (Steps::of(request), request.user().starts_with("Correct the extraction"));
    let complete = |text: &str| Answer::calls(text, vec![Call::new("complete_extraction", json!({}))]);
    let Some(newest) = steps.newest() else {
        return match is_correction {
            // Without this call, the extraction would count as failed.
            true => complete("I keep the saved fields."),
            false => Answer::calls("I read the document.", vec![Call::new("get_document_text", json!({}))]),
        };
    };
    match newest.tool {
        tool if newest.is_error() => {
            Answer::text(format!("I stopped, because `{tool}` failed: {}", newest.result_text()))
        }
        "get_document_text" => save(request, newest),
        "extract_fields" => complete("I complete the extraction."),
        _ if is_correction => Answer::text(
            "I am Folio's offline model: fixed rules, no LLM. I understand no corrections in words, so I changed nothing.",
        ),
        _ => Answer::text("I saved the values that my rules found. I am Folio's offline model: fixed rules, no LLM."),
    }
}

/// Saves the values in the text that a step returned, in the fields of the linked schema, or in those of a proposed one.
fn save(request: &ChatRequest, step: &Step<'_>) -> Answer {
    let text = step.document_text().unwrap_or_default();
    // The first line states the number of pages.
    let text = text.split_once("\n\n").map_or(text.as_str(), |(_, rest)| rest);
    let reading = reading::read(text);
    let proposal = propose(&reading, None, text);
    let format = view::linked_schema(&request.system()).unwrap_or(proposal.format);
    let fields = fill(format.pointer("/json_schema/schema").unwrap_or(&Value::Null), &reading);
    let confidences = confidences(&fields);
    Answer::calls(
        "I save what I found.",
        vec![
            Call::new("identify_document", json!({ "document_type": proposal.kind, "confidence": CONFIDENCE })),
            Call::new("extract_fields", json!({ "fields": fields, "confidences": confidences })),
        ],
    )
}

/// Returns a confidence for each value, in the shape of the fields.
fn confidences(fields: &Value) -> Value {
    match fields {
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, member)| (name.clone(), confidences(member))).collect())
        }
        Value::Array(items) => items.iter().map(confidences).collect(),
        Value::Null => Value::Null,
        _ => CONFIDENCE.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = "# Instructions\n\nExtract.\n\n# Referenced artifacts\n\n## Prompt prm_1.1\n\n<prompt>\nRead.\n</prompt>\nlinked \
                          schema: sch_1.1 \"Bill\"\n<schema>\n{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"bill\",\"schema\":\
                          {\"type\":\"object\",\"properties\":{\"total\":{\"type\":[\"number\",\"null\"]},\"iban\":{\"type\":[\"string\",\
                          \"null\"]}},\"required\":[\"total\",\"iban\"],\"additionalProperties\":false}}}\n</schema>\n";

    /// Returns the calls of all rounds, and the text of the last answer. The tools return `results` in order.
    fn run(system: &str, user: &str, results: &[Value]) -> (Vec<(String, Value)>, String) {
        let tools = ["get_document_text", "identify_document", "extract_fields", "complete_extraction"];
        let tools: Vec<Value> =
            tools.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect();
        let mut messages = vec![json!({"role": "system", "content": system}), json!({"role": "user", "content": user})];
        let (mut called, mut results) = (Vec::new(), results.iter());
        for round in 1..=6 {
            let body = json!({"model": crate::offline::MODEL, "messages": messages, "tools": tools});
            let answer = crate::offline::answer(&ChatRequest::parse(&body, 0).unwrap());
            if answer.calls.is_empty() {
                return (called, answer.text);
            }
            let id = |index: usize| format!("call_{round}_{index}");
            let calls: Vec<Value> = answer.calls.iter().enumerate().map(|(index, call)| {
                json!({"id": id(index), "function": {"name": call.name, "arguments": call.arguments_text()}})
            }).collect();
            messages.push(json!({"role": "assistant", "content": answer.text, "tool_calls": calls}));
            for (index, call) in answer.calls.iter().enumerate() {
                called.push((call.name.clone(), call.arguments.clone()));
                let result = results.next().cloned().unwrap_or_else(|| json!({"result": "done"}));
                messages.push(json!({"role": "tool", "tool_call_id": id(index), "content": result.to_string()}));
            }
        }
        panic!("more than 6 rounds: {called:?}");
    }

    #[test]
    fn the_agent_reads_saves_and_completes() {
        let text =
            json!({"pages": 1, "text": "Document (1 pages):\n\n--- page 1 ---\nINVOICE\n\nTotal:  957.00 EUR\n"});
        let (called, last) = run(SYSTEM, "Extract the data of the document.", std::slice::from_ref(&text));
        let names: Vec<&str> = called.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["get_document_text", "identify_document", "extract_fields", "complete_extraction"]);
        assert_eq!(called[1].1["document_type"], "Invoice");
        let fields = &called[2].1["fields"];
        assert_eq!((fields["total"].as_f64(), &fields["iban"]), (Some(957.0), &Value::Null));
        assert_eq!(fields.as_object().unwrap().len(), 2);
        assert_eq!(called[2].1["confidences"], json!({"total": 0.5, "iban": null}));
        assert!(last.contains("no LLM"), "{last}");
        // Without a schema, the fields are those of a proposed one.
        let (called, _) = run("# Instructions\n\nExtract.\n", "Extract the data of the document.", &[text]);
        assert_eq!(called[2].1["fields"]["total"].as_f64(), Some(957.0));
    }

    #[test]
    fn a_failed_call_and_a_correction_end_the_turn() {
        let (called, last) = run(SYSTEM, "Extract.", &[json!({"error": "No OCR data found for this document."})]);
        assert_eq!((called.len(), last.contains("No OCR data found")), (1, true), "{last}");
        let (called, last) = run(SYSTEM, "Correct the extraction as follows.\n\nThe total is 5.", &[]);
        assert_eq!((called[0].0.as_str(), called.len()), ("complete_extraction", 1));
        assert!(last.contains("I changed nothing"), "{last}");
    }
}
