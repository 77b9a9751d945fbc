//! The faces of the public port: the protocols that carry the same operations.
//!
//! | face | requests | translated by |
//! |---|---|---|
//! | gRPC | `application/grpc` | tonic |
//! | gRPC-Web | `application/grpc-web`, `application/grpc-web-text` | tonic-web |
//! | Connect | other requests of `/folio.v1.SERVICE/METHOD` | [`crate::connect`] |
//! | REST | below `/v0` | [`crate::rest`] |
//! | MCP | `/mcp` | [`crate::mcp`] |
//! | pages | everything else: `/openapi.json`, `/docs`, the web page | [`crate::openapi`], [`crate::web_page`] |
//!
//! ```text
//! CORS ─ Faces ─ Layers ─ Dispatch ─┬─ services of tonic (gRPC, gRPC-Web, Connect)
//!                                   ├─ handlers of REST
//!                                   ├─ MCP
//!                                   └─ pages
//! ```
//!
//! [`Faces`] finds the face and the operation of a request, so that the layers treat every face alike. The layers refuse
//! a call with a gRPC status; [`Faces`] translates that response, and the trailers that end a response early.
//! [`Dispatch`] is below the layers: it passes an admitted request on to the service of its face.

mod cors;
mod dispatch;
mod exchange;
mod problem;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use tonic::body::Body;
use tonic_web::GrpcWebLayer;
use tower::{Layer, Service};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, DefaultPredicate, Predicate as _};

use crate::access::{PACKAGE, Route, route};
use crate::connect::UNBUFFERED;
use crate::options::Options;
use crate::{mcp, rest};

pub(crate) use cors::{ANY_ORIGIN, cors, is_origin};
pub(crate) use dispatch::DispatchLayer;
use exchange::Http;
pub(crate) use exchange::{ExpiredToken, Refused, StreamEnd, whole_seconds};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    Grpc,
    GrpcWeb,
    Connect,
    Rest,
    Mcp,
    Page,
}

impl Face {
    /// The value of `rpc.system.name` in spans.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::GrpcWeb => "grpc_web",
            Self::Connect => "connect",
            Self::Mcp => "mcp",
            Self::Rest | Self::Page => "http",
        }
    }
}

/// The face of a request and the operation that it requests.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) face: Face,
    pub(crate) route: Route,
    /// The result of the search among the REST routes. None: another face.
    pub(crate) rest: Option<rest::Lookup>,
}

impl Target {
    /// Returns the target of a request that reached the layers without [`Faces`].
    pub(crate) fn of_rpc(path: &str) -> Self {
        Self { face: Face::Grpc, route: route(path), rest: None }
    }

    fn find(method: &Method, path: &str, headers: &HeaderMap, prefix: &str) -> Self {
        let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes()).unwrap_or_default();
        if content_type.starts_with(b"application/grpc-web") {
            return Self { face: Face::GrpcWeb, ..Self::of_rpc(path) };
        }
        if content_type.starts_with(b"application/grpc") {
            return Self::of_rpc(path);
        }
        if path.starts_with(PACKAGE) {
            // Only POST reaches an operation. Another method is refused without a token.
            let route = if *method == Method::POST { route(path) } else { Route::Unknown };
            return Self { face: Face::Connect, route, rest: None };
        }
        if path == mcp::PATH {
            // Only POST carries a message. Another method is refused without a token.
            let route = if *method == Method::POST { Route::Api(&mcp::EXCHANGE) } else { Route::Unknown };
            return Self { face: Face::Mcp, route, rest: None };
        }
        match rest::route_path(path, prefix) {
            Some(path) => {
                let lookup = rest::lookup(method, &path);
                let route = lookup.operation().map_or(Route::Unknown, Route::Api);
                Self { face: Face::Rest, route, rest: Some(lookup) }
            }
            None => Self { face: Face::Page, route: Route::Unknown, rest: None },
        }
    }
}

/// Finds the target of each request and translates responses to its face.
#[derive(Clone)]
pub(crate) struct FacesLayer {
    /// Path prefix under which the REST routes are also served. Empty: none.
    prefix: Arc<str>,
    compression: CompressionLayer<And<DefaultPredicate, MayBuffer>>,
}

/// Returns true if a response may be buffered, which compression does.
type MayBuffer = fn(StatusCode, Version, &HeaderMap, &Extensions) -> bool;

fn may_buffer(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    !headers.contains_key(UNBUFFERED.0)
}

impl FacesLayer {
    pub(crate) fn new(options: &Options) -> Self {
        let predicate = DefaultPredicate::new().and(may_buffer as MayBuffer);
        let compression = CompressionLayer::new().compress_when(predicate);
        Self { prefix: options.path_prefix.as_str().into(), compression }
    }
}

impl<S> Layer<S> for FacesLayer {
    type Service = Faces<S>;

    fn layer(&self, service: S) -> Faces<S> {
        Faces { layer: self.clone(), service }
    }
}

/// Returns the service that was polled ready, for a request. Its clone handles the next request.
pub(crate) fn take_ready<S: Clone>(service: &mut S) -> S {
    let next = service.clone();
    std::mem::replace(service, next)
}

#[derive(Clone)]
pub(crate) struct Faces<S> {
    layer: FacesLayer,
    service: S,
}

impl<S> Service<Request<Body>> for Faces<S>
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut service = take_ready(&mut self.service);
        let target = Target::find(request.method(), request.uri().path(), request.headers(), &self.layer.prefix);
        let face = target.face;
        if target.rest.as_ref().is_some_and(rest::Lookup::reads_token_in_query) {
            present_token_of_query(&mut request);
        }
        request.extensions_mut().insert(target.clone());
        match face {
            Face::Grpc => Box::pin(service.call(request)),
            Face::GrpcWeb => Box::pin(GrpcWebLayer::new().layer(service).call(request)),
            Face::Connect | Face::Rest | Face::Mcp | Face::Page => {
                let response = self.layer.compression.layer(Http { service, target }).call(request);
                Box::pin(async move { response.await.map(|response| response.map(Body::new)) })
            }
        }
    }
}

/// Makes the query parameter `token` the bearer token of a request, so that the layers verify and bound it like any other. A
/// request without the parameter keeps its headers.
fn present_token_of_query(request: &mut Request<Body>) {
    let query = request.uri().query().unwrap_or_default();
    let token = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "token").last();
    let Some((_, token)) = token else { return };
    // A token that no header can contain is malformed, as is an empty one.
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.unwrap_or_else(|_| HeaderValue::from_static("Bearer malformed"));
    value.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, value);
}

#[cfg(test)]
mod tests {

    use super::*;

    fn target(method: Method, path: &str, content_type: &'static str) -> Target {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        Target::find(&method, path, &headers, "/fastapi")
    }

    #[test]
    fn the_content_type_and_the_path_determine_the_face_and_the_operation() {
        let tag = "/folio.v1.TagService/GetTag";
        let organization = "/v0/orgs/org_1/tags/tag_1";
        let json = "application/json";
        let get = folio_operations::declaration("TagService", "GetTag").unwrap();
        let operation = Route::Api(get);
        for (method, path, content_type, face, expected) in [
            (Method::POST, tag, "application/grpc", Face::Grpc, operation),
            (Method::POST, tag, "application/grpc+proto", Face::Grpc, operation),
            (Method::POST, tag, "application/grpc-web+proto", Face::GrpcWeb, operation),
            (Method::POST, tag, "application/grpc-web-text", Face::GrpcWeb, operation),
            (Method::POST, tag, json, Face::Connect, operation),
            (Method::GET, tag, json, Face::Connect, Route::Unknown),
            (Method::POST, "/folio.v1.TagService/Nothing", json, Face::Connect, Route::Unknown),
            (Method::POST, "/grpc.health.v1.Health/Check", json, Face::Page, Route::Unknown),
            (Method::GET, organization, json, Face::Rest, operation),
            (Method::GET, "/fastapi/v0/orgs/org_1/tags/tag_1", json, Face::Rest, operation),
            (Method::PATCH, organization, json, Face::Rest, Route::Unknown),
            (Method::GET, "/v0/nothing", json, Face::Rest, Route::Unknown),
            (Method::POST, "/mcp", json, Face::Mcp, Route::Api(&mcp::EXCHANGE)),
            (Method::GET, "/mcp", json, Face::Mcp, Route::Unknown),
            (Method::POST, "/mcp/", json, Face::Page, Route::Unknown),
            (Method::GET, "/docs", json, Face::Page, Route::Unknown),
            (Method::GET, "/", json, Face::Page, Route::Unknown),
        ] {
            let found = target(method.clone(), path, content_type);
            assert_eq!((found.face, found.route), (face, expected), "{method} {path} {content_type}");
        }
    }

    #[test]
    fn the_token_in_a_query_replaces_the_headers() {
        let presented = |query: &str| {
            let uri = format!("/v0/account/token/organization{query}");
            let mut request =
                Request::builder().uri(uri).header(AUTHORIZATION, "Bearer own").body(Body::empty()).unwrap();
            present_token_of_query(&mut request);
            crate::authenticator::presented_token(request.headers()).unwrap_or_default().to_owned()
        };
        assert_eq!(presented("?token=first&token=a%20b"), "a b");
        assert_eq!((presented("?token="), presented("?token=%0A")), (String::new(), "malformed".to_owned()));
        assert_eq!((presented(""), presented("?tokens=x")), ("own".to_owned(), "own".to_owned()));
    }
}
