//! Serves `McpServerService`.

use folio_operations::mcp_servers::{
    CreateMcpServer, DeleteMcpServer, DiscoverMcpTools, DiscoveredTool, GetMcpServer, ListMcpServers, OAuthClient,
    ToolState, ToolToAllow, UpdateMcpServer,
};
use folio_proto::{fields, time, v1};
use folio_resources::{AllowedMcpTool, McpOAuth, McpServer};
use folio_types::{Error, Etag, Result, Secret};
use v1::mcp_server_service_server::McpServerService;

use super::Api;
use super::handler::{change, delete, get, list, read};

#[tonic::async_trait]
impl McpServerService for Api {
    change!(create_mcp_server, CreateMcpServerRequest, CreateMcpServerResponse { mcp_server: to_proto }, |request| {
        let server = fields::required("mcp_server", request.mcp_server)?;
        CreateMcpServer {
            name: server.name,
            url: server.url,
            token: Some(Secret::new(&server.token)),
            oauth: server.oauth.map(oauth_client),
            enabled: server.enabled,
        }
    });

    get!(
        get_mcp_server,
        GetMcpServerRequest,
        GetMcpServer { mcp_server_id },
        GetMcpServerResponse { mcp_server: to_proto }
    );

    list!(list_mcp_servers, ListMcpServersRequest, ListMcpServers {}, ListMcpServersResponse { mcp_servers: to_proto });

    change!(update_mcp_server, UpdateMcpServerRequest, UpdateMcpServerResponse { mcp_server: to_proto }, |request| {
        let server = fields::required("mcp_server", request.mcp_server)?;
        let set = [
            ("name", !server.name.is_empty()),
            ("url", !server.url.is_empty()),
            ("token", !server.token.is_empty()),
            ("oauth", server.oauth.is_some()),
            ("enabled", server.enabled),
            ("allowed_tools", !server.allowed_tools.is_empty()),
        ];
        let mask = fields::mask(request.update_mask.as_ref(), &set)?;
        UpdateMcpServer {
            mcp_server_id: fields::id("mcp_server.mcp_server_id", &server.mcp_server_id)?,
            etag: fields::etag("mcp_server.etag", &server.etag)?,
            name: mask.take("name", server.name),
            url: mask.take("url", server.url),
            token: mask.take("token", server.token.as_str()).map(Secret::new),
            oauth: mask.take("oauth", server.oauth).map(|client| client.map(oauth_client)),
            enabled: mask.take("enabled", server.enabled),
            allowed_tools: mask.take("allowed_tools", server.allowed_tools).map(tools_to_allow).transpose()?,
        }
    });

    delete!(delete_mcp_server, DeleteMcpServerRequest, DeleteMcpServer { mcp_server_id }, DeleteMcpServerResponse);

    read!(
        discover_mcp_tools,
        DiscoverMcpToolsRequest,
        DiscoverMcpToolsResponse,
        |request| DiscoverMcpTools { mcp_server_id: fields::id("mcp_server_id", &request.mcp_server_id)? },
        |tools: Vec<DiscoveredTool>| v1::DiscoverMcpToolsResponse {
            mcp_tools: tools.into_iter().map(discovered_to_proto).collect()
        }
    );
}

fn tools_to_allow(tools: Vec<v1::AllowedMcpTool>) -> Result<Vec<ToolToAllow>> {
    let tool = |(at, tool): (usize, v1::AllowedMcpTool)| {
        let field = format!("mcp_server.allowed_tools[{at}].digest");
        let digest = tool.digest.parse().map_err(|_| Error::invalid_field(field, "must be 64 hexadecimal digits"))?;
        Ok(ToolToAllow { name: tool.name, is_write: tool.is_write, digest })
    };
    tools.into_iter().enumerate().map(tool).collect()
}

fn oauth_client(client: v1::McpOAuth) -> OAuthClient {
    let v1::McpOAuth { token_url, client_id, client_secret, scopes } = client;
    OAuthClient { token_url, client_id, client_secret: Some(Secret::new(&client_secret)), scopes }
}

/// Converts an OAuth client, without its secret.
fn oauth_to_proto(client: &McpOAuth) -> v1::McpOAuth {
    v1::McpOAuth {
        token_url: client.token_url.clone(),
        client_id: client.client_id.clone(),
        client_secret: String::new(),
        scopes: client.scopes.clone(),
    }
}

/// Converts a server, without its secrets.
fn to_proto(server: &McpServer) -> v1::McpServer {
    v1::McpServer {
        mcp_server_id: server.id.to_string(),
        name: server.name.clone(),
        url: server.url.clone(),
        token: String::new(),
        has_token: server.token.is_some(),
        enabled: server.enabled,
        allowed_tools: server.tools.iter().map(allowed_to_proto).collect(),
        created_by: server.created_by.to_string(),
        create_time: Some(time::to_proto(server.created_at)),
        update_time: Some(time::to_proto(server.updated_at)),
        etag: Etag::new(server.version).to_string(),
        oauth: server.oauth.as_ref().map(oauth_to_proto),
    }
}

fn allowed_to_proto((name, tool): (&String, &AllowedMcpTool)) -> v1::AllowedMcpTool {
    v1::AllowedMcpTool {
        name: name.clone(),
        is_write: tool.is_write,
        digest: tool.digest.to_string(),
        description: tool.text.description.clone(),
        input_schema_json: tool.text.input_schema.to_string(),
        disabled_time: tool.disabled_at.map(time::to_proto),
    }
}

fn discovered_to_proto(found: DiscoveredTool) -> v1::McpTool {
    let state = match found.state {
        ToolState::NotAllowed => v1::McpToolState::NotAllowed,
        ToolState::Allowed => v1::McpToolState::Allowed,
        ToolState::Changed => v1::McpToolState::Changed,
    };
    v1::McpTool {
        name: found.tool.name,
        description: found.tool.text.description,
        input_schema_json: found.tool.text.input_schema.to_string(),
        digest: found.digest.to_string(),
        read_only_hint: found.tool.is_read_only_hint,
        state: state.into(),
    }
}
