//! Request fields that exist only in protobuf messages: enums, required messages, request ids, etags and field masks.
//! [`folio_resources::fields`] checks single values.

use std::collections::BTreeSet;

pub use folio_resources::fields::{id, ids, line, optional_id, optional_word, paragraph, tags, text, word};
use folio_types::{Error, Etag, RequestId, Result};
use prost_types::FieldMask;

/// Returns the text of an optional value. None: the empty text.
pub fn text_of<T: ToString + ?Sized>(value: Option<&T>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

/// Parses a request id, which the client chooses as idempotency key. Empty: None.
pub fn request_id(text: &str) -> Result<Option<RequestId>> {
    optional_id("request_id", text)
}

/// Parses the etag of a resource. Empty: None, which permits any version.
pub fn etag(field: &str, text: &str) -> Result<Option<Etag>> {
    optional_id(field, text)
}

/// Parses an enum value. Error: `INVALID_FIELD` if this version does not define the number.
pub fn choice<T: TryFrom<i32>>(field: &str, number: i32) -> Result<T> {
    T::try_from(number).map_err(|_| Error::invalid_field(field, format!("{number} is not a value of this field")))
}

/// Returns the value of a required message field. Error: `INVALID_FIELD` if the field is missing.
pub fn required<T>(field: &str, part: Option<T>) -> Result<T> {
    part.ok_or_else(|| Error::invalid_field(field, "is missing"))
}

/// The fields that an update changes.
#[derive(Debug, PartialEq, Eq)]
pub struct Mask(BTreeSet<&'static str>);

impl Mask {
    pub fn has(&self, field: &str) -> bool {
        self.0.contains(field)
    }

    /// Returns the new value of a field. None: the update does not change the field.
    pub fn take<T>(&self, field: &str, value: T) -> Option<T> {
        self.has(field).then_some(value)
    }
}

/// Parses the field mask of an update. `fields` are the allowed names, each with a flag that is true if the resource
/// sets the field. An absent or empty mask selects the set fields; `*` selects all fields.
///
/// # Errors
/// `INVALID_FIELD` of `update_mask`: the mask has an unknown name or selects no field.
pub fn mask(mask: Option<&FieldMask>, fields: &[(&'static str, bool)]) -> Result<Mask> {
    let names = fields.iter().map(|(name, _)| *name);
    let paths = mask.map(|mask| mask.paths.as_slice()).unwrap_or_default();
    let changed: BTreeSet<&'static str> = match paths {
        [] => fields.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect(),
        [all] if all == "*" => names.collect(),
        paths => {
            let known: BTreeSet<&'static str> = names.collect();
            if let Some(unknown) = paths.iter().find(|path| !known.contains(path.as_str())) {
                let excerpt: String = unknown.chars().take(60).collect();
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                let problem = format!("{excerpt:?} cannot be changed; the fields are {known}");
                return Err(Error::invalid_field("update_mask", problem));
            }
            known.into_iter().filter(|name| paths.iter().any(|path| path == name)).collect()
        }
    };
    if changed.is_empty() {
        return Err(Error::invalid_field("update_mask", "names no field to change, and the resource sets none"));
    }
    Ok(Mask(changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_names_the_fields_that_change() {
        let fields = [("name", true), ("color", false)];
        let paths = |paths: &[&str]| FieldMask { paths: paths.iter().map(|path| (*path).to_owned()).collect() };
        let read = |paths: &FieldMask| mask(Some(paths), &fields);
        let absent = mask(None, &fields).unwrap();
        assert!(absent.has("name") && !absent.has("color"), "the fields that are set");
        assert_eq!(read(&paths(&[])).unwrap(), absent);
        assert_eq!(read(&paths(&["color"])).unwrap().take("color", ""), Some(""));
        assert_eq!(read(&paths(&["color"])).unwrap().take("name", ""), None);
        assert!(read(&paths(&["*"])).unwrap().has("color"));
        for refused in [paths(&["tag_id"]), paths(&["name", "*"])] {
            assert_eq!(read(&refused).unwrap_err().violations[0].field, "update_mask");
        }
        assert!(mask(None, &[("name", false)]).is_err());
    }
}
