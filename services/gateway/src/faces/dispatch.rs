//! Passes an admitted request on to the service of its face.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use folio_proto::status;
use http::{Request, Response};
use tonic::body::Body;
use tower::{Layer, Service};

use super::problem::{method_not_allowed, not_found};
use super::{Face, Target};
use crate::access::Route;
use crate::services::Api;
use crate::{connect, mcp, openapi, rest, web_page};

#[derive(Clone)]
pub(crate) struct DispatchLayer {
    api: Arc<Api>,
}

impl DispatchLayer {
    pub(crate) fn new(api: Api) -> Self {
        Self { api: Arc::new(api) }
    }
}

impl<S> Layer<S> for DispatchLayer {
    type Service = Dispatch<S>;

    fn layer(&self, services: S) -> Dispatch<S> {
        Dispatch { api: Arc::clone(&self.api), services }
    }
}

#[derive(Clone)]
pub(crate) struct Dispatch<S> {
    api: Arc<Api>,
    /// The services of tonic.
    services: S,
}

impl<S> Service<Request<Body>> for Dispatch<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.services.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(Target { face, route, rest }) = request.extensions().get::<Target>().cloned() else {
            return Box::pin(self.services.call(request));
        };
        match (face, route, rest) {
            (Face::Connect, Route::Api(operation), _) => {
                let fresh = self.services.clone();
                let services = std::mem::replace(&mut self.services, fresh);
                Box::pin(connect::call(services, operation, request))
            }
            (Face::Connect, ..) => {
                let is_post = request.method() == http::Method::POST;
                let response = if is_post { not_found() } else { method_not_allowed() };
                Box::pin(std::future::ready(Ok(response.map(Body::new))))
            }
            (Face::Rest, _, Some(lookup)) => {
                let api = Api::clone(&self.api);
                Box::pin(async move { Ok(rest::respond(lookup, api, request).await.map(Body::new)) })
            }
            (Face::Mcp, Route::Api(_), _) => {
                let api = Api::clone(&self.api);
                Box::pin(async move {
                    Ok(match mcp::respond(api, request).await {
                        Ok(response) => response.map(Body::new),
                        Err(error) => status::from_error(error).into_http(),
                    })
                })
            }
            (Face::Mcp, ..) => Box::pin(std::future::ready(Ok(method_not_allowed().map(Body::new)))),
            (Face::Page, ..) => {
                let (method, path) = (request.method(), request.uri().path());
                let response = openapi::page(method, path);
                let response = response.or_else(|| web_page::respond(method, path, request.headers()));
                let response = response.unwrap_or_else(not_found);
                Box::pin(std::future::ready(Ok(response.map(Body::new))))
            }
            _ => Box::pin(self.services.call(request)),
        }
    }
}
