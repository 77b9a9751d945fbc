//! Access tokens of OAuth clients: requested with the credentials of the client (RFC 6749, section 4.4), and kept in memory
//! until they expire.

use std::time::{Duration, Instant};

use folio_llm::options::check_http_url;
use folio_providers::Providers;
use folio_resources::{McpOAuth, McpServer, check_server_token};
use folio_tools::mcp::McpFailure;
use folio_types::{Digest, Secret};
use moka::Expiry;
use moka::future::Cache;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Response};
use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum number of tokens that a process keeps.
const TOKENS_MAX: u64 = 4_096;
/// Maximum time of a request for a token.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response, in bytes.
const RESPONSE_BYTES: usize = 64 * 1024;
/// Time for which a token is kept if its response states no lifetime.
const LIFETIME_DEFAULT: Duration = Duration::from_secs(5 * 60);
/// Maximum time for which a token is kept.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Time before the end of its lifetime at which a token is replaced, so that it does not expire during a call.
const RENEWED_BEFORE: Duration = Duration::from_secs(90);

/// A token with the time for which it is kept.
#[derive(Debug, Clone, PartialEq)]
struct AccessToken {
    token: Secret,
    kept_for: Duration,
}

struct KeptFor;

impl Expiry<Digest, AccessToken> for KeptFor {
    fn expire_after_create(&self, _: &Digest, token: &AccessToken, _: Instant) -> Option<Duration> {
        Some(token.kept_for)
    }
}

/// The access tokens of all organizations. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AccessTokens {
    /// Tokens by the server and its client, so that a changed client requests another one.
    kept: Cache<Digest, AccessToken>,
}

impl AccessTokens {
    pub(crate) fn new() -> Self {
        Self { kept: Cache::builder().max_capacity(TOKENS_MAX).expire_after(KeptFor).build() }
    }

    /// Returns the token for the requests to a server. Concurrent calls share one request.
    ///
    /// # Errors
    /// [`McpFailure::NotSent`]: the server received nothing.
    pub(crate) async fn get(
        &self,
        http: &Client,
        providers: &Providers,
        server: &McpServer,
        client: &McpOAuth,
    ) -> Result<Secret, McpFailure> {
        let requested = self.kept.try_get_with(key(server, client), request(http, providers, server, client)).await;
        let unavailable = |problem| McpFailure::NotSent(format!("its access token is unavailable: {problem}"));
        requested.map(|token| token.token).map_err(unavailable)
    }

    /// Removes the token of a server that refused it.
    pub(crate) async fn remove(&self, server: &McpServer, client: &McpOAuth) {
        self.kept.invalidate(&key(server, client)).await;
    }
}

fn key(server: &McpServer, client: &McpOAuth) -> Digest {
    Digest::of_json(&json!([server.org, server.id, server.url, client]))
}

/// Requests a token. The error is the end of a sentence, and contains nothing that the endpoint returned.
async fn request(
    http: &Client,
    providers: &Providers,
    server: &McpServer,
    client: &McpOAuth,
) -> Result<AccessToken, String> {
    let url = check_http_url(&client.token_url).map_err(|problem| format!("the token URL {problem}"))?;
    if !providers.address_policy().allows_url(&url) {
        return Err("the address of the token URL is not permitted".into());
    }
    let secret = providers.vault().open(&server.org, server.id.as_str(), &client.secret);
    let secret = secret.map_err(|error| format!("the secret of the client cannot be read: {}", error.message))?;
    let request = http
        .post(url)
        .timeout(REQUEST_TIMEOUT)
        // RFC 6749, section 2.3.1, encodes both before they are joined.
        .basic_auth(encoded(&client.client_id), Some(encoded(secret.reveal())))
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json")
        .body(form(server, client));
    let response = request.send().await;
    let response = response.map_err(|_| "the token endpoint did not respond, or its address is not permitted")?;
    let status = response.status();
    if !status.is_success() {
        return Err(format!("the token endpoint returned {status}"));
    }
    let body = read(response).await.ok_or("the response of the token endpoint is too large or incomplete")?;
    access_token(&body).ok_or_else(|| "the token endpoint returned no bearer token".to_owned())
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn form(server: &McpServer, client: &McpOAuth) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if !client.scopes.is_empty() {
        form.append_pair("scope", &client.scopes.join(" "));
    }
    // RFC 8707, which the authorization of MCP requires.
    form.append_pair("resource", &server.url);
    form.finish()
}

/// Reads a body. None: it exceeds the bound, or the connection failed.
async fn read(mut response: Response) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if body.len().saturating_add(chunk.len()) > RESPONSE_BYTES {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(body)
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    /// Seconds. Some servers send a text.
    #[serde(default)]
    expires_in: Value,
}

/// Returns the token in the response of a token endpoint. None: it contains no bearer token.
fn access_token(body: &[u8]) -> Option<AccessToken> {
    let TokenResponse { access_token, token_type, expires_in } = serde_json::from_slice(body).ok()?;
    let token = Secret::new(&access_token);
    let is_bearer = token_type.eq_ignore_ascii_case("bearer");
    if !is_bearer || token.is_empty() || check_server_token("access_token", &token).is_err() {
        return None;
    }
    let seconds = expires_in.as_u64().or_else(|| expires_in.as_str().and_then(|text| text.parse().ok()));
    let lifetime = seconds.map_or(LIFETIME_DEFAULT, Duration::from_secs);
    // A token with a short life is used for the call that requested it.
    let kept_for = lifetime.min(LIFETIME_MAX).saturating_sub(RENEWED_BEFORE);
    Some(AccessToken { token, kept_for })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_until_shortly_before_its_end() {
        let kept = |expires_in: Value| {
            let body = json!({ "access_token": "a", "token_type": "Bearer", "expires_in": expires_in });
            access_token(body.to_string().as_bytes()).unwrap().kept_for.as_secs()
        };
        for (expires_in, seconds) in [
            (json!(3_600), 3_510),
            (json!("3600"), 3_510),
            (Value::Null, 210),
            (json!(60), 0),
            (json!(u64::MAX), 24 * 60 * 60 - 90),
        ] {
            assert_eq!(kept(expires_in.clone()), seconds, "{expires_in}");
        }
    }

    #[test]
    fn a_response_without_a_bearer_token_is_refused() {
        for refused in [
            "",
            "[]",
            r#"{"error": "invalid_client"}"#,
            r#"{"access_token": "", "token_type": "bearer"}"#,
            r#"{"access_token": "a b", "token_type": "bearer"}"#,
            r#"{"access_token": "a", "token_type": "mac"}"#,
            r#"{"access_token": 1, "token_type": "bearer"}"#,
        ] {
            assert_eq!(access_token(refused.as_bytes()), None, "{refused}");
        }
        let long = json!({ "access_token": "a".repeat(4_001), "token_type": "bearer" });
        assert_eq!(access_token(long.to_string().as_bytes()), None);
    }
}
