//! ConversationService: parses each request once, sends the command to the owner of the thread, and bounds the streams.

use std::sync::{Arc, LazyLock};

use folio_cluster::EventStream;
use folio_proto::{approve, chat, fields, json, v1};
use folio_tools::{Registry, ToolSpec};
use folio_types::page::Order;
use folio_types::profile::DOCUMENT_PROFILE;
use folio_types::{Principal, Result, TurnId, limits};
use futures::StreamExt as _;
use tonic::{Request, Response, Status};
use v1::conversation_service_server::ConversationService;

use super::{Answer, Api, answer, asked, streamed};
use crate::filter;
use crate::page::{By, Listing, total};

#[tonic::async_trait]
impl ConversationService for Api {
    type ChatStream = Answer<v1::ChatResponse>;
    type ResumeTurnStream = Answer<v1::ResumeTurnResponse>;
    type WatchTurnStream = Answer<v1::WatchTurnResponse>;
    type WatchPendingApprovalsStream = Answer<v1::WatchPendingApprovalsResponse>;

    async fn chat(&self, request: Request<v1::ChatRequest>) -> Result<Response<Self::ChatStream>, Status> {
        answer(request, async |principal, request| {
            let events = self.gateway.peer.chat(&principal, chat::parse(request)?).await?;
            Ok(self.events(events, |event| v1::ChatResponse { event: Some(event) }))
        })
        .await
    }

    async fn approve(&self, request: Request<v1::ApproveRequest>) -> Result<Response<v1::ApproveResponse>, Status> {
        answer(request, async |principal, request| {
            self.gateway.peer.approve(&principal, approve::parse(request)?).await
        })
        .await
    }

    async fn resume_turn(
        &self,
        request: Request<v1::ResumeTurnRequest>,
    ) -> Result<Response<Self::ResumeTurnStream>, Status> {
        answer(request, async |principal, request| {
            let turn = turn(&request.turn_id)?;
            fields::request_id(&request.request_id)?;
            let events = self.gateway.peer.resume(&principal, &turn).await?;
            Ok(self.events(events, |event| v1::ResumeTurnResponse { event: Some(event) }))
        })
        .await
    }

    async fn cancel_turn(
        &self,
        request: Request<v1::CancelTurnRequest>,
    ) -> Result<Response<v1::CancelTurnResponse>, Status> {
        answer(request, async |principal, request| {
            let turn = turn(&request.turn_id)?;
            fields::request_id(&request.request_id)?;
            Ok(v1::CancelTurnResponse { turn: Some(self.gateway.peer.cancel(&principal, &turn).await?) })
        })
        .await
    }

    async fn get_turn(&self, request: Request<v1::GetTurnRequest>) -> Result<Response<v1::GetTurnResponse>, Status> {
        answer(request, async |principal, request| {
            let turn = turn(&request.turn_id)?;
            Ok(v1::GetTurnResponse { turn: Some(self.gateway.peer.get_turn(&principal, &turn).await?) })
        })
        .await
    }

    async fn watch_turn(
        &self,
        request: Request<v1::WatchTurnRequest>,
    ) -> Result<Response<Self::WatchTurnStream>, Status> {
        answer(request, async |principal, request| {
            let turn = turn(&request.turn_id)?;
            let events = self.gateway.peer.watch(&principal, &turn, request.from_event).await?;
            Ok(self.events(events, |event| v1::WatchTurnResponse { event: Some(event) }))
        })
        .await
    }

    async fn list_tools(
        &self,
        request: Request<v1::ListToolsRequest>,
    ) -> Result<Response<v1::ListToolsResponse>, Status> {
        answer(request, |principal, request| self.tools(principal, request)).await
    }

    async fn list_pending_approvals(
        &self,
        request: Request<v1::ListPendingApprovalsRequest>,
    ) -> Result<Response<v1::ListPendingApprovalsResponse>, Status> {
        answer(request, |principal, request| self.pending_approvals(principal, request)).await
    }

    async fn watch_pending_approvals(
        &self,
        request: Request<v1::WatchPendingApprovalsRequest>,
    ) -> Result<Response<Self::WatchPendingApprovalsStream>, Status> {
        answer(request, async |principal, request| self.changes_of_pending_approvals(principal, &request)).await
    }
}

/// Every tool and profile, compiled once.
fn registry() -> Result<Arc<Registry>> {
    static REGISTRY: LazyLock<Result<Arc<Registry>>> = LazyLock::new(Registry::standard);
    REGISTRY.clone()
}

fn tool(spec: &ToolSpec) -> v1::Tool {
    v1::Tool {
        name: spec.name.to_owned(),
        description: spec.description.to_owned(),
        parameters_json: json::text(&spec.parameters),
        access: v1::ToolAccess::from(spec.access).into(),
    }
}

fn turn(text: &str) -> Result<TurnId> {
    fields::id("turn_id", text)
}

impl Api {
    /// The events within the limits of streams. The turn does not depend on them.
    fn events<T: Send + 'static>(
        &self,
        events: EventStream,
        wrap: impl Fn(v1::Event) -> T + Send + 'static,
    ) -> Answer<T> {
        streamed(events.map(move |item| item.map(&wrap)), self.event_limits(), self.cut.clone())
    }

    async fn tools(&self, principal: Principal, request: v1::ListToolsRequest) -> Result<v1::ListToolsResponse> {
        let profile = fields::optional_word("profile", &request.profile)?.unwrap_or_default();
        let (mut name, mut access) = (None, None);
        for term in filter::parse(&request.filter)? {
            match (term.field.as_str(), term.value.as_str()) {
                ("name", _) => filter::once(&mut name, &term, term.search()?.to_lowercase())?,
                ("access", "read_only") => filter::once(&mut access, &term, v1::ToolAccess::ReadOnly)?,
                ("access", "read_write") => filter::once(&mut access, &term, v1::ToolAccess::ReadWrite)?,
                _ => return Err(filter::unknown(&term, "name, and access with read_only or read_write")),
            }
        }
        let scope = ["tools", principal.org.as_str(), &profile, &request.filter];
        let listing = Listing::read(asked!(request), &scope, By::Name("name"), Order::Newest, limits::PAGE_SIZE_MAX)?;
        let tools = registry()?.profile(if profile.is_empty() { DOCUMENT_PROFILE } else { &profile })?;
        let mut tools: Vec<v1::Tool> = tools.specs().map(tool).collect();
        tools.retain(|tool| {
            name.as_ref().is_none_or(|part| tool.name.to_lowercase().contains(part))
                && access.is_none_or(|access| tool.access() == access)
        });
        match listing.page.order {
            Order::Name => tools.sort_by(|a, b| a.name.cmp(&b.name)),
            Order::NameDescending => tools.sort_by(|a, b| b.name.cmp(&a.name)),
            Order::Newest => {}
            Order::Oldest => tools.reverse(),
        }
        let page = listing.slice(tools)?;
        Ok(v1::ListToolsResponse {
            tools: page.items,
            next_page_token: listing.next(page.next),
            total_size: total(page.total),
        })
    }
}
