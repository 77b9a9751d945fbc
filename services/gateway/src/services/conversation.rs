//! Serves `ConversationService`. The gateway applies the caller's role and the limits of streams; the owner of the
//! thread runs the turn.

use std::sync::Arc;

use folio_history::command::ApproveAnswer;
use folio_history::event::Event;
use folio_history::journal::TurnNode;
use folio_history::peer::EventStream;
use folio_operations::approvals::{
    ListPendingApprovals, PendingApproval, PendingApprovals, PendingChange, WatchPendingApprovals,
};
use folio_operations::call_previews::{Affected, AffectedResource, CallEffect, PreviewToolCall, ToolCallPreview};
use folio_operations::conversations::{CancelTurn, GetTurn, ListProfiles, ListTools, ResumeTurn, WatchTurn};
use folio_operations::message_images::{GetImage, ImageContent, UploadImage};
use folio_operations::{Call, ListPage, Operation};
use folio_proto::{approve, chat, fields, json, status, time, v1};
use folio_tools::preview::ValueChange;
use folio_tools::{ProfileTools, ToolSpec};
use folio_types::profile::Profile;
use folio_types::{Result, TurnId, limits};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use tonic::{Request, Response};
use v1::conversation_service_server::ConversationService;
use v1::watch_pending_approvals_response::Change;

use super::handler::{change, read};
use super::{Api, ResponseStream, RpcResult, bounded_stream, list_request, total_size};

#[tonic::async_trait]
impl ConversationService for Api {
    type ChatStream = ResponseStream<v1::ChatResponse>;
    type ResumeTurnStream = ResponseStream<v1::ResumeTurnResponse>;
    type WatchTurnStream = ResponseStream<v1::WatchTurnResponse>;
    type WatchPendingApprovalsStream = ResponseStream<v1::WatchPendingApprovalsResponse>;

    async fn chat(&self, request: Request<v1::ChatRequest>) -> RpcResult<Self::ChatStream> {
        let call = |request| Ok(Call::new(chat::parse(request)?));
        let wrap = |event: Event| v1::ChatResponse { event: Some((&event).into()) };
        self.call(request, call, |events| self.events(events, wrap)).await
    }

    change!(upload_image, UploadImageRequest, UploadImageResponse { image }, |request| UploadImage {
        data: request.data.into()
    });

    read!(
        get_image,
        GetImageRequest,
        GetImageResponse,
        |request| GetImage {
            image_id: fields::id("image_id", &request.image_id)?,
            thread_id: fields::optional_id("thread_id", &request.thread_id)?,
        },
        |found: ImageContent| v1::GetImageResponse { image: Some((&found.image).into()), data: found.bytes.into() }
    );

    async fn approve(&self, request: Request<v1::ApproveRequest>) -> RpcResult<v1::ApproveResponse> {
        let call = |request| Ok(Call::new(approve::parse(request)?));
        let encode = |answer: ApproveAnswer| approve::encode_answer(&answer).map_err(status::from_error);
        self.call(request, call, encode).await?.into_inner().map(Response::new)
    }

    async fn resume_turn(&self, request: Request<v1::ResumeTurnRequest>) -> RpcResult<Self::ResumeTurnStream> {
        let call = |request: v1::ResumeTurnRequest| {
            let operation = ResumeTurn { turn_id: turn(&request.turn_id)? };
            Ok(Call::with_request_id(fields::request_id(&request.request_id)?, operation))
        };
        let wrap = |event: Event| v1::ResumeTurnResponse { event: Some((&event).into()) };
        self.call(request, call, |events| self.events(events, wrap)).await
    }

    change!(cancel_turn, CancelTurnRequest, CancelTurnResponse { turn }, |request| CancelTurn {
        turn_id: turn(&request.turn_id)?
    });

    read!(get_turn, GetTurnRequest, GetTurnResponse, |request| GetTurn { turn_id: turn(&request.turn_id)? }, |turn| {
        v1::GetTurnResponse { turn: Some((&turn).into()) }
    });

    async fn watch_turn(&self, request: Request<v1::WatchTurnRequest>) -> RpcResult<Self::WatchTurnStream> {
        let call = |request: v1::WatchTurnRequest| {
            Ok(Call::new(WatchTurn { turn_id: turn(&request.turn_id)?, from_event: request.from_event }))
        };
        let wrap = |event: Event| v1::WatchTurnResponse { event: Some((&event).into()) };
        self.call(request, call, |events| self.events(events, wrap)).await
    }

    read!(
        list_profiles,
        ListProfilesRequest,
        ListProfilesResponse,
        |request| ListProfiles { list: list_request!(request) },
        |page: ListPage<Arc<ProfileTools>>| v1::ListProfilesResponse {
            profiles: page.items.iter().map(|tools| profile(tools)).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        }
    );

    read!(
        list_tools,
        ListToolsRequest,
        ListToolsResponse,
        |request| {
            let profile = fields::optional_word("profile", &request.profile)?;
            ListTools { profile, list: list_request!(request) }
        },
        |page: ListPage<ToolSpec>| v1::ListToolsResponse {
            tools: page.items.iter().map(tool).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        }
    );

    read!(
        list_pending_approvals,
        ListPendingApprovalsRequest,
        ListPendingApprovalsResponse,
        |request| ListPendingApprovals { list: list_request!(request) },
        |PendingApprovals { page, is_incomplete }| v1::ListPendingApprovalsResponse {
            pending_approvals: page.items.iter().map(pending_approval).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
            incomplete: is_incomplete,
        }
    );

    read!(
        preview_tool_call,
        PreviewToolCallRequest,
        PreviewToolCallResponse,
        |request| PreviewToolCall {
            turn_id: turn(&request.turn_id)?,
            call_id: fields::id("call_id", &request.call_id)?,
            arguments: edited_arguments(&request.arguments_json)?,
        },
        |preview: ToolCallPreview| call_preview(&preview)
    );

    async fn watch_pending_approvals(
        &self,
        request: Request<v1::WatchPendingApprovalsRequest>,
    ) -> RpcResult<Self::WatchPendingApprovalsStream> {
        let call =
            |request: v1::WatchPendingApprovalsRequest| Ok(Call::new(WatchPendingApprovals { filter: request.filter }));
        let response = |changes: <WatchPendingApprovals as Operation>::Output| {
            self.watched(changes.map_ok(|change| v1::WatchPendingApprovalsResponse { change: Some(encode(change)) }))
        };
        self.call(request, call, response).await
    }
}

impl Api {
    /// Bounds a stream of events. The end of the stream does not end the turn.
    fn events<T: Send + 'static>(
        &self,
        events: EventStream,
        wrap: impl Fn(Event) -> T + Send + 'static,
    ) -> ResponseStream<T> {
        bounded_stream(events.map(move |item| item.map(&wrap)), self.event_limits(), self.drain_ended.clone())
    }
}

/// Returns the arguments of a request. None: the text is empty.
fn edited_arguments(text: &str) -> Result<Option<Value>> {
    let parse = |text| json::parse_object("arguments_json", text, limits::ARGUMENTS_BYTES);
    Some(text).filter(|text| !text.is_empty()).map(parse).transpose()
}

fn call_preview(preview: &ToolCallPreview) -> v1::PreviewToolCallResponse {
    let value = |value: &Option<Value>| value.as_ref().map(json::text).unwrap_or_default();
    let change = |change: &ValueChange| v1::ValueChange {
        path: change.path.clone(),
        old_json: value(&change.old),
        new_json: value(&change.new),
    };
    let effect = match preview.effect {
        CallEffect::Unknown => v1::CallEffect::Unknown,
        CallEffect::Creates => v1::CallEffect::Creates,
        CallEffect::Updates => v1::CallEffect::Updates,
        CallEffect::Deletes => v1::CallEffect::Deletes,
        CallEffect::Nothing => v1::CallEffect::Nothing,
    };
    let target = preview.target.as_ref();
    v1::PreviewToolCallResponse {
        effect: effect.into(),
        target_kind: target.map(|target| target.kind().to_owned()).unwrap_or_default(),
        target_id: target.map(|target| target.id().to_owned()).unwrap_or_default(),
        target_name: preview.name.clone(),
        changes: preview.changes.iter().map(change).collect(),
        change_count: u32::try_from(preview.change_count).unwrap_or(u32::MAX),
        prompts: Some(affected(&preview.prompts)),
        documents: Some(affected(&preview.documents)),
        problem: preview.problem.clone().unwrap_or_default(),
        arguments_refused: preview.is_refused,
    }
}

fn affected(affected: &Affected) -> v1::AffectedResources {
    let item = |item: &AffectedResource| v1::AffectedResource { id: item.id.clone(), name: item.name.clone() };
    let Affected { items, count, has_more } = affected;
    v1::AffectedResources { items: items.iter().map(item).collect(), count: *count, has_more: *has_more }
}

fn turn(text: &str) -> Result<TurnId> {
    fields::id("turn_id", text)
}

fn profile(tools: &ProfileTools) -> v1::Profile {
    let profile = &tools.profile;
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    v1::Profile {
        name: profile.name.to_owned(),
        version: profile.version,
        documents_min: count(profile.documents.min),
        documents_max: count(profile.documents.max),
        media_types: profile.documents.media_types.iter().map(|media_type| (*media_type).to_owned()).collect(),
        subject: v1::SubjectKind::from(profile.subject).into(),
        excerpt: profile.has_excerpt,
        tools: tools.specs().map(|spec| profile_tool(profile, spec)).collect(),
        model_calls_max: profile.limits.model_calls,
        running_seconds_max: profile.limits.running_time.map_or(0, |limit| limit.as_secs()),
        credit_budget: profile.limits.credit_budget,
        model: profile.model.unwrap_or_default().to_owned(),
        delegates: profile.delegates.iter().map(|name| (*name).to_owned()).collect(),
        answer_schema_json: tools.answer().schema().map(json::text).unwrap_or_default(),
        graph: tools.graph().iter().map(profile_node).collect(),
    }
}

fn profile_node(node: &TurnNode) -> v1::ProfileNode {
    let mut next_nodes: Vec<String> = node.routes.by_value.iter().map(|(_, next)| next.clone()).collect();
    next_nodes.extend(node.routes.otherwise.clone());
    next_nodes.sort_unstable();
    next_nodes.dedup();
    v1::ProfileNode {
        name: node.name.clone(),
        kind: v1::NodeKind::from(node.kind).into(),
        tools: node.tools.clone(),
        answer_type: node.answer_type.clone(),
        answer_schema_json: json::text(&node.schema),
        next_nodes,
    }
}

fn profile_tool(profile: &Profile, spec: &ToolSpec) -> v1::ProfileTool {
    v1::ProfileTool {
        name: spec.name.to_owned(),
        access: v1::ToolAccess::from(spec.access).into(),
        waits: profile.tool(spec.name).is_some_and(|tool| tool.waits),
    }
}

fn tool(spec: &ToolSpec) -> v1::Tool {
    v1::Tool {
        name: spec.name.to_owned(),
        description: spec.description.to_owned(),
        parameters_json: json::text(&spec.parameters),
        access: v1::ToolAccess::from(spec.access).into(),
    }
}

fn encode(change: PendingChange) -> Change {
    match change {
        PendingChange::Pending(pending) => Change::PendingApproval(pending_approval(&pending)),
        PendingChange::Removed(turn) => Change::RemovedTurnId(turn.to_string()),
        PendingChange::CaughtUp => Change::CaughtUp(v1::CaughtUp {}),
    }
}

pub(super) fn pending_approval(pending: &PendingApproval) -> v1::PendingApproval {
    v1::PendingApproval {
        turn_id: pending.turn.to_string(),
        thread_id: pending.turn.thread.to_string(),
        user_id: pending.user.to_string(),
        calls: pending.calls.iter().map(Into::into).collect(),
        pause_time: pending.paused_at.map(time::to_proto),
        expire_time: pending.expires_at.map(time::to_proto),
        document_ids: pending.documents.iter().map(ToString::to_string).collect(),
    }
}
