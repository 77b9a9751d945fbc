//! A client of the public API for tests.

use std::time::Duration;

use folio_proto::v1;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;
use folio_proto::v1::document_service_client::DocumentServiceClient;
use folio_proto::v1::event::Kind;
use folio_proto::v1::extraction_service_client::ExtractionServiceClient;
use folio_proto::v1::job_service_client::JobServiceClient;
use folio_proto::v1::model_service_client::ModelServiceClient;
use folio_proto::v1::prompt_service_client::PromptServiceClient;
use folio_proto::v1::proposal_service_client::ProposalServiceClient;
use folio_proto::v1::schema_service_client::SchemaServiceClient;
use folio_proto::v1::stack_service_client::StackServiceClient;
use folio_proto::v1::tag_service_client::TagServiceClient;
use folio_proto::v1::thread_service_client::ThreadServiceClient;
use folio_types::Error;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::{LIMIT, within};

/// A channel with a token on each call.
pub type Authorized = InterceptedService<Channel, Bearer>;

#[derive(Clone)]
pub struct Bearer(Option<String>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            let value = MetadataValue::try_from(format!("Bearer {token}")).map_err(|_| Status::internal("a token"))?;
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// A client with its own connection. Clones share the connection.
#[derive(Clone)]
pub struct Client {
    pub channel: Authorized,
    pub conversations: ConversationServiceClient<Authorized>,
    pub threads: ThreadServiceClient<Authorized>,
    pub documents: DocumentServiceClient<Authorized>,
    pub schemas: SchemaServiceClient<Authorized>,
    pub stacks: StackServiceClient<Authorized>,
    pub prompts: PromptServiceClient<Authorized>,
    pub tags: TagServiceClient<Authorized>,
    pub extractions: ExtractionServiceClient<Authorized>,
    pub models: ModelServiceClient<Authorized>,
    pub jobs: JobServiceClient<Authorized>,
    pub proposals: ProposalServiceClient<Authorized>,
}

pub struct Events {
    stream: BoxStream<'static, Result<Option<v1::Event>, Status>>,
    pub seen: Vec<v1::Event>,
}

impl Client {
    pub async fn connect(url: &str, token: Option<&str>) -> Self {
        Self::try_connect(url, token).await.expect("the server is reachable")
    }

    pub async fn try_connect(url: &str, token: Option<&str>) -> Result<Self, tonic::transport::Error> {
        Self::try_connect_with(url, token, LIMIT).await
    }

    /// Like [`Client::try_connect`], with this timeout of a call instead of [`LIMIT`].
    pub async fn try_connect_with(
        url: &str,
        token: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(url.to_owned()).expect("a URL").timeout(timeout);
        let channel = within("a connection", endpoint.connect()).await?;
        let wrap = || InterceptedService::new(channel.clone(), Bearer(token.map(str::to_owned)));
        const BYTES: usize = 64 << 20;
        Ok(Self {
            channel: wrap(),
            conversations: ConversationServiceClient::new(wrap()).max_decoding_message_size(BYTES),
            threads: ThreadServiceClient::new(wrap()).max_decoding_message_size(BYTES),
            documents: DocumentServiceClient::new(wrap()),
            schemas: SchemaServiceClient::new(wrap()),
            stacks: StackServiceClient::new(wrap()),
            prompts: PromptServiceClient::new(wrap()),
            tags: TagServiceClient::new(wrap()),
            extractions: ExtractionServiceClient::new(wrap()),
            models: ModelServiceClient::new(wrap()),
            jobs: JobServiceClient::new(wrap()),
            proposals: ProposalServiceClient::new(wrap()),
        })
    }

    /// Uploads a file and waits until it is ingested.
    pub async fn upload(&self, name: &str, bytes: &[u8]) -> String {
        let document = self.try_upload(name, bytes).await.expect("the upload is accepted");
        self.wait_for_text(&document.document_id).await;
        document.document_id
    }

    /// Uploads a file to a server that has just started, and waits until it is ingested. The upload is repeated while the server is
    /// unavailable.
    pub async fn upload_first(&self, name: &str, bytes: &[u8]) -> String {
        let request_id = format!("upload-{:x}", rand::random::<u64>());
        let description = v1::DocumentDescription { name: name.to_owned(), request_id, ..Default::default() };
        let document = folio_testkit::wait_for("an accepted upload", LIMIT, || async {
            answered(self.try_upload_as(description.clone(), bytes).await)
        })
        .await;
        self.wait_for_text(&document.document_id).await;
        document.document_id
    }

    /// Waits until a document is ingested.
    pub async fn wait_for_text(&self, id: &str) {
        folio_testkit::wait_for("the document's text", LIMIT, || async {
            let request = v1::GetDocumentRequest { document_id: id.to_owned() };
            let found = answered(self.documents.clone().get_document(request).await)?.into_inner();
            let state = found.document.expect("a document").state();
            assert_ne!(state, v1::DocumentState::Failed);
            matches!(state, v1::DocumentState::Ready | v1::DocumentState::NoText).then_some(())
        })
        .await;
    }

    pub async fn try_upload(&self, name: &str, bytes: &[u8]) -> Result<v1::Document, Status> {
        self.try_upload_as(v1::DocumentDescription { name: name.to_owned(), ..Default::default() }, bytes).await
    }

    pub async fn try_upload_as(
        &self,
        description: v1::DocumentDescription,
        bytes: &[u8],
    ) -> Result<v1::Document, Status> {
        use v1::upload_document_request::Part;
        let mut parts = vec![v1::UploadDocumentRequest { part: Some(Part::Description(description)) }];
        let chunks = bytes.chunks(256 * 1024).map(|chunk| Part::Chunk(chunk.to_vec()));
        parts.extend(chunks.map(|part| v1::UploadDocumentRequest { part: Some(part) }));
        let request = futures::stream::iter(parts);
        let response = within("an upload", self.documents.clone().upload_document(request)).await?;
        Ok(response.into_inner().document.expect("a document"))
    }

    /// Chats about a document on a new thread.
    pub async fn chat(&self, document: &str, text: &str) -> Events {
        self.send(ask(document, text)).await.expect("the chat is accepted")
    }

    pub async fn say(&self, thread: &str, text: &str) -> Events {
        let request = v1::ChatRequest { thread_id: thread.to_owned(), text: text.to_owned(), ..Default::default() };
        self.send(request).await.expect("the chat is accepted")
    }

    /// Sends a chat. A refusal arrives as the status of the call or as the first item of the stream.
    pub async fn send(&self, request: v1::ChatRequest) -> Result<Events, Status> {
        let stream = within("a chat", self.conversations.clone().chat(request)).await?.into_inner();
        Events::first(stream.map(|item| item.map(|item| item.event)).boxed()).await
    }

    pub async fn resume(&self, turn: &str) -> Result<Events, Status> {
        let request = v1::ResumeTurnRequest { turn_id: turn.to_owned(), ..Default::default() };
        let stream = within("a resume", self.conversations.clone().resume_turn(request)).await?.into_inner();
        Events::first(stream.map(|item| item.map(|item| item.event)).boxed()).await
    }

    pub async fn watch(&self, turn: &str, from_event: u64) -> Result<Events, Status> {
        let request = v1::WatchTurnRequest { turn_id: turn.to_owned(), from_event };
        let stream = within("a watch", self.conversations.clone().watch_turn(request)).await?.into_inner();
        Events::first(stream.map(|item| item.map(|item| item.event)).boxed()).await
    }

    pub async fn approve(&self, request: v1::ApproveRequest) -> Result<v1::ApproveResponse, Status> {
        Ok(within("an approve", self.conversations.clone().approve(request)).await?.into_inner())
    }

    /// Approves every pending call.
    pub async fn approve_all(&self, waiting: &v1::AwaitingApproval) -> v1::ApproveResponse {
        self.approve(decide(waiting, approved)).await.expect("the approval is accepted")
    }

    pub async fn turn(&self, turn: &str) -> v1::Turn {
        self.try_turn(turn).await.expect("the turn exists")
    }

    pub async fn try_turn(&self, turn: &str) -> Result<v1::Turn, Status> {
        let request = v1::GetTurnRequest { turn_id: turn.to_owned() };
        let response = within("a turn", self.conversations.clone().get_turn(request)).await?;
        Ok(response.into_inner().turn.expect("a turn"))
    }

    pub async fn cancel(&self, turn: &str) -> Result<v1::Turn, Status> {
        let request = v1::CancelTurnRequest { turn_id: turn.to_owned(), ..Default::default() };
        let response = within("a cancel", self.conversations.clone().cancel_turn(request)).await?;
        Ok(response.into_inner().turn.expect("a turn"))
    }

    /// Waits until the turn has this status.
    pub async fn until(&self, turn: &str, status: v1::TurnStatus) -> v1::Turn {
        folio_testkit::wait_for(&format!("{status:?} of {turn}"), LIMIT, || async {
            answered(self.try_turn(turn).await).filter(|found| found.status() == status)
        })
        .await
    }

    pub async fn thread(&self, thread: &str) -> v1::GetThreadResponse {
        let request = v1::GetThreadRequest { thread_id: thread.to_owned(), ..Default::default() };
        within("a thread", self.threads.clone().get_thread(request)).await.expect("the thread exists").into_inner()
    }

    pub async fn tag_names(&self) -> Vec<String> {
        let response = within("tags", self.tags.clone().list_tags(v1::ListTagsRequest::default())).await;
        response.expect("tags are listed").into_inner().tags.into_iter().map(|tag| tag.name).collect()
    }
}

impl Events {
    /// Reads the first event. Returns the status of a call that was refused, or whose stream ended without an event because its
    /// node stopped.
    async fn first(stream: BoxStream<'static, Result<Option<v1::Event>, Status>>) -> Result<Self, Status> {
        let mut events = Self { stream, seen: Vec::new() };
        match within("the first event", events.stream.next()).await {
            Some(Ok(event)) => events.seen.push(event.expect("an event")),
            Some(Err(status)) => return Err(status),
            None => return Err(Status::unavailable("the stream ended without an event")),
        }
        Ok(events)
    }

    /// Returns the next event. None: the stream ended.
    pub async fn next(&mut self) -> Option<v1::Event> {
        let item = within("an event", self.stream.next()).await?;
        let event = item.expect("the stream continues").expect("an event");
        self.seen.push(event.clone());
        Some(event)
    }

    /// Reads until an event with this name, and returns it.
    pub async fn until(&mut self, name: &str) -> v1::Event {
        if let Some(found) = self.seen.iter().find(|event| event_name(event) == name) {
            return found.clone();
        }
        loop {
            let event =
                self.next().await.unwrap_or_else(|| panic!("the stream ended before {name}: {:?}", self.names()));
            if event_name(&event) == name {
                return event;
            }
        }
    }

    pub async fn end(mut self) -> Vec<v1::Event> {
        while self.next().await.is_some() {}
        self.seen
    }

    /// Reads until the stream ends or fails.
    pub async fn drain(mut self) -> Result<Vec<v1::Event>, Status> {
        while let Some(item) = within("an event", self.stream.next()).await {
            self.seen.extend(item?);
        }
        Ok(self.seen)
    }

    /// Reads to the end, and returns the closing event.
    pub async fn close(self) -> Kind {
        let seen = self.end().await;
        seen.into_iter().last().and_then(|event| event.kind).expect("a closing event")
    }

    pub async fn pause(self) -> v1::AwaitingApproval {
        match self.close().await {
            Kind::AwaitingApproval(waiting) => waiting,
            other => panic!("expected a pause: {other:?}"),
        }
    }

    pub async fn completed(self) -> v1::Completed {
        match self.close().await {
            Kind::Completed(completed) => completed,
            other => panic!("not completed: {other:?}"),
        }
    }

    pub async fn failed(self) -> v1::Failed {
        match self.close().await {
            Kind::Failed(failed) => failed,
            other => panic!("not failed: {other:?}"),
        }
    }

    pub fn turn(&self) -> String {
        self.seen.first().expect("an event").turn_id.clone()
    }

    /// Returns the thread's id, from `turn_started`.
    pub fn thread(&self) -> String {
        let started = self.seen.iter().find_map(|event| match &event.kind {
            Some(Kind::TurnStarted(started)) => Some(started.thread_id.clone()),
            _ => None,
        });
        started.expect("turn_started")
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.seen.iter().map(event_name).collect()
    }
}

/// Returns a request that chats about a document on a new thread.
pub fn ask(document: &str, text: &str) -> v1::ChatRequest {
    v1::ChatRequest { document_ids: vec![document.to_owned()], text: text.to_owned(), ..Default::default() }
}

/// Returns the name of the event in the proto files.
pub fn event_name(event: &v1::Event) -> &'static str {
    match event.kind.as_ref().expect("an event has a kind") {
        Kind::TurnStarted(_) => "turn_started",
        Kind::RoundStarted(_) => "round_started",
        Kind::NodeStarted(_) => "node_started",
        Kind::NodeEnded(_) => "node_ended",
        Kind::ThinkingDelta(_) => "thinking_delta",
        Kind::TextDelta(_) => "text_delta",
        Kind::ToolCalls(_) => "tool_calls",
        Kind::ToolStarted(_) => "tool_started",
        Kind::WaitingForStore(_) => "waiting_for_store",
        Kind::TasksStarted(_) => "tasks_started",
        Kind::TaskEnded(_) => "task_ended",
        Kind::ToolResult(_) => "tool_result",
        Kind::RoundFinished(_) => "round_finished",
        Kind::Snapshot(_) => "snapshot",
        Kind::AwaitingApproval(_) => "awaiting_approval",
        Kind::Completed(_) => "completed",
        Kind::Failed(_) => "failed",
        Kind::Cancelled(_) => "cancelled",
        Kind::Expired(_) => "expired",
        Kind::Superseded(_) => "superseded",
    }
}

/// Returns the names of events, with consecutive deltas of one kind as one.
pub fn outline(events: &[v1::Event]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = events.iter().map(event_name).collect();
    names.dedup_by(|a, b| a == b && a.ends_with("_delta"));
    names
}

/// Returns a request with the same decision on every call that needs one.
pub fn decide(waiting: &v1::AwaitingApproval, decision: impl Fn() -> v1::decision::Decision) -> v1::ApproveRequest {
    let decisions = waiting.pending.iter().filter(|call| call.needs_approval);
    v1::ApproveRequest {
        turn_id: waiting.turn_id.clone(),
        round: waiting.round,
        decisions: decisions.map(|call| on(call, decision())).collect(),
        ..Default::default()
    }
}

/// Returns a decision on a call with its digest.
pub fn on(call: &v1::Call, decision: v1::decision::Decision) -> v1::Decision {
    v1::Decision {
        call_id: call.call_id.clone(),
        arguments_digest: call.arguments_digest.clone(),
        decision: Some(decision),
    }
}

pub fn approved() -> v1::decision::Decision {
    v1::decision::Decision::Approved(v1::Approved {})
}

pub fn rejected(reason: &str) -> v1::decision::Decision {
    v1::decision::Decision::Rejected(v1::Rejected { reason: reason.to_owned() })
}

pub fn edited(arguments: &serde_json::Value) -> v1::decision::Decision {
    v1::decision::Decision::ApprovedEdited(v1::ApprovedEdited { arguments_json: arguments.to_string() })
}

/// Returns the value of an answer. None: the server is unavailable, so that the call is repeated.
pub(super) fn answered<T>(answer: Result<T, Status>) -> Option<T> {
    match answer {
        Err(status) if status.code() == tonic::Code::Unavailable => None,
        answer => Some(answer.expect("an answer")),
    }
}

#[track_caller]
pub fn refused<T>(result: Result<T, Status>) -> Error {
    match result {
        Ok(_) => panic!("the call was not refused"),
        Err(status) => folio_proto::status::to_error(&status),
    }
}
