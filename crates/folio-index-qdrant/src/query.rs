//! Searches.

use std::collections::{BTreeMap, BTreeSet};
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

/// The documents that a search found, as they were read last.
#[derive(Default)]
struct Seen {
    /// None: the document has no record.
    records: BTreeMap<DocumentId, Option<DocumentRecord>>,
    /// Found writes that were not live.
    strays: BTreeSet<String>,
}

impl Seen {
    fn live(&self, document: &DocumentId) -> Option<&str> {
        self.records.get(document)?.as_ref()?.live.as_deref()
    }

    /// Returns the writes whose passages the next query leaves out.
    fn dropped(&self) -> BTreeSet<&str> {
        let mut dropped = BTreeSet::new();
        for record in self.records.values().flatten() {
            dropped.extend(record.writes.iter().map(String::as_str));
        }
        dropped.extend(self.strays.iter().map(String::as_str));
        self.records.keys().filter_map(|document| self.live(document)).for_each(|live| _ = dropped.remove(live));
        dropped
    }
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
        let mut seen = Seen::default();
        let mut found = Vec::new();
        if !parts.is_empty() && !matches_nothing(search) {
            let mut rounds = 0;
            found = loop {
                let results = self.collection.query(queries(org, search, &parts, &seen)).await?;
                let candidates: Vec<Vec<Candidate>> = results.iter().map(candidates).collect();
                if self.confirm(org, &candidates, &mut seen).await? {
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

    /// Returns true if all candidates are of live writes, and no document changed since it was read before the query.
    /// Records the documents for the next query.
    async fn confirm(&self, org: &OrgId, candidates: &[Vec<Candidate>], seen: &mut Seen) -> Result<bool, Failure> {
        let mut documents: BTreeSet<DocumentId> = seen.records.keys().cloned().collect();
        documents.extend(candidates.iter().flatten().map(|found| found.key.document.clone()));
        if documents.is_empty() {
            return Ok(true);
        }
        let mut records = self.records(org, &documents.iter().collect::<Vec<_>>()).await?;
        if records.state == IndexState::Torn {
            return Err(Error::unavailable(Reason::StoreUnavailable, "the index of passages is damaged").into());
        }
        let mut is_confirmed = true;
        for document in documents {
            let record = records.documents.remove(&document);
            let now = record.as_ref().and_then(|record| record.live.as_deref());
            let entry = (org.clone(), document.clone());
            let remembered = self.live.get(&entry);
            let before = match seen.records.contains_key(&document) {
                true => seen.live(&document),
                false => remembered.as_deref(),
            };
            is_confirmed &= now == before;
            if let Some(now) = now.filter(|now| remembered.as_deref() != Some(*now)) {
                self.live.insert(entry, Arc::from(now));
            }
            seen.records.insert(document, record);
        }
        for Candidate { key, write, .. } in candidates.iter().flatten() {
            if seen.live(&key.document) != Some(write.as_str()) {
                seen.strays.insert(write.clone());
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

fn queries(org: &OrgId, search: &Search, parts: &[&Part], seen: &Seen) -> Vec<QueryPoints> {
    let filter: wire::Filter = of_search(org, &search.filter, seen.dropped().into_iter());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_leaves_out_the_writes_that_are_not_live() {
        let document = DocumentId::derive(&["a"]);
        let record = |live: Option<&str>| DocumentRecord {
            document: document.clone(),
            generation: 1,
            passages: 1,
            live: live.map(str::to_owned),
            writes: vec!["former".to_owned(), "live".to_owned(), "claimed".to_owned()],
            token: String::new(),
        };
        let mut seen = Seen::default();
        assert!(seen.dropped().is_empty());
        seen.strays.insert("stray".to_owned());
        seen.records.insert(document.clone(), Some(record(Some("live"))));
        assert_eq!(seen.dropped(), ["claimed", "former", "stray"].into());
        // A write that became live is found again.
        seen.records.insert(document.clone(), Some(record(Some("stray"))));
        assert_eq!(seen.dropped(), ["claimed", "former", "live"].into());
        seen.records.insert(document, None);
        assert_eq!(seen.dropped(), ["stray"].into());
    }
}
