//! Extractions.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::document::Document;
use folio_types::extraction::Extraction;
use folio_types::op::{Decided, OpResult, Target, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::{DocumentId, ExtractionId, OrgId, PromptRevId, Result, Timestamp};

use super::aggregate::{Aggregate, gone, live, load};
use super::catalogue::{self, Listed, Lookup, Query};
use super::cleanup;
use super::decide::{Plan, decide};
use super::items::list;
use super::keyspace::Keyspace;
use super::session::Strength;
use super::table::SystemRow;
use super::values::micros;
use crate::naming::Kind;
use crate::traits::{ExtractionChange, ExtractionStore};
use crate::value::{ExtractionMark, ListRow, Record, decode, encode};

/// The index of extractions that were deleted.
const DELETED: &str = "deleted_extraction";

impl Aggregate for Extraction {
    const KIND: Kind = Kind::Extraction;

    fn version(&self) -> u64 {
        self.version
    }

    fn listed(&self) -> ListRow {
        ListRow {
            id: self.id.to_string(),
            documents: vec![self.document.clone()],
            prompt: Some(self.prompt.clone()),
            ..ListRow::default()
        }
    }

    fn document(&self) -> Option<&DocumentId> {
        Some(&self.document)
    }
}

/// Puts a tombstone on an extraction whose document is gone, and takes it from its list.
pub(crate) async fn bury(keyspace: &Keyspace, org: &OrgId, id: &str, at: Timestamp) -> Result<()> {
    if let Some(extraction) = cleanup::bury(keyspace, org, id, at).await? {
        let at = micros(extraction.created_at);
        let before = Listed { row: extraction.listed(), at, version: extraction.version };
        catalogue::settle(keyspace, org, Kind::Extraction, &before, None, extraction.version + 1).await?;
    }
    Ok(())
}

pub(crate) struct Extractions(pub(crate) Arc<Keyspace>);

impl Extractions {
    fn query<'a>(lookup: Lookup) -> Query<'a> {
        let word = lookup.term.clone();
        Query { kind: Kind::Extraction, base: Some(lookup), filters: Vec::new(), word, matches: &|_| true }
    }

    /// Enters an extraction in the index of those that were deleted.
    async fn enter_deleted(&self, org: &OrgId, id: &ExtractionId, at: Timestamp) -> Result<()> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let mark = ExtractionMark { org: org.clone(), extraction: id.clone(), at };
        let row = SystemRow { at: micros(at), key: format!("{org}/{id}"), value: encode(&mark)? };
        tables.system_rows.put(cql, DELETED, row).await
    }

    /// Where the document went and its clean-up has not come by here yet, this is it.
    async fn follow_document(&self, org: &OrgId, id: &ExtractionId) -> Result<()> {
        let found: Option<Extraction> = live(&self.0, org, id.as_str()).await?;
        let Some(extraction) = found else { return Ok(()) };
        let document = load::<Document>(&self.0, org, extraction.document.as_str(), Strength::Quorum).await?;
        match document.record {
            Some(Record::Gone { at, .. }) => bury(&self.0, org, id.as_str(), at).await,
            Some(Record::Live(_)) | None => Ok(()),
        }
    }
}

#[async_trait]
impl ExtractionStore for Extractions {
    async fn decide(&self, id: &ExtractionId, write: Write<ExtractionChange>) -> Result<Decided> {
        self.follow_document(&write.org, id).await?;
        let deletes = matches!(write.change, ExtractionChange::Delete);
        if deletes {
            self.enter_deleted(&write.org, id, write.at).await?;
        }
        let target = Target::Extraction(id.clone());
        let decided = decide(&self.0, &target, &write, |before| plan(id, &write, before)).await?;
        if let Decided::Row(row) = &decided
            && deletes
        {
            // Again: who read the index meanwhile may have taken the row out.
            self.enter_deleted(&write.org, id, row.at).await?;
        }
        Ok(decided)
    }

    async fn get(&self, org: &OrgId, id: &ExtractionId) -> Result<Option<Extraction>> {
        let found: Option<Extraction> = live(&self.0, org, id.as_str()).await?;
        let Some(extraction) = found else { return Ok(None) };
        let document: Option<Document> = live(&self.0, org, extraction.document.as_str()).await?;
        Ok(document.map(|_| extraction))
    }

    async fn newest(
        &self,
        org: &OrgId,
        document: &DocumentId,
        prompt: Option<&PromptRevId>,
    ) -> Result<Option<Extraction>> {
        if live::<Document>(&self.0, org, document.as_str()).await?.is_none() {
            return Ok(None);
        }
        let lookup = match prompt {
            Some(prompt) => Lookup::document_prompt(document, prompt),
            None => Lookup::document(document),
        };
        let query = || Self::query(lookup.clone());
        let mut request = PageRequest { size: 1, ..PageRequest::default() };
        loop {
            let page: Page<Extraction> = list(&self.0, org, query(), &request).await?;
            if let Some(newest) = page.items.into_iter().next() {
                return Ok(Some(newest));
            }
            // The first row led nowhere.
            let Some(token) = page.next else { return Ok(None) };
            request.token = Some(token);
        }
    }

    async fn forget_deleted(&self, before: Timestamp, limit: usize) -> Result<usize> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let mut forgotten = 0;
        for row in tables.system_rows.first(cql, DELETED, Some(before), limit).await? {
            let ExtractionMark { org, extraction, .. } = decode(&row.value)?;
            let loaded = load::<Extraction>(&self.0, &org, extraction.as_str(), Strength::Serial).await?;
            if let Some(Record::Gone { .. }) = loaded.record {
                cleanup::forget_ops(&self.0, &org, &Target::Extraction(extraction)).await?;
            }
            tables.system_rows.remove(cql, DELETED, row.at, &row.key).await?;
            forgotten += 1;
        }
        Ok(forgotten)
    }

    async fn list(&self, org: &OrgId, document: &DocumentId, page: &PageRequest) -> Result<Page<Extraction>> {
        if live::<Document>(&self.0, org, document.as_str()).await?.is_none() {
            return Ok(Page { items: Vec::new(), next: None, total: 0 });
        }
        list(&self.0, org, Self::query(Lookup::document(document)), page).await
    }
}

fn plan(id: &ExtractionId, write: &Write<ExtractionChange>, before: Option<Extraction>) -> Result<Plan<Extraction>> {
    let done = |extraction: Extraction| {
        let result = OpResult::Extraction {
            id: extraction.id.clone(),
            document: extraction.document.clone(),
            prompt: extraction.prompt.clone(),
            data: extraction.current().clone(),
        };
        Ok(Plan { after: Some(extraction), result })
    };
    let changed =
        |extraction: Extraction| Extraction { version: extraction.version + 1, updated_at: write.at, ..extraction };
    match (&write.change, before) {
        (ExtractionChange::Create(new), None) => done(Extraction {
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
        }),
        (ExtractionChange::Edit { data }, Some(mut extraction)) => {
            extraction.edited = Some(data.clone());
            extraction.verified = false;
            extraction.verified_by = None;
            done(changed(extraction))
        }
        (ExtractionChange::Verify { verified }, Some(mut extraction)) => {
            extraction.verified = *verified;
            extraction.verified_by = verified.then(|| write.by.clone());
            done(changed(extraction))
        }
        (ExtractionChange::Delete, Some(_)) => Ok(Plan { after: None, result: OpResult::Deleted }),
        _ => Err(gone(&Target::Extraction(id.clone()))),
    }
}
