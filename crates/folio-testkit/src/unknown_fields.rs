//! Stored values as a newer build writes them: with fields that this build does not know.

use serde_json::Value;

const FIELD: &str = "written_by_a_newer_build";

/// Adds a field to each object of a value, unless `read` then fails, and returns the number of changed objects. The
/// unchanged objects are not structs: they are values of enums with fields, or maps from names to structs.
///
/// # Panics
/// Panics if `read` refuses a field as unknown.
pub fn add_unknown_fields(value: &mut Value, read: impl Fn(&Value) -> Result<(), String>) -> usize {
    let mut pointers = Vec::new();
    objects(value, "", &mut pointers);
    let mut added = 0;
    for pointer in pointers {
        let mut changed = value.clone();
        if let Some(object) = changed.pointer_mut(&pointer).and_then(Value::as_object_mut) {
            object.insert(FIELD.to_owned(), FIELD.into());
        }
        match read(&changed) {
            Ok(()) => {
                *value = changed;
                added += 1;
            }
            // `std::time::Duration` refuses unknown fields and gets no new ones.
            Err(error) if error.contains("expected `secs` or `nanos`") => {}
            Err(error) => assert!(!error.contains("unknown field"), "{pointer:?}: {error}"),
        }
    }
    added
}

/// Collects the JSON pointers of all objects, outer ones first.
fn objects(value: &Value, pointer: &str, pointers: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            pointers.push(pointer.to_owned());
            for (name, field) in fields {
                objects(field, &format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")), pointers);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                objects(item, &format!("{pointer}/{index}"), pointers);
            }
        }
        _ => {}
    }
}
