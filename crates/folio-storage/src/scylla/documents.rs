//! Documents.
//!
//! A document's partition holds what people say of it under its version, and what ingestion found out under a version of
//! its own: the two never write the same columns. Its text: [`super::texts`].

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::document::{Document, TextState};
use folio_types::op::{Decided, OpResult, OpState, Target, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::{DocumentId, OrgId, Result, Timestamp};

use super::aggregate::{Aggregate, gone, live, load};
use super::catalogue::{self, Lookup, Query, name_pieces, value_pieces};
use super::decide::{Plan, decide};
use super::items::list;
use super::keyspace::Keyspace;
use super::prompts::distinct;
use super::session::Strength;
use super::table::{Header, SystemRow};
use super::values::micros;
use super::{asked, cleanup, texts};
use crate::naming::{Kind, Search, folded};
use crate::traits::{
    DocumentChange, DocumentFilter, DocumentStore, Holdings, IngestUpdate, NewPage, PendingText, Waits,
};
use crate::value::{DocumentMark, ListRow, Record, TextRecord, decode, encode};

/// The index of documents that were deleted.
pub(crate) const DELETED: &str = "deleted_document";

impl Aggregate for Document {
    const KIND: Kind = Kind::Document;

    fn version(&self) -> u64 {
        self.version
    }

    fn listed(&self) -> ListRow {
        ListRow {
            id: self.id.to_string(),
            name: self.name.clone(),
            tags: self.tags.clone(),
            metadata: self.metadata.clone(),
            size: self.size,
            ..ListRow::default()
        }
    }

    fn uses(&self) -> BTreeSet<String> {
        self.tags.iter().map(ToString::to_string).collect()
    }

    fn beside(self, header: &Header) -> Result<Self> {
        let Some(stored) = &header.text_state else { return Ok(self) };
        let TextRecord { text, pages, at, .. } = decode(stored)?;
        Ok(Self { state: text, pages, updated_at: self.updated_at.max(at), ..self })
    }
}

pub(crate) struct Documents(pub(crate) Arc<Keyspace>);

#[async_trait]
impl DocumentStore for Documents {
    async fn decide(&self, id: &DocumentId, write: Write<DocumentChange>) -> Result<Decided> {
        let (keyspace, target) = (&self.0, Target::Document(id.clone()));
        match &write.change {
            // Before the deciding write, so that a crash leaves a row that leads nowhere and not a document that waits for
            // ever, or is never cleaned up. Whoever reads these rows reads the document.
            DocumentChange::Create(_) => texts::wait(keyspace, Waits::ForItsTurn, &write.org, id).await?,
            DocumentChange::Delete => enter_deleted(keyspace, &write.org, id, write.at).await?,
            DocumentChange::Update(_) => {}
        }
        let decided = decide(keyspace, &target, &write, |before| plan(id, &write, before)).await?;
        if let (DocumentChange::Delete, Decided::Row(row)) = (&write.change, &decided)
            && matches!(row.state, OpState::Done(_))
        {
            // Again: who read the index meanwhile found the document alive, and may have taken the row out.
            enter_deleted(keyspace, &write.org, id, row.at).await?;
            cleanup::empty(keyspace, &write.org, id, row.at).await?;
        }
        Ok(decided)
    }

    async fn get(&self, org: &OrgId, id: &DocumentId) -> Result<Option<Document>> {
        live(&self.0, org, id.as_str()).await
    }

    async fn list(&self, org: &OrgId, filter: &DocumentFilter, page: &PageRequest) -> Result<Page<Document>> {
        let search = Search::new(filter.name_search.as_ref());
        let metadata: Vec<_> = filter.metadata.iter().map(|(name, value)| (name, folded(value))).collect();
        let mut filters: Vec<Vec<Lookup>> = filter.all_tags.iter().map(|tag| vec![Lookup::tag(tag)]).collect();
        filters.extend(metadata.iter().map(|(name, piece)| vec![value_pieces(name, piece)]));
        filters.extend(search.piece().map(|piece| vec![name_pieces(piece)]));
        let query = Query {
            kind: Kind::Document,
            base: None,
            filters,
            word: format!("{search:?}{:?}{metadata:?}", filter.all_tags),
            matches: &|row| {
                search.finds(&row.name)
                    && filter.all_tags.iter().all(|tag| row.tags.contains(tag))
                    && metadata
                        .iter()
                        .all(|(name, piece)| row.metadata.get(*name).is_some_and(|value| folded(value).contains(piece)))
            },
        };
        list(&self.0, org, query, page).await
    }

    async fn holdings(&self, org: &OrgId) -> Result<Holdings> {
        let mut held = Holdings::default();
        catalogue::walk(&self.0, org, Kind::Document, |row| {
            held = held.and(Holdings { documents: 1, bytes: row.size });
        })
        .await?;
        Ok(held)
    }

    async fn ingest(&self, org: &OrgId, id: &DocumentId, update: IngestUpdate) -> Result<()> {
        texts::ingest(&self.0, org, id, update).await
    }

    async fn text(&self, org: &OrgId, id: &DocumentId, from: u32, count: u32) -> Result<Vec<NewPage>> {
        texts::pages(&self.0, org, id, from, count).await
    }

    async fn pending_text(&self, waits: Waits, limit: usize) -> Result<Vec<PendingText>> {
        texts::waiting(&self.0, waits, limit).await
    }

    async fn deleted(&self, limit: usize) -> Result<Vec<(OrgId, DocumentId, Timestamp)>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let mut found = Vec::new();
        for row in tables.system_rows.first(cql, DELETED, None, limit).await? {
            let mark: DocumentMark = decode(&row.value)?;
            let loaded = load::<Document>(&self.0, &mark.org, mark.document.as_str(), Strength::Serial).await?;
            match loaded.record {
                Some(Record::Gone { at, .. }) if at == mark.at => found.push((mark.org, mark.document, at)),
                // Deleted by another write, which has a row of its own.
                Some(Record::Gone { .. }) => tables.system_rows.remove(cql, DELETED, row.at, &row.key).await?,
                // That write never happened, or is under way: then it enters its row again.
                Some(Record::Live(_)) if asked::is_stale(&self.0, row.at) => {
                    tables.system_rows.remove(cql, DELETED, row.at, &row.key).await?;
                }
                Some(Record::Live(_)) | None => {}
            }
        }
        Ok(found)
    }

    async fn forget_deleted(&self, org: &OrgId, id: &DocumentId) -> Result<()> {
        cleanup::forget(&self.0, org, id).await
    }
}

/// Enters a document in the index of those that were deleted.
async fn enter_deleted(keyspace: &Keyspace, org: &OrgId, id: &DocumentId, at: Timestamp) -> Result<()> {
    let mark = DocumentMark { org: org.clone(), document: id.clone(), at };
    let row = SystemRow { at: micros(at), key: key(org, id), value: encode(&mark)? };
    keyspace.tables.system_rows.put(&keyspace.cql, DELETED, row).await
}

/// The key of a document in a system index.
pub(crate) fn key(org: &OrgId, id: &DocumentId) -> String {
    format!("{org}/{id}")
}

fn plan(id: &DocumentId, write: &Write<DocumentChange>, before: Option<Document>) -> Result<Plan<Document>> {
    let done = |document: Document| {
        let result = OpResult::Document { id: document.id.clone(), name: document.name.clone() };
        Ok(Plan { after: Some(document), result })
    };
    match (&write.change, before) {
        (DocumentChange::Create(new), None) => done(Document {
            id: id.clone(),
            org: write.org.clone(),
            name: new.name.clone(),
            media_type: new.media_type.clone(),
            size: new.size,
            sha256: new.sha256.clone(),
            tags: distinct(&new.tags),
            metadata: new.metadata.clone(),
            state: TextState::Uploaded,
            pages: 0,
            created_by: write.by.clone(),
            created_at: write.at,
            updated_at: write.at,
            version: 1,
        }),
        (DocumentChange::Update(patch), Some(before)) => {
            let mut document = before.clone();
            document.name.clone_from(patch.name.as_ref().unwrap_or(&before.name));
            document.metadata.clone_from(patch.metadata.as_ref().unwrap_or(&before.metadata));
            if let Some(tags) = &patch.tags {
                document.tags = distinct(tags);
            }
            if document != before {
                document.version += 1;
                document.updated_at = write.at;
            }
            done(document)
        }
        (DocumentChange::Delete, Some(_)) => Ok(Plan { after: None, result: OpResult::Deleted }),
        _ => Err(gone(&Target::Document(id.clone()))),
    }
}
