//! Input of the checker.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_credit::{Account, AccountEntry, LedgerRow};
use folio_history::job::{ItemOutcome, JobHeader, JobPage};
use folio_history::journal::Entry;
use folio_history::thread::{RequestRow, ThreadHeader};
use folio_types::op::OpRow;
use folio_types::{BlockId, CallId, JobId, OrgId, ThreadId, Timestamp, UserId};
use llm_sim::{Outcome, RecordedRequest};
use serde_json::Value;

use crate::faults::log::Logged;

/// State that was collected when no turn was running.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    pub threads: Vec<ObservedThread>,
    /// Every document, schema, prompt, tag, extraction and proposal, including deleted ones.
    pub aggregates: Vec<ObservedAggregate>,
    /// Every job that is not deleted, also deliveries to webhook endpoints.
    pub jobs: Vec<ObservedJob>,
    pub accounts: Vec<ObservedAccount>,
    /// Requests of chats and embeddings that the model endpoint received, in order. None: they are not checked.
    pub model_requests: Option<Vec<ObservedModelRequest>>,
    /// Requests and responses of the clients, in the order of each client.
    pub log: Vec<Logged>,
    /// Marker of each tenant. All names and texts that the tenant creates contain its marker.
    pub markers: BTreeMap<OrgId, String>,
    /// Threads that were still busy at a time limit.
    pub busy: Vec<StuckThread>,
    /// Entries of the audit logs. None: they are not checked.
    pub audit: Option<Vec<ObservedAuditEntry>>,
    pub taken_at: Timestamp,
}

impl Evidence {
    /// Restricts the evidence to one tenant.
    #[must_use]
    pub fn only(mut self, org: &OrgId) -> Self {
        self.jobs.retain(|job| job.org == *org);
        self.threads.retain(|thread| thread.org == *org);
        self.aggregates.retain(|aggregate| aggregate.org == org.as_str());
        self.accounts.retain(|account| account.org == *org);
        self.log.retain(|line| line.org == *org);
        let (threads, jobs) = (&self.threads, &self.jobs);
        let is_of = |request: &ObservedModelRequest| {
            let owner = request.key.as_deref().and_then(|key| key.split('.').next());
            let thread = owner.and_then(|id| id.parse::<ThreadId>().ok());
            let job = owner.and_then(|id| id.parse::<JobId>().ok());
            thread.is_none_or(|id| threads.iter().any(|thread| thread.id == id))
                && job.is_none_or(|id| jobs.iter().any(|job| job.id == id))
        };
        if let Some(requests) = &mut self.model_requests {
            requests.retain(is_of);
        }
        self.busy.retain(|busy| threads.iter().any(|thread| thread.id == busy.thread));
        self
    }
}

/// A chat request in the record of the model endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedModelRequest {
    /// Ledger key of the call, from the header `X-Client-Request-Id`. A key starts with the id of the thread or
    /// of the job.
    pub key: Option<String>,
    /// Body, or its hash.
    pub body: Value,
    /// True if the endpoint refused the request, so that it costs nothing.
    pub is_refused: bool,
}

impl From<&RecordedRequest> for ObservedModelRequest {
    fn from(request: &RecordedRequest) -> Self {
        Self {
            key: request.header("x-client-request-id").map(str::to_owned),
            body: request.body.clone(),
            is_refused: matches!(request.outcome, Outcome::Failed(_)),
        }
    }
}

/// A stored account with its history.
#[derive(Debug, Clone)]
pub struct ObservedAccount {
    pub org: OrgId,
    pub account: Account,
    pub entries: Vec<AccountEntry>,
    pub ledgers: BTreeMap<BlockId, Vec<LedgerRow>>,
}

#[derive(Debug, Clone)]
pub struct ObservedThread {
    pub org: OrgId,
    pub id: ThreadId,
    /// Column `epoch`, which fences writes.
    pub epoch: u64,
    /// Column `version`, which fences writes.
    pub version: u64,
    pub header: ThreadHeader,
    /// Journal entries by sequence number.
    pub entries: Vec<(u64, Entry)>,
    pub batches: u64,
    pub requests: Vec<RequestRow>,
}

#[derive(Debug, Clone)]
pub struct ObservedJob {
    pub org: OrgId,
    pub id: JobId,
    /// Column `epoch`, which fences writes.
    pub epoch: u64,
    /// Column `version`, which fences writes.
    pub version: u64,
    pub header: JobHeader,
    /// Rows of outcomes with the number of the item in their keys, in order.
    pub outcomes: Vec<(u32, ItemOutcome)>,
    /// Number of committed writes.
    pub batches: u64,
    /// Stored pages by number, without the first one unless it has ended.
    pub pages: BTreeMap<u32, JobPage>,
    /// True if the index of open jobs has a row of the job.
    pub is_indexed: bool,
}

#[derive(Debug, Clone, Default)]
pub struct ObservedAggregate {
    pub org: String,
    pub id: String,
    /// Version, which each change increments. None: never created.
    pub version: Option<u64>,
    /// True if the aggregate is not deleted.
    pub is_live: bool,
    pub name: Option<String>,
    /// The stored resource as JSON. Null: it is deleted.
    pub live: Value,
    pub ops: Vec<OpRow>,
    pub revisions: u64,
}

#[derive(Debug, Clone)]
pub struct ObservedAuditEntry {
    /// Call that the entry is about.
    pub call: Option<CallId>,
    pub kind: String,
    pub user: Option<UserId>,
    /// True if the entry records a successful call.
    pub ok: bool,
}

/// A thread that was still busy at a time limit.
#[derive(Debug, Clone)]
pub struct StuckThread {
    pub thread: ThreadId,
    /// Time without progress.
    pub since: Duration,
    /// Why the thread counts as busy.
    pub reason: String,
}
