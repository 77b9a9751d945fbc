//! Single fields of requests: ids, names, texts and counts, each checked where it comes in.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;
use std::str::FromStr;

use prost_types::FieldMask;

use folio_types::{Error, Etag, FieldViolation, RequestId, Result, TagId, limits};

use crate::json::too_large;

/// Names the field that an error is about.
fn at(field: &str, mut error: Error) -> Error {
    if error.violations.is_empty() {
        error.violations.push(FieldViolation { field: field.to_owned(), description: error.message.clone() });
        error.message = format!("{field}: {}", error.message);
    }
    error
}

/// An id that must be there.
pub fn id<T: FromStr<Err = Error>>(field: &str, text: &str) -> Result<T> {
    if text.is_empty() {
        return Err(Error::invalid_field(field, "is missing"));
    }
    text.parse().map_err(|error| at(field, error))
}

/// An id, or none where the field is empty.
pub fn optional_id<T: FromStr<Err = Error>>(field: &str, text: &str) -> Result<Option<T>> {
    if text.is_empty() { Ok(None) } else { id(field, text).map(Some) }
}

/// Ids, at most `most`, each named once.
pub fn ids<T: FromStr<Err = Error> + Eq + Hash + Clone>(field: &str, texts: &[String], most: usize) -> Result<Vec<T>> {
    let found: Vec<T> = bounded_ids(field, texts, most)?;
    let mut seen = HashSet::with_capacity(found.len());
    match found.iter().position(|one| !seen.insert(one)) {
        Some(index) => Err(Error::invalid_field(format!("{field}[{index}]"), "is named twice")),
        None => Ok(found),
    }
}

/// Tags of a document or prompt, without doubles: they are a set.
pub fn tags(field: &str, texts: &[String]) -> Result<Vec<TagId>> {
    let mut found: Vec<TagId> = bounded_ids(field, texts, limits::TAGS_MAX)?;
    let mut seen = HashSet::with_capacity(found.len());
    found.retain(|tag| seen.insert(tag.clone()));
    Ok(found)
}

fn bounded_ids<T: FromStr<Err = Error>>(field: &str, texts: &[String], most: usize) -> Result<Vec<T>> {
    if texts.len() > most {
        return Err(Error::invalid_field(field, format!("more than {most}")));
    }
    texts.iter().enumerate().map(|(index, text)| id(&format!("{field}[{index}]"), text)).collect()
}

/// The client's id for the request, or none.
pub fn request_id(text: &str) -> Result<Option<RequestId>> {
    optional_id("request_id", text)
}

/// One line of at most `chars` characters; may be empty.
pub fn line(field: &str, text: &str, chars: usize) -> Result<String> {
    if text.chars().count() > chars {
        return Err(Error::invalid_field(field, format!("more than {chars} characters")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid_field(field, "holds control characters"));
    }
    Ok(text.to_owned())
}

/// A text of at most `chars` characters that may have several lines; may be empty.
pub fn paragraph(field: &str, text: &str, chars: usize) -> Result<String> {
    if text.chars().count() > chars {
        return Err(Error::invalid_field(field, format!("more than {chars} characters")));
    }
    if text.contains('\0') {
        return Err(Error::invalid_field(field, "holds a NUL character"));
    }
    Ok(text.to_owned())
}

/// A text of 1 to `bytes` bytes.
pub fn text(field: &str, text: &str, bytes: usize) -> Result<String> {
    if text.trim().is_empty() {
        return Err(Error::invalid_field(field, "is missing"));
    }
    if text.len() > bytes {
        return Err(too_large(field, bytes));
    }
    if text.contains('\0') {
        return Err(Error::invalid_field(field, "holds a NUL character"));
    }
    Ok(text.to_owned())
}

/// The name of a model, a tool or a profile, or none where the field is empty.
pub fn optional_word(field: &str, text: &str) -> Result<Option<String>> {
    if text.is_empty() { Ok(None) } else { word(field, text).map(Some) }
}

/// The name of a model, a tool or a profile: 1 to [`limits::NAME_CHARS`] characters without blanks.
pub fn word(field: &str, text: &str) -> Result<String> {
    if text.is_empty() {
        return Err(Error::invalid_field(field, "is missing"));
    }
    if text.chars().any(char::is_whitespace) {
        return Err(Error::invalid_field(field, "holds blanks"));
    }
    line(field, text, limits::NAME_CHARS)
}

/// A value of an enum field; a number that this version does not know is refused.
pub fn choice<T: TryFrom<i32>>(field: &str, number: i32) -> Result<T> {
    T::try_from(number).map_err(|_| Error::invalid_field(field, format!("{number} is no value of this field")))
}

/// A part of a message that must be there.
pub fn required<T>(field: &str, part: Option<T>) -> Result<T> {
    part.ok_or_else(|| Error::invalid_field(field, "is missing"))
}

/// Reads an etag. None: the field is empty.
///
/// # Errors
/// `INVALID_FIELD`.
pub fn etag(field: &str, text: &str) -> Result<Option<Etag>> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|error| at(field, error)) }
}

/// The fields that an update changes.
#[derive(Debug, PartialEq, Eq)]
pub struct Mask(BTreeSet<&'static str>);

impl Mask {
    /// Returns true if the update changes this field.
    pub fn has(&self, field: &str) -> bool {
        self.0.contains(field)
    }

    /// The new value of a field. None: the update does not change it.
    pub fn take<T>(&self, field: &str, value: T) -> Option<T> {
        self.has(field).then_some(value)
    }
}

/// Reads the field mask of an update. `fields` are the names that it may hold, each with whether the resource sets the field: an
/// absent or empty mask stands for those, and `*` for all.
///
/// # Errors
/// `INVALID_FIELD` of `update_mask`: an unknown name, or no field at all.
pub fn mask(mask: Option<&FieldMask>, fields: &[(&'static str, bool)]) -> Result<Mask> {
    let names = fields.iter().map(|(name, _)| *name);
    let paths = mask.map(|mask| mask.paths.as_slice()).unwrap_or_default();
    let changed: BTreeSet<&'static str> = match paths {
        [] => fields.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect(),
        [all] if all == "*" => names.collect(),
        paths => {
            let known: BTreeSet<&'static str> = names.collect();
            if let Some(unknown) = paths.iter().find(|path| !known.contains(path.as_str())) {
                let shown: String = unknown.chars().take(60).collect();
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                let problem = format!("{shown:?} is not a field that can be changed; these are {known}");
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
    use folio_types::{DocumentId, Reason};

    #[test]
    fn an_error_names_its_field_once() {
        let missing = id::<DocumentId>("document_id", "").unwrap_err();
        assert_eq!((missing.reason, missing.message.as_str()), (Reason::InvalidField, "document_id: is missing"));
        let malformed = ids::<DocumentId>("document_ids", &["doc_1".into()], 3).unwrap_err();
        assert_eq!(malformed.reason, Reason::InvalidId);
        assert_eq!(malformed.violations.first().unwrap().field, "document_ids[0]");
        assert!(malformed.message.starts_with("document_ids[0]: "), "{malformed}");
    }

    #[test]
    fn a_document_that_is_named_twice_is_refused() {
        let document = DocumentId::derive(&["a"]).to_string();
        let error = ids::<DocumentId>("document_ids", &[document.clone(), document], 3).unwrap_err();
        assert_eq!((error.reason, error.message.as_str()), (Reason::InvalidField, "document_ids[1]: is named twice"));
    }

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

    #[test]
    fn doubled_tags_go_and_too_many_are_refused() {
        let tag = TagId::derive(&["a"]);
        let twice = [tag.to_string(), tag.to_string()];
        assert_eq!(tags("tag_ids", &twice).unwrap(), vec![tag.clone()]);
        assert!(tags("tag_ids", &vec![tag.to_string(); limits::TAGS_MAX + 1]).is_err());
    }
}
