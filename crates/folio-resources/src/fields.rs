//! Validation of user-provided fields. Errors name the field.

use folio_types::Result;
use folio_types::fields::{check_metadata, check_name, check_tags};

use crate::DocumentPatch;

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
