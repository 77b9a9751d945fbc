//! Pages of lists.
//!
//! Cost of a page: rows are read in the order of creation, or under the term `name` in the order of names, a few from
//! each shard at a time.
//!
//! - No filter, or one filter that is a term (a tag, a user): the rows of the page, the skipped rows, and one read for
//!   each item. The server counts the total; a count over [`CACHED_COUNT_MIN`] rows is cached for [`COUNT_SECONDS`].
//! - Any other filter: at most twice [`COUNTED_ITEMS_MAX`] rows of each term are read. If a term has no more rows, they
//!   are filtered, ordered and counted in memory, and the total is exact. If every term has more rows, matches are
//!   frequent: the list is scanned in its order and filtered. After [`SCANNED_MAX`] rows the page ends early, and its
//!   token continues at that position. The total of such a list is exact only if one page scans all of it; otherwise
//!   the total is [`COUNTED_ITEMS_MAX`] + 1, which stands for many.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use folio_resources::{Condition, ListRow, folded, term};
use folio_types::page::{Order, Page, PageRequest};
use folio_types::{Error, OrgId, Result};
use futures::future::BoxFuture;
use futures::stream::{StreamExt as _, TryStreamExt as _};

use super::rows::{ALL, NAME, all, lookups};
use super::{FIRST, last, value_of};
use crate::keyspace::Keyspace;
use crate::table::{Position, SHARDS};
use folio_storage::{PAGE_BYTES, page_token};

/// Maximum number of items of a filtered list that is counted exactly.
const COUNTED_ITEMS_MAX: usize = 1_024;
/// Maximum number of rows that a page of a filtered list reads.
const SCANNED_MAX: usize = 4_096;
/// Larger counts are cached.
const CACHED_COUNT_MIN: u64 = 5_000;
const COUNT_SECONDS: u64 = 10;
const CACHED_COUNTS_MAX: usize = 1_024;
/// Maximum number of items that are read concurrently.
const LOAD_CONCURRENCY: usize = 16;

/// The rows of a term whose sort keys begin with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lookup {
    pub(crate) term: String,
    pub(crate) prefix: String,
}

pub(crate) struct Query<'a> {
    /// The name of a kind: [`folio_resources::Kind::name`].
    pub(crate) kind: &'a str,
    /// The lookup of all rows without a filter. None: all items of the kind.
    pub(crate) base: Option<Lookup>,
    /// An item must match at least one lookup of each filter.
    pub(crate) filters: Vec<Vec<Lookup>>,
    /// Identifies the filter in page tokens.
    pub(crate) filter_key: String,
    /// All conditions, which each item must fulfil.
    pub(crate) conditions: &'a [Condition],
}

impl<'a> Query<'a> {
    /// Returns the query for a kind, or for the children of a parent. If children are listed under conditions, the
    /// first condition must be a term under the parent.
    pub(crate) fn new(kind: &'a str, parent: Option<&str>, conditions: &'a [Condition], filter_key: String) -> Self {
        let mut filters: Vec<Vec<Lookup>> = conditions.iter().map(lookups).collect();
        let base = parent.map(|parent| match filters.first().map(Vec::as_slice) {
            Some([only]) => only.clone(),
            _ => all(&term("of", parent)),
        });
        if base.is_some() && !filters.is_empty() {
            filters.remove(0);
        }
        Self { kind, base, filters, filter_key, conditions }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CatalogueRow {
    pub(crate) position: Position,
    pub(crate) row: ListRow,
}

/// The rows of a page, before their items are read.
struct PageRows {
    found: Vec<CatalogueRow>,
    /// The last position that was read, and the number of items still to be skipped. None: the page did not end early.
    next_position: Option<(Position, u32)>,
    total: u64,
}

/// `load` reads an item and returns the item with its size in bytes, or None for a dangling row.
pub(crate) async fn page<'a, T: Send>(
    keyspace: &'a Keyspace,
    org: &'a OrgId,
    query: &Query<'_>,
    request: &PageRequest,
    load: impl Fn(CatalogueRow) -> BoxFuture<'a, Result<Option<(T, usize)>>> + Send + Sync,
) -> Result<Page<T>> {
    let selected = select(keyspace, org, query, request).await?;
    let mut page = Page { items: Vec::new(), next: None, total: selected.total };
    let positions: Vec<Position> = selected.found.iter().map(|found| found.position.clone()).collect();
    let mut loads = futures::stream::iter(selected.found).map(load).buffered(LOAD_CONCURRENCY);
    let (mut bytes, mut next_position) = (0_usize, selected.next_position);
    for position in &positions {
        let Some(item) = loads.next().await else { break };
        if let Some((item, size)) = item? {
            bytes = bytes.saturating_add(size);
            page.items.push(item);
        }
        if bytes >= PAGE_BYTES && Some(position) != positions.last() {
            next_position = Some((position.clone(), 0));
            break;
        }
    }
    page.next = next_position.map(|(position, skip)| token(org, query, request.order, &position, skip));
    Ok(page)
}

async fn select(keyspace: &Keyspace, org: &OrgId, query: &Query<'_>, request: &PageRequest) -> Result<PageRows> {
    let (after, remaining_skip) = match &request.token {
        Some(token) => {
            let (position, skip) = position(org, query, request.order, token)?;
            (Some(position), skip)
        }
        None => (None, 0),
    };
    let skip = request.skip.saturating_add(remaining_skip);
    let size = request.effective_size();
    let by_name = matches!(request.order, Order::Name | Order::NameDescending) && query.base.is_none();
    let backward = matches!(request.order, Order::Newest | Order::NameDescending);
    let single = match query.filters.as_slice() {
        [] => Some(query.base.clone().unwrap_or_else(|| all(ALL))),
        [only] => match only.as_slice() {
            [lookup] if lookup.prefix.is_empty() => Some(lookup.clone()),
            _ => None,
        },
        _ => None,
    };
    let selector = PageSelector { keyspace, org, query, backward, after, skip, size };
    if !query.filters.is_empty() && (single.is_none() || by_name) {
        let probes = query.filters.iter().map(|lookups| read_if_small(keyspace, org, query, lookups));
        let probes = futures::future::try_join_all(probes).await?;
        if let Some(rows) = probes.into_iter().flatten().min_by_key(Vec::len) {
            return Ok(selector.select_in_memory(rows, by_name));
        }
    }
    let total = match &single {
        Some(lookup) => count(keyspace, org, query.kind, lookup).await?,
        None => COUNTED_ITEMS_MAX as u64 + 1,
    };
    let lookup = match single {
        _ if by_name => all(NAME),
        Some(lookup) => lookup,
        None => query.base.clone().unwrap_or_else(|| all(ALL)),
    };
    selector.select_by_scan(&lookup.term, total).await
}

/// Returns all rows of the lookups. None: the lookups have too many rows.
async fn read_if_small(
    keyspace: &Keyspace,
    org: &OrgId,
    query: &Query<'_>,
    lookups: &[Lookup],
) -> Result<Option<Vec<CatalogueRow>>> {
    // Ids are hashed to shards, so no shard of a list that is counted exactly has twice the mean number of rows.
    let per_shard = 2 * COUNTED_ITEMS_MAX / SHARDS.unsigned_abs() as usize;
    let mut stored = Vec::new();
    for lookup in lookups {
        let from = Position { sort_key: lookup.prefix.clone(), at: i64::MIN, id: String::new() };
        let to = Position { sort_key: format!("{}{}", lookup.prefix, char::MAX), at: i64::MAX, id: String::new() };
        let list = (org, query.kind, lookup.term.as_str());
        let ranges = (0..SHARDS).map(|shard| {
            let catalogue = &keyspace.tables.catalogue;
            catalogue.range(list, shard, (&from, &to), (false, per_shard + 1))
        });
        for rows in futures::future::try_join_all(ranges).await? {
            if rows.len() > per_shard {
                return Ok(None);
            }
            stored.extend(rows);
        }
    }
    let read = |(position, value): (Position, Vec<u8>)| async move {
        let row = value_of(keyspace, (org, query.kind), &position, &value).await?;
        Ok::<_, Error>(row.map(|row| CatalogueRow { position, row }))
    };
    let found: Vec<_> = futures::stream::iter(stored).map(read).buffered(LOAD_CONCURRENCY).try_collect().await?;
    Ok(Some(found.into_iter().flatten().collect()))
}

struct PageSelector<'a, 'q> {
    keyspace: &'a Keyspace,
    org: &'a OrgId,
    query: &'a Query<'q>,
    backward: bool,
    after: Option<Position>,
    skip: u32,
    size: usize,
}

impl PageSelector<'_, '_> {
    fn is_after_token(&self, position: &Position) -> bool {
        self.after.as_ref().is_none_or(|after| if self.backward { position < after } else { position > after })
    }

    /// Selects the page from all rows of a filter, in memory.
    fn select_in_memory(&self, rows: Vec<CatalogueRow>, by_name: bool) -> PageRows {
        let mut items = BTreeMap::new();
        for CatalogueRow { position, row } in rows {
            if row.matches(self.query.conditions) {
                let sort_key = if by_name { folded(&row.name) } else { String::new() };
                items.insert(Position { sort_key, ..position }, row);
            }
        }
        let total = items.len() as u64;
        let mut found: Vec<_> = items
            .into_iter()
            .filter(|(position, _)| self.is_after_token(position))
            .map(|(position, row)| CatalogueRow { position, row })
            .collect();
        if self.backward {
            found.reverse();
        }
        let mut found: Vec<_> = found.into_iter().skip(self.skip as usize).take(self.size + 1).collect();
        let has_more = found.len() > self.size;
        found.truncate(self.size);
        let next_position = found.last().filter(|_| has_more).map(|last| (last.position.clone(), 0));
        PageRows { found, next_position, total }
    }

    /// Selects the page by scanning the rows of a term.
    async fn select_by_scan(&self, term: &str, total: u64) -> Result<PageRows> {
        let filtered = !self.query.filters.is_empty();
        let chunk = (self.size + self.skip as usize).div_ceil(SHARDS.unsigned_abs() as usize).saturating_mul(2);
        let chunk = chunk.clamp(8, 512);
        let shards = (0..SHARDS).map(|shard| self.shard(term, shard, chunk, self.after.clone()));
        let mut shards = futures::future::try_join_all(shards).await?;
        let (mut skip, mut scanned, mut matched, mut found) = (self.skip, 0_usize, 0_u64, Vec::new());
        let mut last = None;
        loop {
            let heads = shards.iter().enumerate().filter_map(|(at, shard)| Some((shard.head()?, at)));
            let best = if self.backward { heads.max() } else { heads.min() };
            let Some(at) = best.map(|(_, at)| at) else {
                let total = if filtered && self.after.is_none() { matched } else { total };
                return Ok(PageRows { found, next_position: None, total });
            };
            if found.len() == self.size || (filtered && scanned >= SCANNED_MAX) {
                let next_position = last.map(|last: Position| (last, skip));
                return Ok(PageRows { found, next_position, total });
            }
            let Some(shard) = shards.get_mut(at) else { return Ok(PageRows { found, next_position: None, total }) };
            if let Some((position, value)) = shard.rows.pop_front() {
                scanned += 1;
                last = Some(position.clone());
                let row = value_of(self.keyspace, (self.org, self.query.kind), &position, &value).await?;
                if let Some(row) = row.filter(|row| row.matches(self.query.conditions)) {
                    matched += 1;
                    match skip.checked_sub(1) {
                        Some(left) => skip = left,
                        None => found.push(CatalogueRow { position, row }),
                    }
                }
            }
            if shard.rows.is_empty() && !shard.is_exhausted {
                let number = i32::try_from(at).unwrap_or(0);
                *shard = self.shard(term, number, chunk, last.clone()).await?;
            }
        }
    }

    async fn shard(&self, term: &str, shard: i32, rows: usize, after: Option<Position>) -> Result<Shard> {
        let (first, end) = (FIRST, last());
        let (from, to) = match (after, self.backward) {
            (Some(after), true) => (first, after),
            (Some(after), false) => (after, end),
            (None, _) => (first, end),
        };
        let list = (self.org, self.query.kind, term);
        let catalogue = &self.keyspace.tables.catalogue;
        let found = catalogue.range(list, shard, (&from, &to), (self.backward, rows)).await?;
        Ok(Shard { is_exhausted: found.len() < rows, rows: found.into() })
    }
}

/// Rows of a shard that were read. `is_exhausted`: the shard has no further rows.
struct Shard {
    rows: VecDeque<(Position, Vec<u8>)>,
    is_exhausted: bool,
}

impl Shard {
    fn head(&self) -> Option<&Position> {
        self.rows.front().map(|(position, _)| position)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<BTreeMap<String, (u64, Instant)>>);

impl Counts {
    fn get(&self, key: &str) -> Option<u64> {
        let counts = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (count, at) = counts.get(key)?;
        (at.elapsed() < Duration::from_secs(COUNT_SECONDS)).then_some(*count)
    }

    fn put(&self, key: String, count: u64) {
        let mut counts = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if counts.len() >= CACHED_COUNTS_MAX {
            counts.clear();
        }
        counts.insert(key, (count, Instant::now()));
    }
}

async fn count(keyspace: &Keyspace, org: &OrgId, kind: &str, lookup: &Lookup) -> Result<u64> {
    let key = format!("{org}/{}/{}", kind, lookup.term);
    if let Some(count) = keyspace.counts.get(&key) {
        return Ok(count);
    }
    let list = (org, kind, lookup.term.as_str());
    let counts = futures::stream::iter(0..SHARDS)
        .map(|shard| keyspace.tables.catalogue.count(list, shard))
        .buffer_unordered(SHARDS.unsigned_abs() as usize);
    let count: u64 = counts.try_fold(0, async |sum, count| Ok(sum + count)).await?;
    if count > CACHED_COUNT_MIN {
        keyspace.counts.put(key, count);
    }
    Ok(count)
}

/// Returns a digest of the list, its filter and its order.
fn scope(org: &OrgId, query: &Query<'_>, order: Order) -> [u8; 8] {
    let base = format!("{:?}", query.base);
    let order = format!("{order:?}");
    page_token::digest(&[
        org.as_str().as_bytes(),
        query.kind.as_bytes(),
        base.as_bytes(),
        query.filter_key.as_bytes(),
        order.as_bytes(),
    ])
}

fn token(org: &OrgId, query: &Query<'_>, order: Order, position: &Position, skip: u32) -> String {
    let mut suffix = skip.to_be_bytes().to_vec();
    suffix.extend_from_slice(&position.at.to_be_bytes());
    suffix.extend_from_slice(position.id.as_bytes());
    page_token::encode(scope(org, query, order), &position.sort_key, &suffix)
}

fn position(org: &OrgId, query: &Query<'_>, order: Order, token: &str) -> Result<(Position, u32)> {
    let (sort_key, suffix) = page_token::decode(scope(org, query, order), token)?;
    let (skip, rest) = suffix.split_first_chunk::<4>().ok_or_else(page_token::invalid)?;
    let (at, id) = rest.split_first_chunk::<8>().ok_or_else(page_token::invalid)?;
    let id = String::from_utf8(id.to_vec()).map_err(|_| page_token::invalid())?;
    Ok((Position { sort_key, at: i64::from_be_bytes(*at), id }, u32::from_be_bytes(*skip)))
}
