//! A client that chats and approves without a pause, and is never sure of anything: what it is not answered it asks again,
//! wherever it can.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_types::{Code, Error, Reason, RequestId, TurnId};
use futures::StreamExt as _;
use rand::Rng as _;
use rand::rngs::StdRng;
use tonic::{Status, Streaming};

use super::log::{Decisions, Log, What};
use crate::harness::client::{Client, approved, ask, edited, name_of, on, rejected};
use crate::harness::tenant::Tenant;

/// How long an answer may take before it is asked for again.
const PATIENCE: Duration = Duration::from_secs(12);
/// How long one turn may take, whatever happens.
const TURN_LIMIT: Duration = Duration::from_secs(120);

/// A call of a service, which may be made again and again.
macro_rules! call {
    ($service:ident.$method:ident($request:ident)) => {
        |client: Client| {
            let request = $request.clone();
            async move { client.$service.clone().$method(request).await }
        }
    };
}

/// A person at work.
pub struct Person {
    pub name: String,
    pub tenant: Tenant,
    pub document: String,
    /// The gateways' addresses, which stay while their processes come and go.
    pub gateways: Vec<String>,
    pub log: Log,
    pub random: StdRng,
    pub refusals: Refusals,
    clients: BTreeMap<usize, Client>,
    at: usize,
}

/// How often what was answered in the place of what was asked for.
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

impl Person {
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

    /// Works until it is told to stop; gives turns that never came to an end.
    pub async fn work(mut self, stop: tokio::sync::watch::Receiver<bool>) -> Vec<String> {
        let mut never = Vec::new();
        let mut number = 0;
        while !*stop.borrow() {
            number += 1;
            if tokio::time::timeout(TURN_LIMIT, self.turn(number)).await.is_err() {
                never.push(format!("work {number} of {} took longer than {TURN_LIMIT:?}", self.name));
            }
        }
        never
    }

    /// One turn from its beginning to its end, in whatever way.
    async fn turn(&mut self, number: usize) {
        let text = format!("{} work {}-{number}", self.tenant.mark, self.name);
        if self.random.random_bool(0.1) {
            self.make(&format!("{text} made")).await;
        }
        let request: RequestId = format!("{}-{number}", self.name).parse().expect("a request id");
        let turn = self.begin(&text, &request).await;
        if self.random.random_bool(0.06) {
            // It walks away: somebody else finds the turn.
            return;
        }
        let cancels = self.random.random_bool(0.06);
        let mut decided = Vec::new();
        loop {
            let found = self.turn_now(&turn).await;
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

    /// A connection to a gateway, to another one at each call.
    async fn client(&mut self) -> Client {
        loop {
            self.at = (self.at + 1) % self.gateways.len();
            if let Some(client) = self.clients.get(&self.at) {
                return client.clone();
            }
            let url = format!("http://{}", self.gateways[self.at]);
            match tokio::time::timeout(PATIENCE, Client::try_connect(&url, Some(&self.tenant.token))).await {
                Ok(Ok(client)) => {
                    self.clients.insert(self.at, client.clone());
                    return client;
                }
                _ => pause().await,
            }
        }
    }

    /// Asks until something is answered that is no "try again".
    pub(super) async fn asked<T, F>(&mut self, ask: impl Fn(Client) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        loop {
            let client = self.client().await;
            let error = match tokio::time::timeout(PATIENCE, ask(client)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => folio_proto::status::to_error(&status),
                Err(_) => Error::unavailable(Reason::NodeLost, "no answer"),
            };
            self.refusals.count(&error);
            if !is_again(&error) {
                return Err(error);
            }
            self.clients.remove(&self.at);
            pause().await;
        }
    }

    /// Begins a turn: the same request until it is known which turn it became.
    async fn begin(&mut self, text: &str, request: &RequestId) -> TurnId {
        let chat = v1::ChatRequest { request_id: request.to_string(), ..ask(&self.document, text) };
        loop {
            let sent = chat.clone();
            let stream = self.asked(call!(conversations.chat(sent))).await;
            let Ok(stream) = stream else {
                pause().await;
                continue;
            };
            let stream = stream.into_inner();
            if let Some(turn) = self.hear(stream, |answer: v1::ChatResponse| answer.event, Some(request)).await {
                return turn;
            }
        }
    }

    /// Reads a stream as far as it goes, and logs it; the turn, if it said one.
    async fn hear<M>(
        &mut self,
        mut stream: Streaming<M>,
        event: impl Fn(M) -> Option<v1::Event>,
        request: Option<&RequestId>,
    ) -> Option<TurnId> {
        let mut turn: Option<TurnId> = None;
        let mut events = Vec::new();
        let whole = loop {
            match tokio::time::timeout(PATIENCE, stream.next()).await {
                Ok(Some(Ok(message))) => {
                    let event = event(message).expect("an event");
                    if turn.is_none() {
                        let id: TurnId = event.turn_id.parse().expect("a turn's id");
                        if let Some(request) = request {
                            self.log
                                .add(&self.tenant.org, What::Accepted { request: request.clone(), turn: id.clone() });
                        }
                        turn = Some(id);
                    }
                    events.push((event.number, name_of(&event)));
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
            self.log.add(&self.tenant.org, What::Streamed { turn: turn.clone(), events, whole });
        } else {
            pause().await;
        }
        turn
    }

    async fn turn_now(&mut self, turn: &TurnId) -> v1::Turn {
        loop {
            let request = v1::GetTurnRequest { turn_id: turn.to_string() };
            let found = self.asked(call!(conversations.get_turn(request))).await;
            match found {
                Ok(found) => return found.into_inner().turn.expect("a turn"),
                Err(error) => println!("  {turn}: {error}"),
            }
            pause().await;
        }
    }

    async fn follow(&mut self, turn: &TurnId) {
        let request = v1::WatchTurnRequest { turn_id: turn.to_string(), from_event: 0 };
        let stream = self.asked(call!(conversations.watch_turn(request))).await;
        if let Ok(stream) = stream {
            self.hear(stream.into_inner(), |answer: v1::WatchTurnResponse| answer.event, None).await;
        }
    }

    async fn resume(&mut self, turn: &TurnId) {
        // Perhaps there is no credit, until somebody gives some.
        pause().await;
        let request = v1::ResumeTurnRequest { turn_id: turn.to_string(), ..Default::default() };
        let stream = self.asked(call!(conversations.resume_turn(request))).await;
        if let Ok(stream) = stream {
            self.hear(stream.into_inner(), |answer: v1::ResumeTurnResponse| answer.event, None).await;
        }
    }

    async fn cancel(&mut self, turn: &TurnId) {
        let request = v1::CancelTurnRequest { turn_id: turn.to_string(), ..Default::default() };
        let _ = self.asked(call!(conversations.cancel_turn(request))).await;
    }

    /// Decides on every call that waits, now and then at two gateways at once.
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

    /// The same decisions at two gateways at once; whatever is answered is logged.
    async fn approve_twice(&mut self, request: &v1::ApproveRequest) {
        let (one, two) = (self.client().await, self.client().await);
        let decisions = Decisions::of(request);
        self.log.add(&self.tenant.org, What::Deciding(decisions.clone()));
        let send = |client: Client| {
            let request = request.clone();
            async move { tokio::time::timeout(PATIENCE, client.conversations.clone().approve(request)).await }
        };
        let (first, second) = tokio::join!(send(one), send(two));
        for answer in [first, second].into_iter().flatten().flatten() {
            self.log.add(&self.tenant.org, What::Answered(decisions.clone(), Box::new(answer.into_inner())));
        }
    }

    async fn approve(&mut self, request: v1::ApproveRequest) {
        let decisions = Decisions::of(&request);
        self.log.add(&self.tenant.org, What::Deciding(decisions.clone()));
        let answer = self.asked(call!(conversations.approve(request))).await;
        let what = match answer {
            Ok(answer) => {
                let answer = answer.into_inner();
                if let Some(Outcome::Failed(failed)) = &answer.outcome {
                    let error = failed.error.as_ref().map(|error| format!("{} {}", error.reason, error.message));
                    println!("  {} failed: {}", request.turn_id, error.unwrap_or_default());
                }
                What::Answered(decisions, Box::new(answer))
            }
            Err(error) => What::Refused(decisions, error.reason),
        };
        self.log.add(&self.tenant.org, what);
    }

    /// Makes a tag outside turns.
    async fn make(&mut self, name: &str) {
        let request_id = format!("make-{}", name.replace(' ', "-"));
        let request =
            v1::CreateTagRequest { tag: Some(v1::Tag { name: name.to_owned(), ..Default::default() }), request_id };
        let made = self.asked(call!(tags.create_tag(request))).await;
        match made {
            Ok(made) => {
                let id = made.into_inner().tag.expect("a tag").tag_id;
                self.log.add(&self.tenant.org, What::Made { id });
            }
            Err(error) => println!("  a tag was not made: {error}"),
        }
    }

    async fn list(&mut self) {
        let request = v1::ListTagsRequest::default();
        let listed = self.asked(call!(tags.list_tags(request))).await;
        if let Ok(listed) = listed {
            let names = listed.into_inner().tags.into_iter().map(|tag| tag.name).collect();
            self.log.add(&self.tenant.org, What::Listed(names));
        }
    }
}

/// Whether asking again may help.
fn is_again(error: &Error) -> bool {
    // A connection that broke is told as an internal error by the client itself.
    let broke = error.message.contains("transport error") || error.message.contains("canceled");
    matches!(error.code, Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted)
        || error.reason == Reason::TurnBusy
        || broke
}

async fn pause() {
    // Nothing says when the cluster works again.
    tokio::time::sleep(Duration::from_millis(100)).await;
}
