//! The bare proxy, which only forwards a model's stream through tonic.

use std::pin::Pin;

use anyhow::Result;
use folio_proto::v1;
use folio_proto::v1::conversation_service_server::{ConversationService, ConversationServiceServer};
use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};
use tonic::{Request, Response, Status};

type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

struct Proxy {
    http: reqwest::Client,
    url: String,
}

/// Serves until the process is killed.
pub(crate) async fn serve(upstream: String) -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let proxy = Proxy { http: reqwest::Client::new(), url: format!("{upstream}/v1/chat/completions") };
    let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
    tonic::transport::Server::builder()
        .add_service(ConversationServiceServer::new(proxy))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

fn delta(line: &str) -> Option<v1::ChatResponse> {
    let chunk: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
    let text = chunk["choices"][0]["delta"]["content"].as_str()?.to_owned();
    let kind = Some(v1::event::Kind::TextDelta(v1::TextDelta { text }));
    Some(v1::ChatResponse { event: Some(v1::Event { kind, ..v1::Event::default() }) })
}

#[tonic::async_trait]
impl ConversationService for Proxy {
    type ChatStream = Events<v1::ChatResponse>;
    type ResumeTurnStream = Events<v1::ResumeTurnResponse>;
    type WatchTurnStream = Events<v1::WatchTurnResponse>;
    type WatchPendingApprovalsStream = Events<v1::WatchPendingApprovalsResponse>;

    async fn chat(&self, request: Request<v1::ChatRequest>) -> Result<Response<Self::ChatStream>, Status> {
        let body = json!({
            "model": "sim", "stream": true,
            "messages": [{ "role": "user", "content": request.into_inner().text }],
        });
        let sent = self.http.post(&self.url).json(&body).send().await;
        let answer = sent.and_then(reqwest::Response::error_for_status);
        let answer = answer.map_err(|error| Status::unavailable(error.to_string()))?;
        let mut bytes = answer.bytes_stream();
        let events = async_stream::stream! {
            let mut rest = Vec::new();
            while let Some(chunk) = bytes.next().await {
                let chunk = match chunk {
                    Ok(chunk) => chunk,
                    Err(error) => { yield Err(Status::unavailable(error.to_string())); return; }
                };
                rest.extend_from_slice(&chunk);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    if let Some(event) = std::str::from_utf8(&line).ok().and_then(|line| delta(line.trim_end())) {
                        yield Ok(event);
                    }
                }
            }
        };
        Ok(Response::new(Box::pin(events)))
    }

    async fn upload_image(
        &self,
        _: Request<v1::UploadImageRequest>,
    ) -> Result<Response<v1::UploadImageResponse>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn get_image(&self, _: Request<v1::GetImageRequest>) -> Result<Response<v1::GetImageResponse>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn approve(&self, _: Request<v1::ApproveRequest>) -> Result<Response<v1::ApproveResponse>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn resume_turn(&self, _: Request<v1::ResumeTurnRequest>) -> Result<Response<Self::ResumeTurnStream>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn cancel_turn(&self, _: Request<v1::CancelTurnRequest>) -> Result<Response<v1::CancelTurnResponse>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn get_turn(&self, _: Request<v1::GetTurnRequest>) -> Result<Response<v1::GetTurnResponse>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn watch_turn(&self, _: Request<v1::WatchTurnRequest>) -> Result<Response<Self::WatchTurnStream>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn list_profiles(
        &self,
        _: Request<v1::ListProfilesRequest>,
    ) -> Result<Response<v1::ListProfilesResponse>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn list_tools(&self, _: Request<v1::ListToolsRequest>) -> Result<Response<v1::ListToolsResponse>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn list_pending_approvals(
        &self,
        _: Request<v1::ListPendingApprovalsRequest>,
    ) -> Result<Response<v1::ListPendingApprovalsResponse>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn preview_tool_call(
        &self,
        _: Request<v1::PreviewToolCallRequest>,
    ) -> Result<Response<v1::PreviewToolCallResponse>, Status> {
        Err(Status::unimplemented("a proxy"))
    }

    async fn watch_pending_approvals(
        &self,
        _: Request<v1::WatchPendingApprovalsRequest>,
    ) -> Result<Response<Self::WatchPendingApprovalsStream>, Status> {
        Err(Status::unimplemented("a proxy"))
    }
}
