//! Executes the write plans of resources in steps.
//!
//! | step | partition | why it may be repeated |
//! |---|---|---|
//! | read the target (unless a tool call creates it) and the op row (of a tool call only in a retry); evaluate | the target's | reads |
//! | idempotency record of the request | its own, `IF NOT EXISTS` | the same record again changes nothing |
//! | name | its own, `IF NOT EXISTS` or `IF` equal to the dead row that was read | an equal row changes nothing |
//! | references | the referenced resource's, with its count | the same entry again changes nothing |
//! | names of revisions | the named revision's, `IF` its row of names is the one that was read | the same name again changes nothing |
//! | entry of a dependent | the parent's, `IF` it is live | the same row again changes nothing |
//! | new rows of the catalogue | their own, unconditional | equal rows change nothing |
//! | **deciding write: change with op row** | the target's, `IF version`, op row `IF NOT EXISTS` | the op row |
//! | old rows of the catalogue, old name, old references | as above | only dead rows are removed |
//!
//! After a refused or unknown deciding write, the state is read at SERIAL and evaluated again. Only a plan may be based
//! on QUORUM reads; every other decision is confirmed by SERIAL reads. A lost write leaves rows that are dead, or open
//! until its op is closed: see [`super::names`], [`super::references`] and [`super::idempotency`].

use folio_resources::{
    DecidingWrite, Record, ResourceWrite, RowWrite, StoredState, WriteDecision, WritePlan, decide as evaluate,
};
use folio_types::op::{Expected, OpKey, OpRow, OpState, WriteOutcome};
use folio_types::{Error, Reason, Result};

use super::catalogue::{self, ListEntry};
use super::keyspace::Keyspace;
use super::record::{LoadedResource, load};
use super::revisions::ReadRevisions;
use super::session::{ConditionalResult, Read, Statements};
use super::table::Part;
use super::values::micros;
use super::{crash_points, dependents, idempotency, names, ops, references, retry, revisions};
use folio_storage::value::{OpData, OpDataIndexRow, encode};

enum Step {
    Done(OpRow),
    VersionMismatch,
    Retry(Option<Error>),
}

pub(crate) async fn decide(keyspace: &Keyspace, write: &ResourceWrite) -> Result<WriteOutcome> {
    let mut attempt = Attempt { keyspace, write, entered: None, is_in_flight: false, all_named: None };
    let decided = attempt.run().await;
    let decided = close_before_failure(keyspace, write, decided, attempt.is_in_flight).await;
    if let Some(entered) = &attempt.entered {
        // Another write was applied instead, or the outcome is unknown: the entered rows may be dangling. An op that has
        // an op row writes nothing afterwards, and no other op creates the resource, whose id is derived from the op.
        let creates_nothing = write.expected == Expected::Absent && decided.is_ok();
        let version = if creates_nothing { entered.version } else { 0 };
        let repaired = catalogue::repair_row(keyspace, &write.org, &ListEntry { version, ..entered.clone() }).await;
        if let Err(error) = repaired {
            tracing::warn!(%error, id = write.id, "list rows of a failed write stay until a reader repairs them");
        }
    }
    decided
}

/// Closes the op of a request before a failure is reported, because a deciding write of an earlier attempt may still be
/// applied: one of this call (`is_in_flight`), or one of an earlier call with the same request, which entered the record
/// of the request. The owner of a tool call closes its op by itself.
async fn close_before_failure(
    keyspace: &Keyspace,
    write: &ResourceWrite,
    decided: Result<WriteOutcome>,
    is_in_flight: bool,
) -> Result<WriteOutcome> {
    let is_failure = match &decided {
        Ok(WriteOutcome::Row(_)) => false,
        // Versions only grow, so a write that expects an earlier version can no longer be applied.
        Ok(WriteOutcome::VersionMismatch) => is_in_flight,
        Err(error) if is_unanswered(error) => false,
        Err(_) => is_in_flight || idempotency::is_entered(keyspace, write).await?,
    };
    if !is_failure || !matches!(write.op, OpKey::Request { .. }) {
        return decided;
    }
    let (op, digest) = (write.op.clone(), write.digest.clone());
    let closed = OpRow { op, digest, state: OpState::Aborted, at: keyspace.now() };
    let row = ops::close(keyspace, &write.org, &write.id, closed).await?;
    if matches!(row.state, OpState::Done(_)) { Ok(WriteOutcome::Row(row)) } else { decided }
}

/// Returns true if the store did not answer, so that the outcome of a write may be unknown.
fn is_unanswered(error: &Error) -> bool {
    error.reason == Reason::StoreUnavailable && !error.is_contended()
}

struct Attempt<'a> {
    keyspace: &'a Keyspace,
    write: &'a ResourceWrite,
    /// The catalogue rows that were entered for a write whose commit is not confirmed.
    entered: Option<ListEntry>,
    /// True if the outcome of a deciding write was unknown.
    is_in_flight: bool,
    /// The revisions of the target in the expected version, if all are named.
    all_named: Option<ReadRevisions>,
}

impl Attempt<'_> {
    async fn run(&mut self) -> Result<WriteOutcome> {
        let (mut consistency, mut unknown, mut attempts) = (Read::Quorum, 0, 0);
        loop {
            let step = self.step(consistency).await;
            match (step, consistency) {
                (Ok(Step::Done(row)), _) => return Ok(WriteOutcome::Row(row)),
                (Ok(Step::VersionMismatch), Read::Serial) => return Ok(WriteOutcome::VersionMismatch),
                (Err(error), Read::Serial) => return Err(error),
                (Err(error), _) if is_unanswered(&error) => return Err(error),
                (Ok(Step::VersionMismatch) | Err(_), Read::Quorum) => {}
                (Ok(Step::Retry(error)), _) => {
                    attempts += 1;
                    if let Some(error) = error {
                        unknown += 1;
                        if unknown >= retry::UNKNOWN_OUTCOMES_MAX {
                            return Err(error);
                        }
                    }
                    if attempts >= retry::ATTEMPTS {
                        return Err(retry::contended("the target"));
                    }
                    retry::pause(attempts, self.keyspace.random()).await;
                }
            }
            consistency = Read::Serial;
        }
    }

    async fn step(&mut self, consistency: Read) -> Result<Step> {
        let (keyspace, write) = (self.keyspace, self.write);
        // A tool call derives the id of the resource that it creates, and recovery of a call starts with its op row. So
        // the first attempt expects that the target was never written; the deciding write has that condition.
        let is_new = write.expected == Expected::Absent && matches!(write.op, OpKey::Call(_));
        let loaded = match consistency {
            Read::Quorum if is_new => LoadedResource::default(),
            _ => load(keyspace, &write.org, &write.id, consistency).await?,
        };
        // The version is read first: an op row that is missing afterwards was missing when the version was read. The
        // first attempt of a tool call does not read the op row, because its recovery did: the deciding write inserts
        // the row on condition that it is missing, and every other decision is confirmed by SERIAL reads.
        let op_row = match (consistency, &write.op) {
            (Read::Quorum, OpKey::Call(_)) => None,
            _ => ops::row_with_data(keyspace, &write.org, &write.id, &write.op.to_string(), consistency).await?,
        };
        let is_request_id_used = op_row.is_none() && idempotency::is_taken(keyspace, write).await?;
        let newest = match &loaded.record {
            Some(Record::Live(fields)) if op_row.is_none() && write.reads_revisions(loaded.record.as_ref()) => {
                fields.revision
            }
            _ => None,
        };
        let read = match newest {
            Some(newest) => self.revisions(newest).await?,
            None => Some(ReadRevisions::default()),
        };
        let Some(read) = read else { return Ok(Step::Retry(None)) };
        let (uses, record) = (loaded.header.uses, loaded.header.record.filter(|_| loaded.header.version.is_some()));
        let state = StoredState { record, op_row, is_request_id_used, revisions: read.stored.clone() };
        let plan = match evaluate(write, &state)? {
            WriteDecision::Recorded(row) => return Ok(Step::Done(*row)),
            WriteDecision::VersionMismatch => return Ok(Step::VersionMismatch),
            WriteDecision::Write(plan) => *plan,
        };
        self.check(&plan, uses).await?;
        self.reserve(&plan).await?;
        let statements = statements(keyspace, &plan, &read)?;
        crash_points::stop_at("decision");
        match keyspace.commit(statements).await? {
            ConditionalResult::Applied => {
                self.entered = None;
                if let Err(error) = self.settle(&plan).await {
                    tracing::warn!(%error, id = plan.id, "old rows of a write stay until a reader repairs them");
                }
                Ok(Step::Done(plan.answer))
            }
            ConditionalResult::Refused => Ok(Step::Retry(None)),
            ConditionalResult::Unknown(error) => {
                self.is_in_flight = true;
                Ok(Step::Retry(Some(error)))
            }
        }
    }

    /// Returns the revisions of the target in the expected version, whose newest revision is given. None: the target has
    /// another version. The confirmation of a refusal at SERIAL evaluates no names again: versions only grow, so the
    /// revisions are the same, and a refusal because all were named when they were read writes nothing.
    async fn revisions(&mut self, newest: u32) -> Result<Option<ReadRevisions>> {
        if self.all_named.is_none() {
            let read = revisions::stored(self.keyspace, &self.write.org, &self.write.id, newest).await?;
            match read {
                Some(read) if read.unnamed.is_none() => self.all_named = Some(read),
                read => return Ok(read),
            }
        }
        Ok(self.all_named.clone())
    }

    /// Refuses a plan that current rows contradict, before any row is reserved.
    async fn check(&self, plan: &WritePlan, uses: u64) -> Result<()> {
        let (keyspace, org) = (self.keyspace, &plan.org);
        // Without a request record, the reservation of the name is the first write, and it refuses a taken name by itself.
        if let Some(name) = &plan.reserve_name
            && plan.request.is_some()
        {
            names::check(keyspace, org, (plan.kind.name, name), &plan.id, &plan.op).await?;
        }
        for referenced in &plan.add_references {
            references::check(keyspace, org, referenced).await?;
        }
        for name in &plan.name_revisions {
            revisions::check(keyspace, org, name).await?;
        }
        if let Some(parent) = &plan.add_to_parent {
            references::check(keyspace, org, parent).await?;
        }
        if let DecidingWrite::Delete { if_unreferenced: true, .. } = &plan.deciding_write
            && uses > 0
        {
            references::refuse_if_used(keyspace, org, plan.kind.name, &plan.id, uses).await?;
        }
        Ok(())
    }

    /// Executes the writes before the deciding write.
    async fn reserve(&mut self, plan: &WritePlan) -> Result<()> {
        let (keyspace, org) = (self.keyspace, &plan.org);
        if let Some(request) = &plan.request {
            idempotency::enter(keyspace, org, &plan.op, request.clone()).await?;
        }
        if let Some(name) = &plan.reserve_name {
            names::claim(keyspace, org, (plan.kind.name, name), &plan.id, &plan.op).await?;
        }
        for referenced in &plan.add_references {
            references::add(keyspace, org, referenced, &plan.id, &plan.op.to_string()).await?;
        }
        for name in &plan.name_revisions {
            revisions::add_name(keyspace, org, name).await?;
        }
        for row in &plan.rows {
            if let RowWrite::PutData { version, op, .. } = row {
                let (org, id, version, op) = (org.clone(), plan.id.clone(), *version, op.clone());
                let index_row = OpDataIndexRow { org, id, version, op, at: plan.at, has_ended: false };
                ops::put_data_index(keyspace, &index_row).await?;
            }
        }
        if let Some(parent) = &plan.add_to_parent {
            dependents::enter(keyspace, org, parent, (Part::Dependent, &plan.id)).await?;
        }
        if let Some(after) = &plan.list_after {
            let (before, after) = (plan.list_before.as_ref().map(ListEntry::from), ListEntry::from(after));
            self.entered = Some(after.clone());
            catalogue::insert_new_rows(keyspace, org, plan.kind.name, before.as_ref(), &after).await?;
        }
        Ok(())
    }

    /// Removes the rows that the deciding write made obsolete.
    async fn settle(&self, plan: &WritePlan) -> Result<()> {
        let (keyspace, org) = (self.keyspace, &plan.org);
        if let Some(before) = &plan.list_before {
            let (before, after) = (ListEntry::from(before), plan.list_after.as_ref().map(ListEntry::from));
            catalogue::remove_old_rows(keyspace, org, plan.kind.name, &before, after.as_ref(), plan.version()).await?;
        }
        if let Some(name) = &plan.free_name {
            names::free(keyspace, org, (plan.kind.name, name), &plan.id).await?;
        }
        for referenced in &plan.remove_references {
            references::remove_dead(keyspace, org, referenced, &plan.id).await?;
        }
        Ok(())
    }
}

/// Returns the statements of the deciding write: one batch in one partition.
fn statements<'a>(keyspace: &'a Keyspace, plan: &WritePlan, read: &ReadRevisions) -> Result<Statements<'a>> {
    let (aggregates, org, id) = (&keyspace.tables.aggregates, &plan.org, plan.id.as_str());
    let mut statements = vec![match &plan.deciding_write {
        DecidingWrite::Create { record } => aggregates.create(org, id, record.clone(), micros(plan.at)),
        DecidingWrite::Update { from, to, record } => {
            aggregates.change(org, id, (*from, *to), (true, record.clone()), false)
        }
        DecidingWrite::Delete { from, to, record, if_unreferenced } => {
            aggregates.change(org, id, (*from, *to), (false, record.clone()), *if_unreferenced)
        }
    }];
    for row in &plan.rows {
        match row {
            RowWrite::InsertOp(row) => {
                statements.push(aggregates.insert_if_absent(org, id, (Part::Op, &row.op.to_string()), encode(row)?));
            }
            RowWrite::PutData { version, data, .. } => {
                let row = (Part::Data, &*ops::data_key(*version));
                statements.push(aggregates.insert(org, id, row, encode(&OpData(data.clone()))?));
            }
            RowWrite::PutRevision { number, stored, names } => {
                let key = revisions::key(*number);
                statements.push(aggregates.insert(org, id, (Part::Revision, &key), stored.clone()));
                statements.push(aggregates.insert(org, id, (Part::Names, &key), encode(names)?));
            }
            RowWrite::RemoveRevision(number) => {
                let key = revisions::key(*number);
                let unnamed = read.unnamed.as_ref().filter(|(unnamed, _)| unnamed == number);
                let names = unnamed.map(|(_, names)| names.clone()).unwrap_or_default();
                statements.push(aggregates.remove_equal(org, id, (Part::Names, &key), names));
                statements.push(aggregates.remove(org, id, (Part::Revision, &key)));
            }
        }
    }
    if let Some(numbers) = read.numbers_after(&plan.rows) {
        statements.push(aggregates.insert(org, id, (Part::Numbers, revisions::NUMBERS), encode(&numbers)?));
    }
    Ok(statements)
}
