//! The tool `list_server_tools`.

use async_trait::async_trait;
use folio_resources::{AllowedMcpTool, McpServer};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{LIST_TOOL, READ_TOOL, UNTRUSTED, WRITE_TOOL, servers};
use crate::arguments::{optional, text};
use crate::call::{ReadCall, read_tool};
use crate::tool::{CallContext, Tool, ToolError};

/// Maximum size of a result with the parameters of the tools, in bytes. A longer one contains the start of the descriptions only.
const DETAILED_BYTES: usize = 32 * 1024;
/// Length of the start of a description, in characters.
const SUMMARY_CHARS: usize = 100;

pub(super) fn tool() -> Tool {
    read_tool::<ListServerTools>(
        LIST_TOOL,
        "Returns the tools of external servers (MCP) that this organization allows, for tasks outside of Folio. Call it \
         before read_from_server and write_to_server. Result: tools (server, tool, call_with, description, parameters); \
         without parameters if there are many: then pass tool.",
        vec![
            optional("server", text("Only tools of the server with this name. Default: every server.")).or_blank(),
            optional("tool", text("Only tools whose name contains this text. Default: all.")).or_blank(),
        ],
    )
}

#[derive(Debug, Default, Deserialize)]
struct ListServerTools {
    server: Option<String>,
    tool: Option<String>,
}

#[async_trait]
impl ReadCall for ListServerTools {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        Ok(self.list(&servers(context).await?))
    }
}

impl ListServerTools {
    fn list(&self, servers: &[McpServer]) -> Value {
        let found: Vec<(&McpServer, &str, &AllowedMcpTool)> = servers
            .iter()
            .filter(|server| self.server.as_ref().is_none_or(|name| server.name.eq_ignore_ascii_case(name)))
            .flat_map(|server| {
                server.tools.keys().filter_map(move |name| Some((server, name.as_str(), server.callable(name)?)))
            })
            .filter(|(_, name, _)| {
                self.tool.as_ref().is_none_or(|part| name.to_lowercase().contains(&part.to_lowercase()))
            })
            .collect();
        let detailed: Vec<Value> = found.iter().map(|found| detailed(*found)).collect();
        let all = json!({ "note": UNTRUSTED, "tools": detailed });
        match all.to_string().len() > DETAILED_BYTES && found.len() > 1 {
            true => json!({ "note": UNTRUSTED, "tools": found.into_iter().map(summary).collect::<Vec<_>>() }),
            false => all,
        }
    }
}

fn call_with(tool: &AllowedMcpTool) -> &'static str {
    if tool.is_write { WRITE_TOOL } else { READ_TOOL }
}

fn detailed((server, name, tool): (&McpServer, &str, &AllowedMcpTool)) -> Value {
    json!({
        "server": server.name, "tool": name, "call_with": call_with(tool), "description": tool.text.description,
        "parameters": tool.text.input_schema,
    })
}

fn summary((server, name, tool): (&McpServer, &str, &AllowedMcpTool)) -> Value {
    let description: String = tool.text.description.chars().take(SUMMARY_CHARS).collect();
    json!({ "server": server.name, "tool": name, "call_with": call_with(tool), "description": description })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{server, text};
    use super::*;

    fn names(list: &ListServerTools, servers: &[McpServer]) -> Vec<String> {
        let listed = list.list(servers);
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["tool"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn callable_tools_are_listed_by_server_and_part_of_the_name() {
        let servers = [server()];
        assert_eq!(names(&ListServerTools::default(), &servers), ["create", "find"], "the disabled tool is missing");
        let of = |server: Option<&str>, tool: Option<&str>| ListServerTools {
            server: server.map(str::to_owned),
            tool: tool.map(str::to_owned),
        };
        assert_eq!(names(&of(Some("TICKETS"), Some("FIN")), &servers), ["find"]);
        assert!(names(&of(Some("other"), None), &servers).is_empty());
        let disabled = McpServer { enabled: false, ..server() };
        assert!(names(&ListServerTools::default(), &[disabled]).is_empty());
        let listed = ListServerTools::default().list(&servers);
        assert_eq!(
            (&listed["tools"][0]["call_with"], &listed["tools"][1]["call_with"]),
            (&json!(WRITE_TOOL), &json!(READ_TOOL))
        );
        assert_eq!(listed["note"], UNTRUSTED);
    }

    #[test]
    fn a_long_list_has_no_parameters_and_names_every_tool() {
        let mut server = server();
        for number in 0..40 {
            let tool = AllowedMcpTool::new(false, text(&"long ".repeat(500)));
            server.tools.insert(format!("t{number}"), tool);
        }
        let listed = ListServerTools::default().list(std::slice::from_ref(&server));
        assert_eq!(listed["tools"].as_array().unwrap().len(), 42);
        assert!(listed["tools"][0].get("parameters").is_none() && listed.to_string().len() < DETAILED_BYTES);
        let one = ListServerTools { tool: Some("t39".to_owned()), ..ListServerTools::default() };
        assert!(one.list(&[server])["tools"][0].get("parameters").is_some());
    }
}
