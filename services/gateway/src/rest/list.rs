//! Pages of the lists that a data grid shows: documents, schemas, prompts and tags.

use folio_operations::grid::Grid;
use folio_operations::{ListPage, ListRequest};
use serde::Deserialize;
use utoipa::ToSchema;

use super::extract::Bounded;
use super::failure::Failure;
use super::grid::GridFields;

/// Maximum number of resources that [`read_all`] reads.
const ROWS_MAX: usize = 10_000;
/// The largest `total_size` of a list without a grid that is exact.
const EXACT_MAX: u64 = 1_024;

/// Maximum number of revisions that the list of the versions of a resource contains.
const VERSIONS_MAX: u32 = 100;

/// The query parameters of a list.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ListQuery {
    /// Number of items before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Bounded<0, { i32::MAX as u32 }, 0>,
    /// Maximum number of items of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Bounded<1, 100, 10>,
    /// Part of the name, in any case.
    name_search: Option<String>,
    /// Sort model of a data grid as JSON: `[{"field": "name", "sort": "asc"}]`.
    sort: Option<String>,
    /// Filter model of a data grid as JSON: `{"items": [{"field": "name", "operator": "contains", "value": "a"}]}`.
    filters: Option<String>,
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct RowPage<T> {
    pub(crate) rows: Vec<T>,
    /// Exact up to 10,000, and beyond that an estimate.
    pub(crate) total_count: u64,
    pub(crate) skip: u32,
}

impl ListQuery {
    /// Returns the page of the resources that `read` lists, by default newest first.
    pub(crate) async fn page<T, F>(
        &self,
        fields: &GridFields,
        read: impl Fn(ListRequest) -> F,
    ) -> Result<RowPage<T>, Failure>
    where
        F: Future<Output = Result<ListPage<T>, Failure>>,
    {
        let grid = fields.parse(self.name_search.as_deref(), self.sort.as_deref(), self.filters.as_deref())?;
        read_page((self.skip.0, self.limit.0), grid, read).await
    }
}

/// Reads a page, in several requests if its items exceed a response of the operation. Without a grid, an index serves the page;
/// if the list is too large for an exact total, it is read with a grid.
pub(crate) async fn read_page<T, F>(
    (skip, limit): (u32, u32),
    mut grid: Option<Grid>,
    read: impl Fn(ListRequest) -> F,
) -> Result<RowPage<T>, Failure>
where
    F: Future<Output = Result<ListPage<T>, Failure>>,
{
    let mut found = RowPage { rows: Vec::new(), total_count: 0, skip };
    loop {
        let count = u32::try_from(found.rows.len()).unwrap_or(limit);
        let (page_size, skip) = (to_i32(limit.saturating_sub(count)), to_i32(skip.saturating_add(count)));
        if page_size == 0 {
            return Ok(found);
        }
        let page = read(ListRequest { page_size, skip, grid: grid.clone(), ..ListRequest::default() }).await?;
        if grid.is_none() && page.total_size > EXACT_MAX {
            grid = Some(Grid::default());
            continue;
        }
        found.total_count = page.total_size;
        let is_last = page.next_page_token.is_empty() || page.items.is_empty();
        found.rows.extend(page.items);
        if is_last {
            return Ok(found);
        }
    }
}

fn to_i32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Reads the whole list, at most [`ROWS_MAX`] resources.
pub(crate) async fn read_all<T, F>(read: impl Fn(ListRequest) -> F) -> Result<Vec<T>, Failure>
where
    F: Future<Output = Result<ListPage<T>, Failure>>,
{
    read_first(ListRequest::default(), ROWS_MAX, read).await
}

/// Reads the first `limit` items of a list, in several requests if they exceed a response of the operation.
pub(crate) async fn read_first<T, F>(
    request: ListRequest,
    limit: usize,
    read: impl Fn(ListRequest) -> F,
) -> Result<Vec<T>, Failure>
where
    F: Future<Output = Result<ListPage<T>, Failure>>,
{
    let (mut items, mut page_token) = (Vec::new(), String::new());
    loop {
        let page_size = i32::try_from(limit.saturating_sub(items.len())).unwrap_or(i32::MAX);
        let page = read(ListRequest { page_size, page_token, ..request.clone() }).await?;
        items.extend(page.items);
        page_token = page.next_page_token;
        if page_token.is_empty() || items.len() >= limit {
            return Ok(items);
        }
    }
}

/// Reads the newest revisions of a resource. The total number is exact.
pub(crate) async fn read_versions<T, F>(read: impl Fn(ListRequest) -> F) -> Result<RowPage<T>, Failure>
where
    F: Future<Output = Result<ListPage<T>, Failure>>,
{
    read_page((0, VERSIONS_MAX), None, read).await
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Reads a page of a list with `total` items whose responses contain at most 40. Returns the page and the grids of its reads.
    async fn read(total: usize, paging: (u32, u32), grid: Option<Grid>) -> (RowPage<usize>, Vec<bool>) {
        let reads = Mutex::new(Vec::new());
        let list = |request: ListRequest| {
            let has_grid = request.grid.is_some();
            reads.lock().unwrap().push(has_grid);
            let start = total.min(usize::try_from(request.skip).unwrap());
            let end = total.min(start + 40.min(usize::try_from(request.page_size).unwrap()));
            let total_size = if has_grid { total } else { total.min(1_025) } as u64;
            let next_page_token = if end < total { "next".to_owned() } else { String::new() };
            let page =
                ListPage { items: (start..end).collect(), next_page_token, total_size, is_total_estimate: false };
            std::future::ready(Ok(page))
        };
        let page = read_page(paging, grid, list).await.unwrap();
        (page, reads.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_page_is_complete_and_its_total_exact() {
        for (total, paging, rows, grids) in [
            (0, (0, 10), 0..0, &[false][..]),
            (100, (0, 10), 0..10, &[false]),
            (100, (30, 100), 30..100, &[false, false]),
            (100, (200, 10), 0..0, &[false]),
            (1_024, (0, 1), 0..1, &[false]),
            (5_000, (10, 90), 10..100, &[false, true, true, true]),
        ] {
            let (page, reads) = read(total, paging, None).await;
            assert_eq!((page.total_count, page.skip, reads.as_slice()), (total as u64, paging.0, grids), "{total}");
            assert!(page.rows.iter().copied().eq(rows), "{total} {paging:?}: {:?}", page.rows);
        }
        let (page, reads) = read(50, (0, 1), Some(Grid::default())).await;
        assert_eq!((page.rows, reads), (vec![0], vec![true]));
    }

    #[tokio::test]
    async fn the_first_items_are_read_by_their_tokens() {
        let list = |request: ListRequest| {
            let start: i32 = request.page_token.parse().unwrap_or_default();
            let end = (start + request.page_size.min(2)).min(7);
            let next_page_token = if end < 7 { end.to_string() } else { String::new() };
            let items = (start..end).collect();
            std::future::ready(Ok(ListPage { items, next_page_token, total_size: 7, is_total_estimate: false }))
        };
        assert_eq!(read_first(ListRequest::default(), 5, list).await.unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(read_all(list).await.unwrap().len(), 7);
    }
}
