//! The port to the MCP servers of organizations.

use async_trait::async_trait;
use folio_resources::{McpServer, McpToolText};
use serde_json::Value;

/// Maximum number of tools of a server that are read. Further ones are ignored.
// proto: McpServerService.DiscoverMcpTools "at most {} of them"
pub const LISTED_TOOLS_MAX: usize = 256;

/// A tool that a server offers now. Untrusted.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    pub name: String,
    pub text: McpToolText,
    /// True if the server states that the tool only reads.
    pub is_read_only_hint: bool,
}

/// The reply of a tool. Untrusted.
#[derive(Debug, Clone, PartialEq)]
pub struct McpReply {
    pub content: Value,
    /// True if the tool reports that it failed.
    pub is_error: bool,
}

/// The failure of a request, by its effect. The text describes the server: "it returned 404".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpFailure {
    /// Nothing was sent that has an effect.
    NotSent(String),
    /// The server refused the request.
    Refused(String),
    /// The request was sent. The server may have executed it.
    Unknown(String),
}

impl McpFailure {
    pub fn problem(&self) -> &str {
        match self {
            Self::NotSent(problem) | Self::Refused(problem) | Self::Unknown(problem) => problem,
        }
    }

    /// Returns the failure of a request before a call, such as that of a handshake: the call was not sent.
    #[must_use]
    pub fn before_the_call(self) -> Self {
        match self {
            Self::Unknown(problem) => Self::NotSent(problem),
            failure => failure,
        }
    }
}

/// Calls MCP servers. Each request is sent at most once, within a time limit.
#[async_trait]
pub trait McpServers: Send + Sync {
    /// Returns the tools that a server offers now, at most [`LISTED_TOOLS_MAX`].
    async fn tools(&self, server: &McpServer) -> Result<Vec<OfferedTool>, McpFailure>;

    /// Calls a tool once.
    async fn call(&self, server: &McpServer, tool: &str, arguments: &Value) -> Result<McpReply, McpFailure>;
}

/// No server is reachable.
#[derive(Debug)]
pub struct NoMcpServers;

#[async_trait]
impl McpServers for NoMcpServers {
    async fn tools(&self, _: &McpServer) -> Result<Vec<OfferedTool>, McpFailure> {
        Err(unreachable())
    }

    async fn call(&self, _: &McpServer, _: &str, _: &Value) -> Result<McpReply, McpFailure> {
        Err(unreachable())
    }
}

fn unreachable() -> McpFailure {
    McpFailure::NotSent("this process calls no MCP server".into())
}
