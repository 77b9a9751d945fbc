//! A fixed sequence of writes, which a crash test interrupts.
//!
//! A process executes the steps and is killed at any point. Afterwards the store must have the rows that it has after
//! the acknowledged steps, or after these and the next one.

use bytes::Bytes;
use folio_history::thread::{Append, Fence, NewThread, OpenTurnRow};
use folio_resources::{Resource as _, Tag, TextState};
use folio_storage::{IngestUpdate, NewPage, Stores};
use folio_types::op::{ClosedAs, Expected, IdempotencyRecord, OpRow, Target};
use folio_types::{Digest, DocumentId, Incarnation, Reason, TagId, ThreadId, Timestamp, TurnId};

use super::context::{Context, blob_key};
use super::sample::{SAMPLES, Sampled, Seed, Step};
use super::threads_append::{batch, ended, request};
use super::{Failure, Outcome};

/// Number of steps that do not write a resource.
const OTHERS: usize = 12;

/// The number of steps. The last ones delete one resource of each kind.
pub const STEPS: usize = 3 * SAMPLES.len() + OTHERS;

/// Returns the context of a step, whose times and keys follow from its number.
fn context(stores: &Stores, step: usize) -> Context {
    let step = u32::try_from(step).unwrap_or(0);
    let context = Context::new(stores.clone(), "scenario", "");
    context.since(1_790_000_000 + i64::from(step)).numbered(100 * u64::from(step))
}

fn document() -> DocumentId {
    DocumentId::derive(&["scenario"])
}

fn thread() -> ThreadId {
    ThreadId::derive(&["scenario"])
}

fn begun_thread() -> ThreadId {
    ThreadId::derive(&["scenario", "begun"])
}

fn append(context: &Context, step: usize, epoch: u64, version: u64) -> Result<Append, Failure> {
    let number = u32::try_from(step).unwrap_or(0);
    let entries = vec![ended(number, "entry"), ended(number, &"long ".repeat(2000))];
    let mut append = batch(context, Fence { epoch, version }, entries);
    append.request = Some(request(context, number)?);
    append.change.title = Some(format!("title {step}"));
    append.change.turns = Some(number);
    Ok(append)
}

/// Executes one step: one atomic write, except for the deletion of a thread, whose rows a store may remove in pages.
pub async fn step(stores: &Stores, step: usize) -> Outcome {
    let kinds = SAMPLES.len();
    let links: Vec<_> = SAMPLES.iter().map(|sampled| (sampled.id)(&["scenario"])).collect();
    let seed = |name: &str| Seed::named(name).linked(&links);
    if let Some(sampled) = SAMPLES.get(step) {
        return Ok(change(stores, step, sampled, "scenario", Expected::Absent, Step::Create(seed("Name"))).await??);
    }
    if let Some(sampled) = SAMPLES.get(step - kinds) {
        if sampled.is_immutable {
            // A second resource, so that the step writes.
            return Ok(change(stores, step, sampled, "second", Expected::Absent, Step::Create(seed("Second"))).await??);
        }
        let update = Step::Update(seed("Renamed").with(2));
        return Ok(change(stores, step, sampled, "scenario", Expected::Version(1), update).await??);
    }
    if step < 2 * kinds + OTHERS {
        return other(stores, step, step - 2 * kinds).await;
    }
    // Parents first: their children are deleted with them.
    let (children, parents): (Vec<_>, Vec<_>) = SAMPLES.iter().rev().partition(|sampled| sampled.kind.has_parent);
    let Some(sampled) = parents.into_iter().chain(children).nth(step - 2 * kinds - OTHERS) else { return Ok(()) };
    let version = Expected::Version(if sampled.is_immutable { 1 } else { 2 });
    match change(stores, step, sampled, "scenario", version, Step::Delete).await? {
        Err(error) if sampled.is_single() && error.reason == Reason::InUse => Ok(()),
        deleted => Ok(deleted?),
    }
}

async fn change(
    stores: &Stores,
    step: usize,
    sampled: &Sampled,
    part: &str,
    expected: Expected,
    change: Step,
) -> Result<folio_types::Result<()>, Failure> {
    let write = context(stores, step).write(expected, change)?;
    Ok(stores.resources.decide((sampled.write)(&(sampled.id)(&[part]), write)?).await.map(drop))
}

async fn other(stores: &Stores, step: usize, number: usize) -> Outcome {
    let context = context(stores, step);
    let org = &context.org;
    match number {
        0 => {
            let mut writer = stores.blobs.create(&blob_key(org, &document())).await?;
            writer.write(Bytes::from_static(b"the ")).await?;
            writer.write(Bytes::from_static(b"bytes")).await?;
            writer.finish().await?;
        }
        1 => {
            let pages = (1..=3).map(|number| NewPage::of_text(number, format!("page {number}"))).collect();
            let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: context.now() };
            stores.texts.ingest(org, document().as_str(), update).await?;
        }
        2 => {
            let new = NewThread { id: thread(), ..context.new_thread(&[document()]) };
            stores.threads.create(new).await?;
        }
        3 => {
            let mut append = append(&context, step, 0, 0)?;
            append.new_owner = Some((1, Incarnation::derive(&["scenario"])));
            let (turn, until) = (TurnId::new(thread(), 1), Timestamp::constant(1_800_000_000, 0));
            append.opens = Some(OpenTurnRow { org: org.clone(), turn, epoch: 1, at: context.now(), until });
            stores.threads.append(org, &thread(), append).await?;
        }
        4 => drop(stores.threads.append(org, &thread(), append(&context, step, 1, 1)?).await?),
        5 => drop(stores.threads.append(org, &thread(), append(&context, step, 1, 2)?).await?),
        6 => stores.usage.record(context.usage_record("call"), context.now()).await?,
        7 => {
            let (target, digest) = (Tag::target(&TagId::derive(&["scenario"])), Digest::of(b"scenario"));
            let closed = OpRow::closed(context.op()?, digest, ClosedAs::Aborted, context.now());
            stores.ops.close(org, &target, closed).await?;
        }
        8 => stores.threads.expire_referrers(org, document().as_str(), context.now()).await?,
        9 => stores.threads.delete(org, &thread(), None).await?,
        10 => {
            let owner = Some((1, Incarnation::derive(&["scenario"])));
            let first = Append { new_owner: owner, ..append(&context, step, 0, 0)? };
            stores.threads.begin(NewThread { id: begun_thread(), ..context.new_thread(&[]) }, first).await?;
        }
        _ => {
            let (target, digest) = (Target::thread(&begun_thread()), Digest::of(b"rename"));
            let row = IdempotencyRecord { target, digest, at: context.now() };
            stores.ops.record_request(org, &context.op()?, row).await?;
        }
    }
    Ok(())
}
