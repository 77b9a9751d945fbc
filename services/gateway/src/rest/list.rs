//! Pages of lists, and the query of those that a data grid shows: schemas, prompts and tags.

use folio_operations::filter::quote;
use folio_operations::grid::Grid;
use folio_operations::{ListPage, ListRequest};
use serde::Deserialize;
use utoipa::ToSchema;

use super::extract::Bounded;
use super::failure::Failure;
use super::grid::{self, Field};

/// The largest `total_size` of a list without a grid that is exact. With a grid, totals are exact up to 10,000.
const EXACT_MAX: u64 = 1_024;
/// Maximum number of resources that [`read_all`] reads.
const ROWS_MAX: usize = 10_000;
/// Maximum number of revisions that the list of the versions of a resource contains.
const VERSIONS_MAX: usize = 100;

/// Number of items before a page.
pub(crate) type Skip = Bounded<0, { i32::MAX as u32 }, 0>;
/// Maximum number of items of a page.
pub(crate) type Limit = Bounded<1, 100, 10>;

/// The query parameters of a list.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ListQuery {
    /// Number of items before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of items of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
    /// Part of the name, without regard to case.
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
    /// Returns the page of the resources that `read` lists, by default newest first. `filter`: the filter of the operation.
    pub(crate) async fn page<T, F>(
        &self,
        fields: &[Field],
        filter: &str,
        read: impl Fn(ListRequest) -> F,
    ) -> Result<RowPage<T>, Failure>
    where
        F: Future<Output = Result<ListPage<T>, Failure>>,
    {
        let grid = grid::parse(self.name_search.as_deref(), self.sort.as_deref(), self.filters.as_deref(), fields)?;
        let (skip, limit) = (self.skip.0, self.limit.0 as usize);
        let request = ListRequest { skip: to_i32(skip), filter: filter.to_owned(), grid, ..ListRequest::default() };
        let is_grid = request.grid.is_some();
        let mut page = rows(request.clone(), limit, &read).await?;
        if !is_grid && page.total_size > EXACT_MAX {
            page = rows(ListRequest { grid: Some(Grid::default()), ..request }, limit, &read).await?;
        }
        Ok(RowPage { rows: page.items, total_count: page.total_size, skip })
    }
}

/// Returns the page of the resources that `read` lists. `request`: the filter and the order.
pub(crate) async fn page<T, F>(
    skip: Skip,
    limit: Limit,
    request: ListRequest,
    read: impl Fn(ListRequest) -> F,
) -> Result<RowPage<T>, Failure>
where
    F: Future<Output = Result<ListPage<T>, Failure>>,
{
    let page = rows(ListRequest { skip: to_i32(skip.0), ..request }, limit.0 as usize, &read).await?;
    Ok(RowPage { rows: page.items, total_count: page.total_size, skip: skip.0 })
}

/// Returns the filter of an operation with these conditions: a field with its operator, such as `name:`, and the value. A value
/// that is absent or empty is no condition.
pub(crate) fn conditions(conditions: &[(&str, Option<&str>)]) -> String {
    let stated = conditions.iter().filter_map(|(field, value)| Some((field, value.filter(|text| !text.is_empty())?)));
    stated.map(|(field, value)| format!("{field}{}", quote(value))).collect::<Vec<_>>().join(" ")
}

/// Returns the newest revisions of a resource, and their total number.
pub(crate) async fn versions<T, F>(read: impl Fn(ListRequest) -> F) -> Result<RowPage<T>, Failure>
where
    F: Future<Output = Result<ListPage<T>, Failure>>,
{
    let page = rows(ListRequest::default(), VERSIONS_MAX, &read).await?;
    Ok(RowPage { rows: page.items, total_count: page.total_size, skip: 0 })
}

/// Returns the newest 10,000 resources of a list.
pub(crate) async fn read_all<T, F>(read: impl Fn(ListRequest) -> F) -> Result<Vec<T>, Failure>
where
    F: Future<Output = Result<ListPage<T>, Failure>>,
{
    Ok(rows(ListRequest::default(), ROWS_MAX, &read).await?.items)
}

/// Reads the first `limit` items of a list. An operation may return fewer items at a time, because it bounds the bytes of a page.
pub(crate) async fn rows<T, F>(
    request: ListRequest,
    limit: usize,
    read: &impl Fn(ListRequest) -> F,
) -> Result<ListPage<T>, Failure>
where
    F: Future<Output = Result<ListPage<T>, Failure>>,
{
    let size = |missing: usize| i32::try_from(missing).unwrap_or(i32::MAX);
    let mut found = read(ListRequest { page_size: size(limit), ..request.clone() }).await?;
    while found.items.len() < limit && !found.next_page_token.is_empty() {
        let page_token = std::mem::take(&mut found.next_page_token);
        let page_size = size(limit.saturating_sub(found.items.len()));
        let next = read(ListRequest { page_size, page_token, skip: 0, ..request.clone() }).await?;
        found.items.extend(next.items);
        found.next_page_token = next.next_page_token;
    }
    Ok(found)
}

/// Returns a number of items for an operation.
pub(crate) fn to_i32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Returns the numbers from the token on, at most two at a time.
    fn pages(requests: &Mutex<Vec<ListRequest>>, request: ListRequest) -> ListPage<i32> {
        let from = request.page_token.parse().unwrap_or(request.skip);
        let end = (from + request.page_size.min(2)).min(7);
        requests.lock().unwrap().push(request);
        let next_page_token = if end < 7 { end.to_string() } else { String::new() };
        ListPage { items: (from..end).collect(), next_page_token, total_size: 7, is_total_estimate: false }
    }

    #[test]
    fn values_are_quoted_and_empty_ones_are_no_condition() {
        assert_eq!(conditions(&[("name:", Some(r#"a "b" \c"#))]), r#"name:"a \"b\" \\c""#);
        assert_eq!(conditions(&[("tool=", Some("a")), ("turn=", None), ("tag:", Some(""))]), r#"tool="a""#);
        assert_eq!(conditions(&[("tool=", Some("a")), ("turn=", Some("b"))]), r#"tool="a" turn="b""#);
    }

    #[tokio::test]
    async fn a_page_is_complete_although_the_operation_returns_parts_of_it() {
        let requests = Mutex::default();
        let read = |request| std::future::ready(Ok(pages(&requests, request)));
        let request = ListRequest { skip: 1, ..ListRequest::default() };
        assert_eq!(rows(request.clone(), 5, &read).await.unwrap().items, [1, 2, 3, 4, 5]);
        let sizes: Vec<_> = requests.lock().unwrap().iter().map(|request| (request.page_size, request.skip)).collect();
        assert_eq!(sizes, [(5, 1), (3, 0), (1, 0)]);
        assert_eq!(rows(request, 100, &read).await.unwrap().items.len(), 6);
    }
}
