//! Creates a document with a marker word in every field and dependent, deletes it, and runs the clean-up. Afterwards, no
//! row of the store may contain the word.

use std::collections::BTreeMap;

use folio_resources::{
    DictionaryQuestion, DictionaryQuestionChange, Document, DocumentChange, DocumentPatch, Extraction,
    ExtractionChange, LinkCollector, LinkKey, NewDocument, NewQuestion,
};
use folio_types::op::Expected;
use folio_types::{BlobId, BudgetPart, BudgetRoot, DocumentId, OrgId, TurnId, limits};
use serde_json::json;

use super::context::{Context, create_extraction, done};
use super::threads_append::{appended, batch_with_state, request};
use super::{Failure, Outcome, check};
use folio_storage::Stores;

/// The start of the simulated clock, in seconds since 1970. It is earlier than in all suites, so that the clean-up here does not
/// affect them.
const SECONDS: i64 = 1_600_000_000;
/// Maximum number of index rows that one call reads.
const ROWS: usize = 10_000;

/// A document with dependents of every kind.
pub struct FilledDocument {
    context: Context,
    document: DocumentId,
}

/// Creates a document with dependents. The word is in the name, metadata, pages and bytes of the document, in its extractions,
/// proposals, links and question, in its thread and in the budget of the thread. No other data contains the word.
pub async fn fill_document(stores: &Stores, nonce: &str, word: &str) -> Result<FilledDocument, Failure> {
    let context = Context::new(stores.clone(), "filled-document", nonce).since(SECONDS);
    let (document, name) = (context.document_id(), format!("the {word}.txt"));
    let new = NewDocument {
        tags: vec![context.tag("tag").await?],
        metadata: BTreeMap::from([("subject".to_owned(), word.to_owned())]),
        ..NewDocument::file(name.clone(), "text/plain", b"hello", BlobId::derive(&[&name]))
    };
    let write = context.write(Expected::Absent, DocumentChange::Create(new))?;
    context.record::<Document, _>(&document, &write).await?;
    done(stores.of::<Document>().decide(&document, write).await?)?;
    let pages = [1, 2].map(|number| format!("Page {number} of {name}")).to_vec();
    context.fill(&document, pages, name.clone()).await?;
    let patch = DocumentPatch {
        name: Some(format!("another {word}.txt")),
        metadata: Some(BTreeMap::from([("subject".to_owned(), format!("another {word}"))])),
        tags: None,
    };
    let rename = context.write(Expected::Version(1), DocumentChange::Update(patch))?;
    done(stores.of::<Document>().decide(&document, rename).await?)?;
    extractions(&context, &document, word).await?;
    links(&context, &document, word).await?;
    thread(&context, &document, word).await?;
    Ok(FilledDocument { context, document })
}

/// Creates an edited extraction, a deleted extraction, an extraction of an agent, and proposals.
async fn extractions(context: &Context, document: &DocumentId, word: &str) -> Outcome {
    let store = context.stores.of::<Extraction>();
    let prompt = context.prompt("prompt", None, &[]).await?;
    let edited = ExtractionChange::Edit { data: json!({ "edited": word }) };
    for change in [edited, ExtractionChange::Delete] {
        let id = context.extraction_id();
        let create = create_extraction(document, &prompt, json!({ "read": word }));
        done(store.decide(&id, context.write(Expected::Absent, create)?).await?)?;
        done(store.decide(&id, context.write(Expected::Version(1), change)?).await?)?;
    }
    context.agent_extraction(document, &prompt, word).await?;
    context.proposals(document, &prompt, word).await
}

/// Stores keys and links of the document, a question about a term, and a link of another document to it.
async fn links(context: &Context, document: &DocumentId, word: &str) -> Outcome {
    let (links, org, at) = (context.stores.links(), &context.org, context.now());
    let mut found = LinkCollector::default();
    found.add_link(1, word, &format!("https://example.com/{word}.pdf"));
    links.write_keys(org, document, &[LinkKey::Id(document.clone()), LinkKey::Name(format!("{word}.txt"))]).await?;
    links.write_links(org, document, found.finish().0, at).await?;
    let new = NewQuestion {
        document: document.clone(),
        term: "MY".to_owned(),
        occurrences: 1,
        contexts: vec![format!("{word} in MY")],
        guess: None,
    };
    let create = context.write(Expected::Absent, DictionaryQuestionChange::Create(Box::new(new)))?;
    done(context.stores.of::<DictionaryQuestion>().decide(&context.id::<DictionaryQuestion>(), create).await?).map(drop)
}

async fn thread(context: &Context, document: &DocumentId, word: &str) -> Outcome {
    let threads = &context.stores.threads;
    let mut new = context.new_thread(std::slice::from_ref(document));
    new.title = format!("About the {word}");
    let header = threads.create(new).await?;
    let mut append = batch_with_state(context, header.fence(), word);
    append.request = Some(request(context, 1)?);
    appended(threads.append(&context.org, &header.id, append).await?)?;
    let (budgets, turn) = (context.stores.budgets(), TurnId::new(header.id, 1));
    let budget = BudgetPart::whole(BudgetRoot::Turn(turn), 5);
    Ok(budgets.change(&context.org, &budget, |budget| budget.reserve("", word, 2)).await?)
}

impl FilledDocument {
    /// Returns the organization of the document.
    pub fn org(&self) -> &OrgId {
        &self.context.org
    }

    /// Deletes the document, and then runs the clean-up, and the sweep of threads as of one day later.
    pub async fn delete(&self) -> Outcome {
        let (Stores { blobs, threads, .. }, org) = (&self.context.stores, self.org());
        let documents = self.context.stores.of::<Document>();
        let before = self.context.now();
        self.context.delete_document(&self.document).await?;
        let deleted = documents.indexed_deletions(&(before..=self.context.now()), None, ROWS).await?;
        let found = deleted.iter().find(|row| row.id == self.document.as_str());
        let Some(row) = found else {
            return Err(Failure("the index of deletions lacks a deleted document".to_owned()));
        };
        let later = row.at.checked_add(limits::DAY).unwrap_or(row.at);
        blobs.delete_document(org, &self.document).await?;
        self.context.stores.links().remove_document(org, &self.document).await?;
        threads.expire_referrers(org, self.document.as_str(), later).await?;
        documents.clean_deleted(org, &self.document, true).await?;
        let expired = threads.expired(later, ROWS).await?;
        let expired_threads: Vec<_> = expired.iter().filter(|(of, _)| of == org).collect();
        check!(expired_threads.len() == 1, "the thread of a deleted document expires with it: {expired_threads:?}");
        for (org, thread) in expired_threads {
            threads.delete(org, thread, None).await?;
            self.context.stores.budgets().remove(org, thread.as_str()).await?;
        }
        Ok(())
    }
}
