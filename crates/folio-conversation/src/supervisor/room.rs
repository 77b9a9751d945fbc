//! Memory for histories: how many bytes of journals the conversations of a node may hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use folio_types::{Error, Reason, Result};
use tokio::sync::Notify;

/// How long a history waits for room while idle conversations are let go.
const ROOM_WITHIN: Duration = Duration::from_millis(300);

/// The room. Idle conversations are let go before it is full, so that few have to wait.
pub(crate) struct Room {
    bytes_max: u64,
    held: AtomicU64,
    /// Some of it was given back.
    freed: Notify,
    /// It is nearly full.
    crowded: Notify,
}

/// What one conversation holds of it; given back when dropped.
pub(crate) struct Share {
    room: Arc<Room>,
    bytes: u64,
}

impl Room {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        let (held, freed, crowded) = (AtomicU64::new(0), Notify::new(), Notify::new());
        Arc::new(Self { bytes_max, held, freed, crowded })
    }

    /// Bytes that are held.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }

    /// Room for a history of this many bytes, or `OVERLOADED` where none was made in time. Where nothing else is held it
    /// is let in whatever its size: a thread has a bound of its own.
    pub(crate) async fn enter(self: &Arc<Self>, bytes: u64) -> Result<Share> {
        let entered = async {
            loop {
                let mut freed = std::pin::pin!(self.freed.notified());
                // From here on nothing that is given back is missed.
                freed.as_mut().enable();
                if let Some(share) = self.take(bytes) {
                    return share;
                }
                self.crowded.notify_one();
                freed.await;
            }
        };
        let full = |_| {
            Error::exhausted(Reason::Overloaded, "the node has as much of histories in memory as it may")
                .retry_after(Duration::from_secs(1))
        };
        tokio::time::timeout(ROOM_WITHIN, entered).await.map_err(full)
    }

    fn take(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        let fits = |held: u64| {
            let after = held.saturating_add(bytes);
            (held == 0 || after <= self.bytes_max).then_some(after)
        };
        self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        self.tell_if_crowded();
        Some(Share { room: Arc::clone(self), bytes })
    }

    /// Comes back when idle conversations are to make room.
    pub(crate) async fn crowded(&self) {
        self.crowded.notified().await;
    }

    /// Bytes that idle conversations are to give back: a quarter stays free.
    pub(crate) fn excess(&self) -> u64 {
        self.held().saturating_sub(self.bytes_max - self.bytes_max / 4)
    }

    fn tell_if_crowded(&self) {
        if self.held() > self.bytes_max - self.bytes_max / 8 {
            self.crowded.notify_one();
        }
    }
}

impl Share {
    /// It holds this many bytes from now on. A turn that runs is never refused room: it has bounds of its own.
    pub(crate) fn hold(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes > before {
            self.room.held.fetch_add(bytes - before, Ordering::AcqRel);
            self.room.tell_if_crowded();
        } else if bytes < before {
            self.room.held.fetch_sub(before - bytes, Ordering::AcqRel);
            self.room.freed.notify_waiters();
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hold(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn invariant_10_what_does_not_fit_waits_a_moment_and_is_refused() {
        let room = Room::new(100);
        let one = room.enter(60).await.unwrap();
        let error = room.enter(41).await.err().unwrap();
        assert_eq!(error.reason, Reason::Overloaded);
        assert!(error.is_retriable());
        let (two, ()) = tokio::join!(room.enter(80), async {
            room.crowded().await;
            drop(one);
        });
        assert_eq!(two.unwrap().bytes(), 80);
        assert_eq!(room.held(), 0, "a share that was dropped is given back");
    }

    #[tokio::test]
    async fn one_history_is_let_in_whatever_its_size() {
        let room = Room::new(100);
        let large = room.enter(500).await.unwrap();
        assert!(room.enter(1).await.is_err());
        drop(large);
        assert!(room.enter(1).await.is_ok());
    }

    #[tokio::test]
    async fn a_share_that_grows_makes_others_leave_before_the_room_is_full() {
        let room = Room::new(1_000);
        let mut share = room.enter(100).await.unwrap();
        assert_eq!(room.excess(), 0);
        share.hold(900);
        room.crowded().await;
        assert_eq!(room.excess(), 150);
        share.hold(2_000);
        assert_eq!(room.held(), 2_000, "what runs is not refused");
        share.hold(10);
        assert_eq!((room.held(), room.excess()), (10, 0));
    }
}
