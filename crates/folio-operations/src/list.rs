//! The conventions that every list shares: page size, page token, skip, order, and the bound of an answer.

use std::ops::Range;

use folio_types::page::{Order, Page, PageRequest};
use folio_types::{Digest, Error, Reason, Result, limits};
use serde::Serialize;

const TOKEN_BYTES: usize = 2_048;
const SEAL_DIGITS: usize = 16;

/// Largest page of the lists whose items may be large: schemas, prompts, their revisions and extractions.
pub(crate) const LARGE_PAGE_MAX: u32 = 100;

/// Bytes of the items of one page as JSON, unless a single item is larger.
const PAGE_BYTES: usize = 3 * 1024 * 1024;

/// The page of a list that a request asks for. Default: the first page of 50 items in the list's default order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ListRequest {
    /// Items per page. 0: 50. A size above the list's maximum is reduced to it.
    pub page_size: i32,
    /// `next_page_token` of the previous page. Empty: the first page.
    pub page_token: String,
    /// Items to skip before the page.
    pub skip: i32,
    /// The filter; see [`crate::filter`].
    pub filter: String,
    /// A field, optionally followed by `desc`. Empty: the default order.
    pub order_by: String,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListPage<T> {
    /// The items.
    pub items: Vec<T>,
    /// The token of the next page. Empty: this is the last page.
    pub next_page_token: String,
    /// The number of matching items; a list states the bound up to which it is exact.
    pub total_size: u64,
}

/// The fields that a list can be ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortKeys {
    /// `create_time`.
    CreateTime,
    /// `name`.
    Name,
    /// `create_time` and `name`.
    CreateTimeAndName,
}

/// A validated request for a page of one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The page for the store.
    pub page: PageRequest,
    /// A prefix of every page token of this list, organization, filter and order.
    seal: String,
}

impl Listing {
    /// Validates a request. `scope` identifies the list (its name, its parent, its organization): a page token of another scope,
    /// filter or order is refused. `max` is the largest page.
    ///
    /// # Errors
    /// `INVALID_FIELD` of the page size, skip or order; `INVALID_PAGE_TOKEN`.
    pub fn new(request: &ListRequest, scope: &[&str], keys: SortKeys, default: Order, max: u32) -> Result<Self> {
        let order = order(&request.order_by, keys)?.unwrap_or(default);
        let order_name = format!("{order:?}");
        let parts: Vec<&str> = scope.iter().copied().chain([request.filter.as_str(), &order_name]).collect();
        let sealed = serde_json::Value::from(parts).to_string();
        let seal: String = Digest::of(sealed.as_bytes()).as_str().chars().take(SEAL_DIGITS).collect();
        let token = match request.page_token.as_str() {
            "" => None,
            token => Some(unseal(token, &seal)?),
        };
        let page = PageRequest { size: size(request.page_size, max)?, token, skip: skip(request.skip)?, order };
        Ok(Self { page, seal })
    }

    /// Reads a page. A page whose items are larger than an answer may be is read again with fewer items; a single item always fits.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn fetch<T, F>(&self, read: impl Fn(PageRequest) -> F + Send) -> Result<ListPage<T>>
    where
        T: Serialize + Send,
        F: Future<Output = Result<Page<T>>> + Send,
    {
        let mut request = self.page.clone();
        loop {
            let page = read(request.clone()).await?;
            let count = page.items.len();
            let bytes: usize = page.items.iter().map(json_bytes).sum();
            if bytes <= PAGE_BYTES || count <= 1 {
                return Ok(self.sealed(page));
            }
            let fitting = count * PAGE_BYTES / bytes;
            request.size = u32::try_from(fitting.clamp(1, count / 2)).unwrap_or(1);
        }
    }

    /// A page whose token carries the seal of this list.
    pub fn sealed<T>(&self, page: Page<T>) -> ListPage<T> {
        ListPage { items: page.items, next_page_token: self.seal_token(page.next), total_size: page.total }
    }

    /// A page of a list that is in memory. Its tokens are positions.
    ///
    /// # Errors
    /// `INVALID_PAGE_TOKEN`.
    pub fn slice<T>(&self, items: Vec<T>) -> Result<ListPage<T>> {
        self.slice_within(items, usize::MAX, |_| 0)
    }

    /// The same as [`Listing::slice`], for a page of at most `max` bytes and at least one item.
    ///
    /// # Errors
    /// `INVALID_PAGE_TOKEN`.
    pub fn slice_within<T>(&self, items: Vec<T>, max: usize, bytes: impl Fn(&T) -> usize) -> Result<ListPage<T>> {
        let total = items.len();
        let positions = self.positions(total)?;
        let from = positions.start;
        let mut taken = 0usize;
        let fits = |item: &T| {
            let is_first = taken == 0;
            taken = taken.saturating_add(bytes(item).max(1));
            is_first || taken <= max
        };
        let items: Vec<T> = items.into_iter().skip(from).take(positions.len()).take_while(fits).collect();
        let end = from.saturating_add(items.len());
        let next = (end < total && !items.is_empty()).then(|| end.to_string());
        Ok(self.sealed(Page { items, next, total: total as u64 }))
    }

    /// The positions of the page in a list of `total` items whose tokens are positions.
    ///
    /// # Errors
    /// `INVALID_PAGE_TOKEN`.
    pub fn positions(&self, total: usize) -> Result<Range<usize>> {
        let from = match &self.page.token {
            Some(token) => token.parse::<usize>().map_err(|_| bad_token())?,
            None => 0,
        };
        let from = from.saturating_add(self.page.skip as usize).min(total);
        Ok(from..from.saturating_add(self.page.size as usize).min(total))
    }

    /// The page token for a position of the store. None becomes the empty token.
    pub fn seal_token(&self, inner: Option<String>) -> String {
        inner.map(|inner| format!("{}{inner}", self.seal)).unwrap_or_default()
    }
}

fn json_bytes<T: Serialize>(item: &T) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, item) {
        Ok(()) => counter.0,
        Err(_) => PAGE_BYTES,
    }
}

fn size(requested: i32, max: u32) -> Result<u32> {
    match u32::try_from(requested) {
        Ok(0) => Ok(limits::PAGE_SIZE_DEFAULT.min(max)),
        Ok(size) => Ok(size.min(max)),
        Err(_) => Err(Error::invalid_field("page_size", "must not be negative")),
    }
}

fn skip(requested: i32) -> Result<u32> {
    u32::try_from(requested).map_err(|_| Error::invalid_field("skip", "must not be negative"))
}

fn order(text: &str, keys: SortKeys) -> Result<Option<Order>> {
    let mut words = text.split_whitespace();
    let Some(field) = words.next() else { return Ok(None) };
    let descending = match (words.next(), words.next()) {
        (None | Some("asc"), None) => false,
        (Some("desc"), None) => true,
        _ => return Err(Error::invalid_field("order_by", "must be a field, optionally followed by `desc`")),
    };
    match (field, keys, descending) {
        ("create_time", SortKeys::CreateTime | SortKeys::CreateTimeAndName, false) => Ok(Some(Order::Oldest)),
        ("create_time", SortKeys::CreateTime | SortKeys::CreateTimeAndName, true) => Ok(Some(Order::Newest)),
        ("name", SortKeys::Name | SortKeys::CreateTimeAndName, false) => Ok(Some(Order::Name)),
        ("name", SortKeys::Name | SortKeys::CreateTimeAndName, true) => Ok(Some(Order::NameDescending)),
        (_, SortKeys::CreateTimeAndName, _) => {
            Err(Error::invalid_field("order_by", "the fields are create_time and name"))
        }
        (_, SortKeys::Name, _) => Err(Error::invalid_field("order_by", "the field is name")),
        (_, SortKeys::CreateTime, _) => Err(Error::invalid_field("order_by", "the field is create_time")),
    }
}

fn unseal(token: &str, seal: &str) -> Result<String> {
    match token.strip_prefix(seal) {
        Some(inner) if !inner.is_empty() && token.len() <= TOKEN_BYTES => Ok(inner.to_owned()),
        _ => Err(bad_token()),
    }
}

fn bad_token() -> Error {
    Error::invalid_field("page_token", "is malformed, or belongs to another list, filter or order")
        .because(Reason::InvalidPageToken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(token: &str) -> ListRequest {
        ListRequest { page_size: 2, page_token: token.to_owned(), ..ListRequest::default() }
    }

    fn listing(request: &ListRequest, scope: &[&str]) -> Result<Listing> {
        Listing::new(request, scope, SortKeys::CreateTimeAndName, Order::Newest, 1_000)
    }

    #[test]
    fn pages_of_a_list_in_memory_join_without_gaps() {
        let mut seen = Vec::new();
        let mut token = String::new();
        loop {
            let page = listing(&request(&token), &["list"]).unwrap().slice((0..5).collect()).unwrap();
            assert_eq!(page.total_size, 5);
            seen.extend(page.items);
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_token_is_valid_only_for_its_list_filter_and_order() {
        let filtered = |token: &str, filter: &str| ListRequest { filter: filter.to_owned(), ..request(token) };
        let first = listing(&filtered("", "name:a"), &["tags", "org"]).unwrap();
        let token = first.seal_token(Some("7".into()));
        let same = listing(&filtered(&token, "name:a"), &["tags", "org"]).unwrap();
        assert_eq!(same.page.token.as_deref(), Some("7"));
        let reordered = ListRequest { order_by: "name".to_owned(), ..filtered(&token, "name:a") };
        let refused = [
            listing(&filtered(&token, "name:b"), &["tags", "org"]),
            listing(&filtered(&token, "name:a"), &["tags", "other"]),
            listing(&reordered, &["tags", "org"]),
            listing(&filtered("nonsense", "name:a"), &["tags", "org"]),
        ];
        for refused in refused {
            assert_eq!(refused.unwrap_err().reason, Reason::InvalidPageToken);
        }
    }

    #[tokio::test]
    async fn a_page_of_large_items_is_read_again_with_fewer() {
        let items: Vec<String> = (0..40).map(|n: i32| n.to_string().repeat(150_000)).collect();
        let mut token = String::new();
        let mut seen = 0;
        loop {
            let large = ListRequest { page_size: 1_000, page_token: token, ..ListRequest::default() };
            let page =
                listing(&large, &["list"]).unwrap().fetch(async |page| slice(page, items.clone())).await.unwrap();
            let bytes: usize = page.items.iter().map(String::len).sum();
            assert!(bytes <= PAGE_BYTES, "{bytes}");
            seen += page.items.len();
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, 40);
    }

    fn slice(page: PageRequest, items: Vec<String>) -> Result<Page<String>> {
        let page = Listing { page, seal: String::new() }.slice(items)?;
        let next = Some(page.next_page_token).filter(|token| !token.is_empty());
        Ok(Page { items: page.items, next, total: page.total_size })
    }

    #[test]
    fn sizes_are_reduced_and_invalid_requests_refused() {
        let with = |page_size, skip, order_by: &str| {
            let order_by = order_by.to_owned();
            listing(&ListRequest { page_size, skip, order_by, ..ListRequest::default() }, &[])
        };
        assert_eq!(with(0, 0, "").unwrap().page.size, limits::PAGE_SIZE_DEFAULT);
        assert_eq!(with(5_000, 0, "").unwrap().page.size, 1_000);
        assert_eq!(with(0, 3, "name desc").unwrap().page.order, Order::NameDescending);
        for (size, skip, order) in
            [(-1, 0, ""), (0, -1, ""), (0, 0, "color"), (0, 0, "name down"), (0, 0, "name asc x")]
        {
            assert!(with(size, skip, order).is_err(), "{size} {skip} {order}");
        }
    }
}
