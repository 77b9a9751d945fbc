//! `folio mcp-server`.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use folio_proto::v1;
use serde_json::{Value, json};

use super::job::word;
use super::output::View;
use super::{DataArguments, deleted, list_items, parsed, present, set_fields, time, update_mask};
use crate::client::{Client, answer};
use crate::secret_input;

/// Maximum number of servers that a command reads: an organization has fewer.
const SERVERS_READ: usize = 100;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List MCP servers, newest first.
    List(List),
    /// Print an MCP server with its allowed tools, without its secrets.
    Show(Item),
    /// Create an MCP server without allowed tools.
    #[command(visible_alias = "add")]
    Create(Create),
    /// Change the name, the URL or the credential of an MCP server.
    Update(Update),
    /// List the tools that a server offers now.
    Tools(Item),
    /// Let agents call tools with the texts that the server states now. Read the texts first: `folio mcp-server tools`.
    Allow(Allow),
    /// Let agents call tools no longer.
    Forbid(Forbid),
    /// Let agents call the allowed tools of a server.
    Enable(Item),
    /// Let agents call no tool of a server until it is enabled.
    Disable(Item),
    /// Delete an MCP server.
    #[command(visible_alias = "delete")]
    Rm(Item),
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The name: letters, digits, - and _.
    name: String,
    /// The URL of the streamable HTTP transport.
    url: String,
    /// Read a bearer token from the terminal or standard input.
    #[arg(long)]
    bearer: bool,
    #[command(flatten)]
    oauth: OAuth,
    #[command(flatten)]
    data: DataArguments,
}

/// The OAuth client of a server.
#[derive(Debug, clap::Args)]
pub(crate) struct OAuth {
    /// Request access tokens at this URL with an OAuth client, whose secret is read from the terminal or standard input.
    #[arg(long = "oauth", value_name = "TOKEN_URL", requires = "client_id", conflicts_with = "bearer")]
    token_url: Option<String>,
    /// The id of the OAuth client.
    #[arg(long, value_name = "ID", requires = "token_url")]
    client_id: Option<String>,
    /// A scope of the access tokens. Repeat the option for several scopes.
    #[arg(long = "scope", value_name = "SCOPE", requires = "token_url")]
    scopes: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Update {
    /// The id or the name.
    #[arg(value_name = "ID or NAME")]
    mcp_server: String,
    /// The new name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The new URL. It removes the credential, unless --bearer or --oauth is passed.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Read the new bearer token from the terminal or standard input.
    #[arg(long)]
    bearer: bool,
    /// Remove the token.
    #[arg(long, conflicts_with = "bearer")]
    no_bearer: bool,
    #[command(flatten)]
    oauth: OAuth,
    /// Remove the OAuth client.
    #[arg(long, conflicts_with = "token_url")]
    no_oauth: bool,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Allow {
    /// The id or the name.
    #[arg(value_name = "ID or NAME")]
    mcp_server: String,
    /// A tool that only reads. Repeat the option for several tools.
    #[arg(long = "read", value_name = "TOOL")]
    reads: Vec<String>,
    /// A tool that changes something: its calls wait for approval. Repeat the option for several tools.
    #[arg(long = "write", value_name = "TOOL")]
    writes: Vec<String>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Forbid {
    /// The id or the name.
    #[arg(value_name = "ID or NAME")]
    mcp_server: String,
    /// The tools.
    #[arg(value_name = "TOOL", required = true)]
    tools: Vec<String>,
    #[command(flatten)]
    data: DataArguments,
}

/// A server of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct Item {
    /// The id or the name.
    #[arg(value_name = "ID or NAME")]
    mcp_server: String,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| all(&client).await).await,
        Command::Show(item) => item.data.run(async |client| show(&client, &item.mcp_server).await).await,
        Command::Create(create) => create.data.run(async |client| make(&client, &create).await).await,
        Command::Update(update) => update.data.run(async |client| change(&client, &update).await).await,
        Command::Tools(item) => item.data.run(async |client| tools(&client, &item.mcp_server).await).await,
        Command::Allow(allow) => allow.data.run(async |client| allow_tools(&client, &allow).await).await,
        Command::Forbid(forbid) => forbid.data.run(async |client| forbid_tools(&client, &forbid).await).await,
        Command::Enable(item) => item.data.run(async |client| set_enabled(&client, &item.mcp_server, true).await).await,
        Command::Disable(item) => {
            item.data.run(async |client| set_enabled(&client, &item.mcp_server, false).await).await
        }
        Command::Rm(item) => item.data.run(async |client| remove(&client, &item.mcp_server).await).await,
    }
}

async fn servers(client: &Client) -> Result<Vec<v1::McpServer>> {
    list_items!(SERVERS_READ, client.mcp_servers().list_mcp_servers(ListMcpServersRequest {}) => mcp_servers).await
}

async fn all(client: &Client) -> Result<View> {
    let columns = ["mcp_server_id", "name", "url", "enabled"];
    Ok(View::list(columns, servers(client).await?.iter().map(row).collect()))
}

async fn show(client: &Client, what: &str) -> Result<View> {
    Ok(View::one(row(&find(client, what).await?)))
}

/// Returns the server that is named by id or name.
async fn find(client: &Client, what: &str) -> Result<v1::McpServer> {
    let is_named = |found: &v1::McpServer| found.mcp_server_id == what || found.name.eq_ignore_ascii_case(what);
    match servers(client).await?.into_iter().find(is_named) {
        Some(found) => Ok(found),
        None => bail!("no MCP server has the id or the name {what:?}"),
    }
}

async fn make(client: &Client, create: &Create) -> Result<View> {
    let server = v1::McpServer {
        name: create.name.clone(),
        url: create.url.clone(),
        token: read_token(create.bearer).await?,
        oauth: read_oauth(&create.oauth).await?,
        enabled: true,
        ..v1::McpServer::default()
    };
    let request = v1::CreateMcpServerRequest { mcp_server: Some(server), ..Default::default() };
    let made = answer(client.mcp_servers().create_mcp_server(request)).await?.mcp_server;
    Ok(View::one(row(&present(made)?)))
}

/// Returns the token that the user types. Empty: `is_read` is false.
async fn read_token(is_read: bool) -> Result<String> {
    if !is_read {
        return Ok(String::new());
    }
    let token = secret_input::read("Token of the server: ").await?;
    ensure!(!token.is_empty(), "the token is empty: omit --bearer for a server that requires none");
    Ok(token)
}

/// Returns the OAuth client with the secret that the user types. None: no client is passed.
async fn read_oauth(oauth: &OAuth) -> Result<Option<v1::McpOAuth>> {
    let (Some(token_url), Some(client_id)) = (&oauth.token_url, &oauth.client_id) else { return Ok(None) };
    let client_secret = secret_input::read("Secret of the OAuth client: ").await?;
    ensure!(!client_secret.is_empty(), "the secret of the OAuth client is empty");
    let (token_url, client_id, scopes) = (token_url.clone(), client_id.clone(), oauth.scopes.clone());
    Ok(Some(v1::McpOAuth { token_url, client_id, client_secret, scopes }))
}

async fn change(client: &Client, update: &Update) -> Result<View> {
    let mcp_server_id = find(client, &update.mcp_server).await?.mcp_server_id;
    let server = v1::McpServer {
        mcp_server_id,
        name: update.name.clone().unwrap_or_default(),
        url: update.url.clone().unwrap_or_default(),
        token: read_token(update.bearer).await?,
        oauth: read_oauth(&update.oauth).await?,
        ..v1::McpServer::default()
    };
    let fields = set_fields(&[
        ("name", update.name.is_some()),
        ("url", update.url.is_some()),
        ("token", update.bearer || update.no_bearer),
        ("oauth", server.oauth.is_some() || update.no_oauth),
    ]);
    ensure!(!fields.is_empty(), "nothing to change: pass --name, --url, --bearer, --no-bearer, --oauth or --no-oauth");
    write(client, server, &fields).await
}

async fn set_enabled(client: &Client, what: &str, enabled: bool) -> Result<View> {
    let mcp_server_id = find(client, what).await?.mcp_server_id;
    write(client, v1::McpServer { mcp_server_id, enabled, ..v1::McpServer::default() }, &["enabled"]).await
}

/// Changes the named fields of a server, and returns the changed server.
async fn write(client: &Client, server: v1::McpServer, fields: &[&str]) -> Result<View> {
    let request =
        v1::UpdateMcpServerRequest { mcp_server: Some(server), update_mask: update_mask(fields), ..Default::default() };
    let changed = answer(client.mcp_servers().update_mcp_server(request)).await?.mcp_server;
    Ok(View::one(row(&present(changed)?)))
}

async fn offered(client: &Client, mcp_server_id: &str) -> Result<Vec<v1::McpTool>> {
    let request = v1::DiscoverMcpToolsRequest { mcp_server_id: mcp_server_id.to_owned() };
    Ok(answer(client.mcp_servers().discover_mcp_tools(request)).await?.mcp_tools)
}

async fn tools(client: &Client, what: &str) -> Result<View> {
    let found = offered(client, &find(client, what).await?.mcp_server_id).await?;
    Ok(View::list(["name", "state", "read_only_hint", "description"], found.iter().map(tool_row).collect()))
}

async fn allow_tools(client: &Client, allow: &Allow) -> Result<View> {
    if allow.reads.is_empty() && allow.writes.is_empty() {
        bail!("no tool to allow: pass --read TOOL or --write TOOL");
    }
    let server = find(client, &allow.mcp_server).await?;
    let offered = offered(client, &server.mcp_server_id).await?;
    let allowed_tools = with_tools(&server.allowed_tools, &offered, &allow.reads, &allow.writes)?;
    replace_tools(client, server, allowed_tools).await
}

/// Returns the allowed tools with further ones. An allowed tool is replaced.
fn with_tools(
    allowed: &[v1::AllowedMcpTool],
    offered: &[v1::McpTool],
    reads: &[String],
    writes: &[String],
) -> Result<Vec<v1::AllowedMcpTool>> {
    let mut tools: BTreeMap<String, v1::AllowedMcpTool> = enabled(allowed);
    let further = reads.iter().map(|name| (name, false)).chain(writes.iter().map(|name| (name, true)));
    for (name, is_write) in further {
        let Some(tool) = offered.iter().find(|tool| tool.name == *name) else {
            bail!("the server offers no tool {name:?}: run `folio mcp-server tools`");
        };
        let (name, digest) = (name.clone(), tool.digest.clone());
        tools.insert(name.clone(), v1::AllowedMcpTool { name, is_write, digest, ..v1::AllowedMcpTool::default() });
    }
    Ok(tools.into_values().collect())
}

/// Returns the allowed tools that are not disabled. A disabled tool is kept only if it is allowed again.
fn enabled(allowed: &[v1::AllowedMcpTool]) -> BTreeMap<String, v1::AllowedMcpTool> {
    let enabled = allowed.iter().filter(|tool| tool.disabled_time.is_none());
    enabled.map(|tool| (tool.name.clone(), tool.clone())).collect()
}

async fn forbid_tools(client: &Client, forbid: &Forbid) -> Result<View> {
    let server = find(client, &forbid.mcp_server).await?;
    let allowed_tools = without_tools(&server.allowed_tools, &forbid.tools)?;
    replace_tools(client, server, allowed_tools).await
}

fn without_tools(allowed: &[v1::AllowedMcpTool], names: &[String]) -> Result<Vec<v1::AllowedMcpTool>> {
    if let Some(unknown) = names.iter().find(|name| !allowed.iter().any(|tool| tool.name == **name)) {
        bail!("the tool {unknown:?} is not allowed");
    }
    Ok(enabled(allowed).into_values().filter(|tool| !names.contains(&tool.name)).collect())
}

/// Replaces the allowed tools, unless the server changed since it was read.
async fn replace_tools(client: &Client, server: v1::McpServer, allowed_tools: Vec<v1::AllowedMcpTool>) -> Result<View> {
    let v1::McpServer { mcp_server_id, etag, .. } = server;
    let server = v1::McpServer { mcp_server_id, etag, allowed_tools, ..v1::McpServer::default() };
    write(client, server, &["allowed_tools"]).await
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let mcp_server_id = find(client, what).await?.mcp_server_id;
    let request = v1::DeleteMcpServerRequest { mcp_server_id: mcp_server_id.clone(), ..Default::default() };
    answer(client.mcp_servers().delete_mcp_server(request)).await?;
    Ok(deleted(&mcp_server_id))
}

fn row(server: &v1::McpServer) -> Value {
    json!({
        "mcp_server_id": server.mcp_server_id, "name": server.name, "url": server.url, "has_token": server.has_token,
        "oauth": server.oauth.as_ref().map(oauth_row), "enabled": server.enabled,
        "allowed_tools": server.allowed_tools.iter().map(allowed_row).collect::<Vec<_>>(),
        "created_by": server.created_by, "create_time": time(server.create_time.as_ref()),
        "update_time": time(server.update_time.as_ref()), "etag": server.etag,
    })
}

fn oauth_row(client: &v1::McpOAuth) -> Value {
    json!({ "token_url": client.token_url, "client_id": client.client_id, "scopes": client.scopes })
}

fn allowed_row(tool: &v1::AllowedMcpTool) -> Value {
    json!({
        "name": tool.name, "is_write": tool.is_write, "digest": tool.digest, "description": tool.description,
        "input_schema": parsed(&tool.input_schema_json), "disabled_time": time(tool.disabled_time.as_ref()),
    })
}

fn tool_row(tool: &v1::McpTool) -> Value {
    json!({
        "name": tool.name, "state": word(tool.state().as_str_name(), "MCP_TOOL_STATE_"),
        "read_only_hint": tool.read_only_hint, "description": tool.description,
        "input_schema": parsed(&tool.input_schema_json), "digest": tool.digest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(name: &str, is_disabled: bool) -> v1::AllowedMcpTool {
        let disabled_time = is_disabled.then_some(prost_types::Timestamp { seconds: 1, nanos: 0 });
        v1::AllowedMcpTool { name: name.to_owned(), digest: "old".to_owned(), disabled_time, ..Default::default() }
    }

    fn names(tools: &[v1::AllowedMcpTool]) -> Vec<(&str, bool, &str)> {
        tools.iter().map(|tool| (tool.name.as_str(), tool.is_write, tool.digest.as_str())).collect()
    }

    #[test]
    fn tools_are_allowed_with_their_current_digests_and_disabled_ones_are_removed() {
        let stored = [allowed("close", true), allowed("create", false), allowed("find", false)];
        let offer = |name: &str| v1::McpTool { name: name.to_owned(), digest: "new".to_owned(), ..Default::default() };
        let offered = [offer("create"), offer("close")];
        let with = |reads: &[&str], writes: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            with_tools(&stored, &offered, &names(reads), &names(writes))
        };
        let changed = with(&[], &["create"]).unwrap();
        assert_eq!(names(&changed), [("create", true, "new"), ("find", false, "old")]);
        let again = with(&["close"], &[]).unwrap();
        assert_eq!(names(&again)[0], ("close", false, "new"));
        assert!(with(&["other"], &[]).is_err());
    }

    #[test]
    fn only_an_allowed_tool_can_be_forbidden() {
        let stored = [allowed("create", false), allowed("find", false)];
        let left = without_tools(&stored, &["create".to_owned()]).unwrap();
        assert_eq!(names(&left), [("find", false, "old")]);
        assert!(without_tools(&stored, &["other".to_owned()]).is_err());
    }
}
