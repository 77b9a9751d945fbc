//! Requests without a stream: the client of `async-openai`, with the connections and the bounds of an endpoint.

use std::sync::Arc;

use async_openai::Client;
use async_openai::config::Config;
use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use reqwest::Response;
use reqwest::header::HeaderMap;
use secrecy::SecretString;
use serde::Serialize;
use serde::de::IgnoredAny;
use tokio::time::{Instant, timeout_at};

use super::endpoint::{Endpoint, call_headers, read_bounded};
use super::failure::Failure;
use crate::model::TimeLimit;
use crate::stream::StreamError;

#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Deadline of the whole response.
    pub(super) end: Instant,
    /// The deadline in errors.
    pub(super) limit: TimeLimit,
    /// Maximum length of the response body, in bytes.
    pub(super) body_bytes: usize,
}

/// Base URL of an endpoint. The HTTP client of the endpoint sends the key.
pub(super) struct BaseUrl {
    url: String,
    headers: HeaderMap,
    no_key: SecretString,
}

impl Config for BaseUrl {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.url
    }

    fn api_key(&self) -> &SecretString {
        &self.no_key
    }
}

/// Returns a client for one request. It does not retry. Its responses are valid JSON and within the bounds.
pub(super) fn client(endpoint: &Arc<Endpoint>, call_id: &str, bounds: Bounds) -> Client<BaseUrl> {
    let (url, headers) = (endpoint.base_url.clone(), call_headers(call_id));
    let base = BaseUrl { url, headers, no_key: SecretString::default() };
    let endpoint = Arc::clone(endpoint);
    let http = endpoint.http.clone();
    let service = move |request: HttpRequestFactory| {
        let endpoint = Arc::clone(&endpoint);
        async move {
            let sent = send(&endpoint, request.build().await?, bounds).await;
            sent.map_err(|failure| OpenAIError::Boxed(Box::new(failure)))
        }
    };
    Client::build(http, base).with_http_service(tower::service_fn(service))
}

/// Converts an error of `async-openai`.
pub(super) fn failure(endpoint: &Endpoint, error: OpenAIError) -> Failure {
    let malformed = |error: &dyn std::fmt::Display| {
        Failure::invalid_answer(StreamError::Malformed(format!("unexpected format: {error}")), &endpoint.key)
            .not_retriable()
    };
    match error {
        OpenAIError::Boxed(error) => match error.downcast::<Failure>() {
            Ok(failure) => *failure,
            Err(error) => malformed(&error),
        },
        OpenAIError::Reqwest(error) => Failure::connection(&endpoint.name, error, &endpoint.key),
        // The text of the other errors repeats the body.
        _ => malformed(&"unexpected format"),
    }
}

async fn send(endpoint: &Endpoint, request: reqwest::Request, bounds: Bounds) -> Result<Response, Failure> {
    Ok(http::Response::new(body(endpoint, request, bounds).await?).into())
}

/// Sends a JSON body to a path below the base URL, for which `async-openai` has no method. Returns the body of the
/// response, which is valid JSON and within the bounds.
pub(super) async fn post(
    endpoint: &Endpoint,
    call_id: &str,
    (path, json): (&str, &(impl Serialize + Sync)),
    bounds: Bounds,
) -> Result<Vec<u8>, Failure> {
    let request = endpoint.http.post(format!("{}/{path}", endpoint.base_url)).headers(call_headers(call_id)).json(json);
    let request = request.build().map_err(|error| Failure::connection(&endpoint.name, error, &endpoint.key))?;
    body(endpoint, request, bounds).await
}

/// Sends a request. Returns the body of the response.
async fn body(endpoint: &Endpoint, request: reqwest::Request, bounds: Bounds) -> Result<Vec<u8>, Failure> {
    let Bounds { end, limit, body_bytes } = bounds;
    let response = endpoint.execute(request, (end, limit)).await?;
    let mut body = Vec::new();
    let is_whole = timeout_at(end, read_bounded(response, body_bytes, &mut body))
        .await
        .map_err(|_| Failure::timeout(limit))?
        .map_err(|error| Failure::connection(&endpoint.name, error, &endpoint.key).not_retriable())?;
    let checked = if is_whole { json(&body) } else { Err(StreamError::TooLarge("body")) };
    checked.map_err(|error| Failure::invalid_answer(error, &endpoint.key).not_retriable())?;
    Ok(body)
}

/// Refuses a body that is not JSON, because `async-openai` logs a body that it cannot parse.
fn json(body: &[u8]) -> Result<(), StreamError> {
    let parsed = serde_json::from_slice::<IgnoredAny>(body);
    parsed.map(|_| ()).map_err(|error| StreamError::Malformed(format!("not JSON: {error}")))
}
