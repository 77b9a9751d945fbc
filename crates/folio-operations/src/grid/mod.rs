//! Grids: lists that are sorted and filtered by several fields, as the data grid of a user interface requests them.
//!
//! The stores have no index for these orders and filters. A list therefore reads its newest items, up to the bound of
//! [`Candidates`](crate::candidates::Candidates), selects and orders them in memory, and reads the items of the page again.

mod columns;
mod evaluate;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::str::FromStr;

use folio_resources::{Extraction, ExtractionFilter, Resource, Schema, Tag};
use folio_types::page::Order;
use folio_types::{DocumentId, Error, Result, SchemaId, TagId, UserId, limits};
use futures::stream::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;

pub use columns::Column;
use columns::{Cell, EXTRACTED, READY, STAGE};
pub(crate) use columns::{GridRows, STATE, STATES};
use evaluate::{CheckedGrid, Names, Row};

use crate::candidates::{Candidates, read_page};
use crate::context::Context;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};

/// Maximum number of sort keys.
// proto: Grid.sort "at most {}."
const SORT_KEYS_MAX: usize = 10;
/// Maximum number of filters.
// proto: Grid.filters "At most {}."
const FILTERS_MAX: usize = 60;
/// Maximum number of values of a filter.
// proto: GridFilter.values "at most {} values"
const VALUES_MAX: usize = 100;
/// Maximum number of concurrent reads for one list.
const READ_CONCURRENCY: usize = 16;

/// The comparison of a field with values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GridOperator {
    /// The text contains the value, without regard to case.
    Contains,
    DoesNotContain,
    /// The text equals the value, including case.
    Equals,
    DoesNotEqual,
    StartsWith,
    EndsWith,
    IsEmpty,
    IsNotEmpty,
    /// The text is one of the values.
    IsAnyOf,
    /// The time is within the day, minute or second that the value names.
    On,
    NotOn,
    After,
    OnOrAfter,
    Before,
    OnOrBefore,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GridFilter {
    /// The name of a column.
    pub field: String,
    pub operator: GridOperator,
    pub values: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GridSort {
    /// The name of a column.
    pub field: String,
    pub descending: bool,
}

/// The selection and the order of a list. Default: all items, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Grid {
    /// A part of the name, without regard to case. Names that equal it precede names that begin with it, and these
    /// precede all others.
    /// Empty: no condition.
    pub name_search: String,
    /// The most important key first. Items that all keys compare as equal are ordered newest first.
    pub sort: Vec<GridSort>,
    pub filters: Vec<GridFilter>,
    /// True: one of the filters suffices. False: all must hold.
    pub any: bool,
}

impl Grid {
    /// Returns the name search by which the store selects the candidates of a list: that of the filter, else that of the grid.
    pub(crate) fn name_search(filter: Option<String>, grid: Option<&Self>) -> Option<String> {
        filter.or_else(|| grid.map(|grid| grid.name_search.clone()).filter(|search| !search.trim().is_empty()))
    }
}

impl Context {
    /// Returns a page of the organization's resources that match a filter and the grid of the request, if it has one. Errors:
    /// those of [`Context::list`] and [`Context::list_in_grid`].
    pub(crate) async fn list_with_grid<R: GridRows>(
        &self,
        request: &ListRequest,
        filter: &R::Filter,
        max: u32,
    ) -> Result<ListPage<R>> {
        match &request.grid {
            None => self.list(request, filter, SortKeys::CreateTimeAndName, max).await,
            Some(_) => self.list_in_grid(request, filter, (&request.grid_or_order()?, &[]), max).await,
        }
    }

    /// Returns a page of the organization's resources that match a filter, a grid and all of the required filters. Errors: those
    /// of [`CheckedGrid::new`] and [`Listing::new`]; `OVERLOADED`.
    pub(crate) async fn list_in_grid<R: GridRows>(
        &self,
        request: &ListRequest,
        filter: &R::Filter,
        (grid, required): (&Grid, &[GridFilter]),
        max: u32,
    ) -> Result<ListPage<R>> {
        let (org, store) = (&self.principal().org, &self.stores().of::<R>());
        let checked = CheckedGrid::new(grid, required, R::COLUMNS)?;
        let grid = serde_json::to_string(grid).map_err(|error| Error::internal(error.to_string()))?;
        let unordered = ListRequest { order_by: String::new(), grid: None, ..request.clone() };
        let scope = [R::KIND, org.as_str(), "grid", &grid];
        let listing = Listing::new(&unordered, &scope, SortKeys::CreateTime, Order::Newest, max)?;
        let _permit = self.sorted_list_permit().await?;
        let row = |resource: R| Row {
            id: resource.id().to_string(),
            name: resource.label().to_owned(),
            created_at: resource.created_at(),
            cells: checked.columns.iter().map(|column| resource.cell(column.name)).collect(),
        };
        let mut found = Candidates::read(|page| async move { store.list(org, filter, &page).await }, row).await?;
        if let Some(stage) = checked.columns.iter().position(|column| column.name == STAGE) {
            self.set_stages(&mut found.rows, stage).await?;
        }
        let names = self.names_of(&found.rows).await?;
        let selected = checked.select(&found.rows, &names);
        let total = found.total(selected.len());
        let ids = selected.iter().filter_map(|position| found.rows.get(*position));
        let ids = ids.map(|row| R::Id::from_str(&row.id)).collect::<Result<Vec<_>>>()?;
        read_page(&listing, &ids, total, |ids| async move { store.get_many(org, &ids).await }).await
    }

    /// Replaces the stage of documents that have an extraction.
    async fn set_stages(&self, rows: &mut [Row], column: usize) -> Result<()> {
        let ready = Cell::Text(READY.to_owned());
        let ids = rows.iter().filter(|row| row.cells.get(column) == Some(&ready)).map(|row| row.id.parse());
        let extracted = self.extracted(ids.collect::<Result<_>>()?).await?;
        for row in rows.iter_mut().filter(|row| extracted.contains(&row.id)) {
            if let Some(cell) = row.cells.get_mut(column) {
                *cell = Cell::Text(EXTRACTED.to_owned());
            }
        }
        Ok(())
    }

    /// Returns the ids of those of the documents that have an extraction.
    pub(crate) async fn extracted(&self, documents: Vec<DocumentId>) -> Result<BTreeSet<String>> {
        let (org, extractions) = (&self.principal().org, &self.stores().of::<Extraction>());
        let has_extraction = |document: DocumentId| async move {
            let filter = ExtractionFilter { document: Some(document.clone()), ..ExtractionFilter::default() };
            let has_extraction = extractions.has_match(org, &filter).await?;
            Ok::<_, Error>(has_extraction.then(|| document.to_string()))
        };
        let found = futures::stream::iter(documents).map(has_extraction).buffered(READ_CONCURRENCY);
        found.try_filter_map(|id| std::future::ready(Ok(id))).try_collect().await
    }

    /// Returns the names of the resources to which rows refer.
    async fn names_of(&self, rows: &[Row]) -> Result<Names> {
        let mut ids: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for cell in rows.iter().flat_map(|row| &row.cells) {
            let Cell::References(references) = cell else { continue };
            for id in references {
                ids.entry(id.split('_').next().unwrap_or_default()).or_default().insert(id);
            }
        }
        let mut names = HashMap::new();
        for (prefix, ids) in ids {
            match prefix {
                TagId::PREFIX => self.add_names::<Tag>(&ids, &mut names).await?,
                SchemaId::PREFIX => self.add_names::<Schema>(&ids, &mut names).await?,
                UserId::PREFIX => {
                    let users = ids.iter().map(|id| id.parse()).collect::<Result<Vec<UserId>>>()?;
                    let members = self.stores().access().members_of(&self.principal().org, &users).await?;
                    names.extend(members.into_iter().flatten().map(|member| (member.user.to_string(), member.name)));
                }
                _ => {}
            }
        }
        Ok(names)
    }

    async fn add_names<R: Resource>(&self, ids: &BTreeSet<&str>, names: &mut Names) -> Result<()> {
        let ids = ids.iter().map(|id| id.parse()).collect::<Result<Vec<R::Id>>>()?;
        for part in ids.chunks(limits::PAGE_SIZE_MAX as usize) {
            let found = self.stores().of::<R>().get_many(&self.principal().org, part).await?;
            names.extend(found.into_iter().map(|found| (found.id().to_string(), found.label().to_owned())));
        }
        Ok(())
    }
}

/// Returns the sort keys of an order, for a list with a condition that no index serves.
pub(crate) fn grid_of_order(order: Order) -> Vec<GridSort> {
    let (field, descending) = match order {
        Order::Newest => return Vec::new(),
        Order::Oldest => ("create_time", false),
        Order::Name => ("name", false),
        Order::NameDescending => ("name", true),
    };
    vec![GridSort { field: field.to_owned(), descending }]
}
