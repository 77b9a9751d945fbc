//! Faults of protocols, as layers over the stores: each breaks one rule, and the suites must catch it.
//!
//! A fault alters a request to a store or its response. Rules inside an adapter have no fault here;
//! the decision `0307-faults-as-layers.md` names the tests that cover them.

mod blobs;
mod credit;
mod jobs;
mod records;
mod resources;
mod rows;
mod shared;
mod threads;

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use folio_storage::{StoreHealth, Stores};
use folio_types::{Error, Reason, Result};

use crate::layer::Layered;

pub use shared::{SharedFault, UnavailableRates};

/// Declares the faults: name, name in `FOLIO_FAULT`, store, module of the layer, suites that catch it.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $store:ident, $module:ident, [$($suite:literal),*];)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
            /// No write succeeds.
            StoreDown,
        }

        impl Fault {
            pub const ALL: &'static [Self] = &[$(Self::$name,)* Self::StoreDown];

            /// The name of the fault in `FOLIO_FAULT`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* Self::StoreDown => "store-down" }
            }

            /// The suites that must catch the fault. None: only tests of turns can show it.
            pub fn caught_by(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($suite),*],)* Self::StoreDown => &["health"] }
            }
        }

        #[must_use]
        pub fn decorate(stores: &Stores, fault: Fault) -> Stores {
            match fault {
                $(Fault::$name => Stores {
                    $store: Layered::over($module::$name::default(), &stores.$store),
                    ..stores.clone()
                },)*
                Fault::StoreDown => Stores { health: Arc::new(Down), ..stores.clone() },
            }
        }
    };
}

faults! {
    /// An append is not refused for its epoch or version: it is sent again under the stored ones.
    FenceOff = "fence-off", threads, threads, ["threads"];
    /// A repeated request id is accepted as a new one.
    RequestRowIgnored = "request-row-ignored", threads, threads, ["threads"];
    /// An append is stored under another batch id, so its sender cannot look it up.
    BatchRowMissing = "batch-row-missing", threads, threads, ["threads"];
    /// An append that opens a turn leaves no row in the index of open turns.
    OpenTurnRowMissing = "open-turn-row-missing", threads, threads, ["open_turns"];
    /// A thread and its first append are written in two writes.
    BegunInTwoWrites = "begun-in-two-writes", threads, threads, ["threads"];
    /// A thread begins although one with its id exists.
    BegunOverAnother = "begun-over-another", threads, threads, ["threads"];
    /// A removed thread is created again.
    RemovedThreadCreated = "removed-thread-created", threads, threads, ["threads"];
    /// Decisions are not recorded in the journal.
    DecisionsNotRecorded = "decisions-not-recorded", threads, threads, [];
    /// The op row of a write is not found again: the write is stored under a fresh op key.
    OpRowMissing = "op-row-missing", resources, resources, ["ops", "resources/tag"];
    /// A repeated op is executed again, at the version that is current then.
    OpRowNoCondition = "op-row-no-condition", resources, resources, ["resources/tag"];
    /// A write is executed at any version.
    ExpectedIgnored = "expected-ignored", resources, resources,
        [
            "ops",
            "resources/tag",
            "resources/schema",
            "resources/prompt",
            "resources/document",
            "resources/extraction"
        ];
    /// The version of a resource is the last one but one.
    VersionOutdated = "version-outdated", resources, resources,
        [
            "resources/tag",
            "resources/schema",
            "resources/prompt",
            "resources/document",
            "resources/extraction"
        ];
    /// A request outside turns changes a second target.
    RequestOnManyTargets = "request-on-many-targets", resources, resources, ["ops"];
    /// A write with a name that is taken is answered as done.
    NameNotUnique = "name-not-unique", resources, resources,
        ["resources/tag", "resources/schema", "resources/prompt"];
    /// A write that refers to a deleted resource is answered as done.
    ReferenceUnchecked = "reference-unchecked", resources, resources,
        ["resources/prompt", "resources/document", "resources/extraction"];
    /// The deletion of a resource in use is answered as done.
    ReferenceIgnored = "reference-ignored", resources, resources, ["resources/prompt", "resources/document"];
    /// A list contains items that were created outside of its period.
    ListPeriodIgnored = "list-period-ignored", resources, resources, ["resources/extraction"];
    /// A list contains the children of parents that its filter does not match.
    ListParentsIgnored = "list-parents-ignored", resources, resources, ["resources/extraction"];
    /// A list contains resources that do not refer to the resource of its filter.
    ListReferrersIgnored = "list-referrers-ignored", resources, resources, ["resources/prompt"];
    /// A page of the index of deletions begins with the first row.
    DeletionPositionIgnored = "deletion-position-ignored", resources, resources, ["resources/prompt"];
    /// The index of deletions contains rows of other times.
    DeletionTimesIgnored = "deletion-times-ignored", resources, resources, ["resources/prompt"];
    /// The row of a refused deletion is confirmed.
    DeletionUnconfirmed = "deletion-unconfirmed", resources, resources, ["resources/prompt"];
    /// The start of an attempt to read a document is not stored.
    AttemptNotCounted = "attempt-not-counted", texts, resources, ["texts"];
    /// A page of waiting documents begins with the first one.
    PositionIgnored = "position-ignored", texts, resources, ["texts"];
    /// An op is answered as closed, and is not closed.
    ClosingSkipped = "closing-skipped", ops, records, ["ops"];
    /// A request that repeats an id is answered with its own record.
    RequestRecordIgnored = "request-record-ignored", ops, records, ["ops"];
    /// Removing the row of an open turn removes the rows of its other epochs.
    OpenTurnRemovesAllEpochs = "open-turn-removes-all-epochs", open_turns, records, ["open_turns"];
    /// A usage record is stored once per call of the store.
    UsageTwice = "usage-twice", usage, records, ["usage"];
    /// An audit entry is stored once per call of the store.
    AuditTwice = "audit-twice", audit, records, ["audit"];
    /// The audit log of an erased organization stays readable.
    AuditLogKept = "audit-log-kept", audit, records, ["erasure"];
    /// A row is written although another write was executed first.
    RowOverwritten = "row-overwritten", rows, rows, ["access", "jobs"];
    /// A row is removed although another write has replaced it.
    RowRemovedAnyway = "row-removed-anyway", rows, rows, ["access"];
    /// The rows of a removed group remain.
    RowGroupKept = "row-group-kept", rows, rows, ["access", "jobs", "summaries"];
    /// A write of a job is not refused for its epoch or version: it is sent again under the stored ones.
    JobFenceOff = "job-fence-off", jobs, jobs, ["jobs"];
    /// The fence of a job is that of its last header but one.
    JobFenceOutdated = "job-fence-outdated", jobs, jobs, ["jobs"];
    /// A new job leaves no row in the index of open jobs.
    OpenJobRowMissing = "open-job-row-missing", jobs, jobs, ["jobs"];
    /// The announcement of a job leaves no row in the index of open jobs.
    JobNotAnnounced = "job-not-announced", jobs, jobs, ["jobs"];
    /// The outcome of an item is not stored.
    ItemOutcomeMissing = "item-outcome-missing", jobs, jobs, ["jobs"];
    /// An account changes at any version.
    AccountVersionIgnored = "account-version-ignored", credit, credit, ["credit"];
    /// A reservation is answered as done and is not stored.
    ReservationMissing = "reservation-missing", credit, credit, ["credit"];
    /// A reservation in a sealed block is accepted.
    SealIgnored = "seal-ignored", credit, credit, ["credit"];
    /// The second settlement of a row counts.
    SettlementRepeated = "settlement-repeated", credit, credit, ["credit"];
    /// A blob is readable before its writer has finished.
    BlobVisibleBeforeFinish = "blob-visible-before-finish", blobs, blobs, ["blobs"];
    /// The scan returns wrong times of the blobs.
    BlobTimeUnknown = "blob-time-unknown", blobs, blobs, ["blobs"];
}

/// Keys that a fault has seen in this process.
pub(crate) struct Seen<K>(Mutex<HashSet<K>>);

impl<K> Default for Seen<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq> Seen<K> {
    /// Adds a key. Returns whether the key was already added.
    pub(crate) fn is_repeated(&self, key: K) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key)
    }
}

struct Down;

#[async_trait]
impl StoreHealth for Down {
    async fn check(&self) -> Result<()> {
        Err(Error::unavailable(Reason::StoreUnavailable, "the store is down"))
    }
}
