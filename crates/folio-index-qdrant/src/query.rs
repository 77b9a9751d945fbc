//! Searches.

use std::collections::BTreeSet;
use std::sync::Arc;

use folio_index::adapter::{CANDIDATES_MIN, LANGUAGES_MAX, PassageKey, Ranking, join, search_words, skipped, sort};
use folio_index::{Answer, Gap, IndexState, PartUse, Search};
use folio_types::{DocumentId, Error, OrgId, Reason};
use futures::future::try_join;

use crate::client::Failure;
use crate::collection::{LEXICAL, dense_name};
use crate::filter::{of_kind, of_search, without_vector};
use crate::index::{QdrantIndex, passage_write};
use crate::manifest::{DocumentRecord, Kind};
use crate::wire::{
    BatchResult, IdfParams, Query, QueryPoints, ScoredPoint, SearchParams, VectorInput, dense, facet_value,
    get_integer, get_text, key, payload_keys, query, sparse, vector_input,
};
use crate::{sparse as word_weights, wire};

/// Maximum repetitions of the queries of a search while its documents change.
const ROUNDS_MAX: usize = 32;

/// A part of a search that the server ranks.
struct Part {
    vector: VectorInput,
    /// Name of the vectors.
    using: String,
    params: Option<SearchParams>,
}

/// A part of a search.
enum PartPlan {
    Ranked(Part),
    /// No passage of any organization has a vector in the space of the search.
    Empty,
    Skipped(Gap),
}

/// A found passage, before its write is checked.
struct Candidate {
    key: PassageKey,
    score: f32,
    write: String,
}

/// Reads a found passage. None: its payload is damaged.
fn candidate(point: &ScoredPoint) -> Option<Candidate> {
    let (document, write) = passage_write(&point.payload)?;
    let key = PassageKey {
        document,
        number: get_integer(&point.payload, key::NUMBER)?.try_into().ok()?,
        generation: get_text(&point.payload, key::GENERATION)?.parse().ok()?,
    };
    Some(Candidate { key, score: point.score, write: write.to_owned() })
}

impl QdrantIndex {
    pub(crate) async fn find(&self, org: &OrgId, search: &Search) -> Result<Answer, Failure> {
        let (records, lexical) = try_join(self.records(org, &[]), self.lexical_plan(org, search)).await?;
        if !records.state.is_usable() {
            return Ok(Answer::unusable(records.state));
        }
        let dense_plan = self.dense_plan(search).await?;
        let without = async {
            match &search.vector {
                Some(vector) if !matches_nothing(search) => {
                    let matching = of_search(org, &search.filter, std::iter::empty());
                    self.collection.count(without_vector(matching, &dense_name(vector))).await
                }
                _ => Ok(0),
            }
        };
        let ([lexical, dense], without) = try_join(self.rankings(org, search, [lexical, dense_plan]), without).await?;
        let (dense, mut dense_use) = dense;
        if without > 0 {
            let gap = Gap::WithoutVector { passages: without };
            dense_use = PartUse { is_used: !dense.is_empty(), gaps: vec![gap] };
        }
        Ok(join(records.state, lexical, (dense, dense_use), search.limit))
    }

    async fn lexical_plan(&self, org: &OrgId, search: &Search) -> Result<PartPlan, Failure> {
        if search.text.trim().is_empty() {
            return Ok(PartPlan::Skipped(Gap::NotRequested));
        }
        let languages = match search.filter.languages.is_empty() {
            false => search.filter.languages.iter().cloned().collect(),
            true => self.languages(org).await?,
        };
        let words = search_words(&search.text, languages.iter().map(String::as_str));
        if words.is_empty() {
            return Ok(PartPlan::Skipped(Gap::NoWords));
        }
        let vector = sparse(&word_weights::of_search(org, &words));
        // Frequencies of words are those among the passages of the organization.
        let corpus = IdfParams { corpus: Some(of_kind(org, Kind::Passage)) };
        Ok(PartPlan::Ranked(Part {
            vector: VectorInput { variant: Some(vector_input::Variant::Sparse(vector)) },
            using: LEXICAL.to_owned(),
            params: Some(SearchParams { exact: None, idf: Some(corpus) }),
        }))
    }

    /// Returns the languages of the passages of an organization.
    async fn languages(&self, org: &OrgId) -> Result<BTreeSet<String>, Failure> {
        self.collection.open().await?;
        let most = u64::try_from(LANGUAGES_MAX).unwrap_or(u64::MAX);
        let values = self.collection.facet(key::LANGUAGE, Some(of_kind(org, Kind::Passage)), most).await;
        let values = match values {
            // The state of the organization is read at the same time, and is missing, too.
            Err(Failure::NoCollection) => Vec::new(),
            values => values?,
        };
        let texts = values.into_iter().filter_map(|hit| match hit.value?.variant? {
            facet_value::Variant::StringValue(text) => Some(text),
            _ => None,
        });
        Ok(texts.collect())
    }

    async fn dense_plan(&self, search: &Search) -> Result<PartPlan, Failure> {
        let Some(vector) = &search.vector else { return Ok(PartPlan::Skipped(Gap::NotRequested)) };
        let name = dense_name(vector);
        if !self.collection.open().await?.contains(&name) && !self.collection.reread().await?.contains(&name) {
            return Ok(PartPlan::Empty);
        }
        let vector = vector_input::Variant::Dense(dense(vector.unit()));
        Ok(PartPlan::Ranked(Part { vector: VectorInput { variant: Some(vector) }, using: name, params: None }))
    }

    /// Returns the rankings of the lexical and the dense part.
    ///
    /// The queries are repeated without the passages of writes that are not live, until each document has the same live
    /// write before and after the queries. Then its passages are complete, and of one generation.
    async fn rankings(
        &self,
        org: &OrgId,
        search: &Search,
        plans: [PartPlan; 2],
    ) -> Result<[(Ranking, PartUse); 2], Failure> {
        let parts: Vec<&Part> = plans.iter().filter_map(PartPlan::part).collect();
        let mut dropped: BTreeSet<String> = BTreeSet::new();
        let mut found = Vec::new();
        if !parts.is_empty() && !matches_nothing(search) {
            let mut rounds = 0;
            found = loop {
                let results = self.collection.query(queries(org, search, &parts, &dropped)).await?;
                let candidates: Vec<Vec<Candidate>> = results.iter().map(candidates).collect();
                if self.confirm(org, &candidates, &mut dropped).await? {
                    break candidates;
                }
                rounds += 1;
                if rounds >= ROUNDS_MAX {
                    let message = "documents changed during the search; repeat the request";
                    return Err(Error::unavailable(Reason::Overloaded, message).into());
                }
            };
        }
        let mut found = found.into_iter();
        Ok(plans.map(|plan| match plan {
            PartPlan::Skipped(gap) => skipped(gap),
            PartPlan::Empty => (Vec::new(), PartUse { is_used: true, gaps: Vec::new() }),
            PartPlan::Ranked(_) => {
                let of_part = found.next().unwrap_or_default().into_iter();
                let mut ranking: Ranking = of_part.map(|Candidate { key, score, .. }| (key, score)).collect();
                sort(&mut ranking);
                (ranking, PartUse { is_used: true, gaps: Vec::new() })
            }
        }))
    }

    /// Returns true if all candidates are of writes that were live before and after the query. Otherwise adds the writes
    /// that are not live to `dropped`.
    async fn confirm(
        &self,
        org: &OrgId,
        candidates: &[Vec<Candidate>],
        dropped: &mut BTreeSet<String>,
    ) -> Result<bool, Failure> {
        let documents: BTreeSet<&DocumentId> = candidates.iter().flatten().map(|found| &found.key.document).collect();
        if documents.is_empty() {
            return Ok(true);
        }
        let records = self.records(org, &documents.iter().copied().collect::<Vec<_>>()).await?;
        if records.state == IndexState::Torn {
            return Err(Error::unavailable(Reason::StoreUnavailable, "the index of passages is damaged").into());
        }
        let live = |document: &DocumentId| records.documents.get(document).and_then(|record| record.live.as_deref());
        let mut is_confirmed = true;
        for Candidate { key, write, .. } in candidates.iter().flatten() {
            if live(&key.document) != Some(write.as_str()) {
                dropped.insert(write.clone());
                is_confirmed = false;
            }
        }
        for document in documents {
            let Some(write) = live(document) else { continue };
            let entry = (org.clone(), document.clone());
            if self.live.get(&entry).as_deref() != Some(write) {
                self.live.insert(entry, Arc::from(write));
                is_confirmed = false;
            }
        }
        Ok(is_confirmed)
    }

    /// Remembers the live writes of documents that this process has just stored.
    pub(crate) fn remember<'a>(&self, org: &OrgId, records: impl Iterator<Item = &'a DocumentRecord>) {
        for record in records {
            if let Some(live) = &record.live {
                self.live.insert((org.clone(), record.document.clone()), Arc::from(live.as_str()));
            }
        }
    }
}

impl PartPlan {
    fn part(&self) -> Option<&Part> {
        match self {
            Self::Ranked(part) => Some(part),
            Self::Empty | Self::Skipped(_) => None,
        }
    }
}

/// Returns true if the filter excludes every passage.
fn matches_nothing(search: &Search) -> bool {
    search.filter.documents.as_ref().is_some_and(Vec::is_empty)
}

fn queries(org: &OrgId, search: &Search, parts: &[&Part], dropped: &BTreeSet<String>) -> Vec<QueryPoints> {
    let filter: wire::Filter = of_search(org, &search.filter, dropped.iter().map(String::as_str));
    let payload = payload_keys(&[key::DOCUMENT, key::NUMBER, key::GENERATION, key::WRITE]);
    let limit = u64::from(search.limit.max(CANDIDATES_MIN));
    let of_part = |part: &&Part| QueryPoints {
        query: Some(Query { variant: Some(query::Variant::Nearest(part.vector.clone())) }),
        using: Some(part.using.clone()),
        filter: Some(filter.clone()),
        params: part.params.clone(),
        limit: Some(limit),
        with_payload: Some(payload.clone()),
        ..QueryPoints::default()
    };
    parts.iter().map(of_part).collect()
}

/// Returns the found passages of a part. Damaged points are left out.
fn candidates(result: &BatchResult) -> Vec<Candidate> {
    result.result.iter().filter_map(candidate).collect()
}
