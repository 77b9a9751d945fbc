//! Searches for passages.
//!
//! | step | cost, bound |
//! |---|---|
//! | compute the vector of the query in the serving space | a metered call unless cached; [`EMBEDDING_WAIT`], then lexical only |
//! | search the index | one search; a second one if stale hits leave a gap |
//! | confirm each hit by its document and the head of its passages | two reads for each document |
//! | read the passages | one read for each document |
//! | rerank, if requested | a metered call; [`RERANK_CANDIDATES`] passages |
//! | locate the words on their pages | two reads for each page; [`PAGES_MAX`] pages |
//!
//! A failure of a model is named in the answer and does not fail the search.

mod areas;
mod candidates;
mod found;
mod gaps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_index::{Embedding, Hit, PassageIndex, Search};
use folio_resources::{Collection, CollectionRule, Document};
use folio_storage::value::StoredPassage;
use folio_tools::ToolResources;
use folio_tools::retrieval::{
    EmbeddingCall, EmbeddingPurpose, FoundPassages, NoRetriever, PassageQuery, RerankCall, Retriever, SearchGap,
    SearchPart, embed, rerank,
};
use folio_types::message::Usage;
use folio_types::{Code, DocumentId, Error, OrgId, Principal, Result};
use futures::{StreamExt as _, TryStreamExt as _};

use crate::knowledge::Knowledge;
use areas::{PageWords, Pages};
use candidates::{Confirmed, LiveDocument, confirm, has_tags_and_metadata, second_limit};
use found::Candidate;

/// Passages that a rerank model rates, unless the query requests more.
const RERANK_CANDIDATES: u32 = 50;
/// Maximum size of the text of a passage for a rerank model, in bytes: the candidates together are below the bound of a
/// request.
const RERANK_TEXT_BYTES: usize = 8 * 1024;
/// Maximum time for the vector of a query, so that a slow endpoint delays no search for longer.
const EMBEDDING_WAIT: Duration = Duration::from_secs(10);
/// Maximum pages of which an answer contains the positions of words.
// proto: FoundPassage.areas "at most {} pages"
const PAGES_MAX: usize = 100;
/// Maximum reads of the stores in flight.
const AT_ONCE: usize = 16;

/// Finds passages by an index. Cheap to clone.
#[derive(Clone)]
pub struct IndexRetriever {
    index: Arc<dyn PassageIndex>,
}

impl IndexRetriever {
    pub fn new(index: Arc<dyn PassageIndex>) -> Self {
        Self { index }
    }
}

impl std::fmt::Debug for IndexRetriever {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IndexRetriever")
    }
}

/// Returns the retriever of a process. None: the process has no index.
pub fn retriever(knowledge: Option<&Knowledge>) -> Arc<dyn Retriever> {
    match knowledge {
        Some(knowledge) => Arc::new(IndexRetriever::new(Arc::clone(&knowledge.index))),
        None => Arc::new(NoRetriever),
    }
}

#[async_trait]
impl Retriever for IndexRetriever {
    async fn search(
        &self,
        resources: &ToolResources,
        principal: &Principal,
        query: &PassageQuery,
    ) -> Result<FoundPassages> {
        query.check("query")?;
        // A collection that does not exist must not widen the search.
        let collections = resources.stores.of::<Collection>();
        let rules = collections.rules(&principal.org, &query.filter.collection_ids).await?;
        let mut run = Run { index: self.index.as_ref(), resources, principal, query, rules, usage: Usage::default() };
        run.search().await
    }
}

/// One search.
struct Run<'a> {
    index: &'a dyn PassageIndex,
    resources: &'a ToolResources,
    principal: &'a Principal,
    query: &'a PassageQuery,
    /// The rules of the collections of the filter.
    rules: Vec<CollectionRule>,
    usage: Usage,
}

impl Run<'_> {
    async fn search(&mut self) -> Result<FoundPassages> {
        let (vector, no_vector) = match self.query_vector().await? {
            Ok(vector) => (Some(vector), None),
            Err(gap) => (None, Some(gap)),
        };
        let wanted = match self.query.is_reranked {
            true => self.query.limit.max(RERANK_CANDIDATES),
            false => self.query.limit,
        };
        let mut search = Search {
            text: self.query.text.clone(),
            vector,
            filter: gaps::filter(&self.query.filter, &self.rules),
            limit: wanted,
        };
        let mut answer = self.index.search(self.org(), &search).await?;
        let mut live = BTreeMap::new();
        let found = answer.hits.len();
        let mut confirmed = self.confirm(answer.hits, &mut live).await?;
        if let Some(limit) = second_limit(wanted, search.limit, found, confirmed.hits.len()) {
            search.limit = limit;
            answer = self.index.search(self.org(), &search).await?;
            confirmed = self.confirm(answer.hits, &mut live).await?;
        }
        let Confirmed { hits, mut stale } = confirmed;
        let (mut candidates, removed) = self.read(hits, &live).await?;
        stale = stale.saturating_add(removed);
        candidates.truncate(wanted as usize);
        let rerank = if self.query.is_reranked { Some(self.rerank(&mut candidates).await?) } else { None };
        candidates.truncate(self.query.limit as usize);
        let pages = self.pages(&candidates).await?;
        let text = self.query.text.clone();
        let found = tokio::task::spawn_blocking(move || found::passages(candidates, &text, &pages)).await;
        let passages = found.map_err(|error| Error::internal(format!("the highlights of a search failed: {error}")))?;
        Ok(FoundPassages {
            passages,
            lexical: gaps::part(answer.lexical, None),
            dense: gaps::part(answer.dense, no_vector),
            rerank,
            stale_passages: stale,
            usage: self.usage,
        })
    }

    fn org(&self) -> &OrgId {
        &self.principal.org
    }

    /// Returns the key of a model call in the ledger. A repeated search makes another call.
    fn key(&self) -> String {
        format!("search.{:032x}", self.resources.environment.random())
    }

    /// Returns the vector of the query in the space in which all passages have vectors, or the reason for which the search is
    /// lexical only.
    async fn query_vector(&mut self) -> Result<Result<Embedding, SearchGap>> {
        let Some(serving) = self.resources.stores.passages().serving_space(self.org()).await? else {
            let catalogue = self.resources.models.catalogue(self.org()).await?;
            let has_model = catalogue.embedding_model().is_some();
            return Ok(Err(if has_model { SearchGap::NotEmbedded } else { SearchGap::NoEmbeddingModel }));
        };
        let call = EmbeddingCall {
            org: self.org().clone(),
            user: self.principal.user.clone(),
            key: self.key(),
            model: Some(serving.model),
            purpose: EmbeddingPurpose::Query,
        };
        let texts = std::slice::from_ref(&self.query.text);
        let embedded = match tokio::time::timeout(EMBEDDING_WAIT, Box::pin(embed(self.resources, &call, texts))).await {
            Ok(Ok(embedded)) => embedded,
            Ok(Err(error)) => return Ok(Err(SearchGap::EmbeddingFailed(self.problem(&error)))),
            Err(_) => {
                let problem = format!("the model did not answer within {} s", EMBEDDING_WAIT.as_secs());
                return Ok(Err(SearchGap::EmbeddingFailed(problem)));
            }
        };
        self.usage = self.usage.plus(embedded.usage);
        match embedded.vectors.first() {
            Some(vector) => Ok(Ok(Embedding { space: embedded.space, values: vector.to_vec() })),
            None => Ok(Err(SearchGap::EmbeddingFailed("the model returned no vector".to_owned()))),
        }
    }

    /// Returns the reason of a failed model call for the caller, and logs the error.
    fn problem(&self, error: &Error) -> String {
        tracing::warn!(org = %self.org(), error = error.logged(), "a model call of a search failed");
        match error.code {
            Code::Internal => "internal error".to_owned(),
            _ => error.message.clone(),
        }
    }

    /// Removes the hits that the stores do not confirm. `live`: the confirmed documents of earlier hits, to which those of these
    /// hits are added.
    async fn confirm(&self, hits: Vec<Hit>, live: &mut BTreeMap<DocumentId, LiveDocument>) -> Result<Confirmed> {
        let unread: BTreeSet<&DocumentId> =
            hits.iter().map(|hit| &hit.document).filter(|document| !live.contains_key(*document)).collect();
        let unread: Vec<DocumentId> = unread.into_iter().cloned().collect();
        let found = self.live(&unread).await?;
        live.extend(found);
        Ok(confirm(hits, live))
    }

    /// Returns the documents that match the filter and whose live passages are those of their current text.
    async fn live(&self, documents: &[DocumentId]) -> Result<BTreeMap<DocumentId, LiveDocument>> {
        let (stores, org) = (&self.resources.stores, self.org());
        let (filter, rules) = (&self.query.filter, self.rules.as_slice());
        let heads = stores.passages().heads_of(org, documents).await?;
        let with_passages = documents.iter().zip(heads).filter_map(|(id, head)| Some((id, head?)));
        let reads: Vec<_> = with_passages
            .map(|(id, head)| async move {
                let document = stores.of::<Document>().get(org, id).await?;
                let document = document.filter(|document| {
                    document.text_generation == Some(head.text_generation)
                        && has_tags_and_metadata(document, filter, rules)
                });
                let live = |document: Document| LiveDocument { name: document.name, generation: head.generation };
                Ok::<_, Error>(document.map(|document| (id.clone(), live(document))))
            })
            .collect();
        let found: Vec<Option<_>> = futures::stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Reads the passages of hits, in the order of the hits. Also returns the number of passages that were removed since they
    /// were confirmed.
    async fn read(&self, hits: Vec<Hit>, live: &BTreeMap<DocumentId, LiveDocument>) -> Result<(Vec<Candidate>, u32)> {
        let mut numbers: BTreeMap<(&DocumentId, u64), Vec<u32>> = BTreeMap::new();
        for hit in &hits {
            numbers.entry((&hit.document, hit.generation)).or_default().push(hit.number);
        }
        let (passages, org) = (self.resources.stores.passages(), self.org());
        let reads: Vec<_> = numbers
            .into_iter()
            .map(|((document, generation), numbers)| {
                let passages = passages.clone();
                async move {
                    let found = passages.read(org, document, generation, &numbers).await?;
                    Ok::<_, Error>((document.clone(), found))
                }
            })
            .collect();
        let found: Vec<(DocumentId, Vec<StoredPassage>)> =
            futures::stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await?;
        let mut stored: BTreeMap<(DocumentId, u32), StoredPassage> = BTreeMap::new();
        for (document, passages) in found {
            stored.extend(passages.into_iter().map(|passage| ((document.clone(), passage.number), passage)));
        }
        let count = hits.len();
        let candidates: Vec<Candidate> = hits
            .into_iter()
            .filter_map(|hit| {
                let passage = stored.remove(&(hit.document.clone(), hit.number))?;
                let document_name = live.get(&hit.document)?.name.clone();
                Some(Candidate { hit, passage, document_name, relevance: None })
            })
            .collect();
        let removed = u32::try_from(count - candidates.len()).unwrap_or(u32::MAX);
        Ok((candidates, removed))
    }

    /// Orders candidates by the rerank model of the organization. After a failure their order is unchanged.
    async fn rerank(&mut self, candidates: &mut Vec<Candidate>) -> Result<SearchPart> {
        let unused = |gap| Ok(SearchPart { is_used: false, gaps: vec![gap] });
        let catalogue = self.resources.models.catalogue(self.org()).await?;
        if catalogue.rerank_model().is_none() {
            return unused(SearchGap::NoRerankModel);
        }
        let (org, user) = (self.org().clone(), self.principal.user.clone());
        let call = RerankCall { org, user, key: self.key(), model: None };
        let text = |candidate: &Candidate| {
            let text = candidate.passage.text.as_str();
            text.get(..text.floor_char_boundary(RERANK_TEXT_BYTES)).unwrap_or_default().to_owned()
        };
        let texts: Vec<String> = candidates.iter().map(text).collect();
        match rerank(self.resources, call, &self.query.text, &texts, texts.len()).await {
            Ok(ranked) => {
                self.usage = self.usage.plus(ranked.usage);
                *candidates = candidates::reranked(std::mem::take(candidates), &ranked.results);
                Ok(SearchPart { is_used: true, gaps: Vec::new() })
            }
            Err(error) => unused(SearchGap::RerankFailed(self.problem(&error))),
        }
    }

    /// Reads the words of the pages that the candidates are from.
    async fn pages(&self, candidates: &[Candidate]) -> Result<Pages> {
        let of = |candidate: &Candidate| {
            let document = candidate.hit.document.clone();
            let pages: BTreeSet<u32> = candidate.passage.segments.iter().map(|segment| segment.page).collect();
            pages.into_iter().map(move |page| (document.clone(), page))
        };
        let mut wanted: BTreeSet<(DocumentId, u32)> = BTreeSet::new();
        // The pages of the best passages have precedence.
        for page in candidates.iter().flat_map(of) {
            if wanted.len() >= PAGES_MAX {
                break;
            }
            wanted.insert(page);
        }
        let (texts, org) = (&self.resources.stores.texts, self.org());
        let reads: Vec<_> = wanted
            .into_iter()
            .map(|(document, number)| async move {
                let boxes = texts.boxes(org, document.as_str(), number, 1).await?;
                let Some(boxes) = boxes.into_iter().find(|page| page.number == number) else { return Ok(None) };
                let text = texts.text(org, document.as_str(), number, 1).await?;
                let text = text.into_iter().find(|page| page.number == number);
                let words = text.map(|page| PageWords::new(&page.text, boxes.boxes));
                Ok::<_, Error>(words.map(|words| ((document, number), words)))
            })
            .collect();
        let found: Vec<Option<_>> = futures::stream::iter(reads).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }
}
