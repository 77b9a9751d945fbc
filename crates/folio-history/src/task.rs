//! Groups of tasks: the child turns that a call of `run_tasks` starts. A child turn is the only turn of a thread of its own.
//!
//! ```text
//!   group appended ──▶ children absent ──start──▶ open ──▶ ended ──▶ result of the call appended
//!                            ▲                     │
//!                            └──── interrupted ◀───┘ (its node died)
//! ```
//!
//! The parent stores only the group and, at the end, the result: the state of a child is that of its thread. So every owner of
//! the parent computes the same next step, and a lost notice or a second owner starts no child twice.

use folio_types::message::Usage;
use folio_types::{BudgetPart, CallId, GroupId, Reason, ThreadId, Timestamp, limits, named_enum, truncate_bytes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fold::json_bytes;
use crate::journal::{CallResult, CallStatus, End, Ended, Entry, ResumeCause};

/// Suffix of a truncated summary.
const TRUNCATION_NOTE: &str = "\n[… truncated: the log of the task contains the rest]";
/// Minimum bytes to which summaries are truncated so that the result fits.
const SUMMARY_BYTES_MIN: usize = 256;
/// Bytes of a result for advice and descriptions of repairs.
const RESULT_FRAME: usize = 4 * 1024;

/// The child turns of a call of `run_tasks`, as recorded before the first of them starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub turn: u32,
    /// Counted from 1.
    pub round: u32,
    /// Index of the call in the round, from 1.
    pub index: u32,
    #[serde(rename = "group_id")]
    pub id: GroupId,
    /// In the order of the call. The number of a task is its position, from 1.
    pub tasks: Vec<GroupTask>,
    /// Maximum number of child turns that are open at a time.
    pub running_max: u32,
    /// Arguments in which ids replace the references ([`crate::reference`]). None: the arguments contain no reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Time at which the turn ends with its open child turns.
    pub expires_at: Timestamp,
    /// Number of the event that announces the group.
    pub event: u64,
    pub at: Timestamp,
}

/// A task of a group. The arguments of the call contain its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupTask {
    /// The thread of the child turn, derived from the call and the number of the task.
    pub thread: ThreadId,
    /// Profile of the thread: the agent.
    pub profile: String,
    /// The tool that the child turn runs without a model. None: the agent works on the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Child turns that the child turn may start, with those of its child turns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children_max: u32,
    /// Parts of the credit budgets of the parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget_parts: Vec<BudgetPart>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The task of a thread, which its only turn performs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTask {
    pub origin: TaskOrigin,
    /// Maximum number of model calls. None: that of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_max: Option<u32>,
    /// Child turns that the turn may start, with those of its child turns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children_max: u32,
    /// Parts of the credit budgets of the parent. Each of them must cover a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budget_parts: Vec<BudgetPart>,
    /// Profiles of the turns above, the root turn first. The restrictions of the policy for them apply as well.
    pub parent_profiles: Vec<String>,
    /// Tools whose calls wait for a decision in a turn above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_tools: Vec<String>,
    /// The part of `waiting_tools` whose calls only the policy permits in advance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_tools: Vec<String>,
}

/// The call of `run_tasks` that started a child turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOrigin {
    /// The call in the parent turn.
    pub call: CallId,
    pub group: GroupId,
    /// Number of the task in its group, from 1.
    pub number: u32,
    /// Profile of the child turn.
    pub agent: String,
    /// Number of turns from the root turn to the child turn, from 1 to [`TASK_DEPTH_MAX`](limits::TASK_DEPTH_MAX).
    pub depth: u32,
}

/// A group for clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    pub call: CallId,
    pub id: GroupId,
    pub tasks: Vec<TaskView>,
}

/// A task for clients. Its thread is its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// From 1.
    pub number: u32,
    /// Profile of the child turn.
    pub agent: String,
    /// The tool that the child turn runs without a model. None: the agent works on the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub thread: ThreadId,
}

/// State of a child turn, as its thread shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildState {
    /// No turn was accepted in the thread of the child.
    Absent,
    Open,
    /// The node of the child died. The next start continues the turn.
    Interrupted,
    Ended(ChildEnd),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnd {
    pub status: ChildStatus,
    /// The answer, the result of the tool, or the reason of the end.
    pub summary: String,
    /// Usage of the child turn.
    pub usage: Usage,
}

named_enum! {
    pub enum ChildStatus {
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        Expired = "expired",
        Superseded = "superseded",
        /// The child turn was refused, or its parent ended first.
        NotStarted = "not_started",
    }
}

impl ChildEnd {
    /// Returns the end of a child that has no turn.
    pub fn not_started(reason: impl Into<String>) -> Self {
        Self { status: ChildStatus::NotStarted, summary: reason.into(), usage: Usage::default() }
    }
}

/// Next step of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupStep {
    /// Start the children with these numbers.
    Start(Vec<u32>),
    /// Wait until an open child ends.
    Wait,
    /// Every child has ended.
    Finished,
}

impl Group {
    /// Returns the number of child turns, with those that they may start.
    pub fn children(&self) -> u32 {
        self.tasks.iter().fold(0, |sum, task| sum.saturating_add(task.children_max).saturating_add(1))
    }

    /// Returns the tasks with their numbers, from 1.
    pub fn numbered(&self) -> impl Iterator<Item = (u32, &GroupTask)> {
        (1..).zip(&self.tasks)
    }

    /// `call`: the id of the call.
    pub fn view(&self, call: CallId) -> GroupView {
        GroupView {
            call,
            id: self.id.clone(),
            tasks: self.numbered().map(|(number, task)| task.view(number)).collect(),
        }
    }

    /// Returns the next step. `states`: those of the children, in order. A missing one is absent.
    pub fn step(&self, states: &[ChildState]) -> GroupStep {
        let is_ended = |state: &ChildState| matches!(state, ChildState::Ended(_));
        if states.len() >= self.tasks.len() && states.iter().all(is_ended) {
            return GroupStep::Finished;
        }
        let open = states.iter().filter(|state| **state == ChildState::Open).count();
        let free = usize::try_from(self.running_max).unwrap_or(usize::MAX).max(1).saturating_sub(open);
        let state_of = |number: u32| states.get(usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1));
        let waits = |number: u32| matches!(state_of(number), None | Some(ChildState::Absent | ChildState::Interrupted));
        let start: Vec<u32> =
            self.numbered().map(|(number, _)| number).filter(|number| waits(*number)).take(free).collect();
        if start.is_empty() { GroupStep::Wait } else { GroupStep::Start(start) }
    }

    /// Returns the result of the call for the model, and the usage of all children. A call of which no child completed has
    /// failed. `ends`: those of the children, in order.
    pub fn result(&self, ends: &[ChildEnd]) -> (CallStatus, String, Usage) {
        let is_completed = |end: &ChildEnd| end.status == ChildStatus::Completed;
        let status = if ends.iter().any(is_completed) { CallStatus::Ok } else { CallStatus::Failed };
        let usage = ends.iter().fold(Usage::default(), |sum, end| sum.plus(end.usage));
        (status, self.content(ends), usage)
    }

    /// Returns the results as JSON. Summaries are truncated, all to the same length, until the result fits.
    fn content(&self, ends: &[ChildEnd]) -> String {
        let mut longest = limits::TASK_SUMMARY_BYTES;
        loop {
            let content = self.content_within(ends, longest);
            let fits = content.len() <= limits::TOOL_RESULT_BYTES - RESULT_FRAME
                && json_bytes(&content) <= limits::ENTRY_BYTES / 2;
            if fits || longest <= SUMMARY_BYTES_MIN {
                return content;
            }
            longest /= 2;
        }
    }

    fn content_within(&self, ends: &[ChildEnd], longest: usize) -> String {
        let tasks: Vec<Value> = self
            .numbered()
            .zip(ends)
            .map(|((number, task), end)| {
                let performer = match &task.tool {
                    Some(tool) => ("tool", tool),
                    None => ("agent", &task.profile),
                };
                let mut summary = end.summary.clone();
                truncate_bytes(&mut summary, longest, TRUNCATION_NOTE);
                json!({
                    "task": number,
                    performer.0: performer.1,
                    "status": end.status.as_str(),
                    "summary": summary,
                    "thread_id": task.thread.as_str(),
                })
            })
            .collect();
        json!({ "group_id": self.id.as_str(), "tasks": tasks }).to_string()
    }
}

impl GroupTask {
    pub fn view(&self, number: u32) -> TaskView {
        let Self { thread, profile, tool, .. } = self;
        TaskView { number, agent: profile.clone(), tool: tool.clone(), thread: thread.clone() }
    }
}

/// Returns the number of child turns that each of `tasks` children of a turn may start. The rest remains with the turn.
/// `left`: the child turns that the turn may still start. None: the turn may not start so many.
pub fn children_of_each(left: u32, tasks: usize) -> Option<u32> {
    let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
    let rest = left.checked_sub(tasks)?;
    Some(rest / tasks.saturating_add(1))
}

/// The fold of the journal of a child thread into its state. It keeps only what the parent needs.
#[derive(Debug, Default)]
pub struct ChildLog {
    /// True if the turn was accepted.
    is_accepted: bool,
    /// True if the turn runs a tool without a model.
    is_direct: bool,
    /// Newest result of the tool.
    result: Option<CallResult>,
    /// Number of takeovers and retries.
    resumes: u32,
    ended: Option<Ended>,
}

impl ChildLog {
    pub fn push(&mut self, entry: Entry) {
        match entry {
            Entry::Accepted(accepted) => {
                self.is_accepted = true;
                self.is_direct = accepted.options.direct_call.is_some();
            }
            Entry::Round(round) if self.is_direct => self.result = round.results.into_iter().next_back(),
            Entry::Outcome(outcome) if self.is_direct => self.result = Some(outcome.result),
            Entry::Resumed(resumed) => {
                self.ended = None;
                if resumed.cause != ResumeCause::Reload {
                    self.resumes = self.resumes.saturating_add(1);
                }
            }
            Entry::Ended(mut ended) => {
                if self.is_direct {
                    self.result = ended.results.pop().or(self.result.take());
                }
                self.ended = Some(*ended);
            }
            _ => {}
        }
    }

    /// `now`: an interrupted turn can be continued for one day.
    pub fn state(self, now: Timestamp) -> ChildState {
        let Some(ended) = self.ended else {
            return if self.is_accepted { ChildState::Open } else { ChildState::Absent };
        };
        let usage = ended.usage;
        let (status, summary) = match ended.end {
            End::Failed { error, retriable: true }
                if error.reason == Reason::NodeLost
                    && self.resumes < limits::TASK_RESUMES_MAX
                    && is_within_a_day(ended.at, now) =>
            {
                return ChildState::Interrupted;
            }
            End::Completed { text, .. } => match self.result {
                Some(result) if result.status == CallStatus::Ok => (ChildStatus::Completed, result.content),
                Some(result) => (ChildStatus::Failed, result.content),
                None => (ChildStatus::Completed, text),
            },
            End::Failed { error, .. } => (ChildStatus::Failed, error.message),
            End::Cancelled => (ChildStatus::Cancelled, "The task was cancelled.".to_owned()),
            End::Expired => (ChildStatus::Expired, "A call of the task was not decided in time.".to_owned()),
            End::Superseded => (ChildStatus::Superseded, "Another message superseded the task.".to_owned()),
        };
        ChildState::Ended(ChildEnd { status, summary, usage })
    }
}

fn is_within_a_day(at: Timestamp, now: Timestamp) -> bool {
    let day = jiff::SignedDuration::try_from(limits::DAY).unwrap_or_default();
    now.duration_since(at) <= day
}

#[cfg(test)]
mod tests;
