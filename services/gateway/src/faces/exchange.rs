//! The responses of the faces that are plain HTTP: Connect, REST and pages.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::response::IntoResponse as _;
use bytes::Bytes;
use folio_proto::status;
use folio_types::{Error, Reason};
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::problem::problem;
use super::{Face, Target};
use crate::access::Route;
use crate::authenticator::presented_token;
use crate::layers::CALL_ID;
use crate::rates::RateLimit;
use crate::rest::Presented;
use crate::{connect, rest};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Formats the last chunk of a stream that ends with an error after its first byte. A handler adds it to the extensions
/// of its response. Without it, the connection or the HTTP/2 stream is reset, so that the caller notices the loss.
#[derive(Clone, Copy)]
pub(crate) struct StreamEnd(pub(crate) fn(&Error) -> Bytes);

/// The reason of an error response, in its extensions.
#[derive(Clone, Copy)]
pub(crate) struct Refused(pub(crate) Reason);

/// Marks the refusal of an expired token, in the extensions of its response. Only REST states the reason.
#[derive(Clone, Copy)]
pub(crate) struct ExpiredToken;

/// Translates the responses of the service below it.
pub(super) struct Http<S> {
    pub(super) service: S,
    pub(super) target: Target,
}

impl<S> Service<Request<Body>> for Http<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let exchange = Exchange::of(&request, self.target.clone());
        let response = self.service.call(request);
        Box::pin(async move { Ok(exchange.answer(response.await?).await) })
    }
}

/// The parts of a request that its response depends on.
struct Exchange {
    target: Target,
    started: Instant,
    is_get: bool,
    credential: Presented,
    has_if_match: bool,
    if_none_match: Option<HeaderValue>,
}

impl Exchange {
    fn of(request: &Request<Body>, target: Target) -> Self {
        let headers = request.headers();
        let credential = match presented_token(headers) {
            Some(_) if target.rest.as_ref().is_some_and(rest::Lookup::reads_token_in_query) => Presented::InQuery,
            Some(_) => Presented::InHeader,
            None => Presented::Absent,
        };
        Self {
            credential,
            target,
            started: Instant::now(),
            is_get: request.method() == Method::GET,
            has_if_match: headers.contains_key(IF_MATCH),
            if_none_match: headers.get(IF_NONE_MATCH).cloned(),
        }
    }

    async fn answer(self, response: Response<Body>) -> Response<Body> {
        let call_id = response.headers().get(CALL_ID).cloned();
        let rate = response.extensions().get::<RateLimit>().copied();
        let refused = Status::from_header_map(response.headers()).map(|status| status::to_error(&status));
        let rate = rate.or_else(|| refused.as_ref().and_then(RateLimit::of_refusal));
        let retry_after = refused.as_ref().and_then(|error| error.retry_after);
        let mut response = self.translate(response, refused).await;
        if response.status() == StatusCode::CONFLICT
            && self.has_if_match
            && response.extensions().get::<Refused>().is_some_and(|refused| refused.0 == Reason::VersionConflict)
        {
            *response.status_mut() = StatusCode::PRECONDITION_FAILED;
        }
        if self.is_get && response.status() == StatusCode::OK && is_unchanged(self.if_none_match.as_ref(), &response) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(CONTENT_TYPE);
            *response.body_mut() = Body::empty();
        }
        let headers = response.headers_mut();
        if let Some(call_id) = call_id {
            headers.insert(CALL_ID, call_id);
        }
        if let Some(wait) = retry_after {
            headers.entry(RETRY_AFTER).or_insert(HeaderValue::from(whole_seconds(wait)));
        }
        if let Some(rate) = rate {
            insert(headers, RATE_LIMIT_POLICY, &rate.policy());
            insert(headers, RATE_LIMIT, &rate.state());
        }
        let milliseconds = self.started.elapsed().as_secs_f64() * 1_000.0;
        insert(headers, SERVER_TIMING, &format!("total;dur={milliseconds:.1}"));
        response
    }

    /// `refused`: the error of the layers, or of a service of tonic before its first message.
    async fn translate(&self, response: Response<Body>, refused: Option<Error>) -> Response<Body> {
        match (self.target.face, refused, self.target.route) {
            (Face::Connect, Some(_), _) => {
                let status = Status::from_header_map(response.headers());
                connect::failure(&status.unwrap_or_else(|| Status::internal("the status is missing"))).map(Body::new)
            }
            (Face::Connect, None, Route::Api(operation)) if is_grpc(response.headers()) => {
                connect::translate(operation, response).await.map(Body::new)
            }
            (Face::Rest, Some(error), _) => {
                let credential = match self.credential {
                    Presented::InHeader if response.extensions().get::<ExpiredToken>().is_some() => Presented::Expired,
                    credential => credential,
                };
                let failure = rest::Failure::refused(error, credential);
                let denial = self.target.rest.as_ref().and_then(rest::Lookup::denial);
                let failure = match denial {
                    Some(text) => failure.when(Reason::RoleNotAllowed, StatusCode::FORBIDDEN, text),
                    None => failure,
                };
                failure.into_response().map(Body::new)
            }
            (_, Some(error), _) => problem(error).map(Body::new),
            (_, None, _) => {
                let end = response.extensions().get::<StreamEnd>().copied();
                response.map(|body| ended_body(body, end))
            }
        }
    }
}

/// Returns a waiting time in seconds, rounded up, at least 1.
pub(crate) fn whole_seconds(wait: std::time::Duration) -> u64 {
    wait.as_secs_f64().ceil().max(1.0) as u64
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Returns true if a response has one of the etags that a client knows: the comparison of RFC 9110 for `If-None-Match`.
fn is_unchanged(if_none_match: Option<&HeaderValue>, response: &Response<Body>) -> bool {
    let strip = |etag: &str| etag.trim().trim_start_matches("W/").to_owned();
    let known = if_none_match.and_then(|value| value.to_str().ok());
    let current = response.headers().get(ETAG).and_then(|value| value.to_str().ok());
    let (Some(known), Some(current)) = (known, current) else { return false };
    known.trim() == "*" || known.split(',').any(|etag| strip(etag) == strip(current))
}

/// Removes the trailers of a body. Trailers with an error end the body with its last chunk, or with an error.
fn ended_body(body: Body, end: Option<StreamEnd>) -> Body {
    Body::new(EndedBody { body, end, is_ended: false })
}

struct EndedBody {
    body: Body,
    end: Option<StreamEnd>,
    is_ended: bool,
}

impl http_body::Body for EndedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        let status = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => match frame.trailers_ref() {
                None => return Poll::Ready(Some(Ok(frame))),
                Some(trailers) => Status::from_header_map(trailers).filter(|status| status.code() != tonic::Code::Ok),
            },
            Some(Err(status)) => Some(status),
            None => None,
        };
        self.is_ended = true;
        let Some(status) = status else { return Poll::Ready(None) };
        Poll::Ready(Some(match self.end {
            Some(StreamEnd(format)) => Ok(Frame::data(format(&status::to_error(&status)))),
            None => Err(status),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.is_ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    fn stream(trailers: HeaderMap) -> Body {
        let frames = [Frame::data(Bytes::from_static(b"first ")), Frame::trailers(trailers)];
        Body::new(StreamBody::new(futures::stream::iter(frames.map(Ok::<_, Status>))))
    }

    fn trailers(error: Error) -> HeaderMap {
        let mut headers = HeaderMap::new();
        status::from_error(error).add_header(&mut headers).unwrap();
        headers
    }

    #[tokio::test]
    async fn a_stream_that_ends_early_ends_with_its_last_chunk_or_an_error() {
        let error = || Error::exhausted(Reason::Overloaded, "too slow");
        let end = StreamEnd(|error| Bytes::from(error.message.clone()));
        let whole = ended_body(stream(trailers(error())), Some(end)).collect().await.unwrap();
        assert_eq!(whole.to_bytes(), "first too slow");
        let broken = ended_body(stream(trailers(error())), None).collect().await.unwrap_err();
        assert_eq!(status::to_error(&broken).reason, Reason::Overloaded);
        let complete = ended_body(stream(HeaderMap::new()), Some(end)).collect().await.unwrap();
        assert!(complete.trailers().is_none());
        assert_eq!(complete.to_bytes(), "first ");
    }

    #[test]
    fn a_known_etag_is_compared_weakly() {
        let response = Response::builder().header(ETAG, "\"v3\"").body(Body::empty()).unwrap();
        for (known, unchanged) in [
            ("\"v3\"", true),
            ("W/\"v3\"", true),
            ("\"v2\", \"v3\"", true),
            ("*", true),
            ("\"v2\"", false),
            ("v3", false),
        ] {
            assert_eq!(is_unchanged(Some(&HeaderValue::from_static(known)), &response), unchanged, "{known}");
        }
        assert!(!is_unchanged(None, &response));
    }

    #[test]
    fn a_waiting_time_is_rounded_up() {
        let seconds = [0, 1, 1_000, 1_001].map(|wait| whole_seconds(Duration::from_millis(wait)));
        assert_eq!(seconds, [1, 1, 1, 2]);
    }
}
