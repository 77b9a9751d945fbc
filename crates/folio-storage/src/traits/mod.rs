//! The storage traits.
//!
//! What every `decide` holds to, in this order: where the op's row stands, it is the answer, whatever the version
//! (`REQUEST_ID_CONFLICT` where its digest is another one); a request outside turns that changed another target, or asked
//! for something else, is `REQUEST_ID_CONFLICT` (see [`OpStore::asked`]); a target that is not as expected gives `Moved`, and so does one
//! that was deleted since (its tombstone has a higher version); what never was, expected with a version, is `NOT_FOUND`;
//! then the change is made with its op row beside it, or refused with an error, which leaves nothing. A change that changes
//! nothing is done, makes no revision and keeps the version.
//!
//! References: a document refers to its tags; a prompt refers to the tags and the schema of every revision that is kept, so
//! that an older revision can still be read and run.
//!
//! Lists: a page holds at most what was asked for and may hold less; `next` says whether there is more. A page token is
//! bound to its list, filter and order, and refused with `INVALID_PAGE_TOKEN` elsewhere. What is made or deleted between two
//! pages may be missed, but nothing comes twice.

mod access;
mod aggregate;
mod audit;
mod blobs;
mod credit;
mod documents;
mod erasure;
mod extractions;
mod health;
mod open_turns;
mod ops;
mod prompts;
mod providers;
mod schemas;
mod shared;
mod tags;
mod threads;
mod usage;

use std::sync::Arc;

pub(crate) use access::full;
pub use access::{AccessStore, MEMBERS_MAX, MemberChange, TOKENS_MAX};
pub use aggregate::{Aggregate, Named};
pub use audit::AuditStore;
pub(crate) use audit::encoded as encoded_audit;
pub use blobs::{BlobReader, BlobStore, BlobWriter, StoredBlob};
pub use credit::{AccountChange, AccountChanged, CreditStore, Ledger, Reserved};
pub use documents::{
    DocumentChange, DocumentFilter, DocumentStore, Holdings, IngestUpdate, NewDocument, NewPage, PendingText, Waits,
};
pub use erasure::ErasureStore;
pub use extractions::{ExtractionChange, ExtractionStore, NewExtraction};
pub use health::{StoreHealth, Traffic};
pub use open_turns::OpenTurnStore;
pub use ops::OpStore;
pub use prompts::{PromptChange, PromptFilter, PromptStore};
pub use providers::ProviderStore;
pub use schemas::{SchemaChange, SchemaFilter, SchemaStore};
pub use shared::{
    Beat, EventsAppended, EventsRead, Job, JobStore, Member, NodeRecord, NodeStore, Nodes, Rate, RateStore,
    SLOTS_TOLD_MAX, SharedOptions, SharedStores, SharedTurn, SharedTurnStore, SlotStore, Taken, TakenJob, TurnCursor,
    TurnEventStore,
};
pub use tags::{TagChange, TagFilter, TagStore};
pub use threads::{NewThread, ThreadFilter, ThreadStore};
pub use usage::{Charged, UsageRecord, UsageStore};

/// Every store of a node: what the services and tools are given. Cheap to clone.
#[derive(Clone)]
pub struct Stores {
    /// Organizations, members and tokens.
    pub access: Arc<dyn AccessStore>,
    /// Audit logs.
    pub audit: Arc<dyn AuditStore>,
    /// Bytes of documents.
    pub blobs: Arc<dyn BlobStore>,
    /// Accounts of credit, and blocks with their ledgers.
    pub credit: Arc<dyn CreditStore>,
    /// Documents and their text.
    pub documents: Arc<dyn DocumentStore>,
    /// Erasing organizations.
    pub erasure: Arc<dyn ErasureStore>,
    /// Extractions.
    pub extractions: Arc<dyn ExtractionStore>,
    /// Whether they work.
    pub health: Arc<dyn StoreHealth>,
    /// The index of open turns.
    pub open_turns: Arc<dyn OpenTurnStore>,
    /// Op rows of every aggregate.
    pub ops: Arc<dyn OpStore>,
    /// Prompts.
    pub prompts: Arc<dyn PromptStore>,
    /// What organizations set of model providers.
    pub providers: Arc<dyn ProviderStore>,
    /// Schemas.
    pub schemas: Arc<dyn SchemaStore>,
    /// Tags.
    pub tags: Arc<dyn TagStore>,
    /// Threads and their journals.
    pub threads: Arc<dyn ThreadStore>,
    /// Records of model calls.
    pub usage: Arc<dyn UsageStore>,
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stores")
    }
}
