//! Uploads under way: each has a place, and there are so many of them, in all and for each organization, by number and by
//! bytes on disk. A place also keeps every other upload, and the clean-up, from the same bytes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_types::{DocumentId, Error, OrgId, Reason, Result};

use crate::options::Options;

/// When to try again where all places are taken: a transfer takes seconds.
const RETRY_FULL: Duration = Duration::from_secs(5);
/// When to try again where the same upload is under way.
const RETRY_SAME: Duration = Duration::from_secs(1);

/// What uploads under way hold on to together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// How many they are.
    pub uploads: usize,
    /// Bytes that they may take on disk before they end.
    pub bytes: u64,
}

impl Load {
    fn and(self, bytes: u64) -> Self {
        Self { uploads: self.uploads.saturating_add(1), bytes: self.bytes.saturating_add(bytes) }
    }

    fn without(self, bytes: u64) -> Self {
        Self { uploads: self.uploads.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }

    fn is_over(self, most: Self) -> bool {
        self.uploads > most.uploads || self.bytes > most.bytes
    }
}

/// The uploads under way of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct UnderWay {
    most: Load,
    most_each: Load,
    places: Arc<Mutex<Places>>,
}

#[derive(Debug, Default)]
struct Places {
    ids: HashSet<DocumentId>,
    all: Load,
    /// Organizations that have an upload under way: at most as many as there are places.
    each: HashMap<OrgId, Load>,
}

impl UnderWay {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            most: Load { uploads: options.uploads, bytes: options.upload_bytes },
            most_each: Load { uploads: options.uploads_per_organization, bytes: options.upload_bytes_per_organization },
            places: Arc::default(),
        }
    }

    /// What is under way now.
    pub fn load(&self) -> Load {
        self.lock().all
    }

    /// What an organization has under way now.
    pub(crate) fn load_of(&self, org: &OrgId) -> Load {
        self.lock().each.get(org).copied().unwrap_or_default()
    }

    /// Takes a place for an upload of at most `bytes`.
    ///
    /// Errors: `OVERLOADED` with a time to come back, exhausted where no place is free, unavailable where this very upload
    /// has one.
    pub(crate) fn take(&self, org: &OrgId, id: &DocumentId, bytes: u64) -> Result<Place> {
        let mut places = self.lock();
        let (all, each) = (places.all.and(bytes), places.each.get(org).copied().unwrap_or_default().and(bytes));
        if each.is_over(self.most_each) {
            return Err(full("the organization has as many uploads under way as it may"));
        }
        if all.is_over(self.most) {
            return Err(full("the server has as many uploads under way as it may"));
        }
        claim(&mut places, id)?;
        places.all = all;
        places.each.insert(org.clone(), each);
        Ok(Place { places: Arc::clone(&self.places), id: id.clone(), upload: Some((org.clone(), bytes)) })
    }

    /// Keeps uploads from these bytes; none where one is under way.
    pub(crate) fn keep_off(&self, id: &DocumentId) -> Option<Place> {
        claim(&mut self.lock(), id).ok()?;
        Some(Place { places: Arc::clone(&self.places), id: id.clone(), upload: None })
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of a request at a time: two with different bytes must not mix.
fn claim(places: &mut Places, id: &DocumentId) -> Result<()> {
    if places.ids.insert(id.clone()) {
        return Ok(());
    }
    let message = "an upload with this request_id is under way; repeat it when that has ended";
    Err(Error::unavailable(Reason::Overloaded, message).retry_after(RETRY_SAME))
}

fn full(message: &str) -> Error {
    Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_FULL)
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Mutex<Places>>,
    id: DocumentId,
    /// What it counts for; none: no upload.
    upload: Option<(OrgId, u64)>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.ids.remove(&self.id);
        let Some((org, bytes)) = &self.upload else { return };
        places.all = places.all.without(*bytes);
        let left = places.each.get(org).copied().unwrap_or_default().without(*bytes);
        match left.uploads {
            0 => drop(places.each.remove(org)),
            _ => drop(places.each.insert(org.clone(), left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active_uploads() -> UnderWay {
        UnderWay::new(&Options {
            uploads: 3,
            uploads_per_organization: 2,
            upload_bytes: 100,
            upload_bytes_per_organization: 60,
            ..Options::default()
        })
    }

    fn refused(taken: Result<Place>, who: &str) {
        let error = taken.unwrap_err();
        assert!(error.reason == Reason::Overloaded && error.is_retriable() && error.message.contains(who), "{error}");
    }

    #[test]
    fn invariant_10_places_are_bounded_by_number_and_bytes_in_all_and_for_each_organization() {
        let (one, two) = (OrgId::derive(&["one"]), OrgId::derive(&["two"]));
        let id = |number: u32| DocumentId::derive(&[&number.to_string()]);
        let all = active_uploads();
        let first = all.take(&one, &id(1), 50).unwrap();
        refused(all.take(&one, &id(2), 11), "the organization");
        let second = all.take(&one, &id(2), 10).unwrap();
        refused(all.take(&one, &id(3), 0), "the organization");
        refused(all.take(&two, &id(4), 41), "the server");
        let third = all.take(&two, &id(4), 40).unwrap();
        refused(all.take(&two, &id(5), 0), "the server");
        assert_eq!(all.load(), Load { uploads: 3, bytes: 100 });
        drop(first);
        refused(all.take(&two, &id(2), 0), "this request_id");
        assert!(all.keep_off(&id(2)).is_none());
        drop((second, third));
        assert_eq!(all.load(), Load::default());
        assert!(all.lock().each.is_empty() && all.lock().ids.is_empty());
        let kept = all.keep_off(&id(2)).unwrap();
        refused(all.take(&one, &id(2), 1), "this request_id");
        drop(kept);
        assert!(all.take(&one, &id(2), 1).is_ok());
    }
}
