//! Loading a thread, at the first message and again when the machine lost it.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;

use folio_history::thread::ThreadHeader;
use folio_history::{History, TurnRecord};
use folio_storage::NewThread;
use folio_types::{Error, Reason, Result};

use super::state::{Loaded, State};
use super::tell::ToldOthers;
use crate::audit::Auditor;
use crate::supervisor::Exit;
use crate::turn::{Command, Effect, Machine};

/// Entries that are read at once.
const PAGE: usize = 512;
/// Reloads in a row without an append that stands: more, and something is wrong.
const RELOADS_MAX: u32 = 8;

impl State {
    /// Loads the thread unless it is in memory. Where it is not in the store either it is `new`, which is there for others
    /// once its first append stands; `NOT_FOUND` without one.
    pub(super) async fn load(&mut self, new: Option<&Arc<NewThread>>) -> Result<()> {
        if let Some(loaded) = &self.loaded {
            let seen = loaded.new.is_none() || new.is_some();
            return if seen { Ok(()) } else { Err(self.not_found()) };
        }
        let (header, new) = match (self.in_time(self.read_header()).await, new) {
            (Err(error), Some(new)) if error.reason == Reason::NotFound => (new.header(), Some(new.clone())),
            (read, _) => (read?, None),
        };
        let share = self.shared.room.enter(header.bytes).await?;
        let (history, audit) = match &new {
            Some(new) => (History::fold(new.imported.iter().cloned()), Auditor::new(new.id.clone())),
            None => self.in_time(self.read_history(&header)).await?,
        };
        let profile = self.shared.tools().profile(&header.profile)?;
        let token = self.token.child_token();
        let told = ToldOthers::of(&header);
        let machine = self.machine(header, history);
        self.loaded = Some(Box::new(Loaded {
            machine,
            share,
            profile,
            new,
            work: token.child_token(),
            token,
            pending: BTreeMap::new(),
            queue: VecDeque::new(),
            buffer: None,
            turn: None,
            told,
            audit,
        }));
        Ok(())
    }

    pub(super) fn not_found(&self) -> Error {
        Error::not_found("thread", self.thread())
    }

    fn machine(&self, header: ThreadHeader, history: History) -> Machine {
        let seed = self.shared.environment().random();
        Machine::load(self.shared.incarnation().clone(), header, history, seed)
    }

    async fn read_thread(&self) -> Result<(ThreadHeader, History, Auditor)> {
        let read = async {
            let header = self.read_header().await?;
            let (history, audit) = self.read_history(&header).await?;
            Ok((header, history, audit))
        };
        self.in_time(read).await
    }

    pub(super) async fn in_time<T>(&self, read: impl Future<Output = Result<T>>) -> Result<T> {
        let late = |_| Error::unavailable(Reason::StoreUnavailable, "the store of threads did not answer in time");
        tokio::time::timeout(self.shared.options.store_timeout, read).await.map_err(late)?
    }

    pub(super) async fn read_header(&self) -> Result<ThreadHeader> {
        let header = self.stores().threads.header(self.org(), self.thread()).await?;
        header.ok_or_else(|| self.not_found())
    }

    async fn read_history(&self, header: &ThreadHeader) -> Result<(History, Auditor)> {
        let threads = &self.stores().threads;
        let (mut history, mut audit) = (History::new(), Auditor::new(header.id.clone()));
        let mut next = 0;
        while next < header.entries {
            let entries = threads.entries(self.org(), self.thread(), next, PAGE).await?;
            let Some((last, _)) = entries.last() else {
                return Err(Error::internal(format!(
                    "thread {} has fewer entries than its header says",
                    self.thread()
                )));
            };
            next = last.saturating_add(1);
            for (_, entry) in entries.into_iter().filter(|(number, _)| *number < header.entries) {
                audit.read(&entry);
                history.push(entry);
            }
        }
        Ok((history, audit))
    }

    /// The machine is of no use any more: loads the thread anew, and gives what a new one says to all that has no answer yet.
    pub(super) async fn reload(&mut self) -> Result<Vec<Effect>, Exit> {
        self.load_anew().await?;
        Ok(self.ask_again())
    }

    /// The store never takes what was to be appended: the open turn ends with what stands. Where it is a request that cannot
    /// be written, who asked is told.
    pub(super) async fn unwritable(&mut self, error: Error) -> Option<Exit> {
        tracing::error!(thread = %self.thread(), %error, "the store does not take an append");
        let loaded = self.loaded.as_ref()?;
        if loaded.new.is_some() {
            self.refuse_all(&error);
            return Some(Exit::ThreadGone);
        }
        let turn = loaded.machine.history().open().map(TurnRecord::number);
        if turn.is_some() && self.unwritable == turn {
            self.given_up = Some(error);
            return Some(Exit::Lost);
        }
        self.unwritable = turn;
        if let Err(exit) = self.load_anew().await {
            return Some(exit);
        }
        if let Some(loaded) = self.loaded.as_mut().filter(|loaded| !loaded.machine.is_orphaned()) {
            std::mem::take(&mut loaded.pending).into_values().for_each(|pending| pending.waits.refuse(error.clone()));
        }
        let mut effects = self.step(Command::Unwritable { error });
        effects.extend(self.ask_again());
        self.settle(effects).await
    }

    async fn load_anew(&mut self) -> Result<(), Exit> {
        self.reloads += 1;
        if self.reloads > RELOADS_MAX {
            tracing::error!(thread = %self.thread(), "the thread is lost again and again");
            return Err(Exit::Lost);
        }
        let (header, history, audit) = self.read_thread().await.map_err(|error| match error.reason {
            Reason::NotFound => Exit::ThreadGone,
            _ => {
                tracing::warn!(thread = %self.thread(), %error, "the thread cannot be loaded");
                Exit::Lost
            }
        })?;
        if let Err(error) = self.shared.may_own(&header).await {
            tracing::info!(thread = %self.thread(), %error, "the thread is not this node's any more");
            self.given_up = Some(error);
            return Err(Exit::Elsewhere);
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
            buffer.0.leave();
        }
        Ok(())
    }

    /// Gives the new machine all that has no answer yet.
    fn ask_again(&mut self) -> Vec<Effect> {
        let pending = self.loaded.iter().flat_map(|loaded| loaded.pending.values());
        let again: Vec<Command> = pending.map(|pending| pending.command.clone()).collect();
        let mut effects = Vec::new();
        for command in again {
            effects.extend(self.step(command));
        }
        // Nobody may have asked: a turn that was running is not left behind.
        effects.extend(self.step(Command::TakeOver));
        effects
    }
}
