//! Watching a turn whatever becomes of its owner.
//!
//! Where the owner is lost, the watcher is told on: by the next owner, which begins with a snapshot, or, until there is one
//! and while the owner is only out of reach, by the events that the owner shared.

use std::sync::Arc;
use std::time::Duration;

use folio_proto::v1;
use folio_proto::v1::event::Kind;
use folio_storage::{EventsRead, SharedTurnStore, TurnEventStore};
use folio_types::{Error, Principal, Reason, Result, Role, TurnId};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::{Router, key};
use crate::peer::{EventStream, SharedPeer};
use crate::remote::gone;

/// For how long nobody may tell a watcher anything before it is told that the owner is lost: a takeover takes less.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked who tells on.
const PAUSE: Duration = Duration::from_millis(250);
/// Shared events that are read at once.
const BATCH: usize = 64;

/// What owners of turns share with everybody.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) turns: Arc<dyn SharedTurnStore>,
    pub(super) events: Arc<dyn TurnEventStore>,
}

/// One watcher.
struct Watcher {
    router: Router,
    principal: Principal,
    turn: TurnId,
    /// The number of the next event.
    next: u64,
}

/// The events of a turn from this number on.
pub(super) async fn watch(router: &Router, principal: &Principal, turn: &TurnId, from: u64) -> Result<EventStream> {
    let watcher = Watcher { router: router.clone(), principal: principal.clone(), turn: turn.clone(), next: from };
    match watcher.ask().await {
        Ok(events) => Ok(watcher.go_on(Some(events))),
        // Whose turn it is the owner would have said.
        Err(error) if leads_on(&error) && watcher.may_see().await => Ok(watcher.go_on(None)),
        Err(error) => Err(error),
    }
}

/// Whether somebody else may tell what this one does not.
fn leads_on(error: &Error) -> bool {
    matches!(error.reason, Reason::NodeLost | Reason::Draining | Reason::Moved)
}

impl Watcher {
    /// The events as a node tells them.
    async fn ask(&self) -> Result<EventStream> {
        let (principal, turn, from) = (&self.principal, &self.turn, self.next);
        let call = |peer: SharedPeer| async move { peer.watch(principal, turn, from).await };
        self.router.follow(key(principal, &turn.thread), call).await
    }

    /// Whether the shared state says that the turn may be seen.
    async fn may_see(&self) -> bool {
        let Some(shared) = &self.router.inner.shared else { return false };
        let state = shared.turns.get(&self.principal.org, &self.turn).await;
        let of_user = |user| user == self.principal.user || self.principal.role == Role::Admin;
        state.is_ok_and(|state| state.is_some_and(|state| of_user(state.user)))
    }

    /// The events that the owner shared, from the next one on.
    async fn shared(&self) -> Vec<v1::Event> {
        let Some(shared) = &self.router.inner.shared else { return Vec::new() };
        match shared.events.read(&self.principal.org, &self.turn, self.next, BATCH).await {
            Ok(EventsRead::Events(events)) => events.iter().map(v1::Event::from).collect(),
            Ok(EventsRead::Gone) => Vec::new(),
            Err(error) => {
                tracing::debug!(turn = %self.turn, %error, "the shared events of a turn could not be read");
                Vec::new()
            }
        }
    }

    /// Tells what a node tells, and where it is lost what others do.
    fn go_on(mut self, mut node: Option<EventStream>) -> EventStream {
        let events = async_stream::stream! {
            let mut first = true;
            // Since it was lost who told, and nobody tells on.
            let mut until: Option<Instant> = None;
            loop {
                let (told, lost) = match &mut node {
                    None => (self.shared().await, None),
                    Some(events) => match events.next().await {
                        // Every stream ends with a closing event: one without was lost with whoever told it.
                        None => {
                            tokio::time::sleep(PAUSE).await;
                            (Vec::new(), Some(gone()))
                        }
                        Some(Ok(event)) => (vec![event], None),
                        Some(Err(error)) => (Vec::new(), Some(error)),
                    },
                };
                let nothing = told.is_empty();
                for event in told {
                    // A second one who tells begins with what was told, or with a snapshot of it.
                    if event.number < self.next && !first {
                        continue;
                    }
                    (first, until) = (false, None);
                    self.next = self.next.max(event.number.saturating_add(1));
                    let closes = closes(&event);
                    yield Ok(event);
                    if closes {
                        return;
                    }
                }
                match lost {
                    None if node.is_some() || !nothing => continue,
                    Some(error) if leads_on(&error) => node = None,
                    Some(error) => {
                        yield Err(error);
                        return;
                    }
                    None => {}
                }
                let until = *until.get_or_insert_with(|| Instant::now() + PATIENCE);
                match self.ask().await {
                    Ok(events) => node = Some(events),
                    Err(error) if leads_on(&error) && Instant::now() < until => tokio::time::sleep(PAUSE).await,
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

/// Whether it is the last one of a stream.
fn closes(event: &v1::Event) -> bool {
    matches!(
        event.kind,
        Some(
            Kind::AwaitingApproval(_)
                | Kind::Completed(_)
                | Kind::Failed(_)
                | Kind::Cancelled(_)
                | Kind::Expired(_)
                | Kind::Superseded(_)
        )
    )
}
