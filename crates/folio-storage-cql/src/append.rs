//! Creates threads and appends to their journals under a fence: executes the plan of a write in steps.
//!
//! | step | partition | why it may be repeated |
//! |---|---|---|
//! | read the header; evaluate | the thread's | reads |
//! | entries of a new thread at its referenced resources | each resource's, `IF` live | an equal row changes nothing |
//! | imported entries, in a part with a random name | the thread's | invisible until the header names the part |
//! | row of the index of expiring threads | its own | a hint |
//! | row of the index of open turns | its own | a hint |
//! | the counted size of the journal, if it changes | its own | the thread's version is its timestamp |
//! | new list rows | their own | derived |
//! | **the header, with the rows of batch, requests and entries** | the thread's, `IF` fence | the row of the batch |
//! | old list rows | their own | derived |
//!
//! The row of the open turn, the size and the new list rows are written concurrently.

use folio_history::thread::{Appended, RequestRow, ThreadHeader, ThreadRecord};
use folio_history::thread_write::{StoredState, ThreadPlan, ThreadWrite, WriteDecision};
use folio_types::op::Target;
use folio_types::{Error, OrgId, RequestId, Result, ThreadId, Timestamp};

use super::catalogue::{self, ListEntry};
use super::keyspace::Keyspace;
use super::session::{ConditionalResult, Read, Statements};
use super::table::{Part, ThreadPart, ThreadRow};
use super::threads::enter_expiry;
use super::{content_sizes, crash_points, dependents, open_turns, references, retry};
use folio_storage::value::{Empty, decode, encode};
use folio_storage::{EncodedThreadWrite, counted_journal_bytes};

#[derive(Debug)]
pub(crate) struct LoadedThread {
    pub(crate) record: Option<ThreadRecord>,
    /// The expiry, in nanoseconds since the Unix epoch.
    pub(crate) expires_at: Option<i64>,
    /// The number of imported entries, and the name of the thread's creation.
    pub(crate) imported: Option<(u64, String)>,
}

impl LoadedThread {
    pub(crate) fn live(self) -> Option<ThreadHeader> {
        self.record.and_then(ThreadRecord::live)
    }
}

pub(crate) fn timestamp_from_nanoseconds(nanoseconds: i64) -> Result<Timestamp> {
    let at = Timestamp::from_nanosecond(i128::from(nanoseconds));
    at.map_err(|error| Error::internal(format!("a stored time is out of range: {error}")))
}

pub(crate) fn nanoseconds(at: Timestamp) -> Result<i64> {
    i64::try_from(at.as_nanosecond()).map_err(|_| Error::internal("a time is out of the range that can be stored"))
}

pub(crate) async fn read(keyspace: &Keyspace, org: &OrgId, id: &ThreadId, consistency: Read) -> Result<LoadedThread> {
    let row = keyspace.tables.threads.header(org, id, consistency).await?;
    let mut record: Option<ThreadRecord> = match row.live {
        Some(_) => Some(decode(&row.header)?),
        None => None,
    };
    if let Some(ThreadRecord::Live(header)) = &mut record {
        header.expires_at = row.expires_at.map(timestamp_from_nanoseconds).transpose()?;
    }
    Ok(LoadedThread { record, expires_at: row.expires_at, imported: row.imported })
}

pub(crate) async fn request(
    keyspace: &Keyspace,
    org: &OrgId,
    id: &ThreadId,
    request: &RequestId,
    consistency: Read,
) -> Result<Option<RequestRow>> {
    let key = (ThreadPart::Request, request.as_str());
    let found = keyspace.tables.threads.row(org, id, key, consistency).await?;
    found.map(|bytes| decode(&bytes)).transpose()
}

pub(crate) async fn has_batch(keyspace: &Keyspace, org: &OrgId, id: &ThreadId, batch: u128) -> Result<bool> {
    let key = batch_key(batch);
    let row = (ThreadPart::Batch, key.as_str());
    Ok(keyspace.tables.threads.row(org, id, row, Read::Serial).await?.is_some())
}

fn batch_key(batch: u128) -> String {
    format!("{batch:032x}")
}

/// Reads the rows that a write is evaluated against. The rows of the batch and of the request are read at SERIAL only.
async fn stored_state(keyspace: &Keyspace, write: &ThreadWrite, consistency: Read) -> Result<StoredState> {
    let (org, id) = write.thread();
    let record = read(keyspace, org, id, consistency).await?.record;
    if consistency == Read::Quorum || !matches!(record, Some(ThreadRecord::Live(_))) {
        return Ok(StoredState { record, ..StoredState::default() });
    }
    // The header is read first: a batch row that is missing afterwards was missing when the header was read.
    let is_committed = match write.append() {
        Some(append) => has_batch(keyspace, org, id, append.batch).await?,
        None => false,
    };
    if is_committed {
        let record = read(keyspace, org, id, Read::Serial).await?.record;
        return Ok(StoredState { record, is_committed, request: None });
    }
    let request = match write.request() {
        Some(row) => request(keyspace, org, id, &row.request, Read::Serial).await?,
        None => None,
    };
    Ok(StoredState { record, is_committed, request })
}

/// Evaluates a write and executes its plan. Only a plan may be based on QUORUM reads; every other decision is confirmed
/// by SERIAL reads.
pub(crate) async fn write(keyspace: &Keyspace, write: &EncodedThreadWrite) -> Result<Appended> {
    let (org, id) = write.write.thread();
    let (mut cached, mut consistency) = match &write.write {
        ThreadWrite::Append(_, _, append) => (keyspace.headers.get(org, id, append.fence).await, Read::Quorum),
        ThreadWrite::Create(_) | ThreadWrite::Begin(..) => (None, Read::Serial),
    };
    let (mut unknown, mut is_prepared, creation) = (0, false, format!("{:032x}", keyspace.random()));
    for attempt in 0..retry::ATTEMPTS {
        let read = match cached.take() {
            Some(header) => {
                let record = Some(ThreadRecord::Live(Box::new(header)));
                StoredState { record, ..StoredState::default() }
            }
            None => stored_state(keyspace, &write.write, consistency).await?,
        };
        let decision = write.decide(read);
        let confirmed = std::mem::replace(&mut consistency, Read::Serial);
        let plan = match decision {
            Ok(WriteDecision::Write(plan)) => *plan,
            _ if confirmed == Read::Quorum => continue,
            Ok(WriteDecision::Answer(answer)) => return Ok(answer),
            Err(error) => return Err(error),
        };
        if !is_prepared {
            prepare(keyspace, &plan, (&creation, &write.imported)).await?;
        }
        put_rows(keyspace, &plan, !is_prepared).await?;
        is_prepared = true;
        let stored = encode(&ThreadRecord::Live(Box::new(plan.after.clone())))?;
        let bytes = stored.len();
        let statements = statements(keyspace, &plan, stored, (&creation, write))?;
        if plan.before.is_some() {
            crash_points::stop_at("append");
        }
        match keyspace.commit(statements).await? {
            ConditionalResult::Applied => {
                if let Some(before) = &plan.list_before {
                    remove_old_list_rows(keyspace, &plan.after, before, plan.list_after.as_ref()).await;
                }
                keyspace.headers.insert(&plan.after, bytes).await;
                return Ok(Appended::Done(Box::new(plan.after)));
            }
            ConditionalResult::Refused => {}
            ConditionalResult::Unknown(error) => {
                unknown += 1;
                if unknown >= retry::UNKNOWN_OUTCOMES_MAX {
                    return Err(error);
                }
            }
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("the thread"))
}

/// Executes the writes of a new thread that precede its other rows. Each of them may be repeated.
async fn prepare(keyspace: &Keyspace, plan: &ThreadPlan, (creation, imported): (&str, &[Vec<u8>])) -> Result<()> {
    let (org, id) = (&plan.after.org, &plan.after.id);
    for referenced in plan.new_references() {
        references::check(keyspace, org, referenced).await?;
    }
    for referenced in plan.new_references() {
        dependents::enter(keyspace, org, referenced, (Part::Thread, id.as_str())).await?;
    }
    for (at, entry) in (0..).zip(imported) {
        keyspace.tables.threads.import((org, id), creation, at, entry.clone()).await?;
    }
    if let Some(at) = plan.after.expires_at.filter(|_| plan.before.is_none()) {
        enter_expiry(keyspace, org, id, at).await?;
    }
    Ok(())
}

/// Writes the row of the open turn (if `opens` is true), the counted size of the journal and the new list rows, all
/// acknowledged before the deciding write. The rows are in different partitions and none depends on another one, so that they
/// are written concurrently. Each of them may be repeated.
async fn put_rows(keyspace: &Keyspace, plan: &ThreadPlan, opens: bool) -> Result<()> {
    let (org, id) = (&plan.after.org, &plan.after.id);
    let open_turn = async {
        match plan.open_turn_row.as_ref().filter(|_| opens) {
            Some(row) => open_turns::replace(keyspace, row, &plan.removed_open_turn_rows).await,
            None => Ok(()),
        }
    };
    let size = async {
        let counted = counted_journal_bytes(plan.after.bytes);
        match &plan.before {
            Some(before) if counted_journal_bytes(before.bytes) == counted => Ok(()),
            _ => content_sizes::put(keyspace, org, id.as_str(), counted, plan.after.version).await,
        }
    };
    let list = async {
        let Some(after) = &plan.list_after else { return Ok(()) };
        let (before, after) = (plan.list_before.as_ref().map(ListEntry::from), ListEntry::from(after));
        catalogue::insert_new_rows(keyspace, org, Target::THREAD, before.as_ref(), &after).await
    };
    tokio::try_join!(open_turn, size, list).map(|_| ())
}

/// Returns the statements of the deciding write: one batch in the partition of the thread.
fn statements<'a>(
    keyspace: &'a Keyspace,
    plan: &ThreadPlan,
    stored: Vec<u8>,
    (creation, write): (&str, &EncodedThreadWrite),
) -> Result<Statements<'a>> {
    let (threads, after, thread) = (&keyspace.tables.threads, &plan.after, (&plan.after.org, &plan.after.id));
    let to = (after.epoch, after.version);
    let mut statements = vec![match &plan.before {
        Some(before) => {
            let expires_at = before.expires_at.map(nanoseconds).transpose()?;
            threads.append(thread, (before.epoch, before.version), expires_at, to, stored)
        }
        None => {
            let imported = (!write.imported.is_empty()).then(|| (write.imported.len() as u64, creation.to_owned()));
            let expires_at = after.expires_at.map(nanoseconds).transpose()?;
            threads.create(thread, to, ThreadRow { live: Some(true), header: stored, expires_at, imported })
        }
    }];
    if let Some(batch) = plan.batch {
        statements.push(threads.insert_if_absent(thread, (ThreadPart::Batch, &batch_key(batch)), encode(&Empty)?));
    }
    for row in &plan.requests {
        statements.push(threads.insert_if_absent(thread, (ThreadPart::Request, row.request.as_str()), encode(row)?));
    }
    for (at, entry) in (plan.appends_at..).zip(&write.appended) {
        statements.push(threads.entry(thread, at, entry.clone()));
    }
    Ok(statements)
}

/// Removes the list rows of a thread's previous title.
async fn remove_old_list_rows(
    keyspace: &Keyspace,
    header: &ThreadHeader,
    before: &folio_resources::ListEntry,
    after: Option<&folio_resources::ListEntry>,
) {
    let (before, after, version) =
        (ListEntry::from(before), after.map(ListEntry::from), header.version.saturating_add(1));
    let removed =
        catalogue::remove_old_rows(keyspace, &header.org, Target::THREAD, &before, after.as_ref(), version).await;
    if let Err(error) = removed {
        tracing::warn!(%error, thread = %header.id, "list rows stay until a reader repairs them");
    }
}
