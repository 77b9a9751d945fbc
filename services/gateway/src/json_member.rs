//! Members of JSON objects.

use serde_json::Value;

/// Sets a member of an object. Other values remain as they are.
pub(crate) fn set_member(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}
