//! Searches in the index of one organization.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::str::FromStr as _;

use folio_types::{DocumentId, TagId};
use tantivy::collector::TopDocs;
use tantivy::columnar::{Column, StrColumn};
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, ConstScoreQuery, DisjunctionMaxQuery, EnableScoring, Occur, Query, RangeQuery,
    TermQuery, TermSetQuery,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocAddress, DocSet as _, Searcher, SegmentReader, TERMINATED, Term};

use super::failure::Failure;
use super::fields::{DOCUMENT, Fields, GENERATION, NUMBER};
use super::tenant::{Reader, Tenant};
use super::vectors::{Needle, VectorCache};
use crate::adapter::{CONTEXT_WEIGHT, LANGUAGES_MAX};
use crate::analysis;
use crate::answer::{Answer, Gap, IndexState, ListedDocument, PartUse};
use crate::fusion::{CANDIDATES_MIN, PassageKey, Ranking, join, skipped, sort};
use crate::search::{DocumentRule, Filter, Search};

/// Returns the best passages of an index. Fails if the index is not usable.
pub(super) fn search(
    tenant: &Tenant,
    vectors: &VectorCache,
    quantize_above: u64,
    search: &Search,
) -> Result<Answer, Failure> {
    let (state, reader) = tenant.usable()?;
    let searcher = reader.searcher();
    let limit = search.limit.max(CANDIDATES_MIN);
    let candidates = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut keys = Keys::new(&searcher);
    let lexical = lexical(&searcher, &reader.fields, search, candidates, &mut keys)?;
    let is_quantized = searcher.num_docs() > quantize_above;
    let scan = Scan { tenant, vectors, searcher: &searcher, reader: &reader, is_quantized };
    let dense = scan.dense(search, candidates, &mut keys)?;
    Ok(join(state, lexical, dense, search.limit))
}

fn term_query(field: Field, text: &str, record: IndexRecordOption) -> Box<dyn Query> {
    Box::new(TermQuery::new(Term::from_field_text(field, text), record))
}

fn any_of<'a>(field: Field, values: impl Iterator<Item = &'a str>) -> Box<dyn Query> {
    Box::new(TermSetQuery::new(values.map(|value| Term::from_field_text(field, value))))
}

/// Returns the queries for all of these tags and metadata values.
fn rule_queries(fields: &Fields, tags: &[TagId], metadata: &[(String, String)]) -> Vec<Box<dyn Query>> {
    let tags = tags.iter().map(|tag| term_query(fields.tag, tag.as_str(), IndexRecordOption::Basic));
    let metadata = metadata.iter().map(|(key, value)| -> Box<dyn Query> {
        Box::new(TermQuery::new(fields.metadata_term(key, value), IndexRecordOption::Basic))
    });
    tags.chain(metadata).collect()
}

/// Returns the query of a filter. None: every passage matches.
fn filter_query(fields: &Fields, filter: &Filter) -> Option<Box<dyn Query>> {
    let Filter { documents, tags, metadata, from, before, languages, collections } = filter;
    let mut conditions: Vec<Box<dyn Query>> = Vec::new();
    if let Some(documents) = documents {
        conditions.push(any_of(fields.document, documents.iter().map(DocumentId::as_str)));
    }
    conditions.extend(rule_queries(fields, tags, metadata));
    if !collections.is_empty() {
        let rule = |rule: &DocumentRule| -> Box<dyn Query> {
            let queries = rule_queries(fields, &rule.tags, &rule.metadata);
            // An intersection without queries would match nothing.
            if queries.is_empty() { Box::new(AllQuery) } else { Box::new(BooleanQuery::intersection(queries)) }
        };
        conditions.push(Box::new(BooleanQuery::union(collections.iter().map(rule).collect())));
    }
    if !languages.is_empty() {
        conditions.push(any_of(fields.language, languages.iter().map(String::as_str)));
    }
    let date = |at: &folio_types::Timestamp| Term::from_field_i64(fields.date, at.as_microsecond());
    let from = from.as_ref().map_or(Bound::Unbounded, |at| Bound::Included(date(at)));
    let before = before.as_ref().map_or(Bound::Unbounded, |at| Bound::Excluded(date(at)));
    if (&from, &before) != (&Bound::Unbounded, &Bound::Unbounded) {
        conditions.push(Box::new(RangeQuery::new(from, before)));
    }
    (!conditions.is_empty()).then(|| -> Box<dyn Query> { Box::new(BooleanQuery::intersection(conditions)) })
}

/// Returns the languages by whose rules the words of a search are reduced to stems: those of the filter, else those of the index, at
/// most [`LANGUAGES_MAX`].
fn languages(searcher: &Searcher, fields: &Fields, filter: &Filter) -> Result<BTreeSet<String>, Failure> {
    if !filter.languages.is_empty() {
        return Ok(filter.languages.iter().cloned().collect());
    }
    let mut languages = BTreeSet::new();
    for segment in searcher.segment_readers() {
        let index = segment.inverted_index(fields.language)?;
        let mut stream = index.terms().stream()?;
        while stream.advance() && languages.len() < LANGUAGES_MAX {
            languages.extend(std::str::from_utf8(stream.key()).ok().map(str::to_owned));
        }
    }
    Ok(languages)
}

fn lexical(
    searcher: &Searcher,
    fields: &Fields,
    search: &Search,
    limit: usize,
    keys: &mut Keys<'_>,
) -> Result<(Ranking, PartUse), Failure> {
    if search.text.trim().is_empty() {
        return Ok(skipped(Gap::NotRequested));
    }
    let languages = languages(searcher, fields, &search.filter)?;
    let words = analysis::search_words(&search.text, languages.iter().map(String::as_str));
    if words.is_empty() {
        return Ok(skipped(Gap::NoWords));
    }
    let word_query = |forms: &BTreeSet<String>| -> Box<dyn Query> {
        let of_form = |form: &String| {
            let context = term_query(fields.context, form, IndexRecordOption::WithFreqs);
            let context: Box<dyn Query> = Box::new(BoostQuery::new(context, CONTEXT_WEIGHT));
            [term_query(fields.text, form, IndexRecordOption::WithFreqs), context]
        };
        Box::new(DisjunctionMaxQuery::new(forms.iter().flat_map(of_form).collect()))
    };
    let words: Box<dyn Query> = Box::new(BooleanQuery::union(words.iter().map(word_query).collect()));
    let query = match filter_query(fields, &search.filter) {
        None => words,
        Some(filter) => {
            let filter: Box<dyn Query> = Box::new(ConstScoreQuery::new(filter, 0.0));
            Box::new(BooleanQuery::new(vec![(Occur::Must, words), (Occur::Must, filter)]))
        }
    };
    let found = searcher.search(&*query, &TopDocs::with_limit(limit).order_by_score())?;
    Ok((keys.ranking(found)?, PartUse { is_used: true, gaps: Vec::new() }))
}

/// The candidates of a scan with the largest scores, at most `limit` after [`Best::shrink`].
struct Best {
    limit: usize,
    candidates: Vec<(f32, DocAddress)>,
    /// A candidate is among the best only if its score is greater.
    threshold: f32,
}

impl Best {
    fn new(limit: usize) -> Self {
        Self { limit, candidates: Vec::new(), threshold: f32::NEG_INFINITY }
    }

    fn push(&mut self, score: f32, address: DocAddress) {
        if score <= self.threshold {
            return;
        }
        self.candidates.push((score, address));
        if self.candidates.len() >= self.limit.saturating_mul(2) {
            self.shrink();
            self.threshold = self.candidates.last().map_or(f32::NEG_INFINITY, |(score, _)| *score);
        }
    }

    fn shrink(&mut self) {
        self.candidates.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
        self.candidates.truncate(self.limit);
    }

    fn into_sorted(mut self) -> Vec<(f32, DocAddress)> {
        self.shrink();
        self.candidates
    }
}

/// A scan that compares the vector of a search with the vector of each passage.
struct Scan<'a> {
    tenant: &'a Tenant,
    vectors: &'a VectorCache,
    searcher: &'a Searcher,
    reader: &'a Reader,
    /// True if the scan compares vectors of 8-bit numbers, which need a quarter of the memory.
    is_quantized: bool,
}

impl Scan<'_> {
    fn dense(&self, search: &Search, limit: usize, keys: &mut Keys<'_>) -> Result<(Ranking, PartUse), Failure> {
        let Some(vector) = &search.vector else { return Ok(skipped(Gap::NotRequested)) };
        let needle = Needle::new(vector.space.clone(), vector.unit());
        let filter = filter_query(&self.reader.fields, &search.filter);
        let weight = filter.map(|filter| filter.weight(EnableScoring::disabled_from_searcher(self.searcher)));
        let weight = weight.transpose()?;
        let mut best = Best::new(limit);
        // All blocks remain in use until the end of the scan, so that the block of one segment does not evict that of another.
        let mut blocks = Vec::new();
        let (mut scanned, mut beyond_memory, mut without_vector) = (0u64, 0u64, 0u64);
        for (segment_ord, segment) in (0u32..).zip(self.searcher.segment_readers()) {
            let fields = &self.reader.fields;
            let block = self.vectors.block(&self.tenant.org, segment, fields, &needle, self.is_quantized)?;
            let Some(block) = block else {
                beyond_memory = beyond_memory.saturating_add(segment.num_docs().into());
                continue;
            };
            let mut compare = |entry: u32| {
                if segment.is_deleted(entry) {
                    return;
                }
                match block.cosine(entry, &needle) {
                    Some(score) => {
                        scanned = scanned.saturating_add(1);
                        best.push(score, DocAddress::new(segment_ord, entry));
                    }
                    None => without_vector = without_vector.saturating_add(1),
                }
            };
            match &weight {
                Some(weight) => weight.for_each_no_score(segment, &mut |entries: &[u32]| {
                    entries.iter().copied().for_each(&mut compare)
                })?,
                None => (0..segment.max_doc()).for_each(compare),
            }
            blocks.push(block);
        }
        let mut gaps = Vec::new();
        gaps.extend((beyond_memory > 0).then_some(Gap::Memory { passages: beyond_memory }));
        gaps.extend((without_vector > 0).then_some(Gap::WithoutVector { passages: without_vector }));
        // Without a gap, the scan found no vector because no passage matches.
        let is_used = scanned > 0 || gaps.is_empty();
        Ok((keys.ranking(best.into_sorted())?, PartUse { is_used, gaps }))
    }
}

/// The columns of a segment that identify a passage.
struct Columns {
    document: StrColumn,
    number: Column<u64>,
    generation: Column<u64>,
}

impl Columns {
    fn open(segment: &SegmentReader) -> Result<Self, Failure> {
        let columns = segment.fast_fields();
        let document = columns.str(DOCUMENT)?.ok_or(Failure::State(IndexState::Torn))?;
        Ok(Self { document, number: columns.u64(NUMBER)?, generation: columns.u64(GENERATION)? })
    }

    fn key(&self, entry: u32) -> Option<PassageKey> {
        let mut document = String::new();
        let is_found = self.document.ord_to_str(self.document.ords().first(entry)?, &mut document).ok()?;
        let number = u32::try_from(self.number.first(entry)?).ok()?;
        let generation = self.generation.first(entry)?;
        is_found.then(|| DocumentId::from_str(&document).ok()).flatten().map(|document| PassageKey {
            document,
            number,
            generation,
        })
    }
}

/// Reads the keys of passages. Keeps the columns of each segment open.
struct Keys<'a> {
    searcher: &'a Searcher,
    columns: HashMap<u32, Columns>,
}

impl<'a> Keys<'a> {
    fn new(searcher: &'a Searcher) -> Self {
        Self { searcher, columns: HashMap::new() }
    }

    /// Returns candidates with the keys of their passages, sorted.
    fn ranking(&mut self, candidates: Vec<(f32, DocAddress)>) -> Result<Ranking, Failure> {
        let ranking = candidates.into_iter().map(|(score, address)| Ok((self.key(address)?, score)));
        let mut ranking = ranking.collect::<Result<Ranking, Failure>>()?;
        sort(&mut ranking);
        Ok(ranking)
    }

    fn key(&mut self, address: DocAddress) -> Result<PassageKey, Failure> {
        use std::collections::hash_map::Entry;
        let columns = match self.columns.entry(address.segment_ord) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Columns::open(self.searcher.segment_reader(address.segment_ord))?),
        };
        columns.key(address.doc_id).ok_or(Failure::State(IndexState::Torn))
    }
}

/// Returns at most `limit` indexed documents in the order of their ids. `after`: the document before the first one. None: starts at
/// the first document.
pub(super) fn documents(
    tenant: &Tenant,
    after: Option<&DocumentId>,
    limit: usize,
) -> Result<Vec<ListedDocument>, Failure> {
    let (_, reader) = tenant.usable()?;
    let searcher = reader.searcher();
    let mut found: BTreeMap<DocumentId, ListedDocument> = BTreeMap::new();
    for segment in searcher.segment_readers() {
        let index = segment.inverted_index(reader.fields.document)?;
        let range = index.terms().range();
        let range = if let Some(after) = after { range.gt(after.as_str()) } else { range };
        let mut stream = range.into_stream()?;
        let generations = segment.fast_fields().u64(GENERATION)?;
        let mut of_segment = 0usize;
        while of_segment < limit && stream.advance() {
            let mut postings = index.read_postings_from_terminfo(stream.value(), IndexRecordOption::Basic)?;
            let (mut passages, mut generation) = (0u32, None);
            let mut entry = postings.doc();
            while entry != TERMINATED {
                if !segment.is_deleted(entry) {
                    passages = passages.saturating_add(1);
                    generation = generation.or_else(|| generations.first(entry));
                }
                entry = postings.advance();
            }
            let document = std::str::from_utf8(stream.key()).ok().and_then(|text| text.parse::<DocumentId>().ok());
            if let Some((document, generation)) = document.zip(generation) {
                of_segment += 1;
                let listed = ListedDocument { document: document.clone(), generation, passages: 0 };
                let listed = found.entry(document).or_insert(listed);
                listed.passages = listed.passages.saturating_add(passages);
            }
        }
    }
    Ok(found.into_values().take(limit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_candidates_are_those_with_the_largest_scores() {
        let mut best = Best::new(3);
        for (entry, score) in (0u32..).zip([0.1, 0.9, -0.5, 0.9, 0.3, 0.8, 0.2, 0.0, 0.7]) {
            best.push(score, DocAddress::new(0, entry));
        }
        let found = best.into_sorted();
        let entries: Vec<_> = found.iter().map(|(score, address)| (*score, address.doc_id)).collect();
        assert_eq!(entries, [(0.9, 1), (0.9, 3), (0.8, 5)]);
    }
}
