//! Decides resource writes: maps the rows that a store read to a plan of writes. The first row of the table that
//! matches applies:
//!
//! | # | condition | decision |
//! |---|---|---|
//! | 1 | the op row of this key has the same digest, or is aborted and its digest is unknown | [`WriteDecision::Recorded`] |
//! | 2 | an op row of this key exists | `REQUEST_ID_CONFLICT` |
//! | 3 | the request id of this key was used for another target or other content | `REQUEST_ID_CONFLICT` |
//! | 4 | a version is expected, and the resource never existed | `NOT_FOUND` |
//! | 5 | the version is not the expected one | [`WriteDecision::VersionMismatch`] |
//! | 6 | the resource is deleted | `NOT_FOUND` |
//! | 7 | the change does not fit the resource | its error |
//! | 8 | – | [`WriteDecision::Write`] |
//!
//! The plan has three parts: writes before the deciding write, the deciding write with its op row, and writes after it.
//! A change without effect succeeds: it adds no revision and keeps the version.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use folio_types::op::{Expected, IdempotencyRecord, OpKey, OpResult, OpRow, OpState, Target, Write};
use folio_types::{Digest, Error, OrgId, Result, Timestamp, UnknownFields, UserId, limits};
use serde_json::Value;

use crate::kind::{IndexedFields, Kind, read};
use crate::revisions::removed_by_new;
use crate::stored::{Record, encode_value};
use crate::{ListRow, NewName, Resource, RevisionName, RevisionNames, StoredRevision, folded};

/// JSON pointer to the newest revision in the record of a resource that keeps revisions.
const NEWEST_REVISION: &str = "/live/latest";

type Apply = Arc<dyn Fn(Option<&[u8]>) -> Result<Applied> + Send + Sync>;

/// Effect of a change on a stored record.
struct Applied {
    /// None: the resource did not exist.
    before: Option<IndexedFields>,
    /// None: the change deletes the resource.
    after: Option<NewState>,
    result: OpResult,
}

/// The record after a change.
struct NewState {
    fields: IndexedFields,
    record: Vec<u8>,
    /// Number and encoding of the newest revision. None: the kind keeps no revisions.
    revision: Option<(u32, Vec<u8>)>,
}

impl NewState {
    /// Creates the record after a change. `unknown`: the fields of the record before the change that this build does
    /// not know. The record keeps them; a new revision keeps those of the newest revision, from which it is derived.
    fn of<R: Resource>(resource: R, unknown: &UnknownFields) -> Result<Self> {
        let fields = IndexedFields::of(&resource)?;
        let revision = match resource.newest_revision()? {
            Some((number, revision)) => Some((number, unknown.below(NEWEST_REVISION).add_to(revision)?)),
            None => None,
        };
        let record = unknown.add_to(encode_value(R::KIND, R::FORMAT, &Record::Live(resource))?)?;
        Ok(Self { fields, record, revision })
    }
}

/// Returns the live resource of a record, and the unknown fields of the record.
fn read_for_change<R: Resource>(record: &[u8]) -> Result<(Option<R>, UnknownFields)> {
    let stored = read::<R>(record)?;
    let unknown = UnknownFields::between(record, &encode_value(R::KIND, R::FORMAT, &stored)?)?;
    Ok((stored.live(), unknown))
}

/// Returns the record after a change that has no effect.
#[cfg(test)]
pub(crate) fn rewrite<R: Resource>(record: &[u8]) -> Result<Vec<u8>> {
    let (before, unknown) = read_for_change::<R>(record)?;
    NewState::of(before.ok_or_else(|| Error::internal("deleted"))?, &unknown).map(|after| after.record)
}

/// A write, type-erased from its resource.
#[derive(Clone)]
pub struct ResourceWrite {
    pub kind: &'static Kind,
    pub id: String,
    pub org: OrgId,
    pub op: OpKey,
    /// Digest of the request, or of the arguments of the tool call.
    pub digest: Digest,
    /// The user on whose behalf the write happens.
    pub by: UserId,
    pub at: Timestamp,
    pub expected: Expected,
    /// True if the change deletes the resource.
    pub deletes: bool,
    apply: Apply,
}

impl fmt::Debug for ResourceWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceWrite").field("id", &self.id).field("op", &self.op).finish_non_exhaustive()
    }
}

impl ResourceWrite {
    pub fn new<R: Resource>(id: &R::Id, write: Write<R::Change>) -> Self {
        let Write { org, op, digest, by, at, expected, .. } = write.clone();
        let deletes = write.change == R::DELETE;
        let target = id.clone();
        let apply = move |record: Option<&[u8]>| {
            let (before, unknown) = match record {
                Some(record) => read_for_change::<R>(record)?,
                None => (None, UnknownFields::default()),
            };
            let fields = before.as_ref().map(IndexedFields::of).transpose()?;
            let plan = R::apply(&target, &write, before)?;
            let after = plan.after.map(|resource| NewState::of(resource, &unknown)).transpose()?;
            Ok(Applied { before: fields, after, result: plan.result })
        };
        Self {
            kind: Kind::get::<R>(),
            id: id.to_string(),
            org,
            op,
            digest,
            by,
            at,
            expected,
            deletes,
            apply: Arc::new(apply),
        }
    }

    pub fn target(&self) -> Target {
        Target::new(self.kind.name, &self.id)
    }

    /// Returns the record after the write on a stored record (None: the resource does not exist). None: the write deletes
    /// the resource.
    ///
    /// # Errors
    /// Those of the change.
    pub fn record_after(&self, stored: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        Ok((self.apply)(stored)?.after.map(|after| after.record))
    }

    /// Returns true if the write may remove a revision of the resource with these fields, so that the store must read
    /// [`StoredState::revisions`]. False for a write that expects another version.
    pub fn reads_revisions(&self, stored: Option<&Record<IndexedFields>>) -> bool {
        let Some(Record::Live(fields)) = stored else { return false };
        !self.deletes
            && self.expected == Expected::Version(fields.version)
            && fields.revision.is_some_and(|newest| newest as usize >= limits::REVISIONS_MAX)
    }
}

/// The rows that a store read to evaluate a write.
#[derive(Debug, Clone, Default)]
pub struct StoredState {
    /// None: the target never existed.
    pub record: Option<Vec<u8>>,
    /// Op row with the write's key.
    pub op_row: Option<OpRow>,
    /// True if the request id was used for another target or other content. Ignored if there is an op row.
    pub is_request_id_used: bool,
    /// Stored revisions, oldest first. Read only if [`ResourceWrite::reads_revisions`].
    pub revisions: Vec<StoredRevision>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum WriteDecision {
    /// The stored op row is the answer; nothing is written.
    Recorded(Box<OpRow>),
    /// The target does not have the expected version; nothing is written.
    VersionMismatch,
    Write(Box<WritePlan>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListEntry {
    pub row: ListRow,
    pub created_at: Timestamp,
    pub version: u64,
}

impl From<&IndexedFields> for ListEntry {
    fn from(fields: &IndexedFields) -> Self {
        Self { row: fields.row.clone(), created_at: fields.created_at, version: fields.version }
    }
}

/// Conditional write of the target's record.
#[derive(Debug, Clone, PartialEq)]
pub enum DecidingWrite {
    /// Stores a record with version 1 if none exists.
    Create { record: Vec<u8> },
    /// Replaces the record if it has version `from`. `to`: the new version, equal to `from` if the change has no
    /// effect.
    Update { from: u64, to: u64, record: Vec<u8> },
    /// Replaces the record by an encoded tombstone if it has version `from`. `if_unreferenced`: true if no other
    /// resource may refer to the resource, that is, for kinds that other resources reference.
    Delete { from: u64, to: u64, record: Vec<u8>, if_unreferenced: bool },
}

/// A row in the target's partition that is written together with the deciding write.
#[derive(Debug, Clone, PartialEq)]
pub enum RowWrite {
    /// Inserted unless an op row with its key exists.
    InsertOp(OpRow),
    /// Stores the data of the result of an op in a row of its own, under the target's version after the op. The
    /// clean-up removes the row a day after the turn or the request ended.
    PutData { version: u64, op: OpKey, data: Value },
    /// Stored with the row of its names, that is, of the objects that refer to the revision.
    PutRevision { number: u32, stored: Vec<u8>, names: RevisionNames },
    /// Removed with the row of its names, on condition that the row of names is unchanged since [`StoredState`] was
    /// read.
    RemoveRevision(u32),
}

/// Writes that execute one change, grouped by their order relative to the deciding write.
#[derive(Debug, Clone, PartialEq)]
pub struct WritePlan {
    pub kind: &'static Kind,
    pub id: String,
    pub org: OrgId,
    pub op: OpKey,
    pub at: Timestamp,

    /// Before: idempotency record of the request. None for tool calls of turns.
    pub request: Option<IdempotencyRecord>,
    /// Before: name to reserve.
    pub reserve_name: Option<String>,
    /// Before: ids that get a reference entry. Each must be live.
    pub add_references: BTreeSet<String>,
    /// Before: entries to add to the rows of names of revisions. Each revision must exist.
    pub name_revisions: Vec<NewName>,
    /// Before: parent that gets a dependent entry. The parent must be live.
    pub add_to_parent: Option<String>,
    /// Before: list row to insert. After: list row that replaces `list_before`.
    pub list_after: Option<ListEntry>,

    pub deciding_write: DecidingWrite,
    /// With the deciding write: the op row, a new revision and the removal of an old one.
    pub rows: Vec<RowWrite>,
    /// Op row that answers the write once the deciding write is applied.
    pub answer: OpRow,

    /// After: list row to replace or remove.
    pub list_before: Option<ListEntry>,
    /// After: name to free.
    pub free_name: Option<String>,
    /// After: ids whose reference entry is removed.
    pub remove_references: BTreeSet<String>,
}

impl WritePlan {
    /// Returns the target's version after the write.
    pub fn version(&self) -> u64 {
        match &self.deciding_write {
            DecidingWrite::Create { .. } => 1,
            DecidingWrite::Update { to, .. } | DecidingWrite::Delete { to, .. } => *to,
        }
    }
}

/// Decides how to execute a write, given the rows that were read for it.
///
/// # Errors
/// `REQUEST_ID_CONFLICT`, `NOT_FOUND`: see the module documentation. `STORED_FORMAT`. Errors of the change.
pub fn decide(write: &ResourceWrite, read: &StoredState) -> Result<WriteDecision> {
    if let Some(row) = &read.op_row {
        let is_answer = row.digest == write.digest || row.is_closed_by_another();
        return if is_answer {
            Ok(WriteDecision::Recorded(Box::new(row.clone())))
        } else {
            Err(Error::request_id_conflict())
        };
    }
    if read.is_request_id_used && matches!(write.op, OpKey::Request { .. }) {
        return Err(Error::request_id_conflict());
    }
    let record = read.record.as_deref().map(|record| write.kind.read(record)).transpose()?;
    let version = record.as_ref().map(|record| match record {
        Record::Live(fields) => fields.version,
        Record::Tombstone { version, .. } => *version,
    });
    match (write.expected, version) {
        (Expected::Absent, None) => {}
        (Expected::Version(expected), Some(version)) if expected == version => {}
        (Expected::Version(_), None) => return Err(write.kind.not_found(&write.id)),
        _ => return Ok(WriteDecision::VersionMismatch),
    }
    if let Some(Record::Tombstone { .. }) = record {
        return Err(write.kind.not_found(&write.id));
    }
    let applied = (write.apply)(read.record.as_deref())?;
    plan(write, &read.revisions, applied).map(|plan| WriteDecision::Write(Box::new(plan)))
}

fn plan(write: &ResourceWrite, revisions: &[StoredRevision], applied: Applied) -> Result<WritePlan> {
    let Applied { before, after, result } = applied;
    let fields_after = after.as_ref().map(|after| &after.fields);
    let name = |fields: Option<&IndexedFields>| fields.and_then(|fields| fields.unique_name.clone());
    let (old_name, new_name) = (name(before.as_ref()), name(fields_after));
    let renamed = old_name.as_deref().map(folded) != new_name.as_deref().map(folded);
    let references =
        |fields: Option<&IndexedFields>| fields.map(|fields| fields.references.clone()).unwrap_or_default();
    let (old, new) = (references(before.as_ref()), references(fields_after));
    let mut dropped: BTreeSet<String> = old.difference(&new).cloned().collect();
    if write.kind.keeps_revisions {
        // The references of older revisions remain: the clean-up removes them after the deletion.
        dropped = if after.is_none() { old.clone() } else { BTreeSet::new() };
    }
    let answer =
        OpRow { op: write.op.clone(), digest: write.digest.clone(), state: OpState::Done(result), at: write.at };
    let request = || IdempotencyRecord { target: write.target(), digest: write.digest.clone(), at: write.at };
    let mut plan = WritePlan {
        kind: write.kind,
        id: write.id.clone(),
        org: write.org.clone(),
        op: write.op.clone(),
        at: write.at,
        request: matches!(write.op, OpKey::Request { .. }).then(request),
        reserve_name: new_name.filter(|_| renamed),
        add_references: new.difference(&old).cloned().collect(),
        name_revisions: new_names(write, before.as_ref(), fields_after),
        add_to_parent: fields_after.filter(|_| before.is_none()).and_then(|fields| fields.parent.clone()),
        list_after: fields_after.map(ListEntry::from),
        deciding_write: DecidingWrite::Create { record: Vec::new() },
        rows: op_rows(answer.clone()),
        answer,
        list_before: before.as_ref().map(ListEntry::from),
        free_name: old_name.filter(|_| renamed),
        remove_references: dropped,
    };
    plan.deciding_write = match (&before, after) {
        (before, Some(NewState { fields, record, revision })) => {
            let newest = before.as_ref().and_then(|before| before.revision);
            if let Some((number, stored)) = revision.filter(|(number, _)| newest < Some(*number)) {
                let removed = removed_by_new(write.kind.name, revisions)?;
                plan.rows.extend(removed.map(RowWrite::RemoveRevision));
                let names = RevisionNames::of(name_of_thread(write), fields.references.clone());
                plan.rows.push(RowWrite::PutRevision { number, stored, names });
            }
            match before {
                Some(before) => DecidingWrite::Update { from: before.version, to: fields.version, record },
                None => DecidingWrite::Create { record },
            }
        }
        (Some(before), None) => {
            let to = before.version + 1;
            let record = write.kind.tombstone(to, write.at)?;
            DecidingWrite::Delete { from: before.version, to, record, if_unreferenced: write.kind.is_referenced }
        }
        (None, None) => return Err(write.kind.not_found(&write.id)),
    };
    Ok(plan)
}

/// Returns the rows that record an op: the op row, and the row with its data.
fn op_rows(mut row: OpRow) -> Vec<RowWrite> {
    let op = row.op.clone();
    let data = row.data_version().zip(row.replace_data(Value::Null));
    let data = data.map(|(version, data)| RowWrite::PutData { version, op, data });
    std::iter::once(RowWrite::InsertOp(row)).chain(data).collect()
}

/// Returns the name entry of the thread whose tool call makes the write: after the call, the working state of the
/// thread refers to the newest revision. None: a request makes the write.
fn name_of_thread(write: &ResourceWrite) -> Option<RevisionName> {
    match &write.op {
        OpKey::Call(call) => Some(RevisionName::Thread(call.turn.clone())),
        OpKey::Request { .. } => None,
    }
}

/// Returns the entries that a write adds to the rows of names: entries of the resource (or of its new revision) for the
/// revisions to which it newly refers, and the entry of the thread if the write creates no revision. A new revision is
/// stored with the entry of the thread.
fn new_names(write: &ResourceWrite, before: Option<&IndexedFields>, after: Option<&IndexedFields>) -> Vec<NewName> {
    let Some(after) = after else { return Vec::new() };
    let newest = before.and_then(|before| before.revision);
    let is_named_before = |named: &(String, u32)| before.is_some_and(|before| before.named_revisions.contains(named));
    let is_added = |named: &&(String, u32)| match after.revision {
        Some(revision) => newest < Some(revision),
        None => !is_named_before(named),
    };
    let by_resource =
        || RevisionName::Resource { id: write.id.clone(), revision: after.revision, op: write.op.clone() };
    let added = after.named_revisions.iter().filter(is_added);
    let added = added.map(|(of, number)| NewName { of: of.clone(), number: *number, name: by_resource() });
    let kept = after.revision.filter(|revision| newest == Some(*revision)).zip(name_of_thread(write));
    let of_thread = kept.map(|(number, name)| NewName { of: write.id.clone(), number, name });
    added.chain(of_thread).collect()
}

#[cfg(test)]
mod tests;
