//! Subschemas of a Draft 7 schema.

use serde_json::Value;

use super::join;

/// Position of the values to which a subschema applies, relative to the value to which its parent applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// The value of the parent.
    Same,
    /// A member that no other subschema of this position applies to (`properties`, `additionalProperties`).
    OneMember,
    /// Members that other subschemas may also apply to (`patternProperties`).
    AnyMember,
    /// An item that no other subschema of this position applies to.
    OneItem,
    /// Items that other subschemas may also apply to (`contains`).
    AnyItem,
    /// No position: the subschema is only reachable by references.
    Nowhere,
}

pub(super) struct Child<'a> {
    pub(super) path: String,
    pub(super) schema: &'a Value,
    pub(super) position: Position,
}

/// Returns the direct subschemas of `schema`, for every keyword of Draft 7 and `$defs`.
pub(super) fn children<'a>(path: &str, schema: &'a Value) -> Vec<Child<'a>> {
    let mut found = Vec::new();
    let Some(members) = schema.as_object() else { return found };
    for (keyword, value) in members {
        let at = join(path, keyword);
        match keyword.as_str() {
            "not" | "if" | "then" | "else" => one(at, value, Position::Same, &mut found),
            "allOf" | "anyOf" | "oneOf" => list(&at, value, Position::Same, &mut found),
            "dependencies" => map(&at, value, Position::Same, &mut found),
            "properties" => map(&at, value, Position::OneMember, &mut found),
            "additionalProperties" | "propertyNames" => one(at, value, Position::OneMember, &mut found),
            "patternProperties" => map(&at, value, Position::AnyMember, &mut found),
            "items" if value.is_array() => list(&at, value, Position::OneItem, &mut found),
            "items" | "additionalItems" => one(at, value, Position::OneItem, &mut found),
            "contains" => one(at, value, Position::AnyItem, &mut found),
            "definitions" | "$defs" => map(&at, value, Position::Nowhere, &mut found),
            _ => {}
        }
    }
    found
}

fn one<'a>(path: String, schema: &'a Value, position: Position, found: &mut Vec<Child<'a>>) {
    // A list of names in `dependencies` is not a schema. Any other value that is not a schema violates the meta-schema.
    if schema.is_object() || schema.is_boolean() {
        found.push(Child { path, schema, position });
    }
}

fn list<'a>(path: &str, value: &'a Value, position: Position, found: &mut Vec<Child<'a>>) {
    for (at, schema) in value.as_array().into_iter().flatten().enumerate() {
        one(join(path, &at.to_string()), schema, position, found);
    }
}

fn map<'a>(path: &str, value: &'a Value, position: Position, found: &mut Vec<Child<'a>>) {
    for (name, schema) in value.as_object().into_iter().flatten() {
        one(join(path, name), schema, position, found);
    }
}
