//! Lists: rows in the order of creation, and pages over them.
//!
//! What a page costs. A list without a filter, ordered by creation, reads `skip + size` rows from where the token points
//! and takes its total from a counter. Any other list reads all rows of the kind in the organization (small ones: no
//! schema, text or history is among them), filters, sorts where it is by name, and then reads the items of the page only.
//! A page also ends where its items exceed [`PAGE_BYTES`], so that it may hold fewer items than asked for.

use std::ops::ControlFlow;

use folio_types::page::{Order, Page, PageRequest};
use folio_types::{Error, OrgId, Result, Timestamp, limits};

use super::keys::{self, Kind, Space};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::{Count, ListRow, Stored, decode};
pub(crate) use crate::naming::Search;
use crate::page_token;
use crate::planted::Bug;

/// Bytes of stored items from which a page takes no further one.
pub(crate) const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// Writes an item's row and counts it where it is new.
pub(crate) fn put_row(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    kind: Kind,
    created_at: Timestamp,
    row: &ListRow,
) -> Result<()> {
    let key = keys::list_row(org, kind, created_at, &row.id);
    if !transaction.contains(Space::Records, &key)? {
        count(transaction, org, kind, |n| n.saturating_add(1))?;
    }
    transaction.put(Space::Records, key, row)
}

/// Removes an item's row.
pub(crate) fn remove_row(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    kind: Kind,
    created_at: Timestamp,
    id: &str,
) -> Result<()> {
    let key = keys::list_row(org, kind, created_at, id);
    if transaction.contains(Space::Records, &key)? {
        count(transaction, org, kind, |n| n.saturating_sub(1))?;
        transaction.remove(Space::Records, key);
    }
    Ok(())
}

fn count(transaction: &mut Transaction<'_>, org: &OrgId, kind: Kind, change: impl Fn(u64) -> u64) -> Result<()> {
    let key = keys::count(org, kind);
    let Count(before) = transaction.read(Space::Records, &key)?.unwrap_or_default();
    transaction.put(Space::Records, key, &Count(change(before)))
}

/// How many items of a kind an organization has.
pub(crate) fn total(reads: &impl Reads, org: &OrgId, kind: Kind) -> Result<u64> {
    let Count(total) = reads.read(Space::Records, &keys::count(org, kind))?.unwrap_or_default();
    Ok(total)
}

/// One list: where its rows are and which of them belong to it.
pub(crate) struct Listing<'a, R> {
    /// What all keys of its rows begin with.
    pub(crate) prefix: Vec<u8>,
    /// Says apart what this list is from every other one: its filter, in a word.
    pub(crate) filter: String,
    /// How many rows there are, where it has no filter and that is known.
    pub(crate) total: Option<u64>,
    /// Which rows belong to it.
    pub(crate) matches: &'a dyn Fn(&R) -> bool,
    /// The name that it may be ordered by.
    pub(crate) name: &'a dyn Fn(&R) -> &str,
}

/// Where a row stands in its list: its name in lower case (ordered by name only), and its key behind the prefix.
type Position = (String, Vec<u8>);

impl<R: Stored> Listing<'_, R> {
    /// A page. `load` reads an item and says how large it is.
    pub(crate) fn page<T>(
        &self,
        reads: &impl Reads,
        request: &PageRequest,
        mut load: impl FnMut(R) -> Result<(T, usize)>,
    ) -> Result<Page<T>> {
        let after = request.token.as_deref().map(|token| self.position(reads, request.order, token)).transpose()?;
        let size = match request.size {
            0 => limits::PAGE_SIZE_DEFAULT,
            size => size.min(limits::PAGE_SIZE_MAX),
        } as usize;
        let by_name = matches!(request.order, Order::Name | Order::NameDescending);
        let (rows, total) = match self.total {
            Some(total) if !by_name => (self.some_rows(reads, request, after, size)?, total),
            _ => self.all_rows(reads, request, after)?,
        };
        let mut page = Page { items: Vec::new(), next: None, total };
        let (mut bytes, mut last) = (0_usize, None);
        for (position, row) in rows {
            if page.items.len() >= size || bytes >= PAGE_BYTES {
                page.next = last.map(|last| self.token(request.order, &last));
                break;
            }
            let (item, item_bytes) = load(row)?;
            bytes = bytes.saturating_add(item_bytes);
            page.items.push(item);
            last = Some(position);
        }
        Ok(page)
    }

    /// The rows of the page and one more, without reading the rest.
    fn some_rows(
        &self,
        reads: &impl Reads,
        request: &PageRequest,
        after: Option<Position>,
        size: usize,
    ) -> Result<Vec<(Position, R)>> {
        let newest_first = request.order == Order::Newest;
        let mut range = Range::prefix(Space::Records, self.prefix.clone()).reversed(newest_first);
        if let Some((_, suffix)) = after {
            let mut at = self.prefix.clone();
            at.extend_from_slice(&suffix);
            if newest_first {
                range = range.before(at);
            } else {
                at.push(0);
                range = range.from(at);
            }
        }
        let (mut skip, mut rows) = (request.skip, Vec::new());
        reads.walk(range, &mut |key, bytes| {
            if skip > 0 {
                skip -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            rows.push(((String::new(), self.suffix(key)), decode(bytes)?));
            Ok(if rows.len() > size { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(rows)
    }

    /// The rows behind the token, and the total: all rows are read.
    fn all_rows(
        &self,
        reads: &impl Reads,
        request: &PageRequest,
        after: Option<Position>,
    ) -> Result<(Vec<(Position, R)>, u64)> {
        let by_name = matches!(request.order, Order::Name | Order::NameDescending);
        let descending = matches!(request.order, Order::Newest | Order::NameDescending);
        let mut rows: Vec<(Position, R)> = Vec::new();
        reads.walk(Range::prefix(Space::Records, self.prefix.clone()), &mut |key, bytes| {
            let row: R = decode(bytes)?;
            if (self.matches)(&row) {
                let name = if by_name { keys::folded((self.name)(&row)) } else { String::new() };
                rows.push(((name, self.suffix(key)), row));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let total = rows.len() as u64;
        rows.sort_by(|(one, _), (other, _)| if descending { other.cmp(one) } else { one.cmp(other) });
        if let Some(after) = after {
            rows.retain(|(position, _)| if descending { *position < after } else { *position > after });
        }
        let skip = (request.skip as usize).min(rows.len());
        rows.drain(..skip);
        Ok((rows, total))
    }

    fn suffix(&self, key: &[u8]) -> Vec<u8> {
        key.get(self.prefix.len()..).unwrap_or_default().to_vec()
    }

    /// What a token is bound to: the list, its filter and its order.
    fn scope(&self, order: Order) -> [u8; 8] {
        page_token::digest(&[&self.prefix, self.filter.as_bytes(), format!("{order:?}").as_bytes()])
    }

    fn token(&self, order: Order, (name, suffix): &Position) -> String {
        page_token::encode(self.scope(order), name, suffix)
    }

    fn position(&self, reads: &impl Reads, order: Order, token: &str) -> Result<Position> {
        let unchecked = reads.plan().has(Bug::PageTokenUnchecked);
        page_token::decode((!unchecked).then(|| self.scope(order)), token)
    }
}

/// Reads the item of a row and says how large it is.
pub(crate) fn item<S: Stored, T>(
    reads: &impl Reads,
    key: &[u8],
    take: impl FnOnce(S) -> Option<T>,
) -> Result<(T, usize)> {
    let dangling = || Error::internal("a row of a list leads nowhere");
    let bytes = reads.bytes(Space::Records, key)?.ok_or_else(dangling)?;
    let item = take(decode(&bytes)?).ok_or_else(dangling)?;
    Ok((item, bytes.len()))
}
