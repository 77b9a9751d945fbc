//! Requests that pay a model, one at a time for each thing that they make: who repeats a request while it runs waits, and
//! then finds what it made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_types::ExtractionId;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// What is being made. Holds an entry for each thing that somebody makes or waits for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    under_way: Arc<Mutex<HashMap<ExtractionId, Arc<Turn<()>>>>>,
}

/// The right to make one thing; given to the next in line when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Claims,
    id: ExtractionId,
    /// None once it is given back.
    turn: Option<Arc<Turn<()>>>,
    /// None while it waits.
    held: Option<OwnedMutexGuard<()>>,
}

impl Claims {
    /// Waits until nobody else makes this.
    pub(crate) async fn take(&self, id: &ExtractionId) -> Claim {
        let turn = self.lock().entry(id.clone()).or_default().clone();
        // Made before it waits, so that one that gives up leaves no entry behind.
        let mut claim = Claim { claims: self.clone(), id: id.clone(), turn: Some(turn.clone()), held: None };
        claim.held = Some(turn.lock_owned().await);
        claim
    }

    /// The lock is held for a few instructions, never over an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<ExtractionId, Arc<Turn<()>>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.held = None;
        self.turn = None;
        let mut under_way = self.claims.lock();
        if under_way.get(&self.id).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            under_way.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left_behind() {
        let claims = Claims::default();
        let (one, other) = (ExtractionId::derive(&["one"]), ExtractionId::derive(&["other"]));
        let first = claims.take(&one).await;
        let mut second = Box::pin(claims.take(&one));
        assert!((&mut second).now_or_never().is_none(), "it waits");
        assert!(claims.take(&other).now_or_never().is_some(), "another thing is free");
        let mut third = Box::pin(claims.take(&one));
        assert!((&mut third).now_or_never().is_none());
        drop(third);
        drop(first);
        drop(second.await);
        assert!(claims.lock().is_empty());
    }
}
