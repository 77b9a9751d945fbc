//! Unknown fields of stored values: fields that a newer build wrote and this build does not know.
//!
//! While two versions run on the same stores, a process of the older version changes values of the newer one. The change
//! keeps the unknown fields: those of the value itself, of its objects, and of the items of its arrays. Two items are the
//! same if their fields `id` are equal or, without this field, if the items are equal. A changed item without the field
//! `id` loses its unknown fields: its position does not identify it, because another item may have replaced it.

use std::sync::Arc;

use serde_json::Value;

use crate::{Error, Result};

/// A stored value before a change, kept only if it has unknown fields. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnknownFields(Option<Arc<Before>>);

#[derive(Debug, PartialEq, Eq)]
struct Before {
    /// JSON of the stored value.
    stored: Value,
    /// JSON of the value that this build decodes from `stored`: without the unknown fields.
    known: Value,
}

impl UnknownFields {
    /// No unknown field.
    pub const NONE: &'static Self = &Self(None);

    /// Returns the unknown fields of `stored`. `known`: the encoding of the value that was decoded from `stored`. Both are
    /// a byte with the format version and JSON. A value of an older format has no unknown field.
    ///
    /// # Errors
    /// `INTERNAL` if a value is not JSON.
    pub fn between(stored: &[u8], known: &[u8]) -> Result<Self> {
        if stored == known || stored.first() != known.first() {
            return Ok(Self::default());
        }
        Ok(Self(Some(Arc::new(Before { stored: json(stored)?, known: json(known)? }))))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the unknown fields of the value at a JSON pointer (RFC 6901).
    #[must_use]
    pub fn below(&self, pointer: &str) -> Self {
        let values =
            |before: &Before| Some((before.stored.pointer(pointer)?.clone(), before.known.pointer(pointer)?.clone()));
        Self(self.0.as_deref().and_then(values).map(|(stored, known)| Arc::new(Before { stored, known })))
    }

    /// Adds the unknown fields to an encoded value, which replaces the value that was stored before.
    ///
    /// # Errors
    /// `INTERNAL` if the value is not JSON.
    pub fn add_to(&self, encoded: Vec<u8>) -> Result<Vec<u8>> {
        let Some(before) = &self.0 else { return Ok(encoded) };
        let mut value = json(&encoded)?;
        merge(&mut value, &before.stored, &before.known);
        let mut merged: Vec<u8> = encoded.into_iter().take(1).collect();
        serde_json::to_writer(&mut merged, &value).map_err(|error| unreadable(&error))?;
        Ok(merged)
    }
}

fn json(encoded: &[u8]) -> Result<Value> {
    serde_json::from_slice(encoded.get(1..).unwrap_or_default()).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> Error {
    Error::internal(format!("the unknown fields of a stored value cannot be kept: {error}"))
}

/// Adds to `new` the fields of `stored` that are missing in `known`.
fn merge(new: &mut Value, stored: &Value, known: &Value) {
    match (new, stored, known) {
        _ if stored == known => {}
        (Value::Object(new), Value::Object(stored), Value::Object(known))
            if has_same_id(new.get("id"), known.get("id")) =>
        {
            for (name, stored) in stored {
                match (new.get_mut(name), known.get(name)) {
                    (Some(new), Some(known)) => merge(new, stored, known),
                    (None, None) => {
                        new.insert(name.clone(), stored.clone());
                    }
                    // The change removed a known field, or set a field that was stored in another form.
                    (None, Some(_)) | (Some(_), None) => {}
                }
            }
        }
        (Value::Array(new), Value::Array(stored), Value::Array(known)) => {
            let is_same = |new: &Value, known: &Value| match (new.get("id"), known.get("id")) {
                (Some(one), Some(other)) => one == other,
                _ => new == known,
            };
            for new in new {
                let same = known.iter().zip(stored).find(|(known, _)| is_same(new, known));
                if let Some((known, stored)) = same {
                    merge(new, stored, known);
                }
            }
        }
        _ => {}
    }
}

/// Returns false if both objects have an id and the ids differ.
fn has_same_id(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encoded(value: &Value) -> Vec<u8> {
        [&[1], value.to_string().as_bytes()].concat()
    }

    fn changed(stored: &Value, known: &Value, new: &Value) -> Value {
        let unknown = UnknownFields::between(&encoded(stored), &encoded(known)).unwrap();
        json(&unknown.add_to(encoded(new)).unwrap()).unwrap()
    }

    #[test]
    fn a_change_keeps_unknown_fields_at_every_depth() {
        let stored = json!({"live": {"id": 1, "name": "a", "new": [1], "inner": {"x": 1, "new": null}, "removed": 1}});
        let known = json!({"live": {"id": 1, "name": "a", "inner": {"x": 1}, "removed": 1}});
        let new = json!({"live": {"id": 1, "name": "b", "inner": {"x": 2}, "added": 7}});
        let expected = json!({"live": {"id": 1, "name": "b", "inner": {"x": 2, "new": null}, "added": 7, "new": [1]}});
        assert_eq!(changed(&stored, &known, &new), expected);
        assert_eq!(changed(&stored, &known, &json!({"tombstone": {}})), json!({"tombstone": {}}), "another variant");
        assert_eq!(changed(&known, &known, &new), new, "nothing unknown");
        let is_empty = |stored: &Value| UnknownFields::between(&encoded(stored), &encoded(&known)).unwrap().is_empty();
        assert!(is_empty(&known) && !is_empty(&stored));
    }

    #[test]
    fn an_item_of_an_array_keeps_its_unknown_fields_if_it_moves_or_changes() {
        let stored = json!([{"id": 1, "a": 1, "new": 1}, {"id": 2, "a": 1, "new": 2}, {"b": 1, "new": 3}, 4]);
        let known = json!([{"id": 1, "a": 1}, {"id": 2, "a": 1}, {"b": 1}, 4]);
        let new = json!([4, {"b": 1}, {"b": 2}, {"id": 2, "a": 7}, {"id": 3, "a": 1}]);
        let expected = json!([4, {"b": 1, "new": 3}, {"b": 2}, {"id": 2, "a": 7, "new": 2}, {"id": 3, "a": 1}]);
        assert_eq!(changed(&stored, &known, &new), expected);
    }

    #[test]
    fn a_changed_item_without_an_id_loses_its_unknown_fields_and_the_others_keep_theirs() {
        let stored =
            json!({"items": [{"a": 1, "new": 1}, {"a": 2, "new": 2, "inner": {"x": 1, "new": 3}}, {"a": 3, "new": 4}]});
        let known = json!({"items": [{"a": 1}, {"a": 2, "inner": {"x": 1}}, {"a": 3}]});
        let new = json!({"items": [{"a": 1}, {"a": 7, "inner": {"x": 1}}, {"a": 3}]});
        let expected = json!({"items": [{"a": 1, "new": 1}, {"a": 7, "inner": {"x": 1}}, {"a": 3, "new": 4}]});
        assert_eq!(changed(&stored, &known, &new), expected);
    }

    #[test]
    fn an_object_that_replaces_another_one_gets_none_of_its_unknown_fields() {
        let stored = json!({"inner": {"id": 1, "new": 1}});
        let known = json!({"inner": {"id": 1}});
        for new in [json!({"inner": {"id": 2}}), json!({"inner": null}), json!({"inner": [1]}), json!({})] {
            assert_eq!(changed(&stored, &known, &new), new);
        }
    }

    #[test]
    fn fields_of_an_older_format_are_not_unknown() {
        let (stored, known) = (b"\x01{\"old_name\":1}", b"\x02{\"new_name\":1}");
        assert!(UnknownFields::between(stored, known).unwrap().is_empty());
    }

    #[test]
    fn the_unknown_fields_of_a_part_are_those_below_its_pointer() {
        let (stored, known) = (json!({"live": {"latest": {"a": 1, "new": 2}}}), json!({"live": {"latest": {"a": 1}}}));
        let unknown = UnknownFields::between(&encoded(&stored), &encoded(&known)).unwrap();
        let part = unknown.below("/live/latest").add_to(encoded(&json!({"a": 3}))).unwrap();
        assert_eq!(json(&part).unwrap(), json!({"a": 3, "new": 2}));
        assert!(unknown.below("/live/other").is_empty() && UnknownFields::NONE.below("/live").is_empty());
    }
}
