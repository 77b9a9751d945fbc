//! Validation of names, metadata and tags, shared by the tools and the API. An error contains the field name that the
//! caller passes.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::str::FromStr;

use folio_types::{Error, FieldViolation, Reason, Result, TagId, limits};

use crate::DocumentPatch;
use crate::tag_set::distinct;

/// Validates a name or title: 1 to [`limits::NAME_CHARS`] characters, no control characters, no leading or trailing
/// whitespace, because users cannot distinguish `Invoice` from `Invoice `. Whitespace is rejected and not trimmed, so
/// that the stored name equals the sent name.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    check_phrase(field, name, limits::NAME_CHARS)
}

/// Validates a text like [`check_name`], with another maximum number of characters.
pub fn check_phrase(field: &str, text: &str, max: usize) -> Result<()> {
    match phrase_problem(text, max) {
        Some(problem) => Err(Error::invalid_field(field, problem)),
        None => Ok(()),
    }
}

fn phrase_problem(name: &str, max: usize) -> Option<String> {
    let chars = name.chars().count();
    if name.trim().is_empty() {
        Some("must not be empty".to_owned())
    } else if name.trim().len() != name.len() {
        Some("must not begin or end with whitespace".to_owned())
    } else if chars > max {
        Some(format!("has {chars} characters; the maximum is {max}"))
    } else if name.chars().any(char::is_control) {
        Some("must not contain control characters or line breaks".to_owned())
    } else {
        None
    }
}

/// Validates the metadata of a document: at most [`limits::METADATA_MAX`] entries, keys by [`check_name`], values of at
/// most [`limits::METADATA_VALUE_BYTES`] bytes without NUL. A larger value is `TOO_LARGE`.
pub fn check_metadata(field: &str, metadata: &BTreeMap<String, String>) -> Result<()> {
    if metadata.len() > limits::METADATA_MAX {
        let text = format!("has {} entries; the maximum is {}", metadata.len(), limits::METADATA_MAX);
        return Err(Error::invalid_field(field, text));
    }
    for (key, value) in metadata {
        let excerpt: String = key.chars().take(40).collect();
        if let Some(problem) = phrase_problem(key, limits::NAME_CHARS) {
            return Err(Error::invalid_field(field, format!("the key {excerpt:?} {problem}")));
        }
        if value.len() > limits::METADATA_VALUE_BYTES {
            let text = format!("the value of {excerpt:?} has more than {} bytes", limits::METADATA_VALUE_BYTES);
            return Err(Error::invalid_field(field, text).with_reason(Reason::TooLarge));
        }
        if value.contains('\0') {
            let text = format!("the value of {excerpt:?} must not contain NUL characters");
            return Err(Error::invalid_field(field, text));
        }
    }
    Ok(())
}

/// Validates the tags of a document or prompt: at most [`limits::TAGS_MAX`]. Returns the tags without duplicates, in
/// the given order.
pub fn check_tags(field: &str, tags: &[TagId]) -> Result<Vec<TagId>> {
    let distinct = distinct(tags);
    if distinct.len() > limits::TAGS_MAX {
        let text = format!("has {} tags; the maximum is {}", distinct.len(), limits::TAGS_MAX);
        return Err(Error::invalid_field(field, text));
    }
    Ok(distinct)
}

/// Validates a patch and returns it without duplicate tags. `prefix` (`document.` or empty) precedes the field names in
/// errors.
///
/// # Errors
/// Those of [`check_name`], [`check_tags`] and [`check_metadata`].
pub fn check_document_patch(prefix: &str, mut patch: DocumentPatch) -> Result<DocumentPatch> {
    if let Some(name) = &patch.name {
        check_name(&format!("{prefix}name"), name)?;
    }
    if let Some(tags) = &patch.tags {
        patch.tags = Some(check_tags(&format!("{prefix}tag_ids"), tags)?);
    }
    if let Some(metadata) = &patch.metadata {
        check_metadata(&format!("{prefix}metadata"), metadata)?;
    }
    Ok(patch)
}

/// Adds the field to an error that names no field.
pub fn at(field: &str, mut error: Error) -> Error {
    if error.violations.is_empty() {
        error.violations.push(FieldViolation { field: field.to_owned(), description: error.message.clone() });
        error.message = format!("{field}: {}", error.message);
    }
    error
}

/// Parses a required id.
pub fn id<T: FromStr<Err = Error>>(field: &str, text: &str) -> Result<T> {
    if text.is_empty() {
        return Err(Error::invalid_field(field, "is missing"));
    }
    text.parse().map_err(|error| at(field, error))
}

/// Parses an id. Empty: None.
pub fn optional_id<T: FromStr<Err = Error>>(field: &str, text: &str) -> Result<Option<T>> {
    if text.is_empty() { Ok(None) } else { id(field, text).map(Some) }
}

/// Parses at most `max` ids. A duplicate is an error.
pub fn ids<T: FromStr<Err = Error> + Eq + Hash + Clone>(field: &str, texts: &[String], max: usize) -> Result<Vec<T>> {
    let found: Vec<T> = bounded_ids(field, texts, max)?;
    let mut seen = HashSet::with_capacity(found.len());
    match found.iter().position(|one| !seen.insert(one)) {
        Some(index) => Err(Error::invalid_field(format!("{field}[{index}]"), "appears twice")),
        None => Ok(found),
    }
}

/// Parses at most [`limits::TAGS_MAX`] tag ids. Removes duplicates.
pub fn tags(field: &str, texts: &[String]) -> Result<Vec<TagId>> {
    check_tags(field, &bounded_ids(field, texts, limits::TAGS_MAX)?)
}

fn bounded_ids<T: FromStr<Err = Error>>(field: &str, texts: &[String], max: usize) -> Result<Vec<T>> {
    if texts.len() > max {
        return Err(Error::invalid_field(field, format!("has more than {max} elements")));
    }
    texts.iter().enumerate().map(|(index, text)| id(&format!("{field}[{index}]"), text)).collect()
}

/// Checks that a text has at most `chars` characters.
pub fn at_most(field: &str, text: &str, chars: usize) -> Result<()> {
    if text.chars().count() > chars {
        return Err(Error::invalid_field(field, format!("has more than {chars} characters")));
    }
    Ok(())
}

/// Checks a line of at most `chars` characters. The line may be empty.
pub fn line(field: &str, text: &str, chars: usize) -> Result<String> {
    at_most(field, text, chars)?;
    if text.chars().any(char::is_control) {
        return Err(Error::invalid_field(field, "must not contain control characters"));
    }
    Ok(text.to_owned())
}

/// Checks a text of at most `chars` characters, which may be empty and have several lines.
pub fn paragraph(field: &str, text: &str, chars: usize) -> Result<String> {
    at_most(field, text, chars)?;
    if text.contains('\0') {
        return Err(Error::invalid_field(field, "must not contain NUL characters"));
    }
    Ok(text.to_owned())
}

/// Checks a text of 1 to `bytes` bytes that is not blank.
pub fn text(field: &str, text: &str, bytes: usize) -> Result<String> {
    if text.trim().is_empty() {
        return Err(Error::invalid_field(field, "is missing"));
    }
    if text.len() > bytes {
        return Err(Error::invalid_field(field, format!("has more than {bytes} bytes")).with_reason(Reason::TooLarge));
    }
    if text.contains('\0') {
        return Err(Error::invalid_field(field, "must not contain NUL characters"));
    }
    Ok(text.to_owned())
}

/// Checks the name of a model, a tool or a profile. Empty: None.
pub fn optional_word(field: &str, text: &str) -> Result<Option<String>> {
    if text.is_empty() { Ok(None) } else { word(field, text).map(Some) }
}

/// Checks the name of a model, a tool or a profile: 1 to [`limits::NAME_CHARS`] characters without whitespace.
pub fn word(field: &str, text: &str) -> Result<String> {
    if text.is_empty() {
        return Err(Error::invalid_field(field, "is missing"));
    }
    if text.chars().any(char::is_whitespace) {
        return Err(Error::invalid_field(field, "must not contain whitespace"));
    }
    line(field, text, limits::NAME_CHARS)
}

#[cfg(test)]
mod tests {
    use folio_types::DocumentId;

    use super::*;

    #[test]
    fn names_are_bounded_of_one_line_and_without_whitespace_around() {
        assert!(check_name("name", "Rechnung – Größe").is_ok());
        assert!(check_name("name", &"ä".repeat(200)).is_ok());
        for bad in ["", "  ", " a", "a ", "a\u{a0}", "\u{3000}a", "a\nb", "a\u{0}", "a\u{1b}[2J", &"x".repeat(201)] {
            let error = check_name("schema.name", bad).unwrap_err();
            assert_eq!((error.reason, error.violations[0].field.as_str()), (Reason::InvalidField, "schema.name"));
        }
    }

    #[test]
    fn tags_lose_duplicates_keep_their_order_and_are_bounded() {
        let (a, b) = (TagId::derive(&["a"]), TagId::derive(&["b"]));
        assert_eq!(check_tags("tag_ids", &[b.clone(), a.clone(), b.clone()]).unwrap(), [b.clone(), a]);
        let many: Vec<_> = (0..51).map(|n: u32| TagId::derive(&[&n.to_string()])).collect();
        assert_eq!(check_tags("tag_ids", &many[..50]).unwrap(), many[..50]);
        assert!(check_tags("tag_ids", &many).is_err());
        let texts: Vec<_> = many[..50].iter().map(ToString::to_string).collect();
        assert_eq!(tags("tag_ids", &texts).unwrap(), many[..50]);
        assert_eq!(tags("tag_ids", &[b.to_string(), b.to_string()]).unwrap(), std::slice::from_ref(&b));
        assert!(tags("tag_ids", &vec![b.to_string(); limits::TAGS_MAX + 1]).is_err());
    }

    #[test]
    fn metadata_is_bounded_and_its_keys_are_names() {
        let of = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        assert!(check_metadata("metadata", &of("k", &"v".repeat(1_024))).is_ok());
        assert!(check_metadata("metadata", &of(&"ü".repeat(200), "")).is_ok());
        let large = check_metadata("metadata", &of("k", &"v".repeat(1_025))).unwrap_err();
        assert_eq!(large.reason, Reason::TooLarge);
        for bad in [of(" ", "v"), of("k ", "v"), of("a\tb", "v"), of(&"k".repeat(201), "v"), of("k", "\0")] {
            let error = check_metadata("metadata", &bad).unwrap_err();
            assert_eq!((error.reason, error.violations[0].field.as_str()), (Reason::InvalidField, "metadata"));
        }
        let many = |count| (0..count).map(|n| (n.to_string(), String::new())).collect();
        assert!(check_metadata("metadata", &many(50)).is_ok());
        assert!(check_metadata("metadata", &many(51)).is_err());
    }

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
        assert_eq!((error.reason, error.message.as_str()), (Reason::InvalidField, "document_ids[1]: appears twice"));
    }

    #[test]
    fn a_checked_patch_keeps_its_values_without_duplicate_tags() {
        let (name, tag) = (Some("a".to_owned()), TagId::derive(&["a"]));
        let metadata = Some(BTreeMap::from([("k".to_owned(), "v".to_owned())]));
        let patch = |tags| DocumentPatch { name: name.clone(), tags: Some(tags), metadata: metadata.clone() };
        let checked = check_document_patch("", patch(vec![tag.clone(), tag.clone()])).unwrap();
        assert_eq!(checked, patch(vec![tag]));
        let key = Some(BTreeMap::from([(" ".to_owned(), String::new())]));
        for (bad, field) in [
            (DocumentPatch { name: Some(" ".into()), ..DocumentPatch::default() }, "document.name"),
            (DocumentPatch { metadata: key, ..DocumentPatch::default() }, "document.metadata"),
        ] {
            assert_eq!(check_document_patch("document.", bad).unwrap_err().violations[0].field, field);
        }
    }

    #[test]
    fn texts_are_returned_as_sent_if_they_are_within_their_bounds() {
        let lines: fn(&str) -> Result<String> = |value| line("f", value, 3);
        let paragraphs: fn(&str) -> Result<String> = |value| paragraph("f", value, 3);
        let texts: fn(&str) -> Result<String> = |value| text("f", value, 3);
        let words: fn(&str) -> Result<String> = |value| word("f", value);
        let (longest, too_long) = ("ä".repeat(200), "x".repeat(201));
        for (kind, check, valid, invalid) in [
            ("line", lines, ["", "ä b", "äöü"], ["äöüß", "a\nb", "\0"]),
            ("paragraph", paragraphs, ["", "a\nb", "äöü"], ["äöüß", "\0", "\0a"]),
            ("text", texts, ["a", "a\nb", "äb"], [" \n", "äö", "\0"]),
            ("word", words, ["a", "a-b", &longest], ["", "a b", &too_long]),
        ] {
            for value in valid {
                assert_eq!(check(value).unwrap(), value, "{kind}");
            }
            for value in invalid {
                assert_eq!(check(value).unwrap_err().violations[0].field, "f", "{kind} {value:?}");
            }
        }
    }

    #[test]
    fn an_empty_optional_value_is_none() {
        assert_eq!((optional_word("f", "").unwrap(), optional_word("f", "a").unwrap()), (None, Some("a".to_owned())));
        let document = DocumentId::derive(&["a"]);
        assert_eq!(optional_id::<DocumentId>("f", "").unwrap(), None);
        assert_eq!(optional_id::<DocumentId>("f", document.as_str()).unwrap(), Some(document));
    }
}
