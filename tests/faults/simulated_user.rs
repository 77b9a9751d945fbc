//! A client that chats and approves continuously. It repeats every request that was not answered, at any gateway.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_types::{Code, Error, Reason, RequestId, TurnId};
use futures::StreamExt as _;
use rand::Rng as _;
use rand::rngs::StdRng;
use tonic::{Status, Streaming};

use super::log::{ClientEvent, Decisions, Log};
use crate::harness::client::{Client, approved, ask, edited, event_name, on, rejected};
use crate::harness::tenant::Tenant;

/// Timeout of a request, after which it is repeated.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(12);
const TURN_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns a closure that calls an RPC with a copy of the request, so that the call can be repeated.
macro_rules! call {
    ($service:ident.$method:ident($request:ident)) => {
        |client: Client| {
            let request = $request.clone();
            async move { client.$service.clone().$method(request).await }
        }
    };
}

pub struct SimulatedUser {
    pub name: String,
    pub tenant: Tenant,
    pub document: String,
    /// Addresses of the gateways, which do not change when their processes restart.
    pub gateways: Vec<String>,
    pub log: Log,
    pub random: StdRng,
    pub refusals: Refusals,
    clients: BTreeMap<usize, Client>,
    at: usize,
}

/// A write that was approved and answered.
#[derive(Debug, Clone)]
pub struct ApprovedWrite {
    pub turn: TurnId,
    /// Name of the tag that the write creates.
    pub name: String,
    /// Time from the first request of the approval to its answer.
    pub approval: Duration,
    /// Number of times that the turn failed and was resumed.
    pub failures: usize,
}

/// Numbers of errors by reason.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<BTreeMap<String, usize>>>);

impl Refusals {
    fn count(&self, error: &Error) {
        let key = format!("{:?} {}", error.code, error.reason.as_str());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += 1;
    }

    pub fn all(&self) -> BTreeMap<String, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
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
        Self { name, tenant, document, gateways, log, random, refusals, clients: BTreeMap::new(), at: 0 }
    }

    /// Works until `stop` is true. Returns the turns that never ended.
    pub async fn work(mut self, stop: tokio::sync::watch::Receiver<bool>) -> Vec<String> {
        let mut unfinished = Vec::new();
        let mut number = 0;
        while !*stop.borrow() {
            number += 1;
            if tokio::time::timeout(TURN_TIMEOUT, self.turn(number)).await.is_err() {
                unfinished.push(format!("work {number} of {} took longer than {TURN_TIMEOUT:?}", self.name));
            }
        }
        unfinished
    }

    /// Runs one turn to its end.
    async fn turn(&mut self, number: usize) {
        let text = format!("{} work {}-{number}", self.tenant.marker, self.name);
        if self.random.random_bool(0.1) {
            self.create_tag(&format!("{text} created")).await;
        }
        let request: RequestId = format!("{}-{number}", self.name).parse().expect("a request id");
        let turn = self.begin(&text, &request).await;
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
                v1::TurnStatus::AwaitingApproval => decided.push(self.decide(&turn, &found).await),
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
        let turn = self.begin(&name, &request).await;
        let (mut since, mut approval, mut failures) = (None, Duration::ZERO, 0);
        loop {
            let found = self.wait_for_turn(&turn).await;
            match found.status() {
                v1::TurnStatus::Running => self.follow(&turn).await,
                v1::TurnStatus::AwaitingApproval => {
                    let decisions = found.pending.iter().map(|call| on(call, approved())).collect();
                    let round = found.rounds.last().map_or(0, |round| round.round);
                    let request =
                        v1::ApproveRequest { turn_id: turn.to_string(), round, decisions, ..Default::default() };
                    let since = *since.get_or_insert_with(Instant::now);
                    in_flight.fetch_add(1, Ordering::Relaxed);
                    self.approve(request).await;
                    in_flight.fetch_sub(1, Ordering::Relaxed);
                    approval = since.elapsed();
                }
                v1::TurnStatus::Failed if found.retriable => {
                    failures += 1;
                    self.resume(&turn).await;
                }
                _ => return ApprovedWrite { turn, name, approval, failures },
            }
        }
    }

    /// Returns a connection to a gateway, to another one at each call.
    async fn client(&mut self) -> Client {
        loop {
            self.at = (self.at + 1) % self.gateways.len();
            if let Some(client) = self.clients.get(&self.at) {
                return client.clone();
            }
            let url = format!("http://{}", self.gateways[self.at]);
            match tokio::time::timeout(REQUEST_TIMEOUT, Client::try_connect(&url, Some(&self.tenant.token))).await {
                Ok(Ok(client)) => {
                    self.clients.insert(self.at, client.clone());
                    return client;
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
            let client = self.client().await;
            let error = match tokio::time::timeout(REQUEST_TIMEOUT, call(client)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => folio_proto::status::to_error(&status),
                Err(_) => Error::unavailable(Reason::NodeLost, "no answer"),
            };
            self.refusals.count(&error);
            if !is_retriable(&error) {
                return Err(error);
            }
            self.clients.remove(&self.at);
            pause().await;
        }
    }

    /// Starts a turn. Repeats the request until the turn's id is known.
    async fn begin(&mut self, text: &str, request: &RequestId) -> TurnId {
        let chat = v1::ChatRequest { request_id: request.to_string(), ..ask(&self.document, text) };
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
                    let error = folio_proto::status::to_error(&status);
                    self.refusals.count(&error);
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

    async fn wait_for_turn(&mut self, turn: &TurnId) -> v1::Turn {
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

    async fn follow(&mut self, turn: &TurnId) {
        let request = v1::WatchTurnRequest { turn_id: turn.to_string(), from_event: 0 };
        let stream = self.retry(call!(conversations.watch_turn(request))).await;
        if let Ok(stream) = stream {
            self.read(stream.into_inner(), |answer: v1::WatchTurnResponse| answer.event, None).await;
        }
    }

    async fn resume(&mut self, turn: &TurnId) {
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

    /// Decides on every pending call, occasionally at two gateways at once.
    async fn decide(&mut self, turn: &TurnId, found: &v1::Turn) -> v1::ApproveRequest {
        let random = &mut self.random;
        let mut verdict = |call: &v1::Call| match random.random_range(0..10) {
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
        let (one, two) = (self.client().await, self.client().await);
        let decisions = Decisions::of(request);
        self.log.add(&self.tenant.org, ClientEvent::Deciding(decisions.clone()));
        let send = |client: Client| {
            let request = request.clone();
            async move { tokio::time::timeout(REQUEST_TIMEOUT, client.conversations.clone().approve(request)).await }
        };
        let (first, second) = tokio::join!(send(one), send(two));
        for answer in [first, second].into_iter().flatten().flatten() {
            self.log.add(&self.tenant.org, ClientEvent::Answered(decisions.clone(), Box::new(answer.into_inner())));
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

    /// Creates a tag outside turns.
    async fn create_tag(&mut self, name: &str) {
        let request_id = format!("create-{}", name.replace(' ', "-"));
        let request =
            v1::CreateTagRequest { tag: Some(v1::Tag { name: name.to_owned(), ..Default::default() }), request_id };
        let made = self.retry(call!(tags.create_tag(request))).await;
        match made {
            Ok(made) => {
                let id = made.into_inner().tag.expect("a tag").tag_id;
                self.log.add(&self.tenant.org, ClientEvent::Created { id });
            }
            Err(error) => println!("  a tag was not created: {error}"),
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

/// Returns true if a retry may succeed.
fn is_retriable(error: &Error) -> bool {
    // The client library reports a broken connection as an internal error.
    let is_broken = error.message.contains("transport error") || error.message.contains("canceled");
    matches!(error.code, Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted)
        || error.reason == Reason::TurnBusy
        || is_broken
}

async fn pause() {
    // No event signals that the cluster has recovered.
    tokio::time::sleep(Duration::from_millis(100)).await;
}
