//! The strict rules, under which a provider can enforce a schema.

use serde_json::Value;

use super::graph::{Graph, Node};
use super::{Violation, join};

/// Adds violations of the strict rules: at each level every property is required and no other is allowed.
pub(super) fn check(graph: &Graph<'_>, violations: &mut Vec<Violation>) {
    if let Some(root) = graph.nodes.first()
        && root.schema.get("type").and_then(Value::as_str) != Some("object")
    {
        violations.push(Violation::new("#/type", "the root must be of type \"object\""));
    }
    for node in &graph.nodes {
        check_node(node, violations);
    }
}

fn check_node(node: &Node<'_>, violations: &mut Vec<Violation>) {
    let Some(members) = node.schema.as_object() else {
        // The parent object reports the value of `additionalProperties`.
        let additional =
            node.path.ends_with("/additionalProperties") && !node.path.ends_with("/properties/additionalProperties");
        if node.schema == &Value::Bool(true) && !additional {
            violations.push(Violation::new(&node.path, "`true` allows any value; state at least a type"));
        }
        return;
    };
    if describes_object(node.schema) {
        check_object(node, violations);
    } else if !VALUE_KEYWORDS.iter().any(|keyword| members.contains_key(*keyword)) {
        violations.push(Violation::new(&node.path, "permits any value; add a \"type\""));
    }
}

/// Keywords that declare the values of a property.
const VALUE_KEYWORDS: [&str; 8] = ["type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf", "not"];

fn describes_object(schema: &Value) -> bool {
    let typed = match schema.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => false,
    };
    typed || ["properties", "required", "additionalProperties"].iter().any(|keyword| schema.get(keyword).is_some())
}

fn check_object(node: &Node<'_>, violations: &mut Vec<Violation>) {
    let schema = node.schema;
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        violations.push(Violation::new(join(&node.path, "additionalProperties"), "must be present and false"));
    }
    if schema.get("patternProperties").is_some() {
        let message = "not allowed in a strict schema; name each property";
        violations.push(Violation::new(join(&node.path, "patternProperties"), message));
    }
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    for name in properties.into_iter().flat_map(serde_json::Map::keys) {
        if !required.contains(&name.as_str()) {
            let message =
                format!("property {:?} must be required; if it is optional, permit \"null\" in its type", short(name));
            violations.push(Violation::new(join(&node.path, "required"), message));
        }
    }
    for name in required {
        if !properties.is_some_and(|properties| properties.contains_key(name)) {
            let message = format!("required names {:?}, which is not in properties", short(name));
            violations.push(Violation::new(join(&node.path, "required"), message));
        }
    }
}

fn short(name: &str) -> String {
    name.chars().take(120).collect()
}
