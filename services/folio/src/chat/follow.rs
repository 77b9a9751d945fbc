//! Follows a turn: shows events as they arrive, also after a lost connection.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use folio_client::{Start, TurnPosition, Update};
use folio_proto::v1;
use folio_proto::v1::event::Kind;
use tonic::{Response, Status};

use super::screen::ChatScreen;
use super::view::View;
use crate::client::{Client, RECONNECTING, explain, explain_error};
use crate::input::Input;
use crate::terminal::NOTE;

/// Delay between two reads of a turn whose decisions are not recorded yet.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

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

impl Follower<'_> {
    /// Shows the turn's events until the closing one, and returns that.
    pub(crate) async fn run(&mut self, turn: &mut TurnPosition, start: &Start) -> Result<Kind> {
        let mut events = self.client.events(start.clone(), turn.clone());
        loop {
            self.screen.wait(self.view.waiting());
            let next = tokio::select! {
                next = events.next_update() => next,
                () = self.input.cancelled() => {
                    self.cancel(turn).await;
                    continue;
                }
            };
            turn.clone_from(events.position());
            match next {
                Ok(Some(Update::Message(event))) => {
                    self.show(event);
                    if let Some(closing) = turn.closing() {
                        return Ok(closing.clone());
                    }
                }
                Ok(Some(Update::Reconnecting)) => self.screen.line(NOTE, &format!("({RECONNECTING})")),
                // The stream only repeated the closing event.
                Ok(None) => return turn.closing().cloned().context("the server closed the stream of the turn"),
                Err(error) if error.is_interruption() => {
                    bail!(ConnectionLost { is_accepted: !turn.turn_id.is_empty() })
                }
                Err(error) => return Err(explain_error(&error)),
            }
        }
    }

    fn show(&mut self, event: v1::Event) {
        let Some(kind) = event.kind else { return };
        self.view.set_width(self.screen.columns());
        self.screen.show(self.view.event(&kind, self.started_at.elapsed()));
    }

    /// Sends decisions, and shows the events of the turn until the server responds.
    pub(crate) async fn approve(
        &mut self,
        turn: &mut TurnPosition,
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

    async fn cancel(&mut self, turn: &TurnPosition) {
        if turn.turn_id.is_empty() {
            self.screen.line(NOTE, "(nothing to cancel yet)");
            return;
        }
        self.screen.line(NOTE, "(cancelling)");
        let request = v1::CancelTurnRequest { turn_id: turn.turn_id.clone(), request_id: String::new() };
        if let Err(status) = self.client.conversations().cancel_turn(request).await {
            self.screen.error(&explain(&status));
        }
    }
}
