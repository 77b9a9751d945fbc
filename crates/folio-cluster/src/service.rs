//! The service of a node, over whatever [`NodePeer`] runs the conversations.
//!
//! Every call passes the same door: there is room for it, its header is to be believed, and it was forwarded once at most.

use std::sync::Arc;

use folio_proto::{cluster::v1 as wire, fields, status, time, v1};
use folio_types::{Code, Environment, Error, OrgId, Principal, Reason, Result, ThreadId, TurnId};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tracing::Instrument as _;
use wire::conversation_node_service_server::ConversationNodeService;

use crate::calls::Call;
use crate::context::{CallContext, trace_of};
use crate::peer::{EventStream, NodePeer};
use crate::seal::Seal;
use crate::shutdown::{draining, survive};
use crate::spans::Answering;
use crate::streams::{Limits, limited};

/// The service.
pub(crate) struct NodeService {
    pub(crate) peer: Arc<dyn NodePeer>,
    pub(crate) seal: Seal,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) calls: Arc<Semaphore>,
    pub(crate) limits: Limits,
    pub(crate) cut: CancellationToken,
}

/// A call that was let in.
struct Caller {
    principal: Option<Principal>,
    context: CallContext,
    permit: OwnedSemaphorePermit,
}

type Events<T> = BoxStream<'static, Result<T, Status>>;

impl NodeService {
    fn admit<T: Call>(&self, request: &Request<T>) -> Result<Caller> {
        if self.cut.is_cancelled() {
            return Err(draining());
        }
        let permit = Arc::clone(&self.calls).try_acquire_owned().map_err(|_| {
            Error::exhausted(Reason::Overloaded, "the node has as many calls under way as it may")
                .retry_after(status::RETRY_SOON)
        })?;
        let claims = self.seal.check(request.metadata(), T::NAME, self.environment.now())?;
        if claims.hop > 1 {
            let message = "a request was forwarded by a node that it had been forwarded to";
            return Err(Error::precondition(Reason::ForwardedTwice, message));
        }
        let trace = trace_of(request.metadata().as_ref());
        Ok(Caller { principal: claims.principal, context: CallContext { hops: claims.hop, trace }, permit })
    }

    /// Lets a call in and runs it, within a span of its trace; gives what the call holds with the answer.
    async fn enter<Q: Call, A, F>(
        &self,
        request: Request<Q>,
        run: impl FnOnce(Option<Principal>, Q) -> F,
    ) -> Result<(A, (OwnedSemaphorePermit, Answering)), Status>
    where
        F: Future<Output = Result<A>>,
    {
        let Caller { principal, context, permit } = self.admit(&request).map_err(status::from_error)?;
        let mut answering = Answering::server::<Q>();
        if let Some(trace) = &context.trace {
            trace.set_parent_of(answering.span());
        }
        let run = self.run(context.within(run(principal, request.into_inner())));
        match run.instrument(answering.span().clone()).await {
            Ok(answer) => {
                answering.answered();
                Ok((answer, (permit, answering)))
            }
            Err(status) => {
                answering.refused(&status);
                Err(status)
            }
        }
    }

    async fn run<A>(&self, run: impl Future<Output = Result<A>>) -> Result<A, Status> {
        let run = survive(run);
        let answer = tokio::select! {
            answer = run => answer.and_then(|answer| answer),
            () = self.cut.cancelled() => Err(draining()),
        };
        answer.map_err(|error| {
            tracing::debug!(reason = error.reason.as_str(), "refused");
            status::from_error(error)
        })
    }

    /// Answers for a principal.
    async fn answer<Q: Call, A, F>(
        &self,
        request: Request<Q>,
        run: impl FnOnce(Principal, Q) -> F,
    ) -> Result<Response<A>, Status>
    where
        F: Future<Output = Result<A>>,
    {
        let enter = self.enter(request, async |principal, request| run(known(principal)?, request).await);
        Ok(Response::new(enter.await?.0))
    }

    /// Streams for a principal, within the limits of streams. The place is held until the last event.
    async fn stream<Q: Call, T: Send + 'static, F>(
        &self,
        request: Request<Q>,
        wrap: impl Fn(v1::Event) -> T + Send + 'static,
        run: impl FnOnce(Principal, Q) -> F,
    ) -> Result<Response<Events<T>>, Status>
    where
        F: Future<Output = Result<EventStream>>,
    {
        let enter = self.enter(request, async |principal, request| run(known(principal)?, request).await);
        let (events, (permit, mut answering)) = enter.await?;
        let events = limited(events, self.limits, self.cut.clone()).map(move |item| {
            let _held = &permit;
            item.map(&wrap).map_err(status::from_error).inspect_err(|status| answering.refused(status))
        });
        Ok(Response::new(events.boxed()))
    }
}

fn known(principal: Option<Principal>) -> Result<Principal> {
    principal.ok_or_else(|| {
        Error::new(Code::Unauthenticated, Reason::InvalidPrincipal, "the call needs a principal and carries none")
    })
}

fn inner<T>(request: Option<T>) -> Result<T> {
    fields::required("request", request)
}

fn turn(text: &str) -> Result<TurnId> {
    fields::id("turn_id", text)
}

#[tonic::async_trait]
impl ConversationNodeService for NodeService {
    type ChatStream = Events<wire::ChatResponse>;
    type ResumeTurnStream = Events<wire::ResumeTurnResponse>;
    type WatchTurnStream = Events<wire::WatchTurnResponse>;

    async fn chat(&self, request: Request<wire::ChatRequest>) -> Result<Response<Self::ChatStream>, Status> {
        let wrap = |event| wire::ChatResponse { event: Some(event) };
        self.stream(request, wrap, async |principal, request| self.peer.chat(&principal, inner(request.request)?).await)
            .await
    }

    async fn approve(&self, request: Request<wire::ApproveRequest>) -> Result<Response<wire::ApproveResponse>, Status> {
        self.answer(request, async |principal, request| {
            let response = self.peer.approve(&principal, inner(request.request)?).await?;
            Ok(wire::ApproveResponse { response: Some(response) })
        })
        .await
    }

    async fn resume_turn(
        &self,
        request: Request<wire::ResumeTurnRequest>,
    ) -> Result<Response<Self::ResumeTurnStream>, Status> {
        let wrap = |event| wire::ResumeTurnResponse { event: Some(event) };
        self.stream(request, wrap, async |principal, request| {
            self.peer.resume(&principal, &turn(&request.turn_id)?).await
        })
        .await
    }

    async fn cancel_turn(
        &self,
        request: Request<wire::CancelTurnRequest>,
    ) -> Result<Response<wire::CancelTurnResponse>, Status> {
        self.answer(request, async |principal, request| {
            let turn = self.peer.cancel(&principal, &turn(&request.turn_id)?).await?;
            Ok(wire::CancelTurnResponse { turn: Some(turn) })
        })
        .await
    }

    async fn get_turn(
        &self,
        request: Request<wire::GetTurnRequest>,
    ) -> Result<Response<wire::GetTurnResponse>, Status> {
        self.answer(request, async |principal, request| {
            let turn = self.peer.get_turn(&principal, &turn(&request.turn_id)?).await?;
            Ok(wire::GetTurnResponse { turn: Some(turn) })
        })
        .await
    }

    async fn get_open_turn(
        &self,
        request: Request<wire::GetOpenTurnRequest>,
    ) -> Result<Response<wire::GetOpenTurnResponse>, Status> {
        self.answer(request, async |principal, request| {
            let thread: ThreadId = fields::id("thread_id", &request.thread_id)?;
            Ok(wire::GetOpenTurnResponse { turn: self.peer.open_turn(&principal, &thread).await? })
        })
        .await
    }

    async fn watch_turn(
        &self,
        request: Request<wire::WatchTurnRequest>,
    ) -> Result<Response<Self::WatchTurnStream>, Status> {
        let wrap = |event| wire::WatchTurnResponse { event: Some(event) };
        self.stream(request, wrap, async |principal, request| {
            self.peer.watch(&principal, &turn(&request.turn_id)?, request.from_event).await
        })
        .await
    }

    async fn list_tools(
        &self,
        request: Request<wire::ListToolsRequest>,
    ) -> Result<Response<wire::ListToolsResponse>, Status> {
        let enter = self.enter(request, async |_, request| {
            Ok(wire::ListToolsResponse { tools: self.peer.list_tools(&request.profile).await? })
        });
        Ok(Response::new(enter.await?.0))
    }

    async fn create_thread(
        &self,
        request: Request<wire::CreateThreadRequest>,
    ) -> Result<Response<wire::CreateThreadResponse>, Status> {
        self.answer(request, async |principal, request| {
            let thread = self.peer.create_thread(&principal, inner(request.request)?).await?;
            Ok(wire::CreateThreadResponse { thread: Some(thread) })
        })
        .await
    }

    async fn rename_thread(
        &self,
        request: Request<wire::RenameThreadRequest>,
    ) -> Result<Response<wire::RenameThreadResponse>, Status> {
        self.answer(request, async |principal, request| {
            let thread = self.peer.rename_thread(&principal, inner(request.request)?).await?;
            Ok(wire::RenameThreadResponse { thread: Some(thread) })
        })
        .await
    }

    async fn delete_thread(
        &self,
        request: Request<wire::DeleteThreadRequest>,
    ) -> Result<Response<wire::DeleteThreadResponse>, Status> {
        self.answer(request, async |principal, request| {
            self.peer.delete_thread(&principal, inner(request.request)?).await?;
            Ok(wire::DeleteThreadResponse {})
        })
        .await
    }

    async fn fork_thread(
        &self,
        request: Request<wire::ForkThreadRequest>,
    ) -> Result<Response<wire::ForkThreadResponse>, Status> {
        self.answer(request, async |principal, request| {
            let thread = self.peer.fork_thread(&principal, inner(request.request)?).await?;
            Ok(wire::ForkThreadResponse { thread: Some(thread) })
        })
        .await
    }

    async fn holds(&self, request: Request<wire::HoldsRequest>) -> Result<Response<wire::HoldsResponse>, Status> {
        let enter = self.enter(request, async |_, request| {
            let org: OrgId = fields::id("org_id", &request.org_id)?;
            let thread: ThreadId = fields::id("thread_id", &request.thread_id)?;
            Ok(wire::HoldsResponse { holds: self.peer.holds(&org, &thread).await? })
        });
        Ok(Response::new(enter.await?.0))
    }

    async fn get_status(
        &self,
        request: Request<wire::GetStatusRequest>,
    ) -> Result<Response<wire::GetStatusResponse>, Status> {
        let enter = self.enter(request, async |_, _| {
            let status = self.peer.status().await?;
            Ok(wire::GetStatusResponse {
                incarnation: status.incarnation.to_string(),
                draining: status.draining,
                conversations: status.conversations,
                turns_running: status.turns_running,
                version: status.version,
                started_at: Some(time::to_proto(status.started_at)),
            })
        });
        Ok(Response::new(enter.await?.0))
    }
}
