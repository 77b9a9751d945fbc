//! The subschemas that apply to the values of an answer. Pure.

use serde_json::Value;

/// Maximum nesting of references and combinations of a subschema.
const DEPTH_MAX: u32 = 8;
/// Maximum number of subschemas that apply to one value.
const ALTERNATIVES_MAX: usize = 64;

/// A schema whose subschemas are selected along the data. A value has several subschemas if the schema combines them
/// (`anyOf`, `oneOf`, `allOf`) or refers to others.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaWalk<'a> {
    root: &'a Value,
}

impl<'a> SchemaWalk<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root }
    }

    /// Returns the subschemas of the data.
    pub(super) fn root(&self) -> Vec<&'a Value> {
        self.alternatives(std::iter::once(self.root))
    }

    /// Returns the subschemas of the items of an array that has these subschemas.
    pub(super) fn items(&self, schemas: &[&'a Value]) -> Vec<&'a Value> {
        self.alternatives(schemas.iter().filter_map(|schema| schema.get("items")))
    }

    /// Returns the subschemas of a member of an object that has these subschemas.
    pub(super) fn member(&self, schemas: &[&'a Value], name: &str) -> Vec<&'a Value> {
        let of_member = |schema: &&'a Value| {
            let property = schema.get("properties").and_then(|properties| properties.get(name));
            property.or_else(|| schema.get("additionalProperties"))
        };
        self.alternatives(schemas.iter().filter_map(of_member))
    }

    /// Returns the schemas with those that they refer to or combine.
    fn alternatives(&self, schemas: impl Iterator<Item = &'a Value>) -> Vec<&'a Value> {
        let mut found = Vec::new();
        schemas.for_each(|schema| self.add(schema, 0, &mut found));
        found
    }

    fn add(&self, schema: &'a Value, depth: u32, found: &mut Vec<&'a Value>) {
        if depth > DEPTH_MAX || found.len() >= ALTERNATIVES_MAX {
            return;
        }
        found.push(schema);
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
        if let Some(target) = reference.and_then(|pointer| self.root.pointer(pointer)) {
            self.add(target, depth + 1, found);
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            for part in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                self.add(part, depth + 1, found);
            }
        }
    }
}
