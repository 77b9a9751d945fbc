//! The services of a node's listener, over a [`NodePeer`].
//!
//! Every RPC requires a permit and a valid signed header, and may be forwarded at most once.

use std::sync::Arc;

use cluster::node_service_server::NodeService as NodeRpc;
use folio_history::peer::EventStream;
use folio_proto::v1::conversation_service_server::ConversationService;
use folio_proto::v1::thread_service_server::ThreadService;
use folio_proto::{approve, chat, cluster::v1 as cluster, fields, image_format, status, thread, time, v1};
use folio_resources::{PageImage, Rendition};
use folio_types::{Code, DocumentId, Environment, Error, OrgId, Principal, Reason, Result, ThreadId, TurnId};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tracing::Instrument as _;

use crate::calls::Call;
use crate::context::{CallContext, trace_of};
use crate::peer::NodePeer;
use crate::shutdown::{catch_panic, draining};
use crate::signed_principal::PrincipalSigner;
use crate::spans::RpcSpan;
use crate::streams::{StreamLimits, limited};

/// Serves the RPCs of a node's listener. Cheap to clone.
#[derive(Clone)]
pub(crate) struct NodeService {
    pub(crate) peer: Arc<dyn NodePeer>,
    pub(crate) signer: PrincipalSigner,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) calls: Arc<Semaphore>,
    pub(crate) limits: StreamLimits,
    pub(crate) drain_ended: CancellationToken,
}

struct AdmittedRpc {
    principal: Option<Principal>,
    context: CallContext,
    permit: OwnedSemaphorePermit,
}

type Reply<T> = Result<Response<T>, Status>;

type Events<T> = BoxStream<'static, Result<T, Status>>;

impl NodeService {
    fn admit<T: Call>(&self, request: &Request<T>) -> Result<AdmittedRpc> {
        if self.drain_ended.is_cancelled() {
            return Err(draining());
        }
        let permit = Arc::clone(&self.calls).try_acquire_owned().map_err(|_| {
            Error::exhausted(Reason::Overloaded, "the node has the maximum number of RPCs in flight")
                .retry_after(status::RETRY_SOON)
        })?;
        let body = request.extensions().get();
        let claims = self.signer.verify(request.metadata(), T::METHOD, body, self.environment.now())?;
        if claims.hop > 1 {
            let message = "the request was forwarded twice";
            return Err(Error::precondition(Reason::ForwardedTwice, message));
        }
        let trace = trace_of(request.metadata().as_ref());
        Ok(AdmittedRpc { principal: claims.principal, context: CallContext { hops: claims.hop, trace }, permit })
    }

    /// Admits an RPC and runs it in a span of its trace. Returns the response with the guards of the RPC.
    async fn enter<Q: Call, A, F>(
        &self,
        request: Request<Q>,
        run: impl FnOnce(Option<Principal>, Q) -> F,
    ) -> Result<(A, (OwnedSemaphorePermit, RpcSpan)), Status>
    where
        F: Future<Output = Result<A>>,
    {
        let AdmittedRpc { principal, context, permit } = self.admit(&request).map_err(status::from_error)?;
        let mut rpc_span = RpcSpan::server::<Q>();
        if let Some(trace) = &context.trace {
            trace.set_parent_of(rpc_span.span());
        }
        let run = self.run(context.scope(run(principal, request.into_inner())));
        match run.instrument(rpc_span.span().clone()).await {
            Ok(answer) => {
                rpc_span.record_success();
                Ok((answer, (permit, rpc_span)))
            }
            Err(status) => {
                rpc_span.record_status(&status);
                Err(status)
            }
        }
    }

    async fn run<A>(&self, run: impl Future<Output = Result<A>>) -> Result<A, Status> {
        let run = catch_panic(run);
        let answer = tokio::select! {
            answer = run => answer.and_then(|answer| answer),
            () = self.drain_ended.cancelled() => Err(draining()),
        };
        answer.map_err(|error| {
            tracing::debug!(reason = error.reason.as_str(), "RPC refused");
            status::from_error(error)
        })
    }

    /// Serves a unary RPC that requires a principal.
    async fn answer<Q: Call, A, F>(&self, request: Request<Q>, run: impl FnOnce(Principal, Q) -> F) -> Reply<A>
    where
        F: Future<Output = Result<A>>,
    {
        let enter = self.enter(request, async |principal, request| run(require_principal(principal)?, request).await);
        Ok(Response::new(enter.await?.0))
    }

    /// Serves a streaming RPC that requires a principal, within the stream limits. The stream keeps its permit until it
    /// ends.
    async fn stream<Q: Call, T: Send + 'static, F>(
        &self,
        request: Request<Q>,
        wrap: impl Fn(v1::Event) -> T + Send + 'static,
        run: impl FnOnce(Principal, Q) -> F,
    ) -> Reply<Events<T>>
    where
        F: Future<Output = Result<EventStream>>,
    {
        let enter = self.enter(request, async |principal, request| run(require_principal(principal)?, request).await);
        let (events, (permit, mut rpc_span)) = enter.await?;
        let events = limited(events, self.limits, self.drain_ended.clone()).map(move |item| {
            let _permit = &permit;
            item.map(|event| wrap((&event).into()))
                .map_err(status::from_error)
                .inspect_err(|status| rpc_span.record_status(status))
        });
        Ok(Response::new(events.boxed()))
    }
}

fn require_principal(principal: Option<Principal>) -> Result<Principal> {
    principal.ok_or_else(|| Error::new(Code::Unauthenticated, Reason::InvalidPrincipal, "the RPC requires a principal"))
}

fn turn(text: &str) -> Result<TurnId> {
    fields::id("turn_id", text)
}

/// Refuses an RPC that only reads the stores. Gateways serve such RPCs themselves.
fn gateway_only<T>() -> Reply<T> {
    Err(Status::unimplemented("only gateways serve this RPC"))
}

#[tonic::async_trait]
impl ConversationService for NodeService {
    type ChatStream = Events<v1::ChatResponse>;
    type ResumeTurnStream = Events<v1::ResumeTurnResponse>;
    type WatchTurnStream = Events<v1::WatchTurnResponse>;
    type WatchPendingApprovalsStream = Events<v1::WatchPendingApprovalsResponse>;

    async fn chat(&self, request: Request<v1::ChatRequest>) -> Reply<Self::ChatStream> {
        let wrap = |event| v1::ChatResponse { event: Some(event) };
        self.stream(request, wrap, async |principal, request| self.peer.chat(&principal, chat::parse(request)?).await)
            .await
    }

    async fn approve(&self, request: Request<v1::ApproveRequest>) -> Reply<v1::ApproveResponse> {
        self.answer(request, async |principal, request| {
            approve::encode_answer(&self.peer.approve(&principal, approve::parse(request)?).await?)
        })
        .await
    }

    async fn resume_turn(&self, request: Request<v1::ResumeTurnRequest>) -> Reply<Self::ResumeTurnStream> {
        let wrap = |event| v1::ResumeTurnResponse { event: Some(event) };
        self.stream(request, wrap, async |principal, request| {
            self.peer.resume(&principal, &turn(&request.turn_id)?).await
        })
        .await
    }

    async fn cancel_turn(&self, request: Request<v1::CancelTurnRequest>) -> Reply<v1::CancelTurnResponse> {
        self.answer(request, async |principal, request| {
            let turn = self.peer.cancel(&principal, &turn(&request.turn_id)?).await?;
            Ok(v1::CancelTurnResponse { turn: Some((&turn).into()) })
        })
        .await
    }

    async fn get_turn(&self, request: Request<v1::GetTurnRequest>) -> Reply<v1::GetTurnResponse> {
        self.answer(request, async |principal, request| {
            let turn = self.peer.get_turn(&principal, &turn(&request.turn_id)?).await?;
            Ok(v1::GetTurnResponse { turn: Some((&turn).into()) })
        })
        .await
    }

    async fn watch_turn(&self, request: Request<v1::WatchTurnRequest>) -> Reply<Self::WatchTurnStream> {
        let wrap = |event| v1::WatchTurnResponse { event: Some(event) };
        self.stream(request, wrap, async |principal, request| {
            self.peer.watch(&principal, &turn(&request.turn_id)?, request.from_event).await
        })
        .await
    }

    async fn upload_image(&self, _: Request<v1::UploadImageRequest>) -> Reply<v1::UploadImageResponse> {
        gateway_only()
    }

    async fn get_image(&self, _: Request<v1::GetImageRequest>) -> Reply<v1::GetImageResponse> {
        gateway_only()
    }

    async fn list_profiles(&self, _: Request<v1::ListProfilesRequest>) -> Reply<v1::ListProfilesResponse> {
        gateway_only()
    }

    async fn list_tools(&self, _: Request<v1::ListToolsRequest>) -> Reply<v1::ListToolsResponse> {
        gateway_only()
    }

    async fn list_pending_approvals(
        &self,
        _: Request<v1::ListPendingApprovalsRequest>,
    ) -> Reply<v1::ListPendingApprovalsResponse> {
        gateway_only()
    }

    async fn preview_tool_call(&self, _: Request<v1::PreviewToolCallRequest>) -> Reply<v1::PreviewToolCallResponse> {
        gateway_only()
    }

    async fn watch_pending_approvals(
        &self,
        _: Request<v1::WatchPendingApprovalsRequest>,
    ) -> Reply<Self::WatchPendingApprovalsStream> {
        gateway_only()
    }
}

#[tonic::async_trait]
impl ThreadService for NodeService {
    async fn create_thread(&self, request: Request<v1::CreateThreadRequest>) -> Reply<v1::CreateThreadResponse> {
        self.answer(request, async |principal, request| {
            let thread = self.peer.create_thread(&principal, thread::create(&request)?).await?;
            Ok(v1::CreateThreadResponse { thread: Some((&thread).into()) })
        })
        .await
    }

    async fn list_threads(&self, _: Request<v1::ListThreadsRequest>) -> Reply<v1::ListThreadsResponse> {
        gateway_only()
    }

    async fn get_thread(&self, _: Request<v1::GetThreadRequest>) -> Reply<v1::GetThreadResponse> {
        gateway_only()
    }

    async fn list_tool_uses(&self, _: Request<v1::ListToolUsesRequest>) -> Reply<v1::ListToolUsesResponse> {
        gateway_only()
    }

    async fn rename_thread(&self, request: Request<v1::RenameThreadRequest>) -> Reply<v1::RenameThreadResponse> {
        self.answer(request, async |principal, request| {
            let thread = self.peer.rename_thread(&principal, thread::rename(&request)?).await?;
            Ok(v1::RenameThreadResponse { thread: Some((&thread).into()) })
        })
        .await
    }

    async fn delete_thread(&self, request: Request<v1::DeleteThreadRequest>) -> Reply<v1::DeleteThreadResponse> {
        self.answer(request, async |principal, request| {
            self.peer.delete_thread(&principal, thread::delete(&request)?).await?;
            Ok(v1::DeleteThreadResponse {})
        })
        .await
    }

    async fn fork_thread(&self, request: Request<v1::ForkThreadRequest>) -> Reply<v1::ForkThreadResponse> {
        self.answer(request, async |principal, request| {
            let thread = self.peer.fork_thread(&principal, thread::fork(&request)?).await?;
            Ok(v1::ForkThreadResponse { thread: Some((&thread).into()) })
        })
        .await
    }
}

#[tonic::async_trait]
impl NodeRpc for NodeService {
    async fn get_open_turn(
        &self,
        request: Request<cluster::GetOpenTurnRequest>,
    ) -> Reply<cluster::GetOpenTurnResponse> {
        self.answer(request, async |principal, request| {
            let thread: ThreadId = fields::id("thread_id", &request.thread_id)?;
            let turn = self.peer.open_turn(&principal, &thread).await?;
            Ok(cluster::GetOpenTurnResponse { turn: turn.as_ref().map(Into::into) })
        })
        .await
    }

    async fn get_thread_activity(
        &self,
        request: Request<cluster::GetThreadActivityRequest>,
    ) -> Reply<cluster::GetThreadActivityResponse> {
        let enter = self.enter(request, async |_, request| {
            let org: OrgId = fields::id("org_id", &request.org_id)?;
            let thread: ThreadId = fields::id("thread_id", &request.thread_id)?;
            Ok(cluster::GetThreadActivityResponse { is_active: self.peer.is_thread_active(&org, &thread).await? })
        });
        Ok(Response::new(enter.await?.0))
    }

    async fn render_page(&self, request: Request<cluster::RenderPageRequest>) -> Reply<cluster::RenderPageResponse> {
        self.answer(request, async |principal, request| {
            let document: DocumentId = fields::id("document_id", &request.document_id)?;
            let rendition = match (request.pdf, request.embedded_image) {
                (true, _) => Rendition::Pdf,
                (false, number @ 1..) => Rendition::Embedded { page: request.page, number },
                (false, 0) => {
                    let format = image_format("format", request.format)?;
                    Rendition::Page(PageImage::new(request.page, request.dpi, format)?)
                }
            };
            self.peer.render(&principal, &document, &rendition).await?;
            Ok(cluster::RenderPageResponse {})
        })
        .await
    }

    async fn call_index(&self, request: Request<cluster::CallIndexRequest>) -> Reply<cluster::CallIndexResponse> {
        let enter = self.enter(request, async |_, request| {
            let org: OrgId = fields::id("org_id", &request.org_id)?;
            Ok(cluster::CallIndexResponse { result: self.peer.call_index(&org, request.call).await? })
        });
        Ok(Response::new(enter.await?.0))
    }

    async fn get_status(&self, request: Request<cluster::GetStatusRequest>) -> Reply<cluster::GetStatusResponse> {
        let enter = self.enter(request, async |_, _| {
            let status = self.peer.status().await?;
            Ok(cluster::GetStatusResponse {
                incarnation: status.incarnation.to_string(),
                draining: status.draining,
                conversations: status.conversations,
                busy_conversations: status.busy_conversations,
                version: status.version,
                start_time: Some(time::to_proto(status.started_at)),
            })
        });
        Ok(Response::new(enter.await?.0))
    }
}
