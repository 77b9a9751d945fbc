//! The conventions of every list: page size, page token, skip, order, count, and the maximum size of a response.

use std::cmp::Reverse;
use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use folio_types::page::{Order, Page, PageRequest};
use folio_types::{Digest, Error, Reason, Result, Timestamp, limits};
use serde::Serialize;

use crate::grid::{Grid, grid_of_order};

// proto: none "a page token is opaque"
const TOKEN_BYTES: usize = 2_048;
const SCOPE_DIGEST_DIGITS: usize = 16;

/// Maximum page size of the lists with large items: schemas, prompts, their revisions, extractions, jobs,
/// deliveries, questions and links.
// proto: ListSchemasRequest.page_size "per page, at most {}."
// proto: ListSchemaRevisionsRequest.page_size "per page, at most {}."
// proto: ListPromptsRequest.page_size "per page, at most {}."
// proto: ListPromptRevisionsRequest.page_size "per page, at most {}."
// proto: ListExtractionsRequest.page_size "per page, at most {}."
// proto: ListJobsRequest.page_size "per page, at most {}."
// proto: ListJobItemsRequest.page_size "per page, at most {}."
// proto: ListFieldHistoryRequest.page_size "per page, at most {}."
// proto: ListInboxItemsRequest.page_size "per page, at most {}."
// proto: ListWebhookDeliveriesRequest.page_size "per page, at most {}."
// proto: ListProposalsRequest.page_size "per page, at most {}."
// proto: ListDictionaryQuestionsRequest.page_size "per page, at most {}."
// proto: ListDocumentLinksRequest.page_size "per page, at most {}."
// proto: ListLinkingDocumentsRequest.page_size "per page, at most {}."
// proto: ListMissingLinksRequest.page_size "per page, at most {}."
// proto: ListStacksRequest.page_size "per page, at most {}."
// proto: ListStackRowsRequest.page_size "per page, at most {}."
pub(crate) const LARGE_PAGE_MAX: u32 = 100;

/// Maximum size of the items of one page as JSON, unless a single item is larger.
// proto: none "internal; the page stays below the 4 MiB of docs/api.md"
pub(crate) const PAGE_BYTES: usize = 3 * 1024 * 1024;

/// Maximum number of matching items that [`Listing::scan`] counts. A larger number is returned as this plus one.
// proto: *.total_size "exact up to {}."
// proto: *.total_size_estimated "more than {}"
pub(crate) const COUNT_MAX: u64 = 1_024;
/// Maximum number of reads of [`Listing::scan`] for one page.
// proto: none "bounds the work of a page"
const READS_MAX: usize = 20;

/// A request for a page of a list. Default: the first page of 50 items in the list's default order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ListRequest {
    /// Items per page. 0: 50. A size above the list's maximum is reduced to it.
    pub page_size: i32,
    /// `next_page_token` of the previous page. Empty: the first page.
    pub page_token: String,
    /// Number of items to skip before the page.
    pub skip: i32,
    /// See [`crate::filter`].
    pub filter: String,
    /// A field, optionally followed by `desc`. Empty: the default order.
    pub order_by: String,
    /// Sorts and filters the list in memory. None: the list has the order `order_by`. Only some lists have a grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<Grid>,
}

impl ListRequest {
    /// Returns the grid of the request, or the grid with its order.
    ///
    /// # Errors
    /// `INVALID_FIELD` of `order_by`.
    pub(crate) fn grid_or_order(&self) -> Result<Grid> {
        let order = order(&self.order_by, SortKeys::CreateTimeAndName)?;
        match (&self.grid, order) {
            (Some(_), Some(_)) => Err(Error::invalid_field("order_by", "must be empty if the request has a grid")),
            (Some(grid), None) => Ok(grid.clone()),
            (None, order) => Ok(Grid { sort: grid_of_order(order.unwrap_or(Order::Newest)), ..Grid::default() }),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    /// Token of the next page. Empty: this is the last page.
    pub next_page_token: String,
    /// Number of matching items. Each list states up to which number it is exact.
    pub total_size: u64,
    /// True if `total_size` is an estimate.
    pub is_total_estimate: bool,
}

impl<T> Default for ListPage<T> {
    fn default() -> Self {
        Self { items: Vec::new(), next_page_token: String::new(), total_size: 0, is_total_estimate: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortKeys {
    CreateTime,
    Name,
    CreateTimeAndName,
    /// The keys `create_time`, `title` and `update_time`. No index has the order by `update_time`, which [`is_by_update`] detects.
    CreateTimeAndTitle,
    /// This field, ascending only.
    Ascending(&'static str),
}

/// A period of time.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Period {
    /// The start, inclusive. None: the operation's default.
    pub start_time: Option<Timestamp>,
    /// The end, exclusive. None: the operation's default.
    pub end_time: Option<Timestamp>,
}

impl Period {
    /// Returns start and end. `start` computes the default start from the end. Error: `INVALID_FIELD` if the start is
    /// after the end.
    pub(crate) fn bounds(
        self,
        start: impl Fn(Timestamp) -> Timestamp,
        end: Timestamp,
    ) -> Result<(Timestamp, Timestamp)> {
        let end = self.end_time.unwrap_or(end);
        let start = self.start_time.unwrap_or_else(|| start(end));
        if start > end {
            return Err(Error::invalid_field("start_time", "must not be after end_time"));
        }
        Ok((start, end))
    }
}

#[derive(Debug)]
pub(crate) struct ScanRead<P> {
    /// The position of the entry before the read. None: the start of the list.
    pub(crate) after: Option<P>,
    /// Maximum number of entries. The list has ended if a read returns fewer.
    pub(crate) limit: usize,
    /// True if the page is complete, so that the remaining entries are only counted.
    pub(crate) is_page_complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub page: PageRequest,
    /// A prefix of every page token of this list, organization, filter and order.
    scope_digest: String,
    has_filter: bool,
}

impl Listing {
    /// Validates a request. `scope` identifies the list (its name, its parent, its organization): a page token of
    /// another scope, filter or order is refused. `max` bounds the page size.
    ///
    /// # Errors
    /// `INVALID_FIELD` of the page size, skip or order; `INVALID_PAGE_TOKEN`.
    pub fn new(request: &ListRequest, scope: &[&str], keys: SortKeys, default: Order, max: u32) -> Result<Self> {
        let order = order(&request.order_by, keys)?.unwrap_or(default);
        let order_name = format!("{order:?}");
        let parts: Vec<&str> = scope.iter().copied().chain([request.filter.as_str(), &order_name]).collect();
        let scope_json = serde_json::Value::from(parts).to_string();
        let scope_digest: String =
            Digest::of(scope_json.as_bytes()).as_str().chars().take(SCOPE_DIGEST_DIGITS).collect();
        let token = match request.page_token.as_str() {
            "" => None,
            token => Some(open_token(token, &scope_digest)?),
        };
        let page = PageRequest { size: size(request.page_size, max)?, token, skip: skip(request.skip)?, order };
        Ok(Self { page, scope_digest, has_filter: !request.filter.trim().is_empty() })
    }

    /// Reads a page. A page that exceeds the maximum size of a response is read again with fewer items; a single item
    /// always fits.
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
                return Ok(self.with_token(page));
            }
            let fitting = count * PAGE_BYTES / bytes;
            request.size = u32::try_from(fitting.clamp(1, count / 2)).unwrap_or(1);
        }
    }

    /// Reads a page of a list that the store reads by position and does not count. `read` returns entries in order,
    /// each with its position and, if it matches the filter, the item; a read has at most `read_max` entries.
    ///
    /// `total`: the number of matching items. None: the first page counts them, within [`READS_MAX`] reads. The tokens of
    /// the other pages carry the number. If a page exhausts its reads, it has fewer items, or none, although another page follows.
    ///
    /// # Errors
    /// `INVALID_PAGE_TOKEN`, and the errors of `read`.
    pub(crate) async fn scan<P, T, F>(
        &self,
        read_max: usize,
        total: Option<u64>,
        read: impl Fn(ScanRead<P>) -> F + Send,
    ) -> Result<ListPage<T>>
    where
        P: Clone + FromStr + Display + Send,
        T: Serialize + Send,
        F: Future<Output = Result<Vec<(P, Option<T>)>>> + Send,
    {
        let (counted, mut after) = match &self.page.token {
            None => (total, None),
            Some(token) => {
                let (total, position) = token.split_once(' ').ok_or_else(bad_token)?;
                let total: u64 = total.parse().map_err(|_| bad_token())?;
                (Some(total), Some(position.parse::<P>().map_err(|_| bad_token())?))
            }
        };
        let (size, skip) = (self.page.size as usize, u64::from(self.page.skip));
        let (mut items, mut bytes, mut matching) = (Vec::new(), 0usize, 0u64);
        // The position of the last item of a complete page, and whether another item follows.
        let (mut end, mut is_followed, mut is_exhausted) = (None, false, true);
        for reads in 0..READS_MAX {
            let is_first = reads == 0 && counted.is_some();
            let limit = if is_first { size.saturating_add(skip as usize).saturating_add(1) } else { read_max };
            let limit = limit.min(read_max);
            let entries = read(ScanRead { after: after.clone(), limit, is_page_complete: end.is_some() }).await?;
            let is_last = entries.len() < limit;
            for (position, item) in entries {
                if let Some(item) = item {
                    matching = matching.saturating_add(1);
                    let grown = bytes.saturating_add(json_bytes(&item));
                    if end.is_some() || (grown > PAGE_BYTES && !items.is_empty()) {
                        (end, is_followed) = (end.or(after.clone()), true);
                    } else if matching > skip {
                        bytes = grown;
                        items.push(item);
                        end = (items.len() == size).then(|| position.clone());
                    }
                }
                after = Some(position);
            }
            if is_last || (is_followed && (counted.is_some() || matching > COUNT_MAX)) {
                is_exhausted = false;
                break;
            }
        }
        let total = counted.unwrap_or(if is_exhausted { COUNT_MAX + 1 } else { matching.min(COUNT_MAX + 1) });
        let next = if is_followed || is_exhausted { end.or(after) } else { None };
        let next = next.map(|position| format!("{total} {position}"));
        Ok(self.with_token(Page { items, next, total }))
    }

    /// Adds the scope digest of this list to the page token.
    pub fn with_token<T>(&self, page: Page<T>) -> ListPage<T> {
        ListPage {
            items: page.items,
            next_page_token: self.page_token(page.next),
            total_size: page.total,
            // A store that does not count the items of a filter returns this number for many.
            is_total_estimate: self.has_filter && page.total == COUNT_MAX + 1,
        }
    }

    /// Returns a page of a list that is in memory. Its tokens are positions. Error: `INVALID_PAGE_TOKEN`.
    pub fn slice<T>(&self, items: Vec<T>) -> Result<ListPage<T>> {
        let total = items.len();
        let positions = self.positions(total)?;
        let items = items.into_iter().skip(positions.start).take(positions.len());
        Ok(self.page_at(positions.start, items, total, usize::MAX, |_| 0))
    }

    /// Returns a page of the list items from a position on. The page ends at `max` bytes, but has at least one item.
    pub(crate) fn page_at<T>(
        &self,
        from: usize,
        items: impl IntoIterator<Item = T>,
        total: usize,
        max: usize,
        bytes: impl Fn(&T) -> usize,
    ) -> ListPage<T> {
        let mut used_bytes = 0usize;
        let fits = |item: &T| {
            let is_first = used_bytes == 0;
            used_bytes = used_bytes.saturating_add(bytes(item).max(1));
            is_first || used_bytes <= max
        };
        let items: Vec<T> = items.into_iter().take_while(fits).collect();
        let end = from.saturating_add(items.len());
        let next = (end < total && !items.is_empty()).then(|| end.to_string());
        self.with_token(Page { items, next, total: total as u64 })
    }

    /// Sorts a list in memory by name, ignoring case, if the request orders it by name.
    pub(crate) fn sort_by_name<T>(&self, items: &mut [T], name: impl Fn(&T) -> &str) {
        match self.page.order {
            Order::Name => items.sort_by_key(|item| name(item).to_lowercase()),
            Order::NameDescending => items.sort_by_key(|item| Reverse(name(item).to_lowercase())),
            Order::Newest | Order::Oldest => {}
        }
    }

    /// Returns the positions of the page in a list of `total` items whose tokens are positions. Error:
    /// `INVALID_PAGE_TOKEN`.
    pub fn positions(&self, total: usize) -> Result<Range<usize>> {
        let from = match &self.page.token {
            Some(token) => token.parse::<usize>().map_err(|_| bad_token())?,
            None => 0,
        };
        let from = from.saturating_add(self.page.skip as usize).min(total);
        Ok(from..from.saturating_add(self.page.size as usize).min(total))
    }

    /// Returns the page token for a position of the store. None: the empty token.
    pub fn page_token(&self, inner: Option<String>) -> String {
        inner.map(|inner| format!("{}{inner}", self.scope_digest)).unwrap_or_default()
    }
}

pub(crate) fn json_bytes<T: Serialize>(item: &T) -> usize {
    folio_types::json::size(item).unwrap_or(PAGE_BYTES)
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
    let (has_time, name) = match keys {
        SortKeys::CreateTime => (true, None),
        SortKeys::Name => (false, Some("name")),
        SortKeys::CreateTimeAndName => (true, Some("name")),
        SortKeys::CreateTimeAndTitle => (true, Some("title")),
        SortKeys::Ascending(only) if field == only && !descending => return Ok(Some(Order::Oldest)),
        SortKeys::Ascending(only) => {
            return Err(Error::invalid_field("order_by", format!("the only order is {only}, ascending")));
        }
    };
    match (field, descending) {
        ("create_time", false) if has_time => Ok(Some(Order::Oldest)),
        ("create_time", true) if has_time => Ok(Some(Order::Newest)),
        (field, false) if Some(field) == name => Ok(Some(Order::Name)),
        (field, true) if Some(field) == name => Ok(Some(Order::NameDescending)),
        _ => {
            let update_time = (keys == SortKeys::CreateTimeAndTitle).then_some("update_time");
            let fields: Vec<&str> =
                has_time.then_some("create_time").into_iter().chain(name).chain(update_time).collect();
            Err(Error::invalid_field("order_by", format!("the fields are {}", fields.join(" and "))))
        }
    }
}

/// Returns whether an order by the time of the last update is descending. None: the text is another order.
pub(crate) fn is_by_update(text: &str) -> Option<bool> {
    match text.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["update_time"] | ["update_time", "asc"] => Some(false),
        ["update_time", "desc"] => Some(true),
        _ => None,
    }
}

fn open_token(token: &str, scope_digest: &str) -> Result<String> {
    match token.strip_prefix(scope_digest) {
        Some(inner) if !inner.is_empty() && token.len() <= TOKEN_BYTES => Ok(inner.to_owned()),
        _ => Err(bad_token()),
    }
}

/// Returns the error of a page token that is malformed, or belongs to another list.
pub(crate) fn bad_token() -> Error {
    Error::invalid_field("page_token", "is malformed, or belongs to another list, filter or order")
        .with_reason(Reason::InvalidPageToken)
}

#[cfg(test)]
mod tests;
