//! Where a Draft 7 schema holds further schemas.

use serde_json::Value;

use super::join;

/// To what of an instance a subschema applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// To the value itself.
    Same,
    /// To a member that no other schema of this place takes (`properties`, `additionalProperties`).
    OneMember,
    /// To members that others take too (`patternProperties`).
    AnyMember,
    /// To an item that no other schema of this place takes.
    OneItem,
    /// To items that others take too (`contains`).
    AnyItem,
    /// To nothing by itself: only references lead there.
    Nowhere,
}

/// A schema within a schema.
pub(super) struct Child<'a> {
    pub(super) path: String,
    pub(super) schema: &'a Value,
    pub(super) place: Place,
}

/// The schemas directly within `schema`, by every keyword of Draft 7 (and `$defs`) that holds any.
pub(super) fn children<'a>(path: &str, schema: &'a Value) -> Vec<Child<'a>> {
    let mut found = Vec::new();
    let Some(members) = schema.as_object() else { return found };
    for (keyword, value) in members {
        let at = join(path, keyword);
        match keyword.as_str() {
            "not" | "if" | "then" | "else" => one(at, value, Place::Same, &mut found),
            "allOf" | "anyOf" | "oneOf" => list(&at, value, Place::Same, &mut found),
            "dependencies" => map(&at, value, Place::Same, &mut found),
            "properties" => map(&at, value, Place::OneMember, &mut found),
            "additionalProperties" | "propertyNames" => one(at, value, Place::OneMember, &mut found),
            "patternProperties" => map(&at, value, Place::AnyMember, &mut found),
            "items" if value.is_array() => list(&at, value, Place::OneItem, &mut found),
            "items" | "additionalItems" => one(at, value, Place::OneItem, &mut found),
            "contains" => one(at, value, Place::AnyItem, &mut found),
            "definitions" | "$defs" => map(&at, value, Place::Nowhere, &mut found),
            _ => {}
        }
    }
    found
}

fn one<'a>(path: String, schema: &'a Value, place: Place, found: &mut Vec<Child<'a>>) {
    // A list of names in `dependencies` is no schema; anything else that is none breaks the meta-schema.
    if schema.is_object() || schema.is_boolean() {
        found.push(Child { path, schema, place });
    }
}

fn list<'a>(path: &str, value: &'a Value, place: Place, found: &mut Vec<Child<'a>>) {
    for (at, schema) in value.as_array().into_iter().flatten().enumerate() {
        one(join(path, &at.to_string()), schema, place, found);
    }
}

fn map<'a>(path: &str, value: &'a Value, place: Place, found: &mut Vec<Child<'a>>) {
    for (name, schema) in value.as_object().into_iter().flatten() {
        one(join(path, name), schema, place, found);
    }
}
