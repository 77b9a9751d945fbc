//! Tests of checks.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn invoice() -> Value {
    json!({
        "subtotal": 30.3, "tax": 5.757, "total": 36.06, "rate": 0.19, "discount": null, "name": "ACME",
        "items": [
            {"amount": 10.1, "net amount": 10.1, "taxes": [{"value": 1}, {"value": 2}]},
            {"amount": 20.2, "net amount": 20.2, "taxes": []},
            {"amount": null},
        ],
        "numbers": [[1, 2], [3]],
    })
}

fn outcome(check: &str) -> CheckOutcome {
    parse(check).unwrap_or_else(|problem| panic!("{check}: {problem}")).evaluate(&invoice())
}

#[test]
fn equations_are_evaluated_exactly() {
    for passed in [
        "sum(items.amount) = subtotal",
        "sum(items.\"net amount\")=subtotal",
        "subtotal * rate = tax",
        "subtotal + tax = total tolerance 0.01",
        "total = subtotal + subtotal * 19 / 100 tolerance 0.005",
        "count(items) = 3",
        "count(items.amount) = 2",
        "count(items.missing) = 0",
        "min(items.amount) = 10.1",
        "max(items.amount) = 20.2",
        "sum(items.taxes.value) = 3",
        "sum(numbers) = 6",
        "sum(items.missing) = 0",
        "-(1 + 2) * 3 - 1 = -10",
        "2 - 3 - 4 = -5",
        "1 / 3 * 3 = 1",
        "--subtotal = subtotal",
        "0.1 + 0.2 = 0.3",
    ] {
        assert!(matches!(outcome(passed), CheckOutcome::Passed { .. }), "{passed}: {:?}", outcome(passed));
    }
    assert_eq!(outcome("sum(items.amount) = total"), CheckOutcome::Failed { left: 30.3, right: 36.06 });
    assert!(matches!(outcome("subtotal + tax = total tolerance 0.002"), CheckOutcome::Failed { .. }));
}

#[test]
fn a_check_without_numbers_is_not_evaluable() {
    for (check, reason) in [
        ("discount = 0", "\"discount\" has no value"),
        ("missing = 0", "\"missing\" has no value"),
        ("name = 0", "\"name\" is not a number"),
        ("items.amount = 1", "several values"),
        ("min(items.missing) = 0", "has no value"),
        ("1 / (subtotal - subtotal) = 0", "division by zero"),
        ("99999999999999999999 * 99999999999999999999 = 1", "too large"),
        ("sum(items) = 1", "not a number"),
    ] {
        let CheckOutcome::NotEvaluable { reason: found } = outcome(check) else { panic!("{check}") };
        assert!(found.contains(reason), "{check}: {found}");
    }
}

#[test]
fn a_check_has_values_unless_a_path_lacks_one() {
    for (check, expected) in [
        ("name = 0", true),
        ("total / (subtotal - subtotal) = sum(items.amount)", true),
        ("discount = 0", false),
        ("total = missing", false),
        ("count(items.missing) = total", false),
    ] {
        assert_eq!(parse(check).unwrap().has_values(&invoice()), expected, "{check}");
    }
}

#[test]
fn malformed_checks_are_refused_with_the_problem() {
    let nested = format!("{}1{} = 1", "(".repeat(20), ")".repeat(20));
    let (signs, long) = ("-".repeat(40), "1".repeat(CHECK_BYTES + 1));
    for (check, problem) in [
        ("", "it ends where a path or number"),
        ("total", "it ends where \"=\""),
        ("total =", "a path or number"),
        ("total = 1 tolerance", "after \"tolerance\""),
        ("total = 1 tolerance total", "after \"tolerance\""),
        ("total = 1 = 1", "the end is expected before \"=\""),
        ("avg(items) = 1", "\"avg\" is not a function"),
        ("sum(1) = 1", "a path or number"),
        ("sum(items = 1", "\")\""),
        ("(total = 1", "\")\""),
        ("total = 1.2.3", "\"1.2.3\" is not a number"),
        ("total = 1.", "is not a number"),
        ("total < 1", "\"<\" is not expected"),
        ("items[0].amount = 1", "\"[\" is not expected"),
        ("\"total = 1", "quotation mark"),
        ("a. = 1", "a path or number"),
        (signs.as_str(), "16 levels"),
        (nested.as_str(), "16 levels"),
        (long.as_str(), "more than 500 bytes"),
    ] {
        let found = parse(check).expect_err(check);
        assert!(found.contains(problem), "{check}: {found}");
    }
}

#[test]
fn paths_must_exist_in_the_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "total": {"type": "number"},
            "party": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/party"}]},
            "items": {"type": "array", "items": {"type": "object", "properties": {"amount": {"type": "number"}}}},
            "numbers": {"type": "array", "items": {"type": "number"}},
            "open": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "$defs": {"party": {"type": "object", "properties": {"discount": {"type": "number"}}}},
    });
    let problem = |check: &str| parse(check).unwrap().problem(&schema);
    for valid in [
        "total = party.discount",
        "sum(items.amount) = total",
        "count(items) = sum(numbers)",
        "open.anything = max(total)",
    ] {
        assert_eq!(problem(valid), None, "{valid}");
    }
    for (check, expected) in [
        ("subtotal = total", "the path \"subtotal\" does not exist"),
        ("sum(items.price) = total", "the path \"items.price\" does not exist"),
        ("total.value = 1", "the path \"total.value\" does not exist"),
        ("items.amount = 1", "leads through an array"),
        ("numbers = 1", "leads through an array"),
    ] {
        let found = problem(check).unwrap_or_default();
        assert!(found.contains(expected), "{check}: {found}");
    }
    assert!(parse("a = 1").unwrap().problem(&json!(true)).is_some());
}

#[test]
fn the_fields_of_a_check_are_the_values_that_it_names() {
    let fields = parse("sum(items.amount) + sum(items.taxes.value) = subtotal - missing").unwrap().fields(&invoice());
    let expected = [
        "items[0].amount",
        "items[0].taxes[0].value",
        "items[0].taxes[1].value",
        "items[1].amount",
        "items[2].amount",
        "subtotal",
    ];
    assert_eq!(fields.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    let all = parse("count(numbers) = 3").unwrap().fields(&invoice());
    assert_eq!(all.iter().map(String::as_str).collect::<Vec<_>>(), ["numbers[0][0]", "numbers[0][1]", "numbers[1][0]"]);
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,60}") {
        _ = parse(&text);
    }

    #[test]
    fn no_check_makes_the_evaluation_panic(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "sum(", "count(", "min(", "max(", "(", ")", "+", "-", "*", "/", "=", ".", "tolerance ", "items", "amount",
                "numbers", "total ", "0", "12.5", "99999999999999999999", "\"net amount\"", " ",
            ]),
            0..30,
        ),
    ) {
        if let Ok(check) = parse(&parts.concat()) {
            check.evaluate(&invoice());
            check.fields(&invoice());
            check.problem(&json!({"type": "object", "properties": {"items": {"items": {"$ref": "#"}}}}));
        }
    }
}
