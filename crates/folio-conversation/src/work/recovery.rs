//! Recovery of a call whose intent is committed: reads its op row; if there is none, makes the deciding write that the
//! intent describes; if that fails, closes the op as `conflict`. Every synthetic result of such a call is preceded by
//! closing its op.

use folio_history::journal::{CallStatus, Intent};
use folio_tools::{ToolError, ToolKind, WriteTool};
use folio_types::Result;
use folio_types::op::{ClosedAs, OpKey, OpRow, OpState};

use super::store_wait::StoreWait;
use super::tools::{CallFailure, ToolWork, done, failed, without_effect};
use crate::turn::{Command, ToolOutcome, ToolResult};

impl ToolWork {
    /// Determines the outcome of the call and reports it. Waits until the store answers.
    pub(crate) async fn recover(self, intent: Intent) {
        self.work.hit_failpoint("recover", "before").await;
        let result = self.recovered(&intent).await;
        self.work.hit_failpoint("recover", "after").await;
        self.finished(ToolOutcome::Done(result));
    }

    async fn recovered(&self, intent: &Intent) -> ToolResult {
        let mut wait = StoreWait::new(self);
        loop {
            if let Some(row) = self.op_row(intent, &mut wait).await {
                return self.result_of(intent, row, "").await;
            }
            let failure = match self.write_once(intent).await {
                Ok(output) => return done(output),
                Err(CallFailure::Tool(ToolError::Conflict)) => String::new(),
                Err(failure) if self.waits_for_store(&failure) && !wait.is_over() => {
                    wait.pause().await;
                    continue;
                }
                Err(failure) => self.error_text(failure),
            };
            // This attempt wrote nothing. The op is closed, because a batch of an earlier attempt may still be in
            // flight.
            return self.close_failed(intent, &failure).await;
        }
    }

    /// Closes the op of a failed call. Returns the result of an existing op row, otherwise the failure.
    pub(super) async fn close_failed(&self, intent: &Intent, failure: &str) -> ToolResult {
        let row = self.close_until_answered(intent, ClosedAs::Conflict).await;
        self.result_of(intent, row, failure).await
    }

    /// Closes the op as aborted unless its row exists, and reports the stored row.
    pub(crate) async fn close(self, intent: Intent) {
        self.work.hit_failpoint("close", "before").await;
        let row = self.close_until_answered(&intent, ClosedAs::Aborted).await;
        let result = match row.state {
            OpState::Aborted if row.digest == self.run.digest => None,
            _ => Some(self.result_of(&intent, row, "").await),
        };
        self.work.hit_failpoint("close", "after").await;
        let usage = self.spent.usage();
        let command = Command::Closed { round: self.run.call.round, index: self.run.call.index, result, usage };
        self.work.report(command);
    }

    /// Returns the text of the tool about the conflict. None: the tool has none, or a store does not answer.
    async fn current_value(&self, tool: &dyn WriteTool) -> Option<String> {
        let text = async { Ok(tool.conflict(&self.context, &self.run.arguments).await) };
        self.work.shared.with_store_timeout(text).await.ok().flatten()
    }

    async fn close_until_answered(&self, intent: &Intent, closed: ClosedAs) -> OpRow {
        let dependencies = &self.work.shared.dependencies;
        let (ops, op) = (&dependencies.stores.ops, OpKey::Call(self.run.call.clone()));
        let row = || OpRow::closed(op.clone(), self.run.digest.clone(), closed, dependencies.environment.now());
        self.until_answered(&mut StoreWait::new(self), || ops.close(&self.work.org, &intent.target, row())).await
    }

    /// None: there is no op row.
    async fn op_row(&self, intent: &Intent, wait: &mut StoreWait<'_>) -> Option<OpRow> {
        let (ops, op) = (&self.work.shared.dependencies.stores.ops, OpKey::Call(self.run.call.clone()));
        self.until_answered(wait, || ops.row(&self.work.org, &intent.target, &op)).await
    }

    /// Repeats an operation on an op row until the store answers.
    async fn until_answered<T, F: Future<Output = Result<T>>>(
        &self,
        wait: &mut StoreWait<'_>,
        operation: impl Fn() -> F,
    ) -> T {
        loop {
            match self.work.shared.with_store_timeout(operation()).await {
                Ok(answer) => return answer,
                Err(error) => tracing::debug!(call = %self.run.call, %error, "cannot access an op row; retrying"),
            }
            wait.pause().await;
        }
    }

    /// Converts an op row to a result for the model. `failure`: text for a row that only closes a failed call.
    async fn result_of(&self, intent: &Intent, row: OpRow, failure: &str) -> ToolResult {
        if row.digest != self.run.digest {
            // The row belongs to another call. It prevents the write of this call, so nothing was written.
            tracing::error!(call = %self.run.call, "an op row has another digest than the call's arguments");
            return failed("Another record exists for this call; nothing was written.");
        }
        match (row.state, self.tool.as_ref().map(|tool| &tool.kind)) {
            (OpState::Done(result), Some(ToolKind::Write(tool))) => {
                done(tool.output(&intent.target, result, &self.run.arguments))
            }
            (OpState::Done(_), _) => failed("The call succeeded with a tool that no longer exists."),
            (OpState::Conflict, _) if !failure.is_empty() => failed(failure),
            (OpState::Conflict, kind) => {
                let current = match kind {
                    Some(ToolKind::Write(tool)) => self.current_value(tool.as_ref()).await,
                    _ => None,
                };
                let message = "The target changed after the call was approved; nothing was written.";
                without_effect(CallStatus::Conflict, current.as_deref().unwrap_or(message))
            }
            (OpState::Aborted, _) => {
                without_effect(CallStatus::Cancelled, "The call was cancelled before it ran; nothing was written.")
            }
        }
    }
}
