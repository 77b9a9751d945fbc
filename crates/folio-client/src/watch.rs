//! Watches of items, which continue after a lost connection.

use std::collections::VecDeque;

use folio_proto::v1;
use v1::watch_document_response::Change;

use crate::connection::Client;
use crate::error::Result;
use crate::rejoined::{Opening, Rejoined, Update, opening};
use crate::watched_items::{WatchResponse, WatchedItems};

/// Returns the current items first, and then each change, without end.
///
/// A lost connection is reopened. The new stream sends all items again, and items that were removed meanwhile are reported as removed.
pub struct Watch<T> {
    open: Box<dyn Fn() -> Opening<T> + Send + Sync>,
    streams: Rejoined<T>,
    items: WatchedItems,
    ready: VecDeque<T>,
}

impl<T: WatchResponse> Watch<T> {
    fn new(client: &Client, open: impl Fn() -> Opening<T> + Send + Sync + 'static) -> Self {
        let streams = Rejoined::new(client.retry);
        Self { open: Box::new(open), streams, items: WatchedItems::default(), ready: VecDeque::new() }
    }

    /// Returns the next change, or the notice that the connection broke. Dropping the future loses no change.
    ///
    /// # Errors
    /// The server refuses the request, or the connection is lost and cannot be restored.
    pub async fn next_update(&mut self) -> Result<Update<T>> {
        if let Some(ready) = self.ready.pop_front() {
            return Ok(Update::Message(ready));
        }
        match self.streams.next(&self.open).await? {
            Update::Reconnecting => {
                self.items.start_stream();
                Ok(Update::Reconnecting)
            }
            Update::Message(message) => {
                self.streams.progressed();
                let removed = self.items.apply(message.change());
                self.ready.extend(removed.into_iter().map(T::removal));
                self.ready.push_back(message);
                Ok(self.ready.pop_front().map_or(Update::Reconnecting, Update::Message))
            }
        }
    }

    /// Returns the next change. Dropping the future loses no change.
    ///
    /// # Errors
    /// The server refuses the request, or the connection is lost and cannot be restored.
    pub async fn next(&mut self) -> Result<T> {
        loop {
            if let Update::Message(message) = self.next_update().await? {
                return Ok(message);
            }
        }
    }
}

impl Client {
    /// Watches the items that wait for the caller. `filter`: as in `ListInboxItemsRequest`.
    pub fn watch_inbox(&self, filter: &str) -> Watch<v1::WatchInboxResponse> {
        let (client, filter) = (self.clone(), filter.to_owned());
        Watch::new(self, move || {
            let (mut service, request) = (client.inbox(), v1::WatchInboxRequest { filter: filter.clone() });
            opening(async move { service.watch_inbox(request).await }, |message| message)
        })
    }

    /// Watches the turns that wait for a decision of the caller. `filter`: as in `ListPendingApprovalsRequest`.
    pub fn watch_pending_approvals(&self, filter: &str) -> Watch<v1::WatchPendingApprovalsResponse> {
        let (client, filter) = (self.clone(), filter.to_owned());
        Watch::new(self, move || {
            let request = v1::WatchPendingApprovalsRequest { filter: filter.clone() };
            let mut service = client.conversations();
            opening(async move { service.watch_pending_approvals(request).await }, |message| message)
        })
    }

    /// Watches a document and its newest extractions. After the deletion of the document, the watch fails with `NotFound`.
    pub fn watch_document(&self, document_id: &str) -> Watch<v1::WatchDocumentResponse> {
        let (client, document_id) = (self.clone(), document_id.to_owned());
        Watch::new(self, move || {
            let request = v1::WatchDocumentRequest { document_id: document_id.clone() };
            let mut service = client.documents();
            opening(async move { service.watch_document(request).await }, |message| message)
        })
    }

    /// Waits until the state of a document is `Ready`, `NoText` or `Failed`, and returns the document.
    ///
    /// # Errors
    /// The server refuses the request, the document is deleted, or the connection is lost and cannot be restored.
    pub async fn wait_for_text(&self, document_id: &str) -> Result<v1::Document> {
        use v1::DocumentState::{Failed, NoText, Ready};
        let mut changes = self.watch_document(document_id);
        loop {
            let Some(Change::Document(status)) = changes.next().await?.change else { continue };
            let settled = status.document.filter(|document| matches!(document.state(), Ready | NoText | Failed));
            if let Some(document) = settled {
                return Ok(document);
            }
        }
    }
}
