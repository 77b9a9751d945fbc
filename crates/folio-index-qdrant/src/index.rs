//! The adapter: states, rebuilds, listings and sizes. Searches and writes have their own modules.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use folio_index::adapter::{DOCUMENTS_MAX, LISTED_MAX, at_most, validate_upsert};
use folio_index::{Answer, IndexState, IndexedDocument, ListedDocument, PassageIndex, Search, Statistics, Written};
use folio_storage::CallCounters;
use folio_types::{DocumentId, Environment, Error, OrgId, Result};
use moka::sync::Cache;

use crate::client::Failure;
use crate::collection::{Collection, Condition};
use crate::filter;
use crate::manifest::{
    DocumentRecord, Kind, StoredState, document_point_id, order_of, org_point, org_point_id, state_of,
};
use crate::options::QdrantOptions;
use crate::wire::{
    Direction, OrderBy, RetrievedPoint, ScrollPoints, StartFrom, facet_value, get_text, key, start_from, whole_payload,
};
use crate::write::Change;

/// Maximum documents whose live write this process remembers.
const REMEMBERED_MAX: u64 = 100_000;
/// Documents that a listing reads beyond its limit, because a few may have equal positions.
const LISTED_BEYOND: usize = 64;
/// Maximum documents of one read of a listing.
const SCROLLED_MAX: usize = 8 * LISTED_MAX;
/// Maximum organizations that [`PassageIndex::organizations`] returns.
const ORGANIZATIONS_MAX: u64 = 1_000_000;

/// The index of passages on a Qdrant server.
pub struct QdrantIndex {
    pub(crate) collection: Collection,
    pub(crate) environment: Arc<dyn Environment>,
    /// The live write of each document, as this process saw it last. A search accepts the passages of a document if its
    /// live write is the same before and after the query.
    pub(crate) live: Cache<(OrgId, DocumentId), Arc<str>>,
}

/// The recorded states of an organization and of some of its documents.
pub(crate) struct Records {
    pub(crate) state: IndexState,
    /// Documents without a record are left out.
    pub(crate) documents: BTreeMap<DocumentId, DocumentRecord>,
}

impl QdrantIndex {
    /// Creates the adapter. The first operation connects to the server, and creates the collection if it is missing.
    ///
    /// # Errors
    /// `INVALID_FIELD` if a setting is out of bounds, or a certificate cannot be read.
    pub async fn new(options: &QdrantOptions, environment: Arc<dyn Environment>) -> Result<Self> {
        let live = Cache::builder().max_capacity(REMEMBERED_MAX).build();
        Ok(Self { collection: Collection::new(options).await?, environment, live })
    }

    /// Returns the counters of the calls to the server since the adapter was created.
    pub fn call_counters(&self) -> CallCounters {
        self.collection.counters()
    }

    /// Reads the state of an organization, and the records of documents.
    pub(crate) async fn records(&self, org: &OrgId, documents: &[&DocumentId]) -> Result<Records, Failure> {
        self.collection.open().await?;
        let org_point = org_point_id(org);
        let mut ids = vec![org_point.clone()];
        ids.extend(documents.iter().map(|document| document_point_id(org, document)));
        let mut records = Records { state: IndexState::Missing, documents: BTreeMap::new() };
        for RetrievedPoint { id, payload } in self.collection.get(&ids).await? {
            if id.as_ref() == Some(&org_point) {
                records.state = state_of(Some(&payload));
            } else if let Some(record) = DocumentRecord::read(&payload) {
                records.documents.insert(record.document.clone(), record);
            } else {
                tracing::error!(%org, "a record of an index of passages is damaged; the index must be rebuilt");
                return Ok(Records { state: IndexState::Torn, documents: BTreeMap::new() });
            }
        }
        Ok(records)
    }

    async fn read_state(&self, org: &OrgId) -> Result<IndexState, Failure> {
        Ok(self.records(org, &[]).await?.state)
    }

    async fn store_state(
        &self,
        org: &OrgId,
        (state, rebuild): (StoredState, u64),
        condition: Condition,
    ) -> Result<(), Failure> {
        self.collection.upsert(vec![org_point(org, state, rebuild)], condition).await
    }

    /// Removes all documents and passages. Until the end the index counts as missing, also after a crash.
    async fn empty(&self, org: &OrgId, rebuild: u64) -> Result<(), Failure> {
        self.collection.open().await?;
        self.store_state(org, (StoredState::Emptying, rebuild), Condition::Always).await?;
        self.collection.delete(filter::of_content(org)).await
    }

    async fn try_begin_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<(), Failure> {
        self.empty(org, rebuild).await?;
        // Without a condition: another rebuild may have lost points by the removal, and cannot end any more.
        self.store_state(org, (StoredState::Rebuilding, rebuild), Condition::Always).await
    }

    async fn try_finish_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<Written, Failure> {
        let state = self.read_state(org).await?;
        match state {
            IndexState::Ready => Ok(Written::Applied { stale: 0 }),
            IndexState::Rebuilding => {
                let unchanged = filter::of_state(org, StoredState::Rebuilding.as_str(), rebuild);
                self.store_state(org, (StoredState::Ready, rebuild), Condition::Matches(unchanged)).await?;
                match self.read_state(org).await? {
                    IndexState::Ready => Ok(Written::Applied { stale: 0 }),
                    other => Ok(Written::NotUsable(other)),
                }
            }
            other => Ok(Written::NotUsable(other)),
        }
    }

    async fn try_delete_organization(&self, org: &OrgId) -> Result<(), Failure> {
        self.empty(org, 0).await?;
        self.collection.delete(filter::of_org(org)).await
    }

    /// Returns the documents whose position is that of `after` or a later one, in the order of ids.
    async fn try_documents(
        &self,
        org: &OrgId,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<ListedDocument>, Failure> {
        if limit == 0 || !self.read_state(org).await?.is_usable() {
            return Ok(Vec::new());
        }
        let start_from = after.map(|after| StartFrom { value: Some(start_from::Value::Integer(order_of(after))) });
        let order = OrderBy { key: key::ORDER.to_owned(), direction: Some(Direction::Asc.into()), start_from };
        let mut wanted = limit.saturating_add(LISTED_BEYOND);
        loop {
            let request = ScrollPoints {
                filter: Some(filter::of_kind(org, Kind::Document)),
                limit: Some(u32::try_from(wanted).unwrap_or(u32::MAX)),
                with_payload: Some(whole_payload()),
                order_by: Some(order.clone()),
                ..ScrollPoints::default()
            };
            let page = self.collection.scroll(request).await?;
            let is_last = page.len() < wanted;
            let records = page.iter().filter_map(|point| DocumentRecord::read(&point.payload));
            let mut records: Vec<DocumentRecord> = records.collect();
            // Further documents may have the last position.
            let last = records.iter().map(|record| order_of(&record.document)).max();
            records.retain(|record| is_last || Some(order_of(&record.document)) != last);
            records.retain(|record| record.live.is_some() && after.is_none_or(|after| record.document > *after));
            records.sort_by(|left, right| left.document.cmp(&right.document));
            if is_last || records.len() >= limit {
                records.truncate(limit);
                let listed = |DocumentRecord { document, generation, passages, .. }| ListedDocument {
                    document,
                    generation,
                    passages,
                };
                return Ok(records.into_iter().map(listed).collect());
            }
            if wanted >= SCROLLED_MAX {
                return Err(Error::internal("too many documents of an index have equal positions").into());
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    async fn try_statistics(&self, org: &OrgId) -> Result<Statistics, Failure> {
        let state = self.read_state(org).await?;
        let passages = match state.is_usable() {
            true => self.collection.count(filter::of_kind(org, Kind::Passage)).await?,
            false => 0,
        };
        // The server knows neither the deleted points nor the bytes of one organization.
        Ok(Statistics { state, passages, deleted_passages: 0, disk_bytes: None, memory_bytes: 0 })
    }

    async fn try_organizations(&self) -> Result<Vec<OrgId>, Failure> {
        self.collection.open().await?;
        let values = self.collection.facet(key::ORG, None, ORGANIZATIONS_MAX).await?;
        let parsed = values.into_iter().filter_map(|hit| match hit.value?.variant? {
            facet_value::Variant::StringValue(text) => text.parse().ok(),
            _ => None,
        });
        let mut organizations: Vec<OrgId> = parsed.collect();
        organizations.sort();
        Ok(organizations)
    }
}

/// Returns the document and the write of a passage. None: the payload is damaged.
pub(crate) fn passage_write(payload: &crate::wire::Payload) -> Option<(DocumentId, &str)> {
    Some((get_text(payload, key::DOCUMENT)?.parse().ok()?, get_text(payload, key::WRITE)?))
}

#[async_trait]
impl PassageIndex for QdrantIndex {
    async fn state(&self, org: &OrgId) -> Result<IndexState> {
        Ok(self.read_state(org).await?)
    }

    async fn begin_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<()> {
        Ok(self.try_begin_rebuild(org, rebuild).await?)
    }

    async fn finish_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<Written> {
        Ok(self.try_finish_rebuild(org, rebuild).await?)
    }

    async fn upsert(&self, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<Written> {
        validate_upsert(&documents)?;
        let changes = documents.iter().map(|new| Change { document: &new.document, new: Some(new) });
        Ok(self.write(org, changes.collect()).await?)
    }

    async fn delete_documents(&self, org: &OrgId, documents: &[DocumentId]) -> Result<Written> {
        at_most("documents", documents.len(), DOCUMENTS_MAX, "documents")?;
        let unique: std::collections::BTreeSet<&DocumentId> = documents.iter().collect();
        let changes = unique.into_iter().map(|document| Change { document, new: None });
        Ok(self.write(org, changes.collect()).await?)
    }

    async fn delete_organization(&self, org: &OrgId) -> Result<()> {
        Ok(self.try_delete_organization(org).await?)
    }

    async fn search(&self, org: &OrgId, search: &Search) -> Result<Answer> {
        search.validate()?;
        Ok(self.find(org, search).await?)
    }

    async fn documents(&self, org: &OrgId, after: Option<&DocumentId>, limit: usize) -> Result<Vec<ListedDocument>> {
        Ok(self.try_documents(org, after, limit.min(LISTED_MAX)).await?)
    }

    async fn statistics(&self, org: &OrgId) -> Result<Statistics> {
        Ok(self.try_statistics(org).await?)
    }

    async fn organizations(&self) -> Result<Vec<OrgId>> {
        Ok(self.try_organizations().await?)
    }
}
