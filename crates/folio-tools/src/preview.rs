//! The effect that a write call would have on its resource, as the difference of two states.

use folio_resources::Resource;
use folio_types::op::Target;
use serde_json::{Map, Value};

use crate::tool::ToolError;

/// Maximum number of differences of a preview.
// proto: PreviewToolCallResponse.changes "at most {}."
pub const CHANGES_MAX: usize = 500;
/// Maximum size of a value in a difference, as JSON in bytes. A longer one is replaced by a text that states its size.
// proto: ValueChange.old_json "more than {} KiB"
pub const VALUE_BYTES: usize = 8 * 1024;

/// Members of a stored resource that no change sets directly.
const DERIVED: &[&str] = &["id", "version", "revid", "org", "created_by", "created_at", "updated_at"];

/// The state of a resource before and after a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    pub target: Target,
    /// None: the call creates the resource.
    pub before: Option<Value>,
    /// None: the call deletes the resource.
    pub after: Option<Value>,
}

/// One difference between two states.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueChange {
    /// The JSON pointer (RFC 6901) of the value.
    pub path: String,
    /// None: the value is added.
    pub old: Option<Value>,
    /// None: the value is removed.
    pub new: Option<Value>,
}

impl Preview {
    pub(crate) fn of<R: Resource>(target: Target, before: Option<&R>, after: Option<&R>) -> Result<Self, ToolError> {
        let state = |resource: Option<&R>| resource.map(serde_json::to_value).transpose();
        let states = state(before).and_then(|before| Ok((before, state(after)?)));
        let (before, after) = states.map_err(|error| {
            let message = format!("a {} cannot be serialized: {error}", R::KIND);
            ToolError::Failed(folio_types::Error::internal(message))
        })?;
        Ok(Self { target, before, after })
    }

    /// Returns the differences of the fields that changes set, at most [`CHANGES_MAX`], and the number of all.
    pub fn changes(&self) -> (Vec<ValueChange>, usize) {
        let state = |state: &Option<Value>| state.as_ref().map(fields);
        let mut changes = Vec::new();
        differences(state(&self.before).as_ref(), state(&self.after).as_ref(), String::new(), &mut changes);
        let count = changes.len();
        changes.truncate(CHANGES_MAX);
        (changes, count)
    }
}

/// Returns the fields of a resource. Those of the newest revision are fields of the resource.
fn fields(resource: &Value) -> Value {
    let mut fields = Map::new();
    for (name, value) in resource.as_object().into_iter().flatten() {
        match (name.as_str(), value) {
            ("latest", Value::Object(revision)) => fields.extend(revision.clone()),
            _ => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    fields.retain(|name, _| !DERIVED.contains(&name.as_str()));
    Value::Object(fields)
}

/// Adds the differences of two values. Members of objects and elements of arrays are compared one by one. An absent value is
/// compared as an empty object, so that a created resource shows each of its fields.
fn differences(old: Option<&Value>, new: Option<&Value>, path: String, changes: &mut Vec<ValueChange>) {
    let is_object = |value: Option<&Value>| value.is_some_and(Value::is_object);
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for at in 0..old.len().max(new.len()) {
                differences(old.get(at), new.get(at), format!("{path}/{at}"), changes);
            }
        }
        (old, new) if (is_object(old) && is_object(new)) || (path.is_empty() && (is_object(old) || is_object(new))) => {
            let members = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
            let (old, new) = (members(old), members(new));
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                differences(old.get(name), new.get(name), path, changes);
            }
        }
        (old, new) => changes.push(ValueChange { path, old: old.map(bounded), new: new.map(bounded) }),
    }
}

/// Returns a value, or a text in its place if it is too long.
fn bounded(value: &Value) -> Value {
    let bytes = value.to_string().len();
    if bytes <= VALUE_BYTES { value.clone() } else { Value::String(format!("<{bytes} bytes>")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn preview(before: Option<Value>, after: Option<Value>) -> Preview {
        Preview { target: Target::new("schema", "sch_1"), before, after }
    }

    fn change(path: &str, old: Option<Value>, new: Option<Value>) -> ValueChange {
        ValueChange { path: path.to_owned(), old, new }
    }

    fn schema(version: u32, properties: &Value) -> Value {
        let latest = json!({ "revid": format!("sch_1.{version}"), "org": "org_1", "name": "Invoice",
            "response_format": { "properties": properties, "required": ["total"] }, "created_at": version });
        json!({ "id": "sch_1", "version": version, "created_at": 1, "latest": latest })
    }

    #[test]
    fn only_the_fields_that_differ_are_changes() {
        let before = schema(1, &json!({ "total": { "type": "number" }, "a/b~c": 1 }));
        let after = schema(2, &json!({ "total": { "type": "string" }, "date": { "type": "string" } }));
        let (changes, count) = preview(Some(before.clone()), Some(after)).changes();
        let root = "/response_format/properties";
        assert_eq!(
            changes,
            [
                change(&format!("{root}/total/type"), Some(json!("number")), Some(json!("string"))),
                change(&format!("{root}/a~1b~0c"), Some(json!(1)), None),
                change(&format!("{root}/date"), None, Some(json!({ "type": "string" }))),
            ]
        );
        assert_eq!(count, 3);
        // A new version without other differences is no change.
        let same = schema(2, &before["latest"]["response_format"]["properties"]);
        assert_eq!(preview(Some(before), Some(same)).changes(), (vec![], 0));
    }

    #[test]
    fn a_created_and_a_deleted_resource_show_each_field() {
        let tag = json!({ "id": "tag_1", "org": "org_1", "name": "invoice", "color": null, "version": 1 });
        let created = [change("/name", None, Some(json!("invoice"))), change("/color", None, Some(Value::Null))];
        assert_eq!(preview(None, Some(tag.clone())).changes().0, created);
        let deleted = [change("/name", Some(json!("invoice")), None), change("/color", Some(Value::Null), None)];
        assert_eq!(preview(Some(tag), None).changes().0, deleted);
    }

    #[test]
    fn elements_of_lists_are_compared_by_position() {
        let data = |items: &Value| Some(json!({ "edited": { "items": items } }));
        let (changes, _) = preview(data(&json!([1, 2, 3])), data(&json!([1, 5]))).changes();
        assert_eq!(
            changes,
            [
                change("/edited/items/1", Some(json!(2)), Some(json!(5))),
                change("/edited/items/2", Some(json!(3)), None)
            ]
        );
    }

    #[test]
    fn the_differences_and_their_values_are_bounded() {
        let many = |value: u32| Some(json!({ "list": (0..600).map(|_| value).collect::<Vec<_>>() }));
        let (changes, count) = preview(many(1), many(2)).changes();
        assert_eq!((changes.len(), count), (CHANGES_MAX, 600));
        let (content, long) = (json!({ "content": "a" }), json!({ "content": "x".repeat(VALUE_BYTES) }));
        let (changes, _) = preview(Some(content), Some(long)).changes();
        assert_eq!(
            changes,
            [change("/content", Some(json!("a")), Some(json!(format!("<{} bytes>", VALUE_BYTES + 2))))]
        );
    }
}
