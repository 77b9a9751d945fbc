//! What documents, schemas, prompts, tags and extractions have in common: one partition each, with a version.

use std::collections::BTreeSet;

use folio_types::op::Target;
use folio_types::{DocumentId, Error, OrgId, Result, SchemaRevId};

use super::keyspace::Keyspace;
use super::session::Strength;
use super::table::Header;
use crate::naming::Kind;
use crate::value::{ListRow, Record, Stored, decode};

/// An aggregate. What is written around its deciding write follows from what it was and what it becomes.
pub(crate) trait Aggregate: Clone + PartialEq + Send + Sync + Sized + 'static
where
    Record<Self>: Stored,
{
    /// Its kind.
    const KIND: Kind;
    /// Whether its revisions are kept, and with them what they refer to.
    const KEEPS_REVISIONS: bool = false;

    /// Its version.
    fn version(&self) -> u64;

    /// What lists need to know of it.
    fn listed(&self) -> ListRow;

    /// The name that no other live one of its kind has.
    fn name(&self) -> Option<&str> {
        None
    }

    /// The ids of what it refers to (in its newest revision).
    fn uses(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// The schema revision that it refers to.
    fn schema(&self) -> Option<&SchemaRevId> {
        None
    }

    /// The number of its newest revision, and that as it is stored.
    fn revision(&self) -> Result<Option<(u32, Vec<u8>)>> {
        Ok(None)
    }

    /// The ids of what a stored revision refers to.
    fn revision_uses(_stored: &[u8]) -> Result<BTreeSet<String>> {
        Ok(BTreeSet::new())
    }

    /// With what lies beside its record.
    fn beside(self, _header: &Header) -> Result<Self> {
        Ok(self)
    }

    /// The document that it hangs on.
    fn document(&self) -> Option<&DocumentId> {
        None
    }
}

/// An aggregate as it was read.
pub(crate) struct Loaded<T> {
    pub(crate) header: Header,
    pub(crate) record: Option<Record<T>>,
}

impl<T> Loaded<T> {
    /// The aggregate, where it lives.
    pub(crate) fn live(self) -> Option<T> {
        self.record.and_then(Record::live)
    }
}

/// Reads an aggregate.
pub(crate) async fn load<T>(keyspace: &Keyspace, org: &OrgId, id: &str, strength: Strength) -> Result<Loaded<T>>
where
    Record<T>: Stored,
{
    let header = keyspace.tables.aggregates.header(&keyspace.cql, org, id, strength).await?;
    let record = match (&header.version, &header.record) {
        (Some(_), Some(bytes)) => Some(decode(bytes)?),
        _ => None,
    };
    Ok(Loaded { header, record })
}

/// The live aggregate, or none.
pub(crate) async fn live<T>(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<Option<T>>
where
    T: Aggregate,
    Record<T>: Stored,
{
    let Loaded { header, record } = load::<T>(keyspace, org, id, Strength::Quorum).await?;
    record.and_then(Record::live).map(|found| found.beside(&header)).transpose()
}

/// What a change of something that does not live is answered.
pub(crate) fn gone(target: &Target) -> Error {
    Error::not_found(kind_of(target).word(), target)
}

pub(crate) fn kind_of(target: &Target) -> Kind {
    match target {
        Target::Document(_) => Kind::Document,
        Target::Schema(_) => Kind::Schema,
        Target::Prompt(_) => Kind::Prompt,
        Target::Tag(_) => Kind::Tag,
        Target::Extraction(_) => Kind::Extraction,
        Target::Thread(_) | Target::Operation(_) | Target::Outcome(_) => Kind::Thread,
    }
}
