//! The children of one group in memory, with the same conditional writes as their threads.

use folio_history::task::{ChildEnd, ChildState, ChildStatus};
use folio_types::message::Usage;

use crate::turn::{GroupRun, PlanFailure, PlannedTask, StartFailure};

/// Name of the tool that starts child turns.
pub(super) const TASKS: &str = "w_tasks";

#[derive(Debug, Clone)]
pub(super) struct Children {
    /// The plan of the next call.
    pub(super) planned: Result<Vec<PlannedTask>, PlanFailure>,
    /// By number.
    pub(super) all: Vec<Child>,
    /// Failure of the next start.
    pub(super) failure: Option<StartFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Child {
    Absent,
    /// A tombstone prevents its start.
    Prevented,
    Open,
    /// Its node died.
    Interrupted,
    Completed,
    Failed,
    Cancelled,
}

impl Default for Children {
    fn default() -> Self {
        Self { planned: Ok(planned(2)), all: Vec::new(), failure: None }
    }
}

/// Returns tasks of one agent that may not delegate.
pub(super) fn planned(count: usize) -> Vec<PlannedTask> {
    vec![PlannedTask { profile: "document".into(), tool: None, may_delegate: false }; count]
}

impl Child {
    pub(super) fn state(&self, number: u32) -> ChildState {
        let end = |status| ChildState::Ended(end(status, number));
        match self {
            Self::Absent | Self::Prevented => ChildState::Absent,
            Self::Open => ChildState::Open,
            Self::Interrupted => ChildState::Interrupted,
            Self::Completed => end(ChildStatus::Completed),
            Self::Failed => end(ChildStatus::Failed),
            Self::Cancelled => end(ChildStatus::Cancelled),
        }
    }

    /// Starts the child, or joins or continues its turn.
    pub(super) fn start(&mut self) -> Result<(), StartFailure> {
        match self {
            Self::Prevented => return Err(StartFailure::Refused("the thread was removed".into())),
            Self::Absent | Self::Interrupted => *self = Self::Open,
            _ => {}
        }
        Ok(())
    }

    /// Ends the child, or prevents its start.
    pub(super) fn end(&mut self, number: u32) -> ChildEnd {
        match self {
            Self::Absent => *self = Self::Prevented,
            Self::Open | Self::Interrupted => *self = Self::Cancelled,
            _ => {}
        }
        match self.state(number) {
            ChildState::Ended(end) => end,
            _ => ChildEnd::not_started("prevented"),
        }
    }
}

fn end(status: ChildStatus, number: u32) -> ChildEnd {
    let usage = Usage { model_calls: 1, ..Usage::default() };
    ChildEnd { status, summary: format!("answer {number}"), usage }
}

impl Children {
    fn resize(&mut self, run: &GroupRun) {
        self.all.resize(run.group.tasks.len(), Child::Absent);
    }

    pub(super) fn states(&mut self, run: &GroupRun) -> Vec<ChildState> {
        self.resize(run);
        let numbered = (1..).zip(&self.all);
        let state = |(number, child): (u32, &Child)| match run.ended.get(&number) {
            Some(end) => ChildState::Ended(end.clone()),
            None => child.state(number),
        };
        numbered.map(state).collect()
    }

    pub(super) fn start(&mut self, run: &GroupRun, number: u32) -> Result<(), StartFailure> {
        self.resize(run);
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.all[number as usize - 1].start(),
        }
    }

    pub(super) fn end_all(&mut self, run: &GroupRun) -> Vec<ChildEnd> {
        self.resize(run);
        (1..).zip(&mut self.all).map(|(number, child)| child.end(number)).collect()
    }

    pub(super) fn open(&self) -> Vec<u32> {
        (1..).zip(&self.all).filter(|(_, child)| **child == Child::Open).map(|(number, _)| number).collect()
    }
}
