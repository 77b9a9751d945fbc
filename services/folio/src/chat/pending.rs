//! A round that waits for decisions, and the decisions made so far.

use folio_proto::v1;
use folio_proto::v1::decision::Decision;

/// The pending round. Each call is decided once; all decisions are sent in one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending {
    /// Starts at 1.
    pub(crate) round: u32,
    calls: Vec<v1::Call>,
    decided: Vec<v1::Decision>,
    /// Edited arguments of the current call that failed their validation.
    pub(crate) draft: Option<String>,
    /// If true, all arguments of the current call are shown.
    pub(crate) shows_all_arguments: bool,
}

impl Pending {
    /// Creates the pending round from the closing event of a stream.
    pub(crate) fn of_event(event: v1::AwaitingApproval) -> Self {
        Self { round: event.round, calls: event.pending, decided: Vec::new(), draft: None, shows_all_arguments: false }
    }

    /// Creates the pending round from a turn. None: the turn does not wait for decisions.
    pub(crate) fn of_turn(turn: &v1::Turn) -> Option<Self> {
        if turn.status() != v1::TurnStatus::AwaitingApproval {
            return None;
        }
        let round = turn.rounds.last().map_or(1, |round| round.round);
        Some(Self { round, calls: turn.pending.clone(), decided: Vec::new(), draft: None, shows_all_arguments: false })
    }

    fn calls_with_decision(&self) -> impl Iterator<Item = &v1::Call> {
        self.calls.iter().filter(|call| call.needs_approval)
    }

    /// Returns the next undecided call, its position from 1, and the number of calls that need a decision. None: all
    /// calls are decided.
    pub(crate) fn next(&self) -> Option<(&v1::Call, usize, usize)> {
        let position = self.decided.len();
        let call = self.calls_with_decision().nth(position)?;
        Some((call, position + 1, self.calls_with_decision().count()))
    }

    /// Decides the call that [`Pending::next`] returns.
    pub(crate) fn decide(&mut self, decision: Decision) {
        self.draft = None;
        self.shows_all_arguments = false;
        let Some((call, ..)) = self.next() else { return };
        let decision = v1::Decision {
            call_id: call.call_id.clone(),
            arguments_digest: call.arguments_digest.clone(),
            decision: Some(decision),
        };
        self.decided.push(decision);
    }

    pub(crate) fn approve_all(&mut self) {
        while self.next().is_some() {
            self.decide(Decision::Approved(v1::Approved {}));
        }
    }

    pub(crate) fn request(&self, turn_id: &str) -> v1::ApproveRequest {
        v1::ApproveRequest {
            turn_id: turn_id.to_owned(),
            round: self.round,
            decisions: self.decided.clone(),
            continue_auto_approved: true,
            ..v1::ApproveRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, needs_approval: bool) -> v1::Call {
        v1::Call {
            call_id: id.to_owned(),
            arguments_digest: format!("digest of {id}"),
            needs_approval,
            ..v1::Call::default()
        }
    }

    #[test]
    fn calls_are_decided_one_by_one_and_sent_with_the_displayed_arguments() {
        let pending = vec![call("1", true), call("2", false), call("3", true), call("4", true)];
        let event = v1::AwaitingApproval { round: 2, pending, ..v1::AwaitingApproval::default() };
        let mut pending = Pending::of_event(event);
        let next =
            |pending: &Pending| pending.next().map(|(call, number, count)| (call.call_id.clone(), number, count));
        assert_eq!(next(&pending), Some(("1".to_owned(), 1, 3)));
        pending.decide(Decision::Rejected(v1::Rejected { reason: "no".to_owned() }));
        assert_eq!(next(&pending), Some(("3".to_owned(), 2, 3)));
        pending.approve_all();
        assert_eq!(next(&pending), None);
        let request = pending.request("turn");
        let sent: Vec<_> =
            request.decisions.iter().map(|d| (d.call_id.as_str(), d.arguments_digest.as_str())).collect();
        assert_eq!(sent, [("1", "digest of 1"), ("3", "digest of 3"), ("4", "digest of 4")]);
        assert!(matches!(request.decisions[0].decision, Some(Decision::Rejected(_))));
        assert_eq!((request.turn_id.as_str(), request.round), ("turn", 2));
    }

    #[test]
    fn a_round_without_calls_that_need_approval_has_no_decisions() {
        let turn = v1::Turn {
            status: v1::TurnStatus::AwaitingApproval.into(),
            pending: vec![call("1", false)],
            rounds: vec![v1::Round { round: 3, ..v1::Round::default() }],
            ..v1::Turn::default()
        };
        let pending = Pending::of_turn(&turn).unwrap();
        assert_eq!((pending.next(), pending.round), (None, 3));
        assert!(pending.request("turn").decisions.is_empty());
        assert_eq!(Pending::of_turn(&v1::Turn::default()), None);
    }
}
