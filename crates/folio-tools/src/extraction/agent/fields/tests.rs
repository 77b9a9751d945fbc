//! Tests of nested fields and their evidence.

use folio_resources::{CitationKind, WordBoxes};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn citation(path: &str) -> Citation {
    Citation {
        path: path.to_owned(),
        kind: CitationKind::Cited,
        page: 1,
        quote: format!("quote of {path}"),
        start: 0,
        section: None,
        cell: None,
        occurrences: 1,
        boxes: WordBoxes::default(),
    }
}

/// Returns fields with a confidence and a citation for each value.
fn fields(data: Value) -> Fields {
    let paths: Vec<String> = leaves(&data).into_iter().map(|(path, _)| path).collect();
    let mut fields = Fields { data, confidences: BTreeMap::new(), citations: BTreeMap::new() };
    fields.add_confidences(paths.iter().map(|path| (path.clone(), 0.5)));
    fields.add_citations(paths.iter().map(|path| citation(path)));
    fields
}

/// Returns the data, and the paths with evidence. Each citation is the one of `was`, at its path of now.
fn stored(fields: Fields) -> (Value, Vec<(String, String)>) {
    let AgentData { data, citations, confidences, .. } = fields.into_data(None);
    let of_confidences: Vec<&str> = confidences.iter().map(|found| found.path.as_str()).collect();
    let of_citations: Vec<&str> = citations.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(of_confidences, of_citations);
    let was = |quote: &str| quote.trim_start_matches("quote of ").to_owned();
    let paths = citations.iter().map(|found| (found.path.clone(), was(&found.quote))).collect();
    (data, paths)
}

fn pairs(paths: &[(&str, &str)]) -> Vec<(String, String)> {
    paths.iter().map(|(now, was)| ((*now).to_owned(), (*was).to_owned())).collect()
}

fn same(paths: &[&str]) -> Vec<(String, String)> {
    paths.iter().map(|path| ((*path).to_owned(), (*path).to_owned())).collect()
}

fn invoice() -> Value {
    json!({"total": 5, "seller": {"name": "A", "city": "B"}, "items": [{"n": 1}, {"n": 2}, {"n": 3}], "tags": []})
}

#[test]
fn members_are_merged_and_other_values_are_replaced_with_their_evidence() {
    for (new, expected, kept) in [
        (
            json!({}),
            invoice(),
            same(&["total", "seller.name", "seller.city", "items[0].n", "items[1].n", "items[2].n", "tags"]),
        ),
        (
            json!({"seller": {"city": "C", "zip": "1"}, "date": null}),
            json!({
                "total": 5, "seller": {"name": "A", "city": "C", "zip": "1"},
                "items": [{"n": 1}, {"n": 2}, {"n": 3}], "tags": [], "date": null,
            }),
            same(&["total", "seller.name", "items[0].n", "items[1].n", "items[2].n", "tags"]),
        ),
        (
            json!({"items": [{"n": 9}], "seller": "A", "total": {"net": 4}}),
            json!({"total": {"net": 4}, "seller": "A", "items": [{"n": 9}], "tags": []}),
            same(&["tags"]),
        ),
    ] {
        let mut merged = fields(invoice());
        merged.merge(&new);
        assert_eq!(stored(merged), (expected, kept), "{new}");
    }
}

#[test]
fn an_update_sets_one_value_and_may_add_the_last_step() {
    let update = |path: &str, value: Value| {
        let mut updated = fields(invoice());
        updated.update(&path.parse().unwrap(), value).map(|()| stored(updated))
    };
    let (data, kept) = update("seller", json!({"name": "X"})).unwrap();
    assert_eq!(data["seller"], json!({"name": "X"}));
    assert_eq!(kept, same(&["total", "items[0].n", "items[1].n", "items[2].n", "tags"]));
    let (data, kept) = update("items.1.n", json!(7)).unwrap();
    assert_eq!(data["items"], json!([{"n": 1}, {"n": 7}, {"n": 3}]));
    assert_eq!(kept.len(), 6);
    let (data, kept) = update("items[3]", json!({"n": 4})).unwrap();
    assert_eq!((data["items"][3].clone(), kept.len()), (json!({"n": 4}), 7));
    let (data, kept) = update("tags[0]", json!("x")).unwrap();
    assert_eq!((data["tags"].clone(), kept.len()), (json!(["x"]), 6), "an array with items has no evidence of its own");
    assert_eq!(update("date", json!(null)).unwrap().0["date"], Value::Null);
    for missing in ["items[4]", "buyer.name", "total.net", "items.x"] {
        assert!(update(missing, json!(1)).is_err(), "{missing}");
    }
}

#[test]
fn a_removed_item_takes_its_evidence_and_later_items_keep_theirs() {
    let remove = |path: &str| {
        let mut removed = fields(invoice());
        removed.remove(&path.parse().unwrap()).map(|()| stored(removed))
    };
    let (data, kept) = remove("items[1]").unwrap();
    assert_eq!(data["items"], json!([{"n": 1}, {"n": 3}]));
    let rest = [("total", "total"), ("seller.name", "seller.name"), ("seller.city", "seller.city")];
    let items = [("items[0].n", "items[0].n"), ("items[1].n", "items[2].n"), ("tags", "tags")];
    assert_eq!(kept, pairs(&[rest, items].concat()));
    let (data, kept) = remove("seller").unwrap();
    assert!(data.get("seller").is_none());
    assert_eq!(kept, same(&["total", "items[0].n", "items[1].n", "items[2].n", "tags"]));
    let (data, kept) = remove("items[0].n").unwrap();
    assert_eq!((data["items"].clone(), kept.len()), (json!([{}, {"n": 2}, {"n": 3}]), 6));
    for missing in ["items[3]", "buyer", "total.net"] {
        assert!(remove(missing).is_err(), "{missing}");
    }
    let mut nested = fields(json!({"a": [[1, 2], [3, 4]], "ab": [1, 2]}));
    nested.remove(&"a[0][0]".parse().unwrap()).unwrap();
    let moved = pairs(&[
        ("a[0][0]", "a[0][1]"),
        ("a[1][0]", "a[1][0]"),
        ("a[1][1]", "a[1][1]"),
        ("ab[0]", "ab[0]"),
        ("ab[1]", "ab[1]"),
    ]);
    assert_eq!(stored(nested), (json!({"a": [[2], [3, 4]], "ab": [1, 2]}), moved));
}

#[test]
fn a_path_can_name_each_value_of_a_call() {
    let (long, half) = ("x".repeat(PATH_BYTES), "x".repeat(PATH_BYTES / 2));
    let nested = json!({ half.clone(): [[{ "y": 1 }]] });
    for short in [json!(1), json!([1, {}]), json!({ half.clone(): { "y": 1 } }), nested] {
        assert_eq!(check_names("fields", &short), Ok(()), "{short}");
    }
    for refused in [json!({ long: 1 }), json!([{ half.clone(): { half: {} } }])] {
        assert!(
            check_names("value", &refused).unwrap_err().starts_with("value contains a value whose path has more than")
        );
    }
}

#[test]
fn confidences_have_the_shape_of_the_fields() {
    let fields = json!({"total": 5, "seller": {"name": "A"}, "items": [{"n": 1}, {"n": 2}], "none": null, "tags": []});
    let good = json!({"total": 0, "seller": {"name": 1}, "items": [{"n": 0.5}, {"n": 0.25}], "tags": []});
    let expected = [("total", 0.0), ("seller.name", 1.0), ("items[0].n", 0.5), ("items[1].n", 0.25)];
    let expected: BTreeMap<String, f64> = expected.map(|(path, found)| (path.to_owned(), found)).into();
    assert_eq!(confidences(&fields, &good), Ok(expected));
    for (path, value, says) in [
        ("total", json!(1.5), "confidences.total: Confidence must be 0.0-1.0, got 1.5"),
        ("total", json!(-0.1), "got -0.1"),
        ("total", json!("0.5"), "got \"0.5\""),
        ("total", json!(null), "confidences.total is missing"),
        ("seller", json!(0.5), "confidences.seller must be an object with the members of fields"),
        ("seller", json!({"name": 1, "city": 1}), "confidences.seller.city has no value in fields"),
        ("seller", json!({}), "confidences.seller.name is missing"),
        ("items", json!({}), "confidences.items must be an array"),
        ("items", json!([{"n": 1}]), "confidences.items[1].n is missing"),
        ("items", json!([{"n": 1}, {"n": 1}, {"n": 1}]), "confidences.items has 3 items, but fields has 2"),
        ("more", json!(1), "confidences.more has no value in fields"),
    ] {
        let mut mirror = good.clone();
        mirror[path] = value;
        let problems = confidences(&fields, &mirror).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(says), "{mirror}: {problems:?}");
    }
    let many: Value = (0..50).map(|number| (format!("f{number}"), json!(1))).collect::<Map<_, _>>().into();
    assert_eq!(confidences(&many, &json!({})).unwrap_err().len(), PROBLEMS_MAX);
    assert!(confidences(&fields, &json!(1)).unwrap_err()[0].starts_with("confidences must be an object"));
}

#[test]
fn citations_have_the_shape_of_the_fields_and_may_be_missing() {
    let fields = json!({"total": 5, "items": [{"n": 1}, {"n": 2}]});
    let at = |page: f64, quote: &str| json!({"page": page, "quote": quote});
    let good = json!({"items": [null, {"n": at(2.0, " N 2 ")}]});
    let expected = PageQuote { page: 2, quote: "N 2".to_owned() };
    assert_eq!(quotes(&fields, Some(&good)), Ok(BTreeMap::from([("items[1].n".to_owned(), expected)])));
    assert_eq!(quotes(&fields, None), Ok(BTreeMap::new()));
    let long = "x".repeat(QUOTE_CHARS + 1);
    for (value, says) in [
        (json!("Total 5"), "citations.total: expected an object with page"),
        (json!({"quote": "Total 5"}), "expected an object with page"),
        (at(0.0, "Total 5"), "expected an object with page"),
        (at(1.5, "Total 5"), "expected an object with page"),
        (json!({"page": 1}), "expected an object with page"),
        (at(1.0, " 5 "), "the quote has 1 characters: expected 3 to 500"),
        (at(1.0, &long), "the quote has 501 characters"),
    ] {
        let problems = quotes(&fields, Some(&json!({ "total": value }))).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(says), "{value}: {problems:?}");
    }
    let count = CITATIONS_MAX + 1;
    let (many, cited): (Value, Value) = ((0..count).collect(), (0..count).map(|_| at(1.0, "abc")).collect());
    let problems = quotes(&json!({ "a": many }), Some(&json!({ "a": cited }))).unwrap_err();
    assert!(problems[0].contains("the maximum is 500"), "{problems:?}");
}

#[test]
fn the_mirrors_of_stored_fields_are_those_of_a_call() {
    let fields = fields(invoice());
    let (mirror, cited) = (fields.confidence_mirror(), fields.citation_mirror());
    let found = confidences(&fields.data, &mirror).unwrap();
    assert_eq!(found, fields.confidences);
    assert_eq!(quotes(&fields.data, Some(&cited)).unwrap().len(), fields.citations.len());
    let bare = Fields { data: json!({"a": [1, {}]}), confidences: BTreeMap::new(), citations: BTreeMap::new() };
    assert_eq!(bare.confidence_mirror(), json!({"a": [null, null]}));
}

fn any_data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0..9_i64).prop_map(Value::from)];
    let tree = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-c]", tree, 0..4).prop_map(|members| Value::Object(members.into_iter().collect()))
}

proptest! {
    #[test]
    fn merged_fields_are_in_the_data_and_merging_again_changes_nothing(before in any_data(), new in any_data()) {
        let mut once = fields(before.clone());
        once.merge(&new);
        for (path, value) in leaves(&new).into_iter().filter(|(path, value)| !path.is_empty() && !is_empty(value)) {
            let path: Path = path.parse().unwrap();
            prop_assert_eq!(path.get(&once.data).unwrap(), value);
        }
        for (name, value) in before.as_object().unwrap() {
            prop_assert!(new.get(name).is_some() || once.data.get(name) == Some(value), "{}", name);
        }
        let mut twice = once.clone();
        twice.merge(&new);
        prop_assert_eq!(&twice.data, &once.data);
    }

    #[test]
    fn each_path_of_the_data_can_be_removed_and_evidence_follows_its_value(data in any_data(), at in any::<prop::sample::Index>()) {
        let paths: Vec<String> = leaves(&data).into_iter().map(|(path, _)| path).filter(|path| !path.is_empty()).collect();
        prop_assume!(!paths.is_empty());
        let path: Path = at.get(&paths).parse().unwrap();
        let mut removed = fields(data.clone());
        removed.remove(&path).unwrap();
        let (rest, kept) = stored(removed);
        for (now, was) in kept {
            let value = |path: &str, data: &Value| path.parse::<Path>().unwrap().get(data).unwrap().clone();
            prop_assert_eq!(value(&now, &rest), value(&was, &data), "{} was {}", now, was);
        }
    }
}
