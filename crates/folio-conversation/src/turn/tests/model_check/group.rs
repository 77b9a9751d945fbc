//! The children of a group: their ends and losses, their starts by the nodes, and the invariants about them.

use std::sync::Arc;

use folio_history::TurnRecord;
use folio_history::journal::Group;
use folio_history::task::ChildEnd;
use folio_history::thread::Phase;

use super::super::children::Child;
use super::world::{Action, Stage, Todo, World};
use crate::turn::{Command, Effect, GroupRun, StartFailure};

pub(super) const OUTLIVES: &str = "a child runs after its parent ended";
pub(super) const TOO_MANY: &str = "more children are open than permitted";
pub(super) const NO_GROUP: &str = "a child started without a group in the journal";
pub(super) const WRONG_RESULT: &str = "the result of a group differs from the ends of its children";

impl World {
    pub(super) fn enabled_of_children(&self, actions: &mut Vec<Action>) {
        for (child, state) in self.children.iter().enumerate() {
            if *state == Child::Open {
                actions.push(Action::ChildEnds { child });
                if self.left.lost_children > 0 {
                    actions.push(Action::ChildLost { child });
                }
            }
        }
    }

    /// Returns true if a notice to this node may cause an action: the turn waits, and no other live node owns it.
    pub(super) fn may_notify(&self, node: usize) -> bool {
        let open = self.thread.row.header.open_turn.as_ref();
        let waits = open.is_some_and(|open| open.phase == Phase::AwaitingChildren);
        let is_free = self.node(node).is_none_or(|live| live.machine.has_open_group());
        waits && is_free && (!self.is_owned_elsewhere(node) || self.left.takeovers > 0)
    }

    pub(super) fn set_child(&mut self, child: usize, state: Child) {
        Arc::make_mut(&mut self.children)[child] = state;
    }

    pub(super) fn try_start(&mut self, child: usize) -> Result<(), StartFailure> {
        Arc::make_mut(&mut self.children)[child].start()
    }

    pub(super) fn read_children(&mut self, node: usize, run: &GroupRun) {
        let states = (1..).zip(self.children.iter()).map(|(number, child)| child.state(number)).collect();
        let (round, index) = (run.group.round, run.group.index);
        self.handle(node, Command::ChildrenRead { round, index, states });
    }

    pub(super) fn start_child(&mut self, node: usize, run: &GroupRun, number: u32) {
        let started = self.try_start(number as usize - 1);
        let (round, index) = (run.group.round, run.group.index);
        self.handle(node, Command::ChildStarted { round, index, number, started });
    }

    /// Ends one child for each step.
    pub(super) fn end_children(&mut self, node: usize, run: Box<GroupRun>, stage: Stage) {
        let child = match stage {
            Stage::First => 0,
            Stage::Second(ended) => ended as usize,
        };
        if !(self.scope.faults.prevention_dropped && self.children[child] == Child::Absent) {
            Arc::make_mut(&mut self.children)[child].end(child as u32 + 1);
        }
        if child + 1 < self.children.len() {
            let stage = Stage::Second(child as u64 + 1);
            return self.push_front(node, Todo { effect: Effect::EndChildren(run), stage });
        }
        let (round, index) = (run.group.round, run.group.index);
        let ends = (1..).zip(self.children.iter()).map(|(number, child)| child.clone().end(number));
        let ends: Vec<ChildEnd> = ends.collect();
        self.handle(node, Command::ChildrenEnded { round, index, ends });
    }

    /// Returns the violated invariant about the children of a turn.
    pub(super) fn find_in_group(&self, record: &TurnRecord) -> Option<&'static str> {
        let has_started = |child: &Child| !matches!(child, Child::Absent | Child::Prevented);
        let calls = record.rounds.iter().flat_map(|round| &round.calls);
        let found = calls.filter_map(|call| Some((call, call.group.as_ref()?))).next();
        let Some((call, group)) = found else {
            let has_children = record.number() == 1 && self.children.iter().any(has_started);
            return has_children.then_some(NO_GROUP);
        };
        let open = self.children.iter().filter(|child| **child == Child::Open).count();
        if open > group.running_max as usize {
            return Some(TOO_MANY);
        }
        let is_running = |child: &Child| matches!(child, Child::Open | Child::Interrupted);
        if record.ended.is_some() && self.children.iter().any(is_running) {
            return Some(OUTLIVES);
        }
        let result = call.result.as_ref()?;
        (!is_result(group, &self.children, &result.content)).then_some(WRONG_RESULT)
    }
}

/// Returns true if a result states the end of each child, and that no other child started.
fn is_result(group: &Group, children: &[Child], content: &str) -> bool {
    let result: serde_json::Value = serde_json::from_str(content).unwrap_or_default();
    (0..group.tasks.len()).all(|at| {
        let status = result["tasks"][at]["status"].as_str().unwrap_or_default();
        match &children[at] {
            Child::Completed => status == "completed",
            Child::Cancelled => status == "cancelled",
            Child::Prevented | Child::Absent => status == "not_started",
            Child::Failed => status == "failed",
            Child::Open | Child::Interrupted => false,
        }
    })
}
