//! Client views of turns, and the answer to a decision.

use super::record::{CallRecord, RoundRecord, TurnRecord};
use crate::event::{CallView, Event, EventKind, ResultView, RoundView, TurnStatus, TurnView};
use crate::journal::{CallStatus, End, Ended, Paused};
use folio_resources::policy::Approver;
use folio_types::message::ThinkingBlock;
use folio_types::{CallId, Principal, ThreadId, TurnId};
use jiff::Timestamp;

impl TurnRecord {
    /// Returns the current state of the turn. An expired pause is returned as expired before its end is stored.
    /// `next_event` is derived from the journal; an owner that sent more events replaces it.
    pub fn view(&self, thread: &ThreadId, now: Timestamp) -> TurnView {
        let mut view = TurnView {
            rounds: self.rounds.iter().map(|round| round.view(self.id(thread))).collect(),
            working: self.working.clone(),
            usage: self.usage,
            next_event: self.next_event(),
            ..TurnView::new(self.id(thread), &self.accepted.options.model, &self.accepted.text)
        };
        if let Some(pause) = self.pause() {
            self.apply_pause(&mut view, thread, pause, now);
        }
        if let Some(ended) = &self.ended {
            apply_end(&mut view, ended);
        }
        view
    }

    /// Returns the undecided calls of the pause that a user with access to the thread may approve, by the policy of the
    /// turn. Empty if the turn does not wait.
    pub fn approvable(&self, thread: &ThreadId, by: &Principal) -> Vec<CallId> {
        let round = self.pause().and_then(|pause| self.round(pause.round));
        let is_requester = by.may_be(&self.accepted.user);
        let calls = round.into_iter().flat_map(|round| round.undecided().map(move |call| (round.round, call)));
        let permitted = calls.filter(|(_, call)| match &call.call.approval_requirement {
            Some(requirement) => requirement.approver.lets(by.role, is_requester),
            None => Approver::default().lets(by.role, is_requester),
        });
        permitted.map(|(round, call)| CallId::new(self.id(thread), round, call.call.index)).collect()
    }

    /// Returns the outcome of the decisions on a round: the event of the next pause, or of the end. None: the turn is
    /// running. The same decisions always get the same event.
    pub fn answer_event(&self, thread: &ThreadId, round: u32) -> Option<Event> {
        match self.rounds.iter().find(|record| record.round > round && record.paused.is_some()) {
            Some(record) => self.pause_event(thread, record),
            None => self.ended.as_ref().map(|ended| self.end_event(thread, ended)),
        }
    }

    /// Returns the closing event of the turn's newest stream. None: the turn is running.
    pub fn closing_event(&self, thread: &ThreadId) -> Option<Event> {
        match &self.ended {
            Some(ended) => Some(self.end_event(thread, ended)),
            None => self.pause_event(thread, self.round(self.pause()?.round)?),
        }
    }

    fn pause_event(&self, thread: &ThreadId, round: &RoundRecord) -> Option<Event> {
        let pause = round.paused.as_ref()?;
        let kind = EventKind::AwaitingApproval {
            round: pause.round,
            pending: round.calls.iter().map(|call| call.view_at_pause(self.id(thread), round.round)).collect(),
            expires_at: pause.expires_at,
        };
        Some(Event::new(self.id(thread), pause.event, kind))
    }

    fn end_event(&self, thread: &ThreadId, ended: &Ended) -> Event {
        let kind = match &ended.end {
            End::Completed { text, thinking, finish } => EventKind::Completed {
                text: text.clone(),
                thinking: thinking_text(thinking),
                working: ended.working.clone(),
                rounds: self.rounds.iter().map(|round| round.view(self.id(thread))).collect(),
                finish: *finish,
                usage: ended.usage,
            },
            End::Failed { error, retriable } => EventKind::Failed { error: error.clone(), retriable: *retriable },
            End::Cancelled => EventKind::Cancelled,
            End::Expired => EventKind::Expired,
            End::Superseded => EventKind::Superseded,
        };
        Event::new(self.id(thread), ended.event, kind)
    }

    pub fn id(&self, thread: &ThreadId) -> TurnId {
        TurnId::new(thread.clone(), self.number())
    }

    /// Returns the number of the next event according to the journal: the successor of the newest recorded event, or the
    /// first number of the current owner.
    pub fn next_event(&self) -> u64 {
        (u64::from(self.takeovers) << 32).max(self.last_recorded_event).saturating_add(1)
    }

    fn apply_pause(&self, view: &mut TurnView, thread: &ThreadId, pause: &Paused, now: Timestamp) {
        view.expires_at = Some(pause.expires_at);
        if pause.expires_at <= now {
            view.status = TurnStatus::Expired;
            return;
        }
        view.status = TurnStatus::AwaitingApproval;
        if let Some(round) = self.round(pause.round) {
            view.pending = round.calls.iter().map(|call| call.view(self.id(thread), round.round)).collect();
        }
    }
}

fn apply_end(view: &mut TurnView, ended: &Ended) {
    view.status = match &ended.end {
        End::Completed { text, finish, .. } => {
            view.text.clone_from(text);
            view.finish = Some(*finish);
            TurnStatus::Completed
        }
        End::Failed { error, retriable } => {
            view.error = Some(error.clone());
            view.retriable = *retriable;
            TurnStatus::Failed
        }
        End::Cancelled => TurnStatus::Cancelled,
        End::Expired => TurnStatus::Expired,
        End::Superseded => TurnStatus::Superseded,
    };
}

impl RoundRecord {
    /// The JSON of an answer that a node had to correct is not shown, as its deltas were not sent.
    pub fn view(&self, turn: TurnId) -> RoundView {
        let is_shown = self.node.is_none() || self.correction.is_none();
        RoundView {
            round: self.round,
            text: if is_shown { self.text.clone() } else { String::new() },
            thinking: thinking_text(&self.thinking),
            calls: self.calls.iter().map(|call| call.view(turn.clone(), self.round)).collect(),
            results: self.calls.iter().filter_map(|call| call.result_view(turn.clone(), self.round)).collect(),
            node: self.node.clone(),
        }
    }
}

impl CallRecord {
    /// Contains the arguments after an edit by a decision.
    pub fn view(&self, turn: TurnId, round: u32) -> CallView {
        self.view_with(turn, round, self.arguments())
    }

    /// Contains the model's arguments: the call as it was at its pause.
    pub fn view_at_pause(&self, turn: TurnId, round: u32) -> CallView {
        self.view_with(turn, round, &self.call.arguments)
    }

    fn view_with(&self, turn: TurnId, round: u32, arguments: &serde_json::Value) -> CallView {
        let (call, id) = (&self.call, CallId::new(turn, round, self.call.index));
        CallView {
            name: call.name.clone(),
            arguments: arguments.clone(),
            digest: folio_types::Digest::of_json(arguments),
            access: call.access,
            needs_approval: call.needs_approval,
            approval_requirement: call.needs_approval.then(|| call.approval_requirement.clone().unwrap_or_default()),
            group: self.group.as_ref().map(|group| group.view(id.clone())),
            id,
        }
    }

    fn result_view(&self, turn: TurnId, round: u32) -> Option<ResultView> {
        let result = self.result.as_ref()?;
        Some(ResultView {
            call: CallId::new(turn, round, self.call.index),
            status: result.status,
            content: result.content.clone(),
        })
    }

    /// None: the call has no result.
    pub fn status(&self) -> Option<CallStatus> {
        self.result.as_ref().map(|result| result.status)
    }
}

/// Returns the texts of the blocks, separated by empty lines.
pub fn thinking_text(thinking: &[ThinkingBlock]) -> String {
    thinking.iter().map(|block| block.text.as_str()).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}
