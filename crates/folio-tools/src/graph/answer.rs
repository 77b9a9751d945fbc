//! Checks of the answer of a node by code, and the members that the server adds.

use folio_history::TurnRecord;
use folio_history::graph::PASSAGES;
use folio_history::journal::{CallStatus, TurnNode};
use folio_types::Timestamp;
use folio_types::profile::{AnswerCheck, NodeKind};
use rust_decimal::Decimal;
use serde_json::{Map, Value};

use super::retrieved::Retrieved;
use crate::calculator::{CALCULATOR, evaluate, is_same_expression};
use crate::rules::excerpt;
use crate::stack::{ASK_TABLE, values_of};

/// Maximum number of ids that a violation lists.
const IDS_SHOWN_MAX: usize = 20;

/// Returns an answer that matches the schema of its node, after the checks of the node. The server sets `timestamp` in an
/// answer of the kind [`NodeKind::Answer`], and `passages` if the node checks sources.
///
/// # Errors
/// The violations, for the model.
pub fn checked_answer(
    node: &TurnNode,
    answer: Value,
    record: &TurnRecord,
    now: Timestamp,
) -> std::result::Result<Value, String> {
    let Value::Object(mut members) = answer else { return Err("#: the answer is not a JSON object".to_owned()) };
    let mut violations = Vec::new();
    let mut passages = None;
    for check in &node.checks {
        match check {
            AnswerCheck::Sources => {
                let retrieved = Retrieved::of(record);
                let sources = sources(&members);
                violations.extend(unknown_sources(&sources, &retrieved.documents()));
                passages = Some(retrieved.passages(&sources));
            }
            AnswerCheck::Calculated => violations.extend(calculation_problem(&members, record)),
        }
    }
    if !violations.is_empty() {
        return Err(violations.join("\n"));
    }
    if node.kind == NodeKind::Answer {
        members.insert("timestamp".to_owned(), now.to_string().into());
    }
    if let Some(passages) = passages {
        members.insert(PASSAGES.to_owned(), passages.into());
    }
    Ok(Value::Object(members))
}

fn sources(members: &Map<String, Value>) -> Vec<&str> {
    let sources = members.get("sources").and_then(Value::as_array);
    sources.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn unknown_sources(sources: &[&str], retrieved: &[&str]) -> Vec<String> {
    let shown = match retrieved {
        [] => "no document was retrieved: call retrieve_documents first".to_owned(),
        ids => format!(
            "the retrieved documents are {}",
            ids.iter().take(IDS_SHOWN_MAX).copied().collect::<Vec<_>>().join(", ")
        ),
    };
    let unknown = sources.iter().enumerate().filter(|(_, source)| !retrieved.contains(source));
    unknown
        .map(|(at, source)| format!("#/sources/{at}: {:?} was not retrieved in this turn; {shown}", excerpt(source)))
        .collect()
}

/// Returns the violation if `result` is not a value that a successful call of the calculator or of `ask_table` has for
/// `expression`.
fn calculation_problem(members: &Map<String, Value>, record: &TurnRecord) -> Option<String> {
    let expression = members.get("expression").and_then(Value::as_str).unwrap_or_default();
    let calls = record.rounds.iter().flat_map(|round| &round.calls);
    let mut values = Vec::new();
    for call in calls.filter(|call| call.status() == Some(CallStatus::Ok)) {
        match call.call.name.as_str() {
            CALCULATOR => {
                let computed = call.arguments().get("expression").and_then(Value::as_str);
                if computed.is_some_and(|computed| is_same_expression(computed, expression)) {
                    // Expressions that differ in blanks only may differ in their values: "1 2" has none.
                    match evaluate(expression) {
                        Ok(value) => values.push(value.to_string()),
                        Err(error) => {
                            return Some(format!("#/expression: {error}; use exactly the expression of the call"));
                        }
                    }
                }
            }
            ASK_TABLE => {
                values.extend(call.result.iter().flat_map(|result| values_of(&result.content, expression)));
            }
            _ => {}
        }
    }
    let Some(value) = values.first() else {
        let message = format!(
            "#/expression: neither {CALCULATOR} nor {ASK_TABLE} has computed this expression in this turn; call one of them first, \
             and copy its expression"
        );
        return Some(message);
    };
    let result = members.get("result");
    let is_result = |value: &String| result.is_some_and(|result| is_value(result, value));
    (!values.iter().any(is_result)).then(|| {
        format!("#/result: the result for this expression is {value}; use exactly this value (as a string if it has more than 15 digits)")
    })
}

/// Returns true if an answer's result is a computed value: the same number, or the same text if the value is a date.
fn is_value(result: &Value, value: &str) -> bool {
    match decimal(value) {
        Some(value) => number(result) == Some(value),
        None => result.as_str().is_some_and(|text| text.trim() == value),
    }
}

/// Returns the exact value of a JSON number or of a string that contains one.
fn number(value: &Value) -> Option<Decimal> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        _ => return None,
    };
    decimal(&text)
}

fn decimal(text: &str) -> Option<Decimal> {
    Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text)).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use folio_history::graph::TurnRoutes;
    use folio_history::journal::{Accepted, Access, Call, CallResult, Entry, Round, WorkingChange};
    use folio_types::UserId;
    use folio_types::message::Usage;
    use serde_json::json;

    use super::*;

    pub(crate) fn node(kind: NodeKind, checks: &[AnswerCheck]) -> TurnNode {
        TurnNode {
            name: "agent".to_owned(),
            kind,
            tools: Vec::new(),
            answer_type: "Answer".to_owned(),
            schema: json!({}),
            checks: checks.to_vec(),
            text_members: Vec::new(),
            default_answer: None,
            routes: TurnRoutes::default(),
        }
    }

    /// Returns a record with one round that has these calls: name, arguments, status and result.
    pub(crate) fn record(calls: &[(&str, Value, CallStatus, Value)]) -> TurnRecord {
        let (at, user) = (Timestamp::UNIX_EPOCH, UserId::derive(&["u"]));
        let mut record = TurnRecord::new(Accepted::new(1, "r".parse().unwrap(), user, "question", at));
        let indexed = || (1u32..).zip(calls);
        let call = |(index, (name, arguments, _, _)): (u32, &(&str, Value, CallStatus, Value))| Call {
            index,
            provider_id: String::new(),
            name: (*name).to_owned(),
            arguments: arguments.clone(),
            access: Access::ReadOnly,
            needs_approval: false,
            approval_requirement: None,
            problem: None,
            repairs: Vec::new(),
        };
        let result = |(index, (_, _, status, content)): (u32, &(&str, Value, CallStatus, Value))| CallResult {
            round: 1,
            index,
            status: *status,
            content: content.to_string(),
            change: WorkingChange::default(),
            usage: Usage::default(),
            at: None,
        };
        let (calls, results) = (indexed().map(call).collect(), indexed().map(result).collect());
        record.push(Entry::Round(Box::new(Round { turn: 1, round: 1, calls, results, ..Round::default() })));
        record
    }

    pub(crate) fn passage(document: &str, snippet: &str) -> Value {
        json!({ "document_id": document, "document_name": "a.pdf", "section_id": "s", "section": "Costs", "page": 2,
            "snippet": snippet, "score": 0.1 })
    }

    fn retrieved() -> TurnRecord {
        let passages =
            json!({ "passages": [passage("doc_a", "one"), passage("doc_a", "one"), passage("doc_b", "two")] });
        record(&[("retrieve_documents", json!({ "query": "costs" }), CallStatus::Ok, passages)])
    }

    fn check(checks: &[AnswerCheck], answer: Value, record: &TurnRecord) -> std::result::Result<Value, String> {
        checked_answer(&node(NodeKind::Answer, checks), answer, record, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn sources_are_retrieved_documents_and_have_their_passages() {
        let answer = json!({ "answer": "x", "sources": ["doc_a"], "timestamp": "2001-01-01" });
        let checked = check(&[AnswerCheck::Sources], answer, &retrieved()).unwrap();
        assert_eq!(checked["timestamp"], "1970-01-01T00:00:00Z", "the time of the server");
        let quoted = json!({ "document_id": "doc_a", "document_name": "a.pdf", "page": 2, "section_id": "s",
            "section": "Costs", "quote": "one" });
        assert_eq!(checked["passages"], json!([quoted]), "each passage once");

        let answer = json!({ "sources": ["doc_a", "doc_c"] });
        let violations = check(&[AnswerCheck::Sources], answer, &retrieved()).unwrap_err();
        assert_eq!(
            violations,
            "#/sources/1: \"doc_c\" was not retrieved in this turn; the retrieved documents are doc_a, doc_b"
        );
        let nothing = check(&[AnswerCheck::Sources], json!({ "sources": ["doc_a"] }), &record(&[])).unwrap_err();
        assert!(nothing.contains("call retrieve_documents first"), "{nothing}");
        let none = check(&[AnswerCheck::Sources], json!({ "sources": [] }), &record(&[])).unwrap();
        assert_eq!(none["passages"], json!([]));
    }

    #[test]
    fn a_failed_retrieval_has_no_sources() {
        let failed =
            ("retrieve_documents", json!({}), CallStatus::Failed, json!({ "passages": [passage("doc_a", "x")] }));
        let answer = json!({ "sources": ["doc_a"] });
        assert!(check(&[AnswerCheck::Sources], answer, &record(&[failed])).is_err());
    }

    #[test]
    fn a_result_must_be_that_of_the_calculator() {
        let computed = |status| {
            let arguments = json!({ "expression": "4200 - (1200 + 0.12*4200)" });
            record(&[("calculator", arguments, status, json!("Result: 2496"))])
        };
        let checks = &[AnswerCheck::Calculated];
        let answer = |result: Value| json!({ "expression": "4200-(1200+0.12*4200)", "result": result });
        for accepted in [json!(2496), json!(2496.0), json!("2496"), json!("2496.00")] {
            assert!(check(checks, answer(accepted.clone()), &computed(CallStatus::Ok)).is_ok(), "{accepted}");
        }
        for refused in [json!(2497), json!("2,496"), json!(null), json!(2496.1)] {
            let violation = check(checks, answer(refused.clone()), &computed(CallStatus::Ok)).unwrap_err();
            assert!(violation.starts_with("#/result: ") && violation.contains("2496;"), "{refused}: {violation}");
        }
        for not_computed in [record(&[]), computed(CallStatus::Failed)] {
            let violation = check(checks, answer(json!(2496)), &not_computed).unwrap_err();
            assert!(violation.starts_with("#/expression: "), "{violation}");
        }
        let split = json!({ "expression": "42 00-(1200+0.12*4200)", "result": 9999 });
        assert!(
            check(checks, split, &computed(CallStatus::Ok)).is_err(),
            "blanks do not replace the check of the result"
        );
        let other = json!({ "expression": "4200 - 1704", "result": 2496 });
        assert!(check(checks, other, &computed(CallStatus::Ok)).is_err(), "another expression");
    }

    #[test]
    fn a_result_may_be_a_value_of_a_table() {
        let computed = |status| {
            let row = |expression: &str, value: &str| json!({ "expression": expression, "value": value });
            let results = json!([row("sum(Total) of Invoices", "957.10"), row("max(Due) of Invoices", "2026-12-31")]);
            let arguments = json!({ "stack_id": "Invoices", "function": "sum" });
            record(&[("ask_table", arguments, status, json!({ "results": results }))])
        };
        let checks = &[AnswerCheck::Calculated];
        let answer = |expression: &str, result: Value| json!({ "expression": expression, "result": result });
        for (expression, result) in [
            ("sum(Total) of Invoices", json!(957.1)),
            ("sum(Total) of Invoices", json!("957.10")),
            ("max(Due) of Invoices", json!("2026-12-31")),
        ] {
            assert!(check(checks, answer(expression, result), &computed(CallStatus::Ok)).is_ok(), "{expression}");
        }
        for (expression, result, field) in [
            ("sum(Total) of Invoices", json!(957), "#/result: "),
            ("max(Due) of Invoices", json!("2026-12-30"), "#/result: "),
            ("max(Due) of Invoices", json!(2026), "#/result: "),
            ("average(Total) of Invoices", json!(957.1), "#/expression: "),
            ("957.10", json!(957.1), "#/expression: "),
        ] {
            let violation = check(checks, answer(expression, result), &computed(CallStatus::Ok)).unwrap_err();
            assert!(violation.starts_with(field), "{expression}: {violation}");
        }
        let failed = computed(CallStatus::Failed);
        assert!(check(checks, answer("sum(Total) of Invoices", json!(957.1)), &failed).is_err());
    }

    #[test]
    fn only_an_answer_of_the_turn_has_a_timestamp() {
        let route = node(NodeKind::Route, &[]);
        let answer = json!({ "intent_type": "qa" });
        assert_eq!(checked_answer(&route, answer.clone(), &record(&[]), Timestamp::UNIX_EPOCH), Ok(answer));
        assert!(checked_answer(&route, json!([1]), &record(&[]), Timestamp::UNIX_EPOCH).is_err());
    }
}
