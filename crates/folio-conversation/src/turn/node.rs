//! Turns with a graph: each node makes rounds of its own, and its answer chooses the next node.
//!
//! | step | written | after a crash |
//! |---|---|---|
//! | a node of the kind `route` or `answer` ends | the round with the answer and the chosen node, before the next model call | the next owner continues at the chosen node |
//! | the answer violates its type | the round with the correction, with the next append | the model is called again |
//! | it violates its type again | the default answer, or the failed end with the raw text | |
//! | the answer of the turn is stored | its event, then the rounds of the memory | the turn completes with the stored answer |
//!
//! From the answer of the turn on, every end is `completed`: a failed model call, a limit, a takeover and a cancellation only
//! end the update of the memory.

use folio_history::event::EventKind;
use folio_history::journal::{End, Entry, NodeEnd, TurnNode};
use folio_history::{TurnRecord, json_bytes};
use folio_tools::graph::{checked_answer, state_after};
use folio_types::message::FinishReason;
use folio_types::profile::NodeKind;
use folio_types::{Error, Reason, Timestamp, limits};
use serde_json::Value;

use super::append::AfterAppend;
use super::model::as_round;
use super::{Machine, Reply, bounds};

/// Maximum bytes of the raw text in the error of an invalid answer.
const RAW_TEXT_BYTES: usize = 4 * 1024;

impl Machine {
    /// Emits the start of a node before its first round.
    pub(super) fn emit_node_started(&mut self, round: u32) {
        let Some(record) = self.history.open() else { return };
        let Some(node) = record.node() else { return };
        if !record.rounds.iter().any(|round| round.is_of_node(&node.name)) {
            let name = node.name.clone();
            self.emit(EventKind::NodeStarted { round, name });
        }
    }

    /// Handles an answer without calls of a node.
    pub(super) fn node_replied(&mut self, now: Timestamp, round: u32, reply: Reply) {
        let Some(record) = self.history.open() else { return };
        let Some(node) = record.node().cloned() else { return };
        match answer_of(record, &node, &reply, now) {
            Ok(answer) => {
                let end = NodeEnd { next: node.next(&answer), answer: Some(answer), is_default: false };
                self.end_node(now, round, reply, end);
            }
            Err(problem) if self.may_correct(round) => self.request_correction(now, round, reply, &problem),
            Err(_) => self.node_is_invalid(now, round, reply, &node),
        }
    }

    /// Handles a second invalid answer of a node: the node ends with its default answer, or without one if it updates the
    /// memory; else the turn fails with the raw text.
    fn node_is_invalid(&mut self, now: Timestamp, round: u32, reply: Reply, node: &TurnNode) {
        let next = || node.next(node.default_answer.as_ref().unwrap_or(&Value::Null));
        if node.default_answer.is_some() || node.kind == NodeKind::Memory {
            let end = NodeEnd { next: next(), answer: node.default_answer.clone(), is_default: true };
            return self.end_node(now, round, reply, end);
        }
        if let Some(record) = self.open_mut() {
            record.usage = record.usage.plus(reply.usage);
        }
        let mut raw = reply.text;
        bounds::truncate(&mut raw, RAW_TEXT_BYTES, 2 * RAW_TEXT_BYTES);
        let message = format!("the answer of {} does not match the type {}", node.name, node.answer_type);
        let error = Error::precondition(Reason::AnswerInvalid, message).detail("raw_text", raw);
        self.fail(now, error, false);
    }

    /// Ends a node. The end of a node that precedes another model call of the turn's answer is appended first, so that its
    /// answer and the chosen node outlive this owner.
    fn end_node(&mut self, now: Timestamp, round: u32, reply: Reply, end: NodeEnd) {
        let Some(record) = self.open_mut() else { return };
        let mut entry = as_round(record, round, Reply { text: String::new(), ..reply });
        let is_memory = entry.node.as_ref().is_some_and(|node| node.kind == NodeKind::Memory);
        if let Some(node) = &mut entry.node {
            node.end = Some(end);
        }
        bounds::fit_round(&mut entry);
        record.push(Entry::Round(Box::new(entry)));
        self.buffer_round();
        if is_memory {
            self.emit_node_ended();
            return self.advance(now);
        }
        let change = self.phase_change(self.working_phase());
        self.append(now, Vec::new(), change, AfterAppend::NodeEnded);
    }

    /// Handles the committed end of a node: publishes its answer and continues at the chosen node.
    pub(super) fn node_ended(&mut self, now: Timestamp) {
        self.emit_node_ended();
        self.advance(now);
    }

    fn emit_node_ended(&mut self) {
        let Some(round) = self.history.open().and_then(TurnRecord::newest_round) else { return };
        let number = round.round;
        if let Some(node) = round.node.clone() {
            self.emit(EventKind::NodeEnded { round: number, node });
        }
    }

    /// Completes a turn whose last node has ended.
    pub(super) fn complete_graph(&mut self, now: Timestamp) {
        let (text, thinking) = (String::new(), Vec::new());
        self.end(now, End::Completed { text, thinking, finish: FinishReason::Stop });
    }

    /// Returns the end and the working state of the open turn: if its answer node has ended, the turn completes with this answer
    /// and leaves its memory, whatever ends it.
    pub(super) fn end_of_graph(&self, record: &TurnRecord, end: End) -> (End, folio_history::journal::WorkingState) {
        let mut working = record.working.clone();
        match record.answered_end() {
            None => (end, working),
            Some(answered) => {
                working.profile_state = Some(state_after(record, &self.header.id));
                (answered, working)
            }
        }
    }
}

/// Returns the checked answer of a node, or its violations for the model.
fn answer_of(record: &TurnRecord, node: &TurnNode, reply: &Reply, now: Timestamp) -> Result<Value, String> {
    if let Some(problem) = &reply.answer_problem {
        return Err(problem.clone());
    }
    let answer = folio_types::json::read(&reply.text).map_err(|error| format!("#: {error}"))?;
    let answer = checked_answer(node, answer, record, now)?;
    // The text of the end is a part of the answer, and the state of the profile precedes it in the same entry.
    let text = node.text(&answer);
    let is_too_large = json_bytes(&answer) > bounds::NODE_ANSWER_BYTES
        || !bounds::answer_fits(&text, json_bytes(&record.working).max(limits::PROFILE_STATE_BYTES));
    if is_too_large { Err("#: the answer is too large".to_owned()) } else { Ok(answer) }
}
