//! Each near miss alone, in combination, and with misses that are not repaired.

use folio_llm::schema::{Rules, check_response_format};
use folio_types::profile::DOCUMENT_PROFILE;

use super::*;
use crate::Registry;

fn format_of(schema: Value) -> Value {
    json!({ "type": "json_schema", "json_schema": { "name": "invoice", "schema": schema, "strict": true } })
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "total": { "type": "number" },
            "items": { "type": "array", "items": {
                "type": "object",
                "properties": { "text": { "type": "string" } },
                "required": ["text"],
                "additionalProperties": false,
            } },
        },
        "required": ["total", "items"],
        "additionalProperties": false,
    })
}

fn without(mut value: Value, pointer: &str, member: &str) -> Value {
    value.pointer_mut(pointer).and_then(Value::as_object_mut).unwrap().shift_remove(member).unwrap();
    value
}

/// Repairs a call and checks that a second repair changes nothing.
fn repaired(arguments: Value) -> (Value, Vec<String>) {
    let Value::Object(mut members) = arguments else { panic!("the arguments are no object") };
    let repairs = repair_response_format(&mut members, "response_format");
    let once = members.clone();
    assert_eq!(repair_response_format(&mut members, "response_format"), Vec::<String>::new(), "{once:?}");
    assert_eq!(members, once);
    (Value::Object(members), repairs)
}

/// Asserts that the call becomes one with the valid format, by these repairs.
#[track_caller]
fn assert_repaired(arguments: Value, repairs: &[Repair]) {
    let (made, texts) = repaired(arguments);
    assert_eq!(made["response_format"], format_of(schema()), "{texts:?}");
    let expected: Vec<String> = repairs.iter().map(|repair| repair.text().to_owned()).collect();
    assert_eq!(texts, expected);
    assert!(check_response_format(&made["response_format"], Rules::Strict).is_ok());
}

fn call(format: Value) -> Value {
    json!({ "name": "invoice", "response_format": format })
}

#[test]
fn a_valid_format_is_unchanged() {
    let valid = call(format_of(schema()));
    let (made, repairs) = repaired(valid.clone());
    assert_eq!((made.to_string(), repairs), (valid.to_string(), Vec::new()), "the order of members stays, too");
}

#[test]
fn keywords_outside_of_the_schema_are_moved_into_it() {
    let mut inner = schema();
    inner["name"] = json!("invoice");
    inner["strict"] = json!(true);
    let format = json!({ "type": "json_schema", "json_schema": inner });
    assert_repaired(call(format), &[Repair::Lift]);
    let mut format = schema();
    format["type"] = json!("json_schema");
    format["json_schema"] = json!({ "name": "invoice", "strict": true, "schema": { "type": "object" } });
    assert_repaired(call(format), &[Repair::Lift]);
    let mut format = format_of(without(schema(), "", "required"));
    format["json_schema"]["required"] = json!(["total", "items"]);
    assert_repaired(call(format), &[Repair::Lift]);
    let inner = json!({ "type": "json_schema", "name": "invoice", "schema": schema(), "strict": true });
    assert_repaired(call(json!({ "type": "json_schema", "json_schema": inner })), &[Repair::Lift]);
}

#[test]
fn a_schema_without_its_wrapper_is_wrapped() {
    let named = [Repair::Wrap, Repair::SetName, Repair::AddStrict];
    let (made, texts) = repaired(json!({ "name": "Bill 1", "response_format": schema() }));
    assert_eq!(made["response_format"]["json_schema"]["name"], "Bill_1");
    assert_eq!(texts, named.map(|repair| repair.text().to_owned()));
    assert!(check_response_format(&made["response_format"], Rules::Strict).is_ok());
    assert_repaired(call(schema()), &named);
    let inner = json!({ "name": "invoice", "schema": schema(), "strict": true });
    assert_repaired(call(inner.clone()), &[Repair::Wrap]);
    let mut typed = inner;
    typed["type"] = json!("json_schema");
    assert_repaired(call(typed), &[Repair::Wrap]);
}

#[test]
fn a_format_with_another_name_or_spread_over_the_arguments_is_gathered() {
    assert_repaired(json!({ "name": "x", "schema": format_of(schema()) }), &[Repair::Rename]);
    let mut spread = format_of(schema());
    spread["name"] = json!("invoice");
    assert_repaired(spread, &[Repair::Gather]);
    let mut spread = schema();
    spread["name"] = json!("invoice");
    let (made, texts) = repaired(spread);
    assert_eq!((&made["name"], &made["response_format"]), (&json!("invoice"), &format_of(schema())));
    assert_eq!(texts.len(), 4, "gathered, wrapped, named and strict: {texts:?}");
    let both = json!({ "name": "x", "schema": {}, "response_format": format_of(schema()) });
    assert_eq!(repaired(both.clone()), (both, Vec::new()), "an unknown argument is an error, not a near miss");
}

#[test]
fn json_in_strings_is_parsed_at_each_level() {
    assert_repaired(call(json!(format_of(schema()).to_string())), &[Repair::Parse]);
    let mut format = format_of(schema());
    format["json_schema"] = json!(format["json_schema"].to_string());
    assert_repaired(call(format), &[Repair::Parse]);
    assert_repaired(call(format_of(json!(schema().to_string()))), &[Repair::Parse]);
    let broken = call(json!("{ no JSON"));
    assert_eq!(repaired(broken.clone()), (broken, Vec::new()));
}

#[test]
fn missing_members_are_added_also_in_nested_objects() {
    let nested = "/properties/items/items";
    for (format, repair) in [
        (without(format_of(schema()), "", "type"), Repair::SetType),
        (without(format_of(schema()), "/json_schema", "strict"), Repair::AddStrict),
        (without(format_of(schema()), "/json_schema", "name"), Repair::SetName),
        (format_of(without(schema(), "", "type")), Repair::AddType),
        (format_of(without(schema(), "", "required")), Repair::AddRequired),
        (format_of(without(schema(), "", "additionalProperties")), Repair::AddAdditional),
        (format_of(without(schema(), nested, "type")), Repair::AddType),
        (format_of(without(schema(), nested, "required")), Repair::AddRequired),
        (format_of(without(schema(), nested, "additionalProperties")), Repair::AddAdditional),
    ] {
        assert_repaired(call(format), &[repair]);
    }
    for member in ["required", "additionalProperties"] {
        let bare = without(without(schema(), "", member), nested, member);
        let (made, texts) = repaired(call(format_of(bare)));
        assert_eq!(made["response_format"], format_of(schema()));
        assert!(texts.len() == 1 && texts[0].ends_with("(2 times)"), "{texts:?}");
    }
    for keyword in ["anyOf", "oneOf", "allOf", "items"] {
        let list = json!([{ "properties": { "a": { "type": "string" } } }]);
        let mut format = format_of(schema());
        format["json_schema"]["schema"]["properties"]["total"] = json!({ keyword: list });
        let made = repaired(call(format)).0;
        let found = &made["response_format"]["json_schema"]["schema"]["properties"]["total"][keyword][0];
        assert_eq!((&found["required"], &found["additionalProperties"]), (&json!(["a"]), &json!(false)), "{keyword}");
    }
    for keyword in ["$defs", "definitions"] {
        let mut format = format_of(schema());
        format["json_schema"]["schema"][keyword] = json!({ "a": { "properties": {} } });
        let made = repaired(call(format)).0;
        let found = &made["response_format"]["json_schema"]["schema"][keyword]["a"];
        assert_eq!(
            found,
            &json!({ "properties": {}, "type": "object", "required": [], "additionalProperties": false })
        );
    }
}

#[test]
fn a_type_in_place_of_a_schema_and_a_boolean_required_are_replaced() {
    let mut short = format_of(schema());
    short["json_schema"]["schema"]["properties"]["total"] = json!("number");
    assert_repaired(call(short), &[Repair::ExpandType]);
    let mut draft_3 = format_of(schema());
    draft_3["json_schema"]["schema"]["properties"]["total"]["required"] = json!(true);
    assert_repaired(call(draft_3), &[Repair::DropRequired]);
}

#[test]
fn keywords_among_the_properties_are_moved_out_of_them() {
    let mut inner = without(without(schema(), "", "required"), "", "additionalProperties");
    inner["properties"]["required"] = json!(["total", "items"]);
    inner["properties"]["additionalProperties"] = json!(false);
    assert_repaired(call(format_of(inner.clone())), &[Repair::MoveKeywords]);
    let lifted = call(json!({ "type": "json_schema", "json_schema": inner }));
    assert_repaired(lifted, &[Repair::Lift, Repair::SetName, Repair::AddStrict, Repair::MoveKeywords]);
    let mut named = schema();
    named["properties"]["required"] = json!({ "type": "boolean" });
    named["required"] = json!(["total", "items", "required"]);
    let valid = call(format_of(named));
    assert_eq!(repaired(valid.clone()), (valid, Vec::new()), "a property may have the name of a keyword");
}

#[test]
fn what_the_model_may_have_meant_otherwise_is_not_repaired() {
    let mut optional = schema();
    optional["required"] = json!(["total"]);
    let mut open = schema();
    open["additionalProperties"] = json!(true);
    let mut lenient = format_of(schema());
    lenient["json_schema"]["strict"] = json!(false);
    let mut any = schema();
    any["properties"]["total"] = json!({ "type": "object" });
    for format in [
        format_of(optional),
        format_of(open),
        lenient,
        format_of(any),
        json!({ "type": "text" }),
        json!({ "type": "json_schema", "json_schema": { "name": "invoice" } }),
        json!({ "type": "json_schema", "json_schema": 7 }),
        format_of(json!({ "$ref": "#/$defs/a", "properties": { "a": { "type": "string" } } })),
        json!([]),
        Value::Null,
    ] {
        let arguments = call(format);
        assert_eq!(repaired(arguments.clone()), (arguments, Vec::new()));
    }
}

#[test]
fn every_repair_together_gives_a_valid_format() {
    let inner = json!({
        "name": "Invoice data",
        "properties": { "total": "number", "items": { "type": "array", "items": { "properties": { "text": "string" } } } },
    });
    let arguments = json!({ "name": "Invoice", "schema": json!({ "json_schema": inner }).to_string() });
    let (made, texts) = repaired(arguments);
    assert_eq!(made["response_format"]["json_schema"]["name"], "Invoice_data");
    assert_eq!(made["response_format"]["json_schema"]["schema"]["required"], json!(["total", "items"]));
    assert!(check_response_format(&made["response_format"], Rules::Strict).is_ok(), "{made}");
    assert!(texts.iter().all(|text| text.len() < 100) && texts.len() == 10, "{texts:?}");
}

#[test]
fn a_call_is_repaired_before_it_is_validated_and_lists_its_repairs() {
    let document = Registry::standard().unwrap().profile(DOCUMENT_PROFILE).unwrap();
    let near = json!({ "name": "Invoice", "response_format": schema() });
    for (tool, arguments) in [
        ("create_schema", near),
        ("update_schema", json!({ "schema_id": "sch_1", "response_format": schema() })),
        ("validate_schema", json!({ "schema": schema() })),
    ] {
        let checked = document.check(tool, &arguments.to_string());
        assert_eq!(checked.problem, None, "{tool}");
        assert!(checked.repairs.contains(&Repair::Wrap.text().to_owned()), "{tool}: {:?}", checked.repairs);
        assert!(check_response_format(&checked.arguments["response_format"], Rules::Strict).is_ok(), "{tool}");
        let again = document.check(tool, &checked.arguments.to_string());
        assert_eq!((again.arguments, again.repairs), (checked.arguments, Vec::new()), "{tool}");
    }
    // An approver's arguments are checked as they are.
    let mut edited = json!({ "name": "Invoice", "response_format": schema() });
    document.canonicalize("create_schema", &mut edited);
    assert_eq!(edited["response_format"], schema());
}

#[test]
fn a_repair_that_would_nest_too_deep_is_discarded() {
    let document = Registry::standard().unwrap().profile(DOCUMENT_PROFILE).unwrap();
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let inner = json!({ "name": "a", "schema": nested(63) }).to_string();
    let arguments = json!({ "name": "a", "response_format": { "type": "json_schema", "json_schema": inner } });
    let checked = document.check("create_schema", &arguments.to_string());
    assert_eq!((checked.arguments, checked.repairs), (arguments, Vec::new()));
}
