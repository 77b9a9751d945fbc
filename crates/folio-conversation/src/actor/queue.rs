//! Chats that wait behind a running turn. The queue is bounded and in memory only; a chat is accepted when it starts.

use folio_types::{Error, Reason, limits};

use super::state::{Queued, State};
use crate::prepare;
use crate::turn::{Effect, Machine};

impl State {
    /// Queues a chat, or refuses it if the queue is full or the node drains.
    pub(super) fn enqueue(&mut self, chat: Queued) {
        let draining = self.shared.is_draining();
        let Some(loaded) = &mut self.loaded else { return };
        loaded.queue.retain(|queued| !queued.reply.is_closed());
        if draining {
            let _ = chat.reply.send(Err(crate::shared::draining()));
        } else if loaded.queue.len() >= limits::QUEUE_PER_THREAD {
            let _ = chat.reply.send(Err(queue_full()));
        } else {
            loaded.queue.push_back(chat);
        }
    }

    /// Starts the first queued chat if the machine is idle, and returns its effects. Chats of disconnected callers are
    /// dropped. None: no chat started.
    pub(super) async fn next_in_queue(&mut self) -> Option<Vec<Effect>> {
        loop {
            let is_free = |machine: &Machine| machine.is_idle() && !machine.has_open_group();
            let loaded = self.loaded.as_mut().filter(|loaded| is_free(&loaded.machine))?;
            let queued = loaded.queue.pop_front()?;
            if queued.reply.is_closed() {
                continue;
            }
            let Queued { prepared, principal, reply, permit } = queued;
            // The turn starts under the organization's current settings.
            let refreshed = prepare::refresh_chat(&self.shared, self.org(), *prepared);
            let effects = match self.shared.with_store_timeout(refreshed).await {
                Ok(prepared) => self.chat(&principal, Box::new(prepared), reply, permit).await,
                Err(error) => {
                    let _ = reply.send(Err(error));
                    continue;
                }
            };
            if !effects.is_empty() {
                return Some(effects);
            }
        }
    }

    pub(super) fn empty_queue(&mut self) {
        if let Some(loaded) = &mut self.loaded {
            for queued in loaded.queue.drain(..) {
                let _ = queued.reply.send(Err(crate::shared::draining()));
            }
        }
    }
}

fn queue_full() -> Error {
    let message = format!("{} messages are already queued behind the running turn", limits::QUEUE_PER_THREAD);
    Error::exhausted(Reason::QueueFull, message).retry_after(std::time::Duration::from_secs(5))
}
