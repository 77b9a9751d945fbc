//! The layers that every request passes before a service receives it, in this order:
//!
//! 1. **Trace**: opens a span in the caller's trace for the logs of the call. The trace continues on the node. The span
//!    ends with the last byte of the response (`call_span`). Span and response contain the id of the call: the client's
//!    `x-request-id`, or a generated one.
//! 2. **Admit**: refuses the call immediately if there are too many connections or calls in progress. Admission
//!    precedes the other checks because they cost more. The permit is kept until the last byte of the response, or
//!    until the caller has not read for too long (`response_body`).
//! 3. **Authenticate**: turns the bearer token into the principal; no field of a request determines the organization.
//! 4. **Authorize**: checks role and scope against the operation's declaration, and counts the call against the
//!    organization's calls per second (`rates`), in addition to the quota that the operation declares. A long call ends
//!    when its token becomes invalid (`sessions`).
//! 5. **Deadline**: bounds short calls; long calls have their own limits (`streams`). The caller's deadline ends the
//!    response, but not the work behind it (`response_body`). Calls that remain at the end of the drain are cancelled
//!    here.
//! 6. **Survive**: turns a panic into an error of this call; otherwise the panic would end every call of the
//!    connection.
//! 7. **Clarify**: if tonic cannot parse a request, replaces its status, which reports a server error, by a client
//!    error.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use folio_cluster::{CallContext, catch_panic, draining, trace_of};
use folio_operations::Class;
use folio_proto::status;
use folio_trace::TraceContext;
use folio_types::token::Token;
use folio_types::{Code, Environment as _, Error, Reason, Result, System};
use futures::future::OptionFuture;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::Instrument as _;

use crate::access::{Route, route};
use crate::authenticator::Authenticator;
use crate::call_span;
use crate::connections::ConnectionPermit;
use crate::counters::Counters;
use crate::options::Options;
use crate::response_body::{UnreadWatch, caller_timeout};
use crate::sessions::{Session, Sessions};

#[derive(Clone)]
pub(crate) struct Layers {
    inner: Arc<Inner>,
}

struct Inner {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
    public: Arc<Semaphore>,
    short_timeout: Duration,
    authenticator: Authenticator,
    drained: CancellationToken,
    observers: CallObservers,
    counters: Counters,
}

#[derive(Clone, Default)]
pub(crate) struct CallObservers {
    /// Ends responses that are left unread.
    pub(crate) watch: Arc<UnreadWatch>,
    /// Ends long calls whose token is no longer valid.
    pub(crate) sessions: Arc<Sessions>,
}

/// Creates the layers of a gateway. Cancelling `drained` ends the remaining calls at the end of the drain.
pub(crate) fn layers(
    options: &Options,
    authenticator: Authenticator,
    drained: CancellationToken,
    observers: CallObservers,
    counters: Counters,
) -> Layers {
    Layers {
        inner: Arc::new(Inner {
            short: Arc::new(Semaphore::new(options.short_calls)),
            long: Arc::new(Semaphore::new(options.long_calls)),
            public: Arc::new(Semaphore::new(options.public_calls)),
            short_timeout: options.short_timeout,
            authenticator,
            drained,
            observers,
            counters,
        }),
    }
}

impl<S> Layer<S> for Layers {
    type Service = Layered<S>;
    fn layer(&self, service: S) -> Self::Service {
        Layered { layers: Arc::clone(&self.inner), service }
    }
}

#[derive(Clone)]
pub(crate) struct Layered<S> {
    layers: Arc<Inner>,
    service: S,
}

impl<S> Service<Request<Body>> for Layered<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that was polled ready handles this request; its clone handles the next one.
        let fresh = self.service.clone();
        let service = std::mem::replace(&mut self.service, fresh);
        let layers = Arc::clone(&self.layers);
        let (caller_trace, span) = (trace_of(request.headers()), call_span::span(route(request.uri().path())));
        let call_id = call_id(request.headers());
        span.record("call_id", call_id.to_str().unwrap_or_default());
        if let Some(caller_trace) = &caller_trace {
            caller_trace.set_parent_of(&span);
        }
        let context = CallContext { hops: 0, trace: TraceContext::of(&span).or(caller_trace) };
        let answer = context.scope(async move { handle(&layers, service, request).await }).instrument(span.clone());
        Box::pin(async move {
            let mut answer = answer.await?;
            answer.headers_mut().insert(CALL_ID, call_id);
            Ok(call_span::with_span(answer, span))
        })
    }
}

/// The header that identifies a call in the logs of client and server.
const CALL_ID: &str = "x-request-id";
/// Maximum number of characters of a client's call id.
const CALL_ID_CHARS: usize = 64;

/// Returns the client's id of the call, or a generated one if the client sent none or one with other characters.
fn call_id(headers: &HeaderMap) -> HeaderValue {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let sent = headers.get(CALL_ID).filter(|id| (1..=CALL_ID_CHARS).contains(&id.len()));
    match sent.filter(|id| id.as_bytes().iter().all(is_allowed)) {
        Some(id) => id.clone(),
        None => HeaderValue::try_from(System.uuid().simple().to_string())
            .unwrap_or_else(|_| HeaderValue::from_static("unknown")),
    }
}

async fn handle<S>(layers: &Inner, service: S, request: Request<Body>) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    let started = Instant::now();
    layers.counters.count_call();
    let route = route(request.uri().path());
    let deadline = caller_timeout(request.headers()).map(|wait| tokio::time::Instant::now() + wait);
    let (request, permit, session) = match admit_and_authorize(layers, route, request).await {
        Ok(entered) => entered,
        Err(error) => {
            tracing::debug!(reason = error.reason.as_str(), "call refused");
            if error.reason == Reason::Overloaded {
                layers.counters.count_refusal();
            }
            return Ok(status::from_error(error).into_http());
        }
    };
    let ended = session.as_ref().map(Session::ended).unwrap_or_default();
    let response = run(layers, route, service, request, &ended).await?;
    tracing::debug!(milliseconds = started.elapsed().as_millis(), "call answered");
    Ok(with_client_error(response)
        .map(|body| Body::new(layers.observers.watch.guard(body, deadline, (permit, session)))))
}

async fn admit_and_authorize(
    layers: &Inner,
    route: Route,
    mut request: Request<Body>,
) -> Result<(Request<Body>, OwnedSemaphorePermit, Option<Session>)> {
    let connection = request.extensions().get::<ConnectionPermit>();
    let source = connection.and_then(|connection| connection.source);
    if let Some(connection) = connection {
        connection.admit()?;
    }
    let permit = admit(layers, route)?;
    let mut session = None;
    if let Route::Api(operation) = route {
        let caller = layers.authenticator.caller(request.headers(), source).await?;
        let span = tracing::Span::current();
        span.record("org", caller.principal.org.as_str()).record("user", caller.principal.user.as_str());
        caller.authorize(operation)?;
        layers.authenticator.count_call(&caller.principal.org).await?;
        session = (operation.class == Class::Long).then(|| layers.observers.sessions.begin(&caller));
        request.extensions_mut().insert(caller);
    }
    Ok((request, permit, session))
}

fn admit(layers: &Inner, route: Route) -> Result<OwnedSemaphorePermit> {
    if layers.drained.is_cancelled() {
        return Err(draining());
    }
    let permits = match route {
        Route::Api(operation) if operation.class == Class::Long => &layers.long,
        Route::Api(_) => &layers.short,
        Route::Public | Route::Unknown => &layers.public,
    };
    Arc::clone(permits).try_acquire_owned().map_err(|_| {
        Error::exhausted(Reason::Overloaded, "the server has too many calls in progress; try again later")
            .retry_after(status::RETRY_SOON)
    })
}

async fn run<S>(
    layers: &Inner,
    route: Route,
    mut service: S,
    request: Request<Body>,
    ended: &CancellationToken,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    let limit = match route {
        Route::Api(operation) if operation.class == Class::Short => Some(layers.short_timeout),
        _ => None,
    };
    let late = OptionFuture::from(limit.map(tokio::time::sleep));
    let call = catch_panic(async { service.call(request).await });
    tokio::select! {
        response = call => response.unwrap_or_else(|panicked| Ok(refusal(panicked))),
        Some(()) = late => {
            let message = "the call exceeded the deadline of the server";
            Ok(refusal(Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, message)))
        }
        () = layers.drained.cancelled() => Ok(refusal(draining())),
        () = ended.cancelled() => Ok(refusal(Token::refused())),
    }
}

fn refusal(error: Error) -> Response<Body> {
    status::from_error(error).into_http()
}

/// Replaces the status of a request that tonic could not parse. Statuses of Folio contain details; those of tonic do
/// not.
fn with_client_error(response: Response<Body>) -> Response<Body> {
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    let foreign = status.details().is_empty()
        && matches!(status.code(), tonic::Code::Internal | tonic::Code::OutOfRange | tonic::Code::ResourceExhausted);
    if foreign { status::from_error(status::of_transport(&status)).into_http() } else { response }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body::Frame;
    use std::convert::Infallible;

    use crate::empty_store::EmptyStore;

    fn test_layers(options: &Options, drained: CancellationToken) -> Layers {
        let authenticator = EmptyStore::default().authenticator(options);
        layers(options, authenticator, drained, CallObservers::default(), Counters::default())
    }

    async fn send<S>(service: &mut S, path: &str) -> Response<Body>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let answer: Result<_, Infallible> = service.call(request).await;
        answer.unwrap()
    }

    fn reason(response: &Response<Body>) -> Error {
        status::to_error(&Status::from_header_map(response.headers()).unwrap())
    }

    const HEALTH: &str = "/grpc.health.v1.Health/Check";

    #[tokio::test]
    async fn an_answer_carries_the_id_of_its_call() {
        let served = tower::service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) });
        let mut service = test_layers(&Options::default(), CancellationToken::new()).layer(served);
        let mut answered = async |sent: Option<&str>| {
            let request =
                sent.into_iter().fold(Request::builder().uri(HEALTH), |request, id| request.header(CALL_ID, id));
            let answer: Result<_, Infallible> = service.call(request.body(Body::empty()).unwrap()).await;
            answer.unwrap().headers()[CALL_ID].to_str().unwrap().to_owned()
        };
        assert_eq!(answered(Some("client-1.a_b")).await, "client-1.a_b");
        for refused in [None, Some("a b"), Some(""), Some("x".repeat(65).as_str())] {
            let generated = answered(refused).await;
            assert!(generated.len() == 32 && Some(generated.as_str()) != refused, "{generated}");
        }
    }

    #[tokio::test]
    async fn a_panic_fails_only_its_own_call() {
        let broken = tower::service_fn(|request: Request<Body>| async move {
            assert!(request.uri().path() != HEALTH, "a secret of the handler");
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let mut service = test_layers(&Options::default(), CancellationToken::new()).layer(broken);
        let error = reason(&send(&mut service, HEALTH).await);
        assert_eq!((error.code, error.reason), (Code::Internal, Reason::Internal));
        assert!(error.message.starts_with("internal error ") && !error.message.contains("secret"), "{error}");
        assert!(Status::from_header_map(send(&mut service, "/grpc.health.v1.Health/Watch").await.headers()).is_none());
    }

    #[tokio::test]
    async fn a_permit_is_kept_until_the_last_byte_of_the_response() {
        struct PendingBody;
        impl http_body::Body for PendingBody {
            type Data = Bytes;
            type Error = Status;
            fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
                Poll::Pending
            }
        }
        let served =
            tower::service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::new(PendingBody))) });
        let options = Options { public_calls: 1, ..Options::default() };
        let mut service = test_layers(&options, CancellationToken::new()).layer(served);
        let first = send(&mut service, HEALTH).await;
        assert_eq!(reason(&send(&mut service, HEALTH).await).reason, Reason::Overloaded);
        drop(first);
        assert!(Status::from_header_map(send(&mut service, HEALTH).await.headers()).is_none());
    }

    #[tokio::test]
    async fn a_call_without_a_token_reaches_no_service() {
        let never = tower::service_fn(|request: Request<Body>| async move {
            assert!(request.uri().path().is_empty(), "was reached");
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let mut service = test_layers(&Options::default(), CancellationToken::new()).layer(never);
        for operation in folio_operations::operations() {
            let path = crate::access::rpc_path(operation);
            assert_eq!(reason(&send(&mut service, &path).await).reason, Reason::InvalidToken, "{path}");
        }
    }

    #[tokio::test]
    async fn after_the_drain_every_call_is_refused() {
        let hangs = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
        let drained = CancellationToken::new();
        let mut service = test_layers(&Options::default(), drained.clone()).layer(hangs);
        let waiting = send(&mut service, HEALTH);
        drained.cancel();
        assert_eq!(reason(&waiting.await).reason, Reason::Draining);
        assert_eq!(reason(&send(&mut service, HEALTH).await).reason, Reason::Draining);
    }
}
