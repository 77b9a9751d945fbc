//! The route of the tool log of a thread. No client of DocRouter calls it.

use folio_operations::ListRequest;
use folio_operations::threads::{ListToolUses, ToolUse};
use folio_types::{ThreadId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::endpoint::get;
use super::extract::{Client, Id, Json, Query};
use super::list::{Limit, Skip, conditions, page};
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};

pub(super) fn routes() -> Vec<Route> {
    vec![route::<ListToolUses>(Level::Own, get(org_path!("/threads/{thread_id}/tool_uses"), list))]
}

/// The query parameters of the log.
#[derive(Debug, Deserialize, ToSchema)]
struct ToolUseQuery {
    /// Number of calls before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of calls of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
    /// Only calls of this tool.
    tool: Option<String>,
    /// Only calls of this turn.
    turn_id: Option<String>,
}

/// The tool calls of a thread, the oldest first.
#[derive(Debug, Serialize, ToSchema)]
struct ToolUseList {
    /// The calls of the page.
    tool_uses: Vec<ToolUseBody>,
    /// Number of calls that match.
    total_count: u64,
    /// Number of calls before the page.
    skip: u32,
}

/// A tool call.
#[derive(Debug, Serialize, ToSchema)]
struct ToolUseBody {
    /// Identifies the call.
    call_id: String,
    /// The turn.
    turn_id: String,
    /// The name of the tool.
    tool: String,
    /// The arguments with which the call ran.
    #[schema(value_type = Object)]
    input: Value,
    /// The result, as the model received it. Null: the call has no result yet.
    output: Option<String>,
    /// `ok`, `failed`, `rejected`, `cancelled`, `expired`, `superseded`, `conflict`, `not_run` or `unknown`. Null: the call has no
    /// result yet.
    status: Option<&'static str>,
    /// The time of the result. Null: unknown, or the call has no result yet.
    #[schema(value_type = Option<String>, format = DateTime)]
    time: Option<Timestamp>,
    /// The node of the agent's graph that requested the call. Null: the agent has no graph.
    node: Option<String>,
}

impl From<ToolUse> for ToolUseBody {
    fn from(found: ToolUse) -> Self {
        Self {
            call_id: found.call.to_string(),
            turn_id: found.call.turn.to_string(),
            tool: found.tool,
            input: found.input,
            output: found.output,
            status: found.status.map(|status| status.as_str()),
            time: found.at,
            node: found.node,
        }
    }
}

async fn list(
    client: Client,
    Id(thread_id): Id<ThreadId>,
    Query(query): Query<ToolUseQuery>,
) -> Reply<Json<ToolUseList>> {
    let filter = conditions(&[("tool=", query.tool.as_deref()), ("turn=", query.turn_id.as_deref())]);
    let request = ListRequest { filter, ..ListRequest::default() };
    let read = |list| client.run(ListToolUses { thread_id: thread_id.clone(), list });
    let page = page(query.skip, query.limit, request, read).await?;
    let tool_uses = page.rows.into_iter().map(Into::into).collect();
    Ok(Json(ToolUseList { tool_uses, total_count: page.total_count, skip: page.skip }))
}
