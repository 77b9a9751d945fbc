//! A round that waits for decisions, and the decisions made so far.

use folio_proto::v1;
use folio_proto::v1::decision::Decision;

/// The pending round. Each call is decided, or left to other users; all decisions are sent in one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending {
    /// Number of the round, from 1.
    pub(crate) round: u32,
    calls: Vec<v1::Call>,
    /// The decisions so far, in the order of the calls. None: the call is left to other users.
    decided: Vec<Option<v1::Decision>>,
    /// Edited arguments of the current call that failed their validation.
    pub(crate) draft: Option<String>,
    /// The calls that the user may approve. None: not read yet.
    approvable: Option<Vec<String>>,
    /// The extraction of the working state, as JSON.
    extraction_json: Option<String>,
}

impl Pending {
    /// Creates the pending round from the closing event of a stream.
    pub(crate) fn of_event(event: v1::AwaitingApproval) -> Self {
        Self {
            round: event.round,
            calls: event.pending,
            decided: Vec::new(),
            draft: None,
            approvable: None,
            extraction_json: None,
        }
    }

    /// Creates the pending round from the response of `GetTurn` or `GetThread`. None: the turn does not wait for
    /// decisions.
    pub(crate) fn of_turn(turn: &v1::Turn) -> Option<Self> {
        if turn.status() != v1::TurnStatus::AwaitingApproval {
            return None;
        }
        let extraction = turn.working_state.as_ref().and_then(|working| working.extraction.as_ref());
        Some(Self {
            round: turn.rounds.last().map_or(1, |round| round.round),
            calls: turn.pending.clone(),
            decided: Vec::new(),
            draft: None,
            approvable: Some(turn.approvable_call_ids.clone()),
            extraction_json: extraction.map(|extraction| extraction.data_json.clone()),
        })
    }

    /// Returns true if the permissions of the user are known: which calls the user may approve.
    pub(crate) fn is_complete(&self) -> bool {
        self.approvable.is_some()
    }

    /// Returns the round with all calls approvable, for a user whose permissions cannot be read. The server checks each decision.
    pub(crate) fn with_unknown_permissions(self) -> Self {
        let ids = self.calls.iter().map(|call| call.call_id.clone()).collect();
        Self { approvable: Some(ids), ..self }
    }

    pub(crate) fn extraction_json(&self) -> Option<&str> {
        self.extraction_json.as_deref()
    }

    fn calls_with_decision(&self) -> impl Iterator<Item = &v1::Call> {
        self.calls.iter().filter(|call| call.needs_approval)
    }

    /// Returns the next undecided call, its position from 1, and the number of calls that need a decision. None: all
    /// calls are decided or left to other users.
    pub(crate) fn next(&self) -> Option<(&v1::Call, usize, usize)> {
        let position = self.decided.len();
        let call = self.calls_with_decision().nth(position)?;
        Some((call, position + 1, self.calls_with_decision().count()))
    }

    /// Returns true if the user may approve the call.
    pub(crate) fn may_approve(&self, call: &v1::Call) -> bool {
        self.approvable.as_ref().is_some_and(|ids| ids.contains(&call.call_id))
    }

    fn undecided(&self) -> impl Iterator<Item = &v1::Call> {
        self.calls_with_decision().skip(self.decided.len())
    }

    /// Returns true if the user may approve each undecided call.
    pub(crate) fn may_approve_rest(&self) -> bool {
        self.undecided().all(|call| self.may_approve(call))
    }

    /// Returns true if several calls are undecided and the user may approve each of them.
    pub(crate) fn may_approve_all(&self) -> bool {
        self.undecided().count() > 1 && self.may_approve_rest()
    }

    /// Decides the call that [`Pending::next`] returns.
    pub(crate) fn decide(&mut self, decision: Decision) {
        let Some((call, ..)) = self.next() else { return };
        let decision = v1::Decision {
            call_id: call.call_id.clone(),
            arguments_digest: call.arguments_digest.clone(),
            decision: Some(decision),
        };
        self.draft = None;
        self.decided.push(Some(decision));
    }

    /// Leaves the call that [`Pending::next`] returns to other users.
    pub(crate) fn leave(&mut self) {
        self.draft = None;
        self.decided.push(None);
    }

    pub(crate) fn approve_all(&mut self) {
        while self.next().is_some() {
            self.decide(Decision::Approved(v1::Approved {}));
        }
    }

    /// Returns the decisions so far with their calls.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = (&v1::Call, &Decision)> {
        self.calls_with_decision().zip(&self.decided).filter_map(|(call, decided)| {
            let decision = decided.as_ref()?.decision.as_ref()?;
            Some((call, decision))
        })
    }

    /// Returns true if calls need decisions and the user left all of them to other users.
    pub(crate) fn is_left_to_others(&self) -> bool {
        !self.decided.is_empty() && self.decided.iter().all(Option::is_none)
    }

    pub(crate) fn request(&self, turn_id: &str) -> v1::ApproveRequest {
        v1::ApproveRequest {
            turn_id: turn_id.to_owned(),
            round: self.round,
            decisions: self.decided.iter().flatten().cloned().collect(),
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

    #[test]
    fn calls_of_other_approvers_are_left_to_them() {
        let turn = v1::Turn {
            status: v1::TurnStatus::AwaitingApproval.into(),
            pending: vec![call("1", true), call("2", true), call("3", true)],
            approvable_call_ids: vec!["2".to_owned(), "3".to_owned()],
            ..v1::Turn::default()
        };
        let mut pending = Pending::of_turn(&turn).unwrap();
        assert!(!pending.may_approve(&call("1", true)) && pending.may_approve(&call("2", true)));
        assert!(!pending.may_approve_all());
        pending.leave();
        assert!(pending.is_left_to_others());
        assert!(pending.may_approve_all());
        pending.approve_all();
        assert!(!pending.is_left_to_others());
        let sent: Vec<_> = pending.request("turn").decisions.into_iter().map(|decision| decision.call_id).collect();
        assert_eq!(sent, ["2", "3"]);
        assert_eq!(pending.decisions().count(), 2);
    }
}
