//! Reviews of single values: the values that a path selects, and those that must be approved.

use std::collections::BTreeSet;

use folio_resources::{Document, Extraction, FieldDecision, Review, item_path, leaves, leaves_at, member_path};
use folio_storage::Stores;
use folio_types::{Error, Result};
use serde_json::Value;

use super::citation::check_again;
use super::edit::{apply_edit, schema_of};
use super::schema_walk::SchemaWalk;
use crate::path::Path;

/// Returns the decision about the values at a path of the current data, or about all values if the path is empty.
/// `decision`: None withdraws decisions. `value`: the corrected value, which replaces the value at the path.
///
/// # Errors
/// `INVALID_PATH` if the path does not exist, and the errors of [`apply_edit`].
pub async fn plan_review(
    stores: &Stores,
    extraction: &Extraction,
    path: &str,
    decision: Option<FieldDecision>,
    value: Option<Value>,
) -> Result<Review> {
    let data = match value {
        Some(value) => Some(apply_edit(stores, extraction, path, value).await?),
        None => None,
    };
    let current = data.as_ref().unwrap_or(extraction.current());
    let paths = selected(current, path)?;
    let schema = schema_of(stores, extraction).await?;
    let required = required_leaves(schema.as_ref().and_then(|revision| revision.schema()), current);
    let withdrawn = lost_approvals(stores, extraction).await?;
    Ok(Review { paths, decision, is_by_rule: false, data, required, withdrawn })
}

/// Returns the paths of the values that a review rule approved and that the current text of the document lacks. Cost: nothing
/// without such approvals; otherwise one read, and a search if the document was read again.
async fn lost_approvals(stores: &Stores, extraction: &Extraction) -> Result<Vec<String>> {
    if extraction.fields.unsupported(&BTreeSet::new()).is_empty() {
        return Ok(Vec::new());
    }
    let document = stores.of::<Document>().get(&extraction.org, &extraction.document).await?;
    let Some(document) = document else { return Ok(Vec::new()) };
    let checked = check_again(stores, &document, extraction.clone()).await?;
    Ok(extraction.fields.unsupported(&checked.fields.reviews.into_keys().collect()))
}

/// Validates a decision before the extraction is read.
///
/// # Errors
/// `INVALID_PATH` if the path is malformed, `INVALID_FIELD` if the corrected value is not approved.
pub fn check_review(path: &str, decision: Option<FieldDecision>, value: Option<&Value>) -> Result<()> {
    if !path.is_empty() {
        path.parse::<Path>()?;
    }
    if value.is_some() && decision != Some(FieldDecision::Approved) {
        return Err(Error::invalid_field("value_json", "a corrected value must be approved"));
    }
    Ok(())
}

/// Returns the paths of the leaves at or below a path.
pub(super) fn selected(data: &Value, path: &str) -> Result<Vec<String>> {
    if path.is_empty() {
        return Ok(leaves(data).into_iter().map(|(path, _)| path).collect());
    }
    let path: Path = path.parse()?;
    let prefix = path.canonical(data)?;
    Ok(leaves_at(&prefix, path.get(data)?).into_iter().map(|(path, _)| path).collect())
}

/// Returns the paths of the leaves that the schema requires. A member that the schema does not declare is required. Without a
/// schema, or if the schema requires none of the leaves, all are required: otherwise one approval would verify all values.
pub(super) fn required_leaves(schema: Option<&Value>, data: &Value) -> Vec<String> {
    let walk = SchemaWalk::new(schema.unwrap_or(&Value::Null));
    let mut found = Vec::new();
    add_required(&walk, String::new(), data, &walk.root(), &mut found);
    if found.is_empty() { leaves(data).into_iter().map(|(path, _)| path).collect() } else { found }
}

fn add_required(walk: &SchemaWalk<'_>, path: String, value: &Value, schemas: &[&Value], found: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members.iter().filter(|(name, _)| is_required(schemas, name)) {
                add_required(walk, member_path(&path, name), member, &walk.member(schemas, name), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let schemas = walk.items(schemas);
            for (index, item) in items.iter().enumerate() {
                add_required(walk, item_path(&path, index), item, &schemas, found);
            }
        }
        _ => found.push(path),
    }
}

fn is_required(schemas: &[&Value], name: &str) -> bool {
    let names = |schema: &Value| -> bool {
        let required = schema.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|required| required == name))
    };
    let mut declaring =
        schemas.iter().filter(|schema| schema.get("properties").is_some_and(|all| all.get(name).is_some()));
    declaring.clone().next().is_none() || declaring.any(|schema| names(schema))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_selects_the_values_below_it() {
        let data = json!({"total": 5, "items": [{"name": "a", "tags": ["x", "y"]}, {"name": "b"}], "note": null});
        for (path, expected) in [
            ("total", vec!["total"]),
            ("note", vec!["note"]),
            ("items.0", vec!["items[0].name", "items[0].tags[0]", "items[0].tags[1]"]),
            ("items[0].tags", vec!["items[0].tags[0]", "items[0].tags[1]"]),
            ("items.1.name", vec!["items[1].name"]),
        ] {
            let mut found = selected(&data, path).unwrap();
            found.sort();
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(selected(&data, "").unwrap().len(), 6);
        assert_eq!(selected(&json!(5), "").unwrap(), [""]);
        assert!(selected(&data, "items[2]").is_err() && selected(&data, "other").is_err());
    }

    #[test]
    fn the_schema_decides_which_values_are_required() {
        let schema = json!({
            "type": "object", "required": ["total", "items", "seller"],
            "properties": {
                "total": {"type": "number"}, "note": {"type": "string"},
                "seller": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/party"}]},
                "items": {"type": "array", "items": {
                    "type": "object", "required": ["price"],
                    "properties": {"price": {"type": "number"}, "unit": {"type": "string"}},
                }},
            },
            "$defs": {"party": {
                "type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "vat": {"type": "string"}},
            }},
        });
        let data = json!({
            "total": 5, "note": "n", "seller": {"name": "x", "vat": "y"}, "items": [{"price": 1, "unit": "kg"}, {"price": 2}],
            "unknown": 1,
        });
        let mut required = required_leaves(Some(&schema), &data);
        required.sort();
        assert_eq!(required, ["items[0].price", "items[1].price", "seller.name", "total", "unknown"]);
        assert_eq!(required_leaves(None, &data).len(), leaves(&data).len());
        let optional =
            json!({"type": "object", "properties": {"total": {"type": "number"}, "note": {"type": "string"}}});
        assert_eq!(required_leaves(Some(&optional), &json!({"total": 5, "note": "n"})), ["total", "note"]);
        assert_eq!(required_leaves(Some(&schema), &json!({"total": 5, "seller": null, "items": []})).len(), 3);
    }
}
