//! The collection: its schema, and the requests that the adapter makes.

use std::collections::BTreeSet;
use std::sync::Arc;

use folio_index::Embedding;
use folio_storage::CallCounters;
use folio_types::{Error, Reason, Result};
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use tonic::{Response, Status};

use crate::client::{Client, Failure, Kind, Stubs};
use crate::options::QdrantOptions;
use crate::wire::{
    BatchResult, CountPoints, CreateCollection, CreateFieldIndexCollection, CreateVectorNameRequest, DeletePoints,
    DenseVectorCreationConfig, Distance, FacetCounts, FacetHit, FieldType, Filter, GetCollectionInfoRequest, GetPoints,
    HealthCheckRequest, HnswConfigDiff, IntegerIndexParams, KeywordIndexParams, Modifier, PayloadIndexParams, PointId,
    PointStruct, PointsSelector, QueryBatchPoints, QueryPoints, RetrievedPoint, ScrollPoints, SparseVectorConfig,
    SparseVectorParams, UpdateMode, UpsertPoints, VectorParamsMap, VectorsConfig, WriteOrdering, WriteOrderingType,
    create_vector_name_request, key, payload_index_params, points_selector, vectors_config, whole_payload,
};

/// Name of the sparse vectors of words.
pub(crate) const LEXICAL: &str = "lexical";
/// The first version of the server that computes frequencies of words among the passages of one organization, and that
/// adds named vectors to a collection. An earlier one ignores these parts of a request.
const VERSION_MIN: (u32, u32) = (1, 19);
/// Maximum named dense vectors of the collection: one for each vector space and dimension in use by any organization.
const DENSE_MAX: usize = 64;
/// Links of each vector in the graph of its organization. The collection has no graph across organizations.
const GRAPH_LINKS: u64 = 16;
/// Maximum points of a request by ids.
const IDS_MAX: usize = 1_000;

/// The condition of an upsert.
pub(crate) enum Condition {
    Always,
    /// The points are written if they do not exist.
    Absent,
    /// The points that match are overwritten. Missing points are not written.
    Matches(Filter),
}

/// The names of the dense vectors in the collection.
pub(crate) type DenseNames = Arc<BTreeSet<String>>;

pub(crate) struct Collection {
    client: Client,
    name: String,
    /// None: the collection was not opened yet, or was found to be removed.
    opened: Mutex<Option<DenseNames>>,
}

/// Returns the name of the vectors of a space. Vectors of other dimensions have another name.
pub(crate) fn dense_name(vector: &Embedding) -> String {
    let digest = Sha256::digest(vector.space.as_bytes());
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("dense-{digits}-{}", vector.values.len())
}

/// Returns major and minor version. None: the text is no version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse::<u32>().ok());
    Some((numbers.next()??, numbers.next()??))
}

impl Collection {
    pub(crate) async fn new(options: &QdrantOptions) -> Result<Self> {
        Ok(Self { client: Client::new(options).await?, name: options.collection.clone(), opened: Mutex::default() })
    }

    pub(crate) fn counters(&self) -> CallCounters {
        self.client.counters()
    }

    /// Opens the collection, which is created if it is missing. Returns the names of its dense vectors.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if the server is too old, or the collection is not one of Folio.
    pub(crate) async fn open(&self) -> Result<DenseNames, Failure> {
        let mut opened = self.opened.lock().await;
        if let Some(names) = &*opened {
            return Ok(Arc::clone(names));
        }
        self.check_version().await?;
        let names = match self.read_names().await {
            Err(Failure::NoCollection) => {
                let created = self.create().await;
                // Another process may have created the collection first.
                match (self.read_names().await, created) {
                    (Err(Failure::NoCollection), Err(failure)) => return Err(failure),
                    (names, _) => names?,
                }
            }
            names => names?,
        };
        self.create_indexes().await?;
        Ok(Arc::clone(opened.insert(Arc::new(names))))
    }

    /// Reads the names of the dense vectors again, because another process may have added one.
    pub(crate) async fn reread(&self) -> Result<DenseNames, Failure> {
        self.open().await?;
        let names = Arc::new(self.read_names().await?);
        *self.opened.lock().await = Some(Arc::clone(&names));
        Ok(names)
    }

    /// Makes a call. If the collection is missing, the next [`Collection::open`] creates it.
    async fn call<T, F>(&self, kind: Kind, make: impl Fn(Stubs) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        // A call of tonic is large.
        let answer = Box::pin(self.client.call(kind, make)).await;
        // The lock is not free if the call is a part of opening the collection.
        if let (Err(Failure::NoCollection), Ok(mut opened)) = (&answer, self.opened.try_lock()) {
            *opened = None;
        }
        answer
    }

    async fn check_version(&self) -> Result<(), Failure> {
        let health =
            self.call(Kind::Read, |mut stubs| async move { stubs.health.health_check(HealthCheckRequest {}).await });
        let found = health.await?.version;
        if version(&found).is_some_and(|version| version >= VERSION_MIN) {
            return Ok(());
        }
        let (major, minor) = VERSION_MIN;
        let found: String = found.chars().take(32).collect();
        let message = format!("the Qdrant server has the version {found:?}; expected {major}.{minor} or later");
        Err(Error::precondition(Reason::StoreUnavailable, message).into())
    }

    async fn read_names(&self) -> Result<BTreeSet<String>, Failure> {
        let request = GetCollectionInfoRequest { collection_name: self.name.clone() };
        let info = self.call(Kind::Read, |mut stubs| {
            let request = request.clone();
            async move { stubs.collections.get(request).await }
        });
        let params = info.await?.result.and_then(|info| info.config).and_then(|config| config.params);
        let params = params.unwrap_or_default();
        let sparse = params.sparse_vectors_config.unwrap_or_default();
        let lexical = sparse.map.get(LEXICAL).map(SparseVectorParams::modifier);
        if lexical != Some(Modifier::Idf) {
            let name = &self.name;
            let message =
                format!("the collection {name:?} is not one of Folio: choose another index.qdrant_collection");
            return Err(Error::precondition(Reason::StoreUnavailable, message).into());
        }
        Ok(match params.vectors_config.and_then(|config| config.config) {
            Some(vectors_config::Config::ParamsMap(params)) => params.map.into_keys().collect(),
            _ => BTreeSet::new(),
        })
    }

    async fn create(&self) -> Result<(), Failure> {
        let lexical = SparseVectorParams { modifier: Some(Modifier::Idf.into()) };
        let request = CreateCollection {
            collection_name: self.name.clone(),
            hnsw_config: Some(HnswConfigDiff { m: Some(0), payload_m: Some(GRAPH_LINKS) }),
            vectors_config: Some(VectorsConfig {
                config: Some(vectors_config::Config::ParamsMap(VectorParamsMap::default())),
            }),
            sparse_vectors_config: Some(SparseVectorConfig { map: [(LEXICAL.to_owned(), lexical)].into() }),
        };
        let created = self.call(Kind::Write, |mut stubs| {
            let request = request.clone();
            async move { stubs.collections.create(request).await }
        });
        created.await.map(drop)
    }

    async fn create_indexes(&self) -> Result<(), Failure> {
        use payload_index_params::IndexParams::{IntegerIndexParams as Integer, KeywordIndexParams as Keyword};
        let keyword = |is_tenant: bool| Keyword(KeywordIndexParams { is_tenant: is_tenant.then_some(true) });
        let number = || Integer(IntegerIndexParams { lookup: Some(false), range: Some(true) });
        let tenant = std::iter::once((key::ORG, FieldType::Keyword, keyword(true)));
        let keywords = key::KEYWORDS.iter().map(|name| (*name, FieldType::Keyword, keyword(false)));
        let numbers = key::NUMBERS.iter().map(|name| (*name, FieldType::Integer, number()));
        for (name, kind, params) in tenant.chain(keywords).chain(numbers) {
            let request = CreateFieldIndexCollection {
                collection_name: self.name.clone(),
                wait: Some(true),
                field_name: name.to_owned(),
                field_type: Some(kind.into()),
                field_index_params: Some(PayloadIndexParams { index_params: Some(params) }),
            };
            let created = self.call(Kind::Write, |mut stubs| {
                let request = request.clone();
                async move { stubs.points.create_field_index(request).await }
            });
            created.await?;
        }
        Ok(())
    }

    /// Adds named vectors that the collection lacks, each with its dimension, up to its maximum. Returns the names of all of them.
    pub(crate) async fn add_dense(&self, wanted: BTreeSet<(String, usize)>) -> Result<DenseNames, Failure> {
        let mut names = self.open().await?;
        for (name, dimensions) in wanted {
            if names.contains(&name) {
                continue;
            }
            if names.len() >= DENSE_MAX {
                tracing::error!(
                    vector = %name,
                    "the index of passages has vectors of {DENSE_MAX} spaces and dimensions, the maximum, so that passages are \
                     stored without their vectors; delete unused named vectors of the collection, and rebuild the index"
                );
                continue;
            }
            let config = DenseVectorCreationConfig {
                size: u64::try_from(dimensions).unwrap_or(u64::MAX),
                distance: Distance::Cosine.into(),
            };
            let request = CreateVectorNameRequest {
                collection_name: self.name.clone(),
                wait: Some(true),
                vector_name: name.clone(),
                vector_config: Some(create_vector_name_request::VectorConfig::DenseConfig(config)),
            };
            let created = self.call(Kind::Write, |mut stubs| {
                let request = request.clone();
                async move { stubs.points.create_vector_name(request).await }
            });
            let created = created.await;
            names = self.reread().await?;
            if !names.contains(&name) {
                created?;
                return Err(Error::internal(format!("the named vector {name} was not created")).into());
            }
        }
        Ok(names)
    }

    /// Writes points, and waits until searches find them.
    pub(crate) async fn upsert(&self, points: Vec<PointStruct>, condition: Condition) -> Result<(), Failure> {
        let (update_filter, mode) = match condition {
            Condition::Always => (None, None),
            Condition::Absent => (None, Some(UpdateMode::InsertOnly)),
            Condition::Matches(filter) => (Some(filter), Some(UpdateMode::UpdateOnly)),
        };
        // A conditional write of all replicas has one order, which their leader decides.
        let ordering = mode.map(|_| WriteOrdering { r#type: WriteOrderingType::Strong.into() });
        let request = UpsertPoints {
            collection_name: self.name.clone(),
            wait: Some(true),
            points,
            ordering,
            update_filter,
            update_mode: mode.map(Into::into),
        };
        let written = self.call(Kind::Write, |mut stubs| {
            let request = request.clone();
            async move { stubs.points.upsert(request).await }
        });
        written.await.map(drop)
    }

    /// Removes the points that match.
    pub(crate) async fn delete(&self, filter: Filter) -> Result<(), Failure> {
        let selector = points_selector::PointsSelectorOneOf::Filter(filter);
        let request = DeletePoints {
            collection_name: self.name.clone(),
            wait: Some(true),
            points: Some(PointsSelector { points_selector_one_of: Some(selector) }),
            ordering: Some(WriteOrdering { r#type: WriteOrderingType::Strong.into() }),
        };
        let deleted = self.call(Kind::Write, |mut stubs| {
            let request = request.clone();
            async move { stubs.points.delete(request).await }
        });
        deleted.await.map(drop)
    }

    /// Reads points with their payloads. Missing points are left out. A missing collection is empty.
    pub(crate) async fn get(&self, ids: &[PointId]) -> Result<Vec<RetrievedPoint>, Failure> {
        let mut found = Vec::new();
        for ids in ids.chunks(IDS_MAX) {
            let (ids, with_payload) = (ids.to_vec(), Some(whole_payload()));
            let request = GetPoints { collection_name: self.name.clone(), ids, with_payload };
            let read = self.call(Kind::Read, |mut stubs| {
                let request = request.clone();
                async move { stubs.points.get(request).await }
            });
            match read.await {
                Ok(response) => found.extend(response.result),
                Err(Failure::NoCollection) => return Ok(Vec::new()),
                Err(failure) => return Err(failure),
            }
        }
        Ok(found)
    }

    pub(crate) async fn scroll(&self, request: ScrollPoints) -> Result<Vec<RetrievedPoint>, Failure> {
        let request = ScrollPoints { collection_name: self.name.clone(), ..request };
        let read = self.call(Kind::Read, |mut stubs| {
            let request = request.clone();
            async move { stubs.points.scroll(request).await }
        });
        Ok(read.await?.result)
    }

    /// Returns the exact number of points that match.
    pub(crate) async fn count(&self, filter: Filter) -> Result<u64, Failure> {
        let request = CountPoints { collection_name: self.name.clone(), filter: Some(filter), exact: Some(true) };
        let counted = self.call(Kind::Read, |mut stubs| {
            let request = request.clone();
            async move { stubs.points.count(request).await }
        });
        Ok(counted.await?.result.map_or(0, |result| result.count))
    }

    /// Makes several queries in one call. The results are in the order of the queries.
    pub(crate) async fn query(&self, queries: Vec<QueryPoints>) -> Result<Vec<BatchResult>, Failure> {
        let named = |query: QueryPoints| QueryPoints { collection_name: self.name.clone(), ..query };
        let queries = queries.into_iter().map(named).collect();
        let request = QueryBatchPoints { collection_name: self.name.clone(), query_points: queries };
        let found = self.call(Kind::Read, |mut stubs| {
            let request = request.clone();
            async move { stubs.points.query_batch(request).await }
        });
        Ok(found.await?.result)
    }

    /// Returns the values of a key that points have, the most frequent first.
    pub(crate) async fn facet(&self, key: &str, filter: Option<Filter>, limit: u64) -> Result<Vec<FacetHit>, Failure> {
        let request = FacetCounts {
            collection_name: self.name.clone(),
            key: key.to_owned(),
            filter,
            limit: Some(limit),
            exact: Some(true),
        };
        let counted = self.call(Kind::Read, |mut stubs| {
            let request = request.clone();
            async move { stubs.points.facet(request).await }
        });
        let mut hits = counted.await?.hits;
        // Without a filter, the values of deleted points are counted as zero.
        hits.retain(|hit| hit.count > 0);
        Ok(hits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (text, is_accepted) in
            [("1.19.0", true), ("1.20.1-dev", true), ("2.0.0", true), ("1.9.9", false), ("1.18.3", false), ("x", false)]
        {
            assert_eq!(version(text).is_some_and(|version| version >= VERSION_MIN), is_accepted, "{text}");
        }
    }

    #[test]
    fn vectors_of_other_spaces_and_dimensions_have_other_names() {
        let name =
            |space: &str, dimensions| dense_name(&Embedding { space: space.to_owned(), values: vec![1.0; dimensions] });
        assert_eq!(name("a/b", 3), name("a/b", 3));
        assert_ne!(name("a/b", 3), name("a/c", 3));
        assert_ne!(name("a/b", 3), name("a/b", 4));
    }
}
