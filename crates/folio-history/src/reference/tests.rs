//! Parsing and resolution of references.

use serde_json::json;

use super::*;
use crate::TurnRecord;
use crate::journal::{Accepted, Access, Call, CallResult, Decision, Decisions, Entry, Intent, Round, WorkingChange};
use folio_types::message::Usage;
use folio_types::op::{Expected, Target};
use folio_types::{Timestamp, UserId};

fn reference(tool: &'static str, nth: usize, field: &'static str) -> Reference<'static> {
    Reference { tool, nth, field }
}

#[test]
fn a_reference_names_a_tool_the_number_of_its_call_and_a_field() {
    for (text, parsed) in [
        ("$create_schema.schema_revid", reference("create_schema", 1, "schema_revid")),
        ("$create_schema[1].schema_id", reference("create_schema", 1, "schema_id")),
        ("$create_schema[12].schema_id", reference("create_schema", 12, "schema_id")),
    ] {
        assert_eq!(Reference::parse(text), Some(parsed), "{text}");
        assert_eq!(Reference::parse(&parsed.to_string()), Some(parsed), "{text}");
    }
    assert_eq!(reference("create_tag", 1, "tag_id").to_string(), "$create_tag.tag_id");
    assert_eq!(reference("create_tag", 2, "tag_id").to_string(), "$create_tag[2].tag_id");
}

#[test]
fn any_other_text_with_a_dollar_sign_is_literal() {
    for text in [
        "",
        "$",
        "$5.00",
        "$.x",
        "$create_schema",
        "$create_schema.",
        "$create_schema[0].schema_id",
        "$create_schema[01].schema_id",
        "$create_schema[+1].schema_id",
        "$create_schema[-1].schema_id",
        "$create_schema[].schema_id",
        "$create_schema[2.schema_id",
        "$create_schema2].schema_id",
        "$create_schema[99999999999999999999].schema_id",
        "$create_schema.schema_id.x",
        "$create_schema.schema_id ",
        " $create_schema.schema_id",
        "${create_schema.schema_id}",
        "$$create_schema.schema_id",
        "$Create_Schema.schema_id",
        "create_schema.schema_id",
    ] {
        assert_eq!(Reference::parse(text), None, "{text}");
    }
}

#[test]
fn only_arguments_that_expect_ids_contain_references() {
    let text = "$create_tag.tag_id";
    let arguments = json!({
        "name": text, "content": text, "value": text, "data": { "tag_id": text }, "document_metadata": [text],
        "tag_id": text, "prompt_revid": text, "tag_ids": ["tag_1", text, 5], "schema_ids": text, "schema_id": [text],
    });
    let names: Vec<&str> = id_texts(&arguments).map(|(name, _)| name).collect();
    assert_eq!(names, ["tag_id", "prompt_revid", "tag_ids", "tag_ids"]);
    assert_eq!(references(&arguments).count(), 3);
    let replaced = replace_references(&arguments, |argument, _| Some(argument.to_owned()));
    let mut expected = arguments.clone();
    expected["tag_id"] = json!("tag_id");
    expected["prompt_revid"] = json!("prompt_revid");
    expected["tag_ids"] = json!(["tag_1", "tag_ids", 5]);
    assert_eq!(replaced, expected);
    assert_eq!(replace_references(&arguments, |_, _| None), arguments);
    for other in [json!(null), json!([text]), json!(text)] {
        assert_eq!((references(&other).count(), replace_references(&other, |_, _| Some(String::new()))), (0, other));
    }
}

#[test]
fn the_number_counts_the_calls_of_the_tool_in_the_round() {
    let names = ["create_tag", "create_schema", "create_tag"];
    let target = |tool, nth| reference(tool, nth, "x").target(names);
    assert_eq!(
        (target("create_tag", 1), target("create_tag", 2), target("create_schema", 1)),
        (Some(0), Some(2), Some(1))
    );
    assert_eq!((target("create_tag", 3), target("create_tag", 0), target("other", 1)), (None, None, None));
}

fn turn(calls: &[(&str, Value)]) -> TurnRecord {
    let request = "r".parse().unwrap();
    let mut record = TurnRecord::new(Accepted::new(1, request, UserId::derive(&["u"]), "hello", Timestamp::MIN));
    let calls = calls.iter().zip(1..).map(|((name, arguments), index)| Call {
        index,
        provider_id: String::new(),
        name: (*name).to_owned(),
        arguments: arguments.clone(),
        access: Access::ReadWrite,
        needs_approval: true,
        approval_requirement: None,
        problem: None,
        repairs: Vec::new(),
    });
    let round = Round { turn: 1, round: 1, calls: calls.collect(), ..Round::default() };
    record.push(Entry::Round(Box::new(round)));
    record
}

fn answer(record: &mut TurnRecord, index: u32, status: CallStatus, content: &str) {
    let (change, usage) = (WorkingChange::default(), Usage::default());
    record.push_result(CallResult { round: 1, index, status, content: content.into(), change, usage, at: None });
}

fn resolution(record: &TurnRecord, index: u32) -> Resolution<'_> {
    let round = record.newest_round().unwrap();
    round.resolve(round.call(index).unwrap())
}

fn ready(arguments: Value) -> Resolution<'static> {
    Resolution::Ready(Cow::Owned(arguments))
}

#[test]
fn references_are_resolved_from_the_recorded_results_of_earlier_calls() {
    let prompt = json!({ "name": "$literal.text", "schema_id": "$create_schema[2].schema_id" });
    let mut record = turn(&[("create_schema", json!({})), ("create_schema", json!({})), ("create_prompt", prompt)]);
    answer(&mut record, 1, CallStatus::Ok, r#"{"schema_id":"sch_1"}"#);
    assert_eq!(resolution(&record, 3), Resolution::Waiting);
    answer(&mut record, 2, CallStatus::Ok, r#"{"repairs":["x"],"schema_id":"sch_2"}"#);
    assert_eq!(resolution(&record, 3), ready(json!({ "name": "$literal.text", "schema_id": "sch_2" })));
    assert!(matches!(resolution(&record, 1), Resolution::Ready(Cow::Borrowed(_))));
}

#[test]
fn a_call_that_did_not_succeed_has_no_id() {
    for status in [
        CallStatus::Failed,
        CallStatus::Rejected,
        CallStatus::Cancelled,
        CallStatus::Expired,
        CallStatus::Superseded,
        CallStatus::Conflict,
        CallStatus::NotRun,
    ] {
        let mut record = turn(&[("a", json!({})), ("b", json!({ "x_id": "$a.x_id", "y_id": "$a.y_id" }))]);
        answer(&mut record, 1, status, r#"{"x_id":"1","y_id":"2"}"#);
        assert_eq!(resolution(&record, 2), Resolution::Failed(reference("a", 1, "x_id"), Some(status)), "{status:?}");
    }
    for content in ["no JSON", "[]", "{}", r#"{"x_id":null}"#, r#"{"x_id":5}"#] {
        let mut record = turn(&[("a", json!({})), ("b", json!({ "x_id": "$a.x_id" }))]);
        answer(&mut record, 1, CallStatus::Ok, content);
        let failed = Resolution::Failed(reference("a", 1, "x_id"), Some(CallStatus::Ok));
        assert_eq!(resolution(&record, 2), failed, "{content}");
    }
}

#[test]
fn a_reference_to_itself_or_to_a_later_call_points_to_no_call() {
    for arguments in [json!({ "x_id": "$b.x_id" }), json!({ "x_id": "$c.x_id" }), json!({ "x_id": "$a[2].x_id" })] {
        let record = turn(&[("a", json!({})), ("b", arguments), ("c", json!({})), ("a", json!({}))]);
        assert!(matches!(resolution(&record, 2), Resolution::Failed(_, None)));
    }
}

#[test]
fn the_arguments_of_an_approver_and_of_the_intent_take_precedence() {
    let mut record = turn(&[("a", json!({})), ("b", json!({ "x_id": "$a.x_id" }))]);
    let arguments = json!({ "x_id": "$a.x_id", "name": "edited" });
    record.push(Entry::Decisions(Decisions {
        turn: 1,
        round: 1,
        decided: vec![(1, Decision::Approve), (2, Decision::ApproveEdited { arguments })],
        by: UserId::derive(&["u"]),
        role: None,
        token_creator: None,
        decided_at: Timestamp::MIN,
        continue_auto_approved: false,
    }));
    answer(&mut record, 1, CallStatus::Ok, r#"{"x_id":"1"}"#);
    assert_eq!(resolution(&record, 2), ready(json!({ "x_id": "1", "name": "edited" })));
    let recorded = json!({ "x_id": "0", "name": "recorded" });
    record.push(Entry::Intent(Intent {
        turn: 1,
        round: 1,
        index: 2,
        target: Target::new("tag", "t"),
        expected: Expected::Absent,
        arguments: Some(recorded.clone()),
        resolved: Value::Null,
        at: None,
    }));
    assert_eq!(resolution(&record, 2), Resolution::Ready(Cow::Owned(recorded)));
}
