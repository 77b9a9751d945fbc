//! `folio thread`.

use anyhow::Result;
use folio_operations::filter::quote;
use folio_proto::v1;
use folio_types::ThreadId;
use serde_json::{Value, json};

use super::job::word;
use super::output::View;
use super::{DataArguments, list_items, parsed, present, time};
use crate::client::{Client, answer};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List your conversations, newest first.
    List(List),
    /// Print a conversation with the memory of its agent.
    Show(Item),
    /// List the tool calls of a conversation, the oldest first, also those of removed messages.
    Tools(Tools),
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only conversations of this profile, such as assistant or document.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Maximum number of conversations.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Item {
    /// The id of the conversation.
    #[arg(value_name = "ID")]
    thread: ThreadId,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Tools {
    /// Only calls of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Maximum number of calls.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    item: Item,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| threads(&client, &list).await).await,
        Command::Show(item) => item.data.run(async |client| show(&client, item.thread.to_string()).await).await,
        Command::Tools(tools) => tools.item.data.run(async |client| tool_uses(&client, &tools).await).await,
    }
}

/// Returns the condition of a filter. None: an empty filter.
fn condition(field: &str, value: Option<&str>) -> String {
    value.map(|value| format!("{field}={}", quote(value))).unwrap_or_default()
}

async fn threads(client: &Client, list: &List) -> Result<View> {
    let filter = condition("profile", list.profile.as_deref());
    let found = list_items! {
        list.limit, client.threads().list_threads(ListThreadsRequest { filter: filter.clone() }) => threads
    };
    let columns = ["thread_id", "profile", "title", "turns", "create_time"];
    Ok(View::list(columns, found.await?.iter().map(row).collect()))
}

async fn show(client: &Client, thread_id: String) -> Result<View> {
    let request = v1::GetThreadRequest { thread_id, ..Default::default() };
    let thread = present(answer(client.threads().get_thread(request)).await?.thread)?;
    let state = thread.working_state.as_ref().map(|state| state.profile_state_json.as_str()).unwrap_or_default();
    let memory = if state.is_empty() { Value::Null } else { parsed(state) };
    let mut row = row(&thread);
    if let Some(members) = row.as_object_mut() {
        members.insert("memory".to_owned(), memory);
    }
    Ok(View::one(row))
}

fn row(thread: &v1::Thread) -> Value {
    json!({
        "thread_id": thread.thread_id, "profile": thread.profile, "title": thread.title, "document_ids": thread.document_ids,
        "model": thread.model, "turns": thread.turns, "create_time": time(thread.create_time.as_ref()),
        "update_time": time(thread.update_time.as_ref()),
    })
}

async fn tool_uses(client: &Client, tools: &Tools) -> Result<View> {
    let filter = condition("tool", tools.tool.as_deref());
    let thread_id = tools.item.thread.to_string();
    let found = list_items! {
        tools.limit, client.threads().list_tool_uses(ListToolUsesRequest {
            thread_id: thread_id.clone(), filter: filter.clone()
        }) => tool_uses
    };
    let columns = ["time", "tool", "status", "node", "input", "output"];
    Ok(View::list(columns, found.await?.iter().map(tool_use).collect()))
}

fn tool_use(found: &v1::ToolUse) -> Value {
    let status = match found.status() {
        v1::CallStatus::Unspecified => "open".to_owned(),
        status => word(status.as_str_name(), "CALL_STATUS_"),
    };
    json!({
        "time": time(found.time.as_ref()), "tool": found.tool, "status": status, "node": found.node,
        "input": parsed(&found.input_json), "output": found.output, "turn_id": found.turn_id, "call_id": found.call_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_filters_are_quoted() {
        assert_eq!(condition("tool", Some("a\" tool=b")), r#"tool="a\" tool=b""#);
        assert_eq!(condition("tool", None), "");
    }

    #[test]
    fn a_call_without_a_result_is_open() {
        let call = v1::ToolUse { tool: "calculator".to_owned(), input_json: "{}".to_owned(), ..Default::default() };
        let row = tool_use(&call);
        assert_eq!((&row["status"], &row["time"], &row["input"]), (&json!("open"), &Value::Null, &json!({})));
        let ended = v1::ToolUse { status: v1::CallStatus::NotRun.into(), ..call };
        assert_eq!(tool_use(&ended)["status"], "not_run");
    }
}
