//! Changing one value of an extraction, for the tool and for the service.

use folio_storage::Stores;
use folio_types::extraction::Extraction;
use folio_types::{Error, OrgId, Result, SchemaRevId};
use serde_json::Value;

use crate::path::{Missing, Path};
use crate::{rules, schemas};

/// The data of an extraction with `value` at `path`, checked against the schema that the extraction was held against
/// (its prompt's, while that lives).
///
/// # Errors
/// `INVALID_PATH` where the path is malformed or leads nowhere, `SCHEMA_MISMATCH` where the data would not match,
/// `TOO_LARGE`.
pub async fn edited(stores: &Stores, extraction: &Extraction, path: &str, value: Value) -> Result<Value> {
    let path: Path = path.parse()?;
    rules::check_data("value", &value)?;
    let schema = schema_of(stores, &extraction.org, extraction.schema.as_ref()).await?;
    let mut data = extraction.current().clone();
    let refused = match path.set(&mut data, value.clone(), Missing::Refuse) {
        Ok(()) => None,
        // Only a schema can say that a place which is not there may be.
        Err(nowhere) if schema.is_some() && path.set(&mut data, value, Missing::Add).is_ok() => Some(nowhere),
        Err(nowhere) => return Err(nowhere),
    };
    rules::check_data("extraction", &data)?;
    if let Some(schema) = schema {
        let violations = schemas::violations_of(&schema, &data).await?;
        if !violations.is_empty() {
            return Err(refused.unwrap_or_else(|| rules::schema_mismatch("value", &violations)));
        }
    }
    Ok(data)
}

async fn schema_of(
    stores: &Stores,
    org: &OrgId,
    revid: Option<&SchemaRevId>,
) -> Result<Option<folio_types::schema::SchemaRevision>, Error> {
    match revid {
        Some(revid) => stores.schemas.revision(org, revid).await,
        None => Ok(None),
    }
}
