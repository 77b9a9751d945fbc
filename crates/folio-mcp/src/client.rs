//! Calls MCP servers with the credentials of their organizations.

use std::time::Duration;

use async_trait::async_trait;
use folio_llm::options::check_http_url;
use folio_providers::Providers;
use folio_resources::McpServer;
use folio_tools::mcp::{LISTED_TOOLS_MAX, McpFailure, McpReply, McpServers, OfferedTool};
use folio_types::{Error, Result, Secret};
use reqwest::Client;
use serde_json::{Value, json};

use crate::message;
use crate::oauth::AccessTokens;
use crate::session::{self, Session};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time for a call of a tool with its handshake.
// proto: McpServerService "after {} seconds"
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for a list of tools with its handshake. Shorter than the time limit of a tool, which plans a call with the list.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of pages of a list of tools.
const PAGES_MAX: usize = 16;
/// Maximum idle connections to a host.
const IDLE_CONNECTIONS: usize = 2;

/// Calls the MCP servers of all organizations. Cheap to clone.
#[derive(Clone)]
pub struct McpClient {
    /// Decrypts the credentials of servers, and knows the permitted addresses.
    providers: Providers,
    http: Client,
    tokens: AccessTokens,
}

impl std::fmt::Debug for McpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("McpClient")
    }
}

impl McpClient {
    /// # Errors
    /// `INTERNAL` if the HTTP client cannot be created.
    pub fn new(providers: Providers) -> Result<Self> {
        let builder = Client::builder()
            .user_agent(concat!("folio/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            // A call is sent at most once.
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(IDLE_CONNECTIONS);
        let http = providers.address_policy().restrict(builder).build();
        let http =
            http.map_err(|error| Error::internal(format!("cannot create the client of MCP servers: {error}")))?;
        Ok(Self { providers, http, tokens: AccessTokens::new() })
    }

    async fn open(&self, server: &McpServer) -> Result<Session<'_>, McpFailure> {
        let url = check_http_url(&server.url).map_err(|problem| McpFailure::NotSent(format!("its URL {problem}")))?;
        if !self.providers.address_policy().allows_url(&url) {
            return Err(McpFailure::NotSent("its address is not permitted".into()));
        }
        let token = self.token(server).await?;
        let opened = Session::open(&self.http, url, token).await;
        if let (Err(_), Some(client)) = (&opened, &server.oauth) {
            // The authorization server may have revoked the token.
            self.tokens.remove(server, client).await;
        }
        opened
    }

    /// Returns the token of the requests to a server. None: requests have no credential.
    async fn token(&self, server: &McpServer) -> Result<Option<Secret>, McpFailure> {
        if let Some(client) = &server.oauth {
            return self.tokens.get(&self.http, &self.providers, server, client).await.map(Some);
        }
        let open = |sealed| self.providers.vault().open(&server.org, server.id.as_str(), sealed);
        let token = server.token.as_ref().map(open).transpose();
        token.map_err(|error| McpFailure::NotSent(format!("its token is unavailable: {}", error.message)))
    }

    async fn list(session: &mut Session<'_>) -> Result<Vec<OfferedTool>, McpFailure> {
        let (mut tools, mut params) = (Vec::new(), json!({}));
        for _ in 0..PAGES_MAX {
            let page = session.request("tools/list", params).await?;
            let malformed = || McpFailure::Refused("its list of tools is malformed".into());
            let (found, cursor) = message::tools(&page).ok_or_else(malformed)?;
            tools.extend(found);
            tools.truncate(LISTED_TOOLS_MAX);
            match cursor {
                Some(cursor) if tools.len() < LISTED_TOOLS_MAX => params = json!({ "cursor": cursor }),
                _ => break,
            }
        }
        Ok(tools)
    }
}

#[async_trait]
impl McpServers for McpClient {
    async fn tools(&self, server: &McpServer) -> Result<Vec<OfferedTool>, McpFailure> {
        let list = async {
            let mut session = self.open(server).await?;
            let tools = Self::list(&mut session).await;
            session.close().await;
            tools
        };
        within(LIST_TIMEOUT, list).await
    }

    async fn call(&self, server: &McpServer, tool: &str, arguments: &Value) -> Result<McpReply, McpFailure> {
        let call = async {
            let mut session = self.open(server).await?;
            let result = session.request("tools/call", session::call(tool, arguments)).await;
            session.close().await;
            Ok(message::reply(&result?))
        };
        within(CALL_TIMEOUT, call).await
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, McpFailure>> + Send) -> Result<T, McpFailure> {
    let timed_out = |_| McpFailure::Unknown(format!("it did not answer within {} s", limit.as_secs()));
    tokio::time::timeout(limit, work).await.map_err(timed_out)?
}

#[cfg(test)]
mod tests;
