//! The thread and the message of a child turn, and the restrictions that it inherits. Everything derives from the stored parent,
//! so that every owner of the parent starts the same child.

use std::sync::Arc;

use folio_history::command::{ChatCommand, DirectCall};
use folio_history::journal::{GroupTask, TurnProfile, WorkingState};
use folio_history::task::{TaskOrigin, ThreadTask};
use folio_history::thread::{NewThread, ThreadHeader};
use folio_history::{TurnRecord, starting_from};
use folio_tools::Registry;
use folio_tools::tasks::{self, RUN_TASKS, Task};
use folio_types::profile::SubjectKind;
use folio_types::{Principal, RequestId, Role, ThreadId, Timestamp, limits};
use jiff::SignedDuration;

use crate::turn::GroupRun;

/// The parent of a child turn.
pub(crate) struct Parent<'a> {
    pub(crate) header: &'a ThreadHeader,
    pub(crate) record: &'a TurnRecord,
    pub(crate) tools: &'a Registry,
}

/// A child turn to start.
pub(crate) struct ChildPlan {
    pub(crate) thread: NewThread,
    pub(crate) message: ChatCommand,
    /// The requester of the parent.
    pub(crate) principal: Principal,
    /// Number of equal shares into which each credit budget of the parent is divided for this child, those that start later, and
    /// the parent.
    pub(crate) shares: u64,
}

impl Parent<'_> {
    /// Returns the requester of the turn, in whose name its child turns are started, ended and notified.
    pub(crate) fn principal(&self) -> Principal {
        let accepted = &self.record.accepted;
        let role = accepted.role.unwrap_or(Role::Member).max(Role::Member);
        Principal::new(self.header.org.clone(), accepted.user.clone(), role)
    }

    /// Returns the child with this number, from 1. The error is the reason for which it cannot start.
    pub(crate) fn child(&self, run: &GroupRun, number: u32, now: Timestamp) -> Result<ChildPlan, String> {
        let missing = || "the task does not exist".to_owned();
        let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        let planned = run.group.tasks.get(at).ok_or_else(missing)?;
        let requested = tasks::parse(&run.run.arguments)?;
        let task = requested.get(at).ok_or_else(missing)?;
        let later = run.group.tasks.len().saturating_sub(at);
        Ok(ChildPlan {
            thread: self.thread(run, (number, planned), task, now),
            message: self.message(planned, task)?,
            principal: self.principal(),
            shares: u64::try_from(later).unwrap_or(u64::MAX).saturating_add(1),
        })
    }

    fn thread(&self, run: &GroupRun, (number, planned): (u32, &GroupTask), task: &Task, now: Timestamp) -> NewThread {
        let ThreadHeader { org, user, documents, .. } = self.header;
        let owner = Principal::new(org.clone(), user.clone(), Role::Member);
        let kept = SignedDuration::try_from(limits::TASK_RETENTION).unwrap_or(SignedDuration::MAX);
        let kept_until = now.checked_add(kept).unwrap_or(Timestamp::MAX);
        let kind = self.tools.profile(&planned.profile).map_or(SubjectKind::Document, |found| found.profile.subject);
        let subject = self.record.accepted.options.subject(documents);
        let working = self.working(planned);
        NewThread {
            // The subject of a profile about documents is the first document, which no thread repeats.
            subject: subject.filter(|_| kind != SubjectKind::Document),
            job: self.header.job.clone(),
            task: Some(Box::new(self.thread_task(run, (number, planned), task))),
            ephemeral: true,
            expires_at: Some(self.header.expires_at.map_or(kept_until, |parent| parent.min(kept_until))),
            imported: if working == WorkingState::default() { Vec::new() } else { starting_from(&working) },
            ..NewThread::new(planned.thread.clone(), &owner, &planned.profile, documents.clone(), now)
        }
    }

    /// Returns the working state with which a child starts. Another profile has another state of its own.
    fn working(&self, planned: &GroupTask) -> WorkingState {
        let working = self.record.working.clone();
        if planned.profile == self.header.profile { working } else { WorkingState { profile_state: None, ..working } }
    }

    fn thread_task(&self, run: &GroupRun, (number, planned): (u32, &GroupTask), task: &Task) -> ThreadTask {
        let above = self.header.task.as_deref();
        let of_turn = self.record.accepted.options.profile.as_ref();
        let union = |of_turn: Option<&Arc<[String]>>, above: Option<&Vec<String>>| {
            let mut names: Vec<String> = of_turn.into_iter().flat_map(|names| names.iter().cloned()).collect();
            names.extend(above.into_iter().flatten().cloned());
            names.sort_unstable();
            names.dedup();
            names
        };
        let mut parent_profiles = above.map(|task| task.parent_profiles.clone()).unwrap_or_default();
        parent_profiles.push(self.header.profile.clone());
        ThreadTask {
            origin: TaskOrigin {
                call: run.run.call.clone(),
                group: run.group.id.clone(),
                number,
                agent: planned.profile.clone(),
                depth: above.map_or(0, |task| task.origin.depth).saturating_add(1),
            },
            rounds_max: match task {
                Task::UseTool(_) => None,
                Task::DelegateAgent(task) => task.max_rounds,
            },
            children_max: planned.children_max,
            budget_parts: planned.budget_parts.clone(),
            parent_profiles,
            waiting_tools: union(of_turn.map(|profile| &profile.waiting_tools), above.map(|task| &task.waiting_tools)),
            policy_tools: union(of_turn.map(|profile| &profile.policy_tools), above.map(|task| &task.policy_tools)),
        }
    }

    /// Returns the message of a child. It is the same for every attempt, so that a repeated start finds the turn.
    fn message(&self, planned: &GroupTask, task: &Task) -> Result<ChatCommand, String> {
        let accepted = &self.record.accepted;
        let agent = self.tools.profile(&planned.profile).map_err(|error| error.message)?;
        let has_model = planned.tool.is_none() && agent.profile.model.is_some();
        let mut approved = accepted.options.auto_approved_tools.clone();
        approved.retain(|tool| agent.get(tool).is_some());
        let direct_call = match task {
            Task::DelegateAgent(_) => None,
            Task::UseTool(task) => {
                let (tool, arguments) = (task.tool.clone(), task.call_arguments());
                Some(DirectCall { tool, arguments, thread_number: 1 })
            }
        };
        Ok(ChatCommand {
            thread: Some(planned.thread.clone()),
            model: (!has_model).then(|| accepted.options.model.clone()),
            auto_approve: accepted.options.auto_approve,
            auto_approved_tools: approved,
            direct_call,
            request_id: Some(task_request(&planned.thread).map_err(|error| error.message)?),
            ..ChatCommand::new(task.message(&accepted.text))
        })
    }
}

/// Returns the request id of the only turn of a child thread.
pub(crate) fn task_request(thread: &ThreadId) -> folio_types::Result<RequestId> {
    format!("task-{thread}").parse()
}

/// Returns the profile with which a child turn is recorded: a tool whose calls wait in a turn above waits in the child, too, and a child
/// that may start no child turns lacks the tool for it.
pub(crate) fn restrict(profile: TurnProfile, task: &ThreadTask) -> TurnProfile {
    let may_delegate = task.children_max > 0 && task.origin.depth < limits::TASK_DEPTH_MAX;
    let is_kept = |tool: &&String| may_delegate || tool.as_str() != RUN_TASKS;
    let with = |own: &[String], inherited: &[String], tools: &[String]| -> Arc<[String]> {
        tools.iter().filter(|tool| own.contains(tool) || inherited.contains(tool)).cloned().collect()
    };
    let tools: Arc<[String]> = profile.tools.iter().filter(is_kept).cloned().collect();
    TurnProfile {
        waiting_tools: with(&profile.waiting_tools, &task.waiting_tools, &tools),
        policy_tools: with(&profile.policy_tools, &task.policy_tools, &tools),
        tools,
        ..profile
    }
}

#[cfg(test)]
mod tests;
