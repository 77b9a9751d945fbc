//! Layers that inject one fault each into a [`ResourceExecutor`] or a [`TextStore`].

use std::ops::RangeInclusive;

use async_trait::async_trait;
use folio_resources::{
    Condition, Kind, ListQuery, Record, ResourceWrite, StoredState, TextState, WriteDecision, decide,
};
use folio_storage::value::DeletionRow;
use folio_storage::{IngestUpdate, PendingText, ResourceExecutor, StoredResource, TextStore, TextWait};
use folio_types::op::{Expected, OpKey, WriteOutcome};
use folio_types::page::{Page, PageRequest};
use folio_types::{Environment as _, Error, OrgId, Reason, Result, System, Timestamp, UserId};

use super::Seen;
use crate::layer::{ResourceLayer, TextLayer};

/// Returns a key that no request has.
fn fresh_op() -> Result<OpKey> {
    let request = format!("fault/{:032x}", System.random()).parse()?;
    Ok(OpKey::Request { user: UserId::derive(&["fault"]), request })
}

/// Executes a write under a fresh op key. The returned op row has the original op key.
async fn under_fresh_op(below: &dyn ResourceExecutor, mut write: ResourceWrite) -> Result<WriteOutcome> {
    let own = std::mem::replace(&mut write.op, fresh_op()?);
    let mut decided = below.decide(write).await?;
    if let WriteOutcome::Row(row) = &mut decided {
        row.op = own;
    }
    Ok(decided)
}

async fn record(below: &dyn ResourceExecutor, write: &ResourceWrite) -> Result<Option<Vec<u8>>> {
    let found = below.get(&write.org, write.kind, std::slice::from_ref(&write.id)).await?;
    Ok(found.into_iter().flatten().next().map(|stored| stored.record))
}

/// Returns the version of the live target.
async fn version(below: &dyn ResourceExecutor, write: &ResourceWrite) -> Result<Option<u64>> {
    let record = record(below, write).await?.map(|record| write.kind.read(&record)).transpose()?;
    Ok(record.and_then(Record::live).map(|fields| fields.version))
}

/// Executes a write. After a version mismatch, executes the write again at the current version of the target.
async fn at_any_version(below: &dyn ResourceExecutor, mut write: ResourceWrite) -> Result<WriteOutcome> {
    match below.decide(write.clone()).await? {
        WriteOutcome::VersionMismatch => match version(below, &write).await? {
            Some(version) => {
                write.expected = Expected::Version(version);
                below.decide(write).await
            }
            None => Ok(WriteOutcome::VersionMismatch),
        },
        decided => Ok(decided),
    }
}

/// Returns the answer of a successful write for a refused one. Nothing is written.
async fn as_done(below: &dyn ResourceExecutor, write: &ResourceWrite, refused: Error) -> Result<WriteOutcome> {
    let state = StoredState { record: record(below, write).await?, ..StoredState::default() };
    match decide(write, &state) {
        Ok(WriteDecision::Write(plan)) => Ok(WriteOutcome::Row(plan.answer)),
        _ => Err(refused),
    }
}

#[derive(Default)]
pub(super) struct OpRowMissing;

#[async_trait]
impl ResourceLayer for OpRowMissing {
    async fn decide(&self, below: &dyn ResourceExecutor, write: ResourceWrite) -> Result<WriteOutcome> {
        under_fresh_op(below, write).await
    }
}

#[derive(Default)]
pub(super) struct OpRowNoCondition(Seen<(OrgId, OpKey)>);

#[async_trait]
impl ResourceLayer for OpRowNoCondition {
    async fn decide(&self, below: &dyn ResourceExecutor, mut write: ResourceWrite) -> Result<WriteOutcome> {
        if !self.0.is_repeated((write.org.clone(), write.op.clone())) {
            return at_any_version(below, write).await;
        }
        if let Some(version) = version(below, &write).await? {
            write.expected = Expected::Version(version);
        }
        under_fresh_op(below, write).await
    }
}

#[derive(Default)]
pub(super) struct ExpectedIgnored;

#[async_trait]
impl ResourceLayer for ExpectedIgnored {
    async fn decide(&self, below: &dyn ResourceExecutor, write: ResourceWrite) -> Result<WriteOutcome> {
        at_any_version(below, write).await
    }
}

#[derive(Default)]
pub(super) struct RequestOnManyTargets;

#[async_trait]
impl ResourceLayer for RequestOnManyTargets {
    async fn decide(&self, below: &dyn ResourceExecutor, write: ResourceWrite) -> Result<WriteOutcome> {
        match below.decide(write.clone()).await {
            Err(error) if error.reason == Reason::RequestIdConflict => under_fresh_op(below, write).await,
            decided => decided,
        }
    }
}

/// Declares faults that list without the conditions of a variant.
macro_rules! ignored_conditions {
    ($($fault:ident: $condition:ident;)*) => {$(
        #[derive(Default)]
        pub(super) struct $fault;

        #[async_trait]
        impl ResourceLayer for $fault {
            async fn list(
                &self,
                below: &dyn ResourceExecutor,
                org: &OrgId,
                mut query: ListQuery,
                page: &PageRequest,
            ) -> Result<Page<StoredResource>> {
                query.conditions.retain(|condition| !matches!(condition, Condition::$condition(_)));
                below.list(org, query, page).await
            }
        }
    )*};
}

ignored_conditions! {
    ListPeriodIgnored: Created;
    ListParentsIgnored: AnyParent;
    ListReferrersIgnored: AnyId;
}

/// Declares faults that return the answer of a successful write although it was refused with the given reason.
macro_rules! ignored_refusals {
    ($($fault:ident: $reason:ident;)*) => {$(
        #[derive(Default)]
        pub(super) struct $fault;

        #[async_trait]
        impl ResourceLayer for $fault {
            async fn decide(&self, below: &dyn ResourceExecutor, write: ResourceWrite) -> Result<WriteOutcome> {
                match below.decide(write.clone()).await {
                    Err(error) if error.reason == Reason::$reason => as_done(below, &write, error).await,
                    decided => decided,
                }
            }
        }
    )*};
}

ignored_refusals! {
    NameNotUnique: NameTaken;
    ReferenceUnchecked: NotFound;
    ReferenceIgnored: InUse;
}

#[derive(Default)]
pub(super) struct VersionOutdated;

#[async_trait]
impl ResourceLayer for VersionOutdated {
    async fn versions(
        &self,
        below: &dyn ResourceExecutor,
        org: &OrgId,
        kind: &'static Kind,
        ids: &[String],
    ) -> Result<Vec<Option<u64>>> {
        let versions = below.versions(org, kind, ids).await?.into_iter();
        Ok(versions.map(|version| version.map(|version| version.saturating_sub(1))).collect())
    }
}

#[derive(Default)]
pub(super) struct DeletionPositionIgnored;

#[async_trait]
impl ResourceLayer for DeletionPositionIgnored {
    async fn indexed_deletions(
        &self,
        below: &dyn ResourceExecutor,
        kind: &'static Kind,
        times: &RangeInclusive<Timestamp>,
        _after: Option<&DeletionRow>,
        limit: usize,
    ) -> Result<Vec<DeletionRow>> {
        below.indexed_deletions(kind, times, None, limit).await
    }
}

#[derive(Default)]
pub(super) struct DeletionTimesIgnored;

#[async_trait]
impl ResourceLayer for DeletionTimesIgnored {
    async fn indexed_deletions(
        &self,
        below: &dyn ResourceExecutor,
        kind: &'static Kind,
        _times: &RangeInclusive<Timestamp>,
        after: Option<&DeletionRow>,
        limit: usize,
    ) -> Result<Vec<DeletionRow>> {
        below.indexed_deletions(kind, &(Timestamp::MIN..=Timestamp::MAX), after, limit).await
    }
}

#[derive(Default)]
pub(super) struct DeletionUnconfirmed;

#[async_trait]
impl ResourceLayer for DeletionUnconfirmed {
    async fn confirm_deletion(&self, _: &dyn ResourceExecutor, _: &'static Kind, _: &DeletionRow) -> Result<bool> {
        Ok(true)
    }
}

#[derive(Default)]
pub(super) struct AttemptNotCounted;

#[async_trait]
impl TextLayer for AttemptNotCounted {
    async fn ingest(&self, below: &dyn TextStore, org: &OrgId, id: &str, update: IngestUpdate) -> Result<()> {
        match update.state {
            TextState::Processing => Ok(()),
            _ => below.ingest(org, id, update).await,
        }
    }
}

#[derive(Default)]
pub(super) struct PositionIgnored;

#[async_trait]
impl TextLayer for PositionIgnored {
    async fn waiting_texts(
        &self,
        below: &dyn TextStore,
        waits_for: TextWait,
        _after: Option<&PendingText>,
        limit: usize,
    ) -> Result<Vec<PendingText>> {
        below.waiting_texts(waits_for, None, limit).await
    }
}
