//! Items of a list that are filtered and sorted in memory, because no index of the stores has the requested order.

use folio_types::Result;
use folio_types::limits::PAGE_SIZE_MAX;
use folio_types::page::{Order, Page, PageRequest};
use serde::Serialize;

use crate::list::{ListPage, Listing, PAGE_BYTES, json_bytes};

/// Maximum number of items that one request reads.
// proto: *.grid "the newest {} items"
// proto: ListDocumentsRequest.filter "the newest {} documents"
// proto: ListThreadsRequest.order_by "the newest {} threads"
// proto: docs/api.md "the newest {} items"
const CANDIDATES_MAX: usize = 10_000;
/// Maximum number of pages that one request reads. A page of a store may have few items.
// proto: none "bounds the work of a request"
const PAGES_MAX: usize = 100;
/// Number of items of a page that are read together.
const ITEMS_PER_READ: usize = 16;

/// The newest items of a list, up to [`CANDIDATES_MAX`].
#[derive(Debug)]
pub(crate) struct Candidates<T> {
    pub(crate) rows: Vec<T>,
    /// Number of items of the list, as the store counted it.
    listed: u64,
    /// True if the list has further items.
    has_more: bool,
}

/// A number of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) items: u64,
    pub(crate) is_estimate: bool,
}

impl<T> Candidates<T> {
    /// Reads the newest items of a list. `row` reduces an item to the fields that the request needs.
    pub(crate) async fn read<A, F>(read: impl Fn(PageRequest) -> F + Send, row: impl Fn(A) -> T + Send) -> Result<Self>
    where
        A: Send,
        T: Send,
        F: Future<Output = Result<Page<A>>> + Send,
    {
        let mut request = PageRequest { size: PAGE_SIZE_MAX, order: Order::Newest, ..PageRequest::default() };
        let mut found = Self { rows: Vec::new(), listed: 0, has_more: true };
        for number in 0..PAGES_MAX {
            let page = read(request.clone()).await?;
            if number == 0 {
                found.listed = page.total;
            }
            let left = CANDIDATES_MAX.saturating_sub(found.rows.len());
            let is_cut = page.items.len() > left;
            found.rows.extend(page.items.into_iter().take(left).map(&row));
            match page.next {
                None if !is_cut => {
                    found.has_more = false;
                    break;
                }
                Some(token) if found.rows.len() < CANDIDATES_MAX => request.token = Some(token),
                _ => break,
            }
        }
        Ok(found)
    }

    /// Returns the number of items of the list that match, if `matching` of the items that were read match.
    pub(crate) fn total(&self, matching: usize) -> Total {
        total(matching as u64, self.rows.len() as u64, self.has_more.then_some(self.listed))
    }
}

/// Returns a page of a list whose keys are selected and ordered. Its tokens are positions. `load` reads the items of some keys, and
/// leaves out those that were deleted meanwhile. The page ends before it exceeds the maximum size of a response.
///
/// # Errors
/// `INVALID_PAGE_TOKEN`, and the errors of `load`.
pub(crate) async fn read_page<K, T, F>(
    listing: &Listing,
    selected: &[K],
    total: Total,
    load: impl Fn(Vec<K>) -> F + Send,
) -> Result<ListPage<T>>
where
    K: Clone + Send + Sync,
    T: Serialize + Send,
    F: Future<Output = Result<Vec<T>>> + Send,
{
    let positions = listing.positions(selected.len())?;
    let (mut end, mut items, mut bytes) = (positions.start, Vec::new(), 0_usize);
    for keys in selected.get(positions).unwrap_or_default().chunks(ITEMS_PER_READ) {
        let found = load(keys.to_vec()).await?;
        bytes = bytes.saturating_add(found.iter().map(json_bytes).sum());
        if bytes > PAGE_BYTES && !items.is_empty() {
            break;
        }
        items.extend(found);
        end = end.saturating_add(keys.len());
    }
    let next = (end < selected.len() && end > 0).then(|| end.to_string());
    Ok(ListPage {
        items,
        next_page_token: listing.page_token(next),
        total_size: total.items,
        is_total_estimate: total.is_estimate,
    })
}

/// Returns the number of matching items. `listed`: the number of items of a list that was read in part. The estimate assumes that the
/// unread items match as often as the others. None: all items were read.
fn total(matching: u64, read: u64, listed: Option<u64>) -> Total {
    let Some(listed) = listed else { return Total { items: matching, is_estimate: false } };
    let scaled = u128::from(matching) * u128::from(listed.max(read)) / u128::from(read.max(1));
    Total { items: u64::try_from(scaled).unwrap_or(u64::MAX), is_estimate: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{ListRequest, SortKeys};

    #[test]
    fn the_total_of_a_list_that_was_read_in_part_is_an_estimate() {
        let exact = |items| Total { items, is_estimate: false };
        let estimate = |items| Total { items, is_estimate: true };
        assert_eq!([total(0, 0, None), total(3, 10, None)], [exact(0), exact(3)]);
        assert_eq!(total(3_000, 10_000, Some(40_000)), estimate(12_000));
        assert_eq!(total(3_000, 10_000, Some(1_025)), estimate(3_000), "the store counted fewer items than were read");
        assert_eq!(total(0, 0, Some(7)), estimate(0));
        assert_eq!(total(u64::MAX, 1, Some(u64::MAX)), estimate(u64::MAX));
    }

    /// Reads a list of `items` numbers from a store whose pages have `page` of them. Returns the candidates and the number of reads.
    async fn read(items: usize, page: usize) -> (Candidates<usize>, usize) {
        let reads = std::sync::atomic::AtomicUsize::new(0);
        let found = Candidates::read(
            |request: PageRequest| {
                reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let from: usize = request.token.map_or(0, |token| token.parse().unwrap());
                let end = items.min(from + page);
                let next = (end < items).then(|| end.to_string());
                let page = Page { items: (from..end).collect(), next, total: items as u64 };
                std::future::ready(Ok(page))
            },
            |number: usize| number,
        );
        (found.await.unwrap(), reads.into_inner())
    }

    #[tokio::test]
    async fn pages_of_selected_keys_are_contiguous_and_bounded_in_bytes() {
        let selected: Vec<usize> = (0..100).collect();
        let total = Total { items: 100, is_estimate: true };
        let (mut seen, mut token, mut sizes) = (Vec::new(), String::new(), Vec::new());
        loop {
            let request = ListRequest { page_size: 70, page_token: token, ..ListRequest::default() };
            let listing = Listing::new(&request, &["list"], SortKeys::CreateTime, Order::Newest, 1_000).unwrap();
            // Item 17 was deleted, and the items of 4 reads exceed the size of a response.
            let load = |keys: Vec<usize>| {
                let items = keys.into_iter().filter(|key| *key != 17);
                std::future::ready(Ok(items.map(|key| (key, "x".repeat(PAGE_BYTES / 63))).collect::<Vec<_>>()))
            };
            let page = read_page(&listing, &selected, total, load).await.unwrap();
            assert_eq!((page.total_size, page.is_total_estimate), (100, true));
            sizes.push(page.items.len());
            seen.extend(page.items.into_iter().map(|(key, _)| key));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, (0..100).filter(|key| *key != 17).collect::<Vec<_>>());
        assert_eq!(sizes, [47, 52]);
    }

    #[tokio::test]
    async fn the_items_and_the_pages_of_a_request_are_bounded() {
        for (items, page, rows, reads, has_more) in [
            (0, 1_000, 0, 1, false),
            (2_500, 1_000, 2_500, 3, false),
            (CANDIDATES_MAX, 1_000, CANDIDATES_MAX, 10, false),
            (CANDIDATES_MAX + 1, 1_000, CANDIDATES_MAX, 10, true),
            (CANDIDATES_MAX + 1, 600, CANDIDATES_MAX, 17, true),
            (5_000, 10, 10 * PAGES_MAX, PAGES_MAX, true),
        ] {
            let (found, read) = read(items, page).await;
            assert_eq!((found.rows.len(), read, found.has_more), (rows, reads, has_more), "{items} by {page}");
            assert!(found.rows.iter().copied().eq(0..rows));
            assert_eq!(found.total(rows), Total { items: items as u64, is_estimate: has_more });
        }
    }
}
