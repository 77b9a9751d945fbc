//! MCP servers of organizations, whose tools agents may call. `folio-mcp` calls the servers.
//!
//! The texts of a tool come from its server and are untrusted. A tool is allowed together with the digest of its text. A
//! call compares the digest with that of the current text, and a difference disables the tool until it is allowed again.

use std::collections::{BTreeMap, BTreeSet};

use folio_types::op::{OpResult, Write};
use folio_types::{Digest, Error, OrgId, Reason, Result, Secret, Timestamp, UserId, plain_id};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::resource::{changed_function, common_functions};
use crate::{Condition, McpOAuth, NewMcpOAuth, Plan, Resource, SealedKey, fields};

// proto: McpServer.name "1 to {} letters"
const NAME_CHARS: usize = 64;
// proto: McpServer.url "at most {} characters"
const URL_CHARS: usize = 2_000;
// proto: McpServer.token "at most {} visible"
const TOKEN_CHARS: usize = 4_000;
/// Maximum number of MCP servers of an organization. Concurrent creations may exceed it slightly.
// proto: McpServerService.CreateMcpServer "at most {} servers"
pub const SERVERS_MAX: u64 = 20;
/// Maximum number of allowed tools of a server.
// proto: McpServer.allowed_tools "at most {} tools"
pub const ALLOWED_TOOLS_MAX: usize = 64;
/// Maximum length of the name of a tool, in characters.
// proto: McpTool.name "1 to {} visible"
const TOOL_NAME_CHARS: usize = 128;
/// Maximum size of the description of a tool, in bytes.
// proto: McpTool.description "at most {} KiB"
const DESCRIPTION_BYTES: usize = 8 * 1024;
/// Maximum size of the schema of a tool's arguments, in bytes.
// proto: McpTool.input_schema_json "at most {} KiB"
const INPUT_SCHEMA_BYTES: usize = 32 * 1024;
/// Maximum size of the texts of all allowed tools of a server, in bytes.
// proto: McpServer.allowed_tools "{} KiB together"
const TEXTS_BYTES: usize = 128 * 1024;

plain_id!(McpServerId, "mcs", "MCP server");

/// The description of a tool by its server. Untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpToolText {
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

impl McpToolText {
    /// Returns the digest of the text. It does not depend on the order of the members of the schema.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&json!({ "description": self.description, "input_schema": self.input_schema }))
    }

    /// Returns the problem for which a tool with this text cannot be allowed, as the end of a sentence. None: it can.
    pub fn problem(&self) -> Option<String> {
        let (description, schema) = (self.description.len(), self.input_schema.to_string().len());
        if description > DESCRIPTION_BYTES {
            return Some(format!("has a description of {description} bytes; the maximum is {DESCRIPTION_BYTES}"));
        }
        if schema > INPUT_SCHEMA_BYTES {
            return Some(format!("has a schema of {schema} bytes; the maximum is {INPUT_SCHEMA_BYTES}"));
        }
        (!self.input_schema.is_object()).then(|| "has a schema that is not a JSON object".to_owned())
    }

    fn bytes(&self) -> usize {
        self.description.len().saturating_add(self.input_schema.to_string().len())
    }
}

/// A tool that agents may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedMcpTool {
    /// True if its calls change something, so that they wait for approval and are sent at most once.
    pub is_write: bool,
    /// The text when the tool was allowed, which models receive.
    pub text: McpToolText,
    /// The digest of the text.
    pub digest: Digest,
    /// Time at which a call found another text, which disabled the tool. None: the tool is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<Timestamp>,
}

impl AllowedMcpTool {
    /// Allows a tool with the text that its server states now.
    pub fn new(is_write: bool, text: McpToolText) -> Self {
        Self { is_write, digest: text.digest(), text, disabled_at: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    /// Derived from the organization, the user and the request id.
    pub id: McpServerId,
    pub org: OrgId,
    /// Unique in the organization, case-insensitive. Models and policies name the server by it.
    pub name: String,
    /// Absolute HTTP or HTTPS URL of the streamable HTTP transport.
    pub url: String,
    /// Encrypted bearer token. None: the credential is that of `oauth`, or requests have none.
    pub token: Option<SealedKey>,
    /// The client that requests access tokens. None: no client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<McpOAuth>,
    /// True if agents may call the tools.
    pub enabled: bool,
    /// The tools that agents may call, by name.
    pub tools: BTreeMap<String, AllowedMcpTool>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// From 1. Incremented by every change. A call is no change.
    pub version: u64,
}

impl McpServer {
    changed_function!();

    /// Returns a tool that agents may call. None: it is unknown or disabled, or the server is disabled.
    pub fn callable(&self, tool: &str) -> Option<&AllowedMcpTool> {
        self.tools.get(tool).filter(|tool| self.enabled && tool.disabled_at.is_none())
    }

    /// Changes the URL and the credential like [`McpServerChange::Update`]. A new credential replaces one of the other kind.
    ///
    /// # Errors
    /// `INVALID_FIELD` if a new OAuth client has no secret.
    pub fn set_access(
        &mut self,
        url: Option<&str>,
        token: Option<Option<SealedKey>>,
        oauth: Option<Option<NewMcpOAuth>>,
    ) -> Result<()> {
        let before = self.oauth.clone();
        if let Some(url) = url.filter(|url| *url != self.url) {
            url.clone_into(&mut self.url);
            (self.token, self.oauth) = (None, None);
        }
        if let Some(token) = token {
            if token.is_some() {
                self.oauth = None;
            }
            self.token = token;
        }
        if let Some(oauth) = oauth {
            self.oauth = oauth.map(|new| new.with_secret(before.as_ref())).transpose()?;
            if self.oauth.is_some() {
                self.token = None;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpServerChange {
    Create {
        /// Unique among the live servers of the organization.
        name: String,
        url: String,
        /// Encrypted bearer token. None: requests have no credential.
        token: Option<SealedKey>,
        /// None: no client requests access tokens.
        oauth: Option<NewMcpOAuth>,
        enabled: bool,
    },
    /// None: unchanged.
    Update {
        name: Option<String>,
        /// Another URL removes the credential, unless the update sets one: a token must not reach another server.
        url: Option<String>,
        /// Inner None: removes the token.
        token: Option<Option<SealedKey>>,
        /// Inner None: removes the client.
        oauth: Option<Option<NewMcpOAuth>>,
        enabled: Option<bool>,
        /// Replaces all allowed tools.
        tools: Option<BTreeMap<String, AllowedMcpTool>>,
    },
    /// Disables tools whose servers state another text.
    Disable {
        tools: BTreeSet<String>,
    },
    /// Records that a call of a tool that writes is sent next. The record is the op row; the server does not change.
    Call {
        tool: String,
        /// Random text that identifies the attempt. The op row contains that of the attempt that may send the call.
        attempt: String,
    },
    Delete,
}

/// All conditions that are set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpServerFilter {
    /// Substring of the name, case-insensitive.
    pub name_search: Option<String>,
}

/// Validates the name of a server, by which models and rules of policies refer to it.
pub fn check_server_name(field: &str, name: &str) -> Result<()> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > NAME_CHARS || !name.bytes().all(is_word) {
        return Err(Error::invalid_field(field, format!("must have 1 to {NAME_CHARS} letters, digits, - or _")));
    }
    Ok(())
}

/// Validates the length of a URL. `folio-operations` validates its syntax.
pub fn check_server_url(field: &str, url: &str) -> Result<()> {
    fields::at_most(field, url, URL_CHARS)
}

/// Validates a bearer token, which becomes the value of a header.
pub fn check_server_token(field: &str, token: &Secret) -> Result<()> {
    let text = token.reveal();
    if text.len() > TOKEN_CHARS || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = format!("must have at most {TOKEN_CHARS} visible ASCII characters");
        return Err(Error::invalid_field(field, problem));
    }
    Ok(())
}

/// Returns true if a text is the name of a tool that can be allowed.
pub fn is_tool_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= TOOL_NAME_CHARS && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Validates the number, names and texts of the allowed tools of a server.
pub fn check_allowed_tools(field: &str, tools: &BTreeMap<String, AllowedMcpTool>) -> Result<()> {
    if tools.len() > ALLOWED_TOOLS_MAX {
        return Err(Error::invalid_field(field, format!("has more than {ALLOWED_TOOLS_MAX} tools")));
    }
    for (name, tool) in tools {
        if !is_tool_name(name) {
            let problem = format!("has a tool whose name is not 1 to {TOOL_NAME_CHARS} visible ASCII characters");
            return Err(Error::invalid_field(field, problem));
        }
        if let Some(problem) = tool.text.problem() {
            return Err(Error::invalid_field(field, format!("has the tool {name}, which {problem}")));
        }
    }
    let bytes = tools.values().fold(0, |sum: usize, tool| sum.saturating_add(tool.text.bytes()));
    if bytes > TEXTS_BYTES {
        let problem = format!("has texts of {bytes} bytes together; the maximum is {TEXTS_BYTES}");
        return Err(Error::invalid_field(field, problem).with_reason(Reason::TooLarge));
    }
    Ok(())
}

impl Resource for McpServer {
    type Change = McpServerChange;
    type Filter = McpServerFilter;
    const KIND: &'static str = "mcp_server";
    const DELETE: McpServerChange = McpServerChange::Delete;

    common_functions!(McpServerId);

    fn unique_name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn conditions(filter: &McpServerFilter) -> Vec<Condition> {
        Condition::name_search(filter.name_search.as_ref()).into_iter().collect()
    }

    fn apply(id: &McpServerId, write: &Write<McpServerChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |server: Self| Ok(Plan::stored(server));
        match (&write.change, before) {
            (McpServerChange::Create { name, url, token, oauth, enabled }, None) => done(Self {
                id: id.clone(),
                org: write.org.clone(),
                name: name.clone(),
                url: url.clone(),
                token: token.clone(),
                oauth: oauth.as_ref().map(|new| new.with_secret(None)).transpose()?,
                enabled: *enabled,
                tools: BTreeMap::new(),
                created_by: write.by.clone(),
                created_at: write.at,
                updated_at: write.at,
                version: 1,
            }),
            (McpServerChange::Update { name, url, token, oauth, enabled, tools }, Some(before)) => {
                let mut server = before.clone();
                server.name.clone_from(name.as_ref().unwrap_or(&before.name));
                server.set_access(url.as_deref(), token.clone(), oauth.clone())?;
                server.enabled = enabled.unwrap_or(before.enabled);
                server.tools.clone_from(tools.as_ref().unwrap_or(&before.tools));
                done(server.changed(&before, write.at))
            }
            (McpServerChange::Disable { tools }, Some(before)) => {
                let mut server = before.clone();
                for (_, tool) in server.tools.iter_mut().filter(|(name, _)| tools.contains(*name)) {
                    tool.disabled_at = tool.disabled_at.or(Some(write.at));
                }
                done(server.changed(&before, write.at))
            }
            (McpServerChange::Call { tool, attempt }, Some(before)) => {
                if !before.callable(tool).is_some_and(|tool| tool.is_write) {
                    let message = format!("the tool {tool:?} of {} is not allowed", before.name);
                    return Err(Error::precondition(Reason::UnknownTool, message));
                }
                let result = OpResult::Resource { id: before.id.to_string(), name: attempt.clone() };
                Ok(Plan { after: Some(before), result })
            }
            (McpServerChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests;
