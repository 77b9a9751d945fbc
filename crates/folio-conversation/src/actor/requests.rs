//! Dispatches the messages of the actor.

use folio_history::event::{TurnStatus, TurnView};
use folio_history::journal::Decision;
use folio_resources::policy::Policy;
use folio_tools::policy::CurrentRules;
use folio_types::{Error, Principal, Reason, Result, Role};
use tokio::sync::OwnedSemaphorePermit;

use super::message::{Deltas, Msg, Reply, Request, TaskMsg};
use super::state::{Pending, Recipient, State};
use crate::current_access::{CurrentAccess, Requester};
use crate::prepare::require_member;
use crate::supervisor::StopReason;
use crate::turn::{Command, Decide, RequestedDecision, Ticket};
use folio_history::command::{ApproveAnswer, ApproveCommand, CallDecision};

impl State {
    /// Returns Some if the actor must stop.
    pub(super) async fn handle(&mut self, message: Msg) -> Option<StopReason> {
        match message {
            Msg::Request { principal, request, permit, trace } => {
                if matches!(request, Request::Approve(..) | Request::Resume(..)) {
                    self.traces.request_trace = trace;
                }
                self.handle_request(&principal, request, permit).await
            }
            Msg::FromTask { generation, message } if generation == self.generation => self.handle_task(message).await,
            Msg::FromTask { .. } => None,
            Msg::Follow { turn, from, reply } => {
                let _ = reply.send(self.follow(turn, from));
                None
            }
            Msg::Replaced { epoch } => self.replaced(epoch).await,
            Msg::Sweep if self.is_group_check_due() => self.sweep().await,
            Msg::Sweep => None,
            Msg::Republish => {
                // If loading fails, the state stays unpublished until the next sweep.
                let _ = self.ensure_loaded(None).await;
                self.republish();
                None
            }
            Msg::DeleteThread => match self.may_write().await {
                Ok(()) => self.begin_deletion(None, None).await,
                Err(_) => self.stop_if_idle(),
            },
            Msg::Deleted(result) => self.deleted(result),
            // Its stream would end with an error, and the watcher would load the thread again.
            Msg::StopIfIdle | Msg::DropHistory if self.is_watched_group() => None,
            Msg::StopIfIdle => self.stop_if_idle(),
            Msg::DropHistory => {
                self.drop_history();
                None
            }
            Msg::Drain => {
                self.empty_queue();
                None
            }
            #[cfg(test)]
            Msg::Break => panic!("an invariant breaks"),
        }
    }

    async fn handle_task(&mut self, message: TaskMsg) -> Option<StopReason> {
        match message {
            TaskMsg::Done(command) => self.execute(command).await,
            TaskMsg::Deltas(deltas) => self.deltas(deltas).await,
            TaskMsg::Unwritable(error) => self.unwritable(error).await,
            TaskMsg::ThreadDeleted(error) => {
                self.refuse_all(&error);
                Some(StopReason::ThreadDeleted)
            }
            TaskMsg::Stop(error) => {
                tracing::warn!(thread = %self.thread(), %error, "the conversation was stopped by a failed task");
                self.stop_error = Some(error);
                Some(StopReason::StoreFailed)
            }
        }
    }

    async fn handle_request(
        &mut self,
        principal: &Principal,
        request: Request,
        permit: OwnedSemaphorePermit,
    ) -> Option<StopReason> {
        let is_deleting = self.deletion_waiters.is_some() && !matches!(request, Request::Delete(..));
        let loaded = match is_deleting {
            true => Err(self.not_found()),
            false => self.ensure_loaded(request.new_thread()).await,
        };
        if let Err(error) = loaded.and_then(|()| self.check_access(principal, &request)) {
            let is_deleted = error.reason == Reason::NotFound && self.loaded.is_none();
            request.refuse(error);
            return is_deleted.then_some(StopReason::ThreadDeleted);
        }
        if self.writes(&request)
            && let Err(error) = self.may_own().await
        {
            request.refuse(error);
            return self.stop_if_not_created();
        }
        self.reloads = 0;
        let permit = Some(permit);
        match request {
            Request::Chat(prepared, reply) => {
                let effects = self.chat(principal, prepared, reply, permit).await;
                self.perform_all(effects).await.or_else(|| self.stop_if_not_created())
            }
            Request::Approve(command, reply) => self.approve(principal, *command, reply, permit).await,
            Request::Resume(turn, reply) => {
                if let Err(error) = self.acquire_slot_if_resumable(turn).await {
                    let _ = reply.send(Err(error));
                    return None;
                }
                self.submit(permit, Recipient::Stream(reply), |ticket| Command::Resume { ticket, turn }).await
            }
            Request::Cancel(turn, reply) => {
                self.submit(permit, Recipient::Cancel(reply), |ticket| Command::Cancel { ticket, turn }).await
            }
            Request::GetTurn(turn, reply) => {
                let view = self.view_for(principal, turn);
                let _ = reply.send(view.map(|view| (view, self.budget_parts(turn).pop())));
                self.sweep_own().await
            }
            Request::OpenTurn(reply) => {
                let open = self.loaded.as_ref().and_then(|loaded| loaded.machine.header().open_turn.clone());
                let view = open.map(|open| self.view_for(principal, open.number)).transpose();
                let _ = reply.send(view.map(|view| view.filter(is_open)));
                self.sweep_own().await
            }
            Request::Watch(turn, from, reply) => {
                // A turn without an owner is taken over, so that its events can be streamed.
                let reason = if self.runs(turn) { self.sweep().await } else { self.sweep_own().await };
                let _ = reply.send(self.admit_watcher(turn).and_then(|()| self.follow(turn, from)));
                reason
            }
            Request::Rename(title, request, reply) => {
                self.submit(permit, Recipient::Rename(reply), |ticket| Command::Rename { ticket, title, request }).await
            }
            Request::Delete(by, reply) => self.begin_deletion(by, Some(reply)).await,
            Request::Fork(command, reply) => {
                self.fork(principal, *command, reply);
                None
            }
        }
    }

    /// Refuses a stream if the turn has the maximum number of watchers.
    fn admit_watcher(&self, turn: u32) -> Result<()> {
        let followers = self.loaded.as_ref().and_then(|loaded| loaded.buffer.as_ref());
        let followers = followers.map(|buffer| &buffer.0).filter(|buffer| buffer.turn() == turn);
        let max = self.shared.options.watchers_per_conversation;
        if followers.is_none_or(|buffer| buffer.followers() < max) {
            return Ok(());
        }
        let message = format!("the turn has {max} watchers, which is the maximum; retry later");
        Err(Error::exhausted(Reason::Overloaded, message).retry_after(std::time::Duration::from_secs(5)))
    }

    /// Checks access to the thread, which its user and the organization's admins have. An approver that the policy
    /// names for a call may read the turn and decide in it, but not access the rest of the thread.
    fn check_access(&self, principal: &Principal, request: &Request) -> Result<()> {
        let header = self.loaded.as_ref().map(|loaded| loaded.machine.header());
        let own = header.is_some_and(|header| header.user == principal.user);
        match own || principal.role == Role::Admin || self.may_approve(principal.role, request) {
            true => Ok(()),
            false => Err(self.not_found()),
        }
    }

    /// Returns true if the policy names the role as approver of a call in the turn that the request reads or decides.
    fn may_approve(&self, role: Role, request: &Request) -> bool {
        let Some(history) = self.loaded.as_ref().map(|loaded| loaded.machine.history()) else { return false };
        let record = match request {
            Request::Approve(command, _) => history.turn(command.turn.number),
            Request::GetTurn(turn, _) | Request::Watch(turn, _, _) => history.turn(*turn),
            Request::OpenTurn(_) => history.open(),
            _ => None,
        };
        let Some(record) = record else { return false };
        let mut calls = record.rounds.iter().flat_map(|round| &round.calls);
        calls.any(|call| call.call.approval_requirement.as_ref().is_some_and(|needed| needed.approver.names(role)))
    }

    /// Passes a request to the machine and records the recipient of its answer.
    pub(super) async fn submit(
        &mut self,
        permit: Option<OwnedSemaphorePermit>,
        recipient: Recipient,
        command: impl FnOnce(Ticket) -> Command,
    ) -> Option<StopReason> {
        let ticket = self.ticket();
        let command = command(ticket);
        self.loaded.as_mut()?.pending.insert(ticket, Pending { command: command.clone(), recipient, permit });
        self.execute(command).await
    }

    async fn approve(
        &mut self,
        principal: &Principal,
        command: ApproveCommand,
        reply: Reply<ApproveAnswer>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Option<StopReason> {
        let turn = command.turn.number;
        let first = command.decisions.first().map(|decision| decision.call.round);
        let Some(round) = command.round.or(first) else {
            let _ = reply.send(Err(Error::invalid_field("round", "must be set if the request has no decisions")));
            return None;
        };
        let (by, current) = match self.current_access(principal, turn).await {
            Ok(current) => current,
            Err(error) => {
                let _ = reply.send(Err(error));
                return None;
            }
        };
        let decisions = command.decisions.into_iter().map(|decision| self.requested_decision(turn, decision)).collect();
        let decide = |ticket| Decide {
            ticket,
            turn,
            round: Some(round),
            decisions,
            reject_undecided: command.reject_undecided,
            continue_auto_approved: command.continue_auto_approved,
            by,
            current,
        };
        let recipient = Recipient::Approve { turn, reply };
        self.submit(permit, recipient, |ticket| Command::Decide(Box::new(decide(ticket)))).await
    }

    /// Reads the current policy and memberships for an approval in an open turn. Returns the approver with at most its
    /// current role, and the current rules. The decisions of an ended turn are only compared with the recorded ones.
    async fn current_access(&mut self, principal: &Principal, turn: u32) -> Result<(Principal, CurrentRules)> {
        let unread = CurrentRules { policy: Policy::default(), requester: Role::Member };
        let Some(loaded) = &self.loaded else { return Ok((principal.clone(), unread)) };
        let machine = &loaded.machine;
        let Some(record) = machine.history().turn(turn).filter(|record| record.ended.is_none()) else {
            return Ok((principal.clone(), unread));
        };
        let requester = Requester::of(&record.accepted, machine.header());
        let users = [requester.user(), &principal.user];
        let current = CurrentAccess::read(&self.shared, self.org(), &users).await?;
        let by = current.principal(principal.clone());
        require_member(&by)?;
        let rules = current.rules(&requester);
        if let Some(loaded) = &mut self.loaded {
            loaded.current_access = Some(current);
        }
        Ok((by, rules))
    }

    /// Edited arguments are normalized and validated like the arguments of a model.
    fn requested_decision(&self, turn: u32, decision: CallDecision) -> RequestedDecision {
        let CallDecision { call, mut decision, digest } = decision;
        let (round, index) = (call.round, call.index);
        let mut problem = None;
        if let (Decision::ApproveEdited { arguments }, Some(loaded)) = (&mut decision, &self.loaded)
            && let Some(record) = loaded.machine.history().turn(turn)
            && let Some(calls) = record.round(round).map(|round| &round.calls)
            && let Some(position) = calls.iter().position(|call| call.call.index == index)
        {
            let names: Vec<&str> = calls.iter().map(|call| call.call.name.as_str()).collect();
            let name = names.get(position).copied().unwrap_or_default();
            let profile = loaded.profile.of_turn(record.accepted.options.tools());
            profile.canonicalize(name, arguments);
            problem = profile.problem(name, arguments);
            problem = problem.or_else(|| profile.reference_problem(&names, position, arguments));
        }
        RequestedDecision { round, index, decision, digest, problem }
    }

    async fn deltas(&mut self, deltas: Deltas) -> Option<StopReason> {
        let Deltas { round, attempt, deltas, slot } = deltas;
        drop(slot);
        for delta in deltas {
            let effects = self.step(Command::ModelDelta { round, attempt, delta });
            if let Some(reason) = self.perform_all(effects).await {
                return Some(reason);
            }
        }
        None
    }

    /// Returns the stop reason of an actor whose thread is not created, because its first chat was refused.
    fn stop_if_not_created(&self) -> Option<StopReason> {
        let loaded = self.loaded.as_ref().filter(|loaded| loaded.new.is_some())?;
        (loaded.pending.is_empty() && loaded.queue.is_empty()).then_some(StopReason::ThreadDeleted)
    }

    pub(super) fn stop_if_idle(&mut self) -> Option<StopReason> {
        (self.is_idle() && self.shared.table.remove_if_idle(&self.key, self.myself.get_id()))
            .then_some(StopReason::Idle)
    }

    /// Returns true if the actor has no work and no waiting request.
    fn is_idle(&self) -> bool {
        self.deletion_waiters.is_none()
            && self.loaded.as_ref().is_none_or(|loaded| {
                loaded.machine.can_be_dropped() && loaded.pending.is_empty() && loaded.queue.is_empty()
            })
    }

    /// Drops the history of an idle conversation. The next request loads it again.
    fn drop_history(&mut self) {
        if self.is_idle()
            && let Some(loaded) = self.loaded.take()
        {
            loaded.token.cancel();
            self.generation += 1;
        }
    }
}

fn is_open(view: &TurnView) -> bool {
    matches!(view.status, TurnStatus::Running | TurnStatus::AwaitingApproval)
}
