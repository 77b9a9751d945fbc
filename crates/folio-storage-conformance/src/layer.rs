//! Layers over the storage traits: a layer overrides some methods of a store, and forwards all others. Tests use them
//! for stores with faults.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_credit::{Account, AccountChange, AccountChangeOutcome, AccountEntry, Ledger, LedgerRow, ReserveOutcome};
use folio_history::event::Event;
use folio_history::job::{ItemOutcome, JobFilter, JobHeader, JobWrite, JobWritten, OpenJobRow};
use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, Fence, NewThread, OpenTurnRow, RequestRow, ThreadFilter, ThreadHeader};
use folio_resources::audit::{AuditEntry, AuditPosition};
use folio_resources::{Kind, ListQuery, NewName, ResourceWrite};
use folio_storage::value::{DeletionRow, OpDataIndexRow, PageBoxes, PageElements, PageHeadings, PageText};
use folio_storage::*;
use folio_types::op::{IdempotencyRecord, OpKey, OpRow, Target, WriteOutcome};
use folio_types::page::{Page, PageRequest};
use folio_types::{
    BlobId, BlobKey, BlockId, DocumentId, Incarnation, JobId, OrgId, RequestId, Result, ThreadId, Timestamp, TurnId,
    UserId,
};
use futures::stream::BoxStream;

use crate::crash::{CrashPoints, point};

/// A store behind a layer.
pub struct Layered<L, S: ?Sized> {
    layer: L,
    below: Arc<S>,
}

impl<L, S: ?Sized> Layered<L, S> {
    /// Puts a layer over a store. A test that also accesses the layer passes an [`Arc`].
    pub fn over(layer: L, below: &Arc<S>) -> Arc<Self> {
        Arc::new(Self { layer, below: Arc::clone(below) })
    }
}

/// Declares the layer of a store: a trait with the same methods, which forward to the store `below`. [`CrashPoints`] is
/// such a layer, with a crash point before and after each call. A method after `=` is not asynchronous and always
/// forwards.
macro_rules! layers {
    ($($layer:ident of $store:ident { $(= $plain:ident() -> $value:ty;)* $($method:ident($($name:ident: $type:ty),*) -> $output:ty;)* })*) => {$(
        #[allow(clippy::too_many_arguments, reason = "a layer adds the store below to the arguments of a method")]
        #[doc = concat!("A layer over a [`", stringify!($store), "`]: each method forwards unless the layer overrides it.")]
        #[async_trait]
        pub trait $layer: Send + Sync {
            $(
                #[doc = concat!("Overrides [`", stringify!($store), "::", stringify!($method), "`].")]
                async fn $method(&self, below: &dyn $store, $($name: $type),*) -> Result<$output> {
                    below.$method($($name),*).await
                }
            )*
        }

        #[allow(clippy::too_many_arguments, reason = "a layer adds the store below to the arguments of a method")]
        #[async_trait]
        impl<L: $layer> $layer for Arc<L> {
            $(
                async fn $method(&self, below: &dyn $store, $($name: $type),*) -> Result<$output> {
                    (**self).$method(below, $($name),*).await
                }
            )*
        }

        #[async_trait]
        impl<L: $layer> $store for Layered<L, dyn $store> {
            $(
                async fn $method(&self, $($name: $type),*) -> Result<$output> {
                    self.layer.$method(&*self.below, $($name),*).await
                }
            )*

            $(
                fn $plain(&self) -> $value {
                    self.below.$plain()
                }
            )*
        }

        #[allow(clippy::too_many_arguments, reason = "a layer adds the store below to the arguments of a method")]
        #[async_trait]
        impl $layer for CrashPoints {
            $(
                async fn $method(&self, below: &dyn $store, $($name: $type),*) -> Result<$output> {
                    point(concat!(stringify!($method), ":before"));
                    let answer = below.$method($($name),*).await;
                    point(concat!(stringify!($method), ":after"));
                    answer
                }
            )*
        }
    )*};
}

layers! {
    AuditLayer of AuditStore {
        append(org: &OrgId, entries: &[AuditEntry]) -> ();
        list(org: &OrgId, low: &AuditPosition, high: &AuditPosition, newest_first: bool, limit: usize) -> Vec<AuditEntry>;
    }
    CreditLayer of CreditStore {
        account(org: &OrgId) -> Account;
        change_account(change: AccountChange) -> AccountChangeOutcome;
        entries(org: &OrgId, prefix: &str, after: Option<&str>, limit: usize) -> Vec<AccountEntry>;
        reserve(org: &OrgId, block: &BlockId, row: LedgerRow) -> ReserveOutcome;
        settle(org: &OrgId, block: &BlockId, row: LedgerRow) -> LedgerRow;
        seal(org: &OrgId, block: &BlockId) -> ();
        ledger(org: &OrgId, block: &BlockId) -> Ledger;
    }
    JobRecordLayer of JobRecordStore {
        create(header: JobHeader) -> JobHeader;
        announce(row: OpenJobRow) -> ();
        header(org: &OrgId, id: &JobId) -> Option<JobHeader>;
        fence(org: &OrgId, id: &JobId) -> Option<Fence>;
        write(write: JobWrite) -> JobWritten;
        outcomes(org: &OrgId, id: &JobId, after: u32, limit: usize) -> Vec<ItemOutcome>;
        list(org: &OrgId, filter: &JobFilter, page: &PageRequest) -> Page<JobHeader>;
        delete(org: &OrgId, id: &JobId) -> ();
        expired(now: Timestamp, limit: usize) -> Vec<(OrgId, JobId)>;
        open(after: Option<&OpenJobRow>, limit: usize) -> Vec<OpenJobRow>;
        remove_open(rows: &[OpenJobRow]) -> ();
        compact_open() -> ();
    }
    OpenTurnLayer of OpenTurnStore {
        remove(rows: &[OpenTurnRow]) -> ();
        scan(after: Option<&OpenTurnRow>, limit: usize) -> Vec<OpenTurnRow>;
        compact() -> ();
    }
    OpLayer of OpStore {
        row(org: &OrgId, target: &Target, op: &OpKey) -> Option<OpRow>;
        close(org: &OrgId, target: &Target, row: OpRow) -> OpRow;
        request(org: &OrgId, op: &OpKey) -> Option<IdempotencyRecord>;
        record_request(org: &OrgId, op: &OpKey, record: IdempotencyRecord) -> IdempotencyRecord;
        forget_requests(before: Timestamp, limit: usize) -> usize;
        indexed_data(before: Timestamp, limit: usize) -> Vec<OpDataIndexRow>;
        remove_data(rows: Vec<OpDataIndexRow>) -> ();
        defer_data(before: OpDataIndexRow, after: OpDataIndexRow) -> ();
    }
    ResourceLayer of ResourceExecutor {
        decide(write: ResourceWrite) -> WriteOutcome;
        get(org: &OrgId, kind: &'static Kind, ids: &[String]) -> Vec<Option<StoredResource>>;
        id_by_name(org: &OrgId, kind: &'static Kind, name: &str) -> Option<String>;
        list(org: &OrgId, query: ListQuery, page: &PageRequest) -> Page<StoredResource>;
        list_versions(org: &OrgId, query: ListQuery, page: &PageRequest) -> Page<(String, u64)>;
        versions(org: &OrgId, kind: &'static Kind, ids: &[String]) -> Vec<Option<u64>>;
        matching_ids(org: &OrgId, query: ListQuery, max: usize) -> Vec<String>;
        referrers(org: &OrgId, kind: &'static Kind, referenced: &str, max: usize) -> Vec<String>;
        revision_numbers(org: &OrgId, id: &str) -> Vec<u32>;
        name_revision(org: &OrgId, name: NewName) -> ();
        revisions(org: &OrgId, id: &str, numbers: &[u32]) -> Vec<Option<Vec<u8>>>;
        resource_usage(org: &OrgId, kind: &'static Kind) -> ResourceUsage;
        content_bytes(org: &OrgId) -> u64;
        set_blob_bytes(org: &OrgId, id: &str, blob: &BlobId, bytes: u64, at: Timestamp) -> ();
        set_image_bytes(org: &OrgId, id: &str, bytes: u64, at: Timestamp) -> ();
        indexed_deletions(kind: &'static Kind, times: &RangeInclusive<Timestamp>, after: Option<&DeletionRow>, limit: usize) -> Vec<DeletionRow>;
        confirm_deletion(kind: &'static Kind, row: &DeletionRow) -> bool;
        clean_deleted(org: &OrgId, kind: &'static Kind, id: &str, is_final: bool) -> ();
    }
    RowLayer of RowStore {
        get(org: &OrgId, group: &str, keys: &[String]) -> Vec<Option<Vec<u8>>>;
        list(org: &OrgId, group: &str) -> Vec<Vec<u8>>;
        list_after(org: &OrgId, group: &str, after: &str, limit: usize) -> Vec<(String, Vec<u8>)>;
        compare_and_set(org: &OrgId, write: ConditionalRow) -> bool;
        compare_and_remove(org: &OrgId, group: &str, key: &str, before: Vec<u8>) -> bool;
        put(org: &OrgId, group: &str, key: &str, value: Vec<u8>) -> ();
        remove(org: &OrgId, group: &str, key: &str) -> ();
        remove_group(org: &OrgId, group: &str) -> ();
        check_space() -> ();
    }
    TextLayer of TextStore {
        ingest(org: &OrgId, id: &str, update: IngestUpdate) -> ();
        text(org: &OrgId, id: &str, from: u32, count: u32) -> Vec<PageText>;
        boxes(org: &OrgId, id: &str, from: u32, count: u32) -> Vec<PageBoxes>;
        headings(org: &OrgId, id: &str, from: u32, count: u32) -> Vec<PageHeadings>;
        elements(org: &OrgId, id: &str, from: u32, count: u32) -> Vec<PageElements>;
        waiting_texts(waits_for: TextWait, after: Option<&PendingText>, limit: usize) -> Vec<PendingText>;
    }
    ThreadLayer of ThreadStore {
        create(thread: NewThread) -> ThreadHeader;
        begin(thread: NewThread, first: Append) -> Appended;
        header(org: &OrgId, id: &ThreadId) -> Option<ThreadHeader>;
        append(org: &OrgId, id: &ThreadId, append: Append) -> Appended;
        has_batch(org: &OrgId, id: &ThreadId, batch: u128) -> bool;
        entries(org: &OrgId, id: &ThreadId, from: u64, limit: usize) -> Vec<(u64, Entry)>;
        request(org: &OrgId, id: &ThreadId, request: &RequestId) -> Option<RequestRow>;
        list(org: &OrgId, filter: &ThreadFilter, page: &PageRequest) -> Page<ThreadHeader>;
        delete(org: &OrgId, id: &ThreadId, by: Option<&OpKey>) -> ();
        remove_unused(org: &OrgId, id: &ThreadId) -> bool;
        removed_by(org: &OrgId, id: &ThreadId) -> Option<OpKey>;
        expired(now: Timestamp, limit: usize) -> Vec<(OrgId, ThreadId)>;
        expire_referrers(org: &OrgId, id: &str, at: Timestamp) -> ();
        expire_unused(org: &OrgId, id: &ThreadId, fence: Fence, at: Timestamp) -> bool;
    }
    UsageLayer of UsageStore {
        record(record: UsageRecord, now: Timestamp) -> ();
        list(org: &OrgId, from: Timestamp, limit: usize) -> Vec<UsageRecord>;
        hours(org: &OrgId, from: Timestamp, limit: usize) -> Vec<UsageHour>;
        put_sums(org: &OrgId, start: Timestamp, sums: HourSums) -> ();
    }
    EventLayer of TurnEventStore {
        append(org: &OrgId, turn: &TurnId, owner: &Incarnation, epoch: u64, events: &[Event]) -> EventsAppended;
        read(org: &OrgId, turn: &TurnId, from: u64, limit: usize) -> EventsRead;
    }
    JobLayer of JobStore {
        push(queue: &str, job: &Job) -> bool;
        claim(queue: &str, worker: &Incarnation, limit: usize, abandoned_after: Duration) -> Vec<ClaimedJob>;
        extend(queue: &str, claimed: &ClaimedJob) -> bool;
        complete(queue: &str, claimed: &ClaimedJob) -> bool;
        wait_for_push(queue: &str, limit: Duration) -> bool;
        waiting(queue: &str) -> u64;
    }
    NodeLayer of NodeStore {
        heartbeat(node: &NodeRecord, joins: bool) -> HeartbeatStatus;
        leave(node: &NodeRecord) -> ();
        nodes() -> MembershipSnapshot;
    }
    RateLayer of RateStore {
        take(org: &OrgId, bucket: &str, rate: Rate, cost: u32) -> RateDecision;
        count(org: &OrgId, window: &str, limit: WindowLimit) -> RateDecision;
        uncount(org: &OrgId, window: &str) -> ();
    }
    SlotLayer of SlotStore {
        = lease() -> Duration;
        take(org: &OrgId, kind: &str, slot: &str, limit: u32) -> bool;
        sync(org: &OrgId, kind: &str, renewed: &[String], freed: &[String]) -> ();
    }
    SharedTurnLayer of SharedTurnStore {
        publish(turn: &SharedTurn) -> bool;
        get(org: &OrgId, turn: &TurnId) -> Option<SharedTurn>;
        waiting(org: &OrgId, requester: Option<&UserId>, after: Option<&TurnCursor>, limit: usize) -> Vec<SharedTurn>;
        erase(org: &OrgId) -> ();
    }
}

/// The layer of a [`BlobStore`], whose scan is not asynchronous.
#[async_trait]
pub(crate) trait BlobLayer: Send + Sync {
    async fn create(&self, below: &Arc<dyn BlobStore>, key: &BlobKey) -> Result<Box<dyn BlobWriter>> {
        below.create(key).await
    }

    fn scan(&self, below: &dyn BlobStore) -> BoxStream<'static, Result<StoredBlob>> {
        below.scan()
    }
}

#[async_trait]
impl<L: BlobLayer> BlobStore for Layered<L, dyn BlobStore> {
    async fn create(&self, key: &BlobKey) -> Result<Box<dyn BlobWriter>> {
        self.layer.create(&self.below, key).await
    }

    async fn open(&self, key: &BlobKey) -> Result<Option<Box<dyn BlobReader>>> {
        self.below.open(key).await
    }

    async fn delete(&self, key: &BlobKey) -> Result<()> {
        self.below.delete(key).await
    }

    async fn delete_document(&self, org: &OrgId, id: &DocumentId) -> Result<()> {
        self.below.delete_document(org, id).await
    }

    async fn delete_all(&self, org: &OrgId) -> Result<()> {
        self.below.delete_all(org).await
    }

    fn scan(&self) -> BoxStream<'static, Result<StoredBlob>> {
        self.layer.scan(&*self.below)
    }
}
