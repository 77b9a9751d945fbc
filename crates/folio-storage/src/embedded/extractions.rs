//! Extractions.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::extraction::Extraction;
use folio_types::op::{Decided, OpResult, Target, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::{DocumentId, Error, ExtractionId, OrgId, PromptRevId, Result, Timestamp};

use super::decide::{decide, gone, tombstone};
use super::documents;
use super::engine::Engine;
use super::keys::{self, Kind, Space};
use super::listing::{self, Listing};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::{ExtractionMark, ListRow, Record, decode};
use crate::planted::Bug;
use crate::traits::{ExtractionChange, ExtractionStore, NewExtraction};

fn live(reads: &impl Reads, org: &OrgId, id: &str) -> Result<Option<Extraction>> {
    let record = reads.read::<Record<Extraction>>(Space::Records, &keys::record(org, Kind::Extraction, id))?;
    Ok(record.and_then(Record::live))
}

pub(crate) struct Extractions(pub(crate) Arc<Engine>);

#[async_trait]
impl ExtractionStore for Extractions {
    async fn decide(&self, id: &ExtractionId, write: Write<ExtractionChange>) -> Result<Decided> {
        let id = id.clone();
        self.0.write(move |transaction| change(transaction, &id, &write)).await
    }

    async fn get(&self, org: &OrgId, id: &ExtractionId) -> Result<Option<Extraction>> {
        self.0.read(|view| match live(view, org, id.as_str())? {
            Some(found) => Ok(documents::live(view, org, &found.document)?.map(|_| found)),
            None => Ok(None),
        })
    }

    async fn newest(
        &self,
        org: &OrgId,
        document: &DocumentId,
        prompt: Option<&PromptRevId>,
    ) -> Result<Option<Extraction>> {
        let (org, document, prompt) = (org.clone(), document.clone(), prompt.cloned());
        self.0.scan(move |view| newest(view, &org, &document, prompt.as_ref())).await
    }

    async fn forget_deleted(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.0.write(move |transaction| forget_deleted(transaction, before, limit)).await
    }

    async fn list(&self, org: &OrgId, document: &DocumentId, page: &PageRequest) -> Result<Page<Extraction>> {
        let (org, document, page) = (org.clone(), document.clone(), page.clone());
        self.0
            .scan(move |view| {
                let listing = Listing {
                    prefix: keys::extractions_of(&org, &document),
                    filter: String::new(),
                    total: None,
                    matches: &|_: &ListRow| true,
                    name: &|row| &row.name,
                };
                listing.page(view, &page, |row| {
                    let key = keys::record(&org, Kind::Extraction, &row.id);
                    listing::item::<Record<Extraction>, _>(view, &key, Record::live)
                })
            })
            .await
    }
}

fn newest(
    reads: &impl Reads,
    org: &OrgId,
    document: &DocumentId,
    prompt: Option<&PromptRevId>,
) -> Result<Option<Extraction>> {
    let range = Range::prefix(Space::Records, keys::extractions_of(org, document)).reversed(true);
    let mut found = None;
    reads.walk(range, &mut |_, bytes| {
        let row: ListRow = decode(bytes)?;
        if prompt.is_some_and(|prompt| row.prompt.as_ref() != Some(prompt)) {
            return Ok(ControlFlow::Continue(()));
        }
        found = live(reads, org, &row.id)?;
        Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

fn change(transaction: &mut Transaction<'_>, id: &ExtractionId, write: &Write<ExtractionChange>) -> Result<Decided> {
    let target = Target::Extraction(id.clone());
    let key = keys::record(&write.org, Kind::Extraction, id.as_str());
    let record = transaction.read::<Record<Extraction>>(Space::Records, &key)?;
    decide(transaction, &target, write, record, |transaction, record| match (&write.change, record) {
        (ExtractionChange::Create(new), None) => create(transaction, id, write, new),
        (ExtractionChange::Edit { data }, Some(Record::Live(mut extraction))) => {
            extraction.edited = Some(data.clone());
            extraction.verified = false;
            extraction.verified_by = None;
            store(transaction, changed(extraction, write.at))
        }
        (ExtractionChange::Verify { verified }, Some(Record::Live(mut extraction))) => {
            extraction.verified = *verified;
            extraction.verified_by = verified.then(|| write.by.clone());
            store(transaction, changed(extraction, write.at))
        }
        (ExtractionChange::Delete, Some(Record::Live(before))) => {
            delete(transaction, &before, write.at)?;
            let mark = ExtractionMark { org: write.org.clone(), extraction: id.clone(), at: write.at };
            transaction.put(Space::System, keys::deleted_extraction(write.at, &write.org, id), &mark)?;
            Ok(OpResult::Deleted)
        }
        _ => Err(gone(&target)),
    })
}

fn create(
    transaction: &mut Transaction<'_>,
    id: &ExtractionId,
    write: &Write<ExtractionChange>,
    new: &NewExtraction,
) -> Result<OpResult> {
    let lives = documents::live(transaction, &write.org, &new.document)?.is_some();
    if !lives && !transaction.plan().has(Bug::ExtractionOfDeletedDocument) {
        return Err(Error::not_found("document", &new.document));
    }
    let extraction = Extraction {
        id: id.clone(),
        org: write.org.clone(),
        document: new.document.clone(),
        prompt: new.prompt.clone(),
        schema: new.schema.clone(),
        model: new.model.clone(),
        original: new.data.clone(),
        edited: None,
        verified: false,
        verified_by: None,
        created_by: write.by.clone(),
        created_at: write.at,
        updated_at: write.at,
        version: 1,
    };
    documents::hang(transaction, &write.org, &new.document, id)?;
    let row = ListRow { id: id.to_string(), prompt: Some(new.prompt.clone()), ..ListRow::default() };
    transaction.put(Space::Records, keys::extraction_of(&write.org, &new.document, write.at, id), &row)?;
    store(transaction, extraction)
}

fn changed(extraction: Extraction, at: Timestamp) -> Extraction {
    Extraction { version: extraction.version + 1, updated_at: at, ..extraction }
}

fn delete(transaction: &mut Transaction<'_>, before: &Extraction, at: Timestamp) -> Result<()> {
    let row = keys::extraction_of(&before.org, &before.document, before.created_at, &before.id);
    transaction.remove(Space::Records, row);
    let tombstone = tombstone::<Extraction>(transaction, before.version, at);
    transaction.put(Space::Records, keys::record(&before.org, Kind::Extraction, before.id.as_str()), &tombstone)
}

fn forget_deleted(transaction: &mut Transaction<'_>, before: Timestamp, limit: usize) -> Result<usize> {
    let range = Range::prefix(Space::System, keys::deleted_extractions());
    let marks: Vec<ExtractionMark> = transaction.values(range, limit)?;
    let old: Vec<_> = marks.into_iter().take_while(|mark| mark.at <= before).collect();
    for ExtractionMark { org, extraction, at } in &old {
        if !transaction.plan().has(Bug::DeletedDataStays) {
            documents::forget_ops(transaction, org, &Target::Extraction(extraction.clone()))?;
        }
        transaction.remove(Space::System, keys::deleted_extraction(*at, org, extraction));
    }
    Ok(old.len())
}

/// A tombstone for each live extraction of a document, which is being deleted itself.
pub(crate) fn delete_all_of(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    document: &DocumentId,
    at: Timestamp,
) -> Result<()> {
    let range = Range::prefix(Space::Records, keys::extractions_of(org, document));
    for row in transaction.values::<ListRow>(range, usize::MAX)? {
        if let Some(extraction) = live(transaction, org, &row.id)? {
            delete(transaction, &extraction, at)?;
        }
    }
    Ok(())
}

fn store(transaction: &mut Transaction<'_>, extraction: Extraction) -> Result<OpResult> {
    let result = OpResult::Extraction {
        id: extraction.id.clone(),
        document: extraction.document.clone(),
        prompt: extraction.prompt.clone(),
        data: extraction.current().clone(),
    };
    let key = keys::record(&extraction.org, Kind::Extraction, extraction.id.as_str());
    transaction.put(Space::Records, key, &Record::Live(extraction))?;
    Ok(result)
}
