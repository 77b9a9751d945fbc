//! The places of an endpoint, waited for in the order that [`Shares`] says.
//!
//! A place is a value: who is next is sent it, and wherever it is dropped (by a call that ended, or with the message to somebody
//! who no longer waits) it goes to the next one. So none is lost, whoever is cancelled when.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_types::OrgId;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::shares::{Asked, Shares, Ticket};
use crate::model::ModelError;

/// After which time it is worth asking again where too many wait.
const BUSY_RETRY: Duration = Duration::from_secs(1);

/// The places of an endpoint.
pub(super) struct Places {
    shares: Mutex<Shares<OrgId, oneshot::Sender<Place>>>,
}

/// A place among the calls of an endpoint; the next one's when dropped.
pub(super) struct Place {
    places: Arc<Places>,
}

impl Places {
    /// So many, for which so many calls may wait.
    pub(super) fn new(places: usize, waiting_max: usize) -> Arc<Self> {
        Arc::new(Self { shares: Mutex::new(Shares::new(places, waiting_max)) })
    }

    /// Calls that have a place, and calls that wait for one.
    pub(super) fn counts(&self) -> (usize, usize) {
        let shares = self.lock();
        (shares.taken(), shares.waiting())
    }

    /// A place for a call of an organization, waited for until `end`.
    ///
    /// # Errors
    /// `Busy`: as many wait as may, or others who had fewer waiting came meanwhile. `NotReached`: the time is over.
    pub(super) async fn take(self: &Arc<Self>, of: &OrgId, weight: u32, end: Instant) -> Result<Place, ModelError> {
        let busy = || ModelError::Busy { retry_after: BUSY_RETRY };
        let (sender, given) = oneshot::channel();
        let asked = self.lock().ask(of, weight, sender);
        let ticket = match asked {
            Asked::Taken => return Ok(Place { places: Arc::clone(self) }),
            Asked::Full => return Err(busy()),
            // Who is put out is told by the end of its channel.
            Asked::Waits(ticket, _put_out) => ticket,
        };
        let mut waiting = Waiting { places: self, of, ticket, given };
        match timeout_at(end, &mut waiting.given).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(busy()),
            Err(_) => Err(ModelError::NotReached("none of its places became free within the call's time".to_owned())),
        }
    }

    /// The lock is held for a few instructions, never over an await.
    fn lock(&self) -> MutexGuard<'_, Shares<OrgId, oneshot::Sender<Place>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let next = self.places.lock().free();
        if let Some(next) = next {
            // Where nobody waits there any more the place comes back at once, and goes on.
            drop(next.send(Self { places: Arc::clone(&self.places) }));
        }
    }
}

/// A call that waits; dropped, it no longer does.
struct Waiting<'a> {
    places: &'a Places,
    of: &'a OrgId,
    ticket: Ticket,
    given: oneshot::Receiver<Place>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.places.lock().leave(self.of, self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    fn orgs() -> [OrgId; 2] {
        ["flood", "quiet"].map(|name| OrgId::derive(&[name]))
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[tokio::test]
    async fn a_place_goes_to_the_next_organization_when_its_call_ends() {
        let (places, [flood, quiet]) = (Places::new(1, 8), orgs());
        let first = places.take(&flood, 1, later()).await.unwrap();
        let mut second = Box::pin(places.take(&flood, 1, later()));
        let mut third = Box::pin(places.take(&flood, 1, later()));
        let mut other = Box::pin(places.take(&quiet, 1, later()));
        for waits in [&mut second, &mut third, &mut other] {
            assert!(waits.as_mut().now_or_never().is_none());
        }
        assert_eq!(places.counts(), (1, 3));
        drop(first);
        let second = second.now_or_never().unwrap().unwrap();
        assert!(third.as_mut().now_or_never().is_none());
        drop(second);
        let other = other.now_or_never().unwrap().unwrap();
        drop(other);
        drop(third.now_or_never().unwrap().unwrap());
        assert_eq!(places.counts(), (0, 0));
    }

    #[tokio::test]
    async fn who_is_cancelled_gives_back_what_it_waits_for_and_what_it_was_sent() {
        let (places, [flood, quiet]) = (Places::new(1, 8), orgs());
        let first = places.take(&flood, 1, later()).await.unwrap();
        let mut gone = Box::pin(places.take(&flood, 1, later()));
        let mut sent = Box::pin(places.take(&quiet, 1, later()));
        let mut last = Box::pin(places.take(&quiet, 1, later()));
        for waits in [&mut gone, &mut sent, &mut last] {
            assert!(waits.as_mut().now_or_never().is_none());
        }
        drop(gone);
        assert_eq!(places.counts(), (1, 2));
        drop(first);
        // It has a place and does not know it yet.
        assert_eq!(places.counts(), (1, 1));
        drop(sent);
        assert!(last.now_or_never().unwrap().is_ok());
        assert_eq!(places.counts(), (0, 0));
    }

    #[tokio::test]
    async fn waiting_has_an_end_and_a_bound() {
        let (places, [flood, quiet]) = (Places::new(1, 1), orgs());
        let _first = places.take(&flood, 1, later()).await.unwrap();
        assert!(matches!(places.take(&quiet, 1, Instant::now()).await, Err(ModelError::NotReached(_))));
        assert_eq!(places.counts(), (1, 0));
        let mut waits = Box::pin(places.take(&flood, 1, later()));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(matches!(places.take(&flood, 1, later()).await, Err(ModelError::Busy { .. })));
        assert!(matches!(places.take(&quiet, 1, later()).await, Err(ModelError::Busy { .. })), "one each");
    }

    /// Any number of callers on several threads, who leave when they like: at the end no place is lost.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_place_is_lost_however_callers_leave() {
        let places = Places::new(3, 64);
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..200_u64 {
            let places = Arc::clone(&places);
            callers.spawn(async move {
                let org = OrgId::derive(&[&(caller % 5).to_string()]);
                let patience = Duration::from_micros(caller * 37 % 900);
                let taken = tokio::time::timeout(patience, places.take(&org, 1, later())).await;
                if let Ok(Ok(place)) = taken {
                    tokio::task::yield_now().await;
                    drop(place);
                }
            });
        }
        while callers.join_next().await.is_some() {}
        assert_eq!(places.counts(), (0, 0));
    }
}
