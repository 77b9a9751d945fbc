//! The faces that are plain HTTP: gRPC-Web, Connect, REST and pages.

mod access_tokens;
mod assistant;
mod browsers;
mod chat;
mod collections;
mod compatibility;
mod dictionary;
mod documents;
mod faces;
mod links;
mod llm;
mod malformed;
mod mcp;
mod message_images;
mod ocr;
mod organizations;
mod pages;
mod payments;
mod prompts;
mod providers;
mod results;
mod retrieval;
mod roles;
mod schemas;
mod schemathesis;
mod sign_in;
mod stacks;
mod structure;
mod tags;
mod tenants;
mod turns;
mod uploads;
mod users;

pub(crate) use faces::{Face, call_over};

use folio_gateway::RestRoute;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

use crate::harness::{Client, Server};

/// An image of two pixels in Base64.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR4nGP4zwAE/wEHAAH/4iOeWQAAAABJRU5ErkJggg==";

/// Returns the parameters of a query as they are in a URL.
fn encoded(query: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish()
}

/// A caller over HTTP/1.1.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    base: String,
    authorization: Option<String>,
    organization: Option<String>,
}

/// A response that was read completely.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns `detail`, which every error below `/v0` has.
    pub(crate) fn detail(&self) -> Value {
        self.json()["detail"].clone()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Http {
    pub(crate) fn new(server: &Server, client: &Client) -> Self {
        let base = format!("http://{}", server.address);
        let (authorization, organization) = (client.authorization(), client.organization());
        Self { client: reqwest::Client::new(), base, authorization, organization }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        let headers = [("authorization", &self.authorization), ("folio-organization", &self.organization)];
        let headers = headers.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        headers.fold(request, |request, (name, value)| request.header(name, value))
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    /// Sends a request with a JSON body, or without a body for null.
    pub(crate) async fn json(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.request(method, path);
        self.send(if body.is_null() { request } else { request.json(body) }).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.json(Method::GET, path, &Value::Null).await
    }
}

/// Returns the path of a route with these values of its parameters.
fn path(route: &RestRoute, value: impl Fn(&str) -> String) -> String {
    let segments = route.path.split('/').map(|segment| {
        let name = segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}'));
        name.map_or_else(|| segment.to_owned(), &value)
    });
    segments.collect::<Vec<_>>().join("/")
}
