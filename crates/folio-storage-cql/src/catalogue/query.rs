//! Pages of lists.
//!
//! Cost of a page: the buckets of a term are read from the newest or the oldest on, several at a time if they have few
//! rows; names and groups of characters are read a few from each shard at a time.
//!
//! - No filter, or one filter that is a term (a tag, a user): the rows of the page, the skipped rows, and one read for
//!   each item. The servers count the total, with one read for each bucket; a count over
//!   [`CACHED_COUNT_MIN`](counts::CACHED_COUNT_MIN) rows is cached for [`COUNT_SECONDS`](counts::COUNT_SECONDS).
//! - Any other filter: of at most [`SAMPLED_GROUPS_MAX`] groups of characters a shard is read, and the
//!   [`READ_GROUPS_MAX`] rarest are used. Of each of these and of each term at most [`PROBED_ROWS_MAX`] rows are read, of
//!   the list of all items if the filter has neither; only rows of the filter's period of creation are read. If one has
//!   no more rows, the items that all such have in common are filtered by their list rows, ordered and counted in
//!   memory, and the total is exact. Otherwise the rarest is scanned in the order of the list, and its items are
//!   filtered. After [`SCANNED_MAX`] rows the page ends early, and its token continues at that position. The total of
//!   such a list is exact only if one page scans all of it; otherwise the total is [`COUNTED_ITEMS_MAX`] + 1, which means
//!   many.
//! - Of the dangling rows that a page finds, it removes at most [`REPAIRS_MAX`].

mod counts;

use std::collections::{BTreeMap, BTreeSet};

use folio_resources::{Condition, CreationPeriod, Kind, ListRow, folded};
use folio_storage::value::decode;
use folio_storage::{PAGE_BYTES, page_token};
use folio_types::page::{Order, Page, PageRequest};
use folio_types::{OrgId, Result};
use futures::future::BoxFuture;
use futures::stream::{StreamExt as _, TryStreamExt as _};

pub(crate) use self::counts::Counts;
use self::counts::count;
use super::rows::{Filter, keys};
use super::scan::{ALL_TIMES, FIRST, Period, Scan, last};
use crate::keyspace::Keyspace;
use crate::table::{ALL, Key, Position, SHARDS, Source, StoredValue, by_bucket};
use crate::values::micros;

/// Maximum number of items of a filtered list that is counted exactly.
const COUNTED_ITEMS_MAX: usize = 1_024;
/// Maximum number of rows of a term or group that are filtered in memory. A group may have more items than match.
const PROBED_ROWS_MAX: usize = 2 * COUNTED_ITEMS_MAX;
/// Maximum number of rows that a page of a filtered list reads.
const SCANNED_MAX: usize = 4_096;
/// Maximum number of groups whose first rows of a shard are compared.
const SAMPLED_GROUPS_MAX: usize = 64;
/// Maximum number of groups whose items are read.
const READ_GROUPS_MAX: usize = 2;
/// Maximum number of dangling rows that a page removes.
const REPAIRS_MAX: usize = 16;
/// Maximum number of rows without a match that a page compares with the keys of their item.
const CHECKS_MAX: usize = 256;
/// Maximum number of rows that are filtered together in a scan.
const FILTERED_TOGETHER: usize = 256;
/// Maximum number of concurrent reads for one page.
const READ_CONCURRENCY: usize = 16;

pub(crate) struct Query<'a> {
    /// The name of a kind: [`folio_resources::Kind::name`].
    pub(crate) kind: &'a str,
    /// False: the items have no names, and lists by name are in the order of creation.
    has_names: bool,
    /// The times of creation that the conditions permit.
    period: Period,
    /// An item must match each filter.
    filters: Vec<Filter>,
    /// Identifies the filter in page tokens.
    filter_key: String,
    /// All conditions, which each item must fulfil.
    pub(crate) conditions: &'a [Condition],
}

impl<'a> Query<'a> {
    pub(crate) fn new(kind: &'a str, conditions: &'a [Condition], filter_key: String) -> Self {
        let has_names = Kind::by_name(kind).is_none_or(|kind| !kind.has_parent);
        let filters = conditions.iter().map(Filter::of).collect();
        Self { kind, has_names, period: period(conditions), filters, filter_key, conditions }
    }
}

/// Returns the times of creation in microseconds that the conditions permit.
fn period(conditions: &[Condition]) -> Period {
    conditions.iter().fold(ALL_TIMES, |(first, last), condition| match condition {
        // The end is exclusive, but an item that was created within its microsecond may precede it.
        Condition::Created(CreationPeriod { start, end }) => {
            (first.max(start.map_or(first, micros)), last.min(end.map_or(last, micros)))
        }
        _ => (first, last),
    })
}

/// An item of a list.
#[derive(Debug, Clone)]
pub(crate) struct CatalogueRow {
    pub(crate) position: Position,
    /// The row that was read.
    key: Key,
    /// Empty: the value was not read.
    value: StoredValue,
}

impl CatalogueRow {
    /// Returns the keys of the rows that the item has if its list row is current, and the key that was read.
    pub(crate) fn keys(&self) -> Result<BTreeSet<Key>> {
        let mut all = BTreeSet::from([self.key.clone()]);
        for row in self.list_rows()? {
            all.extend(keys(&row));
        }
        Ok(all)
    }

    /// Returns the current list row and the row of a write that may be committed, as far as they are stored.
    fn list_rows(&self) -> Result<Vec<ListRow>> {
        let stored = [&self.value.current, &self.value.next].into_iter().filter(|bytes| !bytes.is_empty());
        stored.map(|bytes| decode(bytes)).collect()
    }
}

/// The rows of a page, before their items are read.
struct Selected {
    found: Vec<CatalogueRow>,
    /// The last position that was read, and the number of items still to be skipped. None: the page did not end early.
    next_position: Option<(Position, u32)>,
    total: u64,
}

/// `load` reads an item and returns the item with its size in bytes. It removes a dangling row and returns None.
pub(crate) async fn page<'a, T: Send>(
    keyspace: &'a Keyspace,
    org: &'a OrgId,
    query: &Query<'_>,
    request: &PageRequest,
    load: impl Fn(CatalogueRow) -> BoxFuture<'a, Result<Option<(T, usize)>>> + Send + Sync,
) -> Result<Page<T>> {
    let (selected, dangling) = select(keyspace, org, query, request).await?;
    let mut page = Page { items: Vec::new(), next: None, total: selected.total };
    let positions: Vec<Position> = selected.found.iter().map(|found| found.position.clone()).collect();
    let mut loads = futures::stream::iter(selected.found).map(&load).buffered(READ_CONCURRENCY);
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
    for found in dangling {
        let id = found.position.id.clone();
        if let Err(error) = load(found).await {
            tracing::warn!(%error, id, "a dangling list row stays until its next reader");
        }
    }
    page.next = next_position.map(|(position, skip)| token(org, query, request.order, &position, skip));
    Ok(page)
}

/// Returns the ids of at most `max` items that match a query with filters, by their list rows.
pub(crate) async fn matching_ids(
    keyspace: &Keyspace,
    org: &OrgId,
    query: &Query<'_>,
    max: usize,
) -> Result<Vec<String>> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let mut selector = PageSelector {
            keyspace,
            org,
            query,
            backward: true,
            after,
            skip: 0,
            size: max.saturating_sub(ids.len()),
            dangling: Vec::new(),
            checks_left: CHECKS_MAX,
        };
        let selected = selector.select_filtered(false).await?;
        ids.extend(selected.found.into_iter().map(|row| row.position.id));
        match selected.next_position {
            Some((position, _)) if ids.len() < max => after = Some(position),
            _ => return Ok(ids),
        }
    }
}

/// Returns the rows of a page, and dangling rows.
async fn select(
    keyspace: &Keyspace,
    org: &OrgId,
    query: &Query<'_>,
    request: &PageRequest,
) -> Result<(Selected, Vec<CatalogueRow>)> {
    let (after, remaining_skip) = match &request.token {
        Some(token) => {
            let (position, skip) = position(org, query, request.order, token)?;
            (Some(position), skip)
        }
        None => (None, 0),
    };
    let skip = request.skip.saturating_add(remaining_skip);
    let size = request.effective_size();
    let by_name = matches!(request.order, Order::Name | Order::NameDescending) && query.has_names;
    let backward = matches!(request.order, Order::Newest | Order::NameDescending);
    let single = match query.filters.as_slice() {
        [] => Some(ALL.to_owned()),
        [Filter::Terms(terms)] if terms.len() == 1 => Some(terms.concat()),
        _ => None,
    };
    let (dangling, checks_left) = (Vec::new(), CHECKS_MAX);
    let mut selector = PageSelector { keyspace, org, query, backward, after, skip, size, dangling, checks_left };
    let selected = match single {
        Some(term) if query.filters.is_empty() || !by_name => {
            let total = count(keyspace, org, query.kind, &term).await?;
            let source = if by_name { Source::Names } else { Source::Term(term) };
            selector.select_by_scan(source, false, total).await
        }
        _ => selector.select_filtered(by_name).await,
    };
    Ok((selected?, selector.dangling))
}

/// The first rows of a list whose items together contain all matches.
struct Probe {
    /// The source, if it is one.
    source: Option<Source>,
    rows: Vec<CatalogueRow>,
    is_complete: bool,
}

struct PageSelector<'a, 'q> {
    keyspace: &'a Keyspace,
    org: &'a OrgId,
    query: &'a Query<'q>,
    backward: bool,
    after: Option<Position>,
    skip: u32,
    size: usize,
    /// Rows that describe no item.
    dangling: Vec<CatalogueRow>,
    /// Number of rows that are still compared with the keys of their item.
    checks_left: usize,
}

impl<'a> PageSelector<'a, '_> {
    fn is_after_token(&self, position: &Position) -> bool {
        self.after.as_ref().is_none_or(|after| if self.backward { position < after } else { position > after })
    }

    async fn scan(&self, source: Source, rows: usize, after: Option<Position>) -> Result<Scan<'a>> {
        let source = (source, self.query.period);
        Scan::open(self.keyspace, (self.org, self.query.kind), source, self.backward, rows, after).await
    }

    /// Selects the page of a list whose rows must be filtered.
    async fn select_filtered(&mut self, by_name: bool) -> Result<Selected> {
        let mut sources: Vec<Vec<Source>> = Vec::new();
        let mut groups = Vec::new();
        for filter in &self.query.filters {
            match filter {
                Filter::Terms(terms) => sources.push(terms.iter().cloned().map(Source::Term).collect()),
                Filter::Text { term, groups } if groups.is_empty() => sources.push(vec![Source::Term(term.clone())]),
                Filter::Text { groups: of_text, .. } => groups.push(of_text.as_slice()),
                Filter::Unindexed => {}
            }
        }
        if sources.is_empty() && groups.is_empty() {
            sources.push(vec![Source::Term(ALL.to_owned())]);
        }
        let groups = self.rarest(spread(&groups, SAMPLED_GROUPS_MAX)).await?;
        sources.extend(groups.into_iter().map(|group| vec![group]));
        let probes = futures::future::try_join_all(sources.into_iter().map(|sources| self.probe(sources))).await?;
        if probes.iter().any(|probe| probe.is_complete) {
            let rows = self.filter(in_common(probes)).await?;
            return Ok(self.select_in_memory(rows, by_name));
        }
        let reach = |probe: &Probe| probe.rows.last().map(|row| row.position.clone());
        let candidates = probes.into_iter().filter(|probe| probe.source.is_some());
        let rarest = match self.backward {
            true => candidates.min_by_key(reach),
            false => candidates.max_by_key(reach),
        };
        let source = match rarest.and_then(|probe| probe.source) {
            _ if by_name => Source::Names,
            Some(source) => source,
            None => Source::Term(ALL.to_owned()),
        };
        self.select_by_scan(source, true, COUNTED_ITEMS_MAX as u64 + 1).await
    }

    /// Returns the groups with the fewest rows in the first shard. Of groups with many rows, those whose rows extend over
    /// the longest time.
    async fn rarest(&self, groups: Vec<String>) -> Result<Vec<Source>> {
        let per_shard = PROBED_ROWS_MAX / SHARDS.unsigned_abs() as usize;
        let (list, first, end) = ((self.org, self.query.kind), &FIRST, &last());
        let sample = |chars: String| async move {
            let source = Source::Group(chars);
            let catalogue = &self.keyspace.tables.catalogue;
            let rows = catalogue.range(list, (&source, 0), (first, end), (self.backward, per_shard)).await?;
            let reach = rows.last().map_or(0, |(position, _)| position.at);
            let density = match rows.len() < per_shard {
                true => (0, i64::try_from(rows.len()).unwrap_or(i64::MAX)),
                false => (1, if self.backward { reach } else { reach.saturating_neg() }),
            };
            Ok::<_, folio_types::Error>((density, source))
        };
        let samples = futures::stream::iter(groups).map(sample).buffered(READ_CONCURRENCY);
        let mut samples: Vec<_> = samples.try_collect().await?;
        samples.sort_by_key(|(density, _)| *density);
        Ok(samples.into_iter().take(READ_GROUPS_MAX).map(|(_, source)| source).collect())
    }

    /// Reads at most [`PROBED_ROWS_MAX`] rows of the sources together.
    async fn probe(&self, sources: Vec<Source>) -> Result<Probe> {
        let (mut rows, per_shard) = (Vec::new(), PROBED_ROWS_MAX / SHARDS.unsigned_abs() as usize + 1);
        let mut is_complete = true;
        for source in &sources {
            let mut scan = self.scan(source.clone(), per_shard, None).await?;
            while is_complete && let Some((position, value)) = scan.next().await? {
                is_complete = rows.len() < PROBED_ROWS_MAX;
                rows.push(CatalogueRow { key: source.key(&position), position, value });
            }
        }
        let source = if let [only] = sources.as_slice() { Some(only.clone()) } else { None };
        Ok(Probe { source, rows, is_complete })
    }

    /// Returns each row with the list row that fulfils the conditions. None: the row does not match.
    async fn filter(&mut self, mut rows: Vec<CatalogueRow>) -> Result<Vec<(CatalogueRow, Option<ListRow>)>> {
        let (list, catalogue) = ((self.org, self.query.kind), &self.keyspace.tables.catalogue);
        let without = rows.iter().filter(|row| row.value.current.is_empty()).map(|row| &row.position);
        let reads = by_bucket(without).into_iter().map(|(bucket, items)| catalogue.values(list, bucket, items));
        let values = futures::stream::iter(reads.collect::<Vec<_>>()).buffered(READ_CONCURRENCY);
        let values: Vec<Vec<(Position, StoredValue)>> = values.try_collect().await?;
        let values: BTreeMap<(i64, String), StoredValue> =
            values.into_iter().flatten().map(|(position, value)| ((position.at, position.id), value)).collect();
        for row in rows.iter_mut().filter(|row| row.value.current.is_empty()) {
            row.value = values.get(&(row.position.at, row.position.id.clone())).cloned().unwrap_or_default();
        }
        let mut filtered = Vec::with_capacity(rows.len());
        for row in rows {
            let listed = row.list_rows()?;
            let has_key = |listed: &ListRow| row.key == Key::Term(ALL.to_owned()) || keys(listed).contains(&row.key);
            let is_match = |listed: &&ListRow| listed.matches(self.query.conditions);
            let matched = listed.iter().find(is_match).cloned();
            if matched.is_none() && self.dangling.len() < REPAIRS_MAX && self.checks_left > 0 {
                self.checks_left -= 1;
                if !listed.iter().any(has_key) {
                    self.dangling.push(row.clone());
                }
            }
            filtered.push((row, matched));
        }
        Ok(filtered)
    }

    /// Selects the page from all rows of a filter, in memory.
    fn select_in_memory(&self, rows: Vec<(CatalogueRow, Option<ListRow>)>, by_name: bool) -> Selected {
        let mut items = BTreeMap::new();
        for (row, matched) in rows {
            if let Some(matched) = matched {
                let sort_key = if by_name { folded(&matched.name) } else { String::new() };
                items.insert(Position { sort_key, ..row.position.clone() }, row);
            }
        }
        let total = items.len() as u64;
        let mut found: Vec<_> = items
            .into_iter()
            .filter(|(position, _)| self.is_after_token(position))
            .map(|(position, row)| CatalogueRow { position, ..row })
            .collect();
        if self.backward {
            found.reverse();
        }
        let mut found: Vec<_> = found.into_iter().skip(self.skip as usize).take(self.size + 1).collect();
        let has_more = found.len() > self.size;
        found.truncate(self.size);
        let next_position = found.last().filter(|_| has_more).map(|last| (last.position.clone(), 0));
        Selected { found, next_position, total }
    }

    /// Selects the page by scanning the rows of a source.
    async fn select_by_scan(&mut self, source: Source, is_filtered: bool, total: u64) -> Result<Selected> {
        let wanted = self.size.saturating_add(self.skip as usize).saturating_add(1);
        let per_read = match &source {
            Source::Term(_) => wanted,
            Source::Names | Source::Group(_) => wanted.div_ceil(SHARDS.unsigned_abs() as usize).saturating_mul(2),
        };
        let mut scan = self.scan(source.clone(), per_read, self.after.clone()).await?;
        let (mut skip, mut scanned, mut matched, mut found) = (self.skip, 0_usize, 0_u64, Vec::new());
        let mut last = None;
        loop {
            let mut rows = Vec::new();
            while rows.len() < FILTERED_TOGETHER
                && let Some((position, value)) = scan.next().await?
            {
                rows.push(CatalogueRow { key: source.key(&position), position, value });
            }
            if rows.is_empty() {
                let total = if is_filtered && self.after.is_none() { matched } else { total };
                return Ok(Selected { found, next_position: None, total });
            }
            let rows = match is_filtered {
                true => self.filter(rows).await?,
                false => rows.into_iter().map(|row| (row, Some(ListRow::default()))).collect(),
            };
            for (row, is_match) in rows.into_iter().map(|(row, matched)| (row, matched.is_some())) {
                if found.len() == self.size || (is_filtered && scanned >= SCANNED_MAX) {
                    return Ok(Selected { found, next_position: last.map(|last| (last, skip)), total });
                }
                scanned += 1;
                last = Some(row.position.clone());
                matched += u64::from(is_match);
                match (is_match, skip.checked_sub(1)) {
                    (true, Some(left)) => skip = left,
                    (true, None) => found.push(row),
                    (false, _) => {}
                }
            }
        }
    }
}

/// Returns the rows whose items all complete probes have.
fn in_common(probes: Vec<Probe>) -> Vec<CatalogueRow> {
    let mut complete: Vec<_> = probes.into_iter().filter(|probe| probe.is_complete).map(|probe| probe.rows).collect();
    complete.sort_by_key(Vec::len);
    let mut complete = complete.into_iter();
    let mut rows = complete.next().unwrap_or_default();
    for other in complete {
        let items: BTreeSet<_> = other.iter().map(|row| (row.position.at, &row.position.id)).collect();
        rows.retain(|row| items.contains(&(row.position.at, &row.position.id)));
    }
    rows
}

/// Returns at most `max` groups, of each text about as many.
fn spread(texts: &[&[String]], max: usize) -> Vec<String> {
    let share = (max / texts.len().max(1)).max(1);
    let of_text = |groups: &&[String]| {
        let step = groups.len().div_ceil(share).max(1);
        groups.iter().step_by(step).cloned().collect::<Vec<_>>()
    };
    texts.iter().flat_map(of_text).take(max).collect()
}

/// Returns a digest of the list, its filter and its order.
fn scope(org: &OrgId, query: &Query<'_>, order: Order) -> [u8; 8] {
    let order = format!("{order:?}");
    page_token::digest(&[org.as_str().as_bytes(), query.kind.as_bytes(), query.filter_key.as_bytes(), order.as_bytes()])
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

#[cfg(test)]
mod tests;
