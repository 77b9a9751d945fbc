//! Operations that find terms in the texts of documents: abbreviations without a meaning, and meanings that texts state.

use std::collections::{BTreeMap, BTreeSet};

pub use folio_knowledge::StewardReport;
use folio_knowledge::{StewardRun, steward_run};
use folio_resources::{
    DictionaryEntry, Document, DocumentFilter, ENTRY_SOURCES_MAX, EXPANSION_CHARS, TextState, stated_expansions,
    term_key,
};
use folio_types::op::Target;
use folio_types::page::Order;
use folio_types::{DocumentId, Error, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use crate::context::Context;
use crate::declaration::{Declaration, Quota};
use crate::dictionary::SERVICE;
use crate::list::{ListRequest, Listing, SortKeys};
use crate::operation::Operation;

/// Maximum number of documents that one request reads.
// proto: ProposeDictionaryEntriesRequest.page_size "at most {}."
// proto: ProposeDictionaryEntriesRequest.page_size "Default: {}."
pub const READ_DOCUMENTS_MAX: u32 = 20;
/// Maximum size of the text of a document that is searched for meanings, in bytes.
// proto: DictionaryService.ProposeDictionaryEntries "the first {} MiB"
const TEXT_BYTES: usize = 1024 * 1024;
/// Maximum number of proposals of a response.
// proto: ProposeDictionaryEntriesResponse.proposals "at most {} proposals"
pub const PROPOSALS_MAX: usize = 500;
/// Maximum number of meanings of one document.
const MEANINGS_PER_DOCUMENT: usize = 200;
/// Number of pages of one read, and of entries that are looked up concurrently.
const PAGES_AT_ONCE: u32 = 20;
const ENTRIES_AT_ONCE: usize = 8;

/// Looks up the abbreviations of a document that its text does not explain. One model call infers the unknown ones, which become
/// questions to a person. Ingestion in the mode `fast` runs the same steps. Errors: `NOT_FOUND`, `NO_TEXT`.
#[derive(Debug, Clone, Serialize)]
pub struct ReviewDocumentTerms {
    pub document_id: DocumentId,
    /// True: no model is called.
    pub without_model: bool,
}

impl Operation for ReviewDocumentTerms {
    const DECLARATION: Declaration = SERVICE.change("ReviewDocumentTerms").long().quota(Quota::ModelCalls);
    type Output = StewardReport;

    async fn run(self, context: &Context) -> Result<StewardReport> {
        context.find::<Document>(&self.document_id).await?;
        context.request.record(context.stores(), Target::operation(Self::DECLARATION.name)).await?;
        let principal = context.principal();
        let run = StewardRun {
            org: principal.org.clone(),
            user: principal.user.clone(),
            // A repeated request finds the entries and questions of the first, and calls a model for further terms only.
            key: format!("terms.{}.{:08x}", self.document_id, context.environment().random() >> 96),
            is_inferring: !self.without_model,
        };
        steward_run(&context.tool_resources()?, &run, &self.document_id).await
    }
}

/// Proposes entries for the terms whose meaning the texts of documents state, without those that the dictionary contains. Reads the
/// documents of a page, the oldest first.
#[derive(Debug, Clone, Serialize)]
pub struct ProposeDictionaryEntries {
    /// Only the page size and the page token are used.
    pub list: ListRequest,
}

/// A meaning that texts state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProposedEntry {
    pub term: String,
    pub expansion: String,
    /// The documents that state the meaning, at most [`ENTRY_SOURCES_MAX`].
    pub documents: Vec<DocumentId>,
    /// Number of statements.
    pub count: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedEntries {
    /// Those with most documents and statements first.
    pub proposals: Vec<ProposedEntry>,
    /// Number of documents that were read.
    pub documents: usize,
    /// Empty: no further documents.
    pub next_page_token: String,
}

impl Operation for ProposeDictionaryEntries {
    const DECLARATION: Declaration = SERVICE.read("ProposeDictionaryEntries").long();
    type Output = ProposedEntries;

    async fn run(self, context: &Context) -> Result<ProposedEntries> {
        let (stores, org) = (context.stores(), &context.principal().org);
        let scope = ["proposed entries", org.as_str()];
        let listing = Listing::new(&self.list, &scope, SortKeys::CreateTime, Order::Oldest, READ_DOCUMENTS_MAX)?;
        let page = stores.of::<Document>().list(org, &DocumentFilter::default(), &listing.page).await?;
        let mut found = Found::default();
        for document in page.items.iter().filter(|document| document.state == TextState::Ready) {
            let text = read_text(context, document).await?;
            // The search of a long text would block the other requests.
            let stated = tokio::task::spawn_blocking(move || stated_expansions(&text, MEANINGS_PER_DOCUMENT));
            let failed = |error| Error::internal(format!("the search for meanings failed: {error}"));
            for stated in stated.await.map_err(failed)? {
                found.add(document.id.clone(), &stated.term, &stated.expansion, stated.count);
            }
        }
        let proposals = unknown(context, found.ranked()).await?;
        let next_page_token = listing.page_token(page.next);
        Ok(ProposedEntries { proposals, documents: page.items.len(), next_page_token })
    }
}

/// Returns the beginning of the text of a document.
async fn read_text(context: &Context, document: &Document) -> Result<String> {
    let (mut text, mut first) = (String::new(), 1);
    while first <= document.pages && text.len() < TEXT_BYTES {
        let texts = &context.stores().texts;
        for page in texts.text(&document.org, document.id.as_str(), first, PAGES_AT_ONCE).await? {
            text.push_str(&page.text);
            text.push('\n');
        }
        first += PAGES_AT_ONCE;
    }
    text.truncate(text.floor_char_boundary(TEXT_BYTES));
    Ok(text)
}

/// Meanings by the key of their term and the folded meaning.
#[derive(Default)]
struct Found(BTreeMap<(String, String), ProposedEntry>);

impl Found {
    fn add(&mut self, document: DocumentId, term: &str, expansion: &str, count: usize) {
        if expansion.chars().nth(EXPANSION_CHARS).is_some() {
            return;
        }
        let key = (term_key(term), term_key(expansion));
        let (term, expansion) = (term.to_owned(), expansion.to_owned());
        let new = || ProposedEntry { term, expansion, documents: Vec::new(), count: 0 };
        let entry = self.0.entry(key).or_insert_with(new);
        entry.count = entry.count.saturating_add(count);
        // A document may state the same meaning in several spellings.
        if entry.documents.len() < ENTRY_SOURCES_MAX && entry.documents.last() != Some(&document) {
            entry.documents.push(document);
        }
    }

    fn ranked(self) -> Vec<ProposedEntry> {
        let mut ranked: Vec<ProposedEntry> = self.0.into_values().collect();
        ranked.sort_by(|one, other| {
            let key = |entry: &ProposedEntry| (entry.documents.len(), entry.count);
            key(other).cmp(&key(one)).then_with(|| (&one.term, &one.expansion).cmp(&(&other.term, &other.expansion)))
        });
        ranked.truncate(PROPOSALS_MAX);
        ranked
    }
}

/// Returns the proposals for terms without an entry.
async fn unknown(context: &Context, proposals: Vec<ProposedEntry>) -> Result<Vec<ProposedEntry>> {
    let (entries, org) = (&context.stores().of::<DictionaryEntry>(), &context.principal().org);
    let keys: BTreeSet<String> = proposals.iter().map(|proposal| term_key(&proposal.term)).collect();
    let reads: Vec<_> = keys
        .into_iter()
        .map(|key| async move {
            let found = entries.by_name(org, &key).await?;
            Ok::<_, Error>(found.map(|_| key))
        })
        .collect();
    let known: Vec<Option<String>> = futures::stream::iter(reads).buffered(ENTRIES_AT_ONCE).try_collect().await?;
    let known: BTreeSet<String> = known.into_iter().flatten().collect();
    Ok(proposals.into_iter().filter(|proposal| !known.contains(&term_key(&proposal.term))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings_of_most_documents_are_proposed_first() {
        let [one, two] = ["one", "two"].map(|name| DocumentId::derive(&[name]));
        let mut found = Found::default();
        found.add(one.clone(), "SG", "Singapore", 9);
        found.add(one.clone(), "MY", "Malaysia", 1);
        found.add(two.clone(), "MY", "malaysia", 1);
        found.add(two.clone(), "MY", "MALAYSIA", 1);
        found.add(two.clone(), "MY", "Model Year", 1);
        found.add(two.clone(), "XX", &"x".repeat(EXPANSION_CHARS + 1), 99);
        let entry = |term: &str, expansion: &str, documents: &[&DocumentId], count| ProposedEntry {
            term: term.to_owned(),
            expansion: expansion.to_owned(),
            documents: documents.iter().map(|id| (*id).clone()).collect(),
            count,
        };
        let expected = [
            entry("MY", "Malaysia", &[&one, &two], 3),
            entry("SG", "Singapore", &[&one], 9),
            entry("MY", "Model Year", &[&two], 1),
        ];
        assert_eq!(found.ranked(), expected);
    }
}
