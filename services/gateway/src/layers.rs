//! The layers that every request passes before a service receives it, whatever its face ([`crate::faces`]), in this order:
//!
//! 1. **Trace**: opens a span for the logs of the call, in the caller's trace if a trusted proxy sent the call, and
//!    otherwise in a trace that links to the caller's. The trace continues on the node. The span ends with the last byte of the response (`call_span`). Span and response contain the id of the call: the client's
//!    `x-request-id`, or a generated one.
//! 2. **Authenticate**: turns the bearer token into the principal; no field of a request determines the organization. For
//!    a session or an account token, the path of a REST route or the header `folio-organization` selects one of the
//!    organizations of its user.
//!    The address of the caller (`client_address`) and of its connection (`connections`) bound what callers without a
//!    valid token occupy: they displace each other and never a caller with a valid token.
//! 3. **Admit**: refuses the call immediately if the user, its organization or the server has too many calls in
//!    progress (`call_shares`). A recently valid token is admitted before it is verified again, because the
//!    verification may read the store; other tokens are verified under permits of their own (`attempts`). The permit
//!    is kept until the last byte of the response, or until the caller has not read for too long (`response_body`).
//!    Sign-in, health and reflection need no token: they have permits of their own, are never refused, and end the
//!    oldest call of their kind instead (`public_calls`).
//! 4. **Authorize**: checks role and scope against the operation's declaration, and counts the call against the
//!    organization's calls per second (`rates`), in addition to the quota that the operation declares. A long call ends
//!    when its token becomes invalid (`sessions`).
//! 5. **Deadline**: bounds short calls; long calls have their own limits (`streams`). The time until the request
//!    ends, or until its next message if it is a stream, is bounded for all calls, and its memory (`request_body`).
//!    The caller's deadline ends the response, but not the work behind it (`response_body`). Calls that remain at the
//!    end of the drain are cancelled here.
//! 6. **Survive**: turns a panic into an error of this call; otherwise the panic would end every call of the
//!    connection.
//! 7. **Clarify**: if tonic cannot parse a request, replaces its status, which reports a server error, by a client
//!    error.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use folio_cluster::{CallContext, catch_panic, draining, trace_of};
use folio_operations::documents::UploadDocument;
use folio_operations::message_images::UploadImage;
use folio_operations::{Access, Caller, Class, CredentialKind, ORGANIZATION, Operation as _};
use folio_proto::{fields, status};
use folio_trace::TraceContext;
use folio_types::token::Token;
use folio_types::{Code, Environment as _, Error, OrgId, Reason, Result, System, limits};
use futures::future::OptionFuture;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::Instrument as _;

use crate::access::Route;
use crate::authenticator::{Authenticator, not_a_member};
use crate::call_shares::{CallShares, Owner};
use crate::call_span;
use crate::client_address::{ClientNetwork, TrustedProxies, network};
use crate::connections::ConnectionHandle;
use crate::counters::Counters;
use crate::descriptors;
use crate::faces::{ExpiredToken, Face, Target, take_ready};
use crate::http_status::grpc_code;
use crate::options::Options;
use crate::public_calls::{self, PublicCalls};
use crate::rates::RateLimit;
use crate::request_body::{Framing, MessageBounds, RequestBody};
use crate::response_body::{CallGuard, CallPermit, UnreadWatch, caller_timeout};
use crate::rest::Lookup;
use crate::sessions::Sessions;

#[derive(Clone)]
pub(crate) struct Layers {
    inner: Arc<Inner>,
}

struct Inner {
    short: CallShares,
    long: CallShares,
    public: PublicCalls,
    messages: MessageBounds,
    short_timeout: Duration,
    proxies: TrustedProxies,
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

/// Maximum size of a message with an image, in bytes: that of the image in Base64, with the other members of a JSON message.
pub(crate) const IMAGE_MESSAGE_BYTES: usize = limits::MESSAGE_IMAGE_BYTES.div_ceil(3) * 4 + 64 * 1024;
/// Name of the resource in errors.
const CALLS: &str = "calls in progress";

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
            short: CallShares::new(CALLS, options.short_shares()),
            long: CallShares::new(CALLS, options.long_shares()),
            public: PublicCalls::new(options, counters.clone()),
            messages: MessageBounds {
                timeout: Some(options.message_timeout),
                memory: CallShares::new("bytes in incomplete request messages", options.message_shares()),
                message_bytes: options.message_bytes,
                counters: counters.clone(),
            },
            short_timeout: options.short_timeout,
            proxies: TrustedProxies::new(&options.trusted_proxies),
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
        let service = take_ready(&mut self.service);
        let layers = Arc::clone(&self.layers);
        let target = target(&request);
        let span = call_span::span(&target);
        let call_id = call_id(request.headers());
        span.record("call_id", call_id.to_str().unwrap_or_default());
        let parent = layers.caller_trace(&request, &span);
        let context = CallContext { hops: 0, trace: TraceContext::of(&span).or(parent) };
        // Boxed, because the future is large and each part around it moves it.
        let handled = Box::pin(async move { handle(&layers, &target, service, request).await });
        let answer = context.scope(handled).instrument(span.clone());
        Box::pin(async move {
            let mut answer = answer.await?;
            answer.headers_mut().insert(CALL_ID, call_id);
            Ok(call_span::with_span(answer, span))
        })
    }
}

impl Inner {
    /// Returns the address of the client of a request. None: unknown.
    fn source(&self, request: &Request<Body>) -> Option<IpAddr> {
        let peer = request.extensions().get::<ConnectionHandle>().and_then(|connection| connection.source)?;
        Some(self.proxies.client(peer, request.headers()))
    }

    /// Connects the span of a call with the trace of its caller. Returns the trace if the span continues it: only if a
    /// trusted proxy sent the call. Otherwise, the span starts a trace with a link to that of the caller.
    fn caller_trace(&self, request: &Request<Body>, span: &tracing::Span) -> Option<TraceContext> {
        let trace = trace_of(request.headers())?;
        let peer = request.extensions().get::<ConnectionHandle>().and_then(|connection| connection.source);
        if peer.is_some_and(|peer| self.proxies.contains(peer)) {
            trace.set_foreign_parent_of(span);
            return Some(trace);
        }
        trace.link_from(span);
        None
    }
}

/// Returns the target that [`crate::faces::Faces`] found.
fn target(request: &Request<Body>) -> Target {
    let found = request.extensions().get::<Target>().cloned();
    found.unwrap_or_else(|| Target::of_rpc(request.uri().path()))
}

/// The header that identifies a call in the logs of client and server.
pub(crate) const CALL_ID: &str = "x-request-id";
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

async fn handle<S>(
    layers: &Inner,
    target: &Target,
    service: S,
    request: Request<Body>,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    let started = Instant::now();
    layers.counters.count_call();
    let deadline = caller_timeout(request.headers()).map(|wait| tokio::time::Instant::now() + wait);
    let source = layers.source(&request);
    let Entered { request, guard, rate } = match enter(layers, target, request, source).await {
        Ok(entered) => entered,
        Err(mut error) => {
            tracing::debug!(reason = error.reason.as_str(), "call refused");
            if error.reason == Reason::Overloaded {
                layers.counters.count_refusal();
            }
            let is_expired = error.details.remove(Token::EXPIRED).is_some();
            let mut response = refusal(error);
            if is_expired {
                response.extensions_mut().insert(ExpiredToken);
            }
            return Ok(response);
        }
    };
    let mut response = run(layers, target.route, service, request, &guard).await?;
    if is_failed_sign_in(target.route, &response)
        && let Err(error) = layers.authenticator.record_failed_sign_in(source).await
    {
        response = refusal(error);
    }
    tracing::debug!(milliseconds = started.elapsed().as_millis(), "call answered");
    let mut response = with_client_error(response);
    if let Some(rate) = rate {
        response.extensions_mut().insert(rate);
    }
    Ok(response.map(|body| Body::new(layers.observers.watch.guard(body, deadline, guard))))
}

/// An admitted call.
struct Entered {
    request: Request<Body>,
    guard: CallGuard,
    /// The state of the organization's calls per second. None: they are not limited.
    rate: Option<RateLimit>,
}

/// Returns true if an operation that requires no token refused the credentials in its request.
fn is_failed_sign_in(route: Route, response: &Response<Body>) -> bool {
    // A REST handler answers with a status of HTTP.
    let status = Status::from_header_map(response.headers());
    let code = status.map_or_else(|| grpc_code(response.status()), |status| status.code());
    matches!(route, Route::Api(operation) if operation.access == Access::Public) && code == tonic::Code::Unauthenticated
}

/// Returns the organization that a request selects, by its path or by a header. Operations on the account of the caller
/// ignore the header. None also for a malformed organization in the path, which [`check_organization`] refuses.
///
/// # Errors
/// `INVALID_ID` of the header; `INVALID_FIELD` if the request selects several, so that a proxy and the gateway cannot read
/// different ones.
fn selected_organization(access: Access, path: Option<&str>, headers: &HeaderMap) -> Result<Option<OrgId>> {
    let mut values = headers.get_all(ORGANIZATION).iter().filter(|_| access != Access::Account);
    let header = values.next().map(|value| fields::id::<OrgId>(ORGANIZATION, value.to_str().unwrap_or_default()));
    if values.next().is_some() {
        return Err(Error::invalid_field(ORGANIZATION, "must not be repeated"));
    }
    let header = header.transpose()?;
    let Some(path) = path else { return Ok(header) };
    if header.is_some_and(|header| header.as_str() != path) {
        return Err(Error::invalid_field(ORGANIZATION, "differs from the organization in the path"));
    }
    Ok(path.parse().ok())
}

/// Authenticates, admits and authorizes a call.
async fn enter(layers: &Inner, target: &Target, request: Request<Body>, source: Option<IpAddr>) -> Result<Entered> {
    if layers.drained.is_cancelled() {
        return Err(draining());
    }
    let connection = request.extensions().get::<ConnectionHandle>().cloned();
    let active = connection.as_ref().map(|connection| connection.begin_call(request.version()));
    let (mut bounds, framing) = (layers.messages.clone(), framing(target, request.uri().path()));
    let operation = match target.route {
        Route::Api(operation) if operation.access != Access::Public => operation,
        route => {
            let permit = CallPermit::Public(layers.public.begin(route, request.uri().path(), source));
            bounds.message_bytes = bounds.message_bytes.min(public_calls::MESSAGE_BYTES);
            let mut request = request.map(|body| Body::new(RequestBody::new(body, framing, bounds, None)));
            request.extensions_mut().insert(Caller::anonymous());
            request.extensions_mut().insert(ClientNetwork(source.map(network)));
            return Ok(Entered { request, guard: CallGuard { permit, session: None, _active: active }, rate: None });
        }
    };
    let shares = if operation.class == Class::Long { &layers.long } else { &layers.short };
    let admit = |owner: &Owner| shares.try_acquire(owner, 0);
    let in_path = target.rest.as_ref().and_then(Lookup::organization);
    let org = selected_organization(operation.access, in_path, request.headers())?;
    let (caller, share) = layers.authenticator.caller(request.headers(), org.as_ref(), source, admit).await?;
    if let Some(connection) = connection {
        connection.authenticate(&caller.principal.counted_as())?;
    }
    let span = tracing::Span::current();
    span.record("org", caller.principal.org.as_str()).record("user", caller.principal.user.as_str());
    if let Some(organization) = in_path {
        check_organization(&caller, organization)?;
    }
    caller.authorize(operation)?;
    let rate = layers.authenticator.count_call(&caller.principal.counted_as()).await?;
    let session = (operation.class == Class::Long).then(|| layers.observers.sessions.begin(&caller));
    if operation.name == UploadImage::DECLARATION.name {
        bounds.message_bytes = bounds.message_bytes.max(IMAGE_MESSAGE_BYTES);
    }
    if operation.name == UploadDocument::DECLARATION.name || framing.is_stream() {
        // The time between the parts of an upload has a limit of its own (`services::upload`, `rest::upload`).
        bounds.timeout = None;
    }
    let owner = Owner::of(&caller);
    let mut request = request.map(|body| Body::new(RequestBody::new(body, framing, bounds, Some(owner))));
    request.extensions_mut().insert(caller);
    Ok(Entered { request, guard: CallGuard { permit: CallPermit::Share(share), session, _active: active }, rate })
}

fn framing(target: &Target, path: &str) -> Framing {
    match target.face {
        Face::Grpc | Face::GrpcWeb => Framing::messages(descriptors::is_client_stream(path)),
        Face::Rest if target.rest.as_ref().is_some_and(Lookup::streams_body) => Framing::Stream,
        Face::Connect | Face::Rest | Face::Mcp | Face::Page => Framing::whole(),
    }
}

/// Checks that the organization in a path is the caller's. Another organization is answered like a missing one.
fn check_organization(caller: &Caller, organization: &str) -> Result<()> {
    if caller.principal.org.as_str() == organization {
        return Ok(());
    }
    Err(if caller.credential == CredentialKind::Token { Token::refused() } else { not_a_member() })
}

async fn run<S>(
    layers: &Inner,
    route: Route,
    mut service: S,
    request: Request<Body>,
    guard: &CallGuard,
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
        // A health check whose request is complete is answered even if a newer one takes its permit.
        biased;
        response = call => response.unwrap_or_else(|panicked| Ok(refusal(panicked))),
        error = guard.ended() => Ok(refusal(error)),
        Some(()) = late => {
            let message = "the call exceeded the deadline of the server";
            Ok(refusal(Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, message)))
        }
        () = layers.drained.cancelled() => Ok(refusal(draining())),
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
mod tests;
