//! Resources of every kind: executes the plan of a write in one transaction.

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{
    Cleanup, Condition, DecidingWrite, IndexedFields, Kind, ListQuery, ListRow, NewName, Record, ResourceWrite,
    RowWrite, StoredState, WriteDecision, WritePlan, decide, parent_term,
};
use folio_types::op::{Expected, IdempotencyRecord, OpKey, OpRow, Target, WriteOutcome};
use folio_types::page::{Page, PageRequest};
use folio_types::{BlobId, Error, OrgId, Result, Timestamp};

use super::deletions::{self, Deletion};
use super::engine::Engine;
use super::keys::{self, Space};
use super::listing::{self, Listing};
use super::ops::{self, put_request};
use super::reads::{Range, Reads};
use super::revisions::EvaluatedRevisions;
use super::transaction::Transaction;
use super::value::{Count, DeletionRow, Empty, OpData, OpDataIndexRow, decode};
use super::{names, references, revisions, texts};
use folio_storage::{ResourceExecutor, ResourceUsage, StoredResource};

/// Maximum evaluations of the revisions for one write. An evaluation is repeated if the row of names of the revision that the
/// write may remove changes before the transaction.
// proto: none "bounds the repetitions of a read"
const EVALUATIONS_MAX: usize = 8;

pub(crate) fn record(reads: &impl Reads, org: &OrgId, id: &str) -> Result<Option<Record<IndexedFields>>> {
    let kind = Kind::of_id(id)?;
    let bytes = reads.bytes(Space::Records, &keys::record(org, kind.name, id))?;
    bytes.map(|bytes| kind.read(&bytes)).transpose()
}

/// Reads the record without decoding the resource.
pub(crate) fn is_live(reads: &impl Reads, org: &OrgId, id: &str) -> Result<bool> {
    let kind = Kind::of_id(id)?;
    match reads.bytes(Space::Records, &keys::record(org, kind.name, id))? {
        Some(bytes) => kind.is_live(&bytes),
        None => Ok(false),
    }
}

/// Returns the version of a live resource, from a row of its own. Only a resource that an older version of Folio wrote last
/// has no such row: its record is decoded.
fn live_version(reads: &impl Reads, org: &OrgId, id: &str) -> Result<Option<u64>> {
    match reads.read(Space::Records, &keys::version(org, id))? {
        Some(Count(version)) => Ok(Some(version)),
        None => Ok(record(reads, org, id)?.and_then(Record::live).map(|fields| fields.version)),
    }
}

/// Returns the error for a list row without a resource.
fn missing() -> Error {
    Error::internal("a list row refers to a missing resource")
}

/// Returns a page of a list. `load` reads an item and returns the item with its size in bytes.
fn page_of<T>(
    reads: &impl Reads,
    org: &OrgId,
    query: ListQuery,
    request: &PageRequest,
    load: impl FnMut(ListRow) -> Result<(T, usize)>,
) -> Result<Page<T>> {
    let ListQuery { kind, parent, conditions, filter } = query;
    let prefix = keys::list(org, kind.name, parent.as_deref());
    // The list of a parent contains exactly the rows with its term.
    let of_parent = parent.map(|parent| Condition::AnyTerm(vec![parent_term(parent)]));
    let total = match conditions.as_slice() {
        [] => Some(listing::total(reads, org, kind.name)?),
        [only] if of_parent.as_ref() == Some(only) => Some(listing::count_rows(reads, prefix.clone())?),
        _ => None,
    };
    Listing { prefix, filter, total, conditions: &conditions }.page(reads, request, load)
}

pub(crate) struct Resources(pub(crate) Arc<Engine>);

#[async_trait]
impl ResourceExecutor for Resources {
    async fn decide(&self, write: ResourceWrite) -> Result<WriteOutcome> {
        if write.expected == Expected::Absent {
            self.0.reserve().check()?;
        }
        let mut revisions = None;
        for _ in 0..EVALUATIONS_MAX {
            let (write, evaluated) = (write.clone(), revisions.take());
            let (org, id) = (write.org.clone(), write.id.clone());
            if let Some(outcome) = self.0.write(move |transaction| change(transaction, write, evaluated)).await? {
                return Ok(outcome);
            }
            revisions = Some(self.0.scan(move |view| EvaluatedRevisions::read(view, &org, &id)).await?);
        }
        Err(Error::contended("the names of the revisions have too many concurrent writes; retry later"))
    }

    async fn get(&self, org: &OrgId, kind: &'static Kind, ids: &[String]) -> Result<Vec<Option<StoredResource>>> {
        self.0.read(|view| {
            let found = ids.iter().map(|id| match stored(view, org, kind, id)? {
                Some(found) if kind.is_live(&found.record)? => Ok(Some(found)),
                _ => Ok(None),
            });
            found.collect()
        })
    }

    async fn id_by_name(&self, org: &OrgId, kind: &'static Kind, name: &str) -> Result<Option<String>> {
        self.0.read(|view| names::id_by_name(view, org, kind, name))
    }

    async fn list(&self, org: &OrgId, query: ListQuery, page: &PageRequest) -> Result<Page<StoredResource>> {
        let (org, page, kind) = (org.clone(), page.clone(), query.kind);
        self.0
            .scan(move |view| {
                page_of(view, &org, query, &page, |row| {
                    let item = stored(view, &org, kind, &row.id)?.ok_or_else(missing)?;
                    let bytes = item.record.len();
                    Ok((item, bytes))
                })
            })
            .await
    }

    async fn list_versions(&self, org: &OrgId, query: ListQuery, page: &PageRequest) -> Result<Page<(String, u64)>> {
        let (org, page) = (org.clone(), page.clone());
        self.0
            .scan(move |view| {
                page_of(view, &org, query, &page, |row| {
                    let version = live_version(view, &org, &row.id)?.ok_or_else(missing)?;
                    Ok(((row.id, version), 0))
                })
            })
            .await
    }

    async fn versions(&self, org: &OrgId, _: &'static Kind, ids: &[String]) -> Result<Vec<Option<u64>>> {
        self.0.read(|view| ids.iter().map(|id| live_version(view, org, id)).collect())
    }

    async fn matching_ids(&self, org: &OrgId, query: ListQuery, max: usize) -> Result<Vec<String>> {
        let ListQuery { kind, parent, conditions, .. } = query;
        let prefix = keys::list(org, kind.name, parent.as_deref());
        self.0
            .scan(move |view| {
                view.select(Range::prefix(Space::Records, prefix), max, |_, bytes| {
                    let row: ListRow = decode(bytes)?;
                    Ok(row.matches(&conditions).then_some(row.id))
                })
            })
            .await
    }

    async fn referrers(&self, org: &OrgId, kind: &'static Kind, referenced: &str, max: usize) -> Result<Vec<String>> {
        let (org, referenced) = (org.clone(), referenced.to_owned());
        self.0.scan(move |view| references::referrers(view, &org, kind, &referenced, max)).await
    }

    async fn revision_numbers(&self, org: &OrgId, id: &str) -> Result<Vec<u32>> {
        let (org, id) = (org.clone(), id.to_owned());
        self.0.scan(move |view| revisions::numbers(view, &org, &id)).await
    }

    async fn name_revision(&self, org: &OrgId, name: NewName) -> Result<()> {
        let org = org.clone();
        // No fsync of its own: the append that depends on this reference is written later, and its fsync also makes
        // this write durable.
        self.0.write_lazily(move |transaction| revisions::add_name(transaction, &org, &name)).await
    }

    async fn revisions(&self, org: &OrgId, id: &str, numbers: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
        self.0.read(|view| {
            let one = |number: &u32| {
                Ok(view.bytes(Space::Records, &keys::revision(org, id, *number))?.map(|bytes| bytes.to_vec()))
            };
            numbers.iter().map(one).collect()
        })
    }

    async fn resource_usage(&self, org: &OrgId, kind: &'static Kind) -> Result<ResourceUsage> {
        let prefix = keys::list(org, kind.name, None);
        self.0
            .scan(move |view| {
                let mut sum = ResourceUsage::default();
                view.walk(Range::prefix(Space::Records, prefix), &mut |_, bytes| {
                    let ListRow { size_bytes, .. } = decode(bytes)?;
                    sum = sum + ResourceUsage { count: 1, bytes: size_bytes };
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok(sum)
            })
            .await
    }

    async fn content_bytes(&self, org: &OrgId) -> Result<u64> {
        let prefix = keys::content_sizes(org);
        self.0
            .scan(move |view| {
                let mut sum = 0_u64;
                view.walk(Range::prefix(Space::Records, prefix), &mut |_, bytes| {
                    let Count(size) = decode(bytes)?;
                    sum = sum.saturating_add(size);
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok(sum)
            })
            .await
    }

    async fn set_blob_bytes(&self, org: &OrgId, id: &str, blob: &BlobId, bytes: u64, _: Timestamp) -> Result<()> {
        let (org, id, key) = (org.clone(), id.to_owned(), keys::blob_size(org, id, blob));
        self.0
            .write(move |transaction| {
                if bytes == 0 || !is_live(transaction, &org, &id)? {
                    transaction.remove(Space::Records, key);
                    return Ok(());
                }
                transaction.put(Space::Records, key, &Count(bytes))
            })
            .await
    }

    async fn set_image_bytes(&self, org: &OrgId, id: &str, bytes: u64, _: Timestamp) -> Result<()> {
        let key = keys::content_size(org, id);
        self.0
            .write(move |transaction| {
                if bytes == 0 {
                    transaction.remove(Space::Records, key);
                    return Ok(());
                }
                transaction.put(Space::Records, key, &Count(bytes))
            })
            .await
    }

    async fn indexed_deletions(
        &self,
        kind: &'static Kind,
        times: &RangeInclusive<Timestamp>,
        after: Option<&DeletionRow>,
        limit: usize,
    ) -> Result<Vec<DeletionRow>> {
        let end = keys::after(&keys::deleted_at(kind.name, *times.end()));
        let mut range = Range::prefix(Space::System, keys::all_deleted(kind.name))
            .from(keys::deleted_at(kind.name, *times.start()))
            .before(end);
        if let Some(DeletionRow { org, id, at }) = after {
            range = range.after(keys::deleted(kind.name, *at, org, id));
        }
        self.0.scan_index(range, limit).await
    }

    /// The row and the tombstone are written in one transaction, so that no row is stale.
    async fn confirm_deletion(&self, _: &'static Kind, row: &DeletionRow) -> Result<bool> {
        self.0.read(|view| {
            let stored = record(view, &row.org, &row.id)?;
            Ok(matches!(stored, Some(Record::Tombstone { at, .. }) if at == row.at))
        })
    }

    async fn clean_deleted(&self, org: &OrgId, kind: &'static Kind, id: &str, is_final: bool) -> Result<()> {
        let (engine, org, id) = (Arc::clone(&self.0), org.clone(), id.to_owned());
        Deletion { engine, org, kind, id }.clean(is_final).await
    }
}

fn stored(reads: &impl Reads, org: &OrgId, kind: &Kind, id: &str) -> Result<Option<StoredResource>> {
    let Some(record) = reads.bytes(Space::Records, &keys::record(org, kind.name, id))? else { return Ok(None) };
    let text = match kind.has_text {
        true => reads.bytes(Space::Records, &keys::text_state(org, id))?.map(|bytes| bytes.to_vec()),
        false => None,
    };
    Ok(Some(StoredResource { record: record.to_vec(), text }))
}

/// Evaluates a write and executes its plan. `evaluated`: the revisions of the target, from a read before the transaction.
/// None: nothing is written, because the write may remove a revision and `evaluated` is missing or not current.
fn change(
    transaction: &mut Transaction<'_>,
    write: ResourceWrite,
    evaluated: Option<EvaluatedRevisions>,
) -> Result<Option<WriteOutcome>> {
    let (kind, org) = (write.kind, write.org.clone());
    if kind.has_parent {
        deletions::delete_if_parent_deleted(transaction, &org, &write.id)?;
    }
    let record = transaction.bytes(Space::Records, &keys::record(&org, kind.name, &write.id))?;
    let request: Option<IdempotencyRecord> = match &write.op {
        OpKey::Request { .. } => transaction.read(Space::Records, &keys::idempotency(&org, &write.op))?,
        OpKey::Call(_) => None,
    };
    let target = write.target();
    let taken = |found: &IdempotencyRecord| found.target != target || found.digest != write.digest;
    let op_row = ops::row(transaction, &org, &target, &write.op)?;
    let revisions = match op_row.is_none() && kind.keeps_revisions && reads_revisions(&write, record.as_deref())? {
        true => match evaluated {
            Some(evaluated) if evaluated.is_current(transaction, &org, &write.id)? => evaluated.stored,
            Some(_) | None => return Ok(None),
        },
        false => Vec::new(),
    };
    let state = StoredState {
        record: record.as_ref().map(|bytes| bytes.to_vec()),
        op_row,
        is_request_id_used: request.as_ref().is_some_and(taken),
        revisions,
    };
    match decide(&write, &state)? {
        WriteDecision::Recorded(row) => Ok(Some(WriteOutcome::Row(*row))),
        WriteDecision::VersionMismatch => Ok(Some(WriteOutcome::VersionMismatch)),
        WriteDecision::Write(plan) => execute(transaction, *plan).map(WriteOutcome::Row).map(Some),
    }
}

fn reads_revisions(write: &ResourceWrite, record: Option<&[u8]>) -> Result<bool> {
    let stored = record.map(|record| write.kind.read(record)).transpose()?;
    Ok(write.reads_revisions(stored.as_ref()))
}

fn execute(transaction: &mut Transaction<'_>, plan: WritePlan) -> Result<OpRow> {
    let (kind, org, id) = (plan.kind, &plan.org, plan.id.as_str());
    if let Some(name) = &plan.free_name {
        names::free(transaction, org, kind, name, id)?;
    }
    if let Some(name) = &plan.reserve_name {
        names::claim(transaction, org, kind, name, id)?;
    }
    for referenced in &plan.remove_references {
        transaction.remove(Space::Records, keys::reference(org, referenced, id));
    }
    for referenced in &plan.add_references {
        references::add(transaction, org, referenced, id)?;
    }
    for name in &plan.name_revisions {
        revisions::add_name(transaction, org, name)?;
    }
    if let Some(parent) = &plan.add_to_parent {
        if !is_live(transaction, org, parent)? {
            return Err(Kind::of_id(parent)?.not_found(parent));
        }
        transaction.put(Space::Records, keys::dependent(org, parent, id), &Empty)?;
    }
    match &plan.deciding_write {
        DecidingWrite::Update { from, to, .. } if from == to => {}
        DecidingWrite::Create { record } | DecidingWrite::Update { record, .. } => {
            if kind.has_text && plan.list_before.is_none() {
                texts::wait(transaction, org, id)?;
            }
            transaction.put_bytes(Space::Records, keys::record(org, kind.name, id), record.clone())?;
            transaction.put(Space::Records, keys::version(org, id), &Count(plan.version()))?;
        }
        DecidingWrite::Delete { record, if_unreferenced, .. } => {
            if *if_unreferenced {
                references::refuse_if_used(transaction, org, kind, id)?;
            }
            transaction.put_bytes(Space::Records, keys::record(org, kind.name, id), record.clone())?;
            transaction.remove(Space::Records, keys::version(org, id));
            leave_to_cleanup(transaction, &plan)?;
        }
    }
    match (&plan.list_before, &plan.list_after) {
        (Some(before), None) => listing::remove_row(transaction, org, kind.name, before.created_at, &before.row)?,
        (before, Some(after)) if before.as_ref().is_none_or(|before| before.row != after.row) => {
            listing::put_row(transaction, org, kind.name, after.created_at, &after.row)?;
        }
        _ => {}
    }
    for row in plan.rows {
        match row {
            RowWrite::InsertOp(row) => {
                let key = keys::op(org, &Target::new(kind.name, id), &row.op);
                transaction.put(Space::Records, key, &row)?;
            }
            RowWrite::PutData { version, op, data } => {
                let (org, id) = (org.clone(), id.to_owned());
                let row = OpDataIndexRow { org, id, version, op, at: plan.at, has_ended: false };
                ops::put_data(transaction, &row, &OpData(data))?;
            }
            RowWrite::PutRevision { number, stored, names } => {
                transaction.put_bytes(Space::Records, keys::revision(org, id, number), stored)?;
                transaction.put(Space::Records, keys::names_of_revision(org, id, number), &names)?;
            }
            RowWrite::RemoveRevision(number) => {
                transaction.remove(Space::Records, keys::revision(org, id, number));
                transaction.remove(Space::Records, keys::names_of_revision(org, id, number));
            }
        }
    }
    if let Some(request) = &plan.request {
        put_request(transaction, org, &plan.op, request)?;
    }
    Ok(plan.answer)
}

/// Enters a deletion in the index of the clean-up, which removes the remaining rows.
fn leave_to_cleanup(transaction: &mut Transaction<'_>, plan: &WritePlan) -> Result<()> {
    let WritePlan { kind, org, id, at, .. } = plan;
    if kind.has_text {
        texts::remove_state(transaction, org, id)?;
    }
    if kind.cleanup != Cleanup::Nothing {
        let index_row = DeletionRow { org: org.clone(), id: id.clone(), at: *at };
        transaction.put(Space::System, keys::deleted(kind.name, *at, org, id), &index_row)?;
    }
    Ok(())
}
