//! Waiting for a store that does not answer, or has too many concurrent writes of a row, so that an approved write is made
//! later.

use tokio::time::Instant;

use super::Backoff;
use super::tools::ToolWork;
use crate::turn::Command;

/// Pauses between the attempts of one call. The first pause informs the watchers of the turn.
pub(super) struct StoreWait<'a> {
    tool: &'a ToolWork,
    backoff: Backoff,
    /// Time from which the call fails instead of being attempted again.
    until: Instant,
    is_reported: bool,
}

impl<'a> StoreWait<'a> {
    pub(super) fn new(tool: &'a ToolWork) -> Self {
        let shared = &tool.work.shared;
        let until = Instant::now() + shared.options.effect_patience;
        Self { tool, backoff: Backoff::new(shared), until, is_reported: false }
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    pub(super) async fn pause(&mut self) {
        if !std::mem::replace(&mut self.is_reported, true) {
            let call = &self.tool.run.call;
            tracing::warn!(%call, "a call waits for the store");
            self.tool.work.report(Command::StoreAwaited { round: call.round, index: call.index });
        }
        self.backoff.pause().await;
    }
}
