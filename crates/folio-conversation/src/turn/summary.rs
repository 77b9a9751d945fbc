//! The summary of messages that left the window: a model call before the first round of a turn, which never fails the turn.
//!
//! The call has the round number 0. Its entry is appended before the first round. If the owner dies before, the next owner that
//! continues the turn repeats the call under its epoch; else the next turn makes it, because the messages are still without a
//! summary. The call takes at most [`SUMMARY_TIME`] and half of the running time that the turn has left.

use std::time::Duration;

use folio_history::TurnRecord;
use folio_history::journal::{Entry, SUMMARY_ROUND, Summary};
use folio_types::message::Usage;
use folio_types::{Timestamp, limits};

use super::append::AfterAppend;
use super::effect::ModelCall;
use super::machine::{ActiveModelCall, State};
use super::{Effect, Machine, Reply};

/// Time after which the turn continues without the summary.
const SUMMARY_TIME: Duration = Duration::from_secs(60);

impl Machine {
    /// Starts the model call of a due summary. False: no summary is due, or a credit budget pays for the turn. The budget pays for
    /// the answer, which a summary could prevent.
    pub(super) fn summarize(&mut self, now: Timestamp) -> bool {
        let Some(record) = self.history.open() else { return false };
        let is_first = record.rounds.is_empty() && self.summary_turn != Some(record.number());
        let (options, turn) = (&record.accepted.options, record.id(&self.header.id));
        let has_budget = !options.budget_parts(self.header.budget_parts(), &turn).is_empty();
        if !options.summarizes || !is_first || has_budget || self.history.due_summary().is_none() {
            return false;
        }
        let limit = record.accepted.options.running_time();
        let half = limit.map(|limit| limit.saturating_sub(record.running_time(now)) / 2);
        let time_left = half.map_or(SUMMARY_TIME, |half| half.min(SUMMARY_TIME));
        let attempt = record.takeovers.saturating_add(1);
        let call = ModelCall {
            turn,
            round: SUMMARY_ROUND,
            attempt,
            epoch: self.header.epoch,
            model: record.accepted.options.model.clone(),
            time_left: Some(time_left),
        };
        self.summary_turn = Some(record.number());
        let (text, thinking) = Default::default();
        self.state = State::Calling(ActiveModelCall { round: SUMMARY_ROUND, attempt, text, thinking });
        self.effects.push(Effect::CallModel(call));
        true
    }

    /// Handles the answer of a summary: appends it, and then continues the turn.
    pub(super) fn summarized(&mut self, now: Timestamp, reply: Reply) {
        let range = self.history.due_summary();
        let turn = self.history.open().map_or(0, TurnRecord::number);
        let mut text = reply.text;
        text.truncate(text.floor_char_boundary(limits::SUMMARY_BYTES));
        let Some(range) = range.filter(|_| !text.trim().is_empty()) else {
            return self.not_summarized(now, reply.usage);
        };
        let (from, to, messages) = (range.from, range.to, range.messages);
        let summary = Summary { turn, from, to, messages, text, usage: reply.usage, at: now };
        let change = self.phase_change(self.working_phase());
        self.append(now, vec![Entry::Summary(summary)], change, AfterAppend::Written);
    }

    /// Continues the turn without a summary, because its model call failed.
    pub(super) fn not_summarized(&mut self, now: Timestamp, usage: Usage) {
        if let Some(record) = self.open_mut() {
            record.usage = record.usage.plus(usage);
        }
        self.advance(now);
    }
}
