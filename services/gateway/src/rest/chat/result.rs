//! The result of a turn, as DocRouter's page reads it.

use folio_history::event::{CallView, RoundView};
use folio_history::journal::WorkingState;
use folio_types::message::FinishReason;
use folio_types::{Timestamp, TurnId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The text of a turn that ended at its limit of rounds.
const LIMIT_TEXT: &str = "(Max tool rounds reached.)";

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct CallBody {
    /// Identifies the call.
    pub(super) id: String,
    /// The name of the tool.
    pub(super) name: String,
    /// The arguments as JSON.
    pub(super) arguments: String,
}

impl From<&CallView> for CallBody {
    fn from(call: &CallView) -> Self {
        Self { id: call.id.to_string(), name: call.name.clone(), arguments: call.arguments.to_string() }
    }
}

pub(super) fn calls(calls: &[CallView]) -> Vec<CallBody> {
    calls.iter().map(Into::into).collect()
}

/// A round whose calls have ended.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct RoundBody {
    /// The thinking before the calls.
    pub(super) thinking: Option<String>,
    /// The calls.
    pub(super) tool_calls: Vec<CallBody>,
}

/// The resources on which the conversation works.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub(super) struct WorkingBody {
    /// The version of the schema that was created last.
    pub(super) schema_revid: Option<String>,
    /// The version of the prompt that was created or run last.
    pub(super) prompt_revid: Option<String>,
    /// The data of the extraction that was created or edited last.
    #[schema(value_type = Option<Object>)]
    pub(super) extraction: Option<Value>,
}

impl From<&WorkingState> for WorkingBody {
    fn from(working: &WorkingState) -> Self {
        Self {
            schema_revid: working.schema_revid.as_ref().map(ToString::to_string),
            prompt_revid: working.prompt_revid.as_ref().map(ToString::to_string),
            extraction: working.extraction.as_ref().map(|extraction| extraction.data.clone()),
        }
    }
}

/// The calls for whose decisions a turn waits.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct PendingCalls {
    /// Identifies the turn.
    pub(super) turn_id: String,
    /// All calls of the round.
    pub(super) tool_calls: Vec<CallBody>,
    /// The time from which decisions are refused.
    #[schema(value_type = String, format = DateTime)]
    pub(super) expires_at: Timestamp,
}

impl PendingCalls {
    pub(super) fn new(turn: &TurnId, pending: &[CallView], expires_at: Timestamp) -> Self {
        Self { turn_id: turn.to_string(), tool_calls: calls(pending), expires_at }
    }
}

/// The result of a turn that is completed, or that waits for decisions.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct TurnResult {
    /// The answer, or the text before the calls that wait. May be empty.
    pub(super) text: String,
    /// The thinking before the answer.
    pub(super) thinking: Option<String>,
    /// The resources on which the conversation works.
    pub(super) working_state: WorkingBody,
    /// The rounds whose calls have ended. After an approval, the first one is the decided round. Null: none.
    pub(super) executed_rounds: Option<Vec<RoundBody>>,
    /// Identifies the turn, for the decisions. Absent: the turn is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) turn_id: Option<String>,
    /// All calls of the round that waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<Vec<CallBody>>,
    /// The time from which decisions are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) expires_at: Option<Timestamp>,
}

impl TurnResult {
    /// `pending`: the calls that wait. None: the turn is completed.
    pub(super) fn new(
        (text, thinking): (String, Option<String>),
        working_state: WorkingBody,
        executed_rounds: Option<Vec<RoundBody>>,
        pending: Option<PendingCalls>,
    ) -> Self {
        let (turn_id, tool_calls, expires_at) = match pending {
            Some(PendingCalls { turn_id, tool_calls, expires_at }) => {
                (Some(turn_id), Some(tool_calls), Some(expires_at))
            }
            None => (None, None, None),
        };
        Self { text, thinking, working_state, executed_rounds, turn_id, tool_calls, expires_at }
    }
}

/// Returns a text, or None if it is empty.
pub(super) fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the rounds from number `first` on whose calls have ended. None: there is none.
pub(super) fn executed(rounds: &[RoundView], first: u32) -> Option<Vec<RoundBody>> {
    let is_executed = |round: &&RoundView| {
        round.round >= first && !round.calls.is_empty() && round.results.len() >= round.calls.len()
    };
    let bodies: Vec<RoundBody> = rounds
        .iter()
        .filter(is_executed)
        .map(|round| RoundBody { thinking: given(&round.thinking), tool_calls: calls(&round.calls) })
        .collect();
    (!bodies.is_empty()).then_some(bodies)
}

/// Returns the answer of a turn. The clients know the text of a turn that reached its limit of rounds.
pub(super) fn answer(text: &str, finish: FinishReason) -> String {
    let is_limit = finish == FinishReason::MaxRounds && text.contains("tool rounds");
    if is_limit { LIMIT_TEXT.to_owned() } else { text.to_owned() }
}

#[cfg(test)]
pub(super) mod tests {
    use folio_history::event::ResultView;
    use folio_history::journal::{Access, CallStatus};
    use folio_types::{CallId, Digest, ThreadId};
    use serde_json::json;

    use super::*;

    pub(in crate::rest::chat) fn turn() -> TurnId {
        TurnId::new(ThreadId::derive(&["t"]), 1)
    }

    pub(in crate::rest::chat) fn call(round: u32, index: u32, needs_approval: bool) -> CallView {
        let arguments = json!({ "name": "a" });
        CallView {
            id: CallId::new(turn(), round, index),
            name: "create_tag".to_owned(),
            digest: Digest::of_json(&arguments),
            arguments,
            access: Access::ReadWrite,
            needs_approval,
            approval_requirement: None,
            group: None,
        }
    }

    /// Returns a round with two calls, of which `results` have ended.
    pub(in crate::rest::chat) fn round(number: u32, results: u32) -> RoundView {
        let result = |index| ResultView {
            call: CallId::new(turn(), number, index),
            status: CallStatus::Ok,
            content: "{}".to_owned(),
        };
        RoundView {
            round: number,
            text: String::new(),
            thinking: String::new(),
            calls: vec![call(number, 1, false), call(number, 2, false)],
            results: (1..=results).map(result).collect(),
            node: None,
        }
    }

    #[test]
    fn executed_rounds_have_all_results() {
        let rounds = [round(1, 2), round(2, 2), round(3, 1)];
        let count = |first| executed(&rounds, first).map(|rounds| rounds.len());
        assert_eq!((count(1), count(2), count(3)), (Some(2), Some(1), None));
    }

    #[test]
    fn the_calls_of_a_waiting_turn_are_members_of_its_result() {
        let pending = PendingCalls::new(&turn(), &[call(1, 1, true)], Timestamp::UNIX_EPOCH);
        let result = |pending| TurnResult::new((String::new(), None), WorkingBody::default(), None, pending);
        let written = json!(result(Some(pending)));
        assert_eq!((&written["turn_id"], &written["thinking"]), (&json!(turn()), &Value::Null));
        assert_eq!(written["tool_calls"][0]["arguments"], r#"{"name":"a"}"#);
        let completed = json!(result(None));
        assert!(completed.get("turn_id").is_none() && completed["executed_rounds"].is_null(), "{completed}");
    }

    #[test]
    fn the_limit_of_rounds_has_the_text_that_clients_know() {
        let text = "(The maximum number of tool rounds was reached.)";
        assert_eq!(answer(text, FinishReason::MaxRounds), LIMIT_TEXT);
        assert_eq!(answer(text, FinishReason::Stop), text);
        assert_eq!(answer("(The maximum size of a turn was reached.)", FinishReason::MaxRounds).len(), 41);
    }
}
