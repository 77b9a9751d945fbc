//! What people write into fields (names, metadata, tags): one set of rules, whoever is asked to take them in, a tool of the
//! agent or a service. An error names the field that it was given.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::DocumentPatch;
use crate::{Error, Reason, Result, TagId, limits};

/// A name or a title: 1 to [`limits::NAME_CHARS`] characters, none of them a control character, and no blanks around it:
/// nobody sees what distinguishes `Invoice` from `Invoice `. It is refused and not trimmed, so that what is stored is what
/// was sent.
///
/// Errors: `INVALID_FIELD`.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    match wrong_with_name(name) {
        Some(wrong) => Err(Error::invalid_field(field, wrong)),
        None => Ok(()),
    }
}

fn wrong_with_name(name: &str) -> Option<String> {
    let chars = name.chars().count();
    if name.trim().is_empty() {
        Some("must not be empty".to_owned())
    } else if name.trim().len() != name.len() {
        Some("must not begin or end with blanks".to_owned())
    } else if chars > limits::NAME_CHARS {
        Some(format!("has {chars} characters, at most {}", limits::NAME_CHARS))
    } else if name.chars().any(char::is_control) {
        Some("must not hold control characters or line breaks".to_owned())
    } else {
        None
    }
}

/// Metadata of a document: at most [`limits::METADATA_MAX`] entries, keys by the rule of [`check_name`], values of at most
/// [`limits::METADATA_VALUE_BYTES`] bytes without NUL.
///
/// Errors: `INVALID_FIELD`; `TOO_LARGE` for a value.
pub fn check_metadata(field: &str, metadata: &BTreeMap<String, String>) -> Result<()> {
    if metadata.len() > limits::METADATA_MAX {
        let text = format!("holds {} entries, at most {}", metadata.len(), limits::METADATA_MAX);
        return Err(Error::invalid_field(field, text));
    }
    for (key, value) in metadata {
        let shown: String = key.chars().take(40).collect();
        if let Some(wrong) = wrong_with_name(key) {
            return Err(Error::invalid_field(field, format!("the key {shown:?} {wrong}")));
        }
        if value.len() > limits::METADATA_VALUE_BYTES {
            let text = format!("the value of {shown:?} has more than {} bytes", limits::METADATA_VALUE_BYTES);
            return Err(Error::invalid_field(field, text).because(Reason::TooLarge));
        }
        if value.contains('\0') {
            return Err(Error::invalid_field(field, format!("the value of {shown:?} must not hold NUL characters")));
        }
    }
    Ok(())
}

/// Tags of a document or prompt: at most [`limits::TAGS_MAX`]. Gives them without doubles, in the order given.
///
/// Errors: `INVALID_FIELD`.
pub fn check_tags(field: &str, tags: &[TagId]) -> Result<Vec<TagId>> {
    let mut seen = BTreeSet::new();
    let kept: Vec<TagId> = tags.iter().filter(|tag| seen.insert(*tag)).cloned().collect();
    if kept.len() > limits::TAGS_MAX {
        let text = format!("holds {} tags, at most {}", kept.len(), limits::TAGS_MAX);
        return Err(Error::invalid_field(field, text));
    }
    Ok(kept)
}

/// What is to change of a document. `prefix` (`document.`, or empty) goes before the names of its fields; gives the
/// patch with its tags without doubles.
///
/// Errors: as those of [`check_name`], [`check_tags`], [`check_metadata`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_of_one_line_and_without_blanks_around() {
        assert!(check_name("name", "Rechnung – Größe").is_ok());
        assert!(check_name("name", &"ä".repeat(200)).is_ok());
        for bad in ["", "  ", " a", "a ", "a\u{a0}", "\u{3000}a", "a\nb", "a\u{0}", "a\u{1b}[2J", &"x".repeat(201)] {
            let error = check_name("schema.name", bad).unwrap_err();
            assert_eq!((error.reason, error.violations[0].field.as_str()), (Reason::InvalidField, "schema.name"));
        }
    }

    #[test]
    fn tags_lose_doubles_and_keep_their_order() {
        let (a, b) = (TagId::derive(&["a"]), TagId::derive(&["b"]));
        assert_eq!(check_tags("tag_ids", &[b.clone(), a.clone(), b.clone()]).unwrap(), [b, a]);
        let many: Vec<_> = (0..51).map(|n: u32| TagId::derive(&[&n.to_string()])).collect();
        assert!(check_tags("tag_ids", &many).is_err());
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
        let many = (0..51).map(|n| (n.to_string(), String::new())).collect();
        assert!(check_metadata("metadata", &many).is_err());
    }
}
