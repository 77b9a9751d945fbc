//! Work of a group of child turns: reads their states, starts them, ends them, and notifies a parent.

use std::future::Future;

use folio_history::journal::GroupTask;
use folio_history::task::{ChildEnd, ChildLog, ChildState, ChildStatus};
use folio_metering::{BudgetScope, Share};
use folio_types::message::Usage;
use folio_types::{Code, Error, Principal, Reason, Result, TurnId};

use super::{Backoff, TaskContext};
use crate::group::ChildPlan;
use crate::turn::{Command, GroupRun, StartFailure};

/// Attempts to notify the owner of a parent. Afterwards the sweep finds the group.
const NOTICE_ATTEMPTS: u32 = 4;
/// End of a child that an ending turn prevented from starting.
const PREVENTED: &str = "Not run: the turn ended before this task started.";

impl TaskContext {
    /// Reads the states of the children of a group, and returns the budgets of those that have ended.
    pub(crate) async fn read_children(self, run: GroupRun) {
        let mut states = Vec::new();
        for (number, task) in run.group.numbered() {
            states.push(match run.ended.get(&number) {
                Some(end) => ChildState::Ended(end.clone()),
                None => self.state_until_answered(task).await,
            });
        }
        let (round, index) = (run.group.round, run.group.index);
        self.report(Command::ChildrenRead { round, index, states });
    }

    async fn state_until_answered(&self, task: &GroupTask) -> ChildState {
        let mut backoff = Backoff::new(&self.shared);
        loop {
            match self.state_of(task).await {
                Ok(state) => return state,
                Err(error) if error.is_retriable() => {
                    tracing::debug!(child = %task.thread, %error, "cannot read a child turn; retrying");
                }
                Err(error) => return ChildState::Ended(unreadable(&error)),
            }
            backoff.pause().await;
        }
    }

    /// Reads the state of a child. The budget of an ended child is returned before its end is reported.
    async fn state_of(&self, task: &GroupTask) -> Result<ChildState> {
        let threads = &self.shared.dependencies.stores.threads;
        let header = self.shared.with_store_timeout(threads.header(&self.org, &task.thread)).await?;
        let header = match header {
            Some(header) if header.open_turn.is_some() => return Ok(ChildState::Open),
            Some(header) if header.turns > 0 => header,
            Some(_) | None => return Ok(ChildState::Absent),
        };
        let mut log = ChildLog::default();
        self.shared.with_store_timeout(self.shared.for_each_entry(&header, |entry| log.push(entry))).await?;
        let state = log.state(self.shared.dependencies.environment.now());
        if matches!(state, ChildState::Ended(_)) {
            self.return_budget(task).await?;
        }
        Ok(state)
    }

    async fn return_budget(&self, task: &GroupTask) -> Result<()> {
        for scope in self.budget_scopes(task) {
            self.shared.with_store_timeout(scope.take_back()).await?;
        }
        Ok(())
    }

    fn budget_scopes(&self, task: &GroupTask) -> impl Iterator<Item = BudgetScope> {
        let store = self.shared.dependencies.stores.budgets();
        let org = self.org.clone();
        task.budget_parts.iter().map(move |part| BudgetScope::new(store.clone(), org.clone(), part.clone()))
    }

    /// Starts a child, or continues it, and reports whether its turn was accepted.
    pub(crate) async fn start_child(self, run: GroupRun, number: u32, plan: std::result::Result<ChildPlan, String>) {
        self.hit_failpoint("child", "before").await;
        let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        let Some(task) = run.group.tasks.get(at) else { return };
        let started = match plan {
            Ok(plan) => self.start(task, plan).await.map_err(|error| start_failure(&error)),
            Err(problem) => Err(StartFailure::Refused(problem)),
        };
        let started = match started {
            Err(StartFailure::Refused(reason)) => self.refuse(task, reason).await,
            started => started,
        };
        self.hit_failpoint("child", "after").await;
        let (round, index) = (run.group.round, run.group.index);
        self.report(Command::ChildStarted { round, index, number, started });
    }

    /// Prevents a later start of a child that was refused, so that its result is final.
    async fn refuse(&self, task: &GroupTask, reason: String) -> std::result::Result<(), StartFailure> {
        let threads = &self.shared.dependencies.stores.threads;
        let refuse = async {
            let is_unused = threads.remove_unused(&self.org, &task.thread).await?;
            if is_unused {
                self.return_budget(task).await?;
            }
            Ok(is_unused)
        };
        match self.shared.with_store_timeout(refuse).await {
            Ok(true) => Err(StartFailure::Refused(reason)),
            // An earlier attempt was accepted.
            Ok(false) => Ok(()),
            Err(_) => Err(StartFailure::Later),
        }
    }

    async fn start(&self, task: &GroupTask, plan: ChildPlan) -> Result<()> {
        let ChildPlan { thread, message, principal, shares } = plan;
        for scope in self.budget_scopes(task) {
            self.shared.with_store_timeout(scope.grant(Share::Divided { by: shares }, |_| false)).await?;
        }
        let threads = &self.shared.dependencies.stores.threads;
        self.shared.with_store_timeout(threads.create(thread)).await?;
        self.hit_failpoint("child", "created").await;
        self.shared.peer.start(&principal, message).await
    }

    /// Ends every child of a group: cancels its turn, or prevents its start. Repeated until the stores and nodes answer.
    pub(crate) async fn end_children(self, run: GroupRun, principal: Principal) {
        self.hit_failpoint("children", "before").await;
        let (round, index) = (run.group.round, run.group.index);
        let (mut backoff, mut ends, mut is_reported) = (Backoff::new(&self.shared), Vec::new(), false);
        for (number, task) in run.group.numbered() {
            let end = loop {
                if let Some(end) = run.ended.get(&number) {
                    break end.clone();
                }
                match self.end_child(task, &principal).await {
                    Ok(end) => break end,
                    Err(error) => tracing::debug!(child = %task.thread, %error, "cannot end a child turn; retrying"),
                }
                if !std::mem::replace(&mut is_reported, true) {
                    self.report(Command::StoreAwaited { round, index });
                }
                backoff.pause().await;
            };
            ends.push(end);
        }
        self.hit_failpoint("children", "after").await;
        self.report(Command::ChildrenEnded { round, index, ends });
    }

    async fn end_child(&self, task: &GroupTask, principal: &Principal) -> Result<ChildEnd> {
        let threads = &self.shared.dependencies.stores.threads;
        if self.shared.with_store_timeout(threads.remove_unused(&self.org, &task.thread)).await? {
            self.return_budget(task).await?;
            return Ok(ChildEnd::not_started(PREVENTED));
        }
        if let ChildState::Ended(end) = self.state_of(task).await? {
            return Ok(end);
        }
        match self.shared.peer.cancel(principal, &TurnId::new(task.thread.clone(), 1)).await {
            Ok(()) => {}
            // Its user has deleted the thread.
            Err(error) if error.code == Code::NotFound => {
                self.return_budget(task).await?;
                return Ok(ChildEnd::not_started("The thread of the task was deleted."));
            }
            Err(error) => return Err(error),
        }
        match self.state_of(task).await? {
            ChildState::Ended(end) => Ok(end),
            ChildState::Absent | ChildState::Open | ChildState::Interrupted => {
                Err(Error::unavailable(Reason::TurnBusy, "the child turn has not ended yet"))
            }
        }
    }

    /// Notifies the owner of the parent of an ended child turn.
    pub(crate) async fn notify_parent(self, turn: TurnId, principal: Principal) {
        self.hit_failpoint("notice", "before").await;
        let notify = || self.shared.peer.notify(&principal, &turn);
        if let Err(error) = self.attempt(NOTICE_ATTEMPTS, notify).await {
            tracing::debug!(%turn, %error, "cannot notify a parent turn; its sweep finds the group");
        }
    }

    /// Repeats a call to another node until it succeeds, at most `attempts` times. Returns the last error.
    async fn attempt<F: Future<Output = Result<()>>>(&self, attempts: u32, call: impl Fn() -> F) -> Result<()> {
        let mut backoff = Backoff::new(&self.shared);
        for _ in 1..attempts {
            match call().await {
                Err(error) if error.is_retriable() => backoff.pause().await,
                answer => return answer,
            }
        }
        call().await
    }
}

/// Returns the end of a child whose journal cannot be read.
fn unreadable(error: &Error) -> ChildEnd {
    let summary = match error.code {
        Code::Internal | Code::DataLoss => "The log of the task cannot be read.".to_owned(),
        _ => error.message.clone(),
    };
    ChildEnd { status: ChildStatus::Failed, summary, usage: Usage::default() }
}

/// Returns whether a later start may succeed.
fn start_failure(error: &Error) -> StartFailure {
    if error.is_retriable() || error.code == Code::ResourceExhausted {
        tracing::debug!(%error, "cannot start a child turn now");
        return StartFailure::Later;
    }
    StartFailure::Refused(match error.code {
        Code::Internal | Code::DataLoss => "The task could not be started.".to_owned(),
        _ => error.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_a_quota_or_an_outage_prevents_is_repeated_later() {
        let quota = Error::exhausted(Reason::QuotaExceeded, "too many turns");
        let outage = Error::unavailable(Reason::StoreUnavailable, "no answer");
        assert_eq!([start_failure(&quota), start_failure(&outage)], [StartFailure::Later, StartFailure::Later]);
        let removed = Error::not_found("thread", "thr_1");
        assert!(matches!(start_failure(&removed), StartFailure::Refused(reason) if reason.contains("thr_1")));
        let internal = Error::internal("a secret detail");
        assert!(matches!(start_failure(&internal), StartFailure::Refused(reason) if !reason.contains("secret")));
    }
}
