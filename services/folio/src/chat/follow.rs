//! Follows a turn: shows events as they arrive, and reconnects at the next event if the stream breaks.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use folio_proto::v1;
use folio_proto::v1::event::Kind;
use futures::stream::{BoxStream, StreamExt as _};
use tonic::{Response, Status, Streaming};

use super::screen::ChatScreen;
use super::view::View;
use crate::client::{Client, explain};
use crate::input::Input;
use crate::reconnect::{RECONNECTING, Reconnection, is_broken, is_interrupted};
use crate::terminal::NOTE;

/// Delay between two reads of a turn whose decisions are not recorded yet.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

type Events = BoxStream<'static, Result<Option<v1::Event>, Status>>;

/// The request that opens the first stream of a turn.
#[derive(Debug, Clone)]
pub(crate) enum Start {
    /// Starts a turn. Repeating the request with the same request id joins the turn.
    Chat(Box<v1::ChatRequest>),
    /// Resumes a failed turn.
    Resume(v1::ResumeTurnRequest),
    /// Watches a running or waiting turn.
    Watch,
}

/// A turn across all its streams.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Turn {
    /// Empty until the turn has started.
    pub(crate) id: String,
    /// Empty until the turn has started.
    pub(crate) thread: String,
    /// Empty until the turn has started.
    pub(crate) model: String,
    /// Number of the last received event.
    pub(crate) last_event: u64,
}

pub(crate) struct Follower<'a> {
    pub(crate) client: &'a Client,
    pub(crate) screen: &'a mut ChatScreen,
    pub(crate) view: &'a mut View,
    pub(crate) input: &'a mut Input,
    pub(crate) started_at: Instant,
}

/// The server did not answer several attempts to reconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionLost {
    /// If true, the turn is known to the server, which continues it.
    pub(crate) is_accepted: bool,
}

impl fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_accepted {
            "the connection is lost; the turn continues on the server"
        } else {
            "the connection is lost; it is unknown whether the server received the message"
        })
    }
}

impl std::error::Error for ConnectionLost {}

/// The reason why a stream ended.
enum StreamEnd {
    /// The stream ended with the turn's closing event.
    Closed(Box<Kind>),
    /// The stream ended before the closing event.
    Broken,
}

impl Follower<'_> {
    /// Shows the turn's events until the closing one, and returns that.
    pub(crate) async fn run(&mut self, turn: &mut Turn, start: &Start) -> Result<Kind> {
        let (mut reconnection, before) = (Reconnection::default(), turn.last_event);
        loop {
            let seen = turn.last_event;
            match self.open(turn, start, seen == before).await {
                Ok(events) => match self.show_events(turn, events).await? {
                    StreamEnd::Closed(kind) => return Ok(*kind),
                    StreamEnd::Broken => {}
                },
                Err(status) if is_broken(&status) => {}
                Err(status) => return Err(explain(&status)),
            }
            let Some(delay) = reconnection.delay(turn.last_event > seen) else {
                bail!(ConnectionLost { is_accepted: !turn.id.is_empty() });
            };
            if reconnection.is_first() {
                self.screen.line(NOTE, &format!("({RECONNECTING})"));
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Opens a stream. `first`: no event was received since the start of [`Self::run`].
    async fn open(&self, turn: &Turn, start: &Start, first: bool) -> Result<Events, Status> {
        let mut conversations = self.client.conversations();
        match start {
            Start::Chat(request) if turn.id.is_empty() => {
                Ok(events(conversations.chat(v1::ChatRequest::clone(request)).await?, |item| item.event))
            }
            Start::Resume(request) if first => {
                Ok(events(conversations.resume_turn(request.clone()).await?, |item| item.event))
            }
            _ => {
                let request = v1::WatchTurnRequest { turn_id: turn.id.clone(), from_event: turn.last_event + 1 };
                Ok(events(conversations.watch_turn(request).await?, |item| item.event))
            }
        }
    }

    async fn show_events(&mut self, turn: &mut Turn, mut events: Events) -> Result<StreamEnd> {
        loop {
            self.screen.wait(self.view.waiting());
            let next = tokio::select! {
                next = events.next() => next,
                () = self.input.cancelled() => {
                    self.cancel(turn).await;
                    continue;
                }
            };
            match next {
                Some(Ok(Some(event))) => {
                    if let Some(closing) = self.event(turn, event) {
                        return Ok(StreamEnd::Closed(Box::new(closing)));
                    }
                }
                Some(Ok(None)) => {}
                Some(Err(status)) if !is_interrupted(&status) => return Err(explain(&status)),
                Some(Err(_)) | None => return Ok(StreamEnd::Broken),
            }
        }
    }

    fn event(&mut self, turn: &mut Turn, event: v1::Event) -> Option<Kind> {
        let kind = event.kind?;
        turn.id = event.turn_id;
        if let Kind::TurnStarted(started) = &kind {
            turn.thread.clone_from(&started.thread_id);
            turn.model.clone_from(&started.model);
        }
        let is_new = event.number > turn.last_event;
        turn.last_event = turn.last_event.max(event.number);
        if let Kind::Snapshot(v1::Snapshot { turn: Some(state) }) = &kind {
            turn.thread.clone_from(&state.thread_id);
        }
        if is_new {
            self.view.set_width(self.screen.columns());
            self.screen.show(self.view.event(&kind, self.started_at.elapsed()));
        }
        is_closing(&kind).then_some(kind)
    }

    /// Sends decisions, and shows the events of the turn until the server responds.
    pub(crate) async fn approve(
        &mut self,
        turn: &mut Turn,
        request: v1::ApproveRequest,
    ) -> Result<v1::ApproveResponse, Status> {
        let mut conversations = self.client.conversations();
        let mut approving = std::pin::pin!(conversations.approve(request));
        let before = turn.last_event;
        loop {
            tokio::select! {
                biased;
                answer = &mut approving => return answer.map(Response::into_inner),
                closing = self.run(turn, &Start::Watch) => {
                    // Until the decisions are recorded, the watch only repeats the known pause.
                    if closing.is_err() || turn.last_event > before {
                        return approving.await.map(Response::into_inner);
                    }
                    tokio::time::sleep(RECHECK_INTERVAL).await;
                }
            }
        }
    }

    async fn cancel(&mut self, turn: &Turn) {
        if turn.id.is_empty() {
            self.screen.line(NOTE, "(nothing to cancel yet)");
            return;
        }
        self.screen.line(NOTE, "(cancelling)");
        let request = v1::CancelTurnRequest { turn_id: turn.id.clone(), request_id: String::new() };
        if let Err(status) = self.client.conversations().cancel_turn(request).await {
            self.screen.error(&explain(&status));
        }
    }
}

fn events<T: Send + 'static>(response: Response<Streaming<T>>, event: fn(T) -> Option<v1::Event>) -> Events {
    response.into_inner().map(move |item| item.map(event)).boxed()
}

fn is_closing(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::AwaitingApproval(_)
            | Kind::Completed(_)
            | Kind::Failed(_)
            | Kind::Cancelled(_)
            | Kind::Expired(_)
            | Kind::Superseded(_)
    )
}
