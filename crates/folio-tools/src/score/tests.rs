//! Tests of every outcome and of each notation.

use serde_json::json;

use super::*;

fn outcome(expected: Value, actual: Value) -> Outcome {
    score(&expected, Some(&actual))
}

#[test]
fn a_field_without_a_value_is_absent_missing_or_invented() {
    let empty = [json!(null), json!(""), json!("  "), json!([]), json!({})];
    for none in &empty {
        assert_eq!(score(&json!(957.0), Some(none)), Outcome::Missing, "{none}");
        assert_eq!(score(none, None), Outcome::Absent, "{none}");
        assert!(empty.iter().all(|other| score(none, Some(other)) == Outcome::Absent), "{none}");
        for value in [json!("x"), json!(0), json!(false), json!([1]), json!({"a": 1})] {
            assert_eq!(score(none, Some(&value)), Outcome::Invented, "{none} {value}");
        }
    }
    assert_eq!(score(&json!("x"), None), Outcome::Missing);
    assert_eq!(score(&json!(0), None), Outcome::Missing);
}

#[test]
fn equal_values_are_exact() {
    for (expected, actual) in [
        (json!("INV-17"), json!("INV-17")),
        (json!(120), json!(120.0)),
        (json!(0.1), json!(0.1)),
        (json!(true), json!(true)),
        (json!("2026-03-17"), json!("2026-03-17")),
        (json!([{"a": 1}, "b"]), json!([{"a": 1.0}, "b"])),
        (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1})),
    ] {
        assert_eq!(outcome(expected.clone(), actual), Outcome::Exact, "{expected}");
    }
}

#[test]
fn numbers_match_in_each_notation() {
    for text in [
        "1234.5",
        "1234.50",
        "1,234.50",
        "1.234,50",
        "1 234,50",
        "1\u{a0}234,50",
        "1\u{202f}234,50 €",
        "1'234.50",
        "EUR 1.234,50",
        "1.234,50 EUR",
        "$1,234.50",
        "CHF 1’234.50",
        " 1234.5 ",
    ] {
        assert_eq!(outcome(json!(1234.5), json!(text)), Outcome::Normalized, "{text}");
    }
    for (expected, text) in [
        (json!(1234), "1.234"),
        (json!(1234), "1,234"),
        (json!(1.234), "1.234"),
        (json!(-3.2), "(3.20)"),
        (json!(-3.2), "-3,20"),
        (json!(19), "19 %"),
        (json!(2_000_000), "2.000.000"),
    ] {
        assert_eq!(outcome(expected, json!(text)), Outcome::Normalized, "{text}");
    }
    for text in ["12345", "123.45", "1234.51", "1.2345", "-1234.5", "about 1234.5", "none", "2026-03-17"] {
        assert_eq!(outcome(json!(1234.5), json!(text)), Outcome::Wrong, "{text}");
    }
    for actual in [json!(1234), json!(true), json!([1234.5]), json!({"value": 1234.5})] {
        assert_eq!(outcome(json!(1234.5), actual.clone()), Outcome::Wrong, "{actual}");
    }
}

#[test]
fn dates_match_in_each_notation() {
    for text in [
        "17.03.2026",
        "17.3.26",
        "17/03/2026",
        "03/17/2026",
        "17 March 2026",
        "March 17, 2026",
        "17. März 2026",
        "17 mars 2026",
        "2026-03-17T10:00:00Z",
        "Tuesday, 17 March 2026",
    ] {
        assert_eq!(outcome(json!("2026-03-17"), json!(text)), Outcome::Normalized, "{text}");
    }
    for date in ["2026-03-04", "2026-04-03"] {
        assert_eq!(outcome(json!(date), json!("03/04/2026")), Outcome::Normalized, "{date}");
    }
    for text in ["2026-03-18", "17.04.2026", "March 2026", "2026", "0", "17 March"] {
        assert_eq!(outcome(json!("2026-03-17"), json!(text)), Outcome::Wrong, "{text}");
    }
    assert_eq!(outcome(json!("2026-03-17"), json!(2026)), Outcome::Wrong);
    // The truth contains ISO dates; another notation is a text.
    assert_eq!(outcome(json!("17 March"), json!("17.03.2026")), Outcome::Wrong);
}

#[test]
fn texts_currencies_identifiers_and_booleans_match_in_other_notations() {
    for (expected, actual) in [
        (json!("Muster & Söhne GmbH"), json!("MUSTER &  SÖHNE\nGMBH")),
        (json!("Porto"), json!(" \"Porto\". ")),
        (json!("EUR"), json!("€")),
        (json!("USD"), json!("US$")),
        (json!("EUR"), json!("eur")),
        (json!("4711"), json!(4711)),
        (json!(true), json!("True")),
        (json!(false), json!("false")),
    ] {
        assert_eq!(outcome(expected.clone(), actual.clone()), Outcome::Normalized, "{expected} {actual}");
    }
    for (expected, actual) in [
        (json!("Porto"), json!("Braga")),
        (json!("EUR"), json!("$")),
        (json!("EUR"), json!("5 €")),
        (json!("0042"), json!(42)),
        (json!("4711"), json!(4712)),
        (json!(true), json!("no")),
        (json!(true), json!(false)),
        (json!("Porto"), json!(["Porto"])),
    ] {
        assert_eq!(outcome(expected.clone(), actual.clone()), Outcome::Wrong, "{expected} {actual}");
    }
}

#[test]
fn lists_and_objects_match_by_their_members() {
    let expected = json!([{"name": "Tea", "price": 4.5}]);
    assert_eq!(outcome(expected.clone(), json!([{"price": "4,50", "name": "tea"}])), Outcome::Normalized);
    for actual in [
        json!([{"name": "Tea", "price": 5}]),
        json!([{"name": "Tea"}]),
        json!([{"name": "Tea", "price": 4.5, "unit": "kg"}]),
        json!([{"name": "Tea", "price": 4.5}, {"name": "Tea", "price": 4.5}]),
        json!({"name": "Tea", "price": 4.5}),
    ] {
        assert_eq!(outcome(expected.clone(), actual.clone()), Outcome::Wrong, "{actual}");
    }
}

#[test]
fn precision_and_recall_follow_from_the_counts() {
    use Outcome::*;
    let mut counts = Counts::default();
    assert_eq!((counts.precision(), counts.recall()), (None, None));
    let outcomes = [Exact, Exact, Normalized, Wrong, Missing, Missing, Invented, Absent];
    outcomes.into_iter().for_each(|outcome| counts.add(outcome));
    let expected = Counts { exact: 2, normalized: 1, wrong: 1, missing: 2, invented: 1, absent: 1 };
    assert_eq!(counts, expected);
    assert_eq!((counts.right(), counts.labelled()), (3, 6));
    assert_eq!((counts.precision(), counts.recall()), (Some(0.6), Some(0.5)));
    counts += expected;
    assert_eq!((counts.labelled(), counts.precision()), (12, Some(0.6)));
    let names = outcomes.map(|outcome| json!(outcome) == json!(outcome.name()));
    assert_eq!(names, [true; 8]);
}
