//! The stored record of a resource, read from its partition.

use folio_resources::{IndexedFields, Kind, Record};
use folio_types::{OrgId, Result};

use super::keyspace::Keyspace;
use super::session::Read;
use super::table::Header;
use folio_storage::StoredResource;

/// A resource that was read. Default: one that never existed.
#[derive(Default)]
pub(crate) struct LoadedResource {
    pub(crate) header: Header,
    pub(crate) record: Option<Record<IndexedFields>>,
}

impl LoadedResource {
    pub(crate) fn live(self) -> Option<IndexedFields> {
        self.record.and_then(Record::live)
    }

    pub(crate) fn stored(self) -> Option<StoredResource> {
        let Self { header, record } = self;
        match (record, header.record) {
            (Some(Record::Live(_)), Some(record)) => Some(StoredResource { record, text: header.text_state }),
            _ => None,
        }
    }
}

pub(crate) async fn load(keyspace: &Keyspace, org: &OrgId, id: &str, consistency: Read) -> Result<LoadedResource> {
    let header = keyspace.tables.aggregates.header(org, id, consistency).await?;
    let record = match (&header.version, &header.record) {
        (Some(_), Some(bytes)) => Some(Kind::of_id(id)?.read(bytes)?),
        _ => None,
    };
    Ok(LoadedResource { header, record })
}

/// Returns a live resource without decoding its fields.
pub(crate) async fn load_live(
    keyspace: &Keyspace,
    org: &OrgId,
    id: &str,
    consistency: Read,
) -> Result<Option<StoredResource>> {
    let Header { version, record, text_state, .. } = keyspace.tables.aggregates.header(org, id, consistency).await?;
    match record {
        Some(record) if version.is_some() && Kind::of_id(id)?.is_live(&record)? => {
            Ok(Some(StoredResource { record, text: text_state }))
        }
        _ => Ok(None),
    }
}
