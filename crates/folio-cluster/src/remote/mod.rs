//! Calls a node in another process.

mod connect;
mod failure;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::node_service_client::NodeServiceClient;
use folio_history::command::{
    ApproveAnswer, ApproveCommand, ChatCommand, CreateThreadCommand, DeleteThreadCommand, ForkThreadCommand,
    RenameThreadCommand,
};
use folio_history::event::TurnView;
use folio_history::peer::{ConversationPeer, EventStream};
use folio_history::thread::ThreadView;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;
use folio_proto::v1::thread_service_client::ThreadServiceClient;
use folio_proto::{approve, chat, cluster::v1 as cluster, fields, image_format_to_proto, status, thread, time, v1};
use folio_resources::Rendition;
use folio_trace::TraceContext;
use folio_types::{Code, DocumentId, Error, Incarnation, OrgId, Principal, Reason, Result, ThreadId, TurnId};
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument as _;

pub use connect::Peers;
pub(crate) use failure::{LossStage, loss_stage, node_lost};

use crate::calls::Call;
use crate::context::{CallContext, write_trace};
use crate::peer::{NodePeer, NodeStatus};
use crate::signed_principal::body::{SigningChannel, UnsignedClaims};
use crate::spans::RpcSpan;

/// The clients of a node's services. They share one connection.
#[derive(Clone)]
struct Clients {
    conversations: ConversationServiceClient<SigningChannel>,
    threads: ThreadServiceClient<SigningChannel>,
    node: NodeServiceClient<SigningChannel>,
}

/// A node in another process. Cheap to clone: clones share one connection, which is opened on demand and reopened after
/// a loss.
///
/// Errors: `UNAVAILABLE` with reason `NODE_LOST` if the node is unreachable. An RPC that was sent may still take
/// effect.
#[derive(Clone)]
pub struct RemotePeer {
    inner: Arc<Inner>,
}

struct Inner {
    address: Arc<str>,
    clients: Clients,
    /// Bounds the RPCs in flight to the node.
    calls: Arc<Semaphore>,
    call_timeout: Duration,
    turn_timeout: Duration,
}

impl std::fmt::Debug for RemotePeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemotePeer").field("address", &self.inner.address).finish_non_exhaustive()
    }
}

impl RemotePeer {
    /// Builds an RPC with the claims that the channel signs and with the trace. Returns it with a permit of the node and its span.
    fn request<Q: Call>(
        &self,
        principal: Option<&Principal>,
        message: Q,
    ) -> Result<(Request<Q>, OwnedSemaphorePermit, RpcSpan)> {
        let permit = Arc::clone(&self.inner.calls).try_acquire_owned().map_err(|_| {
            Error::exhausted(Reason::Overloaded, "the maximum number of RPCs to the node is in flight")
                .retry_after(status::RETRY_SOON)
        })?;
        let context = CallContext::current();
        let hop = context.hops.saturating_add(1);
        let mut request = Request::new(message);
        let (principal, method) = (principal.cloned(), Q::METHOD);
        request.extensions_mut().insert(UnsignedClaims { principal, method, hop });
        let rpc_span = RpcSpan::client::<Q>(&self.inner.address);
        if let Some(trace) = TraceContext::of(rpc_span.span()).or(context.trace) {
            write_trace(&trace, request.metadata_mut());
        }
        Ok((request, permit, rpc_span))
    }

    /// Makes a unary RPC. Dropping the future cancels the RPC at the node.
    async fn unary<Q: Call, A, F>(
        &self,
        principal: Option<&Principal>,
        timeout: Duration,
        message: Q,
        call: impl FnOnce(Clients, Request<Q>) -> F,
    ) -> Result<A>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let (request, _permit, mut rpc_span) = self.request(principal, message)?;
        let answer = tokio::time::timeout(timeout, call(self.inner.clients.clone(), request));
        match answer.instrument(rpc_span.span().clone()).await.map_err(|_| timed_out(&mut rpc_span))? {
            Ok(response) => {
                rpc_span.record_success();
                Ok(response.into_inner())
            }
            Err(status) => Err(self.failed(&mut rpc_span, &status)),
        }
    }

    /// Makes a streaming RPC. Dropping the stream cancels the RPC at the node. The stream keeps its permit until it is
    /// dropped.
    async fn events<Q: Call, T, F>(
        &self,
        principal: &Principal,
        message: Q,
        call: impl FnOnce(Clients, Request<Q>) -> F,
        event: impl Fn(T) -> Option<v1::Event> + Send + 'static,
    ) -> Result<EventStream>
    where
        T: Send + 'static,
        F: Future<Output = Result<Response<Streaming<T>>, Status>>,
    {
        let (request, permit, mut rpc_span) = self.request(Some(principal), message)?;
        let accepted = tokio::time::timeout(self.inner.turn_timeout, call(self.inner.clients.clone(), request));
        let accepted = accepted.instrument(rpc_span.span().clone()).await;
        let stream = match accepted.map_err(|_| timed_out(&mut rpc_span))? {
            Ok(response) => response.into_inner(),
            Err(status) => return Err(self.failed(&mut rpc_span, &status)),
        };
        rpc_span.record_success();
        let peer = self.clone();
        let events = stream.map(move |item| {
            let _permit = &permit;
            match item {
                Ok(item) => decode(event(item)),
                Err(status) => Err(peer.failed(&mut rpc_span, &status)),
            }
        });
        Ok(events.boxed())
    }

    fn failed(&self, rpc_span: &mut RpcSpan, status: &Status) -> Error {
        rpc_span.record_status(status);
        failure::to_error(status, &self.inner.address)
    }
}

fn timed_out(rpc_span: &mut RpcSpan) -> Error {
    rpc_span.timed_out();
    Error::new(
        Code::DeadlineExceeded,
        Reason::DeadlineExceeded,
        "the node did not answer in time; the request may still take effect",
    )
    .retry_after(Duration::from_secs(1))
}

fn invalid_response(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("invalid response of a node: {error}"))
}

/// Decodes a required message of a response.
fn decode<M, T: TryFrom<M, Error = Error>>(part: Option<M>) -> Result<T> {
    present(part)?.try_into().map_err(|error: Error| invalid_response(error.message))
}

fn present<T>(part: Option<T>) -> Result<T> {
    part.ok_or_else(|| invalid_response("a required field is missing"))
}

/// Returns a closure that makes an RPC with one of the clients.
macro_rules! rpc {
    ($client:ident.$method:ident) => {
        |mut clients: Clients, request| async move { clients.$client.$method(request).await }
    };
}

#[async_trait]
impl ConversationPeer for RemotePeer {
    async fn chat(&self, principal: &Principal, command: ChatCommand) -> Result<EventStream> {
        self.events(principal, chat::encode(&command), rpc!(conversations.chat), |item: v1::ChatResponse| item.event)
            .await
    }

    async fn approve(&self, principal: &Principal, command: ApproveCommand) -> Result<ApproveAnswer> {
        let answer = self
            .unary(Some(principal), self.inner.turn_timeout, approve::encode(&command), rpc!(conversations.approve))
            .await?;
        approve::parse_answer(answer).map_err(|error: Error| invalid_response(error.message))
    }

    async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream> {
        let request = v1::ResumeTurnRequest { turn_id: turn.to_string(), request_id: String::new() };
        self.events(principal, request, rpc!(conversations.resume_turn), |item: v1::ResumeTurnResponse| item.event)
            .await
    }

    async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        let request = v1::CancelTurnRequest { turn_id: turn.to_string(), request_id: String::new() };
        decode(
            self.unary(Some(principal), self.inner.call_timeout, request, rpc!(conversations.cancel_turn)).await?.turn,
        )
    }

    async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        let request = v1::GetTurnRequest { turn_id: turn.to_string() };
        decode(self.unary(Some(principal), self.inner.call_timeout, request, rpc!(conversations.get_turn)).await?.turn)
    }

    async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<TurnView>> {
        let request = cluster::GetOpenTurnRequest { thread_id: thread.to_string() };
        let turn = self.unary(Some(principal), self.inner.call_timeout, request, rpc!(node.get_open_turn)).await?.turn;
        turn.map(|turn| decode(Some(turn))).transpose()
    }

    async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream> {
        let request = v1::WatchTurnRequest { turn_id: turn.to_string(), from_event };
        self.events(principal, request, rpc!(conversations.watch_turn), |item: v1::WatchTurnResponse| item.event).await
    }

    async fn create_thread(&self, principal: &Principal, command: CreateThreadCommand) -> Result<ThreadView> {
        let request = thread::encode_create(&command);
        decode(self.unary(Some(principal), self.inner.call_timeout, request, rpc!(threads.create_thread)).await?.thread)
    }

    async fn rename_thread(&self, principal: &Principal, command: RenameThreadCommand) -> Result<ThreadView> {
        let request = thread::encode_rename(&command);
        decode(self.unary(Some(principal), self.inner.call_timeout, request, rpc!(threads.rename_thread)).await?.thread)
    }

    async fn delete_thread(&self, principal: &Principal, command: DeleteThreadCommand) -> Result<()> {
        self.unary(
            Some(principal),
            self.inner.call_timeout,
            thread::encode_delete(&command),
            rpc!(threads.delete_thread),
        )
        .await
        .map(|_| ())
    }

    async fn fork_thread(&self, principal: &Principal, command: ForkThreadCommand) -> Result<ThreadView> {
        let request = thread::encode_fork(&command);
        decode(self.unary(Some(principal), self.inner.call_timeout, request, rpc!(threads.fork_thread)).await?.thread)
    }

    async fn render(&self, principal: &Principal, document: &DocumentId, rendition: &Rendition) -> Result<()> {
        let document_id = document.to_string();
        let request = match rendition {
            Rendition::Page(image) => cluster::RenderPageRequest {
                document_id,
                page: image.page(),
                dpi: image.dpi(),
                format: image_format_to_proto(image.format()).into(),
                ..Default::default()
            },
            Rendition::Pdf => cluster::RenderPageRequest { document_id, pdf: true, ..Default::default() },
            Rendition::Embedded { page, number } => {
                cluster::RenderPageRequest { document_id, page: *page, embedded_image: *number, ..Default::default() }
            }
        };
        self.unary(Some(principal), self.inner.call_timeout, request, rpc!(node.render_page)).await.map(|_| ())
    }
}

#[async_trait]
impl NodePeer for RemotePeer {
    async fn is_thread_active(&self, org: &OrgId, thread: &ThreadId) -> Result<bool> {
        let request = cluster::GetThreadActivityRequest { org_id: org.to_string(), thread_id: thread.to_string() };
        Ok(self.unary(None, self.inner.call_timeout, request, rpc!(node.get_thread_activity)).await?.is_active)
    }

    async fn call_index(&self, org: &OrgId, call: Vec<u8>) -> Result<Vec<u8>> {
        let request = cluster::CallIndexRequest { org_id: org.to_string(), call };
        Ok(self.unary(None, self.inner.call_timeout, request, rpc!(node.call_index)).await?.result)
    }

    async fn status(&self) -> Result<NodeStatus> {
        let answer =
            self.unary(None, self.inner.call_timeout, cluster::GetStatusRequest {}, rpc!(node.get_status)).await?;
        let incarnation: Incarnation = fields::id("incarnation", &answer.incarnation)?;
        Ok(NodeStatus {
            incarnation,
            draining: answer.draining,
            conversations: answer.conversations,
            busy_conversations: answer.busy_conversations,
            version: answer.version,
            started_at: time::from_proto("start_time", &present(answer.start_time)?)?,
        })
    }
}
