//! Places for what is under way at once: so many in all, and of them a share for each organization, so that none takes what others need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_types::OrgId;

/// The places.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    each: usize,
    taken: Mutex<Taken>,
}

/// Holds an entry for each organization that has a place.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    orgs: HashMap<OrgId, usize>,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    org: OrgId,
}

impl Places {
    /// `most` in all, `each` for one organization.
    pub(crate) fn new(most: usize, each: usize) -> Arc<Self> {
        Arc::new(Self { most, each, taken: Mutex::default() })
    }

    /// A place for an organization; none: it has all of its own, or all are taken.
    pub(crate) fn take(self: &Arc<Self>, org: &OrgId) -> Option<Place> {
        let mut taken = self.lock();
        let own = taken.orgs.get(org).copied().unwrap_or_default();
        if own >= self.each || taken.all >= self.most {
            return None;
        }
        taken.all = taken.all.saturating_add(1);
        taken.orgs.insert(org.clone(), own.saturating_add(1));
        Some(Place { places: Arc::clone(self), org: org.clone() })
    }

    /// The lock is held for a few instructions, never over an await.
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.orgs.get_mut(&self.org) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.orgs.remove(&self.org);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_organization_takes_its_share_and_leaves_the_others_theirs() {
        let places = Places::new(3, 2);
        let [a, b, c] = ["a", "b", "c"].map(|name| OrgId::derive(&[name]));
        let first = places.take(&a).unwrap();
        let _second = places.take(&a).unwrap();
        assert!(places.take(&a).is_none(), "it has its share");
        let third = places.take(&b).unwrap();
        assert!(places.take(&c).is_none(), "all are taken");
        drop(third);
        drop(first);
        let _third = places.take(&c).unwrap();
        let _fourth = places.take(&a).unwrap();
        assert!(places.take(&a).is_none() && places.take(&b).is_none());
    }

    #[test]
    fn nothing_is_kept_of_who_has_no_place() {
        let places = Places::new(3, 2);
        let held: Vec<_> = ["a", "b"].map(|name| places.take(&OrgId::derive(&[name])).unwrap()).into();
        drop(held);
        assert!(places.lock().orgs.is_empty() && places.lock().all == 0);
    }
}
