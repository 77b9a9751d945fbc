//! The rules of deciding writes are in [`folio_resources`]: an adapter reads, gets a plan from
//! [`folio_resources::decide`] and executes it.
//!
//! Lists: a page has at most the requested number of items, and may have fewer; `next` is set if there are more. A page
//! token is bound to its list, filter and order; another list rejects it with `INVALID_PAGE_TOKEN`. A page may miss
//! items that are created or deleted between two pages, but no item appears twice.

mod access;
mod accounts;
mod audit;
mod blobs;
mod budgets;
mod chunk_sets;
mod collections;
mod credit;
mod erasure;
mod health;
mod image_annotations;
mod index_holders;
mod job_pages;
mod job_records;
mod links;
mod message_images;
mod open_turns;
mod ops;
mod passages;
mod resources;
mod row_fills;
mod rows;
mod shared;
mod summaries;
mod texts;
mod threads;
mod usage;
mod vectors;

use std::sync::Arc;

use folio_resources::Resource;
use folio_types::{DocumentId, OrgId, Result};

pub use access::{AccessStore, MEMBERS_MAX, quota_exceeded};
pub use accounts::{AccountStore, USER_ORGANIZATIONS_MAX};
pub use audit::{AuditStore, encode_checked as encode_audit_checked};
pub use blobs::{BlobReader, BlobStore, BlobWriter, StoredBlob};
pub use budgets::BudgetStore;
pub use chunk_sets::{ChunkSet, ChunkSetStore};
pub use credit::CreditStore;
pub use erasure::{ErasureStore, is_owned_by};
pub use health::{CallCounters, StoreHealth, clock_offset};
pub use image_annotations::ImageAnnotationStore;
pub use index_holders::IndexHolderStore;
pub use job_pages::JobPageStore;
pub use job_records::{
    JOB_HINTS, JobRecordStore, create_job, create_job_of_accepted_write, encode_outcome, hint_job, hinted_job,
    hinted_queue,
};
pub use links::{LinkMatch, LinkStore, MATCHES_MAX};
pub use message_images::MessageImageStore;
pub use open_turns::OpenTurnStore;
pub use ops::OpStore;
pub use passages::{DOCUMENT_PASSAGES_MAX, LISTED_HEADS_MAX, PassageStore, PassagesWritten, READ_PASSAGES_MAX};
pub use resources::{PAGE_BYTES, ResourceExecutor, ResourceStore, ResourceUsage, StoredResource};
pub use row_fills::{LastRowFill, RowFillStore};
pub use rows::{ConditionalRow, RowStore};
pub use shared::{
    ClaimedJob, ClusterNode, EventWindow, EventsAppended, EventsRead, HeartbeatStatus, Job, JobStore,
    MembershipSnapshot, NodeRecord, NodeStore, REPUBLISH_INTERVAL, Rate, RateDecision, RateStore, SLOTS_SYNC_MAX,
    SharedOptions, SharedStores, SharedTurn, SharedTurnStore, SlotStore, TurnCursor, TurnEventStore, WindowLimit,
    queue_full,
};
pub use summaries::{StoredSummary, SummaryScope, SummaryStore};
pub use texts::{IngestUpdate, NewPage, PageRow, PendingText, TextStore, TextWait};
pub use threads::ThreadStore;
pub use usage::{Charged, HourSummer, HourSums, UsageHour, UsageKey, UsageRecord, UsageStore, UsageSum, UsageTotals};
pub use vectors::{VECTOR_SLOTS, VectorCache, VectorKey};

use crate::UnreadableRecords;

/// All stores of a node, for its services and tools. Cheap to clone.
#[derive(Clone)]
pub struct Stores {
    pub audit: Arc<dyn AuditStore>,
    pub blobs: Arc<dyn BlobStore>,
    pub credit: Arc<dyn CreditStore>,
    pub erasure: Arc<dyn ErasureStore>,
    pub health: Arc<dyn StoreHealth>,
    pub jobs: Arc<dyn JobRecordStore>,
    pub open_turns: Arc<dyn OpenTurnStore>,
    pub ops: Arc<dyn OpStore>,
    /// [`Stores::of`] returns the typed store of one kind.
    pub resources: Arc<dyn ResourceExecutor>,
    /// [`Stores::access`] returns the typed store of members and uses of tokens, [`Stores::accounts`] that of sessions,
    /// [`Stores::budgets`] that of budgets, [`Stores::job_pages`] that of pages of jobs, [`Stores::index_holders`] that of
    /// holders of indexes, [`Stores::links`] that of links, [`Stores::passages`] that of passages, [`Stores::vector_cache`] that of
    /// cached vectors, [`Stores::summaries`] that of summaries, [`Stores::chunk_sets`] that of generated chunks,
    /// [`Stores::message_images`] that of images of messages, [`Stores::image_annotations`] that of descriptions of images, and
    /// [`Stores::row_fills`] that of attempts to fill rows.
    pub rows: Arc<dyn RowStore>,
    pub texts: Arc<dyn TextStore>,
    pub threads: Arc<dyn ThreadStore>,
    pub usage: Arc<dyn UsageStore>,
    /// The unreadable records that sweeps of this process and the indexes of the adapter skip.
    pub unreadable: UnreadableRecords,
}

impl Stores {
    pub fn of<R: Resource>(&self) -> ResourceStore<R> {
        ResourceStore::new(Arc::clone(&self.resources))
    }

    pub fn access(&self) -> AccessStore {
        AccessStore::new(Arc::clone(&self.rows))
    }

    pub fn accounts(&self) -> AccountStore {
        AccountStore::new(Arc::clone(&self.rows), self.unreadable.clone())
    }

    pub fn budgets(&self) -> BudgetStore {
        BudgetStore::new(Arc::clone(&self.rows))
    }

    pub fn chunk_sets(&self) -> ChunkSetStore {
        ChunkSetStore::new(Arc::clone(&self.rows))
    }

    pub fn job_pages(&self) -> JobPageStore {
        JobPageStore::new(Arc::clone(&self.rows))
    }

    pub fn links(&self) -> LinkStore {
        LinkStore::new(Arc::clone(&self.rows))
    }

    pub fn index_holders(&self) -> IndexHolderStore {
        IndexHolderStore::new(Arc::clone(&self.rows))
    }

    pub fn passages(&self) -> PassageStore {
        PassageStore::new(Arc::clone(&self.rows), self.unreadable.clone())
    }

    pub fn row_fills(&self) -> RowFillStore {
        RowFillStore::new(Arc::clone(&self.rows))
    }

    pub fn summaries(&self) -> SummaryStore {
        SummaryStore::new(Arc::clone(&self.rows))
    }

    pub fn message_images(&self) -> MessageImageStore {
        MessageImageStore {
            rows: Arc::clone(&self.rows),
            blobs: Arc::clone(&self.blobs),
            resources: Arc::clone(&self.resources),
            threads: Arc::clone(&self.threads),
        }
    }

    pub fn image_annotations(&self) -> ImageAnnotationStore {
        ImageAnnotationStore::new(Arc::clone(&self.rows), Arc::clone(&self.resources))
    }

    pub fn vector_cache(&self) -> VectorCache {
        VectorCache::new(Arc::clone(&self.rows))
    }

    /// Removes everything that ingestions stored of a deleted document, except the count of its bytes. Idempotent. The caller
    /// removes it again once no process ingests the document.
    pub async fn remove_ingested(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        self.vector_cache().remove_document(org, document).await?;
        self.links().remove_document(org, document).await?;
        self.passages().remove(org, document).await?;
        self.summaries().remove_document(org, document).await?;
        self.chunk_sets().remove_document(org, document).await?;
        self.image_annotations().remove_document(org, document).await
    }
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stores")
    }
}
