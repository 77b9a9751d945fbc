//! Tests of paths.

use std::collections::BTreeSet;

use folio_resources::leaves;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn data() -> Value {
    json!({ "a": { "b": [{ "c": 1 }, { "c": [2, 3] }], "0": "zero" }, "": 1, "list": [[1], [2]] })
}

fn get(path: &str) -> Result<Value, String> {
    let path: Path = path.parse().map_err(|error: Error| error.message)?;
    path.get(&data()).cloned().map_err(|error| error.message)
}

#[test]
fn both_spellings_select_the_same_value() {
    assert_eq!(get("a.b.0.c"), Ok(json!(1)));
    assert_eq!(get("a.b[0].c"), Ok(json!(1)));
    assert_eq!(get("a.b[1].c[1]"), Ok(json!(3)));
    assert_eq!(get("list[1][0]"), Ok(json!(2)));
    assert_eq!(get("list.1.0"), Ok(json!(2)));
    assert_eq!(get("a.0"), Ok(json!("zero")));
    assert_eq!(get("\"a\".\"b\"[0].c"), Ok(json!(1)));
    assert_eq!(get("\"\""), Ok(json!(1)));
}

fn hostile_data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<u8>().prop_map(Value::from)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let items = prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array);
        let members = prop::collection::btree_map(r#"[ab01.\[\]"\\é ]{0,3}"#, inner, 0..4);
        prop_oneof![items, members.prop_map(|members| Value::Object(members.into_iter().collect()))]
    })
}

proptest! {
    #[test]
    fn each_value_has_its_own_canonical_path_and_the_parser_is_the_inverse_of_the_notation(data in hostile_data()) {
        let found = leaves(&data);
        let different: BTreeSet<&String> = found.iter().map(|(path, _)| path).collect();
        prop_assert_eq!(different.len(), found.len());
        // The root has no path.
        for (path, value) in found.iter().filter(|(_, value)| !std::ptr::eq(*value, &data)) {
            let parsed: Path = path.parse().unwrap();
            prop_assert!(std::ptr::eq(parsed.get(&data).unwrap(), *value), "{}", path);
            prop_assert_eq!(&parsed.canonical(&data).unwrap(), path);
            prop_assert_eq!(&parsed.to_string(), path);
        }
    }
}

#[test]
fn the_error_of_a_malformed_path_names_the_problem() {
    for (path, says) in [
        ("", "it is empty"),
        (".", "a name is missing"),
        ("a.", "a name is missing"),
        ("a..b", "a name is missing"),
        ("a.[0]", "a name is missing"),
        ("a[", "has no \"]\""),
        ("a[0", "has no \"]\""),
        ("a]", "has no \"[\""),
        ("a[]", "must contain a number"),
        ("a[-1]", "must contain a number"),
        ("a[01]", "must contain a number"),
        ("a[x]", "must contain a number"),
        ("a[0]b", "a dot is missing"),
        ("\"a\"b", "a dot is missing"),
        ("a.\"b", "a closing quotation mark is missing"),
        ("\"a\\\"", "a closing quotation mark is missing"),
        ("\"a\\b\"", "a backslash must precede"),
        ("a[99999999999999999999999]", "must contain a number"),
        (&"a.".repeat(600), "more than 1024 bytes"),
        (&vec!["a"; 65].join("."), "more than 64 steps"),
    ] {
        let error = path.parse::<Path>().unwrap_err();
        assert_eq!(error.reason, Reason::InvalidPath);
        assert!(error.message.contains(says), "{path}: {}", error.message);
    }
}

#[test]
fn a_missing_path_is_reported_with_its_first_missing_step() {
    for (path, says) in [
        ("a.x", "\"a\" is an object with b, 0; it has no \"x\""),
        ("a.b.2", "\"a.b\" is an array of 2 items, starting at [0]; it has no \"2\""),
        ("a.b[0].c.d", "\"a.b[0].c\" is a single value; it has no \"d\""),
        ("x", "the root is an object with"),
        ("a[0]", "\"a\" is an object with b, 0; it has no [0]"),
        ("list.x", "\"list\" is an array of 2 items"),
    ] {
        let message = get(path).unwrap_err();
        assert!(message.contains(says), "{path}: {message}");
        let path: Path = path.parse().unwrap();
        let mut changed = data();
        assert!(path.set(&mut changed, json!(9), Missing::Reject).unwrap_err().message.contains(says));
        assert_eq!(changed, data());
    }
}

#[test]
fn setting_a_value_changes_nothing_else() {
    let mut changed = data();
    "a.b[1].c".parse::<Path>().unwrap().set(&mut changed, json!("new"), Missing::Reject).unwrap();
    let mut expected = data();
    expected["a"]["b"][1]["c"] = json!("new");
    assert_eq!(changed, expected);
}

#[test]
fn a_path_creates_only_its_last_step_and_only_if_allowed() {
    let add = |path: &str| {
        let mut changed = data();
        path.parse::<Path>().unwrap().set(&mut changed, json!(9), Missing::Add).map(|()| changed)
    };
    assert_eq!(add("a.x").unwrap()["a"]["x"], json!(9));
    assert_eq!(add("a.b[2]").unwrap()["a"]["b"][2], json!(9));
    for bad in ["a.b[3]", "x.y", "a.b[2].c", "list.x", "a[0]"] {
        assert!(add(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_removed_value_is_returned_and_later_items_move_up() {
    let remove = |path: &str| {
        let mut changed = data();
        path.parse::<Path>().unwrap().remove(&mut changed).map(|removed| (removed, changed))
    };
    let (removed, changed) = remove("a.b[0]").unwrap();
    assert_eq!((removed, &changed["a"]["b"]), (json!({ "c": 1 }), &json!([{ "c": [2, 3] }])));
    let (removed, changed) = remove("a").unwrap();
    assert_eq!((removed, changed), (data()["a"].clone(), json!({ "": 1, "list": [[1], [2]] })));
    assert_eq!(remove("list.1.0").unwrap().1["list"], json!([[1], []]));
    for missing in ["x", "a.x", "a.b[2]", "a[0]", "list.x", "a.b[0].c.d"] {
        assert_eq!(remove(missing).unwrap_err().reason, Reason::InvalidPath, "{missing}");
    }
}

#[test]
fn path_parser_takes_any_text() {
    const SEGMENTS: &[&str] =
        &["a", "b", "c", "0", "1", ".", "[", "]", "[0]", "[1]", ".0", "list", "-", "é", " ", "\"", "\\"];
    bolero::check!().with_iterations(100_000).with_max_len(24).for_each(|choices: &[u8]| {
        let mut text = String::new();
        for choice in choices {
            match SEGMENTS.get(usize::from(*choice) % (SEGMENTS.len() + 2)) {
                Some(part) => text.push_str(part),
                None => text.push(char::from(*choice)),
            }
        }
        let Ok(path) = text.parse::<Path>() else { return };
        assert_eq!(
            path.to_string().parse::<Path>().as_ref(),
            Ok(&path),
            "the canonical spelling parses to the same path: {text:?}"
        );
        let before = data();
        for missing in [Missing::Reject, Missing::Add] {
            let mut changed = before.clone();
            match path.set(&mut changed, json!("set"), missing) {
                Ok(()) => assert_eq!(path.get(&changed), Ok(&json!("set")), "{text:?}"),
                Err(error) => {
                    assert_eq!((error.reason, &changed), (Reason::InvalidPath, &before), "{text:?}");
                }
            }
            assert!(missing == Missing::Add || path.get(&before).is_ok() == (changed != before), "{text:?}");
        }
    });
}
