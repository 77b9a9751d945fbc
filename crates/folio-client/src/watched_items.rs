//! The items of a watch across all its streams. No I/O.

use std::collections::BTreeSet;

use folio_proto::v1;

/// A response of a watch of items.
pub trait WatchResponse: Sized {
    /// Returns the change of the items that the response contains.
    fn change(&self) -> ItemChange<'_>;

    /// Returns the response that reports the removal of an item.
    fn removal(id: String) -> Self;
}

/// A change of the items of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemChange<'a> {
    /// An item with this id exists.
    Item(&'a str),
    /// The item with this id was removed.
    Removed(&'a str),
    /// All items were sent.
    CaughtUp,
    /// No change of an item.
    Other,
}

macro_rules! watch_response {
    ($response:ident: $module:ident, $item:ident . $id:ident, $removed:ident) => {
        impl WatchResponse for v1::$response {
            fn change(&self) -> ItemChange<'_> {
                use v1::$module::Change;
                match &self.change {
                    Some(Change::$item(item)) => ItemChange::Item(&item.$id),
                    Some(Change::$removed(id)) => ItemChange::Removed(id),
                    Some(Change::CaughtUp(_)) => ItemChange::CaughtUp,
                    _ => ItemChange::Other,
                }
            }

            fn removal(id: String) -> Self {
                Self { change: Some(v1::$module::Change::$removed(id)) }
            }
        }
    };
}

watch_response!(WatchInboxResponse: watch_inbox_response, Item.item_id, RemovedItemId);
watch_response!(WatchPendingApprovalsResponse: watch_pending_approvals_response, PendingApproval.turn_id, RemovedTurnId);
watch_response!(WatchDocumentResponse: watch_document_response, Extraction.extraction_id, RemovedExtractionId);

/// Detects the items that were removed while no stream was open. A new stream starts with all items, and does not report earlier
/// removals: when it has caught up, each item that it has not sent was removed.
#[derive(Debug, Default)]
pub(crate) struct WatchedItems {
    items: BTreeSet<String>,
    /// The items of the previous stream that the new one has not sent yet.
    unconfirmed: BTreeSet<String>,
}

impl WatchedItems {
    pub(crate) fn start_stream(&mut self) {
        self.unconfirmed.clone_from(&self.items);
    }

    /// Applies a change. Returns the ids of items to report as removed before the change.
    pub(crate) fn apply(&mut self, change: ItemChange<'_>) -> BTreeSet<String> {
        match change {
            ItemChange::Item(id) => {
                self.items.insert(id.to_owned());
                self.unconfirmed.remove(id);
            }
            ItemChange::Removed(id) => {
                self.items.remove(id);
                self.unconfirmed.remove(id);
            }
            ItemChange::CaughtUp => {
                let missing = std::mem::take(&mut self.unconfirmed);
                self.items.retain(|id| !missing.contains(id));
                return missing;
            }
            ItemChange::Other => {}
        }
        BTreeSet::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_a_new_stream_does_not_send_are_removed() {
        let mut items = WatchedItems::default();
        let missing = |items: &mut WatchedItems, changes: &[ItemChange<'_>]| -> Vec<String> {
            items.start_stream();
            changes.iter().flat_map(|change| items.apply(*change)).collect()
        };
        let first = ["a", "b", "c"].map(ItemChange::Item);
        assert!(missing(&mut items, &[&first[..], &[ItemChange::CaughtUp]].concat()).is_empty());
        assert!(items.apply(ItemChange::Removed("c")).is_empty());
        let second = [ItemChange::Item("b"), ItemChange::Other, ItemChange::CaughtUp, ItemChange::CaughtUp];
        assert_eq!(missing(&mut items, &second), ["a"]);
        assert_eq!(missing(&mut items, &[ItemChange::CaughtUp]), ["b"]);
    }

    #[test]
    fn each_response_names_its_items() {
        let removed = v1::WatchInboxResponse::removal("item_1".to_owned());
        assert_eq!(removed.change(), ItemChange::Removed("item_1"));
        let pending = v1::PendingApproval { turn_id: "turn_1".to_owned(), ..Default::default() };
        let change = Some(v1::watch_pending_approvals_response::Change::PendingApproval(pending));
        assert_eq!(v1::WatchPendingApprovalsResponse { change }.change(), ItemChange::Item("turn_1"));
        let change = Some(v1::watch_document_response::Change::Document(v1::DocumentStatus::default()));
        assert_eq!(v1::WatchDocumentResponse { change }.change(), ItemChange::Other);
    }
}
