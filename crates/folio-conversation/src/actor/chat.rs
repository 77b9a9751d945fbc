//! Validates a chat against the thread, its profile and the models, before the turn machine handles it.

use folio_history::TurnRecord;
use folio_history::command::DirectCall;
use folio_history::journal::{AcceptedCall, TurnOptions};
use folio_llm::Catalogue;
use folio_tools::{CheckedCall, ProfileTools};
use folio_types::profile::Profile;
use folio_types::{Error, Principal, Result};
use tokio::sync::OwnedSemaphorePermit;

use super::message::{PreparedChat, Reply};
use super::state::{Pending, Recipient, State};
use crate::events::StreamStart;
use crate::group::{restrict, task_request};
use crate::prepare::{sorted, subject_of};
use crate::turn::{Command, Effect, Start};

/// Maximum rounds of a turn with a direct call. Its only round is below the maximum, so that the call runs.
const DIRECT_CALL_ROUNDS: u32 = 2;

impl State {
    /// Validates a chat, acquires its slot and passes it to the turn machine, or refuses it.
    pub(super) async fn chat(
        &mut self,
        principal: &Principal,
        prepared: Box<PreparedChat>,
        reply: Reply<StreamStart>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Vec<Effect> {
        let options = match self.turn_options(principal, &prepared) {
            Ok(options) => self.acquire_slot_for_chat(&prepared).await.map(|()| options),
            Err(error) => Err(error),
        };
        let options = match options {
            Ok(options) => options,
            Err(error) => {
                let _ = reply.send(Err(error));
                return Vec::new();
            }
        };
        self.traces.request_trace.clone_from(&prepared.trace);
        let ticket = self.ticket();
        let chat = &prepared.command;
        let command = Command::Start(Box::new(Start {
            ticket,
            request: prepared.request.clone(),
            digest: prepared.digest.clone(),
            user: principal.user.clone(),
            role: principal.role,
            text: chat.text.clone(),
            mentions: chat.mentions.clone(),
            options,
            truncate_to: chat.truncate_to_message_count,
            if_busy: chat.if_busy,
            if_pending: chat.if_pending,
        }));
        let recipient = Recipient::Chat { prepared: Some(prepared), principal: principal.clone(), reply };
        if let Some(loaded) = &mut self.loaded {
            loaded.pending.insert(ticket, Pending { command: command.clone(), recipient, permit });
        }
        self.step(command)
    }

    /// Acquires the slot of a chat's turn. A repeated request needs a slot only if it resumes its turn.
    async fn acquire_slot_for_chat(&mut self, prepared: &PreparedChat) -> Result<()> {
        let history = self.loaded.as_ref().map(|loaded| loaded.machine.history());
        match history.and_then(|history| history.by_request(&prepared.request)).map(TurnRecord::number) {
            Some(turn) => self.acquire_slot_if_resumable(turn).await,
            None => {
                let newest = history.and_then(|history| history.last()).map_or(0, TurnRecord::number);
                self.acquire_slot(newest.saturating_add(1)).await
            }
        }
    }

    /// Acquires the slot of a turn that can be resumed. Otherwise, no slot is needed.
    pub(super) async fn acquire_slot_if_resumable(&mut self, turn: u32) -> Result<()> {
        let now = self.shared.dependencies.environment.now();
        let is_resumable = self.loaded.as_ref().is_some_and(|loaded| loaded.machine.is_resumable(now, turn));
        if is_resumable { self.acquire_slot(turn).await } else { Ok(()) }
    }

    /// Acquires a slot of the organization's concurrent turns unless this thread has one. In that case, the machine
    /// decides about the request.
    async fn acquire_slot(&mut self, turn: u32) -> Result<()> {
        if self.turn_slot.is_none() {
            let slots = &self.shared.dependencies.turn_slots;
            self.turn_slot = Some((turn, slots.take(self.org(), &self.slot_name(turn)).await?));
        }
        Ok(())
    }

    /// The name is the same on every node, so that a turn that moves to another node counts once.
    pub(super) fn slot_name(&self, turn: u32) -> String {
        format!("{}/{turn}", self.thread())
    }

    /// Returns the options of the chat's turn. A repeated request keeps the options of its turn.
    fn turn_options(&self, principal: &Principal, prepared: &PreparedChat) -> Result<TurnOptions> {
        let loaded = self.loaded.as_ref().ok_or_else(|| self.not_found())?;
        if let Some(record) = loaded.machine.history().by_request(&prepared.request) {
            return Ok(record.accepted.options.clone());
        }
        let command = &prepared.command;
        let header = loaded.machine.header();
        let task = header.task.as_deref();
        if task.is_some() && prepared.request != task_request(&header.id)? {
            let message = "the thread is the log of a task and takes no message; fork it to continue";
            return Err(Error::invalid_field("thread_id", message));
        }
        if command.profile.as_ref().is_some_and(|profile| *profile != header.profile) {
            return Err(Error::invalid_field("profile", format!("the thread has profile {}", header.profile)));
        }
        if !command.documents.is_empty() && sorted(&command.documents) != sorted(&header.documents) {
            return Err(Error::invalid_field("document_ids", "the thread is about other documents"));
        }
        loaded.profile.check_names("auto_approved_tools", &command.auto_approved_tools)?;
        let direct_call = command.direct_call.as_ref();
        let direct_call = direct_call.map(|call| accepted_call(&loaded.profile, call)).transpose()?;
        let ttl = u32::try_from(self.shared.options.approval_ttl.as_secs()).unwrap_or(u32::MAX).max(1);
        let ttl = prepared.approval_ttl_seconds.unwrap_or(ttl);
        let profile = &loaded.profile.profile;
        let subject = subject_of(profile, header.subject.as_ref(), &header.documents)?;
        let rounds_max = if direct_call.is_some() { DIRECT_CALL_ROUNDS } else { profile.limits.model_calls };
        let turn_profile = loaded.profile.turn_profile(subject);
        let parents = task.map(|task| task.parent_profiles.as_slice()).unwrap_or_default();
        Ok(TurnOptions {
            model: chat_model(&prepared.models, command.model.as_deref().or(header.model.as_deref()), profile)?,
            auto_approve: command.auto_approve,
            auto_approved_tools: command.auto_approved_tools.clone(),
            approval_ttl_seconds: ttl,
            rounds_max: task.and_then(|task| task.rounds_max).map_or(rounds_max, |max| max.min(rounds_max)),
            policy: prepared.policy.of_turn(&principal.user, principal.role, &header.profile, parents),
            profile: Some(match task {
                Some(task) => restrict(turn_profile, task),
                None => turn_profile,
            }),
            credit_budget: command.credit_budget,
            direct_call,
        })
    }
}

/// Checks a direct call against the tools. Arguments that the tool refuses become the result of the call.
fn accepted_call(tools: &ProfileTools, call: &DirectCall) -> Result<Box<AcceptedCall>> {
    if tools.answer().schema().is_some() {
        let message = format!("profile {} answers with JSON and runs no direct calls", tools.profile.name);
        return Err(Error::invalid_field("direct_call", message));
    }
    let unknown =
        |error: Error| Error::invalid_field("direct_call.tool", error.message.clone()).with_reason(error.reason);
    tools.find(&call.tool).map_err(unknown)?;
    let CheckedCall { arguments, access, problem, repairs } = tools.check(&call.tool, &call.arguments.to_string());
    Ok(Box::new(AcceptedCall { name: call.tool.clone(), arguments, access, problem, repairs }))
}

/// Returns the model of a turn: `named` by the request or the thread, else that of the profile if it is offered, else the
/// default. A named model that is not offered is refused.
fn chat_model(models: &Catalogue, named: Option<&str>, profile: &Profile) -> Result<String> {
    let of_profile = profile.model.filter(|name| models.for_chat(Some(name)).is_ok());
    Ok(models.for_chat(named.or(of_profile))?.name.clone())
}
