//! What is judged.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_credit::{Account, AccountEntry, LedgerRow};
use folio_history::journal::Entry;
use folio_history::thread::{RequestRow, ThreadHeader};
use folio_types::op::OpRow;
use folio_types::{BlockId, CallId, OrgId, ThreadId, Timestamp, UserId};

use crate::faults::log::Logged;

/// What was gathered at rest.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// Every thread that lives.
    pub threads: Vec<ThreadSeen>,
    /// Every document, schema, prompt, tag and extraction that there ever was.
    pub aggregates: Vec<AggregateSeen>,
    /// The account of credit of each organization that has one.
    pub accounts: Vec<AccountSeen>,
    /// What the clients sent and heard, in the order of each client.
    pub log: Vec<Logged>,
    /// The word that each tenant puts in everything that it makes.
    pub marks: BTreeMap<OrgId, String>,
    /// Threads that stayed busy for too long.
    pub busy: Vec<StillBusy>,
    /// The audit logs; none: they are not judged.
    pub audit: Option<Vec<AuditSeen>>,
    /// When it was gathered.
    pub taken_at: Timestamp,
}

impl Evidence {
    /// What there is of one tenant.
    #[must_use]
    pub fn only(mut self, org: &OrgId) -> Self {
        self.threads.retain(|thread| thread.org == *org);
        self.aggregates.retain(|aggregate| aggregate.org == org.as_str());
        self.accounts.retain(|account| account.org == *org);
        self.log.retain(|line| line.org == *org);
        let threads = &self.threads;
        self.busy.retain(|busy| threads.iter().any(|thread| thread.id == busy.thread));
        self
    }
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            threads: Vec::new(),
            aggregates: Vec::new(),
            accounts: Vec::new(),
            log: Vec::new(),
            marks: BTreeMap::new(),
            busy: Vec::new(),
            audit: None,
            taken_at: Timestamp::now(),
        }
    }
}

/// An account as the store has it, with what led to it.
#[derive(Debug, Clone)]
pub struct AccountSeen {
    /// Its tenant.
    pub org: OrgId,
    /// The account.
    pub account: Account,
    /// All that ever changed it.
    pub entries: Vec<AccountEntry>,
    /// The calls of each block.
    pub ledgers: BTreeMap<BlockId, Vec<LedgerRow>>,
}

/// A thread as the store has it.
#[derive(Debug, Clone)]
pub struct ThreadSeen {
    /// Its tenant: the first part of its key.
    pub org: OrgId,
    /// Its id.
    pub id: ThreadId,
    /// The column that the fence compares.
    pub epoch: u64,
    /// The column that the fence compares.
    pub version: u64,
    /// The header.
    pub header: ThreadHeader,
    /// The journal, by sequence number.
    pub entries: Vec<(u64, Entry)>,
    /// How many appends left their row.
    pub batches: u64,
    /// The rows of request ids.
    pub requests: Vec<RequestRow>,
}

/// An aggregate as the store has it.
#[derive(Debug, Clone, Default)]
pub struct AggregateSeen {
    /// Its tenant: the first part of its key.
    pub org: String,
    /// Its id.
    pub id: String,
    /// Its version, which grows by one with each change; none: never made.
    pub version: Option<u64>,
    /// Whether it lives.
    pub lives: bool,
    /// Its name.
    pub name: Option<String>,
    /// Its op rows.
    pub ops: Vec<OpRow>,
    /// How many revisions it has.
    pub revisions: u64,
}

/// An entry of an audit log as the store has it.
#[derive(Debug, Clone)]
pub struct AuditSeen {
    /// The call that it is about.
    pub call: Option<CallId>,
    /// What it records.
    pub kind: String,
    /// Who did it.
    pub user: Option<UserId>,
    /// Whether it says that a call ran.
    pub ok: bool,
}

/// A thread that was busy without anybody who runs it.
#[derive(Debug, Clone)]
pub struct StillBusy {
    /// It.
    pub thread: ThreadId,
    /// For how long.
    pub since: Duration,
}
