//! Documents and their text.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::document::{Document, DocumentPatch, TextState};
use folio_types::op::{Decided, OpResult, OpRow, OpState, Target, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::{DocumentId, Error, ExtractionId, OrgId, Result, TagId, Timestamp};

use super::decide::{decide, gone, tombstone};
use super::engine::Engine;
use super::extractions;
use super::keys::{self, Kind, Space};
use super::listing::{self, Listing, Search};
use super::reads::{Range, Reads};
use super::references;
use super::transaction::Transaction;
use super::value::{DocumentMark, Hung, ListRow, PageText, PendingMark, Record, decode, encode};
use crate::planted::Bug;
use crate::traits::{
    DocumentChange, DocumentFilter, DocumentStore, Holdings, IngestUpdate, NewDocument, NewPage, PendingText, Waits,
};

/// Stored bytes of text that are decoded here and now, in tens of microseconds: the first pages of most documents, which are
/// wanted for each turn. More of it is read off the async threads.
const SHORT_TEXT_BYTES: usize = 64 * 1024;
/// Pages that may be as short as that together.
const FEW_PAGES: u32 = 4;

/// The live document.
pub(crate) fn live(reads: &impl Reads, org: &OrgId, id: &DocumentId) -> Result<Option<Document>> {
    let record = reads.read::<Record<Document>>(Space::Records, &keys::record(org, Kind::Document, id.as_str()))?;
    Ok(record.and_then(Record::live))
}

pub(crate) struct Documents(pub(crate) Arc<Engine>);

#[async_trait]
impl DocumentStore for Documents {
    async fn decide(&self, id: &DocumentId, write: Write<DocumentChange>) -> Result<Decided> {
        let id = id.clone();
        self.0.write(move |transaction| change(transaction, &id, &write)).await
    }

    async fn get(&self, org: &OrgId, id: &DocumentId) -> Result<Option<Document>> {
        self.0.read(|view| live(view, org, id))
    }

    async fn list(&self, org: &OrgId, filter: &DocumentFilter, page: &PageRequest) -> Result<Page<Document>> {
        let (org, filter, page) = (org.clone(), filter.clone(), page.clone());
        self.0.scan(move |view| list(view, &org, &filter, &page)).await
    }

    async fn holdings(&self, org: &OrgId) -> Result<Holdings> {
        let prefix = keys::list(org, Kind::Document);
        self.0
            .scan(move |view| {
                let mut held = Holdings::default();
                view.walk(Range::prefix(Space::Records, prefix), &mut |_, bytes| {
                    let ListRow { size, .. } = decode(bytes)?;
                    held = held.and(Holdings { documents: 1, bytes: size });
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok(held)
            })
            .await
    }

    async fn ingest(&self, org: &OrgId, id: &DocumentId, update: IngestUpdate) -> Result<()> {
        let (org, id) = (org.clone(), id.clone());
        let IngestUpdate { state, pages, lacks_program, at } = update;
        // Off the async threads and off the writer's: the text may have megabytes.
        let encoded = tokio::task::spawn_blocking(move || encode_pages(pages))
            .await
            .map_err(|error| Error::internal(format!("text could not be encoded: {error}")))??;
        let bytes = encoded.iter().map(|(_, bytes)| bytes.len()).sum();
        let found = Found { state, pages: encoded, lacks_program, at };
        self.0.write_large(bytes, move |transaction| ingest(transaction, &org, &id, found)).await
    }

    async fn text(&self, org: &OrgId, id: &DocumentId, from: u32, count: u32) -> Result<Vec<NewPage>> {
        if count <= FEW_PAGES
            && let Some(pages) = self.0.read(|view| text(view, org, id, from, count, SHORT_TEXT_BYTES))?
        {
            return Ok(pages);
        }
        let (org, id) = (org.clone(), id.clone());
        let pages = self.0.scan(move |view| text(view, &org, &id, from, count, usize::MAX)).await?;
        Ok(pages.unwrap_or_default())
    }

    async fn pending_text(&self, waits: Waits, limit: usize) -> Result<Vec<PendingText>> {
        self.0
            .scan(move |view| {
                let marks: Vec<PendingMark> =
                    view.values(Range::prefix(Space::System, keys::pending_texts(waits)), limit)?;
                let pending =
                    |mark: PendingMark| PendingText { org: mark.org, document: mark.document, attempts: mark.attempts };
                Ok(marks.into_iter().map(pending).collect())
            })
            .await
    }

    async fn deleted(&self, limit: usize) -> Result<Vec<(OrgId, DocumentId, Timestamp)>> {
        self.0
            .scan(move |view| {
                let marks: Vec<DocumentMark> =
                    view.values(Range::prefix(Space::System, keys::deleted_documents()), limit)?;
                Ok(marks.into_iter().map(|mark| (mark.org, mark.document, mark.at)).collect())
            })
            .await
    }

    async fn forget_deleted(&self, org: &OrgId, id: &DocumentId) -> Result<()> {
        let (org, id) = (org.clone(), id.clone());
        self.0.write(move |transaction| forget(transaction, &org, &id)).await
    }
}

/// The pages, where their stored bytes are no more than `bytes`.
fn text(
    reads: &impl Reads,
    org: &OrgId,
    id: &DocumentId,
    from: u32,
    count: u32,
    bytes: usize,
) -> Result<Option<Vec<NewPage>>> {
    let mut pages = Vec::new();
    if live(reads, org, id)?.is_none() && !reads.plan().has(Bug::DeletedTextStays) {
        return Ok(Some(pages));
    }
    let end = keys::page(org, id, from.saturating_add(count));
    let range = Range::prefix(Space::Text, keys::pages(org, id)).from(keys::page(org, id, from)).before(end);
    let mut left = Some(bytes);
    reads.walk(range, &mut |_, stored| {
        left = left.and_then(|left| left.checked_sub(stored.len()));
        if left.is_none() {
            return Ok(ControlFlow::Break(()));
        }
        let PageText { number, text } = decode(stored)?;
        pages.push(NewPage { number, text });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(left.map(|_| pages))
}

fn list(reads: &impl Reads, org: &OrgId, filter: &DocumentFilter, page: &PageRequest) -> Result<Page<Document>> {
    let search = Search::new(filter.name_search.as_ref());
    let metadata: Vec<_> = filter.metadata.iter().map(|(name, value)| (name, keys::folded(value))).collect();
    let unfiltered = search.is_none() && filter.all_tags.is_empty() && metadata.is_empty();
    let listing = Listing {
        prefix: keys::list(org, Kind::Document),
        filter: format!("{search:?}{:?}{metadata:?}", filter.all_tags),
        total: if unfiltered { Some(listing::total(reads, org, Kind::Document)?) } else { None },
        matches: &|row: &ListRow| {
            search.finds(&row.name)
                && filter.all_tags.iter().all(|tag| row.tags.contains(tag))
                && metadata.iter().all(|(name, piece)| {
                    row.metadata.get(*name).is_some_and(|value| keys::folded(value).contains(piece))
                })
        },
        name: &|row| &row.name,
    };
    listing.page(reads, page, |row| {
        listing::item::<Record<Document>, _>(reads, &keys::record(org, Kind::Document, &row.id), Record::live)
    })
}

fn change(transaction: &mut Transaction<'_>, id: &DocumentId, write: &Write<DocumentChange>) -> Result<Decided> {
    let target = Target::Document(id.clone());
    let record =
        transaction.read::<Record<Document>>(Space::Records, &keys::record(&write.org, Kind::Document, id.as_str()))?;
    decide(transaction, &target, write, record, |transaction, record| match (&write.change, record) {
        (DocumentChange::Create(new), None) => create(transaction, id, write, new),
        (DocumentChange::Update(patch), Some(Record::Live(before))) => update(transaction, write, before, patch),
        (DocumentChange::Delete, Some(Record::Live(before))) => delete(transaction, write, &before),
        _ => Err(gone(&target)),
    })
}

fn create(
    transaction: &mut Transaction<'_>,
    id: &DocumentId,
    write: &Write<DocumentChange>,
    new: &NewDocument,
) -> Result<OpResult> {
    let document = Document {
        id: id.clone(),
        org: write.org.clone(),
        name: new.name.clone(),
        media_type: new.media_type.clone(),
        size: new.size,
        sha256: new.sha256.clone(),
        tags: references::distinct(&new.tags),
        metadata: new.metadata.clone(),
        state: TextState::Uploaded,
        pages: 0,
        created_by: write.by.clone(),
        created_at: write.at,
        updated_at: write.at,
        version: 1,
    };
    references::tags_live(transaction, &write.org, &document.tags)?;
    references::replace(transaction, &write.org, id.as_str(), &BTreeSet::new(), &used_by(&document.tags))?;
    let mark = PendingMark { org: write.org.clone(), document: id.clone(), attempts: 0 };
    transaction.put(Space::System, keys::pending_text(Waits::ForItsTurn, &write.org, id), &mark)?;
    store(transaction, document)
}

fn update(
    transaction: &mut Transaction<'_>,
    write: &Write<DocumentChange>,
    before: Document,
    patch: &DocumentPatch,
) -> Result<OpResult> {
    let mut document = before.clone();
    document.name.clone_from(patch.name.as_ref().unwrap_or(&before.name));
    document.metadata.clone_from(patch.metadata.as_ref().unwrap_or(&before.metadata));
    if let Some(tags) = &patch.tags {
        document.tags = references::distinct(tags);
        references::tags_live(transaction, &write.org, &document.tags)?;
    }
    if document == before {
        return Ok(result(&document));
    }
    let (used, uses) = (used_by(&before.tags), used_by(&document.tags));
    references::replace(transaction, &write.org, before.id.as_str(), &used, &uses)?;
    document.version += 1;
    document.updated_at = write.at;
    store(transaction, document)
}

fn delete(transaction: &mut Transaction<'_>, write: &Write<DocumentChange>, before: &Document) -> Result<OpResult> {
    let (org, id) = (&write.org, &before.id);
    references::replace(transaction, org, id.as_str(), &used_by(&before.tags), &BTreeSet::new())?;
    listing::remove_row(transaction, org, Kind::Document, before.created_at, id.as_str())?;
    if !transaction.plan().has(Bug::DeletedTextStays) {
        transaction.remove_all(Space::Text, keys::pages(org, id))?;
    }
    extractions::delete_all_of(transaction, org, id, write.at)?;
    for waits in [Waits::ForItsTurn, Waits::ForProgram] {
        transaction.remove(Space::System, keys::pending_text(waits, org, id));
    }
    let mark = DocumentMark { org: org.clone(), document: id.clone(), at: write.at };
    transaction.put(Space::System, keys::deleted_document(write.at, org, id), &mark)?;
    let tombstone = tombstone::<Document>(transaction, before.version, write.at);
    transaction.put(Space::Records, keys::record(org, Kind::Document, id.as_str()), &tombstone)?;
    Ok(OpResult::Deleted)
}

/// Pages by number, as they are stored.
type EncodedPages = Vec<(u32, Vec<u8>)>;

fn encode_pages(pages: Vec<NewPage>) -> Result<EncodedPages> {
    let encoded = |NewPage { number, text }| Ok((number, encode(&PageText { number, text })?));
    pages.into_iter().map(encoded).collect()
}

/// What ingestion found out, encoded.
struct Found {
    state: TextState,
    pages: EncodedPages,
    lacks_program: bool,
    at: Timestamp,
}

fn ingest(transaction: &mut Transaction<'_>, org: &OrgId, id: &DocumentId, found: Found) -> Result<()> {
    let Some(mut document) = live(transaction, org, id)? else {
        if transaction.plan().has(Bug::IngestIgnoresDeletion) {
            let mark = PendingMark { org: org.clone(), document: id.clone(), attempts: 0 };
            transaction.put(Space::System, keys::pending_text(Waits::ForItsTurn, org, id), &mark)?;
        }
        return Ok(());
    };
    transaction.remove_all(Space::Text, keys::pages(org, id))?;
    document.pages = u32::try_from(found.pages.len()).unwrap_or(u32::MAX);
    document.state = found.state;
    document.updated_at = found.at;
    for (number, bytes) in found.pages {
        transaction.put_bytes(Space::Text, keys::page(org, id, number), bytes)?;
    }
    let turn = keys::pending_text(Waits::ForItsTurn, org, id);
    let program = keys::pending_text(Waits::ForProgram, org, id);
    let mark = |attempts| PendingMark { org: org.clone(), document: id.clone(), attempts };
    if document.state.is_settled() {
        transaction.remove(Space::System, turn);
        match found.lacks_program && !transaction.plan().has(Bug::LackingProgramForgotten) {
            true => transaction.put(Space::System, program, &mark(0))?,
            false => transaction.remove(Space::System, program),
        }
    } else {
        let before: Option<PendingMark> = transaction.read(Space::System, &turn)?;
        let begins = u32::from(document.state == TextState::Processing);
        let attempts = before.map_or(0, |mark| mark.attempts).saturating_add(begins);
        transaction.put(Space::System, turn, &mark(attempts))?;
        transaction.remove(Space::System, program);
    }
    store(transaction, document).map(|_| ())
}

/// All that hung on a deleted document is gone: from now on its tombstones and op rows hold ids and times only.
fn forget(transaction: &mut Transaction<'_>, org: &OrgId, id: &DocumentId) -> Result<()> {
    let key = keys::record(org, Kind::Document, id.as_str());
    let Some(Record::Gone { at, .. }) = transaction.read::<Record<Document>>(Space::Records, &key)? else {
        return Ok(());
    };
    let hung: Vec<Hung> = transaction.values(Range::prefix(Space::Records, keys::hung_on(org, id)), usize::MAX)?;
    for Hung { extraction } in hung {
        forget_ops(transaction, org, &Target::Extraction(extraction.clone()))?;
        transaction.remove(Space::Records, keys::hung(org, id, &extraction));
    }
    forget_ops(transaction, org, &Target::Document(id.clone()))?;
    transaction.remove(Space::System, keys::deleted_document(at, org, id));
    Ok(())
}

/// From now on the op rows of this target hold ids and times only.
pub(crate) fn forget_ops(transaction: &mut Transaction<'_>, org: &OrgId, target: &Target) -> Result<()> {
    let rows: Vec<OpRow> = transaction.values(Range::prefix(Space::Records, keys::ops(org, target)), usize::MAX)?;
    for mut row in rows {
        match &mut row.state {
            OpState::Done(OpResult::Extraction { data, .. }) => *data = serde_json::Value::Null,
            OpState::Done(OpResult::Document { name, .. }) => name.clear(),
            _ => continue,
        }
        transaction.put(Space::Records, keys::op(org, target, &row.op), &row)?;
    }
    Ok(())
}

/// Enters what will hang on a document.
pub(crate) fn hang(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    document: &DocumentId,
    extraction: &ExtractionId,
) -> Result<()> {
    let key = keys::hung(org, document, extraction);
    transaction.put(Space::Records, key, &Hung { extraction: extraction.clone() })
}

fn used_by(tags: &[TagId]) -> BTreeSet<String> {
    tags.iter().map(ToString::to_string).collect()
}

fn result(document: &Document) -> OpResult {
    OpResult::Document { id: document.id.clone(), name: document.name.clone() }
}

fn store(transaction: &mut Transaction<'_>, document: Document) -> Result<OpResult> {
    let row = ListRow {
        id: document.id.to_string(),
        name: document.name.clone(),
        tags: document.tags.clone(),
        metadata: document.metadata.clone(),
        size: document.size,
        ..ListRow::default()
    };
    listing::put_row(transaction, &document.org, Kind::Document, document.created_at, &row)?;
    let result = result(&document);
    let key = keys::record(&document.org, Kind::Document, document.id.as_str());
    transaction.put(Space::Records, key, &Record::Live(document))?;
    Ok(result)
}
