//! What changes or copies the thread as a whole: through its actor, so that nothing races with its appends.

use folio_storage::NewThread;
use folio_types::thread::ThreadHeader;
use folio_types::{Error, Result, ThreadId};

use super::message::{Msg, Reply};
use super::state::{State, Waits};
use crate::command::ForkCommand;
use crate::supervisor::Exit;
use crate::turn::Command;

impl State {
    /// Removes the thread; an open turn is cancelled first, so that no call of it is left half-way.
    pub(super) async fn begin_removal(&mut self, reply: Option<Reply<()>>) -> Option<Exit> {
        if let Some(waiting) = &mut self.removing {
            waiting.extend(reply);
            return None;
        }
        self.removing = Some(reply.into_iter().collect());
        let open = self.loaded.as_ref().and_then(|loaded| loaded.machine.header().open_turn.clone());
        match open {
            Some(open) => self.put(None, Waits::Remove, |ticket| Command::Cancel { ticket, turn: open.number }).await,
            None => {
                self.remove_thread();
                None
            }
        }
    }

    /// Nothing is open any more: the thread goes.
    pub(super) fn remove_thread(&mut self) {
        let work = self.work(self.token.clone());
        work.spawn({
            let work = work.clone();
            async move {
                let removed = work.shared.stores().threads.delete(&work.org, &work.thread).await;
                let _ = work.actor.send_message(Msg::Removed(removed));
            }
        });
    }

    pub(super) fn removed(&mut self, result: Result<()>) -> Option<Exit> {
        for reply in self.removing.take().into_iter().flatten() {
            let _ = reply.send(result.clone());
        }
        result.is_ok().then_some(Exit::ThreadGone)
    }

    /// Copies the thread up to a message into a new one.
    pub(super) fn fork(&self, command: ForkCommand, reply: Reply<ThreadHeader>) {
        let thread = match self.forked(&command) {
            Ok(thread) => thread,
            Err(error) => return drop(reply.send(Err(error))),
        };
        let work = self.work(self.token.clone());
        work.spawn({
            let work = work.clone();
            async move {
                let _ = reply.send(work.shared.stores().threads.create(thread).await);
            }
        });
    }

    fn forked(&self, command: &ForkCommand) -> Result<NewThread> {
        let loaded = self.loaded.as_ref().ok_or_else(|| Error::not_found("thread", self.thread()))?;
        let (header, history) = (loaded.machine.header(), loaded.machine.history());
        let open = history.open().map(|record| record.number());
        let ended = history.messages().filter(|shown| open.is_none() || shown.turn != open);
        let ended = ended.map(|shown| shown.count).max().unwrap_or(0);
        let count = command.message_count.unwrap_or(ended);
        if count > ended {
            return Err(Error::invalid_field("message_count", format!("the thread has {ended} messages")));
        }
        let environment = self.shared.environment();
        let id = match &command.request_id {
            Some(request) => ThreadId::derive(&[
                "fork",
                self.org().as_str(),
                header.user.as_str(),
                header.id.as_str(),
                &command.message_count.map(|count| count.to_string()).unwrap_or_default(),
                request.as_str(),
            ]),
            None => ThreadId::generate(&**environment),
        };
        Ok(NewThread {
            id,
            org: header.org.clone(),
            user: header.user.clone(),
            profile: header.profile.clone(),
            documents: header.documents.clone(),
            title: command.title.clone().unwrap_or_else(|| header.title.clone()),
            model: header.model.clone(),
            ephemeral: false,
            expires_at: None,
            imported: history.fork(Some(count))?,
            at: environment.now(),
        })
    }
}
