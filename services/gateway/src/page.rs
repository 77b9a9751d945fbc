//! The parts that every list has: size, token, skip and order.

use std::ops::Range;

use folio_types::page::{Order, Page, PageRequest};
use folio_types::{Digest, Error, Reason, Result, limits};

const TOKEN_BYTES: usize = 2_048;
const SEAL_DIGITS: usize = 16;

/// Bytes of the items of one answer, unless a single item is larger.
const ANSWER_BYTES: usize = 3 * 1024 * 1024;

/// A page as clients see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown<P> {
    /// The items.
    pub(crate) items: Vec<P>,
    /// For the next page; empty: this was the last.
    pub(crate) next_page_token: String,
    /// How many there are.
    pub(crate) total_size: i32,
}

/// What a list may be ordered by beside its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// Nothing.
    Created,
    /// The name, under this word.
    Name(&'static str),
}

/// What a request says of its page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) size: i32,
    pub(crate) token: &'a str,
    pub(crate) skip: i32,
    pub(crate) order_by: &'a str,
}

/// A list that is being asked for: the page for the store, and the seal of its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listing {
    /// The page for the store.
    pub(crate) page: PageRequest,
    seal: String,
}

impl Listing {
    /// Reads the page of a list. `scope` is all that makes it this list and no other: its name, its organization, its
    /// filter; a token counts only where it was given. `most` is the largest page.
    pub(crate) fn read(asked: Asked<'_>, scope: &[&str], by: By, default: Order, most: u32) -> Result<Self> {
        let order = order(asked.order_by, by)?.unwrap_or(default);
        let mut parts = scope.to_vec();
        let order_name = format!("{order:?}");
        parts.push(&order_name);
        let sealed = serde_json::Value::from(parts).to_string();
        let seal: String = Digest::of(sealed.as_bytes()).as_str().chars().take(SEAL_DIGITS).collect();
        let token = match asked.token {
            "" => None,
            token => Some(open(token, &seal)?),
        };
        let page = PageRequest { size: size(asked.size, most)?, token, skip: skip(asked.skip)?, order };
        Ok(Self { page, seal })
    }

    /// The token for the next page, empty where there is none.
    pub(crate) fn next(&self, inner: Option<String>) -> String {
        inner.map(|inner| format!("{}{inner}", self.seal)).unwrap_or_default()
    }

    /// Reads a page and shows it. One whose items are larger than an answer should be is read again with fewer items; one
    /// item always fits.
    pub(crate) async fn fetch<T, P, F>(&self, read: impl Fn(PageRequest) -> F) -> Result<Shown<P>>
    where
        P: prost::Message + for<'a> From<&'a T>,
        F: Future<Output = Result<Page<T>>>,
    {
        let mut asked = self.page.clone();
        loop {
            let page = read(asked.clone()).await?;
            let items: Vec<P> = page.items.iter().map(P::from).collect();
            let bytes: usize = items.iter().map(prost::Message::encoded_len).sum();
            if bytes <= ANSWER_BYTES || items.len() <= 1 {
                return Ok(Shown { items, next_page_token: self.next(page.next), total_size: total(page.total) });
            }
            let fitting = items.len() * ANSWER_BYTES / bytes;
            asked.size = u32::try_from(fitting.clamp(1, items.len() / 2)).unwrap_or(1);
        }
    }

    /// The positions of the page in a list of this many items whose tokens are positions.
    pub(crate) fn positions(&self, total: usize) -> Result<Range<usize>> {
        let from = match &self.page.token {
            Some(token) => token.parse::<usize>().map_err(|_| bad_token())?,
            None => 0,
        };
        let from = from.saturating_add(self.page.skip as usize).min(total);
        Ok(from..from.saturating_add(self.page.size as usize).min(total))
    }

    /// A page of a list that is at hand whole. Its tokens are positions.
    pub(crate) fn slice<T>(&self, items: Vec<T>) -> Result<Page<T>> {
        self.slice_within(items, usize::MAX, |_| 0)
    }

    /// The same, where a page also ends before it has more than `most` bytes (but after one item at least).
    pub(crate) fn slice_within<T>(&self, items: Vec<T>, most: usize, bytes: impl Fn(&T) -> usize) -> Result<Page<T>> {
        let total = items.len();
        let asked = self.positions(total)?;
        let from = asked.start;
        let mut taken = 0usize;
        let fits = |item: &T| {
            let first = taken == 0;
            taken = taken.saturating_add(bytes(item).max(1));
            first || taken <= most
        };
        let items: Vec<T> = items.into_iter().skip(from).take(asked.len()).take_while(fits).collect();
        let end = from.saturating_add(items.len());
        let next = (end < total && !items.is_empty()).then(|| end.to_string());
        Ok(Page { items, next, total: total as u64 })
    }
}

/// `total_size`, as large as its field can be.
pub(crate) fn total(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn size(asked: i32, most: u32) -> Result<u32> {
    match u32::try_from(asked) {
        Ok(0) => Ok(limits::PAGE_SIZE_DEFAULT.min(most)),
        Ok(size) => Ok(size.min(most)),
        Err(_) => Err(Error::invalid_field("page_size", "is negative")),
    }
}

fn skip(asked: i32) -> Result<u32> {
    u32::try_from(asked).map_err(|_| Error::invalid_field("skip", "is negative"))
}

fn order(text: &str, by: By) -> Result<Option<Order>> {
    let mut words = text.split_whitespace();
    let Some(field) = words.next() else { return Ok(None) };
    let descending = match (words.next(), words.next()) {
        (None | Some("asc"), None) => false,
        (Some("desc"), None) => true,
        _ => return Err(Error::invalid_field("order_by", "is a field, and `desc` behind it to turn it round")),
    };
    match (field, by, descending) {
        ("created_at", _, false) => Ok(Some(Order::Oldest)),
        ("created_at", _, true) => Ok(Some(Order::Newest)),
        (field, By::Name(name), false) if field == name => Ok(Some(Order::Name)),
        (field, By::Name(name), true) if field == name => Ok(Some(Order::NameDescending)),
        (_, By::Name(name), _) => Err(Error::invalid_field("order_by", format!("there is created_at and {name}"))),
        (_, By::Created, _) => Err(Error::invalid_field("order_by", "there is created_at")),
    }
}

fn open(token: &str, seal: &str) -> Result<String> {
    match token.strip_prefix(seal) {
        Some(inner) if !inner.is_empty() && token.len() <= TOKEN_BYTES => Ok(inner.to_owned()),
        _ => Err(bad_token()),
    }
}

fn bad_token() -> Error {
    let mut error = Error::invalid_field("page_token", "is malformed, or belongs to another list, filter or order");
    error.reason = Reason::InvalidPageToken;
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(token: &str) -> Asked<'_> {
        Asked { size: 2, token, skip: 0, order_by: "" }
    }

    fn listing(asked: Asked<'_>, scope: &[&str]) -> Result<Listing> {
        Listing::read(asked, scope, By::Name("name"), Order::Newest, 1_000)
    }

    #[test]
    fn pages_of_a_list_at_hand_join_without_gaps() {
        let mut seen = Vec::new();
        let mut token = String::new();
        loop {
            let listing = listing(asked(&token), &["list"]).unwrap();
            let page = listing.slice((0..5).collect()).unwrap();
            assert_eq!(page.total, 5);
            seen.extend(page.items);
            token = listing.next(page.next);
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_token_counts_only_for_its_list_filter_and_order() {
        let first = listing(asked(""), &["tags", "org", "name:a"]).unwrap();
        let token = first.next(Some("7".into()));
        assert_eq!(listing(asked(&token), &["tags", "org", "name:a"]).unwrap().page.token.as_deref(), Some("7"));
        let turned = Asked { order_by: "name", ..asked(&token) };
        let refused = [
            listing(asked(&token), &["tags", "org", "name:b"]),
            listing(asked(&token), &["tags", "other", "name:a"]),
            listing(turned, &["tags", "org", "name:a"]),
            listing(asked("nonsense"), &["tags", "org", "name:a"]),
        ];
        for refused in refused {
            assert_eq!(refused.unwrap_err().reason, Reason::InvalidPageToken);
        }
    }

    #[tokio::test]
    async fn a_page_of_large_items_is_read_again_with_fewer() {
        use folio_proto::v1;
        let items: Vec<folio_types::message::Message> =
            (0..40).map(|n| folio_types::message::Message::User { text: n.to_string().repeat(150_000) }).collect();
        let mut token = String::new();
        let mut seen = 0;
        loop {
            let asked = Asked { size: 1_000, token: &token, skip: 0, order_by: "" };
            let listing = listing(asked, &["list"]).unwrap();
            let shown: Shown<v1::Message> = listing
                .fetch(async |page| {
                    Listing { page, seal: String::new() }.slice(items.iter().collect::<Vec<_>>()).map(|page| Page {
                        items: page.items.into_iter().cloned().collect(),
                        next: page.next,
                        total: page.total,
                    })
                })
                .await
                .unwrap();
            let bytes: usize = shown.items.iter().map(prost::Message::encoded_len).sum();
            assert!(bytes <= ANSWER_BYTES, "{bytes}");
            seen += shown.items.len();
            token = shown.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, 40);
    }

    #[test]
    fn sizes_are_cut_and_nonsense_is_refused() {
        let with = |size, skip, order_by| listing(Asked { size, token: "", skip, order_by }, &[]);
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
