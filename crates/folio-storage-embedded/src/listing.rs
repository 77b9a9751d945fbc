//! Rows of lists in the order of creation, and pages over them.
//!
//! Cost of a page: a list without a filter, ordered by creation, reads `skip + size` rows from the token's position and
//! takes its total from a counter. The same list of the children of one parent counts its rows without decoding them.
//! Any other list reads all rows of the kind in the organization or of the parent (small rows, without schemas, texts or
//! histories), filters and sorts them, and then reads the items of the page only. A page also ends
//! when its items exceed [`PAGE_BYTES`], so that it may have fewer items than requested.

use std::ops::ControlFlow;

use folio_resources::{Condition, ListRow, folded};
use folio_types::page::{Order, Page, PageRequest};
use folio_types::{OrgId, Result, Timestamp};

use super::keys::{self, Space};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::{Count, decode};
use folio_storage::{PAGE_BYTES, page_token};

/// Returns the keys of an item's rows: in the list of its kind, and in the list of its parent if it has one.
fn row_keys(org: &OrgId, kind: &str, created_at: Timestamp, row: &ListRow) -> (Vec<u8>, Option<Vec<u8>>) {
    let of_parent = row.parent.as_deref().map(|parent| keys::list_row(org, kind, Some(parent), created_at, &row.id));
    (keys::list_row(org, kind, None, created_at, &row.id), of_parent)
}

/// Writes an item's rows, and counts the item if they are new.
pub(crate) fn put_row(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    kind: &str,
    created_at: Timestamp,
    row: &ListRow,
) -> Result<()> {
    let (key, of_parent) = row_keys(org, kind, created_at, row);
    if !transaction.contains(Space::Records, &key)? {
        count(transaction, org, kind, |n| n.saturating_add(1))?;
    }
    if let Some(key) = of_parent {
        transaction.put(Space::Records, key, row)?;
    }
    transaction.put(Space::Records, key, row)
}

pub(crate) fn remove_row(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    kind: &str,
    created_at: Timestamp,
    row: &ListRow,
) -> Result<()> {
    let (key, of_parent) = row_keys(org, kind, created_at, row);
    if transaction.contains(Space::Records, &key)? {
        count(transaction, org, kind, |n| n.saturating_sub(1))?;
        transaction.remove(Space::Records, key);
        if let Some(key) = of_parent {
            transaction.remove(Space::Records, key);
        }
    }
    Ok(())
}

fn count(transaction: &mut Transaction<'_>, org: &OrgId, kind: &str, change: impl Fn(u64) -> u64) -> Result<()> {
    let key = keys::count(org, kind);
    let Count(before) = transaction.read(Space::Records, &key)?.unwrap_or_default();
    transaction.put(Space::Records, key, &Count(change(before)))
}

pub(crate) fn total(reads: &impl Reads, org: &OrgId, kind: &str) -> Result<u64> {
    let Count(total) = reads.read(Space::Records, &keys::count(org, kind))?.unwrap_or_default();
    Ok(total)
}

/// Returns the number of rows whose keys have a prefix, without decoding them.
pub(crate) fn count_rows(reads: &impl Reads, prefix: Vec<u8>) -> Result<u64> {
    let mut count = 0_u64;
    reads.walk(Range::prefix(Space::Records, prefix), &mut |_, _| {
        count += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(count)
}

pub(crate) struct Listing<'a> {
    /// The prefix of the keys of the list's rows.
    pub(crate) prefix: Vec<u8>,
    /// Identifies the filter in page tokens.
    pub(crate) filter: String,
    /// The number of rows with the prefix, all of which fulfil the conditions. None: the list has a filter.
    pub(crate) total: Option<u64>,
    /// An item must fulfil all conditions.
    pub(crate) conditions: &'a [Condition],
}

/// The position of a row: its folded name (empty unless the list is ordered by name), and its key after the prefix.
type Position = (String, Vec<u8>);

impl<'a> Listing<'a> {
    /// Returns the list of all items of a kind that fulfil the conditions.
    pub(crate) fn of_kind(reads: &impl Reads, org: &OrgId, kind: &str, conditions: &'a [Condition]) -> Result<Self> {
        let total = conditions.is_empty().then(|| total(reads, org, kind)).transpose()?;
        Ok(Self { prefix: keys::list(org, kind, None), filter: format!("{conditions:?}"), total, conditions })
    }
}

impl Listing<'_> {
    /// `load` reads an item and returns the item with its size in bytes.
    pub(crate) fn page<T>(
        &self,
        reads: &impl Reads,
        request: &PageRequest,
        mut load: impl FnMut(ListRow) -> Result<(T, usize)>,
    ) -> Result<Page<T>> {
        let after = request.token.as_deref().map(|token| self.position(request.order, token)).transpose()?;
        let size = request.effective_size();
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

    /// Returns the rows of the page and the next row. Reads no other rows.
    fn some_rows(
        &self,
        reads: &impl Reads,
        request: &PageRequest,
        after: Option<Position>,
        size: usize,
    ) -> Result<Vec<(Position, ListRow)>> {
        let newest_first = request.order == Order::Newest;
        let mut range = Range::prefix(Space::Records, self.prefix.clone()).reversed(newest_first);
        if let Some((_, suffix)) = after {
            let mut at = self.prefix.clone();
            at.extend_from_slice(&suffix);
            range = if newest_first { range.before(at) } else { range.after(at) };
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

    /// Returns all rows after the token, and the total. Reads all rows of the list.
    fn all_rows(
        &self,
        reads: &impl Reads,
        request: &PageRequest,
        after: Option<Position>,
    ) -> Result<(Vec<(Position, ListRow)>, u64)> {
        let by_name = matches!(request.order, Order::Name | Order::NameDescending);
        let descending = matches!(request.order, Order::Newest | Order::NameDescending);
        let mut rows: Vec<(Position, ListRow)> = Vec::new();
        reads.walk(Range::prefix(Space::Records, self.prefix.clone()), &mut |key, bytes| {
            let row: ListRow = decode(bytes)?;
            if row.matches(self.conditions) {
                let name = if by_name { folded(&row.name) } else { String::new() };
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

    /// Returns a digest of the list, its filter and its order.
    fn scope(&self, order: Order) -> [u8; 8] {
        page_token::digest(&[&self.prefix, self.filter.as_bytes(), format!("{order:?}").as_bytes()])
    }

    fn token(&self, order: Order, (name, suffix): &Position) -> String {
        page_token::encode(self.scope(order), name, suffix)
    }

    fn position(&self, order: Order, token: &str) -> Result<Position> {
        page_token::decode(self.scope(order), token)
    }
}
