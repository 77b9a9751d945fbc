//! Serves `InboxService`.

use folio_operations::inbox::{Deciders, InboxChange, InboxKind, InboxPage, ListInboxItems, Subject, WatchInbox};
use folio_operations::{Call, Operation};
use folio_proto::{time, v1};
use futures::TryStreamExt as _;
use tonic::Request;
use v1::inbox_service_server::InboxService;
use v1::watch_inbox_response::Change;

use super::conversation::pending_approval;
use super::handler::read;
use super::{Api, ResponseStream, RpcResult, list_request, total_size};

#[tonic::async_trait]
impl InboxService for Api {
    type WatchInboxStream = ResponseStream<v1::WatchInboxResponse>;

    read!(
        list_inbox_items,
        ListInboxItemsRequest,
        ListInboxItemsResponse,
        |request| ListInboxItems { list: list_request!(request) },
        |InboxPage { page, is_incomplete }| v1::ListInboxItemsResponse {
            items: page.items.iter().map(to_proto).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
            incomplete: is_incomplete,
        }
    );

    async fn watch_inbox(&self, request: Request<v1::WatchInboxRequest>) -> RpcResult<Self::WatchInboxStream> {
        let call = |request: v1::WatchInboxRequest| Ok(Call::new(WatchInbox { filter: request.filter }));
        let response = |changes: <WatchInbox as Operation>::Output| {
            self.watched(changes.map_ok(|change| v1::WatchInboxResponse { change: Some(encode(change)) }))
        };
        self.call(request, call, response).await
    }
}

fn encode(change: InboxChange) -> Change {
    match change {
        InboxChange::Item(item) => Change::Item(to_proto(&item)),
        InboxChange::Removed(id) => Change::RemovedItemId(id),
        InboxChange::CaughtUp => Change::CaughtUp(v1::CaughtUp {}),
    }
}

fn to_proto(item: &Subject) -> v1::InboxItem {
    let kind = match item.kind() {
        InboxKind::Approval => v1::InboxItemKind::Approval,
        InboxKind::FieldReview => v1::InboxItemKind::FieldReview,
        InboxKind::Proposal => v1::InboxItemKind::Proposal,
        InboxKind::DictionaryQuestion => v1::InboxItemKind::DictionaryQuestion,
        InboxKind::CellReview => v1::InboxItemKind::CellReview,
    };
    let Deciders { roles, user, excluded } = item.deciders();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let subject = match item {
        Subject::Approval(approval) => v1::inbox_item::Subject::Approval(pending_approval(approval)),
        Subject::FieldReview(review) => v1::inbox_item::Subject::FieldReview(v1::PendingReview {
            extraction_id: review.extraction.to_string(),
            document_id: review.document.to_string(),
            prompt_revid: review.prompt.to_string(),
            schema_revid: review.schema.as_ref().map(ToString::to_string).unwrap_or_default(),
            requested_by: review.requested_by.as_ref().map(ToString::to_string).unwrap_or_default(),
            values: number(review.values),
            approved_values: number(review.approved),
            rejected_values: number(review.rejected),
        }),
        Subject::Proposal(proposal) => v1::inbox_item::Subject::Proposal((&**proposal).into()),
        Subject::DictionaryQuestion(question) => v1::inbox_item::Subject::DictionaryQuestion((&**question).into()),
        Subject::CellReview(review) => v1::inbox_item::Subject::CellReview(v1::PendingCellReview {
            stack_row_id: review.row.to_string(),
            stack_id: review.stack.to_string(),
            document_id: review.document.to_string(),
            waiting_cells: number(review.waiting),
            approved_cells: number(review.approved),
            rejected_cells: number(review.rejected),
        }),
    };
    v1::InboxItem {
        item_id: item.id(),
        kind: kind.into(),
        create_time: item.created_at().map(time::to_proto),
        expire_time: item.expires_at().map(time::to_proto),
        roles: roles.into_iter().map(|role| v1::Role::from(role).into()).collect(),
        user_id: user.map(|user| user.to_string()).unwrap_or_default(),
        excluded_user_id: excluded.map(|user| user.to_string()).unwrap_or_default(),
        subject: Some(subject),
    }
}
