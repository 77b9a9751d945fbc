//! Resources of every kind: executes the plan of a write in one transaction.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{
    Cleanup, DecidingWrite, DependentDeletion, IndexedFields, Kind, ListQuery, ListRow, Record, ResourceWrite,
    RowWrite, StoredState, WriteDecision, WritePlan, decide,
};
use folio_types::op::{Expected, IdempotencyRecord, OpKey, OpRow, Target, WriteOutcome};
use folio_types::page::{Page, PageRequest};
use folio_types::{Error, OrgId, Result, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::listing::{self, Listing};
use super::ops::put_request;
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::{Count, DeletionRow, Empty, decode};
use super::{names, references, texts};
use folio_storage::{ResourceExecutor, ResourceUsage, StoredResource};

pub(crate) fn record(reads: &impl Reads, org: &OrgId, id: &str) -> Result<Option<Record<IndexedFields>>> {
    let kind = Kind::of_id(id)?;
    let bytes = reads.bytes(Space::Records, &keys::record(org, kind.name, id))?;
    bytes.map(|bytes| kind.read(&bytes)).transpose()
}

pub(crate) fn is_live(reads: &impl Reads, org: &OrgId, id: &str) -> Result<bool> {
    Ok(matches!(record(reads, org, id)?, Some(Record::Live(_))))
}

pub(crate) struct Resources(pub(crate) Arc<Engine>);

#[async_trait]
impl ResourceExecutor for Resources {
    async fn decide(&self, write: ResourceWrite) -> Result<WriteOutcome> {
        if write.expected == Expected::Absent {
            self.0.reserve().check()?;
        }
        self.0.write(move |transaction| change(transaction, write)).await
    }

    async fn get(&self, org: &OrgId, kind: &'static Kind, ids: &[String]) -> Result<Vec<Option<StoredResource>>> {
        self.0.read(|view| {
            let found = ids.iter().map(|id| {
                let found = stored(view, org, kind, id)?;
                let is_live = |found: &StoredResource| Ok(matches!(kind.read(&found.record)?, Record::Live(_)));
                match found {
                    Some(found) if is_live(&found)? => Ok(Some(found)),
                    _ => Ok(None),
                }
            });
            found.collect()
        })
    }

    async fn id_by_name(&self, org: &OrgId, kind: &'static Kind, name: &str) -> Result<Option<String>> {
        self.0.read(|view| names::id_by_name(view, org, kind, name))
    }

    async fn list(&self, org: &OrgId, query: ListQuery, page: &PageRequest) -> Result<Page<StoredResource>> {
        let (org, page) = (org.clone(), page.clone());
        self.0
            .scan(move |view| {
                let ListQuery { kind, parent, conditions, filter } = query;
                let total = conditions.is_empty().then(|| listing::total(view, &org, kind.name)).transpose()?;
                let prefix = keys::list(&org, kind.name, parent.as_deref());
                let listing = Listing { prefix, filter, total, conditions: &conditions };
                listing.page(view, &page, |row| {
                    let item = stored(view, &org, kind, &row.id)?;
                    let item = item.ok_or_else(|| Error::internal("a list row refers to a missing resource"))?;
                    let bytes = item.record.len();
                    Ok((item, bytes))
                })
            })
            .await
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

    async fn deleted(&self, kind: &'static Kind, limit: usize) -> Result<Vec<(OrgId, String, Timestamp)>> {
        self.0
            .scan(move |view| {
                let range = Range::prefix(Space::System, keys::all_deleted(kind.name));
                let index_rows: Vec<DeletionRow> = view.values(range, limit)?;
                Ok(index_rows.into_iter().map(|index_row| (index_row.org, index_row.id, index_row.at)).collect())
            })
            .await
    }

    async fn forget_deleted(&self, org: &OrgId, kind: &'static Kind, id: &str) -> Result<()> {
        let (org, id) = (org.clone(), id.to_owned());
        self.0.write(move |transaction| forget(transaction, &org, kind, &id)).await
    }

    async fn scrub_deleted(&self, kind: &'static Kind, before: Timestamp, limit: usize) -> Result<usize> {
        self.0.write(move |transaction| scrub(transaction, kind, before, limit)).await
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

fn change(transaction: &mut Transaction<'_>, write: ResourceWrite) -> Result<WriteOutcome> {
    let (kind, org) = (write.kind, write.org.clone());
    let record = transaction.bytes(Space::Records, &keys::record(&org, kind.name, &write.id))?;
    let request: Option<IdempotencyRecord> = match &write.op {
        OpKey::Request { .. } => transaction.read(Space::Records, &keys::idempotency(&org, &write.op))?,
        OpKey::Call(_) => None,
    };
    let target = write.target();
    let taken = |found: &IdempotencyRecord| found.target != target || found.digest != write.digest;
    let state = StoredState {
        record: record.map(|bytes| bytes.to_vec()),
        op_row: transaction.read(Space::Records, &keys::op(&org, &target, &write.op))?,
        is_request_id_used: request.as_ref().is_some_and(taken),
        revisions: match write.deletes && kind.keeps_revisions {
            true => revisions(transaction, &org, &write.id)?,
            false => Vec::new(),
        },
    };
    match decide(&write, &state)? {
        WriteDecision::Recorded(row) => Ok(WriteOutcome::Row(row)),
        WriteDecision::VersionMismatch => Ok(WriteOutcome::VersionMismatch),
        WriteDecision::Write(plan) => execute(transaction, *plan).map(WriteOutcome::Row),
    }
}

fn revisions(transaction: &Transaction<'_>, org: &OrgId, id: &str) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    transaction.walk(Range::prefix(Space::Records, keys::revisions(org, id)), &mut |_, bytes| {
        found.push(bytes.to_vec());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
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
    if let Some((of, number)) = &plan.require_revision {
        let newest = record(transaction, org, of)?.and_then(Record::live).and_then(|fields| fields.revision);
        Kind::check_revision(of, *number, newest)?;
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
        }
        DecidingWrite::Delete { record, if_unreferenced, .. } => {
            if *if_unreferenced {
                references::refuse_if_used(transaction, org, kind, id)?;
            }
            transaction.put_bytes(Space::Records, keys::record(org, kind.name, id), record.clone())?;
            delete_dependents(transaction, &plan)?;
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
            RowWrite::PutRevision(number, stored) => {
                transaction.put_bytes(Space::Records, keys::revision(org, id, number), stored)?;
            }
        }
    }
    if let Some(request) = &plan.request {
        put_request(transaction, org, &plan.op, request)?;
    }
    Ok(plan.answer)
}

/// Removes the dependents of a deleted resource, and enters the deletion in the index of the clean-up.
fn delete_dependents(transaction: &mut Transaction<'_>, plan: &WritePlan) -> Result<()> {
    let WritePlan { kind, org, id, at, .. } = plan;
    if plan.remove_revisions {
        transaction.remove_all(Space::Records, keys::revisions(org, id))?;
    }
    if kind.has_text {
        texts::remove(transaction, org, id)?;
    }
    if kind.cleanup == Cleanup::Dependents {
        for dependent in dependents(transaction, org, id)? {
            let stored = record(transaction, org, &dependent)?;
            if let Some(deletion) = DependentDeletion::plan(&dependent, stored, *at)? {
                let DependentDeletion { kind, tombstone, list_before: before, .. } = deletion;
                listing::remove_row(transaction, org, kind.name, before.created_at, &before.row)?;
                transaction.put_bytes(Space::Records, keys::record(org, kind.name, &dependent), tombstone)?;
            }
        }
    }
    if kind.cleanup != Cleanup::Nothing {
        let index_row = DeletionRow { org: org.clone(), id: id.clone(), at: *at };
        transaction.put(Space::System, keys::deleted(kind.name, *at, org, id), &index_row)?;
    }
    Ok(())
}

fn dependents(transaction: &Transaction<'_>, org: &OrgId, parent: &str) -> Result<Vec<String>> {
    let prefix = keys::dependents(org, parent);
    let found = transaction.keys(Range::prefix(Space::Records, prefix.clone()))?;
    let id = |key: &Vec<u8>| String::from_utf8_lossy(key.get(prefix.len()..).unwrap_or_default()).into_owned();
    Ok(found.iter().map(id).collect())
}

/// Ends the clean-up of a deleted resource: removes the content from its op rows and the deletion from the index.
fn forget(transaction: &mut Transaction<'_>, org: &OrgId, kind: &Kind, id: &str) -> Result<()> {
    let Some(Record::Tombstone { at, .. }) = record(transaction, org, id)? else { return Ok(()) };
    for dependent in dependents(transaction, org, id)? {
        remove_content(transaction, org, &Target::new(Kind::of_id(&dependent)?.name, &dependent))?;
        transaction.remove(Space::Records, keys::dependent(org, id, &dependent));
    }
    remove_content(transaction, org, &Target::new(kind.name, id))?;
    transaction.remove(Space::System, keys::deleted(kind.name, at, org, id));
    Ok(())
}

fn scrub(transaction: &mut Transaction<'_>, kind: &Kind, before: Timestamp, limit: usize) -> Result<usize> {
    let index_rows: Vec<DeletionRow> =
        transaction.values(Range::prefix(Space::System, keys::all_deleted(kind.name)), limit)?;
    let old: Vec<_> = index_rows.into_iter().take_while(|index_row| index_row.at <= before).collect();
    for DeletionRow { org, id, at } in &old {
        remove_content(transaction, org, &Target::new(kind.name, id))?;
        transaction.remove(Space::System, keys::deleted(kind.name, *at, org, id));
    }
    Ok(old.len())
}

/// Reduces the op rows of a target to ids and times.
fn remove_content(transaction: &mut Transaction<'_>, org: &OrgId, target: &Target) -> Result<()> {
    let rows: Vec<OpRow> = transaction.values(Range::prefix(Space::Records, keys::ops(org, target)), usize::MAX)?;
    for mut row in rows {
        if row.remove_content() {
            transaction.put(Space::Records, keys::op(org, target, &row.op), &row)?;
        }
    }
    Ok(())
}
