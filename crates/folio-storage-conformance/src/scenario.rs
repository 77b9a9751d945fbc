//! A fixed sequence of writes, and a dump of all readable state, which a crash test compares.
//!
//! A process executes the steps and is killed at some point. Afterwards the dump must equal the dump after the
//! acknowledged steps, or after these and the step in progress.

use bytes::Bytes;
use folio_history::thread::{Append, Fence, OpenTurnRow, RequestRow};
use folio_resources::{
    Document, DocumentChange, DocumentFilter, DocumentPatch, Extraction, ExtractionChange, Organization,
    OrganizationChange, Prompt, PromptChange, PromptFilter, Resource as _, Schema, SchemaChange, SchemaFilter, Tag,
    TagChange, TagFilter, TextState,
};
use folio_types::message::Usage;
use folio_types::op::{ClosedAs, Expected, IdempotencyRecord, OpKey, Target, Write};
use folio_types::page::{Order, PageRequest};
use folio_types::{
    Digest, DocumentId, ExtractionId, Incarnation, OrgId, PromptId, PromptRevId, Result, SchemaId, SchemaRevId, TagId,
    ThreadId, Timestamp, TurnId, UserId,
};
use futures::TryStreamExt as _;
use serde_json::json;

use super::Failure;
use super::context::{create_document, create_extraction};
use super::sample::{Sample as _, Seed};
use super::threads_append::ended;
use folio_storage::{IngestUpdate, NewPage, NewThread, Stores, ThreadFilter, UsageRecord, Waits};

/// The number of steps.
pub const STEPS: usize = 26;

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

fn extractions() -> folio_resources::ExtractionFilter {
    folio_resources::ExtractionFilter { document: document(), prompt: None }
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

fn schema() -> SchemaId {
    SchemaId::derive(&["scenario"])
}

fn prompt() -> PromptId {
    PromptId::derive(&["scenario"])
}

fn tag() -> TagId {
    TagId::derive(&["scenario"])
}

fn extraction(number: usize) -> ExtractionId {
    ExtractionId::derive(&["scenario", &number.to_string()])
}

fn op(step: usize) -> Result<OpKey> {
    Ok(OpKey::Request { user: user(), request: format!("step-{step}").parse()? })
}

fn write<C>(step: usize, version: u64, change: C) -> Result<Write<C>> {
    Ok(Write {
        org: org(),
        op: op(step)?,
        digest: Digest::of(b"scenario"),
        by: user(),
        at: at(step),
        expected: if version == 0 { Expected::Absent } else { Expected::Version(version) },
        change,
    })
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
        take: None,
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
/// Those of the store.
pub async fn step(stores: &Stores, step: usize) -> Result<()> {
    match step {
        0..8 => first_steps(stores, step).await,
        8..16 => middle_steps(stores, step).await,
        _ => last_steps(stores, step).await,
    }
}

async fn first_steps(stores: &Stores, step: usize) -> Result<()> {
    match step {
        0 => {
            let create = OrganizationChange::Create { name: "scenario".to_owned() };
            let write = Write::by_platform(OrgId::platform(), "scenario".parse()?, at(step), Expected::Absent, create);
            drop(stores.of::<Organization>().decide(&org(), write).await?);
        }
        1 => drop(stores.of::<Tag>().decide(&tag(), write(step, 0, Tag::create(&Seed::named("Tag")))?).await?),
        2 => {
            let mut writer = stores.blobs.create(&org(), &document()).await?;
            writer.write(Bytes::from_static(b"the ")).await?;
            writer.write(Bytes::from_static(b"bytes")).await?;
            writer.finish().await?;
        }
        3 => drop(
            stores.of::<Document>().decide(&document(), write(step, 0, create_document("a.txt", &[tag()]))?).await?,
        ),
        4 => {
            let pages = (1..=3).map(|number| NewPage { number, text: format!("page {number}") }).collect();
            let update = IngestUpdate { state: TextState::Ready, pages, lacks_program: false, at: at(step) };
            stores.texts.ingest(&org(), &document(), update).await?;
        }
        5 => {
            let patch = DocumentPatch { name: Some("b.txt".into()), ..DocumentPatch::default() };
            let change = DocumentChange::Update(patch);
            stores.of::<Document>().decide(&document(), write(step, 1, change)?).await?;
        }
        6 => drop(
            stores.of::<Schema>().decide(&schema(), write(step, 0, Schema::create(&Seed::named("Schema")))?).await?,
        ),
        _ => {
            let change = Prompt::create(&Seed::named("Prompt").linked(&[schema().to_string(), tag().to_string()]));
            stores.of::<Prompt>().decide(&prompt(), write(step, 0, change)?).await?;
        }
    }
    Ok(())
}

async fn middle_steps(stores: &Stores, step: usize) -> Result<()> {
    match step {
        8 => {
            let change =
                SchemaChange::Update { name: Some("Renamed".into()), response_format: Some((json!({"a": 2}), false)) };
            stores.of::<Schema>().decide(&schema(), write(step, 1, change)?).await?;
        }
        9 => {
            let revid = SchemaRevId::new(schema(), 2);
            let change = PromptChange::Update {
                name: Some("Renamed".into()),
                content: None,
                schema: Some(Some(revid)),
                model: Some(Some("model".into())),
                tags: Some(vec![]),
            };
            stores.of::<Prompt>().decide(&prompt(), write(step, 1, change)?).await?;
        }
        10 => {
            stores.threads.create(new_thread(step, thread(), vec![document()])).await?;
        }
        11 => {
            let mut append = append(step, 0, 0)?;
            append.take = Some((1, Incarnation::derive(&["scenario"])));
            append.opens = Some(open_turn());
            stores.threads.append(&org(), &thread(), append).await?;
        }
        12 => drop(stores.threads.append(&org(), &thread(), append(step, 1, 1)?).await?),
        13 | 14 => {
            let revid = PromptRevId::new(prompt(), 2);
            let change = create_extraction(&document(), &revid, json!({"total": step}));
            stores.of::<Extraction>().decide(&extraction(step), write(step, 0, change)?).await?;
        }
        _ => drop(stores.threads.append(&org(), &thread(), append(step, 1, 2)?).await?),
    }
    Ok(())
}

async fn last_steps(stores: &Stores, step: usize) -> Result<()> {
    match step {
        16 => {
            let change = ExtractionChange::Edit { data: json!({"total": 7}) };
            stores.of::<Extraction>().decide(&extraction(13), write(step, 1, change)?).await?;
        }
        17 => {
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
        18 => {
            let target = Tag::target(&tag());
            let digest = Digest::of(b"scenario");
            stores.ops.close(&org(), &target, &op(step)?, &digest, ClosedAs::Aborted, at(step)).await?;
        }
        19 => drop(stores.of::<Document>().decide(&document(), write(step, 2, DocumentChange::Delete)?).await?),
        20 => stores.threads.expire_with_document(&org(), &document(), at(100)).await?,
        21 => drop(stores.of::<Prompt>().decide(&prompt(), write(step, 2, PromptChange::Delete)?).await?),
        22 => drop(stores.of::<Tag>().decide(&tag(), write(step, 1, TagChange::Delete)?).await?),
        23 => stores.threads.delete(&org(), &thread(), None).await?,
        24 => {
            let first = Append { take: Some((1, Incarnation::derive(&["scenario"]))), ..append(step, 0, 0)? };
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

/// Returns all readable state of the scenario's organization as text.
///
/// # Errors
/// Those of the store.
pub async fn dump(stores: &Stores) -> Result<String, Failure> {
    let mut seen = Vec::new();
    resources(stores, &mut seen).await?;
    dependents(stores, &mut seen).await?;
    threads(stores, &mut seen).await?;
    ops(stores, &mut seen).await?;
    Ok(seen.join("\n"))
}

fn all() -> PageRequest {
    PageRequest { size: 1000, order: Order::Oldest, ..PageRequest::default() }
}

async fn resources(stores: &Stores, seen: &mut Vec<String>) -> Result<(), Failure> {
    let org = org();
    seen.push(format!("{:?}", stores.of::<Organization>().get(&OrgId::platform(), &org).await?));
    seen.push(format!("{:?}", stores.of::<Tag>().list(&org, &TagFilter::default(), &all()).await?));
    seen.push(format!("{:?}", stores.of::<Tag>().by_name(&org, "tag").await?));
    seen.push(format!("{:?}", stores.of::<Schema>().list(&org, &SchemaFilter::default(), &all()).await?));
    seen.push(format!("{:?}", stores.of::<Schema>().versions(&org, &schema(), &all()).await?));
    for name in ["schema", "renamed"] {
        seen.push(format!("{name}: {:?}", stores.of::<Schema>().by_name(&org, name).await?));
        seen.push(format!("{name}: {:?}", stores.of::<Prompt>().by_name(&org, name).await?));
    }
    seen.push(format!("{:?}", stores.of::<Prompt>().list(&org, &PromptFilter::default(), &all()).await?));
    seen.push(format!("{:?}", stores.of::<Prompt>().versions(&org, &prompt(), &all()).await?));
    let tagged = PromptFilter { all_tags: vec![tag()], ..PromptFilter::default() };
    seen.push(format!("{:?}", stores.of::<Prompt>().list(&org, &tagged, &all()).await?));
    seen.push(format!("{:?}", stores.usage.list(&org, Timestamp::UNIX_EPOCH, 10).await?));
    Ok(())
}

async fn dependents(stores: &Stores, seen: &mut Vec<String>) -> Result<(), Failure> {
    let org = org();
    seen.push(format!("{:?}", stores.of::<Document>().list(&org, &DocumentFilter::default(), &all()).await?));
    seen.push(format!("{:?}", stores.texts.text(&org, &document(), 1, 10).await?));
    seen.push(format!("{:?}", stores.texts.pending_text(Waits::ForItsTurn, 10).await?));
    seen.push(format!("{:?}", stores.texts.pending_text(Waits::ForProgram, 10).await?));
    let blobs: Vec<_> = stores.blobs.scan().map_ok(|blob| (blob.org, blob.document)).try_collect().await?;
    seen.push(format!("blob: {blobs:?}"));
    seen.push(format!("{:?}", stores.of::<Document>().deleted(10).await?));
    seen.push(format!("{:?}", stores.of::<Extraction>().list(&org, &extractions(), &all()).await?));
    seen.push(format!("{:?}", stores.of::<Extraction>().first(&org, &extractions()).await?));
    let mut bytes = None;
    if let Some(mut reader) = stores.blobs.open(&org, &document()).await? {
        let mut whole = Vec::new();
        while let Some(chunk) = reader.read().await? {
            whole.extend_from_slice(&chunk);
        }
        bytes = Some(whole);
    }
    seen.push(format!("blob: {bytes:?}"));
    Ok(())
}

async fn threads(stores: &Stores, seen: &mut Vec<String>) -> Result<(), Failure> {
    let org = org();
    seen.push(format!("{:?}", stores.threads.list(&org, &ThreadFilter::default(), &all()).await?));
    seen.push(format!("{:?}", stores.threads.expired(at(1_000), 10).await?));
    seen.push(format!("{:?}", stores.open_turns.scan(None, 10).await?));
    for thread in [thread(), begun()] {
        seen.push(format!("{:?}", stores.threads.header(&org, &thread).await?));
        seen.push(format!("{:?}", stores.threads.entries(&org, &thread, 0, 100).await?));
        for step in 0..STEPS {
            let request = format!("ask-{step}").parse()?;
            let row = stores.threads.request(&org, &thread, &request).await?;
            let has_batch = stores.threads.has_batch(&org, &thread, step as u128).await?;
            seen.push(format!("{step}: {row:?} {has_batch}"));
        }
    }
    Ok(())
}

async fn ops(stores: &Stores, seen: &mut Vec<String>) -> Result<(), Failure> {
    let targets = [
        Tag::target(&tag()),
        Document::target(&document()),
        Schema::target(&schema()),
        Prompt::target(&prompt()),
        Extraction::target(&extraction(13)),
        Extraction::target(&extraction(14)),
    ];
    for target in &targets {
        for step in 0..STEPS {
            if let Some(row) = stores.ops.row(&org(), target, &op(step)?).await? {
                seen.push(format!("{target}: {row:?}"));
            }
        }
    }
    for step in 0..STEPS {
        seen.push(format!("request {step}: {:?}", stores.ops.request(&org(), &op(step)?).await?));
    }
    Ok(())
}
