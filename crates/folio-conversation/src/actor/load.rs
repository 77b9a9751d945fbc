//! Loads a thread at the first message, and reloads it after the turn machine became unusable.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use folio_history::thread::{NewThread, ThreadHeader};
use folio_history::{History, TurnRecord};
use folio_types::{Error, Reason, Result};

use super::publication::Publication;
use super::state::{LoadedConversation, State};
use crate::audit::Auditor;
use crate::supervisor::StopReason;
use crate::turn::{Command, Effect, Machine};

/// Maximum number of consecutive reloads without a committed append.
const RELOADS_MAX: u32 = 8;

impl State {
    /// Loads the thread unless it is in memory. `new` is the thread to create if the store does not contain it. Other
    /// nodes can read a new thread once its first append is committed. `NOT_FOUND` if the thread does not exist and
    /// `new` is None.
    pub(super) async fn load(&mut self, new: Option<&Arc<NewThread>>) -> Result<()> {
        if let Some(loaded) = &self.loaded {
            let is_visible = loaded.new.is_none() || new.is_some();
            return if is_visible { Ok(()) } else { Err(self.not_found()) };
        }
        let (header, new) = match (self.shared.with_store_timeout(self.read_header()).await, new) {
            (Err(error), Some(new)) if error.reason == Reason::NotFound => (new.header(), Some(new.clone())),
            (read, _) => (read?, None),
        };
        let reservation = self.shared.memory.reserve(header.bytes).await?;
        let (history, audit) = match &new {
            Some(new) => (History::fold(new.imported.iter().cloned()), Auditor::new(new.id.clone())),
            None => self.shared.with_store_timeout(self.read_history(&header)).await?,
        };
        let profile = self.shared.dependencies.tools.profile(&header.profile)?;
        let token = self.token.child_token();
        let publication = Publication::of(&header);
        let machine = self.machine(header, history);
        self.loaded = Some(Box::new(LoadedConversation {
            machine,
            reservation,
            profile,
            new,
            work: token.child_token(),
            token,
            pending: BTreeMap::new(),
            queue: VecDeque::new(),
            buffer: None,
            turn: None,
            spent: BTreeMap::new(),
            publication,
            audit,
            current_access: None,
        }));
        Ok(())
    }

    pub(super) fn not_found(&self) -> Error {
        Error::not_found("thread", self.thread())
    }

    fn machine(&self, header: ThreadHeader, history: History) -> Machine {
        let seed = self.shared.dependencies.environment.random();
        let reads_max = self.shared.options.read_calls_at_once;
        Machine::load(self.shared.dependencies.incarnation.clone(), reads_max, header, history, seed)
    }

    async fn read_thread(&self) -> Result<(ThreadHeader, History, Auditor)> {
        let read = async {
            let header = self.read_header().await?;
            let (history, audit) = self.read_history(&header).await?;
            Ok((header, history, audit))
        };
        self.shared.with_store_timeout(read).await
    }

    pub(super) async fn read_header(&self) -> Result<ThreadHeader> {
        let header = self.stores().threads.header(self.org(), self.thread()).await?;
        header.ok_or_else(|| self.not_found())
    }

    async fn read_history(&self, header: &ThreadHeader) -> Result<(History, Auditor)> {
        let (mut history, mut audit) = (History::new(), Auditor::new(header.id.clone()));
        let push = |entry| {
            audit.read(&entry);
            history.push(entry);
        };
        self.shared.for_each_entry(header, push).await?;
        Ok((history, audit))
    }

    /// Replaces an unusable machine by a reloaded one, and returns the effects of the unanswered requests.
    pub(super) async fn reload(&mut self) -> Result<Vec<Effect>, StopReason> {
        self.reload_thread().await?;
        Ok(self.resend_pending())
    }

    /// Handles an append that the store refuses permanently: refuses the pending requests and ends the open turn with
    /// its committed entries. A second refusal for the same turn stops the conversation.
    pub(super) async fn unwritable(&mut self, error: Error) -> Option<StopReason> {
        tracing::error!(thread = %self.thread(), %error, "the store refuses an append permanently");
        let loaded = self.loaded.as_ref()?;
        if loaded.new.is_some() {
            self.refuse_all(&error);
            return Some(StopReason::ThreadDeleted);
        }
        let turn = loaded.machine.history().open().map(TurnRecord::number);
        if turn.is_some() && self.unwritable == turn {
            self.stop_error = Some(error);
            return Some(StopReason::StoreFailed);
        }
        self.unwritable = turn;
        if let Err(reason) = self.reload_thread().await {
            return Some(reason);
        }
        if let Some(loaded) = self.loaded.as_mut().filter(|loaded| !loaded.machine.is_orphaned()) {
            let pending = std::mem::take(&mut loaded.pending).into_values();
            pending.for_each(|pending| pending.recipient.refuse(error.clone()));
        }
        let mut effects = self.step(Command::Unwritable { error });
        effects.extend(self.resend_pending());
        self.perform_all(effects).await
    }

    async fn reload_thread(&mut self) -> Result<(), StopReason> {
        self.reloads += 1;
        if self.reloads > RELOADS_MAX {
            tracing::error!(thread = %self.thread(), "the thread was reloaded too often without a committed append");
            return Err(StopReason::StoreFailed);
        }
        let (header, history, audit) = self.read_thread().await.map_err(|error| match error.reason {
            Reason::NotFound => StopReason::ThreadDeleted,
            _ => {
                tracing::warn!(thread = %self.thread(), %error, "the thread cannot be loaded");
                StopReason::StoreFailed
            }
        })?;
        if let Err(error) = self.shared.may_own(&header).await {
            tracing::info!(thread = %self.thread(), %error, "another node owns the thread now");
            self.stop_error = Some(error);
            return Err(StopReason::OwnedElsewhere);
        }
        self.generation += 1;
        let machine = self.machine(header, history);
        let token = self.token.child_token();
        let Some(loaded) = self.loaded.as_mut() else { return Ok(()) };
        loaded.token.cancel();
        loaded.work = token.child_token();
        loaded.token = token;
        loaded.machine = machine;
        loaded.audit = audit;
        loaded.new = None;
        loaded.turn = None;
        if let Some(buffer) = loaded.buffer.take() {
            buffer.0.redirect_readers();
        }
        Ok(())
    }

    /// Passes the unanswered requests to the new machine.
    fn resend_pending(&mut self) -> Vec<Effect> {
        let pending = self.loaded.iter().flat_map(|loaded| loaded.pending.values());
        let commands: Vec<Command> = pending.map(|pending| pending.command.clone()).collect();
        // An open turn advances even if no request is pending.
        commands.into_iter().chain([Command::TakeOver]).flat_map(|command| self.step(command)).collect()
    }
}
