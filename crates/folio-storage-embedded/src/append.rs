//! Creates threads and appends to their journals under a fence: executes the plan of a write in one transaction.

use folio_history::thread::Appended;
use folio_history::thread_write::{StoredState, ThreadPlan, WriteDecision};
use folio_resources::Kind;
use folio_types::Result;

use super::keys::{self, Space};
use super::reads::Reads as _;
use super::transaction::Transaction;
use super::value::{Count, Empty};
use super::{resources, threads};
use folio_storage::{EncodedThreadWrite, counted_journal_bytes};

pub(crate) fn write(transaction: &mut Transaction<'_>, write: EncodedThreadWrite) -> Result<Appended> {
    let (org, id) = write.write.thread();
    let read = StoredState {
        record: transaction.read(Space::Threads, &keys::thread(org, id))?,
        is_committed: match write.write.append() {
            Some(append) => transaction.contains(Space::Threads, &keys::batch(org, id, append.batch))?,
            None => false,
        },
        request: match write.write.request() {
            Some(row) => transaction.read(Space::Threads, &keys::request(org, id, &row.request))?,
            None => None,
        },
    };
    match write.decide(read)? {
        WriteDecision::Answer(answer) => Ok(answer),
        WriteDecision::Write(plan) => execute(transaction, *plan, write),
    }
}

fn execute(transaction: &mut Transaction<'_>, plan: ThreadPlan, write: EncodedThreadWrite) -> Result<Appended> {
    let EncodedThreadWrite { write, imported, appended, .. } = write;
    let (org, id) = write.thread();
    for referenced in plan.new_references() {
        if !resources::is_live(transaction, org, referenced)? {
            return Err(Kind::of_id(referenced)?.not_found(referenced));
        }
        threads::enter_reference(transaction, org, referenced, id)?;
    }
    for (sequence, bytes) in (0..).zip(imported).chain((plan.appends_at..).zip(appended)) {
        transaction.put_bytes(Space::Threads, keys::entry(org, id, sequence), bytes)?;
    }
    for row in &plan.requests {
        transaction.put(Space::Threads, keys::request(org, id, &row.request), row)?;
    }
    if let Some(row) = &plan.open_turn_row {
        transaction.put(Space::System, keys::open_turn(row), row)?;
    }
    for row in &plan.removed_open_turn_rows {
        transaction.remove(Space::System, keys::open_turn(row));
    }
    if let Some(batch) = plan.batch {
        transaction.put(Space::Threads, keys::batch(org, id, batch), &Empty)?;
    }
    if let Some(listed) = &plan.list_after {
        threads::put_row(transaction, org, listed)?;
    }
    let counted = counted_journal_bytes(plan.after.bytes);
    if plan.before.as_ref().is_none_or(|before| counted_journal_bytes(before.bytes) != counted) {
        transaction.put(Space::Records, keys::content_size(org, id.as_str()), &Count(counted))?;
    }
    threads::store(transaction, plan.before.as_ref(), &plan.after)?;
    Ok(Appended::Done(Box::new(plan.after)))
}
