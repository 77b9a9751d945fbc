//! Checks of what people write about a document.

use std::collections::BTreeMap;

use folio_types::document::DocumentPatch;
use folio_types::{Error, Result, TagId, limits};

const METADATA_NAME_CHARS: usize = limits::NAME_CHARS;

/// A document's name: 1 to [`limits::NAME_CHARS`] characters, none of them a control character, no blanks around
/// it.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return Err(Error::invalid_field(field, "must not be empty"));
    }
    if name.trim().len() != name.len() {
        return Err(Error::invalid_field(field, "must not begin or end with blanks"));
    }
    if name.chars().count() > limits::NAME_CHARS {
        return Err(Error::invalid_field(field, format!("has at most {} characters", limits::NAME_CHARS)));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid_field(field, "must not hold control characters"));
    }
    Ok(())
}

/// Metadata: at most [`limits::METADATA_MAX`] entries of at most [`limits::METADATA_VALUE_BYTES`] bytes.
pub fn check_metadata(field: &str, metadata: &BTreeMap<String, String>) -> Result<()> {
    if metadata.len() > limits::METADATA_MAX {
        return Err(Error::invalid_field(field, format!("has at most {} entries", limits::METADATA_MAX)));
    }
    for (name, value) in metadata {
        let length = name.chars().count();
        if name.trim().is_empty() || length > METADATA_NAME_CHARS || name.chars().any(char::is_control) {
            let bound = format!("a name has 1 to {METADATA_NAME_CHARS} characters, none of them a control character");
            return Err(Error::invalid_field(field, bound));
        }
        if value.len() > limits::METADATA_VALUE_BYTES {
            let bound = format!("a value has at most {} bytes", limits::METADATA_VALUE_BYTES);
            return Err(Error::invalid_field(field, bound));
        }
        if value.contains('\0') {
            return Err(Error::invalid_field(field, "a value must not hold NUL"));
        }
    }
    Ok(())
}

/// Tags: at most [`limits::TAGS_MAX`]; gives them without doubles, in the order given.
pub fn check_tags(field: &str, tags: &[TagId]) -> Result<Vec<TagId>> {
    let mut kept: Vec<TagId> = Vec::new();
    for tag in tags {
        if !kept.contains(tag) {
            kept.push(tag.clone());
        }
        if kept.len() > limits::TAGS_MAX {
            return Err(Error::invalid_field(field, format!("has at most {} tags", limits::TAGS_MAX)));
        }
    }
    Ok(kept)
}

/// A patch: all that it changes is within the bounds; tags without doubles.
pub fn check_patch(mut patch: DocumentPatch) -> Result<DocumentPatch> {
    if let Some(name) = &patch.name {
        check_name("name", name)?;
    }
    if let Some(metadata) = &patch.metadata {
        check_metadata("metadata", metadata)?;
    }
    if let Some(tags) = &patch.tags {
        patch.tags = Some(check_tags("tag_ids", tags)?);
    }
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_bounded_and_printable() {
        assert!(check_name("name", "Rechnung März.pdf").is_ok());
        for bad in ["", "  ", " a", "a ", "a\nb", "a\u{1b}[2J", &"x".repeat(201)] {
            assert!(check_name("name", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tags_lose_their_doubles() {
        let (a, b) = (TagId::derive(&["a"]), TagId::derive(&["b"]));
        let kept = check_tags("tag_ids", &[a.clone(), b.clone(), a.clone()]).unwrap();
        assert_eq!(kept, [a, b]);
        let many: Vec<TagId> = (0..51).map(|n| TagId::derive(&[&n.to_string()])).collect();
        assert!(check_tags("tag_ids", &many).is_err());
    }

    #[test]
    fn metadata_is_bounded() {
        let one = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert!(check_metadata("metadata", &one("year", "2026")).is_ok());
        for bad in [one("", "x"), one("a\tb", "x"), one("a", &"x".repeat(1025)), one("a", "\0")] {
            assert!(check_metadata("metadata", &bad).is_err());
        }
    }
}
