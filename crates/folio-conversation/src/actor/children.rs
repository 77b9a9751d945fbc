//! Child turns of the open turn: starts the work of a group, and notifies the parent of a child turn.

use folio_types::{ThreadId, TurnId};
use tokio::time::Instant;

use super::state::State;
use crate::group::{ChildPlan, Parent};
use crate::supervisor::CHILDREN_CHECK_SWEEPS;
use crate::turn::GroupRun;

impl State {
    fn parent(&self, turn: u32) -> Option<Parent<'_>> {
        let machine = &self.loaded.as_ref()?.machine;
        let record = machine.history().turn(turn)?;
        Some(Parent { header: machine.header(), record, tools: &self.shared.dependencies.tools })
    }

    /// Reads the states of the children of a group. [`Effect::StopWork`](crate::turn::Effect::StopWork) stops the task.
    pub(super) fn read_children(&mut self, run: GroupRun) {
        let interval = self.shared.options.sweep_interval.saturating_mul(CHILDREN_CHECK_SWEEPS);
        self.next_children_check = Instant::now().checked_add(interval);
        let Some(token) = self.loaded.as_ref().map(|loaded| loaded.work.clone()) else { return };
        let work = self.task_context(token);
        work.spawn(work.clone().read_children(run));
    }

    pub(super) fn start_child(&mut self, run: GroupRun, number: u32) {
        let Some(token) = self.loaded.as_ref().map(|loaded| loaded.work.clone()) else { return };
        let now = self.shared.dependencies.environment.now();
        let plan: Option<Result<ChildPlan, String>> =
            self.parent(run.group.turn).map(|parent| parent.child(&run, number, now));
        let Some(plan) = plan else { return };
        let work = self.task_context(token);
        work.spawn(work.clone().start_child(run, number, plan));
    }

    /// Ends the children of an ending turn. [`Effect::StopWork`](crate::turn::Effect::StopWork) does not stop the task.
    pub(super) fn end_children(&mut self, run: GroupRun) {
        let Some(principal) = self.parent(run.group.turn).map(|parent| parent.principal()) else { return };
        let Some(token) = self.loaded.as_ref().map(|loaded| loaded.token.clone()) else { return };
        let work = self.task_context(token);
        work.spawn(work.clone().end_children(run, principal));
    }

    /// Notifies the owner of the parent. The task outlives this actor.
    pub(super) fn notify_parent(&mut self, parent: TurnId) {
        let newest = self.loaded.as_ref().map_or(0, |loaded| loaded.machine.header().turns);
        let Some(principal) = self.parent(newest).map(|parent| parent.principal()) else { return };
        let work = self.task_context(self.shared.token.clone());
        work.spawn(work.clone().notify_parent(parent, principal));
    }

    /// Returns true unless the open turn waits for child turns, and their states were read a short time ago.
    pub(super) fn is_group_check_due(&self) -> bool {
        let waits = self.loaded.as_ref().is_some_and(|loaded| loaded.machine.has_open_group());
        !waits || self.next_children_check.is_none_or(|next| next <= Instant::now())
    }

    /// Returns true if a stream follows a turn that waits for child turns.
    pub(super) fn is_watched_group(&self) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| {
            let followers = loaded.buffer.as_ref().map_or(0, |buffer| buffer.0.followers());
            loaded.machine.has_open_group() && followers > 0
        })
    }

    /// Returns the threads of all child turns of the thread.
    pub(super) fn child_threads(&self) -> Vec<ThreadId> {
        let Some(loaded) = &self.loaded else { return Vec::new() };
        let rounds = loaded.machine.history().turns().iter().flat_map(|record| &record.rounds);
        let groups = rounds.flat_map(|round| &round.calls).filter_map(|call| call.group.as_ref());
        groups.flat_map(|group| &group.tasks).map(|task| task.thread.clone()).collect()
    }
}
