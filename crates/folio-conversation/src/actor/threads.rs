//! Deletes and forks the thread. Both run in the actor of the thread, so they do not race with the appends.

use std::collections::BTreeSet;
use std::sync::Arc;

use folio_history::journal::Entry;
use folio_history::thread::{NewThread, ThreadHeader};
use folio_types::message::Message;
use folio_types::op::OpKey;
use folio_types::{Error, Principal, Result, Role, ThreadId};

use super::message::{Msg, Reply};
use super::state::{Recipient, State};
use crate::prepare::{fork_digest, requested_thread};
use crate::shared::Shared;
use crate::supervisor::StopReason;
use crate::turn::Command;
use folio_history::command::ForkThreadCommand;

impl State {
    /// Deletes the thread. An open turn is cancelled first, so that no call is interrupted. `by` is the key of the
    /// request; the first of several requests is recorded.
    pub(super) async fn begin_deletion(&mut self, by: Option<OpKey>, reply: Option<Reply<()>>) -> Option<StopReason> {
        if let Some(waiting) = &mut self.deletion_waiters {
            waiting.extend(reply);
            return None;
        }
        self.deletion_waiters = Some(reply.into_iter().collect());
        self.deleted_by = by;
        let open = self.loaded.as_ref().and_then(|loaded| loaded.machine.header().open_turn.clone());
        match open {
            Some(open) => {
                self.submit(None, Recipient::Delete, |ticket| Command::Cancel { ticket, turn: open.number }).await
            }
            None => {
                self.delete_thread();
                None
            }
        }
    }

    /// Deletes the thread, whose open turn must have ended.
    pub(super) fn delete_thread(&mut self) {
        let work = self.task_context(self.token.clone());
        let by = self.deleted_by.clone();
        let due = self.loaded.as_ref().map(|loaded| loaded.audit.due().to_vec()).unwrap_or_default();
        let children = self.child_threads();
        let user = self.loaded.as_ref().map(|loaded| loaded.machine.header().user.clone());
        let principal = user.map(|user| Principal::new(self.org().clone(), user, Role::Member));
        work.spawn({
            let work = work.clone();
            async move {
                // The audit entries of the journal must be written before the journal is deleted.
                if !work.record(&due).await {
                    return;
                }
                let deleted = work.shared.delete_thread(&work.org, &work.thread, by.as_ref()).await;
                if let (Ok(()), Some(principal)) = (&deleted, principal) {
                    let shared = Arc::clone(&work.shared);
                    work.shared.tracker.spawn(async move { delete_children(&shared, &principal, children).await });
                }
                let _ = work.actor.send_message(Msg::Deleted(deleted));
            }
        });
    }

    pub(super) fn deleted(&mut self, result: Result<()>) -> Option<StopReason> {
        for reply in self.deletion_waiters.take().into_iter().flatten() {
            let _ = reply.send(result.clone());
        }
        result.is_ok().then_some(StopReason::ThreadDeleted)
    }

    /// Copies the thread up to a message into a new thread of the caller.
    pub(super) fn fork(&self, principal: &Principal, command: ForkThreadCommand, reply: Reply<ThreadHeader>) {
        let thread = match self.forked(principal, &command) {
            Ok(thread) => thread,
            Err(error) => return drop(reply.send(Err(error))),
        };
        let work = self.task_context(self.token.clone());
        work.spawn({
            let work = work.clone();
            async move {
                let _ = reply.send(create_fork(&work.shared, thread).await);
            }
        });
    }

    fn forked(&self, principal: &Principal, command: &ForkThreadCommand) -> Result<NewThread> {
        let loaded = self.loaded.as_ref().ok_or_else(|| self.not_found())?;
        let (header, history) = (loaded.machine.header(), loaded.machine.history());
        // The open turn shows only its user message, which is not copied.
        let ended = history.count().saturating_sub(u32::from(history.open().is_some()));
        let count = command.message_count.unwrap_or(ended);
        if count > ended {
            return Err(Error::invalid_field("message_count", format!("the thread has {ended} messages")));
        }
        let environment = &self.shared.dependencies.environment;
        let (id, request) = match &command.request_id {
            Some(request) => {
                let digest = fork_digest(command);
                let (id, row) = requested_thread(principal, request.clone(), digest);
                (id, Some(row))
            }
            None => (ThreadId::generate(&**environment), None),
        };
        Ok(NewThread {
            title: command.title.clone().unwrap_or_else(|| header.title.clone()),
            model: header.model.clone(),
            subject: header.subject.clone(),
            // A fork of an ephemeral thread expires together with its source.
            ephemeral: header.ephemeral,
            expires_at: header.expires_at,
            imported: history.fork(Some(count))?,
            request,
            ..NewThread::new(id, principal, &header.profile, header.documents.clone(), environment.now())
        })
    }
}

/// Creates a fork. Its images are those of its source, which the fork refers to. An image that is no longer stored is missing in the
/// fork, too.
async fn create_fork(shared: &Shared, thread: NewThread) -> Result<ThreadHeader> {
    let (stores, mut images) = (&shared.dependencies.stores, BTreeSet::new());
    for entry in &thread.imported {
        if let Entry::Imported(imported) = entry {
            images.extend(imported.messages.iter().flat_map(Message::images).map(|image| &image.id));
        }
    }
    for image in images {
        stores.message_images().add_thread(&thread.org, image, &thread.id).await?;
    }
    stores.threads.create(thread).await
}

/// Deletes the logs of the child turns of a deleted thread. A log that cannot be deleted expires.
async fn delete_children(shared: &Shared, principal: &Principal, children: Vec<ThreadId>) {
    for child in children {
        if shared.token.is_cancelled() {
            return;
        }
        if let Err(error) = shared.peer.delete_thread(principal, child.clone()).await {
            tracing::debug!(%child, %error, "the log of a child turn is left to its expiry");
        }
    }
}
