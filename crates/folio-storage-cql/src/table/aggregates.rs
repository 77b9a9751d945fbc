//! `aggregates`: one partition for each resource. The static columns contain the current record. Rows by part and key:
//! op rows with their data, revisions with their names and numbers, references to the resource, its dependents.
//!
//! Every cell is written only under a condition of its partition.

use folio_types::{OrgId, Result};

use crate::session::{Read, Statement};
use crate::values::{limit, values};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Key: the op. Value: its row.
    Op,
    /// Key: the number, ten digits. Value: the revision.
    Revision,
    /// Key: that of a revision. Value: its row of names.
    Names,
    /// Key: `stored`. Value: the numbers of the stored revisions, if there were more than the maximum.
    Numbers,
    /// Key: the version, twenty digits. Value: the data of the op row that created the version.
    Data,
    /// Key: `REFERRER/OP`, the referring resource and its op. The value is empty.
    Reference,
    /// Key: the id of a resource that belongs to this one. The value is empty.
    Dependent,
    /// Key: the id of a thread that refers to this resource. The value is empty.
    Thread,
    /// Key: the generation of a text of this resource. The value is empty.
    Text,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Op => "op",
            Self::Revision => "revision",
            Self::Names => "names",
            Self::Numbers => "numbers",
            Self::Data => "data",
            Self::Reference => "reference",
            Self::Dependent => "dependent",
            Self::Thread => "thread",
            Self::Text => "text",
        }
    }
}

/// The static columns of a resource's partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// None: the resource was never created.
    pub(crate) live: Option<bool>,
    /// None: the resource was never created.
    pub(crate) version: Option<u64>,
    pub(crate) record: Option<Vec<u8>>,
    /// The time of creation, in microseconds.
    pub(crate) created_at: i64,
    /// Number of entries with [`Part::Reference`].
    pub(crate) uses: u64,
    /// Grows by one with each change of the text's state.
    pub(crate) text_version: u64,
    /// The encoded [`folio_resources::TextRecord`].
    pub(crate) text_state: Option<Vec<u8>>,
}

type HeaderRow = (Option<bool>, Option<i64>, Option<Vec<u8>>, Option<i64>, Option<i64>, Option<i64>, Option<Vec<u8>>);

table! { Aggregates:
    header: read "SELECT live, version, record, created_at, uses, text_version, text_state \
                  FROM aggregates WHERE org = ? AND id = ? LIMIT 1",
    version: read "SELECT live, version, created_at FROM aggregates WHERE org = ? AND id = ? LIMIT 1",
    row: read "SELECT value FROM aggregates WHERE org = ? AND id = ? AND part = ? AND key = ?",
    rows: read "SELECT key, value FROM aggregates \
                WHERE org = ? AND id = ? AND part = ? AND key >= ? AND key < ? LIMIT ?",
    keys: read "SELECT key FROM aggregates WHERE org = ? AND id = ? AND part = ? AND key > ? LIMIT ?",
    create: conditional "UPDATE aggregates SET live = true, version = 1, record = ?, created_at = ?, uses = 0, \
                         text_version = 0 WHERE org = ? AND id = ? IF version = null",
    change: conditional "UPDATE aggregates SET live = ?, version = ?, record = ? \
                         WHERE org = ? AND id = ? IF version = ?",
    change_unused: conditional "UPDATE aggregates SET live = ?, version = ?, record = ? \
                                WHERE org = ? AND id = ? IF version = ? AND uses = 0",
    live: conditional "UPDATE aggregates SET live = true WHERE org = ? AND id = ? IF live = true",
    uses: conditional "UPDATE aggregates SET uses = ? WHERE org = ? AND id = ? IF live = true AND uses = ?",
    uses_any_state: conditional "UPDATE aggregates SET uses = ? WHERE org = ? AND id = ? IF uses = ?",
    text: conditional "UPDATE aggregates SET text_version = ?, text_state = ? \
                       WHERE org = ? AND id = ? IF live = true AND text_version = ?",
    insert_if_absent: conditional "INSERT INTO aggregates (org, id, part, key, value) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS",
    insert: conditional "INSERT INTO aggregates (org, id, part, key, value) VALUES (?, ?, ?, ?, ?)",
    replace: conditional "UPDATE aggregates SET value = ? WHERE org = ? AND id = ? AND part = ? AND key = ? IF EXISTS",
    replace_equal: conditional "UPDATE aggregates SET value = ? \
                                WHERE org = ? AND id = ? AND part = ? AND key = ? IF value = ?",
    remove: conditional "DELETE FROM aggregates WHERE org = ? AND id = ? AND part = ? AND key = ?",
    remove_existing: conditional "DELETE FROM aggregates WHERE org = ? AND id = ? AND part = ? AND key = ? IF EXISTS",
    remove_equal: conditional "DELETE FROM aggregates WHERE org = ? AND id = ? AND part = ? AND key = ? IF value = ?",
}

impl Aggregates {
    pub(crate) async fn header(&self, org: &OrgId, id: &str, consistency: Read) -> Result<Header> {
        let row: Option<HeaderRow> = self.cql.row(&self.header, consistency, values![org.as_str(), id]).await?;
        let Some((live, version, record, created_at, uses, text_version, text_state)) = row else {
            return Ok(Header::default());
        };
        Ok(Header {
            live,
            version: version.map(i64::cast_unsigned),
            record,
            created_at: created_at.unwrap_or(0),
            uses: uses.unwrap_or(0).cast_unsigned(),
            text_version: text_version.unwrap_or(0).cast_unsigned(),
            text_state,
        })
    }

    /// Returns the version and the time of creation, in microseconds, of a live resource. Does not read the record.
    pub(crate) async fn live_version(&self, org: &OrgId, id: &str) -> Result<Option<(u64, i64)>> {
        let row: Option<(Option<bool>, Option<i64>, Option<i64>)> =
            self.cql.row(&self.version, Read::Quorum, values![org.as_str(), id]).await?;
        Ok(match row {
            Some((Some(true), Some(version), created_at)) => Some((version.cast_unsigned(), created_at.unwrap_or(0))),
            _ => None,
        })
    }

    pub(crate) async fn row(
        &self,
        org: &OrgId,
        id: &str,
        (part, key): (Part, &str),
        consistency: Read,
    ) -> Result<Option<Vec<u8>>> {
        let values = values![org.as_str(), id, part.name(), key];
        let row: Option<(Option<Vec<u8>>,)> = self.cql.row(&self.row, consistency, values).await?;
        Ok(row.and_then(|(value,)| value))
    }

    /// Returns rows of a part whose keys begin with `prefix`, in order, at most `rows`.
    pub(crate) async fn rows(
        &self,
        org: &OrgId,
        id: &str,
        (part, prefix): (Part, &str),
        rows: usize,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        if rows == 0 {
            return Ok(Vec::new());
        }
        let values = values![org.as_str(), id, part.name(), prefix, format!("{prefix}{}", char::MAX), limit(rows)];
        let rows: Vec<(String, Option<Vec<u8>>)> = self.cql.rows(&self.rows, Read::Quorum, values).await?;
        Ok(rows.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
    }

    /// Returns the keys of a part behind `after`, in order, at most `rows`.
    pub(crate) async fn keys(
        &self,
        org: &OrgId,
        id: &str,
        (part, after): (Part, &str),
        rows: usize,
    ) -> Result<Vec<String>> {
        let values = values![org.as_str(), id, part.name(), after, limit(rows)];
        let rows: Vec<(String,)> = self.cql.rows(&self.keys, Read::Quorum, values).await?;
        Ok(rows.into_iter().map(|(key,)| key).collect())
    }

    pub(crate) fn create(&self, org: &OrgId, id: &str, record: Vec<u8>, at: i64) -> Statement<'_> {
        (&self.create, values![record, at, org.as_str(), id])
    }

    /// Changes the resource from one version to another. `unused`: only while the resource has no references.
    pub(crate) fn change(
        &self,
        org: &OrgId,
        id: &str,
        (from, to): (u64, u64),
        (live, record): (bool, Vec<u8>),
        unused: bool,
    ) -> Statement<'_> {
        let statement = if unused { &self.change_unused } else { &self.change };
        (statement, values![live, to, record, org.as_str(), id, from])
    }

    /// A condition of a batch: the resource is live.
    pub(crate) fn live(&self, org: &OrgId, id: &str) -> Statement<'_> {
        (&self.live, values![org.as_str(), id])
    }

    /// Changes the count of references. `only_live`: only while the resource is live.
    pub(crate) fn uses(&self, org: &OrgId, id: &str, (from, to): (u64, u64), only_live: bool) -> Statement<'_> {
        let statement = if only_live { &self.uses } else { &self.uses_any_state };
        (statement, values![to, org.as_str(), id, from])
    }

    pub(crate) fn text(&self, org: &OrgId, id: &str, from: u64, state: Vec<u8>) -> Statement<'_> {
        (&self.text, values![from + 1, state, org.as_str(), id, from])
    }

    /// Inserts the row only if the row does not exist.
    pub(crate) fn insert_if_absent(
        &self,
        org: &OrgId,
        id: &str,
        (part, key): (Part, &str),
        value: Vec<u8>,
    ) -> Statement<'_> {
        (&self.insert_if_absent, values![org.as_str(), id, part.name(), key, value])
    }

    /// Inserts or replaces a row. Allowed only in a batch with a condition.
    pub(crate) fn insert(&self, org: &OrgId, id: &str, (part, key): (Part, &str), value: Vec<u8>) -> Statement<'_> {
        (&self.insert, values![org.as_str(), id, part.name(), key, value])
    }

    /// Changes the row only if the row exists.
    pub(crate) fn replace(&self, org: &OrgId, id: &str, (part, key): (Part, &str), value: Vec<u8>) -> Statement<'_> {
        (&self.replace, values![value, org.as_str(), id, part.name(), key])
    }

    /// Changes the row only if it has the value `from`.
    pub(crate) fn replace_equal(
        &self,
        org: &OrgId,
        id: &str,
        (part, key): (Part, &str),
        (from, to): (Vec<u8>, Vec<u8>),
    ) -> Statement<'_> {
        (&self.replace_equal, values![to, org.as_str(), id, part.name(), key, from])
    }

    /// Removes the row only if it has this value.
    pub(crate) fn remove_equal(
        &self,
        org: &OrgId,
        id: &str,
        (part, key): (Part, &str),
        value: Vec<u8>,
    ) -> Statement<'_> {
        (&self.remove_equal, values![org.as_str(), id, part.name(), key, value])
    }

    /// Removes a row. Allowed only in a batch with a condition.
    pub(crate) fn remove(&self, org: &OrgId, id: &str, (part, key): (Part, &str)) -> Statement<'_> {
        (&self.remove, values![org.as_str(), id, part.name(), key])
    }

    /// Removes the row only if the row exists.
    pub(crate) fn remove_existing(&self, org: &OrgId, id: &str, (part, key): (Part, &str)) -> Statement<'_> {
        (&self.remove_existing, values![org.as_str(), id, part.name(), key])
    }
}
