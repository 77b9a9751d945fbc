//! Edits of an extraction, used by the tool and by the API.

use folio_resources::{Extraction, ExtractionState, Schema, SchemaRevision};
use folio_storage::Stores;
use folio_types::{Error, Result};
use serde_json::Value;

use crate::path::{Missing, Path};
use crate::rules;

/// Returns the data of an extraction with `value` at `path`, validated against the schema of the extraction if that is
/// not deleted and the extraction is completed. Fails with `INVALID_PATH` if the path is malformed or does not exist,
/// `SCHEMA_MISMATCH` if the new data violate the schema, or `TOO_LARGE`.
pub async fn apply_edit(stores: &Stores, extraction: &Extraction, path: &str, value: Value) -> Result<Value> {
    let path: Path = path.parse()?;
    rules::check_data("value", &value)?;
    let schema = enforced_schema(stores, extraction).await?;
    let mut data = extraction.current().clone();
    let missing = match path.set(&mut data, value.clone(), Missing::Reject) {
        Ok(()) => None,
        // Without a schema, a path that does not exist is an error. With one, the schema decides.
        Err(missing_path) if schema.is_some() && path.set(&mut data, value, Missing::Add).is_ok() => Some(missing_path),
        Err(missing_path) => return Err(missing_path),
    };
    rules::check_data("extraction", &data)?;
    if let Some(schema) = schema {
        let violations = rules::violations_of("schema", &schema, &data).await?;
        if !violations.is_empty() {
            return Err(missing.unwrap_or_else(|| rules::schema_mismatch("value", &violations)));
        }
    }
    Ok(data)
}

/// Validates new data of an extraction against the schema of the extraction if that is not deleted and the extraction is
/// completed. Fails for `field` with `TOO_LARGE`, `INVALID_FIELD` (nested too deep) or `SCHEMA_MISMATCH`.
pub async fn check_replacement(stores: &Stores, extraction: &Extraction, field: &str, data: &Value) -> Result<()> {
    rules::check_data(field, data)?;
    let Some(schema) = enforced_schema(stores, extraction).await? else { return Ok(()) };
    let violations = rules::violations_of("schema", &schema, data).await?;
    if violations.is_empty() { Ok(()) } else { Err(rules::schema_mismatch(field, &violations)) }
}

/// Returns the schema revision that the data must match. None: as [`schema_of`], or an agent has not completed the
/// extraction, whose data may be partial.
async fn enforced_schema(stores: &Stores, extraction: &Extraction) -> Result<Option<SchemaRevision>, Error> {
    match extraction.state() {
        ExtractionState::Completed => schema_of(stores, extraction).await,
        ExtractionState::InProgress | ExtractionState::Failed => Ok(None),
    }
}

/// Returns the schema revision of an extraction. None if it has none or the schema is deleted.
pub(super) async fn schema_of(stores: &Stores, extraction: &Extraction) -> Result<Option<SchemaRevision>, Error> {
    match &extraction.schema {
        Some(revid) => stores.of::<Schema>().revision(&extraction.org, revid).await,
        None => Ok(None),
    }
}
