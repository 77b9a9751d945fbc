//! Operations on the MCP servers whose tools agents may call.

use std::collections::BTreeMap;

use folio_llm::AddressPolicy;
use folio_llm::options::check_http_url;
use folio_resources::audit::AuditTarget;
use folio_resources::{
    ALLOWED_TOOLS_MAX, AllowedMcpTool, McpServer, McpServerChange, McpServerFilter, McpServerId, NewMcpOAuth,
    Resource as _, SERVERS_MAX, SealedKey, check_allowed_tools, check_client_secret, check_oauth_client,
    check_server_name, check_server_token, check_server_url, check_token_url,
};
use folio_storage::quota_exceeded;
use folio_tools::mcp::OfferedTool;
use folio_types::access::Scope;
use folio_types::page::PageRequest;
use folio_types::{Digest, Error, Etag, Reason, Result, Role, Secret, limits};
use serde::Serialize;
use serde_json::{Value, json};

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::operation::{Operation, as_digest, get_operation, list_operation, outcome_as_json};

service! {
    "McpServerService", Some(Scope::Administration) =>
    CreateMcpServer, GetMcpServer, ListMcpServers, UpdateMcpServer, DeleteMcpServer, DiscoverMcpTools
}

const NAME: &str = "mcp_server.name";
const URL: &str = "mcp_server.url";
const TOKEN: &str = "mcp_server.token";
const OAUTH: &str = "mcp_server.oauth";
const TOKEN_URL: &str = "mcp_server.oauth.token_url";
const CLIENT_SECRET: &str = "mcp_server.oauth.client_secret";
const ALLOWED_TOOLS: &str = "mcp_server.allowed_tools";

/// The OAuth client with which access tokens for a server are requested.
#[derive(Debug, Clone, Serialize)]
pub struct OAuthClient {
    /// Absolute HTTP or HTTPS URL of the token endpoint.
    pub token_url: String,
    pub client_id: String,
    /// None or empty: the stored secret, if the token URL is the same.
    #[serde(serialize_with = "as_digest")]
    pub client_secret: Option<Secret>,
    /// Empty: the scopes that the authorization server chooses.
    pub scopes: Vec<String>,
}

impl OAuthClient {
    /// Checks the client, and encrypts its secret.
    fn seal(&self, context: &Context, id: &McpServerId) -> Result<NewMcpOAuth> {
        check_token_url(TOKEN_URL, &self.token_url)?;
        permitted(context.providers().address_policy(), TOKEN_URL, &self.token_url)?;
        check_oauth_client(OAUTH, &self.client_id, &self.scopes)?;
        let secret = self.client_secret.as_ref().filter(|secret| !secret.is_empty());
        secret.map_or(Ok(()), |secret| check_client_secret(CLIENT_SECRET, secret))?;
        let seal = |secret| context.providers().vault().seal(&context.principal().org, id.as_str(), secret);
        let secret = secret.map(seal).transpose()?;
        let (token_url, client_id) = (self.token_url.clone(), self.client_id.clone());
        Ok(NewMcpOAuth { token_url, client_id, secret, scopes: self.scopes.clone() })
    }

    /// Returns the representation of the client in the audit log, without the secret.
    fn audited(&self) -> Value {
        let has_secret = self.client_secret.as_ref().is_some_and(|secret| !secret.is_empty());
        json!({
            "token_url": self.token_url, "client_id": self.client_id, "has_secret": has_secret, "scopes": self.scopes,
        })
    }
}

/// Checks that a request sets at most one credential.
fn check_one_credential(token: Option<&Secret>, has_oauth: bool) -> Result<()> {
    if has_oauth && token.is_some_and(|token| !token.is_empty()) {
        return Err(Error::invalid_field(
            OAUTH,
            "must not be set together with mcp_server.token: a server has one credential",
        ));
    }
    Ok(())
}

/// Creates an MCP server without allowed tools. Errors: `QUOTA_EXCEEDED` over [`SERVERS_MAX`]; `NAME_TAKEN` if another server has
/// the same name; `SECRETS_UNAVAILABLE` if a token or a client secret is set and the process has no master key.
#[derive(Debug, Clone, Serialize)]
pub struct CreateMcpServer {
    pub name: String,
    /// Absolute HTTP or HTTPS URL.
    pub url: String,
    /// Bearer token. None or empty: requests have no credential.
    #[serde(serialize_with = "as_digest")]
    pub token: Option<Secret>,
    /// None: requests have no access token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthClient>,
    /// True if agents may call the allowed tools.
    pub enabled: bool,
}

impl Operation for CreateMcpServer {
    const DECLARATION: Declaration = SERVICE.administer("CreateMcpServer");
    type Output = McpServer;

    outcome_as_json!();

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<McpServer>> {
        let Self { name, url, token, oauth, enabled } = self;
        let has_token = token.as_ref().is_some_and(|token| !token.is_empty());
        let oauth = oauth.as_ref().map(OAuthClient::audited);
        let arguments = json!({"name": name, "url": url, "has_token": has_token, "oauth": oauth, "enabled": enabled});
        Ok(AuditRecord::new(arguments).target_of(|created: &McpServer| AuditTarget::new(McpServer::KIND, &created.id)))
    }

    async fn run(self, context: &Context) -> Result<McpServer> {
        check_server_name(NAME, &self.name)?;
        check_one_credential(self.token.as_ref(), self.oauth.is_some())?;
        let id = McpServer::derive_id(&context.request.id_parts());
        let (org, servers) = (&context.principal().org, context.stores().of::<McpServer>());
        if servers.get(org, &id).await?.is_none() {
            let first = PageRequest { size: 1, ..PageRequest::default() };
            if servers.list(org, &McpServerFilter::default(), &first).await?.total >= SERVERS_MAX {
                return Err(quota_exceeded("MCP servers", SERVERS_MAX));
            }
        }
        let create = McpServerChange::Create {
            name: self.name,
            url: url(context.providers().address_policy(), self.url)?,
            token: seal(context, &id, &self.token.unwrap_or_default())?,
            oauth: self.oauth.map(|client| client.seal(context, &id)).transpose()?,
            enabled: self.enabled,
        };
        context.create(create).await
    }
}

get_operation! {
    GetMcpServer { mcp_server_id: McpServerId } -> McpServer, Role::Admin
}

list_operation! {
    /// Lists MCP servers. Filter: `name:` a part of the name.
    ListMcpServers -> McpServer, Role::Admin; limits::PAGE_SIZE_MAX;
    |text| McpServerFilter { name_search: filter::name_search(text)? }
}

/// A tool that agents may call after the update.
#[derive(Debug, Clone, Serialize)]
pub struct ToolToAllow {
    pub name: String,
    /// True if calls of the tool change something.
    pub is_write: bool,
    /// The digest of the description and the schema that the administrator has read.
    pub digest: Digest,
}

/// Changes an MCP server. A field that is None keeps its value. Errors: `MCP_SERVER_FAILED` if tools are allowed and the server
/// does not answer.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateMcpServer {
    pub mcp_server_id: McpServerId,
    pub name: Option<String>,
    pub url: Option<String>,
    /// Empty: the token is removed.
    #[serde(serialize_with = "as_digest")]
    pub token: Option<Secret>,
    /// Inner None: the client is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<Option<OAuthClient>>,
    pub enabled: Option<bool>,
    /// The new tools replace the stored ones.
    pub allowed_tools: Option<Vec<ToolToAllow>>,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateMcpServer {
    const DECLARATION: Declaration = SERVICE.administer("UpdateMcpServer").long();
    type Output = McpServer;

    outcome_as_json!();

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<McpServer>> {
        let Self { mcp_server_id, name, url, token, oauth, enabled, allowed_tools, .. } = self;
        let has_token = token.as_ref().map(|token| !token.is_empty());
        let has_oauth = oauth.as_ref().map(Option::is_some);
        let oauth = oauth.as_ref().and_then(Option::as_ref).map(OAuthClient::audited);
        let arguments = json!({
            "name": name, "url": url, "has_token": has_token, "has_oauth": has_oauth, "oauth": oauth, "enabled": enabled,
            "allowed_tools": allowed_tools,
        });
        Ok(AuditRecord::new(arguments).target(McpServer::KIND, mcp_server_id))
    }

    async fn run(self, context: &Context) -> Result<McpServer> {
        let id = &self.mcp_server_id;
        if let Some(name) = &self.name {
            check_server_name(NAME, name)?;
        }
        check_one_credential(self.token.as_ref(), self.oauth.as_ref().is_some_and(Option::is_some))?;
        let url = self.url.map(|text| url(context.providers().address_policy(), text)).transpose()?;
        let token = self.token.as_ref().map(|token| seal(context, id, token)).transpose()?;
        let sealed = |client: Option<OAuthClient>| client.map(|client| client.seal(context, id)).transpose();
        let oauth = self.oauth.map(sealed).transpose()?;
        let tools = match &self.allowed_tools {
            None => None,
            Some(tools) if tools.len() > ALLOWED_TOOLS_MAX => {
                return Err(Error::invalid_field(ALLOWED_TOOLS, format!("has more than {ALLOWED_TOOLS_MAX} tools")));
            }
            Some(tools) => {
                let mut server: McpServer = context.find(id).await?;
                // The tools are read with the URL and the credential that the server has after the update.
                if url.as_ref().is_some_and(|url| *url != server.url) {
                    server.tools.clear();
                }
                server.set_access(url.as_deref(), token.clone(), oauth.clone())?;
                Some(allow(context, &server, tools).await?)
            }
        };
        let change = McpServerChange::Update { name: self.name, url, token, oauth, enabled: self.enabled, tools };
        context.update(id, self.etag, change).await
    }
}

/// Returns the allowed tools with their texts. The server is read only if a tool is new, disabled, or has another digest.
async fn allow(
    context: &Context,
    server: &McpServer,
    tools: &[ToolToAllow],
) -> Result<BTreeMap<String, AllowedMcpTool>> {
    let offered = match tools.iter().all(|tool| is_stored(server, tool)) {
        true => Vec::new(),
        false => offered(context, server).await?,
    };
    allowed(server, &offered, tools)
}

/// Returns true if the stored tool is enabled and has the same digest.
fn is_stored(server: &McpServer, tool: &ToolToAllow) -> bool {
    let stored = server.tools.get(&tool.name);
    stored.is_some_and(|stored| stored.disabled_at.is_none() && stored.digest == tool.digest)
}

fn allowed(
    server: &McpServer,
    offered: &[OfferedTool],
    tools: &[ToolToAllow],
) -> Result<BTreeMap<String, AllowedMcpTool>> {
    let mut allowed = BTreeMap::new();
    for (at, tool) in tools.iter().enumerate() {
        let invalid =
            |field: &str, problem: &str| Error::invalid_field(format!("{ALLOWED_TOOLS}[{at}].{field}"), problem);
        let text = match server.tools.get(&tool.name).filter(|_| is_stored(server, tool)) {
            Some(stored) => stored.text.clone(),
            None => {
                let found = offered.iter().find(|offered| offered.name == tool.name);
                found
                    .ok_or_else(|| invalid("name", "is not a tool that the server offers: use DiscoverMcpTools"))?
                    .text
                    .clone()
            }
        };
        if text.digest() != tool.digest {
            return Err(invalid("digest", "is not that of the current text; call DiscoverMcpTools and read the text"));
        }
        if allowed.insert(tool.name.clone(), AllowedMcpTool::new(tool.is_write, text)).is_some() {
            return Err(invalid("name", "is repeated"));
        }
    }
    check_allowed_tools(ALLOWED_TOOLS, &allowed)?;
    Ok(allowed)
}

#[derive(Debug, Clone, Serialize)]
pub struct DeleteMcpServer {
    pub mcp_server_id: McpServerId,
    /// The version to delete. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for DeleteMcpServer {
    const DECLARATION: Declaration = SERVICE.administer("DeleteMcpServer");
    type Output = ();

    outcome_as_json!();

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<()>> {
        Ok(AuditRecord::new(json!({})).target(McpServer::KIND, &self.mcp_server_id))
    }

    async fn run(self, context: &Context) -> Result<()> {
        context.request.delete::<McpServer>(context.stores(), &self.mcp_server_id, self.etag).await
    }
}

/// Returns the tools that a server offers now. Errors: `MCP_SERVER_FAILED`.
#[derive(Debug, Clone, Serialize)]
pub struct DiscoverMcpTools {
    pub mcp_server_id: McpServerId,
}

/// A tool that a server offers.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscoveredTool {
    pub tool: OfferedTool,
    pub digest: Digest,
    pub state: ToolState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolState {
    NotAllowed,
    /// Allowed with the current text.
    Allowed,
    /// Allowed with another text.
    Changed,
}

impl Operation for DiscoverMcpTools {
    const DECLARATION: Declaration = SERVICE.read("DiscoverMcpTools").role(Role::Admin).long();
    type Output = Vec<DiscoveredTool>;

    async fn run(self, context: &Context) -> Result<Vec<DiscoveredTool>> {
        let server: McpServer = context.find(&self.mcp_server_id).await?;
        let offered = offered(context, &server).await?;
        Ok(offered.into_iter().map(|tool| discovered(&server, tool)).collect())
    }
}

fn discovered(server: &McpServer, tool: OfferedTool) -> DiscoveredTool {
    let digest = tool.text.digest();
    let state = match server.tools.get(&tool.name) {
        None => ToolState::NotAllowed,
        Some(stored) if stored.disabled_at.is_none() && stored.digest == digest => ToolState::Allowed,
        Some(_) => ToolState::Changed,
    };
    DiscoveredTool { tool, digest, state }
}

async fn offered(context: &Context, server: &McpServer) -> Result<Vec<OfferedTool>> {
    let _permit = context.model_endpoint_permit()?;
    context.mcp().tools(server).await.map_err(|failure| {
        let message = format!("cannot list the tools of MCP server {}: {}", server.name, failure.problem());
        Error::precondition(Reason::McpServerFailed, message)
    })
}

/// Checks the URL of a server. The addresses of a host name are checked at each connection.
fn url(policy: &AddressPolicy, text: String) -> Result<String> {
    check_server_url(URL, &text)?;
    permitted(policy, URL, &text)?;
    Ok(text)
}

/// Checks the syntax and the address of the URL in a field.
fn permitted(policy: &AddressPolicy, field: &str, text: &str) -> Result<()> {
    let url = check_http_url(text).map_err(|problem| Error::invalid_field(field, problem))?;
    if !policy.allows_url(&url) {
        return Err(Error::invalid_field(field, AddressPolicy::REQUIREMENT));
    }
    Ok(())
}

/// Encrypts the token of a server. None: the token is empty.
fn seal(context: &Context, id: &McpServerId, token: &Secret) -> Result<Option<SealedKey>> {
    if token.is_empty() {
        return Ok(None);
    }
    check_server_token(TOKEN, token)?;
    context.providers().vault().seal(&context.principal().org, id.as_str(), token).map(Some)
}

#[cfg(test)]
mod tests {
    use folio_resources::McpToolText;
    use folio_types::{OrgId, Timestamp, UserId};

    use super::*;

    fn text(description: &str) -> McpToolText {
        McpToolText { description: description.to_owned(), input_schema: json!({ "type": "object" }) }
    }

    fn server() -> McpServer {
        let at = Timestamp::UNIX_EPOCH;
        let disabled = AllowedMcpTool { disabled_at: Some(at), ..AllowedMcpTool::new(true, text("Closes.")) };
        let stored = AllowedMcpTool::new(true, text("Creates."));
        McpServer {
            id: McpServerId::derive(&["a"]),
            org: OrgId::derive(&["a"]),
            name: "tickets".to_owned(),
            url: "https://example.com/mcp".to_owned(),
            token: None,
            oauth: None,
            enabled: true,
            tools: BTreeMap::from([("close".to_owned(), disabled), ("create".to_owned(), stored)]),
            created_by: UserId::derive(&["a"]),
            created_at: at,
            updated_at: at,
            version: 1,
        }
    }

    fn offer(name: &str, description: &str) -> OfferedTool {
        OfferedTool { name: name.to_owned(), text: text(description), is_read_only_hint: false }
    }

    fn tool(name: &str, is_write: bool, description: &str) -> ToolToAllow {
        ToolToAllow { name: name.to_owned(), is_write, digest: text(description).digest() }
    }

    #[test]
    fn a_tool_is_allowed_with_the_text_of_its_digest_only() {
        let offered = [offer("close", "Closes two."), offer("find", "Finds.")];
        let allow = |tools: &[ToolToAllow]| allowed(&server(), &offered, tools);
        let stored = allow(&[tool("create", false, "Creates."), tool("find", false, "Finds.")]).unwrap();
        assert_eq!((stored["create"].text.clone(), stored["create"].is_write), (text("Creates."), false));
        assert_eq!(stored["find"].text, text("Finds."));
        let again = allow(&[tool("close", true, "Closes two.")]).unwrap();
        assert_eq!(again["close"].disabled_at, None);
        for (tools, field) in [
            (vec![tool("close", true, "Closes.")], "mcp_server.allowed_tools[0].digest"),
            (vec![tool("find", true, "Finds."), tool("other", true, "a")], "mcp_server.allowed_tools[1].name"),
            (vec![tool("find", true, "Finds."), tool("find", false, "Finds.")], "mcp_server.allowed_tools[1].name"),
            (vec![tool("create", true, "Creates two.")], "mcp_server.allowed_tools[0].name"),
        ] {
            assert_eq!(allow(&tools).unwrap_err().violations[0].field, field, "{tools:?}");
        }
    }

    #[test]
    fn a_discovered_tool_states_whether_its_text_is_the_allowed_one() {
        let state = |name: &str, description: &str| discovered(&server(), offer(name, description)).state;
        assert_eq!(state("find", "Finds."), ToolState::NotAllowed);
        assert_eq!(state("create", "Creates."), ToolState::Allowed);
        assert_eq!(state("create", "Creates two."), ToolState::Changed);
        assert_eq!(state("close", "Closes."), ToolState::Changed, "it was disabled");
    }

    #[test]
    fn a_request_sets_one_credential_and_the_log_contains_no_secret() {
        let token = |text: &str| Secret::new(text);
        assert!(check_one_credential(Some(&token("secret")), false).is_ok());
        assert!(check_one_credential(Some(&token("")), true).is_ok() && check_one_credential(None, true).is_ok());
        let refused = check_one_credential(Some(&token("secret")), true).unwrap_err();
        assert_eq!(refused.violations[0].field, OAUTH);
        let client = OAuthClient {
            token_url: "https://login.example/token".to_owned(),
            client_id: "folio".to_owned(),
            client_secret: Some(token("very-secret")),
            scopes: Vec::new(),
        };
        let audited = client.audited();
        assert_eq!(audited["has_secret"], true);
        assert!(!audited.to_string().contains("very-secret"), "{audited}");
    }

    #[test]
    fn a_url_is_absolute_and_has_no_password_and_no_private_address() {
        let url = |text: &str| url(&AddressPolicy::default(), text.to_owned());
        assert_eq!(url("https://example.com/mcp").unwrap(), "https://example.com/mcp");
        for bad in ["", "mcp", "ftp://example.com", "https://u:p@example.com", "http://127.0.0.1/mcp"] {
            let error = url(bad).unwrap_err();
            assert!(!error.message.contains("u:p"), "{bad}: {error}");
        }
    }
}
