//! Answers about a table: its rows are read page by page, and code computes the values.

use folio_resources::{Document, Stack};
use folio_storage::Stores;
use folio_types::{OrgId, Result};
use futures::TryStreamExt as _;

use super::aggregate::{Aggregate, AggregateFunction, AggregatedGroup, Aggregator, TableQuery};
use super::members::table_rows;

/// The answer to a [`TableQuery`].
#[derive(Debug, Clone, PartialEq)]
pub struct TableAnswer {
    pub groups: Vec<AggregatedGroup>,
    /// The unit of each aggregate. None: the column has none, or the result is a number of rows.
    pub units: Vec<Option<String>>,
    /// Number of rows of the table, of the documents that may be read.
    pub rows: u64,
}

/// Computes the answer to a query. `is_readable`: rows of other documents do not count.
///
/// # Errors
/// Those of [`Aggregator`], and of the stores.
pub async fn answer_table(
    stores: &Stores,
    org: &OrgId,
    stack: Stack,
    query: TableQuery,
    is_readable: impl Fn(&Document) -> bool + Send,
) -> Result<TableAnswer> {
    let unit = |aggregate: &Aggregate| {
        let column = aggregate.column.as_deref().filter(|_| aggregate.function != AggregateFunction::Count)?;
        stack.column(column).ok()?.definition.unit.clone()
    };
    let units = query.aggregates.iter().map(unit).collect();
    let mut aggregator = Aggregator::new(&stack, query)?;
    let (mut pages, mut rows) = (table_rows(stores.clone(), org.clone(), stack), 0);
    while let Some(page) = pages.try_next().await? {
        for found in page.iter().filter(|found| is_readable(&found.document)) {
            rows += 1;
            aggregator.add(&found.row)?;
        }
    }
    Ok(TableAnswer { groups: aggregator.finish()?, units, rows })
}
