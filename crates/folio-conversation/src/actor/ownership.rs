//! Ownership of the thread: checks before reads and writes, takeover, and release while the node drains.

use std::sync::Arc;

use folio_history::thread::{NewThread, Phase};
use folio_types::{Reason, Result};

use super::message::Request;
use super::state::State;
use crate::supervisor::StopReason;
use crate::turn::Command;

impl State {
    /// Loads the thread unless a current copy is in memory. If another node owns the thread, compares the copy with the
    /// stored header and reloads the thread if the copy is outdated.
    pub(super) async fn ensure_loaded(&mut self, new: Option<&Arc<NewThread>>) -> Result<()> {
        let copy =
            self.loaded.as_ref().map(|loaded| &loaded.machine).filter(|machine| {
                machine.is_copy() && machine.header().version > 0 && !self.shared.owns(machine.header())
            });
        if let Some(seen) = copy.map(|machine| (machine.header().epoch, machine.header().version)) {
            match self.shared.with_store_timeout(self.read_header()).await {
                Ok(stored) if (stored.epoch, stored.version) == seen => {}
                Err(error) if error.reason != Reason::NotFound => return Err(error),
                Ok(_) | Err(_) => self.drop_copy(),
            }
        }
        self.load(new).await
    }

    /// Drops an outdated copy. Watchers of its turn reconnect.
    fn drop_copy(&mut self) {
        let error = crate::events::stopped();
        self.refuse_all(&error);
        if let Some(loaded) = self.loaded.take()
            && let Some(buffer) = &loaded.buffer
        {
            buffer.0.redirect_readers();
        }
        self.generation += 1;
    }

    /// Returns an error unless this node may write to the thread.
    pub(super) async fn may_own(&self) -> Result<()> {
        match &self.loaded {
            Some(loaded) => self.shared.may_own(loaded.machine.header()).await,
            None => Err(self.not_found()),
        }
    }

    /// Loads the thread and checks that this node may write to it, for work without a request.
    pub(super) async fn may_write(&mut self) -> Result<()> {
        self.ensure_loaded(None).await?;
        self.may_own().await
    }

    /// Returns true if only the owner can perform the request. Every node can perform the other requests without a
    /// takeover.
    pub(super) fn writes(&self, request: &Request) -> bool {
        match request {
            Request::Watch(turn, ..) => self.runs(*turn),
            Request::GetTurn(..) | Request::OpenTurn(_) | Request::Fork(..) => false,
            Request::Chat(..)
            | Request::Approve(..)
            | Request::Resume(..)
            | Request::Cancel(..)
            | Request::Rename(..)
            | Request::Delete(..) => true,
        }
    }

    /// Returns true if the turn is open and does not wait for decisions.
    pub(super) fn runs(&self, turn: u32) -> bool {
        let open = self.loaded.as_ref().and_then(|loaded| loaded.machine.header().open_turn.as_ref());
        open.is_some_and(|open| open.number == turn && open.phase != Phase::Paused)
    }

    /// Takes over an open turn that no actor runs, ends a turn whose pause or group has expired, or reads the states of child
    /// turns. No effect if this node may not own the thread.
    pub(super) async fn sweep(&mut self) -> Option<StopReason> {
        if self.ensure_loaded(None).await.is_err() {
            return self.loaded.is_none().then_some(StopReason::Idle);
        }
        let machine = &self.loaded.as_ref()?.machine;
        // A notice that arrives while the states of child turns are read makes the machine read them again.
        let is_free = machine.can_be_dropped() || machine.has_open_group();
        if machine.header().open_turn.is_none() || !is_free || self.may_own().await.is_err() {
            return None;
        }
        self.execute(Command::TakeOver).await
    }

    /// Like [`Self::sweep`], but only if this node already owns the thread.
    pub(super) async fn sweep_own(&mut self) -> Option<StopReason> {
        let own = self.loaded.as_ref().is_some_and(|loaded| self.shared.owns(loaded.machine.header()));
        if own { self.sweep().await } else { None }
    }

    /// Reloads the thread because another owner published events with this epoch. No effect if the epoch in memory is
    /// equal or greater.
    pub(super) async fn replaced(&mut self, epoch: u64) -> Option<StopReason> {
        if self.loaded.as_ref().is_none_or(|loaded| loaded.machine.header().epoch >= epoch) {
            return None;
        }
        match self.reload().await {
            Ok(effects) => self.perform_all(effects).await,
            Err(reason) => Some(reason),
        }
    }

    /// Stops an idle actor while the node drains, so that another node can take over the thread.
    pub(super) fn release_if_draining(&mut self) -> Option<StopReason> {
        if self.shared.is_draining() { self.stop_if_idle() } else { None }
    }
}
