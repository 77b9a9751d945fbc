//! Tool calls. Each call runs in a separate task with a time limit; a panic becomes a failed result.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use folio_history::journal::{CallStatus, Intent, WorkingChange};
use folio_tools::auto_create::check_plan;
use folio_tools::{CallContext, Plan, ProfileTools, Tool, ToolError, ToolKind, ToolOutput, WriteTool};
use folio_trace::{CONTENT, record_error};
use folio_types::message::Usage;
use folio_types::op::Expected;
use folio_types::{Code, Error, Reason, limits, truncate_bytes};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tracing::field::Empty;
use tracing::{Instrument as _, Level};

use super::store_wait::StoreWait;
use super::{TaskContext, UsageRecorder};
use crate::current_access::WaitedCall;
use crate::group::planned_tasks;
use crate::turn::{CallPlan, Command, Patience, PlanFailure, PlannedTask, ToolOutcome, ToolResult, ToolRun};

pub(crate) struct ToolWork {
    pub(crate) work: TaskContext,
    pub(crate) run: ToolRun,
    /// None: the tool does not exist.
    pub(crate) tool: Option<Tool>,
    /// The profile with the tools of the turn.
    pub(crate) profile: Arc<ProfileTools>,
    pub(crate) context: CallContext,
    /// None: the call did not wait for a decision.
    pub(crate) waited: Option<WaitedCall>,
    /// Meter that records the usage of the tool's model calls.
    pub(crate) spent: Arc<UsageRecorder>,
}

/// Failure of a tool call, which has a time limit and panic handling.
pub(super) enum CallFailure {
    Tool(ToolError),
    TimedOut,
    Panicked,
}

impl ToolWork {
    /// Runs a read-only call.
    pub(crate) async fn read(self) {
        self.work.hit_failpoint("read", "before").await;
        let read = async {
            self.check_access(Expected::Absent).await?;
            match &self.tool {
                Some(Tool { kind: ToolKind::Read(tool), .. }) => {
                    self.executed(tool.run(&self.context, self.run.arguments.clone())).await
                }
                _ => {
                    let message = format!("Unknown read-only tool {:?}.", self.run.name);
                    Err(CallFailure::Tool(ToolError::ForModel(message)))
                }
            }
        };
        let result = read.await.map_or_else(|failure| failed(&self.error_text(failure)), done);
        self.work.hit_failpoint("read", "after").await;
        self.finished(ToolOutcome::Done(result));
    }

    /// Resolves the target of a write call, or checks the tasks of a call that starts child turns.
    pub(crate) async fn plan(self, patience: Patience) {
        self.work.hit_failpoint("plan", "before").await;
        let (round, index) = (self.run.call.round, self.run.call.index);
        let command = if matches!(&self.tool, Some(Tool { kind: ToolKind::Tasks, .. })) {
            let tasks = self.planned(patience, || self.tasks_once()).await;
            let running_max = u32::try_from(self.work.shared.options.tasks_at_once).unwrap_or(u32::MAX);
            Command::TasksPlanned { round, index, tasks, running_max }
        } else {
            let plan = self.planned(patience, || self.plan_once()).await;
            let as_call = |Plan { target, expected, resolved }| CallPlan { target, expected, resolved };
            Command::Planned { round, index, plan: plan.map(as_call) }
        };
        self.work.hit_failpoint("plan", "after").await;
        self.work.report(command);
    }

    /// Repeats a plan while the store does not answer, as `patience` states.
    async fn planned<T, F>(&self, patience: Patience, once: impl Fn() -> F) -> Result<T, PlanFailure>
    where
        F: Future<Output = Result<T, CallFailure>>,
    {
        let mut wait = StoreWait::new(self);
        loop {
            match once().await {
                Ok(plan) => return Ok(plan),
                Err(failure) if !self.waits_for_store(&failure) || wait.is_over() => {
                    return Err(PlanFailure::Failed(error_content(&self.error_text(failure))));
                }
                Err(_) if patience == Patience::Once => return Err(PlanFailure::StoreUnavailable),
                Err(_) => wait.pause().await,
            }
        }
    }

    async fn tasks_once(&self) -> Result<Vec<PlannedTask>, CallFailure> {
        let planned = planned_tasks(&self.work.shared, &self.context, &self.profile, &self.run.arguments);
        let planned = self.guarded(planned).await?;
        self.check_access(Expected::Absent).await?;
        Ok(planned)
    }

    async fn plan_once(&self) -> Result<Plan, CallFailure> {
        let tool = self.write_tool()?;
        let plan = async {
            let plan = tool.plan(&self.context, &self.run.arguments).await?;
            check_plan(&self.context, &self.run.arguments, &plan).await.map(|()| plan)
        };
        let plan = self.guarded(plan).await?;
        self.check_access(plan.expected).await?;
        Ok(plan)
    }

    /// Evaluates a call that waited for a decision by the current policy and memberships, before its intent is appended.
    async fn check_access(&self, expected: Expected) -> Result<(), CallFailure> {
        let Some(waited) = &self.waited else { return Ok(()) };
        let (TaskContext { shared, org, .. }, call) = (&self.work, (self.run.name.as_str(), &self.run.arguments));
        let denial = waited.denial((shared, org), call, expected).await;
        match denial.map_err(|error| CallFailure::Tool(ToolError::Failed(error)))? {
            Some(denial) => Err(CallFailure::Tool(ToolError::ForModel(denial))),
            None => Ok(()),
        }
    }

    fn write_tool(&self) -> Result<&dyn WriteTool, CallFailure> {
        match &self.tool {
            Some(Tool { kind: ToolKind::Write(tool), .. }) => Ok(tool.as_ref()),
            _ => {
                let message = format!("Unknown write tool {:?}.", self.run.name);
                Err(CallFailure::Tool(ToolError::ForModel(message)))
            }
        }
    }

    /// Makes the deciding write of a call whose intent is committed.
    pub(crate) async fn write(self, intent: Intent) {
        self.work.hit_failpoint("write", "before").await;
        let outcome = match self.write_once(&intent).await {
            Ok(output) => ToolOutcome::Done(done(output)),
            Err(CallFailure::Tool(ToolError::Conflict)) => ToolOutcome::Unknown,
            Err(failure) if self.waits_for_store(&failure) => {
                tracing::warn!(call = %self.run.call, "the effect of a write is unknown");
                ToolOutcome::Unknown
            }
            Err(CallFailure::Tool(ToolError::Failed(error))) if self.is_refused(&error) => ToolOutcome::Refused(error),
            // A batch of the call may still be in flight. The op is closed without a retry, so that the call has no later
            // effect.
            Err(failure) => ToolOutcome::Done(self.close_failed(&intent, &self.error_text(failure)).await),
        };
        self.work.hit_failpoint("write", "after").await;
        self.finished(outcome);
    }

    /// Returns true if the call's first model call was refused, so that nothing was charged or written.
    fn is_refused(&self, error: &Error) -> bool {
        let calls_models = self.tool.as_ref().is_some_and(|tool| tool.calls_models);
        let refused = matches!(error.reason, Reason::CreditExhausted | Reason::QuotaExceeded);
        calls_models && refused && self.spent.usage() == Usage::default()
    }

    /// Returns true if the store did not answer, or did not execute a write because of other ones, so that the same call may
    /// succeed later. Time-outs and version conflicts of a tool that calls models may have other causes. An overloaded endpoint of
    /// models has another reason.
    pub(super) fn waits_for_store(&self, failure: &CallFailure) -> bool {
        let calls_models = self.tool.as_ref().is_some_and(|tool| tool.calls_models);
        match failure {
            CallFailure::Tool(ToolError::Failed(error)) => {
                error.reason == Reason::StoreUnavailable || (error.code == Code::Aborted && !calls_models)
            }
            CallFailure::TimedOut => !calls_models,
            _ => false,
        }
    }

    pub(super) async fn write_once(&self, intent: &Intent) -> Result<ToolOutput, CallFailure> {
        let tool = self.write_tool()?;
        let plan = Plan { target: intent.target.clone(), expected: intent.expected, resolved: intent.resolved.clone() };
        self.executed(tool.run(&self.context, &self.run.arguments, &plan)).await
    }

    pub(super) fn finished(&self, outcome: ToolOutcome) {
        let outcome = match outcome {
            ToolOutcome::Done(result) => ToolOutcome::Done(ToolResult { usage: self.spent.usage(), ..result }),
            other => other,
        };
        let command = Command::ToolFinished { round: self.run.call.round, index: self.run.call.index, outcome };
        self.work.report(command);
    }

    /// Runs a tool in its span.
    async fn executed(
        &self,
        call: impl Future<Output = Result<ToolOutput, ToolError>> + Send,
    ) -> Result<ToolOutput, CallFailure> {
        let name = &self.run.name;
        let span = tracing::info_span!(
            "execute_tool",
            otel.name = format_args!("execute_tool {name}"),
            otel.status_code = Empty,
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = name,
            "gen_ai.tool.type" = "function",
            gen_ai.tool.call.id = %self.run.call,
            "error.type" = Empty,
        );
        let answer = self.guarded(call).instrument(span.clone()).await;
        match &answer {
            Ok(_) => {}
            Err(CallFailure::Tool(ToolError::ForModel(_))) => record_error(&span, "tool_error"),
            Err(CallFailure::Tool(ToolError::Conflict)) => record_error(&span, "moved"),
            Err(CallFailure::Tool(ToolError::Failed(error))) => record_error(&span, error.reason.as_str()),
            Err(CallFailure::TimedOut) => record_error(&span, "timeout"),
            Err(CallFailure::Panicked) => record_error(&span, "panic"),
        }
        let result = answer.as_ref().map_or(&Value::Null, |output| &output.content);
        // Traces the tool's arguments and result if content is captured.
        span.in_scope(|| {
            tracing::event!(
                target: CONTENT,
                Level::INFO,
                gen_ai.tool.call.arguments = %self.run.arguments,
                gen_ai.tool.call.result = %result,
                "execute_tool.details"
            );
        });
        answer
    }

    async fn guarded<T>(&self, call: impl Future<Output = Result<T, ToolError>> + Send) -> Result<T, CallFailure> {
        let caught = AssertUnwindSafe(call).catch_unwind();
        let options = &self.work.shared.options;
        let calls_models = self.tool.as_ref().is_some_and(|tool| tool.calls_models);
        let limit = if calls_models { options.model_tool_timeout } else { options.tool_timeout };
        match tokio::time::timeout(limit, caught).await {
            Ok(Ok(answer)) => answer.map_err(CallFailure::Tool),
            Ok(Err(_panic)) => {
                tracing::error!(call = %self.run.call, tool = self.run.name, "a tool panicked");
                Err(CallFailure::Panicked)
            }
            Err(_) => {
                tracing::warn!(call = %self.run.call, tool = self.run.name, "a tool timed out");
                Err(CallFailure::TimedOut)
            }
        }
    }

    /// Returns the error text for the model, without details of internal errors.
    pub(super) fn error_text(&self, failure: CallFailure) -> String {
        let text = match failure {
            CallFailure::Tool(ToolError::ForModel(message)) => return message,
            CallFailure::Tool(ToolError::Failed(error)) => {
                tracing::warn!(call = %self.run.call, tool = self.run.name, error = error.logged(), "a tool failed");
                match error.code {
                    Code::Internal | Code::DataLoss => "The tool failed with an internal error.",
                    _ => return error.message,
                }
            }
            CallFailure::Tool(ToolError::Conflict) => {
                "The target changed meanwhile. Read it again and repeat the call."
            }
            CallFailure::TimedOut => "The tool timed out.",
            CallFailure::Panicked => "The tool failed.",
        };
        text.to_owned()
    }
}

pub(super) fn done(output: ToolOutput) -> ToolResult {
    let (content, change) = (bounded(&output.content), output.change);
    ToolResult { status: output.status, content, change, usage: Usage::default() }
}

pub(super) fn failed(message: &str) -> ToolResult {
    without_effect(CallStatus::Failed, message)
}

/// Returns the result of a call that changed nothing.
pub(super) fn without_effect(status: CallStatus, message: &str) -> ToolResult {
    let (content, change) = (error_content(message), WorkingChange::default());
    ToolResult { status, content, change, usage: Usage::default() }
}

pub(super) fn error_content(message: &str) -> String {
    bounded(&json!({ "error": message }))
}

/// Returns the text of a result, truncated with a note to [`limits::TOOL_RESULT_BYTES`].
fn bounded(content: &Value) -> String {
    let mut text = content.to_string();
    if text.len() > limits::TOOL_RESULT_BYTES {
        let (bytes, max) = (text.len(), limits::TOOL_RESULT_BYTES);
        let note = format!("\n[truncated: the result has {bytes} bytes, {max} are shown]");
        truncate_bytes(&mut text, max, &note);
    }
    text
}
