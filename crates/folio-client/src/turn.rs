//! The events of a turn, with the decisions about its calls.

use std::time::Duration;

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_proto::v1::event::Kind;
use folio_types::{Code, RequestId, System};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};

use crate::approval::{Approval, Decision, approvals, approve_request};
use crate::connection::Client;
use crate::error::{Error, Result};
use crate::rejoined::{Opening, Rejoined, Update, opening};
use crate::turn_position::{TurnPosition, is_closing};

/// Delay between two streams of a turn whose decisions are not recorded yet.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The request that opens the first stream of a turn.
#[derive(Debug, Clone)]
pub enum Start {
    /// Starts a turn. Repeating the request with the same request id joins the turn.
    Chat(Box<v1::ChatRequest>),
    /// Resumes a failed turn.
    Resume(v1::ResumeTurnRequest),
    /// Watches a running or waiting turn.
    Watch,
}

/// The new events of a turn up to its closing event. A lost connection is opened again.
pub struct Events {
    client: Client,
    start: Start,
    position: TurnPosition,
    /// True if an event was received.
    has_started: bool,
    /// True if the closing event was received, also if it is not new.
    is_ended: bool,
    streams: Rejoined<Option<v1::Event>>,
}

impl Events {
    pub fn position(&self) -> &TurnPosition {
        &self.position
    }

    /// Returns the next new event, or the notice that the connection broke. None: the stream ended with the closing event, which
    /// [`TurnPosition::closing`] returns. Dropping the future loses no event.
    ///
    /// # Errors
    /// The server refuses the request, or the connection is lost and cannot be restored.
    pub async fn next_update(&mut self) -> Result<Option<Update<v1::Event>>> {
        while !self.is_ended {
            let Self { client, start, position, has_started, streams, .. } = self;
            let event = match streams.next(|| open(client, start, position, *has_started)).await? {
                Update::Message(Some(event)) => event,
                Update::Message(None) => continue,
                Update::Reconnecting => return Ok(Some(Update::Reconnecting)),
            };
            self.has_started = true;
            self.is_ended = event.kind.as_ref().is_some_and(is_closing);
            if self.position.accept(&event) {
                self.streams.progressed();
                return Ok(Some(Update::Message(event)));
            }
        }
        Ok(None)
    }

    /// Watches the turn again after its closing event.
    fn restart(&mut self) {
        self.is_ended = false;
        self.streams.restart();
    }
}

/// Opens the next stream of a turn. Before the first event, a repeated chat joins its turn.
fn open(client: &Client, start: &Start, position: &TurnPosition, has_started: bool) -> Opening<Option<v1::Event>> {
    let mut service = client.conversations();
    match start {
        Start::Chat(request) if !has_started => {
            let request = v1::ChatRequest::clone(request);
            opening(async move { service.chat(request).await }, |item: v1::ChatResponse| item.event)
        }
        Start::Resume(request) if !has_started => {
            let request = request.clone();
            opening(async move { service.resume_turn(request).await }, |item: v1::ResumeTurnResponse| item.event)
        }
        _ => {
            let request =
                v1::WatchTurnRequest { turn_id: position.turn_id.clone(), from_event: position.last_event + 1 };
            opening(async move { service.watch_turn(request).await }, |item: v1::WatchTurnResponse| item.event)
        }
    }
}

type Approver = Box<dyn FnMut(Approval) -> BoxFuture<'static, Decision> + Send>;

/// Decisions that were sent.
struct Sent {
    /// Number of the last event before the decisions.
    before: u64,
    answer: BoxFuture<'static, Result<v1::ApproveResponse>>,
    /// True if the turn waits for decisions of other users. None: the server has not answered.
    is_still_waiting: Option<bool>,
}

/// The events of a turn, without gaps and repetitions.
///
/// A lost connection is opened again. The events end with the closing event of the turn, or with `AwaitingApproval` if no decision
/// is made about the waiting calls. Dropping the value does not stop the turn: `CancelTurn` does.
pub struct Turn {
    events: Events,
    approver: Option<Approver>,
    sent: Option<Sent>,
    is_ended: bool,
}

impl Turn {
    /// Lets `approver` decide about each call that waits. Without it, the events end with `AwaitingApproval`.
    #[must_use]
    pub fn approving<F>(self, mut approver: impl FnMut(Approval) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Decision> + Send + 'static,
    {
        let approver: Approver =
            Box::new(move |approval| -> BoxFuture<'static, Decision> { Box::pin(approver(approval)) });
        Self { approver: Some(approver), ..self }
    }

    pub fn position(&self) -> &TurnPosition {
        &self.events.position
    }

    /// Returns the next event. None: the events ended.
    ///
    /// # Errors
    /// The server refuses the request, or the connection is lost and cannot be restored.
    pub async fn next(&mut self) -> Result<Option<v1::Event>> {
        while !self.is_ended {
            match self.update().await? {
                Some(Update::Message(event)) => return Ok(Some(event)),
                Some(Update::Reconnecting) => {}
                None => self.is_ended = !self.proceed().await?,
            }
        }
        Ok(None)
    }

    /// Returns the events as a stream.
    pub fn into_stream(self) -> BoxStream<'static, Result<v1::Event>> {
        let next = |mut turn: Self| async move { Ok::<_, Error>(turn.next().await?.map(|event| (event, turn))) };
        stream::try_unfold(self, next).boxed()
    }

    /// Reads the events to the end and returns the answer.
    ///
    /// # Errors
    /// The error of a failed turn. Any other end is an error, too.
    pub async fn completed(&mut self) -> Result<v1::Completed> {
        while self.next().await?.is_some() {}
        match self.position().closing() {
            Some(Kind::Completed(completed)) => Ok(completed.clone()),
            Some(Kind::Failed(failed)) => Err(Error::of_message(failed.error.clone().unwrap_or_default())),
            _ => Err(Error::new(Code::FailedPrecondition, "the turn is not completed")),
        }
    }

    /// Returns the next update of the stream. Meanwhile, the decisions are sent.
    async fn update(&mut self) -> Result<Option<Update<v1::Event>>> {
        loop {
            let Self { events, sent, .. } = self;
            let answer = match sent.as_mut().filter(|sent| sent.is_still_waiting.is_none()) {
                None => return events.next_update().await,
                Some(Sent { answer, .. }) => tokio::select! {
                    biased;
                    answer = answer => answer,
                    update = events.next_update() => return update,
                },
            };
            self.answered(answer)?;
        }
    }

    fn answered(&mut self, answer: Result<v1::ApproveResponse>) -> Result<()> {
        let Some(mut sent) = self.sent.take() else { return Ok(()) };
        sent.is_still_waiting = Some(matches!(answer?.outcome, Some(Outcome::StillAwaiting(_))));
        self.sent = Some(sent);
        Ok(())
    }

    /// Continues after the end of a stream. False: the events ended.
    async fn proceed(&mut self) -> Result<bool> {
        match self.sent.take() {
            // Until the decisions are recorded, a stream only repeats the known pause.
            Some(sent) if sent.before == self.position().last_event => {
                if sent.is_still_waiting == Some(true) {
                    return Ok(false);
                }
                self.sent = Some(sent);
                tokio::time::sleep(RECHECK_INTERVAL).await;
                self.events.restart();
                return Ok(true);
            }
            Some(sent) if sent.is_still_waiting.is_none() => {
                sent.answer.await?;
            }
            _ => {}
        }
        let (Some(waiting), Some(approver)) = (self.events.position.waiting().cloned(), &mut self.approver) else {
            return Ok(false);
        };
        let client = self.events.client.clone();
        let turn = v1::GetTurnRequest { turn_id: waiting.turn_id.clone() };
        let turn = client.repeat(|| {
            let (mut service, request) = (client.conversations(), turn.clone());
            async move { service.get_turn(request).await }
        });
        let approvable = turn.await?.turn.unwrap_or_default().approvable_call_ids;
        let mut decided = Vec::new();
        for approval in approvals(&waiting, &approvable) {
            let decision = approver(approval.clone()).await;
            decided.push((approval, decision));
        }
        let Some(request) = approve_request(&waiting, decided) else { return Ok(false) };
        self.sent = Some(Sent {
            before: self.events.position.last_event,
            answer: Box::pin(approve(client, request)),
            is_still_waiting: None,
        });
        self.events.restart();
        Ok(true)
    }
}

async fn approve(client: Client, request: v1::ApproveRequest) -> Result<v1::ApproveResponse> {
    let call = || {
        let (mut service, request) = (client.conversations(), request.clone());
        async move { service.approve(request).await }
    };
    client.repeat(call).await
}

impl Client {
    /// Sends a message. A request without a `request_id` gets one, so that a repetition joins the turn.
    pub fn chat(&self, mut request: v1::ChatRequest) -> Turn {
        set_request_id(&mut request.request_id);
        let position = TurnPosition::in_thread(&request.thread_id);
        self.turn(Start::Chat(Box::new(request)), position)
    }

    /// Resumes a failed turn.
    pub fn resume(&self, turn_id: &str) -> Turn {
        let request = v1::ResumeTurnRequest { turn_id: turn_id.to_owned(), ..Default::default() };
        self.turn(Start::Resume(request), TurnPosition::before(turn_id, 0))
    }

    /// Watches a turn from an event number.
    pub fn watch_turn(&self, turn_id: &str, from_event: u64) -> Turn {
        self.turn(Start::Watch, TurnPosition::before(turn_id, from_event))
    }

    /// Returns the new events of a turn after a position, up to the closing event, for callers that decide about calls themselves.
    pub fn events(&self, start: Start, position: TurnPosition) -> Events {
        let streams = Rejoined::new(self.retry);
        Events { client: self.clone(), start, position, has_started: false, is_ended: false, streams }
    }

    fn turn(&self, start: Start, position: TurnPosition) -> Turn {
        Turn { events: self.events(start, position), approver: None, sent: None, is_ended: false }
    }
}

/// Sets an idempotency key if the request has none.
pub(crate) fn set_request_id(request_id: &mut String) {
    if request_id.is_empty() {
        *request_id = RequestId::generate(&System).to_string();
    }
}
