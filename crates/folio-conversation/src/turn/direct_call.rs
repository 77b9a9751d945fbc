//! Turns with a direct call: the client names the only tool call of the turn, and no model is called.
//!
//! The call becomes the round of such a turn. Every later step is that of a round of a model: policy, pause, decisions,
//! intent, effect and outcome. The turn completes when the call has a result.

use folio_history::event::EventKind;
use folio_history::journal::{AcceptedCall, End, Entry};
use folio_types::Timestamp;
use folio_types::message::{FinishReason, Usage};

use super::model::as_round;
use super::{CheckedCall, Machine, Reply};

/// Number of the round with the call.
const ROUND: u32 = 1;
/// Id of the call in the history, in the form that every provider accepts.
const PROVIDER_ID: &str = "direct_call";
/// The answer of the turn. Providers refuse an assistant message without a text.
const ANSWER: &str = "(The call has ended.)";

impl Machine {
    /// Runs the direct call of the open turn, or completes the turn if the call has a result.
    pub(super) fn direct_call(&mut self, now: Timestamp, call: AcceptedCall) {
        let Some(record) = self.history.open() else { return };
        if record.newest_round().is_some() {
            let (text, thinking) = (ANSWER.to_owned(), Vec::new());
            return self.end(now, End::Completed { text, thinking, finish: FinishReason::Stop });
        }
        let attempt = record.takeovers.saturating_add(1);
        let reply = as_reply(&record.accepted.options.model, call);
        let round = as_round(record, ROUND, reply);
        self.emit(EventKind::RoundStarted { round: ROUND, attempt });
        let Some(record) = self.open_mut() else { return };
        record.push(Entry::Round(Box::new(round)));
        self.emit_calls();
        self.advance(now);
    }
}

/// Converts the call to the answer of a model that requests it.
fn as_reply(model: &str, call: AcceptedCall) -> Reply {
    let AcceptedCall { name, arguments, access, problem, repairs } = call;
    let call = CheckedCall { provider_id: PROVIDER_ID.to_owned(), name, arguments, access, problem, repairs };
    Reply {
        model: model.to_owned(),
        text: String::new(),
        thinking: Vec::new(),
        calls: vec![call],
        finish: FinishReason::ToolCalls,
        usage: Usage::default(),
        answer_problem: None,
    }
}
