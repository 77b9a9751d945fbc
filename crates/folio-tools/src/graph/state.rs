//! The memory of a thread whose profile has a graph: the working state of the profile after each answered turn.
//!
//! The model only writes the summary. Everything else is derived from the record of the turn, so that every owner of the turn
//! computes the same state, also if the model fails.

use folio_history::TurnRecord;
use folio_history::journal::CallStatus;
use folio_types::profile::{NodeKind, Subject};
use folio_types::{ThreadId, limits};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::retrieved::Retrieved;
use crate::scope::DocumentScope;

/// Maximum bytes of the summary, of the user's message and of the answer in the state.
const SUMMARY_BYTES: usize = 6 * 1024;
const INPUT_BYTES: usize = 1024;
const RESPONSE_BYTES: usize = 6 * 1024;
/// Maximum number of documents, of numeric results, of names of tools and of actions.
const DOCUMENTS_MAX: usize = 20;
const NUMBERS_MAX: usize = 20;
const TOOLS_MAX: usize = 32;
// proto: WorkingState.profile_state_json "the newest {} actions"
const ACTIONS_MAX: usize = 150;
/// Maximum bytes of an expression in the state.
const EXPRESSION_BYTES: usize = 120;

/// The state of a conversation between turns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentState {
    /// The beginning of the newest message of the user.
    pub user_input: String,
    /// The answer of the node that classified the message.
    pub intent: Option<Value>,
    /// The node that answered.
    pub next_step: Option<String>,
    pub conversation_summary: Option<String>,
    /// Documents of the newest turns, newest first: sources of answers before other retrieved documents.
    pub active_documents: Vec<String>,
    /// The newest answer. None: it is too large for the state.
    pub current_response: Option<Value>,
    /// Computed values, newest last.
    pub numeric_results: Vec<NumericResult>,
    /// Tools that succeeded, in the order of their first use.
    pub tools_used: Vec<String>,
    /// The nodes of all turns, oldest first. Only the newest are kept.
    pub actions_taken: Vec<String>,
    /// Number of older actions that are not kept.
    pub actions_omitted: u64,
    /// Tags and collections that the newest message mentions.
    pub mentioned_tags: Vec<String>,
    pub mentioned_collections: Vec<String>,
    /// Id of the thread.
    pub session_id: String,
    /// Requester of the newest turn.
    pub user_id: Option<String>,
}

/// A value that the calculator computed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NumericResult {
    pub expression: String,
    pub result: Value,
}

/// Returns the working state of the profile after an answered turn, with at most
/// [`PROFILE_STATE_BYTES`](limits::PROFILE_STATE_BYTES).
pub fn state_after(record: &TurnRecord, thread: &ThreadId) -> Box<Value> {
    let stored = record.accepted.working.profile_state.as_deref().cloned();
    let before: AgentState = stored.and_then(|state| serde_json::from_value(state).ok()).unwrap_or_default();
    Box::new(before.after(record, thread).into_value())
}

impl AgentState {
    fn after(mut self, record: &TurnRecord, thread: &ThreadId) -> Self {
        let answer = record.node_answer(NodeKind::Answer);
        self.session_id = thread.to_string();
        self.user_id = Some(record.accepted.user.to_string());
        self.user_input.clone_from(&record.accepted.text);
        truncate(&mut self.user_input, INPUT_BYTES);
        let DocumentScope { tags, collections } =
            DocumentScope::of_turn(Some(&Subject::Organization), &record.accepted.mentions);
        self.mentioned_tags = tags.iter().map(ToString::to_string).collect();
        self.mentioned_collections = collections.iter().map(ToString::to_string).collect();
        self.intent = record.node_answer(NodeKind::Route).map(|(_, intent)| intent.clone());
        self.next_step = answer.map(|(node, _)| node.name.clone());
        let answer = answer.map(|(_, answer)| answer);
        self.summarize(record, answer);
        self.remember_documents(record, answer);
        self.remember_number(answer);
        self.remember_tools(record);
        self.remember_actions(record);
        self.current_response = answer.filter(|answer| answer.to_string().len() <= RESPONSE_BYTES).cloned();
        self
    }

    /// Sets the summary that the model wrote. If the answer of the turn is a summary, appends it.
    fn summarize(&mut self, record: &TurnRecord, answer: Option<&Value>) {
        let text = |value: &Value| value.get("summary").and_then(Value::as_str).map(str::to_owned);
        let written = record.node_answer(NodeKind::Memory).and_then(|(_, memory)| text(memory));
        let kept = written.or_else(|| self.conversation_summary.take());
        let appended = answer.and_then(text);
        let mut parts: Vec<String> = kept.into_iter().chain(appended).filter(|part| !part.trim().is_empty()).collect();
        // Beyond the bound, each part keeps an equal share, so that an earlier summary cannot displace the newest one.
        let line_breaks = parts.len().saturating_sub(1);
        if parts.iter().map(String::len).sum::<usize>() + line_breaks > SUMMARY_BYTES {
            let share = (SUMMARY_BYTES - line_breaks) / parts.len().max(1);
            parts.iter_mut().for_each(|part| truncate(part, share));
        }
        self.conversation_summary = Some(parts.join("\n")).filter(|summary| !summary.is_empty());
    }

    fn remember_documents(&mut self, record: &TurnRecord, answer: Option<&Value>) {
        let sources = answer.and_then(|answer| answer.get("sources")).and_then(Value::as_array);
        let sources = sources.into_iter().flatten().filter_map(Value::as_str);
        let retrieved = Retrieved::of(record);
        let mut documents: Vec<String> = Vec::new();
        let earlier = std::mem::take(&mut self.active_documents);
        for id in sources.chain(retrieved.documents()).chain(earlier.iter().map(String::as_str)) {
            if documents.len() < DOCUMENTS_MAX && !documents.iter().any(|known| known == id) {
                documents.push(id.to_owned());
            }
        }
        self.active_documents = documents;
    }

    fn remember_number(&mut self, answer: Option<&Value>) {
        let Some(answer) = answer else { return };
        let (Some(expression), Some(result)) = (answer.get("expression").and_then(Value::as_str), answer.get("result"))
        else {
            return;
        };
        let mut expression = expression.to_owned();
        truncate(&mut expression, EXPRESSION_BYTES);
        self.numeric_results.push(NumericResult { expression, result: result.clone() });
        let excess = self.numeric_results.len().saturating_sub(NUMBERS_MAX);
        self.numeric_results.drain(..excess);
    }

    fn remember_tools(&mut self, record: &TurnRecord) {
        let calls = record.rounds.iter().flat_map(|round| &round.calls);
        for call in calls.filter(|call| call.status() == Some(CallStatus::Ok)) {
            let name = &call.call.name;
            if self.tools_used.len() < TOOLS_MAX && !self.tools_used.contains(name) {
                self.tools_used.push(name.clone());
            }
        }
    }

    /// Adds the nodes that ran, each once, and the memory node also if its model failed: code has updated the memory.
    fn remember_actions(&mut self, record: &TurnRecord) {
        let ended = record.rounds.iter().filter(|round| round.node_end().is_some());
        let ended = ended.filter_map(|round| round.node.as_ref()).filter(|node| node.kind != NodeKind::Memory);
        self.actions_taken.extend(ended.map(|node| node.name.clone()));
        let memory = record.accepted.options.graph().iter().find(|node| node.kind == NodeKind::Memory);
        self.actions_taken.extend(memory.map(|node| node.name.clone()));
        self.omit_actions(self.actions_taken.len().saturating_sub(ACTIONS_MAX));
    }

    fn omit_actions(&mut self, count: usize) {
        let count = count.min(self.actions_taken.len());
        self.actions_taken.drain(..count);
        self.actions_omitted = self.actions_omitted.saturating_add(count as u64);
    }

    /// Returns the state as JSON within its bound. The parts that can be restored most easily are dropped first.
    fn into_value(mut self) -> Value {
        loop {
            let value = serde_json::to_value(&self).unwrap_or_default();
            if value.to_string().len() <= limits::PROFILE_STATE_BYTES || !self.shrink() {
                return value;
            }
        }
    }

    /// Drops a part of the state. False: nothing is left to drop.
    fn shrink(&mut self) -> bool {
        if self.current_response.take().is_some() || self.intent.take().is_some() {
            return true;
        }
        if !self.numeric_results.is_empty() {
            self.numeric_results.drain(..1);
        } else if !self.actions_taken.is_empty() {
            self.omit_actions(self.actions_taken.len().div_ceil(2));
        } else if self.conversation_summary.is_some() {
            self.conversation_summary = None;
        } else if self.tools_used.pop().is_none() && self.active_documents.pop().is_none() {
            return !std::mem::take(&mut self.user_input).is_empty();
        }
        true
    }
}

fn truncate(text: &mut String, bytes: usize) {
    text.truncate(text.floor_char_boundary(bytes));
}

#[cfg(test)]
mod tests {
    use folio_history::journal::{Entry, Mention, NodeEnd, Round, RoundNode};
    use folio_resources::CollectionId;
    use folio_types::TagId;
    use serde_json::json;

    use super::super::answer::tests::{node, passage, record};
    use super::*;

    fn thread() -> ThreadId {
        ThreadId::derive(&["t"])
    }

    fn end(record: &mut TurnRecord, name: &str, kind: NodeKind, answer: Option<Value>) {
        let end = Some(NodeEnd { answer, is_default: false, next: None });
        let node = RoundNode { name: name.to_owned(), kind, answer_type: "T".to_owned(), end };
        let round = record.rounds.len() as u32 + 1;
        record.push(Entry::Round(Box::new(Round { turn: 1, round, node: Some(Box::new(node)), ..Round::default() })));
    }

    fn state(value: &Value) -> AgentState {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn calculation() -> TurnRecord {
        let passages = json!({ "passages": [passage("doc_b", "x"), passage("doc_a", "y")] });
        let mut record = record(&[
            ("retrieve_documents", json!({}), CallStatus::Ok, passages),
            (
                "calculator",
                json!({ "expression": "1/0" }),
                CallStatus::Failed,
                json!({ "error": "Invalid expression" }),
            ),
        ]);
        end(&mut record, "classify_intent", NodeKind::Route, Some(json!({ "intent_type": "calculation" })));
        let answer = json!({ "formula": "f", "expression": "1+1", "result": 2, "sources": ["doc_a"] });
        end(&mut record, "calculation_agent", NodeKind::Answer, Some(answer));
        end(&mut record, "update_memory", NodeKind::Memory, Some(json!({ "summary": "The sum is 2." })));
        record
    }

    #[test]
    fn a_turn_leaves_its_documents_numbers_tools_and_summary() {
        let found = state(&state_after(&calculation(), &thread()));
        assert_eq!(found.active_documents, ["doc_a", "doc_b"], "sources first");
        assert_eq!(found.numeric_results, [NumericResult { expression: "1+1".to_owned(), result: json!(2) }]);
        assert_eq!(found.tools_used, ["retrieve_documents"], "a failed call counts not");
        assert_eq!(found.conversation_summary.as_deref(), Some("The sum is 2."));
        assert_eq!(found.next_step.as_deref(), Some("calculation_agent"));
        assert_eq!((found.user_input.as_str(), found.session_id), ("question", thread().to_string()));
        assert_eq!(found.actions_taken, ["classify_intent", "calculation_agent"], "this record has no graph");
    }

    #[test]
    fn the_state_has_the_tags_and_collections_of_the_newest_message_only() {
        let (tag, collection) = (TagId::derive(&["a"]), CollectionId::derive(&["b"]));
        let mut record = calculation();
        record.accepted.mentions = vec![Mention::Tag(tag.clone()), Mention::Collection(collection.clone())];
        let before = state_after(&record, &thread());
        let found = state(&before);
        assert_eq!(found.mentioned_tags, [tag.to_string()]);
        assert_eq!(found.mentioned_collections, [collection.to_string()]);
        record.accepted.mentions.clear();
        record.accepted.working.profile_state = Some(before);
        let found = state(&state_after(&record, &thread()));
        assert!(found.mentioned_tags.is_empty() && found.mentioned_collections.is_empty(), "{found:?}");
    }

    #[test]
    fn a_failed_memory_keeps_the_summary_and_a_summarization_is_appended() {
        let mut record = record(&[]);
        record.accepted.working.profile_state = Some(Box::new(json!({ "conversation_summary": "Before." })));
        let answer = json!({ "summary": "Three risks.", "sources": [] });
        end(&mut record, "summarization_agent", NodeKind::Answer, Some(answer));
        end(&mut record, "update_memory", NodeKind::Memory, None);
        let found = state(&state_after(&record, &thread()));
        assert_eq!(found.conversation_summary.as_deref(), Some("Before.\nThree risks."));
    }

    #[test]
    fn a_long_summary_fills_its_bound_and_leaves_bytes_for_a_summarization() {
        let long = "é".repeat(SUMMARY_BYTES);
        let mut written = record(&[]);
        end(&mut written, "update_memory", NodeKind::Memory, Some(json!({ "summary": long })));
        let before = state_after(&written, &thread());
        let summary = state(&before).conversation_summary.unwrap();
        assert_eq!(summary.len(), SUMMARY_BYTES);
        let mut appended = record(&[]);
        appended.accepted.working.profile_state = Some(before);
        let answer = json!({ "summary": "x".repeat(SUMMARY_BYTES), "sources": [] });
        end(&mut appended, "summarization_agent", NodeKind::Answer, Some(answer));
        let summary = state(&state_after(&appended, &thread())).conversation_summary.unwrap();
        let (earlier, newest) = summary.split_once('\n').unwrap();
        assert!(summary.len() <= SUMMARY_BYTES, "{} bytes", summary.len());
        assert_eq!((earlier.len(), newest.len()), (3_070, 3_071));
    }

    #[test]
    fn actions_grow_and_the_oldest_are_counted() {
        let mut before = json!({ "actions_taken": vec!["update_memory"; ACTIONS_MAX], "actions_omitted": 4 });
        for omitted in [6, 8] {
            let mut record = calculation();
            record.accepted.working.profile_state = Some(Box::new(before));
            let found = state_after(&record, &thread());
            let after = state(&found);
            assert_eq!((after.actions_taken.len(), after.actions_omitted), (ACTIONS_MAX, omitted));
            assert_eq!(after.actions_taken.last().map(String::as_str), Some("calculation_agent"));
            before = *found;
        }
    }

    #[test]
    fn the_state_is_bounded() {
        let mut record = calculation();
        record.accepted.text = "\u{1}".repeat(100_000);
        let results = vec![json!({ "expression": "1", "result": "\u{1}".repeat(2_000) }); 20];
        record.accepted.working.profile_state = Some(Box::new(json!({ "numeric_results": results })));
        let value = state_after(&record, &thread());
        assert!(value.to_string().len() <= limits::PROFILE_STATE_BYTES);
        assert_eq!(state(&value).active_documents, ["doc_a", "doc_b"]);
    }

    #[test]
    fn a_state_of_another_form_is_replaced() {
        let mut record = calculation();
        record.accepted.working.profile_state = Some(Box::new(json!([1, 2])));
        assert_eq!(state(&state_after(&record, &thread())).active_documents, ["doc_a", "doc_b"]);
        assert_eq!(node(NodeKind::Memory, &[]).next(&json!({})), None);
    }
}
