//! A model call: context, permit, stream, settlement.

use std::pin::pin;
use std::sync::Arc;

use folio_history::job::{EXTRACTION_KIND, JobState, STACK_FILL_KIND};
use folio_history::journal::{AnswerType, WorkingState};
use folio_llm::{ModelError, ModelInfo, ModelReply, ModelRequest, RawToolCall, RequestImages, Tools};
use folio_metering::{AbandonedCalls, Meter, MeteredCall, Permit, Settlement, SharedMeter};
use folio_tools::ProfileTools;
use folio_tools::extraction::AGENT_JOB_KIND;
use folio_types::message::{ThinkingBlock, Usage};
use folio_types::{DocumentId, Error, JobId, Reason, Temperature, TurnId, UserId};
use futures::poll;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::model_stream::{AbandonedAnswer, ReadOutcome, read};
use super::{TaskContext, answer, images};
use crate::context::{ContextLoader, SUMMARY_INSTRUCTIONS, state_message};
use crate::request_parts::Prompt;
use crate::turn::{CheckedCall, Command, ModelCall, Reply, out_of_time};
use crate::window::{Window, estimated_tokens, messages_tokens, tool_tokens};

/// Maximum number of tool calls of an answer to keep. The turn machine has a smaller limit for the calls that run.
const CALLS_KEPT: usize = 4 * folio_types::limits::CALLS_PER_ROUND_MAX;
/// Minimum tokens for an answer. If the turn leaves fewer tokens of the context free, no model call is made.
const ANSWER_TOKENS_MIN: usize = 256;

pub(crate) struct ModelWork {
    pub(crate) work: TaskContext,
    pub(crate) call: ModelCall,
    pub(crate) user: UserId,
    pub(crate) profile: Arc<ProfileTools>,
    /// The tools that are sent.
    pub(crate) tools: Tools,
    pub(crate) window: Window,
    pub(crate) prompt: Prompt,
    /// The working state at the start of the turn. Later changes do not change the system message.
    pub(crate) start: WorkingState,
    pub(crate) working: WorkingState,
    pub(crate) answer: AnswerType,
    /// End of the turn's running time. None: no limit.
    pub(crate) deadline: Option<Instant>,
    /// None: the thread has no document or several.
    pub(crate) document: Option<DocumentId>,
    /// Shared by all model calls of a turn.
    pub(crate) context: Arc<Mutex<ContextLoader>>,
    /// Value of the turn's write counter when the call started.
    pub(crate) write_counter: u64,
    pub(crate) meter: SharedMeter,
    /// True if the turn has a credit budget.
    pub(crate) has_budget: bool,
    /// The job that drives the turn. None: no job drives it.
    pub(crate) job: Option<JobId>,
}

/// Outcome of a model call. `Ok(None)`: the call was stopped.
type Outcome = Result<Option<Reply>, Box<Failure>>;

struct Failure {
    error: Error,
    retriable: bool,
    usage: Usage,
}

impl Failure {
    /// Returns the failure of a call that was not sent.
    fn unsent(error: Error) -> Box<Self> {
        // A turn without credit can be resumed after a top-up, and that of a paused job together with the job.
        let later = matches!(error.reason, Reason::StoreUnavailable | Reason::CreditExhausted | Reason::JobPaused);
        let retriable = error.is_retriable() || later;
        Box::new(Self { error, retriable, usage: Usage::default() })
    }
}

impl ModelWork {
    /// Makes the call and reports its outcome. A stopped call is not reported.
    ///
    /// The settlement is sent before the report and awaited after it. The settlement may share a commit with the turn's
    /// next append, and a store that writes in order never commits the append first. If the turn has a credit budget, the
    /// settlement is awaited before the report, so that the next call finds what this one returned.
    pub(crate) async fn run(mut self) {
        self.work.hit_failpoint("model", "before").await;
        let (settlement, outcome) = match self.call_model().await {
            Ok((permit, settlement, outcome)) => (Some((permit, settlement)), outcome),
            Err(outcome) => (None, outcome),
        };
        let settle = async {
            if let Some((permit, settlement)) = settlement {
                settle(&*self.meter, &self.call.turn, permit, settlement).await;
            }
        };
        let mut settled = pin!(settle);
        let mut at_once = poll!(settled.as_mut()).is_ready();
        if self.has_budget && !at_once {
            settled.as_mut().await;
            at_once = true;
        }
        self.work.hit_failpoint("model", "after").await;
        self.report_outcome(outcome);
        if !at_once {
            settled.await;
        }
    }

    fn report_outcome(&self, outcome: Outcome) {
        let ModelCall { round, attempt, .. } = self.call;
        match outcome {
            Ok(Some(reply)) => self.work.report(Command::ModelReplied { round, attempt, reply: Box::new(reply) }),
            Ok(None) => {}
            Err(failure) => {
                let Failure { error, retriable, usage } = *failure;
                let logged = error.logged();
                tracing::warn!(turn = %self.call.turn, round, attempt, error = logged, "model call failed");
                self.work.report(Command::ModelFailed { round, attempt, error, retriable, usage });
            }
        }
    }

    /// Makes the call and returns its permit, settlement and outcome. Err: only the outcome, because the caller has
    /// nothing to settle. Usage of failed fallback attempts counts towards the outcome.
    async fn call_model(&mut self) -> Result<(Permit, Settlement, Outcome), Outcome> {
        let operation = self.check_job().await.map_err(|error| Err(Failure::unsent(error)))?;
        let mut spent = Usage::default();
        match self.call_with_fallbacks(operation, &mut spent).await {
            Ok((permit, settlement, outcome)) => Ok((permit, settlement, add_usage(outcome, spent))),
            Err(outcome) => Err(add_usage(outcome, spent)),
        }
    }

    /// Returns the operation of the call in the usage, and refuses the call while the job that drives the turn is paused, so that
    /// the turn stops. While the store does not answer, the call is made, and has the operation of a turn without a job.
    ///
    /// # Errors
    /// `JOB_PAUSED`.
    async fn check_job(&self) -> Result<&'static str, Error> {
        let Some(job) = &self.job else { return Ok(operation_of(None)) };
        let shared = &self.work.shared;
        let header = shared.dependencies.stores.jobs.header(&self.work.org, job);
        match shared.with_store_timeout(header).await {
            Ok(Some(header)) if header.state == JobState::Paused => {
                let message = format!("the job {job} is paused; the turn continues once the job is resumed");
                Err(Error::precondition(Reason::JobPaused, message))
            }
            Ok(header) => Ok(operation_of(header.as_ref().map(|header| header.kind.as_str()))),
            Err(error) => {
                tracing::debug!(%error, %job, "cannot check whether the job of a turn is paused");
                Ok(operation_of(None))
            }
        }
    }

    /// Calls the models in order until one answers, or fails with an error that does not allow a fallback. Adds the
    /// usage of failed models to `spent`.
    async fn call_with_fallbacks(
        &mut self,
        operation: &'static str,
        spent: &mut Usage,
    ) -> Result<(Permit, Settlement, Outcome), Outcome> {
        let mut window = std::mem::take(&mut self.window);
        let all_tool_tokens = tool_tokens(&self.tools);
        let shared = &self.work.shared;
        let catalogue = shared.dependencies.models.catalogue(&self.work.org).await;
        let catalogue = catalogue.map_err(|error| Err(Failure::unsent(error)))?;
        let requested = catalogue.for_chat(Some(&self.call.model)).map_err(|error| Err(Failure::unsent(error)))?;
        let has_tools = !self.tools.is_empty();
        let needs_vision = window.has_images() && requested.options.vision;
        let able = |model: &ModelInfo| {
            let has_required_tools = model.options.tools || !has_tools || !requested.options.tools;
            model.options.chat && has_required_tools && (model.options.vision || !needs_vision)
        };
        let candidates = catalogue.candidates(requested, able);
        let last = candidates.len().saturating_sub(1);
        // Error of the first model that failed. Returned if the last candidate lacks context or credit.
        let mut first = None;
        for (position, info) in candidates.iter().enumerate() {
            let window = if position < last { window.clone() } else { std::mem::take(&mut window) };
            let request = tokio::select! {
                () = self.work.token.cancelled() => return Err(Ok(None)),
                request = self.request(info, window, all_tool_tokens) => request,
            };
            let (mut request, system_tokens) = match request {
                Err(error) if position > 0 && error.reason == Reason::ContextTooSmall => continue,
                request => request.map_err(|error| Err(Failure::unsent(error)))?,
            };
            let tools = if info.options.tools { all_tool_tokens } else { 0 };
            let prompt = messages_tokens(&request.messages).saturating_add(system_tokens).saturating_add(tools);
            // Each attempted model needs a permit at its own price.
            let call = self.metered(info, operation, prompt, position);
            request.call_id.clone_from(&call.key);
            let permit = match self.meter.request_permit(call).await {
                Err(Error { reason: Reason::CreditExhausted | Reason::BudgetExhausted, .. }) if position > 0 => {
                    continue;
                }
                permit => permit.map_err(|error| Err(Failure::unsent(error)))?,
            };
            match read(self, request).await {
                ReadOutcome::Failed { error, sent, output: 0 } if error.allows_fallback() && position < last => {
                    tracing::warn!(turn = %self.call.turn, model = info.name, %error, "falling back to another model");
                    let (settlement, usage) = failed_settlement(sent, prompt, 0);
                    let usage = Usage { credits: self.meter.charge(&permit.call, &settlement), ..usage };
                    settle(&*self.meter, &self.call.turn, permit, settlement).await;
                    *spent = spent.plus(usage);
                    first.get_or_insert(error);
                }
                ReadOutcome::Stopped(rest) if permit.abandoned_calls == AbandonedCalls::Drain => {
                    self.drain(permit, rest, prompt);
                    return Err(Ok(None));
                }
                received => {
                    let (settlement, outcome) = self.settlement_of(received, &info.name, prompt);
                    let charged = Usage { credits: self.meter.charge(&permit.call, &settlement), ..Usage::default() };
                    let outcome = add_usage(self.with_checked_answer(outcome).await, charged);
                    return Ok((permit, settlement, outcome));
                }
            }
        }
        let error = first.unwrap_or_else(|| ModelError::NotAvailable(self.call.model.clone()));
        let retriable = error.is_retriable();
        Err(Err(Box::new(Failure { error: error.into(), retriable, usage: Usage::default() })))
    }

    /// Reads an abandoned answer to its end to obtain its usage. The shutdown of the process ends the read.
    fn drain(&self, permit: Permit, mut rest: AbandonedAnswer, prompt: usize) {
        let (shared, turn, meter) = (Arc::clone(&self.work.shared), self.call.turn.clone(), Arc::clone(&self.meter));
        self.work.shared.tracker.spawn(async move {
            let settlement = match rest.drain(&shared.token).await {
                Some(usage) => Settlement::Completed(usage),
                None => Settlement::Partial(partial(prompt, rest.output())),
            };
            settle(&*meter, &turn, permit, settlement).await;
        });
    }

    /// Returns the request, and the estimated tokens of its system messages.
    async fn request(
        &self,
        info: &ModelInfo,
        window: Window,
        tool_tokens: usize,
    ) -> Result<(ModelRequest, usize), Error> {
        let shared = &self.work.shared;
        let context_tokens = info.options.context_tokens;
        let system = match &self.prompt {
            Prompt::Summary => SUMMARY_INSTRUCTIONS.trim().to_owned(),
            Prompt::Conversation { instructions, guide, .. } => {
                let load = async {
                    let mut context = self.context.lock().await;
                    let texts = (&**instructions, *guide, self.answer.schema());
                    context.system_message(texts, context_tokens, self.write_counter).await
                };
                shared.with_store_timeout(load).await?
            }
        };
        let summary = match &self.prompt {
            Prompt::Conversation { summary, .. } => summary.as_deref(),
            Prompt::Summary => None,
        };
        let state = state_message(&self.start, &self.working, summary, context_tokens);
        let context = usize::try_from(context_tokens).unwrap_or(usize::MAX);
        let answer = usize::try_from(info.options.max_output_tokens).unwrap_or(usize::MAX).min(context / 2);
        let system_tokens = estimated_tokens(&system).saturating_add(estimated_tokens(&state));
        let around = system_tokens.saturating_add(tool_tokens);
        let prompt_tokens = |answer: usize| context.saturating_sub(answer).saturating_sub(around);
        let least = answer.min(ANSWER_TOKENS_MIN);
        let messages =
            window.for_model(&info.name).fit(prompt_tokens(answer), prompt_tokens(least)).map_err(|turn| {
                let takes = turn.saturating_add(around).saturating_add(least);
                let message = format!(
                    "the turn needs about {takes} tokens, but the context of model {} has {context}; start a new \
                     thread, use another model, or raise context_tokens of the model and the context of its server",
                    info.name
                );
                Error::precondition(Reason::ContextTooSmall, message)
            })?;
        let images = if info.options.vision {
            images::load(shared, &self.work.org, &messages).await?
        } else {
            RequestImages::default()
        };
        let request = ModelRequest {
            system,
            state,
            images,
            tools: self.tools.clone(),
            thinking: shared.options.thinking && info.options.thinking,
            // The most probable tokens form a valid call more often than random ones, most of all with a small model.
            temperature: Some(Temperature::default()),
            ..ModelRequest::new(self.work.org.clone(), &info.name, messages)
        };
        Ok((request, system_tokens))
    }

    /// Describes the call to the meter. `position`: index of the model among the candidates.
    fn metered(&self, info: &ModelInfo, operation: &'static str, prompt: usize, position: usize) -> MeteredCall {
        let ModelCall { turn, round, attempt, epoch, .. } = &self.call;
        let fallback = if position == 0 { String::new() } else { format!(".{position}") };
        MeteredCall {
            org: self.work.org.clone(),
            user: self.user.clone(),
            // Index 0 is the model call of the round. A tool that calls models uses the index of its call.
            key: format!("{turn}.{round}.0.{epoch}.{attempt}{fallback}"),
            operation,
            model: info.name.clone(),
            prices: info.prices(),
            document: self.document.clone(),
            input_tokens: u64::try_from(prompt).unwrap_or(u64::MAX),
            max_output_tokens: u64::from(info.options.max_output_tokens),
        }
    }

    fn settlement_of(&self, received: ReadOutcome, model: &str, prompt: usize) -> (Settlement, Outcome) {
        match received {
            ReadOutcome::Complete(reply) => (Settlement::Completed(reply.usage), self.checked(*reply, model)),
            ReadOutcome::NotSent => (Settlement::NotSent, Ok(None)),
            ReadOutcome::Stopped(rest) => (Settlement::Partial(partial(prompt, rest.output())), Ok(None)),
            ReadOutcome::OutOfTime { sent, output } => {
                let (settlement, usage) = failed_settlement(sent, prompt, output);
                (settlement, Err(Box::new(Failure { error: out_of_time(), retriable: false, usage })))
            }
            ReadOutcome::Failed { error, sent, output } => {
                let retriable = error.is_retriable();
                let (settlement, usage) = failed_settlement(sent, prompt, output);
                (settlement, Err(Box::new(Failure { error: error.into(), retriable, usage })))
            }
        }
    }

    fn check(&self, call: RawToolCall) -> CheckedCall {
        let checked = self.profile.check(&call.name, &call.arguments);
        CheckedCall {
            provider_id: call.id,
            name: call.name,
            arguments: checked.arguments,
            access: checked.access,
            problem: checked.problem,
            repairs: checked.repairs,
        }
    }

    /// Checks the references between the calls of a reply. A call with another problem keeps that problem.
    fn check_references(&self, calls: &mut [CheckedCall]) {
        let names: Vec<String> = calls.iter().map(|call| call.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (position, call) in calls.iter_mut().enumerate().filter(|(_, call)| call.problem.is_none()) {
            call.problem = self.profile.reference_problem(&names, position, &call.arguments);
        }
    }

    /// Checks the calls of a reply against the profile's tools.
    fn checked(&self, reply: ModelReply, model: &str) -> Outcome {
        let Some(finish) = reply.finish else {
            let error = ModelError::Failed("the answer ended without a finish reason".to_owned());
            return Err(Box::new(Failure { error: error.into(), retriable: true, usage: reply.usage }));
        };
        let mut calls: Vec<_> = reply.calls.into_iter().take(CALLS_KEPT).map(|call| self.check(call)).collect();
        self.check_references(&mut calls);
        let by = |block| ThinkingBlock { model: Some(model.to_owned()), ..block };
        Ok(Some(Reply {
            model: model.to_owned(),
            text: reply.text,
            thinking: reply.thinking.into_iter().map(by).collect(),
            calls,
            finish,
            usage: reply.usage,
            answer_problem: None,
        }))
    }

    /// Checks an answer without calls against the answer type of the turn.
    async fn with_checked_answer(&self, outcome: Outcome) -> Outcome {
        match (self.answer.schema(), outcome) {
            (Some(schema), Ok(Some(reply))) if reply.calls.is_empty() => {
                Ok(Some(match answer::checked(schema, &reply.text).await {
                    Ok(text) => Reply { text, ..reply },
                    Err(problem) => Reply { answer_problem: Some(problem), ..reply },
                }))
            }
            (_, outcome) => outcome,
        }
    }
}

/// Returns the operation of a model call in the usage. `job`: the kind of the job that drives the turn. None: no job drives it.
fn operation_of(job: Option<&str>) -> &'static str {
    match job {
        Some(EXTRACTION_KIND) => "batch",
        Some(STACK_FILL_KIND) => "stack",
        Some(AGENT_JOB_KIND) => "extraction",
        _ => "chat",
    }
}

async fn settle(meter: &dyn Meter, turn: &TurnId, permit: Permit, settlement: Settlement) {
    if let Err(error) = meter.settle(permit, settlement).await {
        tracing::error!(%turn, %error, "cannot settle a model call");
    }
}

/// Adds earlier usage, or the charge, to the outcome of a call.
fn add_usage(outcome: Outcome, spent: Usage) -> Outcome {
    match outcome {
        Ok(reply) => Ok(reply.map(|reply| Reply { usage: spent.plus(reply.usage), ..reply })),
        Err(failure) => Err(Box::new(Failure { usage: spent.plus(failure.usage), ..*failure })),
    }
}

/// Returns the settlement and the usage of a failed call. `sent`: the provider may charge for the call.
fn failed_settlement(sent: bool, prompt: usize, output: usize) -> (Settlement, Usage) {
    if !sent {
        return (Settlement::NotSent, Usage::default());
    }
    let usage = partial(prompt, output);
    (Settlement::Partial(usage), usage)
}

/// Returns the usage of an incomplete answer: prompt and received output, in tokens that Folio counted.
fn partial(prompt: usize, output: usize) -> Usage {
    Usage {
        input_tokens: u64::try_from(prompt).unwrap_or(u64::MAX),
        output_tokens: u64::try_from(output).unwrap_or(u64::MAX),
        model_calls: 1,
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_turn_that_a_job_drives_have_the_operation_of_its_work() {
        for (job, expected) in [
            (None, "chat"),
            (Some(EXTRACTION_KIND), "batch"),
            (Some(STACK_FILL_KIND), "stack"),
            (Some(AGENT_JOB_KIND), "extraction"),
            (Some("unknown"), "chat"),
        ] {
            assert_eq!(operation_of(job), expected, "{job:?}");
        }
    }
}
