//! Streams of the state of a document with its extractions.
//!
//! A stream is level-triggered: each change is the new state of a part of the document, regardless of the process that made the
//! change. A caller that reconnects receives the current state first.

use std::collections::BTreeMap;
use std::convert::identity;
use std::sync::Arc;
use std::time::Duration;

use folio_permits::Permits;
use folio_resources::{Document, Extraction, ExtractionFilter, Resource as _};
use folio_storage::{ResourceStore, Stores};
use folio_types::access::Scope;
use folio_types::page::Order;
use folio_types::{DocumentId, Error, ExtractionId, OrgId, Result};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::Serialize;
use tokio::time::Instant;

use crate::context::{Context, poll_permit};
use crate::declaration::Declaration;
use crate::documents::SERVICE;
use crate::followed_list::{self, FollowedList};
use crate::operation::Operation;
use crate::shared_poller::{KeepAlive, Polls, Schedule, SharedPollers};

/// Maximum number of extractions of a document that a stream follows.
// proto: WatchDocumentResponse "the newest extractions, at most {}."
const FOLLOWED_MAX: usize = 20;
/// Interval at which a document is read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The state of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentState {
    pub document: Document,
    /// The newest extractions, newest first.
    extractions: FollowedList<Extraction>,
}

/// A change of the state of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum DocumentChange {
    /// The document or its text changed.
    Document(Box<Document>),
    /// An extraction was created, or changed.
    Extraction(Box<Extraction>),
    /// An extraction was deleted, or is no longer among the newest ones.
    RemovedExtraction(ExtractionId),
    /// The current state was sent completely. Also sent as a keep-alive.
    CaughtUp,
}

/// Streams the state of a document and its newest extractions, and then the changes, within seconds. The stream ends with
/// `NOT_FOUND` after the deletion of the document. A caller whose token lacks the scope `extractions` receives no extractions.
#[derive(Debug, Clone, Serialize)]
pub struct WatchDocument {
    pub document_id: DocumentId,
}

impl Operation for WatchDocument {
    const DECLARATION: Declaration = SERVICE.read("WatchDocument").long();
    type Output = BoxStream<'static, Result<DocumentChange>>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        context.find::<Document>(&self.document_id).await?;
        let has_extractions = context.caller.covers(Scope::Extractions);
        let mut states = context.document_states(&self.document_id);
        let changes = async_stream::try_stream! {
            let mut reported: Option<Arc<DocumentState>> = None;
            let mut keep_alive = KeepAlive::default();
            loop {
                let state = states.next().await?;
                for change in changes(reported.as_deref(), &state, has_extractions) {
                    keep_alive.on_change(Instant::now());
                    yield change;
                }
                reported = Some(state);
                if keep_alive.is_due(Instant::now()) {
                    yield DocumentChange::CaughtUp;
                }
            }
        };
        Ok(changes.boxed())
    }
}

/// Subscribes to the states of a document. `polls`: the permits of all polls.
pub(crate) fn subscribe(
    (pollers, polls): (&SharedPollers<(OrgId, DocumentId), DocumentState>, &Permits<OrgId>),
    key: &(OrgId, DocumentId),
    stores: &Stores,
    random: u128,
) -> Polls<DocumentState> {
    let (of_poller, polls, documents, extractions) = (key.clone(), polls.clone(), stores.of(), stores.of());
    let read = move |last: Option<Arc<DocumentState>>| {
        let (key, polls) = (of_poller.clone(), polls.clone());
        let (documents, extractions) = (documents.clone(), extractions.clone());
        async move {
            let _permit = poll_permit(&polls, &key.0).await?;
            read(&documents, &extractions, &key, last.as_deref()).await
        }
    };
    pollers.subscribe(key, Schedule { interval: POLL_INTERVAL, random }, read)
}

/// Reads the state of a document: the document, and the extractions that changed since the last state. Error: `NOT_FOUND`.
async fn read(
    documents: &ResourceStore<Document>,
    extractions: &ResourceStore<Extraction>,
    (org, id): &(OrgId, DocumentId),
    last: Option<&DocumentState>,
) -> Result<DocumentState> {
    let document = documents.get(org, id).await?.ok_or_else(|| Error::not_found(Document::KIND, id))?;
    let filter = ExtractionFilter { document: Some(id.clone()), ..ExtractionFilter::default() };
    let last = last.map(|last| last.extractions.as_slice()).unwrap_or_default();
    let newest = (Order::Newest, FOLLOWED_MAX);
    let extractions = followed_list::read(extractions, org, &filter, newest, last, identity).await?;
    Ok(DocumentState { document, extractions })
}

/// Returns the changes between two states, the oldest extractions first. If `before` is None, the changes are the whole state.
fn changes(before: Option<&DocumentState>, after: &DocumentState, has_extractions: bool) -> Vec<DocumentChange> {
    let mut changes = Vec::new();
    if before.is_none_or(|before| before.document != after.document) {
        changes.push(DocumentChange::Document(Box::new(after.document.clone())));
    }
    if !has_extractions {
        return changes;
    }
    let versions = |state: &DocumentState| -> BTreeMap<ExtractionId, u64> {
        state.extractions.iter().map(|found| (found.item.id.clone(), found.item.version)).collect()
    };
    let (old, new) = (before.map(versions).unwrap_or_default(), versions(after));
    let removed = old.keys().filter(|id| !new.contains_key(*id)).cloned();
    changes.extend(removed.map(DocumentChange::RemovedExtraction));
    let newest = after.extractions.iter().rev().map(|found| &found.item);
    let changed = newest.filter(|found| old.get(&found.id) != Some(&found.version));
    changes.extend(changed.map(|extraction| DocumentChange::Extraction(Box::new(extraction.clone()))));
    changes
}

#[cfg(test)]
mod tests {
    use folio_resources::{ExtractionReport, FieldLog, NewDocument, TextState};
    use folio_types::{BlobId, PromptId, PromptRevId, Timestamp, UserId};
    use serde_json::Value;

    use super::*;
    use crate::followed_list::Followed;

    fn document(state: TextState) -> Document {
        let (id, org, user) = (DocumentId::derive(&["document"]), OrgId::derive(&["org"]), UserId::derive(&["user"]));
        let file = NewDocument::file("a.txt", "text/plain", b"x", BlobId::derive(&["blob"]));
        Document { state, pages: 1, ..Document::uploaded(id, org, &file, user, Timestamp::UNIX_EPOCH) }
    }

    fn extraction(name: &str, version: u64) -> Extraction {
        let document = document(TextState::Ready);
        Extraction {
            id: ExtractionId::derive(&[name]),
            org: document.org,
            document: document.id,
            prompt: PromptRevId::new(PromptId::derive(&["prompt"]), 1),
            schema: None,
            model: "model".to_owned(),
            original: Value::Null,
            edited: None,
            verified: false,
            verified_by: None,
            report: ExtractionReport::default(),
            fields: FieldLog::default(),
            agent: None,
            created_by: document.created_by,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            version,
        }
    }

    /// `text`: the second at which the text was stored. None: the text is being read.
    fn state(text: Option<i64>, extractions: &[&Extraction]) -> DocumentState {
        let text_generation = text.map(|second| Timestamp::constant(second, 0));
        let state = if text.is_none() { TextState::Processing } else { TextState::Ready };
        let followed = |extraction: &Extraction| Arc::new(Followed::new(extraction.clone(), identity));
        let extractions = extractions.iter().map(|&extraction| followed(extraction)).collect();
        DocumentState { document: Document { text_generation, ..document(state) }, extractions }
    }

    #[test]
    fn the_changes_between_states_are_the_document_and_its_new_changed_and_removed_extractions() {
        let (one, two, edited) = (extraction("one", 1), extraction("two", 1), extraction("one", 2));
        let of_document = |state: &DocumentState| DocumentChange::Document(Box::new(state.document.clone()));
        let of_extraction = |extraction: &Extraction| DocumentChange::Extraction(Box::new(extraction.clone()));
        let (processing, ready) = (state(None, &[]), state(Some(1), &[&two, &one]));
        let again = state(Some(2), &[&two, &one]);
        for (before, after, expected) in [
            (None, &processing, vec![of_document(&processing)]),
            (None, &ready, vec![of_document(&ready), of_extraction(&one), of_extraction(&two)]),
            (Some(&ready), &ready, vec![]),
            (Some(&ready), &again, vec![of_document(&again)]),
            (Some(&ready), &state(Some(1), &[&two, &edited]), vec![of_extraction(&edited)]),
            (Some(&ready), &state(Some(1), &[&two]), vec![DocumentChange::RemovedExtraction(one.id.clone())]),
        ] {
            assert_eq!(changes(before, after, true), expected);
            let without: Vec<_> =
                expected.into_iter().filter(|change| matches!(change, DocumentChange::Document(..))).collect();
            assert_eq!(changes(before, after, false), without, "without the scope of extractions");
        }
    }
}
