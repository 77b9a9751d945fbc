//! `threads`: one partition for each thread. Static columns: the header and its fence. Rows by part and key: the
//! journal, one row for each append (its batch), and the rows of requests.
//!
//! The header and the rows of the journal are written under conditions only. Imported entries are written before the
//! header exists, in a part with a random name for each creation. Rows of a removed thread are deleted after its
//! tombstone is committed.

use folio_history::thread::Fence;
use folio_types::{OrgId, Result, ThreadId, Timestamp};

use crate::session::{ConditionalResult, Read, Statement};
use crate::values::{limit, micros, values};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThreadPart {
    /// A journal entry. Key: the sequence number as twenty decimal digits. Value: the encoded entry.
    Entry,
    /// An imported entry, with key and value of [`Self::Entry`]. The text is the random name of one attempt to create
    /// the thread.
    Imported(String),
    /// The proof that an append is committed. Key: the id of the append's batch. The value is empty.
    Batch,
    /// The row of a request. Key: the request id. Value: the encoded [`folio_history::thread::RequestRow`].
    Request,
}

impl ThreadPart {
    fn name(&self) -> String {
        match self {
            Self::Entry => "entry".to_owned(),
            Self::Imported(creation) => format!("imported {creation}"),
            Self::Batch => "batch".to_owned(),
            Self::Request => "request".to_owned(),
        }
    }
}

/// The static columns of a thread's partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ThreadRow {
    /// True: the thread is live. False: a tombstone is stored. None: the partition has no header.
    pub(crate) live: Option<bool>,
    /// The encoded [`folio_history::thread::ThreadRecord`].
    pub(crate) header: Vec<u8>,
    /// The expiry, in nanoseconds since the Unix epoch. None: the thread does not expire.
    pub(crate) expires_at: Option<i64>,
    /// The number of imported entries, and the random name in [`ThreadPart::Imported`]. None: the thread has no imported
    /// entries.
    pub(crate) imported: Option<(u64, String)>,
}

type Row = (Option<bool>, Option<Vec<u8>>, Option<i64>, Option<i64>, Option<String>);

table! { Threads:
    header: read "SELECT live, header, expires_at, imported, creation FROM threads WHERE org = ? AND id = ? LIMIT 1",
    row: read "SELECT live, value FROM threads WHERE org = ? AND id = ? AND part = ? AND key = ?",
    entries: read "SELECT live, key, value FROM threads \
                   WHERE org = ? AND id = ? AND part = ? AND key >= ? AND key < ? LIMIT ?",
    create: conditional "UPDATE threads SET live = true, epoch = ?, version = ?, header = ?, expires_at = ?, \
                         imported = ?, creation = ? WHERE org = ? AND id = ? IF live = null",
    append: conditional "UPDATE threads SET epoch = ?, version = ?, header = ? \
                         WHERE org = ? AND id = ? IF live = true AND epoch = ? AND version = ? AND expires_at = ?",
    expire: conditional "UPDATE threads SET expires_at = ? WHERE org = ? AND id = ? IF live = true AND expires_at = ?",
    expire_unused: conditional "UPDATE threads SET expires_at = ? WHERE org = ? AND id = ? \
                                IF live = true AND epoch = ? AND version = ? AND expires_at = ?",
    write_tombstone: conditional "UPDATE threads SET live = false, header = ? \
                                  WHERE org = ? AND id = ? IF live = true AND epoch = ? AND version = ?",
    prevent: conditional "UPDATE threads SET live = false, header = ? WHERE org = ? AND id = ? IF live = null",
    insert_if_absent: conditional "INSERT INTO threads (org, id, part, key, value) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS",
    insert: conditional "INSERT INTO threads (org, id, part, key, value) VALUES (?, ?, ?, ?, ?)",
    import: write "INSERT INTO threads (org, id, part, key, value) VALUES (?, ?, ?, ?, ?)",
    remove_rows: write "DELETE FROM threads USING TIMESTAMP ? WHERE org = ? AND id = ? AND part = ?",
}

impl Threads {
    pub(crate) async fn header(&self, org: &OrgId, id: &ThreadId, consistency: Read) -> Result<ThreadRow> {
        let row: Option<Row> = self.cql.row(&self.header, consistency, values![org.as_str(), id.as_str()]).await?;
        let Some((live, header, expires_at, imported, creation)) = row else { return Ok(ThreadRow::default()) };
        let imported = imported.zip(creation).map(|(entries, creation)| (entries.cast_unsigned(), creation));
        Ok(ThreadRow { live, header: header.unwrap_or_default(), expires_at, imported })
    }

    /// Returns the value of a row. None: the row does not exist, or the thread is not live.
    pub(crate) async fn row(
        &self,
        org: &OrgId,
        id: &ThreadId,
        (part, key): (ThreadPart, &str),
        consistency: Read,
    ) -> Result<Option<Vec<u8>>> {
        let values = values![org.as_str(), id.as_str(), part.name(), key];
        let row: Option<(Option<bool>, Option<Vec<u8>>)> = self.cql.row(&self.row, consistency, values).await?;
        Ok(row.filter(|(live, _)| *live == Some(true)).and_then(|(_, value)| value))
    }

    /// Returns at most `rows` entries of a live thread, from `from` on and before `before`.
    pub(crate) async fn entries(
        &self,
        (org, id): (&OrgId, &ThreadId),
        part: ThreadPart,
        (from, before): (u64, u64),
        rows: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let (from, before) = (sequence(from), sequence(before));
        let values = values![org.as_str(), id.as_str(), part.name(), from, before, limit(rows)];
        let rows: Vec<(Option<bool>, String, Option<Vec<u8>>)> =
            self.cql.rows(&self.entries, Read::Quorum, values).await?;
        let live = rows.into_iter().filter(|(live, ..)| *live == Some(true));
        Ok(live.filter_map(|(_, _, value)| value).collect())
    }

    /// Creates the thread only if no thread with this id ever existed.
    pub(crate) fn create(
        &self,
        (org, id): (&OrgId, &ThreadId),
        (epoch, version): (u64, u64),
        row: ThreadRow,
    ) -> Statement<'_> {
        let (imported, creation) = row.imported.unzip();
        let values = values![epoch, version, row.header, row.expires_at, imported, creation, org.as_str(), id.as_str()];
        (&self.create, values)
    }

    /// Replaces the header and moves the fence from `from` to `to`. Refused unless the thread is live and has the
    /// fence `from` and the expiry `expires_at`.
    pub(crate) fn append(
        &self,
        (org, id): (&OrgId, &ThreadId),
        from: (u64, u64),
        expires_at: Option<i64>,
        to: (u64, u64),
        header: Vec<u8>,
    ) -> Statement<'_> {
        (&self.append, values![to.0, to.1, header, org.as_str(), id.as_str(), from.0, from.1, expires_at])
    }

    /// Replaces the expiry `from`; refused if another expiry is stored.
    pub(crate) async fn expire(
        &self,
        (org, id): (&OrgId, &ThreadId),
        from: Option<i64>,
        to: i64,
    ) -> Result<ConditionalResult> {
        self.cql.conditional(&self.expire, values![to, org.as_str(), id.as_str(), from]).await
    }

    /// Replaces the expiry `from` if the thread still matches the fence.
    pub(crate) async fn expire_unused(
        &self,
        (org, id): (&OrgId, &ThreadId),
        fence: Fence,
        from: Option<i64>,
        to: i64,
    ) -> Result<ConditionalResult> {
        let values = values![to, org.as_str(), id.as_str(), fence.epoch, fence.version, from];
        self.cql.conditional(&self.expire_unused, values).await
    }

    pub(crate) async fn write_tombstone(
        &self,
        (org, id): (&OrgId, &ThreadId),
        (epoch, version): (u64, u64),
        header: Vec<u8>,
    ) -> Result<ConditionalResult> {
        self.cql.conditional(&self.write_tombstone, values![header, org.as_str(), id.as_str(), epoch, version]).await
    }

    /// Stores the tombstone of a thread that was never created.
    pub(crate) async fn prevent(&self, (org, id): (&OrgId, &ThreadId), header: Vec<u8>) -> Result<ConditionalResult> {
        self.cql.conditional(&self.prevent, values![header, org.as_str(), id.as_str()]).await
    }

    /// Inserts the row only if the row does not exist.
    pub(crate) fn insert_if_absent(
        &self,
        (org, id): (&OrgId, &ThreadId),
        (part, key): (ThreadPart, &str),
        value: Vec<u8>,
    ) -> Statement<'_> {
        (&self.insert_if_absent, values![org.as_str(), id.as_str(), part.name(), key, value])
    }

    /// Inserts an entry. Allowed only in a CQL batch with a statement that checks the fence.
    pub(crate) fn entry(&self, (org, id): (&OrgId, &ThreadId), at: u64, value: Vec<u8>) -> Statement<'_> {
        self.insert((org, id), (ThreadPart::Entry, &sequence(at)), value)
    }

    /// Inserts or replaces a row. Allowed only in a CQL batch with a statement that checks the fence.
    pub(crate) fn insert(
        &self,
        (org, id): (&OrgId, &ThreadId),
        (part, key): (ThreadPart, &str),
        value: Vec<u8>,
    ) -> Statement<'_> {
        (&self.insert, values![org.as_str(), id.as_str(), part.name(), key, value])
    }

    /// Writes an imported entry, which is invisible until the header refers to its creation.
    pub(crate) async fn import(
        &self,
        (org, id): (&OrgId, &ThreadId),
        creation: &str,
        at: u64,
        value: Vec<u8>,
    ) -> Result<()> {
        let part = ThreadPart::Imported(creation.to_owned()).name();
        self.cql.write(&self.import, values![org.as_str(), id.as_str(), part, sequence(at), value]).await
    }

    /// Removes all rows of a part after the tombstone is committed. The partition gets no further writes, so the
    /// timestamp of the removal may be any later time, regardless of the clocks that wrote the rows.
    pub(crate) async fn remove_rows(
        &self,
        (org, id): (&OrgId, &ThreadId),
        part: &ThreadPart,
        now: Timestamp,
    ) -> Result<()> {
        let at = micros(now).saturating_add(DAY_MICROSECONDS);
        self.cql.write(&self.remove_rows, values![at, org.as_str(), id.as_str(), part.name()]).await
    }
}

const DAY_MICROSECONDS: i64 = 24 * 60 * 60 * 1_000_000;

fn sequence(at: u64) -> String {
    format!("{at:020}")
}
