//! Translates the grid of a list request.

use folio_operations::grid::{Grid, GridFilter, GridOperator, GridSort};
use folio_proto::v1;
use folio_types::{Error, Result};

/// Parses the grid of a request. None: the request has no grid. The operation checks fields and values.
///
/// # Errors
/// `INVALID_FIELD` of an operator.
pub(super) fn parse(grid: Option<v1::Grid>) -> Result<Option<Grid>> {
    let Some(v1::Grid { name_search, sort, filters, any }) = grid else { return Ok(None) };
    let sort = sort.into_iter().map(|v1::GridSort { field, descending }| GridSort { field, descending }).collect();
    let filter = |(at, filter): (usize, v1::GridFilter)| {
        let operator = operator(&format!("grid.filters[{at}].operator"), filter.operator())?;
        Ok(GridFilter { field: filter.field, operator, values: filter.values })
    };
    let filters = filters.into_iter().enumerate().map(filter).collect::<Result<_>>()?;
    Ok(Some(Grid { name_search, sort, filters, any }))
}

fn operator(path: &str, operator: v1::GridOperator) -> Result<GridOperator> {
    Ok(match operator {
        v1::GridOperator::Unspecified => return Err(Error::invalid_field(path, "is missing or unknown")),
        v1::GridOperator::Contains => GridOperator::Contains,
        v1::GridOperator::DoesNotContain => GridOperator::DoesNotContain,
        v1::GridOperator::Equals => GridOperator::Equals,
        v1::GridOperator::DoesNotEqual => GridOperator::DoesNotEqual,
        v1::GridOperator::StartsWith => GridOperator::StartsWith,
        v1::GridOperator::EndsWith => GridOperator::EndsWith,
        v1::GridOperator::IsEmpty => GridOperator::IsEmpty,
        v1::GridOperator::IsNotEmpty => GridOperator::IsNotEmpty,
        v1::GridOperator::IsAnyOf => GridOperator::IsAnyOf,
        v1::GridOperator::On => GridOperator::On,
        v1::GridOperator::NotOn => GridOperator::NotOn,
        v1::GridOperator::After => GridOperator::After,
        v1::GridOperator::OnOrAfter => GridOperator::OnOrAfter,
        v1::GridOperator::Before => GridOperator::Before,
        v1::GridOperator::OnOrBefore => GridOperator::OnOrBefore,
    })
}
