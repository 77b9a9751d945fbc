//! The subscriptions of streams to shared polls.

use folio_resources::{DictionaryQuestion, Proposal};
use folio_types::DocumentId;

use super::Context;
use crate::document_watch::{self, DocumentState};
use crate::followed_list::FollowedList;
use crate::pending_pollers::{self, Window};
use crate::pending_reviews::PendingReview;
use crate::shared_poller::Polls;
use crate::stack_rows::PendingCellReview;
use crate::waiting_items;

impl Context {
    /// Subscribes to the index of the organization's pending turns.
    pub(crate) fn pending_windows(&self) -> Polls<Window> {
        let (pollers, index) = (&self.operations.inner.turn_pollers, &self.components().open_turns);
        let stores = (index, &self.stores().threads);
        pending_pollers::subscribe(pollers, &self.principal().org, stores, self.environment().random())
    }

    /// Subscribes to the oldest extractions of the organization that wait for a reviewer.
    pub(crate) fn pending_reviews(&self) -> Polls<FollowedList<PendingReview>> {
        let (pollers, extractions) = (&self.operations.inner.review_pollers, self.stores().of());
        waiting_items::subscribe(pollers, &self.principal().org, extractions, self.environment().random())
    }

    /// Subscribes to the oldest rows of stacks that wait for decisions, of the organization.
    pub(crate) fn pending_cell_reviews(&self) -> Polls<FollowedList<PendingCellReview>> {
        let (pollers, rows) = (&self.operations.inner.cell_review_pollers, self.stores().of());
        waiting_items::subscribe(pollers, &self.principal().org, rows, self.environment().random())
    }

    /// Subscribes to the oldest open proposals of the organization.
    pub(crate) fn open_proposals(&self) -> Polls<FollowedList<Proposal>> {
        let (pollers, proposals) = (&self.operations.inner.proposal_pollers, self.stores().of());
        waiting_items::subscribe(pollers, &self.principal().org, proposals, self.environment().random())
    }

    /// Subscribes to the oldest open questions about terms of the organization.
    pub(crate) fn open_questions(&self) -> Polls<FollowedList<DictionaryQuestion>> {
        let (pollers, questions) = (&self.operations.inner.question_pollers, self.stores().of());
        waiting_items::subscribe(pollers, &self.principal().org, questions, self.environment().random())
    }

    /// Subscribes to the states of a document of the organization.
    pub(crate) fn document_states(&self, document: &DocumentId) -> Polls<DocumentState> {
        let (pollers, key) =
            (&self.operations.inner.document_pollers, (self.principal().org.clone(), document.clone()));
        let polls = &self.operations.inner.stream_polls;
        document_watch::subscribe((pollers, polls), &key, self.stores(), self.environment().random())
    }
}
