//! Serves `ThreadService`.

use folio_history::thread::ThreadView;
use folio_operations::threads::{GetThread, ListThreads, ListToolUses, ThreadMessage, ThreadPage, ToolUse};
use folio_operations::{Call, ListPage};
use folio_proto::{fields, json, thread, time, v1};
use tonic::Request;
use v1::thread_service_server::ThreadService;

use super::handler::read;
use super::{Api, RpcResult, list_request, total_size};

#[tonic::async_trait]
impl ThreadService for Api {
    async fn create_thread(&self, request: Request<v1::CreateThreadRequest>) -> RpcResult<v1::CreateThreadResponse> {
        let call = |request| Ok(Call::new(thread::create(&request)?));
        self.call(request, call, |created| v1::CreateThreadResponse { thread: Some((&created).into()) }).await
    }

    read!(
        list_threads,
        ListThreadsRequest,
        ListThreadsResponse,
        |request| ListThreads { list: list_request!(request) },
        |page: ListPage<ThreadView>| v1::ListThreadsResponse {
            threads: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
            total_size_estimated: page.is_total_estimate,
        }
    );

    read!(
        get_thread,
        GetThreadRequest,
        GetThreadResponse,
        |request| {
            let thread_id = fields::id("thread_id", &request.thread_id)?;
            GetThread { thread_id, messages: Some(list_request!(request)) }
        },
        |ThreadPage { thread, messages, open_turn }: ThreadPage| v1::GetThreadResponse {
            thread: Some((&thread).into()),
            messages: messages.items.iter().map(message).collect(),
            task_groups: messages.items.iter().flat_map(|message| &message.groups).map(Into::into).collect(),
            next_page_token: messages.next_page_token,
            total_size: total_size(messages.total_size),
            open_turn: open_turn.as_ref().map(Into::into),
        }
    );

    read!(
        list_tool_uses,
        ListToolUsesRequest,
        ListToolUsesResponse,
        |request| {
            let thread_id = fields::id("thread_id", &request.thread_id)?;
            ListToolUses { thread_id, list: list_request!(request) }
        },
        |page: ListPage<ToolUse>| v1::ListToolUsesResponse {
            tool_uses: page.items.iter().map(tool_use).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        }
    );

    async fn rename_thread(&self, request: Request<v1::RenameThreadRequest>) -> RpcResult<v1::RenameThreadResponse> {
        let call = |request| Ok(Call::new(thread::rename(&request)?));
        self.call(request, call, |renamed| v1::RenameThreadResponse { thread: Some((&renamed).into()) }).await
    }

    async fn delete_thread(&self, request: Request<v1::DeleteThreadRequest>) -> RpcResult<v1::DeleteThreadResponse> {
        let call = |request| Ok(Call::new(thread::delete(&request)?));
        self.call(request, call, |()| v1::DeleteThreadResponse {}).await
    }

    async fn fork_thread(&self, request: Request<v1::ForkThreadRequest>) -> RpcResult<v1::ForkThreadResponse> {
        let call = |request| Ok(Call::new(thread::fork(&request)?));
        self.call(request, call, |fork| v1::ForkThreadResponse { thread: Some((&fork).into()) }).await
    }
}

fn message(message: &ThreadMessage) -> v1::Message {
    let turn_id = message.turn.as_ref().map(ToString::to_string).unwrap_or_default();
    v1::Message { count: message.count, turn_id, ..(&message.message).into() }
}

fn tool_use(found: &ToolUse) -> v1::ToolUse {
    v1::ToolUse {
        call_id: found.call.to_string(),
        turn_id: found.call.turn.to_string(),
        tool: found.tool.clone(),
        input_json: json::text(&found.input),
        output: found.output.clone().unwrap_or_default(),
        status: found.status.map_or(v1::CallStatus::Unspecified, Into::into).into(),
        time: found.at.map(time::to_proto),
        node: found.node.clone().unwrap_or_default(),
    }
}
