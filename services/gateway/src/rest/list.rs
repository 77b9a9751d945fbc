//! Pages of the lists that a data grid shows: schemas, prompts and tags.

use folio_operations::{ListPage, ListRequest};
use folio_types::limits;
use serde::Deserialize;
use utoipa::ToSchema;

use super::extract::Bounded;
use super::failure::Failure;
use super::grid::{Grid, Row};

/// Maximum number of resources that a list sorts, filters or counts. The total of a larger list is this number.
const ROWS_MAX: usize = 10_000;
/// The largest `total_size` of an operation that is exact.
const EXACT_MAX: u64 = 1_024;

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
pub(crate) struct RowPage<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) total_count: u64,
    pub(crate) skip: u32,
}

impl ListQuery {
    /// Returns the page of the resources that `read` lists, newest first. Without a search, an order and a filter, the
    /// operation pages; otherwise up to [`ROWS_MAX`] resources are read.
    pub(crate) async fn page<T, F>(&self, read: impl Fn(ListRequest) -> F) -> Result<RowPage<T>, Failure>
    where
        T: Row,
        F: Future<Output = Result<ListPage<T>, Failure>>,
    {
        let grid = Grid::parse(self.name_search.as_deref(), self.sort.as_deref(), self.filters.as_deref())?;
        let (skip, limit) = (self.skip.0, self.limit.0);
        if grid.is_empty() {
            let request = ListRequest { page_size: to_i32(limit), skip: to_i32(skip), ..ListRequest::default() };
            let page = read(request).await?;
            if page.total_size <= EXACT_MAX {
                return Ok(RowPage { rows: page.items, total_count: page.total_size, skip });
            }
        }
        let rows = grid.apply(read_all(read).await?);
        let total_count = rows.len() as u64;
        let rows = rows.into_iter().skip(skip as usize).take(limit as usize).collect();
        Ok(RowPage { rows, total_count, skip })
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
    let page_size = to_i32(limits::PAGE_SIZE_MAX);
    let (mut rows, mut page_token) = (Vec::new(), String::new());
    loop {
        let page = read(ListRequest { page_size, page_token, ..ListRequest::default() }).await?;
        rows.extend(page.items);
        rows.truncate(ROWS_MAX);
        page_token = page.next_page_token;
        if page_token.is_empty() || rows.len() == ROWS_MAX {
            return Ok(rows);
        }
    }
}
