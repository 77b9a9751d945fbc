//! Changing an extraction, for the tool and for the service.

use folio_storage::Stores;
use folio_types::extraction::Extraction;
use folio_types::schema::SchemaRevision;
use folio_types::{Error, Result};
use serde_json::Value;

use crate::path::{Missing, Path};
use crate::rules;

/// The data of an extraction with `value` at `path`, checked against the schema that the extraction was held against
/// (its prompt's, while that lives).
///
/// # Errors
/// `INVALID_PATH` where the path is malformed or leads nowhere, `SCHEMA_MISMATCH` where the data would not match,
/// `TOO_LARGE`.
pub async fn edited(stores: &Stores, extraction: &Extraction, path: &str, value: Value) -> Result<Value> {
    let path: Path = path.parse()?;
    rules::check_data("value", &value)?;
    let schema = schema_of(stores, extraction).await?;
    let mut data = extraction.current().clone();
    let refused = match path.set(&mut data, value.clone(), Missing::Refuse) {
        Ok(()) => None,
        // Only a schema can say that a place which is not there may be.
        Err(nowhere) if schema.is_some() && path.set(&mut data, value, Missing::Add).is_ok() => Some(nowhere),
        Err(nowhere) => return Err(nowhere),
    };
    rules::check_data("extraction", &data)?;
    if let Some(schema) = schema {
        let violations = rules::violations_of("schema", &schema, &data).await?;
        if !violations.is_empty() {
            return Err(refused.unwrap_or_else(|| rules::schema_mismatch("value", &violations)));
        }
    }
    Ok(data)
}

/// Checks data that is to replace that of an extraction, likewise.
///
/// # Errors
/// Of `field`: `TOO_LARGE`, `INVALID_FIELD` (nested too deep), `SCHEMA_MISMATCH`.
pub async fn check_replacement(stores: &Stores, extraction: &Extraction, field: &str, data: &Value) -> Result<()> {
    rules::check_data(field, data)?;
    let Some(schema) = schema_of(stores, extraction).await? else { return Ok(()) };
    let violations = rules::violations_of("schema", &schema, data).await?;
    if violations.is_empty() { Ok(()) } else { Err(rules::schema_mismatch(field, &violations)) }
}

/// The schema that an extraction was held against, while it lives.
async fn schema_of(stores: &Stores, extraction: &Extraction) -> Result<Option<SchemaRevision>, Error> {
    match &extraction.schema {
        Some(revid) => stores.schemas.revision(&extraction.org, revid).await,
        None => Ok(None),
    }
}
