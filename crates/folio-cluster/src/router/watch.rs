//! Watches a turn and fails over to another event source if the node of the turn is lost.
//!
//! If the owner fails, the stream fails over to the new owner, which starts with a snapshot. Until then, if the owner
//! is only unreachable, the stream reads the events that the owner published.

use std::sync::Arc;
use std::time::Duration;

use folio_history::event::Event;
use folio_history::peer::{EventStream, SharedPeer};
use folio_storage::{EventsRead, ThreadStore, TurnEventStore};
use folio_types::{Error, Principal, Reason, Result, Role, TurnId};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::{Router, key};
use crate::remote::node_lost;

/// Time without any event source after which the stream fails with the error of the last attempt. Longer than a takeover.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay between two attempts to find an event source.
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of published events per read.
const BATCH: usize = 64;

/// Stores that a watch reads while no owner is reachable.
#[derive(Clone)]
pub(super) struct WatchStores {
    pub(super) threads: Arc<dyn ThreadStore>,
    pub(super) events: Arc<dyn TurnEventStore>,
}

struct Watcher {
    router: Router,
    principal: Principal,
    turn: TurnId,
    /// Number of the next event.
    next: u64,
}

/// Streams the events of a turn, starting with event number `from`.
pub(super) async fn watch(router: &Router, principal: &Principal, turn: &TurnId, from: u64) -> Result<EventStream> {
    let watcher = Watcher { router: router.clone(), principal: principal.clone(), turn: turn.clone(), next: from };
    match watcher.watch_at_node().await {
        Ok(events) => Ok(watcher.stream(Some(events))),
        // The unreachable owner cannot check the permission, so check it here.
        Err(error) if allows_failover(&error) && watcher.may_see().await => Ok(watcher.stream(None)),
        Err(error) => Err(error),
    }
}

/// Returns true if another event source may continue the stream after this error.
fn allows_failover(error: &Error) -> bool {
    matches!(error.reason, Reason::NodeLost | Reason::Draining | Reason::Moved)
}

impl Watcher {
    async fn watch_at_node(&self) -> Result<EventStream> {
        let (principal, turn, from) = (&self.principal, &self.turn, self.next);
        let call = |peer: SharedPeer| async move { peer.watch(principal, turn, from).await };
        self.router.stream_from_node(key(principal, &turn.thread), call).await
    }

    /// Checks in the thread header that the principal may see the turn.
    async fn may_see(&self) -> bool {
        let Some(shared) = &self.router.inner.shared else { return false };
        let header = shared.threads.header(&self.principal.org, &self.turn.thread).await;
        let may_see = |user| user == self.principal.user || self.principal.role == Role::Admin;
        header.is_ok_and(|header| header.is_some_and(|header| may_see(header.user)))
    }

    /// Returns the next published events. Empty if there are none, or if they cannot be read.
    async fn read_published_events(&self) -> Vec<Event> {
        let Some(shared) = &self.router.inner.shared else { return Vec::new() };
        match shared.events.read(&self.principal.org, &self.turn, self.next, BATCH).await {
            Ok(EventsRead::Events(events)) => events,
            Ok(EventsRead::Expired) => Vec::new(),
            Err(error) => {
                tracing::debug!(turn = %self.turn, %error, "cannot read the published events of a turn");
                Vec::new()
            }
        }
    }

    /// Streams the events of the node, and fails over to other sources if the node is lost.
    fn stream(mut self, mut node: Option<EventStream>) -> EventStream {
        let events = async_stream::stream! {
            let mut first = true;
            // Deadline of the failover. None while a source delivers events.
            let mut deadline: Option<Instant> = None;
            loop {
                let (received, lost) = match &mut node {
                    None => (self.read_published_events().await, None),
                    Some(events) => match events.next().await {
                        // A complete stream ends with a closing event, so the node was lost.
                        None => {
                            tokio::time::sleep(PAUSE).await;
                            (Vec::new(), Some(node_lost()))
                        }
                        Some(Ok(event)) => (vec![event], None),
                        Some(Err(error)) => (Vec::new(), Some(error)),
                    },
                };
                let is_empty = received.is_empty();
                for event in received {
                    // A second source may start with events that were already sent, or with a snapshot of them.
                    if event.number < self.next && !first {
                        continue;
                    }
                    (first, deadline) = (false, None);
                    self.next = self.next.max(event.number.saturating_add(1));
                    let closes = event.kind.is_closing();
                    yield Ok(event);
                    if closes {
                        return;
                    }
                }
                match lost {
                    None if node.is_some() || !is_empty => continue,
                    Some(error) if allows_failover(&error) => node = None,
                    Some(error) => {
                        yield Err(error);
                        return;
                    }
                    None => {}
                }
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + FAILOVER_TIMEOUT);
                match self.watch_at_node().await {
                    Ok(events) => node = Some(events),
                    Err(error) if allows_failover(&error) && Instant::now() < deadline => tokio::time::sleep(PAUSE).await,
                    Err(error) => {
                        yield Err(error);
                        return;
                    }
                }
            }
        };
        events.boxed()
    }
}
