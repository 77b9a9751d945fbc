//! Verified extractions as examples for a model.
//!
//! An example is a verified extraction of another document. A user verified the extraction, its data match the schema in use, and
//! the first pages of the two documents are similar ([`similarity`](mod@super::similarity)). The model receives the whole text of
//! the other document and the verified data.
//!
//! | step | cost |
//! |---|---|
//! | list the newest verified extractions of the schema | one list of at most [`LISTED_MAX`] |
//! | read their documents | one read of at most [`COMPARED_MAX`] |
//! | read the text and the boxes of the document and of each candidate | two reads of at most [`PAGES_MAX`] pages each |
//!
//! All reads are restricted to the organization of the caller. Texts and data of examples are as untrusted as the document.

use std::collections::BTreeSet;

use folio_llm::count_tokens;
use folio_resources::{Document, Extraction, ExtractionFilter, SchemaRevision, TextState, UsedExample, WordBoxes};
use folio_storage::Stores;
use folio_types::page::PageRequest;
use folio_types::{DocumentId, ExtractionId, OrgId, Result};
use serde_json::Value;

use super::similarity::{Labels, similarity, value_words};
use super::{Options, message};
use crate::document_text::add_page;
use crate::rules;

/// Maximum number of verified extractions that a run lists.
const LISTED_MAX: u32 = 64;
/// Maximum number of documents that a run compares with its document.
const COMPARED_MAX: usize = 32;
/// Maximum number of pages of an example's document.
const PAGES_MAX: u32 = 4;

/// An example that the model may read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Example {
    pub(super) used: UsedExample,
    /// The part of the message with the text and the data.
    pub(super) message: String,
    pub(super) tokens: u64,
}

/// A verified extraction with its document.
#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    extraction: ExtractionId,
    document: DocumentId,
    data: Value,
}

/// Returns the examples for a document, the most similar first. No example is an extraction of the document, or of another
/// upload of the same file.
pub(super) async fn select(
    stores: &Stores,
    org: &OrgId,
    document: &Document,
    schema: &SchemaRevision,
    options: &Options,
) -> Result<Vec<Example>> {
    if options.examples == 0 {
        return Ok(Vec::new());
    }
    let filter =
        ExtractionFilter { schema: Some(schema.revid.of.clone()), verified: Some(true), ..ExtractionFilter::default() };
    let page = PageRequest { size: LISTED_MAX, ..PageRequest::default() };
    let listed = stores.of::<Extraction>().list(org, &filter, &page).await?.items;
    let candidates = candidates(listed, &document.id, options);
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<DocumentId> = candidates.iter().map(|candidate| candidate.document.clone()).collect();
    let documents = stores.of::<Document>().get_many(org, &ids).await?;
    let Some(own) = FirstPages::read(stores, org, document, 1).await? else { return Ok(Vec::new()) };
    let mut examples = Vec::new();
    for candidate in candidates {
        let found = documents.iter().find(|found| found.id == candidate.document);
        let Some(found) = found.filter(|found| is_usable(found, document)) else { continue };
        if !rules::violations_of("schema", schema, &candidate.data).await?.is_empty() {
            continue;
        }
        let Some(pages) = FirstPages::read(stores, org, found, PAGES_MAX).await? else { continue };
        if let Some(example) = compare(&own, pages, candidate, options) {
            examples.push(example);
        }
    }
    Ok(most_similar(examples, options))
}

/// Returns the extractions that may become examples, one for each document, in the given order.
fn candidates(listed: Vec<Extraction>, document: &DocumentId, options: &Options) -> Vec<Candidate> {
    let mut documents = BTreeSet::from([document.clone()]);
    let by_user = listed.into_iter().filter(|found| found.verified && found.verified_by.is_some());
    let newest = by_user.filter(|found| documents.insert(found.document.clone()));
    let candidates =
        newest.map(|found| Candidate { data: found.current().clone(), extraction: found.id, document: found.document });
    candidates.filter(|found| is_short(&[found.data.to_string().as_str()], options)).take(COMPARED_MAX).collect()
}

/// Returns true if the texts have at most as many characters as an example may have.
fn is_short(texts: &[&str], options: &Options) -> bool {
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    u32::try_from(chars).is_ok_and(|chars| chars <= options.example_chars)
}

/// Returns true if the document of a candidate has a text of a few pages, and is another file than `own`.
fn is_usable(document: &Document, own: &Document) -> bool {
    let has_text = document.state == TextState::Ready && (1..=PAGES_MAX).contains(&document.pages);
    has_text && document.sha256 != own.sha256
}

/// The first pages of a document.
#[derive(Debug)]
pub(super) struct FirstPages {
    text: String,
    /// The labels of the first page.
    labels: Labels,
}

impl FirstPages {
    /// Reads at most `count` pages. None: a page has no text, or only a part of its text.
    pub(super) async fn read(stores: &Stores, org: &OrgId, document: &Document, count: u32) -> Result<Option<Self>> {
        let (texts, id) = (&stores.texts, document.id.as_str());
        let (pages, boxes) = tokio::try_join!(texts.text(org, id, 1, count), texts.boxes(org, id, 1, 1))?;
        let Some(first) = pages.first().filter(|first| first.number == 1) else { return Ok(None) };
        if pages.iter().any(|page| page.gap.is_some()) {
            return Ok(None);
        }
        let no_boxes = WordBoxes::default();
        let boxes = boxes.first().filter(|page| page.number == 1).map_or(&no_boxes, |page| &page.boxes);
        let labels = Labels::of(&first.text, boxes);
        let mut text = String::new();
        for page in &pages {
            add_page(&mut text, (document.pages > 1).then_some(page.number), &page.text);
        }
        Ok(Some(Self { text, labels }))
    }

    /// Returns the labels of the first page.
    pub(super) fn labels(&self) -> &Labels {
        &self.labels
    }
}

/// Returns the candidate as an example. None: its pages are not similar, or it is too long.
fn compare(own: &FirstPages, pages: FirstPages, candidate: Candidate, options: &Options) -> Option<Example> {
    let Candidate { extraction, data, .. } = candidate;
    let similarity = similarity(&own.labels, &pages.labels, &value_words(&data));
    let threshold = options.example_similarity;
    let answer = data.to_string();
    if similarity < threshold || !is_short(&[pages.text.as_str(), answer.as_str()], options) {
        return None;
    }
    let message = message::example(&pages.text, &answer);
    let tokens = count_tokens(&message);
    Some(Example { used: UsedExample { extraction, similarity, threshold }, message, tokens })
}

/// Returns the most similar examples, as many as the settings permit. Equally similar examples keep their order.
fn most_similar(mut examples: Vec<Example>, options: &Options) -> Vec<Example> {
    examples.sort_by(|one, other| other.used.similarity.total_cmp(&one.used.similarity));
    examples.truncate(usize::try_from(options.examples).unwrap_or(usize::MAX));
    examples
}

/// Returns as many of the first examples as possible. `fits` receives the number of tokens of these examples and returns true if
/// the prompt can contain them.
pub(super) fn fitting(examples: &[Example], fits: impl Fn(u64) -> bool) -> &[Example] {
    let mut starts = (1..=examples.len()).rev().filter_map(|count| examples.get(..count));
    starts.find(|start| fits(tokens_of(start))).unwrap_or_default()
}

/// Returns the number of tokens of the examples with their introduction.
fn tokens_of(examples: &[Example]) -> u64 {
    examples.iter().map(|example| example.tokens).fold(count_tokens(message::EXAMPLES), u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use folio_types::{PromptId, PromptRevId, SchemaId, SchemaRevId, Timestamp, UserId};
    use serde_json::json;

    use super::*;

    fn options() -> Options {
        Options { examples: 2, example_chars: 200, example_similarity: 0.5, ..Options::default() }
    }

    fn verified(name: &str, document: &str, data: Value) -> Extraction {
        let user = UserId::derive(&["user"]);
        Extraction {
            id: ExtractionId::derive(&[name]),
            org: OrgId::derive(&["org"]),
            document: DocumentId::derive(&[document]),
            prompt: PromptRevId::new(PromptId::derive(&["prompt"]), 1),
            schema: Some(SchemaRevId::new(SchemaId::derive(&["schema"]), 1)),
            model: "base".to_owned(),
            original: json!({}),
            edited: Some(data),
            verified: true,
            verified_by: Some(user.clone()),
            report: Default::default(),
            fields: Default::default(),
            agent: None,
            created_by: user,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            version: 1,
        }
    }

    #[test]
    fn candidates_are_the_newest_extractions_of_other_documents_that_a_user_verified() {
        let data = json!({"total": 1});
        let listed = vec![
            verified("own", "own", data.clone()),
            Extraction { verified_by: None, ..verified("by a rule", "a", data.clone()) },
            verified("newest", "a", data.clone()),
            verified("older", "a", data.clone()),
            verified("long", "b", json!({ "text": "x".repeat(200) })),
            verified("other", "c", data.clone()),
        ];
        let found = candidates(listed, &DocumentId::derive(&["own"]), &options());
        let expected = ["newest", "other"].map(|name| ExtractionId::derive(&[name]));
        assert_eq!(found.iter().map(|found| found.extraction.clone()).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|found| found.data == data), "the corrected data count");
        let many = (0..COMPARED_MAX + 5).map(|at| verified(&at.to_string(), &at.to_string(), data.clone()));
        assert_eq!(candidates(many.collect(), &DocumentId::derive(&["own"]), &options()).len(), COMPARED_MAX);
    }

    fn pages(text: &str) -> FirstPages {
        FirstPages { text: text.to_owned(), labels: Labels::of(text, &WordBoxes::default()) }
    }

    fn candidate(data: Value) -> Candidate {
        let (extraction, document) = (ExtractionId::derive(&["e"]), DocumentId::derive(&["d"]));
        Candidate { extraction, document, data }
    }

    #[test]
    fn an_example_is_similar_and_short() {
        let (own, data) = (pages("Invoice\nTotal: 7"), json!({"total": 12}));
        let example = |text: &str| compare(&own, pages(text), candidate(data.clone()), &options());
        let found = example("Invoice\nTotal: 12").unwrap();
        assert!((found.used.similarity - 1.0).abs() < 1e-9 && found.used.threshold == 0.5, "{found:?}");
        assert!(found.message.contains("Total: 12") && found.message.contains("{\"total\":12}"), "{}", found.message);
        assert_eq!(found.tokens, count_tokens(&found.message));
        assert_eq!(example("Dear Ms Weber"), None);
        assert_eq!(example(&format!("Invoice\nTotal: 12{}", " 1".repeat(100))), None);
    }

    fn scored(similarity: f64, tokens: u64) -> Example {
        let used = UsedExample { extraction: ExtractionId::derive(&["e"]), similarity, threshold: 0.5 };
        Example { used, message: String::new(), tokens }
    }

    #[test]
    fn the_most_similar_examples_are_used_as_far_as_they_fit() {
        let chosen = most_similar(vec![scored(0.6, 1), scored(0.9, 2), scored(0.6, 3), scored(0.7, 4)], &options());
        assert_eq!(chosen.iter().map(|example| example.tokens).collect::<Vec<_>>(), [2, 4]);
        let overhead = count_tokens(message::EXAMPLES);
        for (max, expected) in [(overhead + 6, 2), (overhead + 5, 1), (overhead + 2, 1), (overhead + 1, 0), (0, 0)] {
            assert_eq!(fitting(&chosen, |tokens| tokens <= max).len(), expected, "{max}");
        }
        assert!(fitting(&[], |_| true).is_empty());
    }
}
