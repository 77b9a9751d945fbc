//! Tests of the schema checks.

use serde_json::{Value, json};

use super::*;

fn format(schema: Value) -> Value {
    json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema, "strict": true } })
}

fn paths(result: Result<CheckedFormat, Vec<Violation>>) -> Vec<String> {
    result.err().into_iter().flatten().map(|violation| violation.path).collect()
}

fn strict_paths(schema: Value) -> Vec<String> {
    check_schema(&schema, Rules::Strict).into_iter().map(|violation| violation.path).collect()
}

fn object(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

#[test]
fn a_valid_schema_is_unchanged_and_may_be_a_string() {
    let good = format(object(json!({ "total": { "type": ["number", "null"] } })));
    let checked = check_response_format(&good, Rules::Strict).unwrap();
    assert_eq!((&checked.response_format, checked.strict), (&good, true));
    let as_text = Value::String(good.to_string());
    assert_eq!(check_response_format(&as_text, Rules::Strict).unwrap(), checked);
}

#[test]
fn every_violation_is_named_with_its_path() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": { "type": "object", "properties": { "b": { "type": "string" } }, "required": [] },
            "list": { "type": "array", "items": { "type": "object", "properties": {}, "additionalProperties": true } },
            "either": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/d" }] },
            "any": {},
        },
        "required": ["a", "list", "either", "ghost"],
        "additionalProperties": false,
        "$defs": { "d": { "type": ["object", "null"], "patternProperties": { "^x": { "type": "string" } } } },
    });
    let mut found = strict_paths(schema);
    found.sort();
    assert_eq!(
        found,
        [
            "#/$defs/d/additionalProperties",
            "#/$defs/d/patternProperties",
            "#/properties/a/additionalProperties",
            "#/properties/a/required",
            "#/properties/any",
            "#/properties/list/items/additionalProperties",
            "#/required",
            "#/required",
        ]
    );
}

#[test]
fn the_strict_rules_apply_to_every_subschema() {
    let loose = json!({ "type": "object", "properties": {} });
    for (keyword, value) in [
        ("items", json!([loose])),
        ("additionalItems", loose.clone()),
        ("contains", loose.clone()),
        ("not", loose.clone()),
        ("if", loose.clone()),
        ("then", loose.clone()),
        ("else", loose.clone()),
        ("allOf", json!([loose])),
        ("anyOf", json!([loose])),
        ("oneOf", json!([loose])),
        ("dependencies", json!({ "x": loose })),
        ("definitions", json!({ "x": loose })),
        ("$defs", json!({ "x": loose })),
        ("propertyNames", loose.clone()),
    ] {
        let mut schema = object(json!({ "p": { "type": ["array", "string"], keyword: value } }));
        let found = strict_paths(schema.clone());
        assert_eq!(found.len(), 1, "{keyword}: {found:?}");
        assert!(found[0].starts_with(&format!("#/properties/p/{keyword}")), "{keyword}: {found:?}");
        schema["properties"]["p"].as_object_mut().unwrap().remove(keyword);
        assert!(strict_paths(schema).is_empty(), "{keyword}");
    }
}

#[test]
fn names_of_properties_are_not_treated_as_keywords() {
    let schema = object(json!({
        "properties": { "type": "string" },
        "$ref": { "type": "string" },
        "required": { "type": "string" },
        "additionalProperties": { "type": "string" },
        "a/b~c": { "type": "string", "enum": [{ "$ref": "http://x" }, "y"], "const": { "type": "object" } },
    }));
    assert_eq!(strict_paths(schema), Vec::<String>::new());
}

#[test]
fn the_wrapper_is_validated() {
    let with = |member: &str, value: Value| {
        let mut wrapper = format(object(json!({})));
        wrapper["json_schema"][member] = value;
        wrapper
    };
    let without = |member: &str| {
        let mut wrapper = format(object(json!({})));
        wrapper["json_schema"].as_object_mut().unwrap().remove(member);
        wrapper
    };
    let cases = [
        (json!(3), "#"),
        (json!("{"), "#"),
        (json!({ "type": "object" }), "#/type"),
        (json!({ "type": "json_schema" }), "#/json_schema"),
        (with("name", json!("a b")), "#/json_schema/name"),
        (without("schema"), "#/json_schema/schema"),
        (without("strict"), "#/json_schema/strict"),
        (with("strict", json!(false)), "#/json_schema/strict"),
        (with("x", json!(1)), "#/json_schema/x"),
        (with("schema", json!([])), "#/json_schema/schema"),
        (with("schema", json!({ "type": "objekt" })), "#/json_schema/schema/type"),
    ];
    for (value, path) in cases {
        assert!(paths(check_response_format(&value, Rules::Strict)).contains(&path.to_owned()), "{value}");
    }
}

#[test]
fn a_non_strict_schema_is_accepted_if_allowed_and_is_marked() {
    let loose = format(json!({ "type": "object", "properties": { "a": { "type": "string" } } }));
    let kept = check_response_format(&loose, Rules::AllowNonStrict).unwrap();
    assert!(!kept.strict);
    assert_eq!(kept.response_format["json_schema"]["strict"], json!(false));
    assert!(check_response_format(&loose, Rules::Strict).is_err());
    let accepted = format(object(json!({ "a": { "type": "string" } })));
    assert!(check_response_format(&accepted, Rules::AllowNonStrict).unwrap().strict);
    let broken = format(json!({ "type": 3 }));
    assert!(check_response_format(&broken, Rules::AllowNonStrict).is_err());
}

#[test]
fn references_to_other_schemas_are_refused() {
    for (reference, good) in [
        ("#/$defs/a", true),
        ("#", true),
        ("#/properties/q", true),
        ("http://example.com/schema", false),
        ("http://json-schema.org/draft-07/schema#", false),
        ("other.json", false),
        ("#/$defs/missing", false),
        ("#anchor", false),
        ("", false),
    ] {
        let mut schema = object(json!({ "p": { "$ref": reference }, "q": { "type": "string" } }));
        schema["$defs"] = json!({ "a": { "type": "string" } });
        for rules in [Rules::Strict, Rules::AllowNonStrict] {
            let found = check_schema(&schema, rules);
            assert_eq!(found.is_empty(), good, "{reference}: {found:?}");
        }
    }
    let inner = object(json!({ "p": { "$id": "http://x/y", "type": "string" } }));
    assert_eq!(strict_paths(inner), ["#/properties/p/$id"]);
}

#[test]
fn another_draft_is_refused_and_draft_7_may_be_named() {
    let with = |draft: &str| {
        let mut schema = object(json!({}));
        schema["$schema"] = json!(draft);
        strict_paths(schema)
    };
    assert!(with("http://json-schema.org/draft-07/schema#").is_empty());
    for bad in ["https://json-schema.org/draft/2020-12/schema", "http://example.com/own", ""] {
        assert_eq!(with(bad), ["#/$schema"], "{bad}");
    }
}

#[test]
fn reference_cycles_that_consume_no_data_are_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "not": { "$ref": "#/$defs/b" } }, "b": { "$ref": "#/$defs/a" } } }),
    ] {
        assert!(!check_schema(&schema, Rules::AllowNonStrict).is_empty(), "{schema}");
    }
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({ "next": null }), |inner, _| json!({ "next": inner }))
}

#[tokio::test]
async fn a_recursive_schema_accepts_data_up_to_the_maximum_depth() {
    let schema = object(json!({ "next": { "anyOf": [{ "type": "null" }, { "$ref": "#" }] } }));
    assert!(check_schema(&schema, Rules::Strict).is_empty());
    assert_eq!(validate_data(&schema, &nested(40)).await, Ok(Vec::new()));
    let mut wrong = nested(3);
    wrong["next"]["next"] = json!("secret");
    let found = validate_data(&schema, &wrong).await.unwrap();
    assert!(found.iter().all(|violation| violation.path.starts_with("#/next")), "{found:?}");
    assert!(!describe(&found).contains("secret"), "{found:?}");
    assert!(!validate_data(&schema, &nested(100)).await.unwrap().is_empty());
}

#[tokio::test]
async fn exponential_work_is_refused_before_it_starts() {
    let doubling = json!({ "properties": { "next": { "anyOf": [{ "$ref": "#" }, { "allOf": [{ "$ref": "#" }, { "$ref": "#" }] }] } } });
    assert_eq!(validate_data(&doubling, &nested(5)).await, Ok(Vec::new()));
    let found = validate_data(&doubling, &nested(60)).await.unwrap();
    assert!(found[0].message.contains("recursion"), "{found:?}");
    // Thirty levels of two references each: a billion evaluations of one value.
    let mut definitions = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        definitions.insert(format!("d{level}"), json!({ "allOf": [next, next] }));
    }
    definitions.insert("d30".to_owned(), json!({ "type": "null" }));
    let wide = json!({ "$ref": "#/$defs/d0", "$defs": definitions });
    match validate_data(&wide, &json!(null)).await {
        Ok(found) | Err(found) => assert!(!found.is_empty()),
    }
}

/// Returns `length` definitions, each of which refers to the next one, followed by the definition `last`.
fn chain(length: usize, last: Value) -> Value {
    let next = |n: usize| json!({ "properties": { "a": { "$ref": format!("#/definitions/d{}", n + 1) } } });
    let definitions = (0..length).map(|n| (format!("d{n}"), next(n)));
    definitions.chain([(format!("d{length}"), last)]).collect()
}

#[test]
fn sizes_are_bounded() {
    let deep = (0..70).fold(json!({ "type": "string" }), |inner, _| json!({ "not": inner }));
    assert!(!check_schema(&deep, Rules::AllowNonStrict).is_empty());
    let many: serde_json::Map<_, _> = (0..1_001).map(|n| (format!("p{n}"), json!({ "type": "null" }))).collect();
    assert!(!check_schema(&json!({ "properties": many }), Rules::AllowNonStrict).is_empty());
    let large = json!({ "description": "x".repeat(200_000) });
    assert!(!check_schema(&large, Rules::AllowNonStrict).is_empty());
    let chained = json!({ "$ref": "#/definitions/d0", "definitions": chain(900, json!({})) });
    assert!(!check_schema(&chained, Rules::AllowNonStrict).is_empty());
    let only_wrong =
        json!({ "properties": (0..500).map(|n| (format!("p{n}"), json!({}))).collect::<serde_json::Map<_, _>>() });
    assert_eq!(check_schema(&only_wrong, Rules::Strict).len(), VIOLATIONS_MAX + 1);
}

#[test]
fn the_longest_chain_of_references_that_is_allowed_compiles_on_a_small_stack() {
    let chain = chain(480, json!({ "type": "null" }));
    let chained = json!({ "properties": { "a": { "$ref": "#/definitions/d0" } }, "definitions": chain });
    let compiled = Validator::compile(&chained).unwrap();
    assert!(compiled.check(&nested(20)).is_empty());
}

#[tokio::test]
async fn hostile_patterns_do_not_hang() {
    let schema = json!({ "type": "string", "pattern": "^(?=a)(a+)+\\1$" });
    let started = std::time::Instant::now();
    let _ = validate_data(&schema, &json!(format!("{}b", "a".repeat(5_000)))).await;
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(!check_schema(&json!({ "pattern": "(((a{1000}){1000}){1000})" }), Rules::AllowNonStrict).is_empty());
    assert!(!check_schema(&json!({ "pattern": "(" }), Rules::AllowNonStrict).is_empty());
}

#[tokio::test]
async fn many_hostile_patterns_lists_and_values_take_bounded_time() {
    let started = std::time::Instant::now();
    let many: serde_json::Map<_, _> =
        (0..150).map(|n| (format!("p{n}"), json!({ "pattern": format!("\\w{{{}}}", 400 + n) }))).collect();
    let _ = check_schema(&json!({ "properties": many }), Rules::AllowNonStrict);
    let more: Vec<Value> = (0..201).map(|_| json!({ "pattern": "a" })).collect();
    assert!(!check_schema(&json!({ "anyOf": more }), Rules::AllowNonStrict).is_empty());
    let backtracking = json!({ "items": { "pattern": "^(?=a)(a+)+\\1$" } });
    let values: Vec<Value> = (0..6_000).map(|_| json!("aaaaaaaaaaaaaaaaaaaaaaab")).collect();
    let _ = validate_data(&backtracking, &json!(values)).await;
    let listed = json!({ "items": { "enum": (0..15_000).collect::<Vec<_>>() } });
    let found = validate_data(&listed, &json!(vec![15_001; 50_000])).await.unwrap();
    assert!(!found.is_empty());
    assert!(started.elapsed() < std::time::Duration::from_secs(90), "{:?}", started.elapsed());
}
