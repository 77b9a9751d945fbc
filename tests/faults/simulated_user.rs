//! A client that chats and approves continuously. It repeats every request that was not answered, at any gateway.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_types::{Error, RequestId, TurnId};
use futures::StreamExt as _;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use tonic::{Status, Streaming};

use super::log::{ClientEvent, Decisions, Log};
use super::refusals::{Connection, Refusal, Refusals};
use crate::harness::client::{Client, approved, ask, edited, event_name, on, rejected};
use crate::harness::settings::INVOICE;
use crate::harness::tenant::Tenant;

/// Timeout of a request, after which it is repeated.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(12);
/// Time limit of a turn, or of the work of a job. Several faults may interrupt a turn with many rounds.
pub(super) const WORK_TIMEOUT: Duration = Duration::from_secs(240);

/// Words of messages. The script of the model has a rule for each of them.
const WORDS: [&str; 11] = ["work", "work", "work", "work", "work", "work", "work", "chain", "chain", "erase", "talk"];

/// Returns a closure that calls an RPC with a copy of the request, so that the call can be repeated.
macro_rules! call {
    ($service:ident.$method:ident($request:ident)) => {
        |client: $crate::harness::client::Client| {
            let request = $request.clone();
            async move { client.$service.clone().$method(request).await }
        }
    };
}
pub(super) use call;

pub struct SimulatedUser {
    pub name: String,
    pub tenant: Tenant,
    pub document: String,
    /// Addresses of the gateways, which do not change when their processes restart.
    pub gateways: Vec<String>,
    pub log: Log,
    pub random: StdRng,
    pub refusals: Refusals,
    /// True if the version of the cluster has the assistant.
    pub(super) uses_assistant: bool,
    /// The thread of the conversation. Empty: it has not begun.
    pub(super) conversation: String,
    clients: BTreeMap<usize, (Connection, Client)>,
    at: usize,
}

/// A turn with a write that was approved.
#[derive(Debug, Clone)]
pub struct ApprovedWrite {
    pub turn: TurnId,
    /// Name of the tag that the write creates.
    pub name: String,
    /// Time from the first request of the approval to its last answer. None: the turn never waited for it.
    pub approval: Option<Range<Instant>>,
    /// Number of times that the turn failed and was resumed.
    pub failures: usize,
    /// Status at the end of the turn.
    pub end: v1::TurnStatus,
}

impl SimulatedUser {
    pub fn new(
        name: String,
        tenant: Tenant,
        document: String,
        gateways: Vec<String>,
        log: Log,
        random: StdRng,
        refusals: Refusals,
    ) -> Self {
        Self {
            name,
            tenant,
            document,
            gateways,
            log,
            random,
            refusals,
            uses_assistant: false,
            conversation: String::new(),
            clients: BTreeMap::new(),
            at: 0,
        }
    }

    /// Works until `stop` is true. Returns the turns that never ended.
    pub async fn work(mut self, stop: tokio::sync::watch::Receiver<bool>) -> Vec<String> {
        let mut unfinished = Vec::new();
        let mut number = 0;
        while !*stop.borrow() {
            number += 1;
            if tokio::time::timeout(WORK_TIMEOUT, self.turn(number)).await.is_err() {
                unfinished.push(format!("work {number} of {} took longer than {WORK_TIMEOUT:?}", self.name));
            }
        }
        unfinished
    }

    /// Runs one turn to its end.
    async fn turn(&mut self, number: usize) {
        let word = *WORDS.choose(&mut self.random).expect("a word");
        if word == "talk" {
            let is_question = self.uses_assistant && self.random.random_bool(0.5);
            return if is_question { self.question(number).await } else { self.talk(number).await };
        }
        let text = format!("{} {word} {}-{number}", self.tenant.marker, self.name);
        let document = match word {
            "erase" => self.upload(&format!("{text}.txt"), INVOICE, false).await,
            _ => Some(self.document.clone()),
        };
        let Some(document) = document else { return };
        // The rounds of the other turns use the results of the rounds before.
        let one_in = if word == "work" { 10 } else { 40 };
        if self.random.random_bool(0.1) {
            self.create_tag(&format!("{text} created")).await;
        }
        let request: RequestId = format!("{}-{number}", self.name).parse().expect("a request id");
        let turn = self.begin(&ask(&document, &text), &request).await;
        if self.random.random_bool(0.06) {
            // The client disconnects and another one finds the turn.
            return;
        }
        let cancels = self.random.random_bool(0.06);
        let mut decided = Vec::new();
        loop {
            let found = self.wait_for_turn(&turn).await;
            match found.status() {
                v1::TurnStatus::Running => self.follow(&turn).await,
                v1::TurnStatus::AwaitingApproval if cancels && !decided.is_empty() => self.cancel(&turn).await,
                v1::TurnStatus::AwaitingApproval => decided.push(self.decide(&turn, &found, one_in).await),
                v1::TurnStatus::Failed if found.retriable => self.resume(&turn).await,
                _ => break,
            }
        }
        if self.random.random_bool(0.3) {
            for request in decided {
                self.approve(request).await;
            }
        }
        if self.random.random_bool(0.2) {
            self.list().await;
        }
    }

    /// Runs a turn with one write, whose name is the message, and approves it. Counts the approvals in flight.
    pub async fn approve_write(&mut self, number: usize, in_flight: &AtomicUsize) -> ApprovedWrite {
        let name = format!("{} work {}-{number}", self.tenant.marker, self.name);
        let request: RequestId = format!("{}-{number}", self.name).parse().expect("a request id");
        let turn = self.begin(&ask(&self.document, &name), &request).await;
        let (mut approval, mut failures) = (None::<Range<Instant>>, 0);
        loop {
            let found = self.wait_for_turn(&turn).await;
            match found.status() {
                v1::TurnStatus::Running => self.follow(&turn).await,
                v1::TurnStatus::AwaitingApproval => {
                    let decisions = found.pending.iter().map(|call| on(call, approved())).collect();
                    let round = found.rounds.last().map_or(0, |round| round.round);
                    let request =
                        v1::ApproveRequest { turn_id: turn.to_string(), round, decisions, ..Default::default() };
                    let since = approval.map_or_else(Instant::now, |approval| approval.start);
                    in_flight.fetch_add(1, Ordering::Relaxed);
                    self.approve(request).await;
                    in_flight.fetch_sub(1, Ordering::Relaxed);
                    approval = Some(since..Instant::now());
                }
                v1::TurnStatus::Failed if found.retriable => {
                    failures += 1;
                    self.resume(&turn).await;
                }
                end => return ApprovedWrite { turn, name, approval, failures, end },
            }
        }
    }

    /// Returns a connection to a gateway, to another one at each call.
    async fn client(&mut self) -> (Connection, Client) {
        loop {
            self.at = (self.at + 1) % self.gateways.len();
            if let Some(connected) = self.clients.get(&self.at) {
                return connected.clone();
            }
            let connection = Connection { gateway: self.at, since: Instant::now() };
            let url = format!("http://{}", self.gateways[self.at]);
            match tokio::time::timeout(REQUEST_TIMEOUT, Client::try_connect(&url, Some(&self.tenant.token))).await {
                Ok(Ok(client)) => {
                    self.clients.insert(self.at, (connection, client.clone()));
                    return (connection, client);
                }
                _ => pause().await,
            }
        }
    }

    /// Repeats a request until it succeeds or fails permanently.
    pub(super) async fn retry<T, F>(&mut self, call: impl Fn(Client) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        loop {
            let (connection, client) = self.client().await;
            let refusal = match tokio::time::timeout(REQUEST_TIMEOUT, call(client)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => Refusal::new(&status, connection),
                Err(_) => Refusal::unanswered(connection),
            };
            self.refusals.count(&refusal);
            if !refusal.is_retriable() {
                return Err(refusal.error);
            }
            self.clients.remove(&connection.gateway);
            pause().await;
        }
    }

    /// Starts a turn. Repeats the request until the turn's id is known.
    pub(super) async fn begin(&mut self, chat: &v1::ChatRequest, request: &RequestId) -> TurnId {
        let chat = v1::ChatRequest { request_id: request.to_string(), ..chat.clone() };
        loop {
            let sent = chat.clone();
            let stream = self.retry(call!(conversations.chat(sent))).await;
            let Ok(stream) = stream else {
                pause().await;
                continue;
            };
            let stream = stream.into_inner();
            if let Some(turn) = self.read(stream, |answer: v1::ChatResponse| answer.event, Some(request)).await {
                return turn;
            }
        }
    }

    /// Reads a stream to its end and logs it. Returns the turn, if the stream contained its id.
    async fn read<M>(
        &mut self,
        mut stream: Streaming<M>,
        event: impl Fn(M) -> Option<v1::Event>,
        request: Option<&RequestId>,
    ) -> Option<TurnId> {
        let mut turn: Option<TurnId> = None;
        let mut events = Vec::new();
        let complete = loop {
            match tokio::time::timeout(REQUEST_TIMEOUT, stream.next()).await {
                Ok(Some(Ok(message))) => {
                    let event = event(message).expect("an event");
                    if turn.is_none() {
                        let id: TurnId = event.turn_id.parse().expect("a turn's id");
                        if let Some(request) = request {
                            self.log.add(
                                &self.tenant.org,
                                ClientEvent::Accepted { request: request.clone(), turn: id.clone() },
                            );
                        }
                        turn = Some(id);
                    }
                    events.push((event.number, event_name(&event)));
                }
                Ok(Some(Err(status))) => {
                    if let Some((connection, _)) = self.clients.remove(&self.at) {
                        self.refusals.count(&Refusal::new(&status, connection));
                    }
                    break false;
                }
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if let Some(turn) = &turn {
            self.log.add(&self.tenant.org, ClientEvent::Streamed { turn: turn.clone(), events, complete });
        } else {
            pause().await;
        }
        turn
    }

    pub(super) async fn wait_for_turn(&mut self, turn: &TurnId) -> v1::Turn {
        loop {
            let request = v1::GetTurnRequest { turn_id: turn.to_string() };
            let found = self.retry(call!(conversations.get_turn(request))).await;
            match found {
                Ok(found) => return found.into_inner().turn.expect("a turn"),
                Err(error) => println!("  {turn}: {error}"),
            }
            pause().await;
        }
    }

    pub(super) async fn follow(&mut self, turn: &TurnId) {
        let request = v1::WatchTurnRequest { turn_id: turn.to_string(), from_event: 0 };
        let stream = self.retry(call!(conversations.watch_turn(request))).await;
        if let Ok(stream) = stream {
            self.read(stream.into_inner(), |answer: v1::WatchTurnResponse| answer.event, None).await;
        }
    }

    pub(super) async fn resume(&mut self, turn: &TurnId) {
        // There may be no credit until the top-up task grants some.
        pause().await;
        let request = v1::ResumeTurnRequest { turn_id: turn.to_string(), ..Default::default() };
        let stream = self.retry(call!(conversations.resume_turn(request))).await;
        if let Ok(stream) = stream {
            self.read(stream.into_inner(), |answer: v1::ResumeTurnResponse| answer.event, None).await;
        }
    }

    async fn cancel(&mut self, turn: &TurnId) {
        let request = v1::CancelTurnRequest { turn_id: turn.to_string(), ..Default::default() };
        let _ = self.retry(call!(conversations.cancel_turn(request))).await;
    }

    /// Decides on every pending call, occasionally at two gateways at once. Rejects one call in `one_in`.
    async fn decide(&mut self, turn: &TurnId, found: &v1::Turn, one_in: u32) -> v1::ApproveRequest {
        let random = &mut self.random;
        let mut verdict = |call: &v1::Call| match random.random_range(0..one_in) {
            0 => on(call, rejected("No.")),
            1 if call.name == "create_tag" => {
                let mut arguments: serde_json::Value = serde_json::from_str(&call.arguments_json).expect("arguments");
                arguments["description"] = "edited".into();
                on(call, edited(&arguments))
            }
            _ => on(call, approved()),
        };
        let decisions = found.pending.iter().filter(|call| call.needs_approval).map(&mut verdict).collect();
        let request = v1::ApproveRequest {
            turn_id: turn.to_string(),
            round: found.rounds.last().map_or(0, |round| round.round),
            decisions,
            ..Default::default()
        };
        if self.random.random_bool(0.15) {
            self.approve_twice(&request).await;
        }
        self.approve(request.clone()).await;
        request
    }

    /// Sends the same decisions to two gateways at once, and logs both responses.
    async fn approve_twice(&mut self, request: &v1::ApproveRequest) {
        let mut clients = Vec::new();
        for _ in 0..2 {
            clients.push(self.client().await);
        }
        let decisions = Decisions::of(request);
        self.log.add(&self.tenant.org, ClientEvent::Deciding(decisions.clone()));
        let send = |(connection, client): (Connection, Client)| {
            let request = request.clone();
            async move {
                let mut conversations = client.conversations.clone();
                (connection, tokio::time::timeout(REQUEST_TIMEOUT, conversations.approve(request)).await)
            }
        };
        for (connection, answer) in futures::future::join_all(clients.into_iter().map(send)).await {
            match answer {
                Ok(Ok(answer)) => {
                    let answer = Box::new(answer.into_inner());
                    self.log.add(&self.tenant.org, ClientEvent::Answered(decisions.clone(), answer));
                }
                Ok(Err(status)) => {
                    self.clients.remove(&connection.gateway);
                    self.refusals.count(&Refusal::new(&status, connection));
                }
                Err(_) => {}
            }
        }
    }

    async fn approve(&mut self, request: v1::ApproveRequest) {
        let decisions = Decisions::of(&request);
        self.log.add(&self.tenant.org, ClientEvent::Deciding(decisions.clone()));
        let answer = self.retry(call!(conversations.approve(request))).await;
        let event = match answer {
            Ok(answer) => {
                let answer = answer.into_inner();
                if let Some(Outcome::Failed(failed)) = &answer.outcome {
                    let error = failed.error.as_ref().map(|error| format!("{} {}", error.reason, error.message));
                    println!("  {} failed: {}", request.turn_id, error.unwrap_or_default());
                }
                ClientEvent::Answered(decisions, Box::new(answer))
            }
            Err(error) => ClientEvent::Refused(decisions, error.reason),
        };
        self.log.add(&self.tenant.org, event);
    }

    /// Uploads a document and waits until its text was read. None: the document cannot be read. `auto_create`: the upload
    /// requests a proposal.
    pub(super) async fn upload(&mut self, name: &str, content: &str, auto_create: bool) -> Option<String> {
        use v1::upload_document_request::Part;
        let request_id = format!("upload-{}", name.replace(' ', "-"));
        let auto_create = auto_create.then_some(true);
        let description =
            v1::DocumentDescription { name: name.to_owned(), request_id, auto_create, ..Default::default() };
        let parts = [Part::Description(description), Part::Chunk(content.as_bytes().to_vec())];
        let upload = parts.map(|part| v1::UploadDocumentRequest { part: Some(part) });
        let call = |client: Client| {
            let upload = futures::stream::iter(upload.clone());
            async move { client.documents.clone().upload_document(upload).await }
        };
        let uploaded = match self.retry(call).await {
            Ok(uploaded) => uploaded.into_inner().document.expect("a document"),
            Err(error) => {
                println!("  {name} was not uploaded: {error}");
                return None;
            }
        };
        let request = v1::GetDocumentRequest { document_id: uploaded.document_id.clone() };
        loop {
            let found = self.retry(call!(documents.get_document(request))).await;
            match found.map(|found| found.into_inner().document.expect("a document").state()) {
                Ok(v1::DocumentState::Ready) => return Some(uploaded.document_id),
                Ok(v1::DocumentState::Failed) => println!("  {name} cannot be read"),
                Err(error) => println!("  {name} cannot be read: {error}"),
                Ok(_) => {
                    pause().await;
                    continue;
                }
            }
            return None;
        }
    }

    /// Creates a tag outside turns. Returns its id. None: the tag was refused.
    pub(super) async fn create_tag(&mut self, name: &str) -> Option<String> {
        let request_id = format!("create-{}", name.replace(' ', "-"));
        let request =
            v1::CreateTagRequest { tag: Some(v1::Tag { name: name.to_owned(), ..Default::default() }), request_id };
        let made = self.retry(call!(tags.create_tag(request))).await;
        match made {
            Ok(made) => {
                let id = made.into_inner().tag.expect("a tag").tag_id;
                self.log.add(&self.tenant.org, ClientEvent::Created { id: id.clone() });
                Some(id)
            }
            Err(error) => {
                println!("  a tag was not created: {error}");
                None
            }
        }
    }

    async fn list(&mut self) {
        let request = v1::ListTagsRequest::default();
        let listed = self.retry(call!(tags.list_tags(request))).await;
        if let Ok(listed) = listed {
            let names = listed.into_inner().tags.into_iter().map(|tag| tag.name).collect();
            self.log.add(&self.tenant.org, ClientEvent::Listed(names));
        }
    }
}

pub(super) async fn pause() {
    // No event signals that the cluster has recovered.
    tokio::time::sleep(Duration::from_millis(100)).await;
}
