//! Tests of the merge for each kind of value.

use serde_json::json;

use super::*;
use crate::extraction::model_evidence::ValueEvidence;

/// Returns the answer of a window, with pages by path.
fn answer(data: Value, pages: &[(&str, u32)]) -> WindowAnswer {
    let pages = pages.iter().map(|(path, page)| ((*path).to_owned(), *page)).collect();
    WindowAnswer { data, pages, model_calls: 1, ..WindowAnswer::default() }
}

fn conflict(path: &str, value: Value, page: Option<u32>) -> Conflict {
    Conflict { path: path.to_owned(), value, page }
}

/// Merges data without pages.
fn merged<const N: usize>(data: [Value; N]) -> Merged {
    merge(&data.map(|data| answer(data, &[])))
}

#[test]
fn the_data_of_one_window_is_unchanged() {
    let data = json!({"a": null, "b": [1, 1, null], "c": {"d": ""}});
    assert_eq!(merged([data.clone()]), Merged { data, ..Merged::default() });
    assert_eq!(merged([]).data, json!(null));
}

#[test]
fn equal_values_are_merged_as_the_first_window_wrote_them() {
    for (one, other) in [
        (json!("ACME  GmbH"), json!("Acme GmbH")),
        (json!(120), json!(120.0)),
        (json!(true), json!(true)),
        (json!("—"), json!("—")),
    ] {
        let found = merged([json!({"a": one}), json!({"a": other})]);
        assert_eq!(found, Merged { data: json!({"a": one}), ..Merged::default() });
    }
}

#[test]
fn null_and_blank_texts_are_no_values() {
    for empty in [json!(null), json!(""), json!(" "), json!([]), json!({}), json!({"b": null})] {
        for value in [json!(7), json!(false), json!("x"), json!([1]), json!({"b": 1})] {
            let before = merged([json!({"a": empty}), json!({"a": value})]);
            let after = merged([json!({"a": value}), json!({"a": empty})]);
            for found in [before, after] {
                assert_eq!(found, Merged { data: json!({"a": value}), ..Merged::default() }, "{empty} {value}");
            }
        }
    }
    assert_eq!(merged([json!({"a": null}), json!({"a": ""})]).data, json!({"a": null}));
}

#[test]
fn a_value_that_its_text_contains_wins_over_those_of_more_windows() {
    let answers = [
        answer(json!({"total": 1}), &[]),
        answer(json!({"total": 1}), &[]),
        answer(json!({"total": 957.5}), &[("total", 12)]),
    ];
    let found = merge(&answers);
    assert_eq!(found.data, json!({"total": 957.5}));
    assert_eq!(found.conflicts, [conflict("total", json!(1), None)]);
}

#[test]
fn a_value_of_a_structured_invoice_wins_over_printed_values_of_more_windows() {
    let printed = || answer(json!({"total": 1}), &[("total", 1)]);
    let attached = answer(json!({"total": 957.5}), &[("total", 14)]);
    let attached = WindowAnswer { structured: ["total".to_owned()].into(), ..attached };
    for answers in [[printed(), printed(), attached.clone()], [attached.clone(), printed(), printed()]] {
        let found = merge(&answers);
        assert_eq!(found.data, json!({"total": 957.5}));
        assert_eq!(found.conflicts, [conflict("total", json!(1), Some(1))]);
    }
    let stored: WindowAnswer = serde_json::from_value(serde_json::to_value(&attached).unwrap()).unwrap();
    assert_eq!(stored, attached);
}

#[test]
fn without_text_most_windows_win_and_then_the_first() {
    let found = merged([json!({"a": "x"}), json!({"a": "y"}), json!({"a": "Y"})]);
    assert_eq!((found.data, found.conflicts), (json!({"a": "y"}), vec![conflict("a", json!("x"), None)]));
    let found = merged([json!({"a": "x"}), json!({"a": "y"})]);
    assert_eq!((found.data, found.conflicts), (json!({"a": "x"}), vec![conflict("a", json!("y"), None)]));
}

#[test]
fn the_highest_confidence_decides_between_values_of_equally_many_windows() {
    let stating = |value: &str, pages: &[(&str, u32)], confidence| {
        let found = ValueEvidence { quote: None, confidence };
        WindowAnswer { evidence: [("a".to_owned(), found)].into(), ..answer(json!({"a": value}), pages) }
    };
    let chosen = |answers: &[WindowAnswer]| merge(answers).data["a"].clone();
    let (unsure, sure) = (stating("x", &[], Some(0.4)), stating("y", &[], Some(0.9)));
    assert_eq!(chosen(&[unsure.clone(), sure.clone()]), "y");
    assert_eq!(chosen(&[stating("z", &[], None), stating("y", &[], None)]), "z", "no confidence: the first window");
    assert_eq!(chosen(&[unsure.clone(), unsure, sure.clone()]), "x", "the value of most windows");
    assert_eq!(chosen(&[stating("x", &[("a", 7)], Some(0.1)), sure]), "x", "a value that the text contains");
}

#[test]
fn several_values_in_the_text_are_conflicts_with_their_pages() {
    let answers = [
        answer(json!({"seller": {"name": "A"}}), &[("seller.name", 1)]),
        answer(json!({"seller": {"name": "B"}}), &[("seller.name", 9)]),
        answer(json!({"seller": {"name": "b"}}), &[("seller.name", 14)]),
        answer(json!({"seller": {"name": "C"}}), &[]),
    ];
    let found = merge(&answers);
    assert_eq!(found.data, json!({"seller": {"name": "B"}}));
    let expected = [conflict("seller.name", json!("A"), Some(1)), conflict("seller.name", json!("C"), None)];
    assert_eq!(found.conflicts, expected);
}

#[test]
fn arrays_are_concatenated_and_items_of_the_overlap_are_dropped() {
    let item = |name: &str, price: f64| json!({"name": name, "price": price});
    let found = merged([
        json!({"items": [item("Tea", 2.5), item("Tea", 2.5), item("Milk", 1.0)]}),
        json!({"items": [item("milk", 1.0), item("Bread", 3.0)]}),
        json!({"items": null}),
        json!({"items": [item("Bread", 3.0), item("Bread", 3.0)]}),
    ]);
    let expected = [item("Tea", 2.5), item("Tea", 2.5), item("Milk", 1.0), item("Bread", 3.0), item("Bread", 3.0)];
    assert_eq!(found, Merged { data: json!({"items": expected}), ..Merged::default() });
}

#[test]
fn members_keep_the_order_in_which_windows_name_them() {
    let found = merged([json!({"b": 1}), json!({"a": 2, "b": null, "c": {"d": [1]}})]);
    assert_eq!(found.data.to_string(), r#"{"b":1,"a":2,"c":{"d":[1]}}"#);
}

#[test]
fn values_of_different_types_are_a_conflict() {
    let found = merged([json!({"a": {"b": 1}}), json!({"a": [1]}), json!({"a": [1]})]);
    assert_eq!((found.data, found.conflicts), (json!({"a": [1]}), vec![conflict("a", json!({"b": 1}), None)]));
    let found = merged([json!([1]), json!([1, 2])]);
    assert_eq!(found.data, json!([1, 2]));
}

#[test]
fn original_texts_and_evidence_follow_their_values() {
    let with = |data: Value, originals: &[(&str, &str)]| WindowAnswer {
        originals: originals.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect(),
        ..answer(data, &[])
    };
    let original = |path: &str, text: &str| OriginalText { path: path.to_owned(), text: text.to_owned() };
    let first =
        with(json!({"date": "2026-03-17", "items": [{"price": 1}]}), &[("date", "17.3.26"), ("items[0].price", "1 €")]);
    let second = with(
        json!({"date": "2026-03-18", "items": [{"price": 1}, {"price": 2}]}),
        &[("date", "18.3.26"), ("items[0].price", "EUR 1"), ("items[1].price", "2 €")],
    );
    let evidence = |path: &str, quote: &str| {
        let found = ValueEvidence { quote: Some(quote.to_owned()), confidence: Some(0.5) };
        (path.to_owned(), found)
    };
    let quoting = |answer: WindowAnswer, quotes: [(&str, &str); 2]| WindowAnswer {
        evidence: quotes.map(|(path, quote)| evidence(path, quote)).into(),
        ..answer
    };
    let first = quoting(first, [("date", "Date 17.3.26"), ("items[0].price", "Tea 1 €")]);
    let second = quoting(second, [("date", "Date 18.3.26"), ("items[1].price", "Milk 2 €")]);
    let found = merge(&[first.clone(), second]);
    let expected = [("date", "Date 17.3.26"), ("items[0].price", "Tea 1 €"), ("items[1].price", "Milk 2 €")];
    assert_eq!(found.evidence, expected.map(|(path, quote)| evidence(path, quote)).into(), "of the chosen values");
    assert_eq!(found.data, json!({"date": "2026-03-17", "items": [{"price": 1}, {"price": 2}]}));
    let expected = [original("date", "17.3.26"), original("items[0].price", "1 €"), original("items[1].price", "2 €")];
    assert_eq!(found.originals, expected);
    assert_eq!(merge(&[first]).originals, [original("date", "17.3.26"), original("items[0].price", "1 €")]);
}
