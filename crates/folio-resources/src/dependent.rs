//! Plans the deletion of a dependent, which the clean-up of its deleted parent executes.

use folio_types::{Result, Timestamp};

use crate::{IndexedFields, Kind, ListEntry, Record};

/// Writes that delete a dependent: a tombstone, so that later writes to the dependent are refused, and the removal of
/// its list row. No op row: the op of the parent's deletion has one.
#[derive(Debug, Clone, PartialEq)]
pub struct DependentDeletion {
    pub kind: &'static Kind,
    /// The version that the dependent must have.
    pub from: u64,
    /// The version of the tombstone.
    pub to: u64,
    /// The encoded tombstone, which replaces the record.
    pub tombstone: Vec<u8>,
    /// After: list row to remove.
    pub list_before: ListEntry,
}

impl DependentDeletion {
    /// Returns the deletion of a stored dependent at a time. None: it never existed or is deleted.
    pub fn plan(id: &str, stored: Option<Record<IndexedFields>>, at: Timestamp) -> Result<Option<Self>> {
        let Some(fields) = stored.and_then(Record::live) else { return Ok(None) };
        let (kind, from, to) = (Kind::of_id(id)?, fields.version, fields.version + 1);
        let (tombstone, list_before) = (kind.tombstone(to, at)?, ListEntry::from(&fields));
        Ok(Some(Self { kind, from, to, tombstone, list_before }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{at, extraction};
    use crate::{Extraction, Resource as _};

    #[test]
    fn a_live_dependent_becomes_a_tombstone_of_the_next_version() {
        let fields = IndexedFields::of(&extraction()).unwrap();
        let id = extraction().id.to_string();
        let plan = |stored| DependentDeletion::plan(&id, stored, at()).unwrap();
        let deletion = plan(Some(Record::Live(fields.clone()))).unwrap();
        assert_eq!((deletion.kind.name, deletion.from, deletion.to), (Extraction::KIND, 3, 4));
        assert_eq!(deletion.kind.read(&deletion.tombstone).unwrap(), Record::Tombstone { version: 4, at: at() });
        assert_eq!(deletion.list_before, ListEntry::from(&fields));
        assert_eq!((plan(Some(Record::Tombstone { version: 4, at: at() })), plan(None)), (None, None));
    }
}
