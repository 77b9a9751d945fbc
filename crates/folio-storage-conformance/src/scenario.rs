//! A fixed sequence of writes, which a crash test interrupts.
//!
//! A process executes the steps and is killed at any point. Afterwards the store must have the rows that it has after
//! the acknowledged steps, or after these and the next one.

use bytes::Bytes;
use folio_history::thread::{Append, Fence, NewThread, OpenTurnRow, RequestRow};
use folio_resources::{Resource as _, Tag, TextState};
use folio_storage::{IngestUpdate, NewPage, Stores, UsageRecord};
use folio_types::message::Usage;
use folio_types::op::{ClosedAs, Expected, IdempotencyRecord, OpKey, Target, Write};
use folio_types::{Digest, DocumentId, Incarnation, OrgId, Reason, Result, TagId, ThreadId, Timestamp, TurnId, UserId};

use super::sample::{SAMPLES, Sampled, Seed, Step};
use super::threads_append::ended;

/// Steps that are no writes of resources.
const OTHERS: usize = 12;

/// The number of steps. The last ones delete one resource of each kind.
pub const STEPS: usize = 3 * SAMPLES.len() + OTHERS;

fn org() -> OrgId {
    OrgId::derive(&["scenario"])
}

fn user() -> UserId {
    UserId::derive(&["scenario"])
}

fn at(step: usize) -> Timestamp {
    let seconds = i64::try_from(step).unwrap_or(0);
    Timestamp::from_second(1_790_000_000 + seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn document() -> DocumentId {
    DocumentId::derive(&["scenario"])
}

fn thread() -> ThreadId {
    ThreadId::derive(&["scenario"])
}

fn begun() -> ThreadId {
    ThreadId::derive(&["scenario", "begun"])
}

fn op(step: usize) -> Result<OpKey> {
    Ok(OpKey::Request { user: user(), request: format!("step-{step}").parse()? })
}

fn new_thread(step: usize, id: ThreadId, documents: Vec<DocumentId>) -> NewThread {
    NewThread {
        id,
        org: org(),
        user: user(),
        profile: "document".into(),
        documents,
        title: String::new(),
        model: None,
        ephemeral: false,
        expires_at: None,
        imported: vec![],
        request: None,
        at: at(step),
    }
}

fn open_turn() -> OpenTurnRow {
    OpenTurnRow { org: org(), turn: TurnId::new(thread(), 1), epoch: 1, until: at(1_000_000) }
}

fn append(step: usize, epoch: u64, version: u64) -> Result<Append> {
    let number = u32::try_from(step).unwrap_or(0);
    let mut append = Append {
        batch: step as u128,
        fence: Fence { epoch, version },
        entries: vec![ended(number, "entry"), ended(number, &"long ".repeat(2000))],
        new_owner: None,
        change: folio_history::thread::HeaderChange::default(),
        request: Some(RequestRow {
            request: format!("ask-{step}").parse()?,
            turn: number,
            digest: Digest::of(b"request"),
        }),
        opens: None,
        at: at(step),
    };
    append.change.title = Some(format!("title {step}"));
    append.change.turns = Some(number);
    Ok(append)
}

/// Executes one step: one atomic write.
///
/// # Errors
/// The errors of the store.
pub async fn step(stores: &Stores, step: usize) -> Result<()> {
    let kinds = SAMPLES.len();
    let links: Vec<_> = SAMPLES.iter().map(|sampled| (sampled.id)(&["scenario"])).collect();
    let seed = |name: &str| Seed::named(name).linked(&links);
    if let Some(sampled) = SAMPLES.get(step) {
        return change(stores, step, sampled, "scenario", Expected::Absent, Step::Create(seed("Name"))).await;
    }
    if let Some(sampled) = SAMPLES.get(step - kinds) {
        if sampled.is_immutable {
            // A second resource, so that the step writes.
            return change(stores, step, sampled, "second", Expected::Absent, Step::Create(seed("Second"))).await;
        }
        return change(stores, step, sampled, "scenario", Expected::Version(1), Step::Update(seed("Renamed").with(2)))
            .await;
    }
    if step < 2 * kinds + OTHERS {
        return other(stores, step, step - 2 * kinds).await;
    }
    // Parents first: their children are deleted with them.
    let (children, parents): (Vec<_>, Vec<_>) = SAMPLES.iter().rev().partition(|sampled| sampled.kind.has_parent);
    let Some(sampled) = parents.into_iter().chain(children).nth(step - 2 * kinds - OTHERS) else { return Ok(()) };
    let version = Expected::Version(if sampled.is_immutable { 1 } else { 2 });
    match change(stores, step, sampled, "scenario", version, Step::Delete).await {
        Err(error) if sampled.is_single() && error.reason == Reason::InUse => Ok(()),
        deleted => deleted,
    }
}

async fn change(
    stores: &Stores,
    step: usize,
    sampled: &Sampled,
    part: &str,
    expected: Expected,
    change: Step,
) -> Result<()> {
    let (digest, by, at) = (Digest::of(b"scenario"), user(), at(step));
    let write = Write { org: org(), op: op(step)?, digest, by, at, expected, change };
    stores.resources.decide((sampled.write)(&(sampled.id)(&[part]), write)?).await.map(drop)
}

async fn other(stores: &Stores, step: usize, number: usize) -> Result<()> {
    match number {
        0 => {
            let mut writer = stores.blobs.create(&org(), &document()).await?;
            writer.write(Bytes::from_static(b"the ")).await?;
            writer.write(Bytes::from_static(b"bytes")).await?;
            writer.finish().await?;
        }
        1 => {
            let pages = (1..=3).map(|number| NewPage { number, text: format!("page {number}") }).collect();
            let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: at(step) };
            stores.texts.ingest(&org(), document().as_str(), update).await?;
        }
        2 => drop(stores.threads.create(new_thread(step, thread(), vec![document()])).await?),
        3 => {
            let mut append = append(step, 0, 0)?;
            append.new_owner = Some((1, Incarnation::derive(&["scenario"])));
            append.opens = Some(open_turn());
            stores.threads.append(&org(), &thread(), append).await?;
        }
        4 => drop(stores.threads.append(&org(), &thread(), append(step, 1, 1)?).await?),
        5 => drop(stores.threads.append(&org(), &thread(), append(step, 1, 2)?).await?),
        6 => {
            let record = UsageRecord {
                org: org(),
                user: user(),
                key: "call".into(),
                operation: "chat".into(),
                model: "model".into(),
                usage: Usage::default(),
                completed: true,
                document: None,
                charged: None,
                at: at(step),
            };
            stores.usage.record(record).await?;
        }
        7 => {
            let (target, digest) = (Tag::target(&TagId::derive(&["scenario"])), Digest::of(b"scenario"));
            stores.ops.close(&org(), &target, &op(step)?, &digest, ClosedAs::Aborted, at(step)).await?;
        }
        8 => stores.threads.expire_referrers(&org(), document().as_str(), at(100)).await?,
        9 => stores.threads.delete(&org(), &thread(), None).await?,
        10 => {
            let first = Append { new_owner: Some((1, Incarnation::derive(&["scenario"]))), ..append(step, 0, 0)? };
            stores.threads.begin(new_thread(step, begun(), vec![]), first).await?;
        }
        _ => {
            let row =
                IdempotencyRecord { target: Target::thread(&begun()), digest: Digest::of(b"rename"), at: at(step) };
            stores.ops.record_request(&org(), &op(step)?, row).await?;
        }
    }
    Ok(())
}
