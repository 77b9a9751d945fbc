//! Sweeps over stored records that continue after a record that cannot be decoded.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_types::page::{Order, Page, PageRequest};
use folio_types::{Error, Reason, Result};

/// Maximum number of unreadable records that a process counts, and of those that [`ListSweep`] skips in a row.
const UNREADABLE_MAX: u32 = 1_024;

/// The records that sweeps of this process skipped because they cannot be decoded: damaged ones, and those that a newer version
/// wrote. At most 1,024 are counted. Clones share the records.
#[derive(Debug, Clone, Default)]
pub struct UnreadableRecords(Arc<Mutex<BTreeSet<String>>>);

impl UnreadableRecords {
    /// Returns the result of the step of a sweep for one record. None: the step failed for this record only, and the sweep continues
    /// with the next one. An unreadable record is logged and counted once. `record`: its kind and its id.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`, unless other writes of the record are in progress: it is no error of the record.
    pub fn skip<T>(&self, record: impl Display, step: Result<T>) -> Result<Option<T>> {
        match step {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.reason == Reason::StoreUnavailable && !error.is_contended() => Err(error),
            Err(error) if error.reason == Reason::StoredFormat => {
                self.report(record.to_string(), &error);
                Ok(None)
            }
            Err(error) => {
                tracing::warn!(%record, %error, "a sweep skips a record; the next one retries");
                Ok(None)
            }
        }
    }

    /// Returns the number of records.
    pub fn count(&self) -> usize {
        self.records().len()
    }

    fn report(&self, record: String, error: &Error) {
        let mut records = self.records();
        if records.len() < UNREADABLE_MAX as usize && !records.contains(&record) {
            tracing::error!(record, %error, "sweeps skip an unreadable record");
            records.insert(record);
        }
    }

    fn records(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The position of a sweep in a list that it reads page by page, oldest items first. Unreadable items are skipped: after a page that
/// cannot be decoded, the items are read one by one until the unreadable one is found.
#[derive(Debug)]
pub struct ListSweep {
    unreadable: UnreadableRecords,
    /// The list, for the log.
    list: String,
    /// Maximum number of items of a page.
    size: u32,
    next: Option<PageRequest>,
    skipped: u32,
}

impl ListSweep {
    pub fn new(unreadable: &UnreadableRecords, list: impl Display, size: u32) -> Self {
        let first = PageRequest { size, order: Order::Oldest, ..PageRequest::default() };
        Self { unreadable: unreadable.clone(), list: list.to_string(), size, next: Some(first), skipped: 0 }
    }

    /// Returns the request of the next page, whose result the caller passes to [`Self::items`]. None: the list has ended.
    pub fn request(&self) -> Option<PageRequest> {
        self.next.clone()
    }

    /// Returns the number of unreadable items so far.
    pub fn skipped(&self) -> u32 {
        self.skipped
    }

    /// Returns the items of the requested page. Empty if the page contains an unreadable item.
    ///
    /// # Errors
    /// Those of the page, except unreadable items.
    pub fn items<T>(&mut self, page: Result<Page<T>>) -> Result<Vec<T>> {
        let error = match page {
            Ok(page) => {
                let next = |token| PageRequest {
                    size: self.size,
                    token: Some(token),
                    order: Order::Oldest,
                    ..PageRequest::default()
                };
                self.next = page.next.map(next);
                return Ok(page.items);
            }
            Err(error) => error,
        };
        match &mut self.next {
            Some(request) if error.reason == Reason::StoredFormat && request.skip < UNREADABLE_MAX => {
                if request.size > 1 {
                    request.size = 1;
                } else {
                    let token = request.token.as_deref().unwrap_or_default();
                    self.unreadable.report(format!("{} {token} {}", self.list, request.skip), &error);
                    (request.skip, request.size) = (request.skip + 1, self.size);
                    self.skipped = self.skipped.saturating_add(1);
                }
                Ok(Vec::new())
            }
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a page of a list. None: an unreadable item.
    fn page(items: &[Option<u32>], request: &PageRequest) -> Result<Page<u32>> {
        let start = request.token.as_deref().map_or(0, |token| token.parse().unwrap()) + request.skip as usize;
        let end = (start + request.size as usize).min(items.len());
        let read = items.get(start..end).unwrap_or_default().iter().copied().collect::<Option<Vec<_>>>();
        let items_read = read.ok_or_else(|| Error::stored_format("damaged"))?;
        let next = (end < items.len()).then(|| end.to_string());
        Ok(Page { items: items_read, next, total: items.len() as u64 })
    }

    #[test]
    fn a_sweep_of_a_list_returns_all_items_but_the_unreadable_ones() {
        for size in [1, 3, 100] {
            for damaged in [&[][..], &[0], &[6], &[2, 3], &[0, 1, 2, 3, 4, 5, 6]] {
                let items: Vec<_> = (0..7).map(|item| (!damaged.contains(&item)).then_some(item)).collect();
                let unreadable = UnreadableRecords::default();
                let (mut list, mut found) = (ListSweep::new(&unreadable, "items", size), Vec::new());
                while let Some(request) = list.request() {
                    found.extend(list.items(page(&items, &request)).unwrap());
                }
                assert_eq!(found, items.iter().copied().flatten().collect::<Vec<_>>(), "{size} {damaged:?}");
                assert_eq!(
                    (unreadable.count(), list.skipped() as usize),
                    (damaged.len(), damaged.len()),
                    "{size} {damaged:?}"
                );
            }
        }
    }

    #[test]
    fn other_errors_end_the_sweep_of_a_list() {
        let unavailable = || Error::unavailable(Reason::StoreUnavailable, "unavailable");
        let mut list = ListSweep::new(&UnreadableRecords::default(), "items", 10);
        assert!(list.items::<u32>(Err(unavailable())).is_err());
        // The list itself is unreadable, and not its items.
        let failures =
            (0..3 * UNREADABLE_MAX).map(|_| list.items::<u32>(Err(Error::stored_format("damaged"))).is_err());
        assert_eq!(failures.filter(|is_error| *is_error).count(), UNREADABLE_MAX as usize);
    }

    #[test]
    fn an_unreadable_record_is_counted_once_and_an_unavailable_store_is_an_error() {
        let unreadable = UnreadableRecords::default();
        for _ in 0..2 {
            let skipped = unreadable.skip("job 1", Err::<(), _>(Error::stored_format("damaged")));
            assert_eq!(skipped, Ok(None));
        }
        assert_eq!(unreadable.skip("job 2", Err::<(), _>(Error::not_found("job", "2"))), Ok(None));
        assert_eq!(unreadable.skip("job 3", Ok(3)), Ok(Some(3)));
        assert_eq!(unreadable.count(), 1);
        assert_eq!(unreadable.skip("job 3", Err::<(), _>(Error::contended("concurrent writes"))), Ok(None));
        let unavailable = Error::unavailable(Reason::StoreUnavailable, "unavailable");
        assert_eq!(unreadable.skip("job 4", Err::<(), _>(unavailable.clone())), Err(unavailable));
        for number in 0..2 * UNREADABLE_MAX {
            let _ = unreadable.skip(number, Err::<(), _>(Error::stored_format("damaged")));
        }
        assert_eq!(unreadable.count(), UNREADABLE_MAX as usize);
    }
}
