//! Replacement and removal of documents, in the steps that the crate documentation lists.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use folio_index::{IndexState, IndexedDocument, Passage, Written};
use folio_types::{DocumentId, Error, OrgId};

use crate::client::Failure;
use crate::collection::{Condition, dense_name};
use crate::filter::{of_tokens, of_writes};
use crate::index::{QdrantIndex, Records};
use crate::manifest::{DocumentRecord, Kind, payload_of};
use crate::wire::{
    Payload, PointStruct, Vector, dense, integer, key, point, point_id, sparse as sparse_vector, text, texts, vector,
};
use crate::{collection, sparse};

/// Attempts to change a document that other writes change at the same time.
const ATTEMPTS_MAX: u32 = 8;
/// Time before the second attempt, of which a random part is waited. It doubles with each attempt.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Maximum points of a request.
const POINTS_MAX: usize = 500;
/// Size of the vectors and payloads of a request, in bytes, above which no further point is added. The server accepts
/// requests of 32 MiB.
const REQUEST_BYTES: usize = 8 * 1024 * 1024;
/// Number of writes without an end from which their points are removed before a document is written.
const WRITES_MAX: usize = 64;
/// Maximum writes or tokens in a filter.
const FILTERED_MAX: usize = 1_000;

/// A change of the passages of a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) document: &'a DocumentId,
    /// None: the document is removed.
    pub(crate) new: Option<&'a IndexedDocument>,
}

impl<'a> Change<'a> {
    /// Returns the passages after the change. Empty: the document is removed.
    fn passages(self) -> &'a [Passage] {
        self.new.map(|new| new.passages.as_slice()).unwrap_or_default()
    }

    /// Returns true if the index has a later generation.
    fn is_stale(self, record: &DocumentRecord) -> bool {
        record.live.is_some() && self.new.is_some_and(|new| new.generation < record.generation)
    }
}

/// A change in progress.
struct Step<'a> {
    change: Change<'a>,
    /// The token of the record before the next change of it. None: there is no record.
    expected: Option<String>,
    /// The id of this write, which its points have.
    write: String,
    record: DocumentRecord,
    /// Writes without an end whose points are removed first.
    purged: Vec<String>,
}

impl<'a> Step<'a> {
    /// Plans the claim: the record names this write as well as those before.
    fn claim(change: Change<'a>, former: Option<DocumentRecord>, write: String, token: String) -> Self {
        let expected = former.as_ref().map(|record| record.token.clone());
        let mut record = former.unwrap_or_else(|| DocumentRecord {
            document: change.document.clone(),
            generation: 0,
            passages: 0,
            live: None,
            writes: Vec::new(),
            token: String::new(),
        });
        let mut purged = Vec::new();
        if record.writes.len() >= WRITES_MAX {
            let live = record.live.clone();
            purged = std::mem::replace(&mut record.writes, live.into_iter().collect());
            purged.retain(|write| Some(write) != record.live.as_ref());
        }
        record.writes.push(write.clone());
        record.token = token;
        Self { change, expected, write, record, purged }
    }

    /// Plans the switch: the record makes this write live, or the document unfindable.
    fn switch(mut self, token: String) -> Self {
        let record = &mut self.record;
        let passages = self.change.passages();
        self.expected = Some(std::mem::replace(&mut record.token, token));
        record.live = (!passages.is_empty()).then(|| self.write.clone());
        record.passages = u32::try_from(passages.len()).unwrap_or(u32::MAX);
        record.generation = self.change.new.map_or(record.generation, |new| new.generation);
        self
    }

    fn is_removal(&self) -> bool {
        self.change.passages().is_empty()
    }
}

/// The end of an attempt.
enum Attempt<'a> {
    /// Changes that other writes preceded.
    Conflicts(Vec<Change<'a>>),
    NotUsable(IndexState),
}

impl QdrantIndex {
    fn new_id(&self) -> String {
        self.environment.uuid().to_string()
    }

    /// Changes documents, each once.
    pub(crate) async fn write(&self, org: &OrgId, changes: Vec<Change<'_>>) -> Result<Written, Failure> {
        let (mut pending, mut stale, mut wait) = (changes, 0usize, FIRST_WAIT);
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(org, pending, &mut stale).await? {
                Attempt::NotUsable(state) => return Ok(Written::NotUsable(state)),
                Attempt::Conflicts(left) if left.is_empty() => return Ok(Written::Applied { stale }),
                Attempt::Conflicts(left) => pending = left,
            }
            let part = u32::from(self.environment.random().to_be_bytes()[0]);
            tokio::time::sleep(wait.saturating_mul(part) / 256).await;
            wait = wait.saturating_mul(2);
        }
        let message = "other writes change the same documents of the index; repeat the request later";
        Err(Error::version_conflict(message).into())
    }

    async fn attempt<'a>(
        &self,
        org: &OrgId,
        changes: Vec<Change<'a>>,
        stale: &mut usize,
    ) -> Result<Attempt<'a>, Failure> {
        let documents: Vec<&DocumentId> = changes.iter().map(|change| change.document).collect();
        let Records { state, documents: mut records } = self.records(org, &documents).await?;
        if !state.is_usable() {
            return Ok(Attempt::NotUsable(state));
        }
        let mut steps = Vec::with_capacity(changes.len());
        for change in changes {
            let former = records.remove(change.document);
            if former.as_ref().is_some_and(|record| change.is_stale(record)) {
                *stale = stale.saturating_add(1);
            } else if former.is_some() || !change.passages().is_empty() {
                steps.push(Step::claim(change, former, self.new_id(), self.new_id()));
            }
        }
        let (claimed, mut conflicts) = match self.advance(org, steps).await? {
            Advance::Won { steps, lost } => (steps, lost),
            Advance::NotUsable { state, steps } => return self.undo(org, steps, state).await,
        };
        let purged: Vec<&str> = claimed.iter().flat_map(|step| &step.purged).map(String::as_str).collect();
        self.delete_writes(org, &purged).await?;
        self.store_passages(org, &claimed).await?;
        let steps = claimed.into_iter().map(|step| step.switch(self.new_id())).collect();
        let (switched, lost) = match self.advance(org, steps).await? {
            Advance::Won { steps, lost } => (steps, lost),
            Advance::NotUsable { state, steps } => return self.undo(org, steps, state).await,
        };
        // A write that lost was superseded, so that no record names its points.
        self.delete_writes(org, &writes_of(&lost)).await?;
        conflicts.extend(lost);
        self.remember(org, switched.iter().map(|step| &step.record));
        self.clean_up(org, switched).await?;
        Ok(Attempt::Conflicts(conflicts.into_iter().map(|step| step.change).collect()))
    }

    /// Stores the records of steps, each if the record of the document is unchanged, and reads them again.
    async fn advance<'a>(&self, org: &OrgId, steps: Vec<Step<'a>>) -> Result<Advance<'a>, Failure> {
        if steps.is_empty() {
            return Ok(Advance::Won { steps, lost: Vec::new() });
        }
        let (known, new): (Vec<&Step<'_>>, Vec<&Step<'_>>) = steps.iter().partition(|step| step.expected.is_some());
        if !new.is_empty() {
            self.collection.upsert(points(org, &new), Condition::Absent).await?;
        }
        if !known.is_empty() {
            let unchanged = of_tokens(org, known.iter().filter_map(|step| step.expected.as_deref()));
            self.collection.upsert(points(org, &known), Condition::Matches(unchanged)).await?;
        }
        let documents: Vec<&DocumentId> = steps.iter().map(|step| step.change.document).collect();
        let Records { state, documents: records } = self.records(org, &documents).await?;
        if !state.is_usable() {
            return Ok(Advance::NotUsable { state, steps });
        }
        let (steps, lost) = steps.into_iter().partition(|step| {
            records.get(step.change.document).is_some_and(|record| record.token == step.record.token)
        });
        Ok(Advance::Won { steps, lost })
    }

    /// Removes the traces of steps in an index that was emptied or deleted meanwhile.
    async fn undo<'a>(&self, org: &OrgId, steps: Vec<Step<'a>>, state: IndexState) -> Result<Attempt<'a>, Failure> {
        self.delete_writes(org, &writes_of(&steps)).await?;
        let tokens: Vec<&str> = steps.iter().map(|step| step.record.token.as_str()).collect();
        self.delete_records(org, &tokens).await?;
        Ok(Attempt::NotUsable(state))
    }

    async fn store_passages(&self, org: &OrgId, steps: &[Step<'_>]) -> Result<(), Failure> {
        let mut names = BTreeSet::new();
        for vector in steps.iter().flat_map(|step| step.change.passages()).flat_map(|passage| &passage.vectors) {
            names.insert((dense_name(vector), vector.values.len()));
        }
        let names = self.collection.add_dense(names).await?;
        let (mut batch, mut bytes) = (Vec::new(), 0usize);
        for step in steps {
            let Some(new) = step.change.new else { continue };
            for passage in &new.passages {
                let (point, size) = passage_point(org, new, &step.write, (passage, names.as_ref()));
                batch.push(point);
                bytes = bytes.saturating_add(size);
                if batch.len() >= POINTS_MAX || bytes >= REQUEST_BYTES {
                    self.collection.upsert(std::mem::take(&mut batch), Condition::Always).await?;
                    bytes = 0;
                }
            }
        }
        if !batch.is_empty() {
            self.collection.upsert(batch, Condition::Always).await?;
        }
        Ok(())
    }

    /// Removes the points of former writes, and the records of removed documents.
    async fn clean_up(&self, org: &OrgId, steps: Vec<Step<'_>>) -> Result<(), Failure> {
        let mut former: Vec<&str> = Vec::new();
        for step in &steps {
            former.extend(step.record.writes.iter().map(String::as_str).filter(|write| *write != step.write));
        }
        self.delete_writes(org, &former).await?;
        let (mut removed, mut stored, mut cleaned) = (Vec::new(), Vec::new(), Vec::new());
        for step in &steps {
            let token = step.record.token.as_str();
            if step.is_removal() {
                removed.push(token);
            } else if step.record.writes.len() > 1 {
                stored.push(token);
                let writes = vec![step.write.clone()];
                let record = DocumentRecord { writes, token: self.new_id(), ..step.record.clone() };
                cleaned.push(record.point(org));
            }
        }
        self.delete_records(org, &removed).await?;
        if stored.is_empty() {
            return Ok(());
        }
        // A record that another write claimed keeps the names of the writes, which that write removes.
        let unchanged = of_tokens(org, stored.into_iter());
        self.collection.upsert(cleaned, Condition::Matches(unchanged)).await
    }

    async fn delete_writes(&self, org: &OrgId, writes: &[&str]) -> Result<(), Failure> {
        for writes in writes.chunks(FILTERED_MAX) {
            self.collection.delete(of_writes(org, writes.iter().copied())).await?;
        }
        Ok(())
    }

    /// Removes the records with these tokens. Records that were changed have other tokens.
    async fn delete_records(&self, org: &OrgId, tokens: &[&str]) -> Result<(), Failure> {
        for tokens in tokens.chunks(FILTERED_MAX) {
            self.collection.delete(of_tokens(org, tokens.iter().copied())).await?;
        }
        Ok(())
    }
}

fn writes_of<'a>(steps: &'a [Step<'_>]) -> Vec<&'a str> {
    steps.iter().map(|step| step.write.as_str()).collect()
}

fn points(org: &OrgId, steps: &[&Step<'_>]) -> Vec<PointStruct> {
    steps.iter().map(|step| step.record.point(org)).collect()
}

/// The result of storing records.
enum Advance<'a> {
    /// `lost`: the record was changed by another write.
    Won { steps: Vec<Step<'a>>, lost: Vec<Step<'a>> },
    /// The index was emptied or deleted meanwhile.
    NotUsable { state: IndexState, steps: Vec<Step<'a>> },
}

/// Returns the point of a passage, and its approximate size in bytes. `names`: the named vectors of the collection. Vectors of other
/// spaces are left out, so that the passage is found by its words.
fn passage_point(
    org: &OrgId,
    document: &IndexedDocument,
    write: &str,
    (passage, names): (&Passage, &BTreeSet<String>),
) -> (PointStruct, usize) {
    let mut payload: Payload = payload_of(org, Kind::Passage);
    payload.insert(key::DOCUMENT.to_owned(), text(document.document.as_str()));
    payload.insert(key::GENERATION.to_owned(), text(&document.generation.to_string()));
    payload.insert(key::NUMBER.to_owned(), integer(passage.number.into()));
    payload.insert(key::WRITE.to_owned(), text(write));
    payload.insert(key::TAGS.to_owned(), texts(document.tags.iter().map(folio_types::TagId::as_str)));
    let metadata = document.metadata.iter().map(|(name, value)| folio_index::adapter::metadata_text(name, value));
    let metadata: Vec<String> = metadata.collect();
    let mut bytes: usize = metadata.iter().map(String::len).sum();
    payload.insert(key::METADATA.to_owned(), texts(metadata.iter().map(String::as_str)));
    if let Some(date) = document.date {
        payload.insert(key::DATE.to_owned(), integer(date.as_microsecond()));
    }
    if let Some(language) = &passage.language {
        payload.insert(key::LANGUAGE.to_owned(), text(language));
    }
    let mut vectors: BTreeMap<String, Vector> = BTreeMap::new();
    let weights = sparse::of_passage(org, passage);
    bytes = bytes.saturating_add(weights.len().saturating_mul(2 * size_of::<f32>()));
    if !weights.is_empty() {
        let words = vector::Vector::Sparse(sparse_vector(&weights));
        vectors.insert(collection::LEXICAL.to_owned(), Vector { vector: Some(words) });
    }
    for embedding in &passage.vectors {
        let name = dense_name(embedding);
        if !names.contains(&name) {
            continue;
        }
        bytes = bytes.saturating_add(embedding.values.len().saturating_mul(size_of::<f32>()));
        let values = vector::Vector::Dense(dense(embedding.unit()));
        vectors.insert(name, Vector { vector: Some(values) });
    }
    let id = point_id(&[Kind::Passage.as_str(), org.as_str(), write, &passage.number.to_string()]);
    (point(id, payload, vectors), bytes)
}

#[cfg(test)]
mod tests {
    use folio_index::Embedding;

    use super::*;

    fn record(live: Option<&str>, writes: &[&str]) -> DocumentRecord {
        DocumentRecord {
            document: DocumentId::derive(&["a"]),
            generation: 2,
            passages: 1,
            live: live.map(str::to_owned),
            writes: writes.iter().map(|write| (*write).to_owned()).collect(),
            token: "before".to_owned(),
        }
    }

    fn document(generation: u64, passages: usize) -> IndexedDocument {
        let document = DocumentId::derive(&["a"]);
        let (tags, metadata) = (vec![], BTreeMap::new());
        IndexedDocument {
            document,
            generation,
            tags,
            metadata,
            date: None,
            passages: vec![Passage::default(); passages],
        }
    }

    #[test]
    fn a_vector_of_a_space_beyond_the_maximum_is_left_out() {
        let vector = |space: &str| Embedding { space: space.to_owned(), values: vec![1.0, 0.0] };
        let vectors = vec![vector("first"), vector("other")];
        let passage = Passage { text: "pump".to_owned(), vectors, ..Passage::default() };
        let names = BTreeSet::from([dense_name(&vector("first"))]);
        let (org, document) = (OrgId::derive(&["o"]), document(1, 0));
        let size = |names: &BTreeSet<String>| passage_point(&org, &document, "w", (&passage, names)).1;
        let of_vector = 2 * size_of::<f32>();
        assert_eq!(size(&names), size(&BTreeSet::new()) + of_vector);
        let all = BTreeSet::from([dense_name(&vector("first")), dense_name(&vector("other"))]);
        assert_eq!(size(&all), size(&names) + of_vector);
    }

    #[test]
    fn a_claim_keeps_what_is_live() {
        let new = document(3, 2);
        let change = Change { document: &new.document, new: Some(&new) };
        let step = Step::claim(change, Some(record(Some("w1"), &["w1"])), "w2".to_owned(), "t1".to_owned());
        assert_eq!((step.expected.as_deref(), step.record.token.as_str()), (Some("before"), "t1"));
        assert_eq!((step.record.live.as_deref(), step.record.generation), (Some("w1"), 2));
        assert_eq!(step.record.writes, ["w1", "w2"]);
        let step = step.switch("t2".to_owned());
        assert_eq!((step.expected.as_deref(), step.record.token.as_str()), (Some("t1"), "t2"));
        assert_eq!((step.record.live.as_deref(), step.record.generation), (Some("w2"), 3));
        assert_eq!((step.record.passages, step.is_removal()), (2, false));
    }

    #[test]
    fn a_removal_and_an_earlier_generation_are_recognized() {
        let (empty, earlier) = (document(3, 0), document(1, 1));
        let removal = Change { document: &empty.document, new: Some(&empty) };
        let step = Step::claim(removal, Some(record(Some("w1"), &["w1"])), "w2".to_owned(), "t".to_owned());
        assert!(step.is_removal());
        assert_eq!(step.switch("t2".to_owned()).record.live, None);
        let change = Change { document: &earlier.document, new: Some(&earlier) };
        assert!(change.is_stale(&record(Some("w1"), &[])));
        assert!(!change.is_stale(&record(None, &["w1"])), "a claim without an end has no generation");
        assert!(!Change { document: &earlier.document, new: None }.is_stale(&record(Some("w1"), &[])));
    }

    #[test]
    fn the_names_of_writes_without_an_end_are_bounded() {
        let new = document(3, 1);
        let change = Change { document: &new.document, new: Some(&new) };
        let names: Vec<String> = (0..WRITES_MAX).map(|number| format!("w{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let step = Step::claim(change, Some(record(Some("w3"), &names)), "new".to_owned(), "t".to_owned());
        assert_eq!(step.record.writes, ["w3", "new"]);
        assert_eq!(step.purged.len(), WRITES_MAX - 1);
        assert!(!step.purged.contains(&"w3".to_owned()));
    }
}
