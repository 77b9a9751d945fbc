//! Translates the events of a turn to the frames of DocRouter's event stream. No I/O.
//!
//! | event | frames |
//! |---|---|
//! | `ThinkingDelta`, `TextDelta` | `thinking_chunk`, `assistant_text_chunk` |
//! | first `ToolStarted` or `ToolResult` of a round | `tool_calls`: calls that wait are not announced |
//! | `ToolResult` | `tool_result` |
//! | `WaitingForStore` | `waiting_for_store`, which DocRouter's page ignores |
//! | `RoundFinished` of a round with calls that ran | `round_executed` |
//! | `Snapshot` | the frames of the rounds that were not sent, and the missing part of the text |
//! | `AwaitingApproval`, `Completed` | `thinking_done`, `assistant_text_done`, `done` |
//! | `Failed`, `Cancelled`, `Expired`, `Superseded` | `error` |

use folio_history::event::{CallView, Event, EventKind, RoundView, TurnView};
use folio_history::journal::CallStatus;
use serde_json::{Value, json};

use super::result::{PendingCalls, TurnResult, WorkingBody, answer, calls, executed, given};
use crate::json_member::set_member;
use crate::rest::events::error_frame;

/// Maximum number of characters of the preview of a result.
const PREVIEW_CHARS: usize = 200;

/// The state of a stream: what the client has received of the current round.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Number of the current round, from 1. 0: no round has begun.
    round: u32,
    text: String,
    thinking: String,
    calls: Vec<CallView>,
    /// True if the frame `tool_calls` of the round was sent.
    is_announced: bool,
    /// Number of results of the round that were sent.
    results: usize,
}

impl Frames {
    /// Returns the frames of an event. `paused`: the turn that waits, for an event `AwaitingApproval`. None: it cannot be read.
    pub(super) fn of(&mut self, event: &Event, paused: Option<&TurnView>) -> Vec<Value> {
        match &event.kind {
            EventKind::TurnStarted { .. }
            | EventKind::NodeStarted { .. }
            | EventKind::NodeEnded { .. }
            | EventKind::TasksStarted { .. }
            | EventKind::TaskEnded { .. } => Vec::new(),
            EventKind::RoundStarted { round, .. } => {
                self.begin(*round);
                Vec::new()
            }
            EventKind::ThinkingDelta { text } => {
                self.thinking.push_str(text);
                vec![self.chunk("thinking_chunk", text)]
            }
            EventKind::TextDelta { text } => {
                self.text.push_str(text);
                vec![self.chunk("assistant_text_chunk", text)]
            }
            EventKind::ToolCalls { calls } => {
                self.calls.clone_from(calls);
                Vec::new()
            }
            EventKind::ToolStarted { .. } => self.announcement().into_iter().collect(),
            // The call may wait before it starts, so its round is not announced.
            EventKind::WaitingForStore { call, name } => vec![self.waiting_for_store(&call.to_string(), name)],
            EventKind::ToolResult { call, name, status, content } => {
                let announcement = self.announcement();
                self.results = self.results.saturating_add(1);
                let result = self.result(&call.to_string(), name, *status, content);
                announcement.into_iter().chain([result]).collect()
            }
            EventKind::RoundFinished { .. } => self.executed_frame().into_iter().collect(),
            EventKind::Snapshot(view) => self.catch_up(view),
            EventKind::AwaitingApproval { pending, expires_at, .. } => {
                let pending = PendingCalls::new(&event.turn, pending, *expires_at);
                let (rounds, working) = paused
                    .map_or_else(Default::default, |view| (view.rounds.as_slice(), WorkingBody::from(&view.working)));
                self.done(rounds, working, Some(pending), None)
            }
            EventKind::Completed { text, thinking, working, rounds, finish, .. } => {
                let last = (answer(text, *finish), thinking.clone());
                self.done(rounds, working.into(), None, Some(last))
            }
            EventKind::Failed { error, .. } => vec![error_frame(error)],
            EventKind::Cancelled => vec![ended_frame("The turn was cancelled")],
            EventKind::Expired => vec![ended_frame("The approval expired")],
            EventKind::Superseded => vec![ended_frame("Another message superseded the turn")],
        }
    }

    fn index(&self) -> u32 {
        self.round.saturating_sub(1)
    }

    /// Begins a round, or another attempt of it.
    fn begin(&mut self, round: u32) {
        *self = Self { round, ..Self::default() };
    }

    fn chunk(&self, kind: &str, text: &str) -> Value {
        json!({ "type": kind, "chunk": text, "round_index": self.index() })
    }

    /// Returns the frame `tool_calls` unless it was sent.
    fn announcement(&mut self) -> Option<Value> {
        let is_new = !std::mem::replace(&mut self.is_announced, true);
        is_new.then(|| json!({ "type": "tool_calls", "round_index": self.index(), "tool_calls": calls(&self.calls) }))
    }

    fn waiting_for_store(&self, call: &str, name: &str) -> Value {
        json!({ "type": "waiting_for_store", "round_index": self.index(), "call_id": call, "name": name })
    }

    fn result(&self, call: &str, name: &str, status: CallStatus, content: &str) -> Value {
        let success = status == CallStatus::Ok;
        let mut frame = json!({
            "type": "tool_result", "round_index": self.index(), "call_id": call, "name": name, "success": success,
        });
        match success {
            true => {
                set_member(&mut frame, "result", json!(content));
                set_member(&mut frame, "preview", json!(preview(content)));
            }
            false => set_member(&mut frame, "error", json!(content)),
        }
        frame
    }

    /// Returns the frame `round_executed` if calls of the round ran.
    fn executed_frame(&mut self) -> Option<Value> {
        if !std::mem::take(&mut self.is_announced) {
            return None;
        }
        let (thinking, tool_calls) = (given(&self.thinking), calls(&self.calls));
        Some(json!({
            "type": "round_executed", "round_index": self.index(), "thinking": thinking, "tool_calls": tool_calls,
        }))
    }

    /// Returns the frames of what a snapshot contains and the client has not received.
    fn catch_up(&mut self, view: &TurnView) -> Vec<Value> {
        let mut frames = Vec::new();
        let first = self.round.max(1);
        for round in view.rounds.iter().filter(|round| round.round >= first) {
            if round.round != self.round {
                frames.extend(self.executed_frame());
                self.begin(round.round);
            }
            frames.extend(self.rest_of(round));
        }
        frames
    }

    fn rest_of(&mut self, round: &RoundView) -> Vec<Value> {
        let mut frames = Vec::new();
        for (kind, sent, text) in [
            ("thinking_chunk", &mut self.thinking, &round.thinking),
            ("assistant_text_chunk", &mut self.text, &round.text),
        ] {
            // A text that does not continue the one that was sent belongs to another attempt.
            let missing = text.strip_prefix(sent.as_str()).unwrap_or(text);
            if !missing.is_empty() {
                frames.push(json!({ "type": kind, "chunk": missing, "round_index": round.round.saturating_sub(1) }));
            }
            sent.clone_from(text);
        }
        self.calls.clone_from(&round.calls);
        for result in round.results.iter().skip(self.results) {
            frames.extend(self.announcement());
            let name = round.calls.iter().find(|call| call.id == result.call).map_or("", |call| call.name.as_str());
            frames.push(self.result(&result.call.to_string(), name, result.status, &result.content));
        }
        self.results = round.results.len();
        frames
    }

    /// Returns the last frames of a turn that is completed or waits. `last`: text and thinking of the answer; None: those of the
    /// current round.
    fn done(
        &self,
        rounds: &[RoundView],
        working_state: WorkingBody,
        pending: Option<PendingCalls>,
        last: Option<(String, String)>,
    ) -> Vec<Value> {
        // A repeated request may receive only the last event.
        let stored = rounds.last().filter(|_| self.round == 0);
        let (text, thinking) = match (last, stored) {
            (Some(last), _) => last,
            (None, Some(round)) => (round.text.clone(), round.thinking.clone()),
            (None, None) => (self.text.clone(), self.thinking.clone()),
        };
        let (thinking, executed_rounds, index) = (given(&thinking), executed(rounds, 1), self.index());
        let mut frames = Vec::new();
        if let Some(thinking) = &thinking {
            frames.push(json!({ "type": "thinking_done", "thinking": thinking, "round_index": index }));
        }
        frames.push(json!({ "type": "assistant_text_done", "full_text": text, "round_index": index }));
        let result = TurnResult::new((text, thinking), working_state, executed_rounds, pending);
        frames.push(json!({ "type": "done", "result": result }));
        frames
    }
}

/// Returns the last frame of a stream that ends with an error.
fn ended_frame(text: &str) -> Value {
    json!({ "type": "error", "error": text })
}

fn preview(content: &str) -> String {
    match content.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => content.get(..end).unwrap_or_default().to_owned() + "…",
        None => content.to_owned(),
    }
}

#[cfg(test)]
mod tests;
