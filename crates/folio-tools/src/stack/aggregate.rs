//! Aggregates of the cells of a table, computed from their values with exact decimals. Pure: no model takes part.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use folio_resources::{CellState, Column, ColumnType, Stack, StackRow};
use folio_types::{Error, Reason, Result, named_enum};
use serde_json::Value;

use crate::extraction::rational::Rational;

/// Maximum number of aggregates of a query.
// proto: AskTableRequest.aggregates "at most {} aggregates"
pub const TABLE_AGGREGATES_MAX: usize = 20;
/// Maximum number of columns by which a query groups rows.
// proto: AskTableRequest.group_by "at most {} columns"
pub(crate) const TABLE_GROUP_COLUMNS_MAX: usize = 4;
/// Maximum number of columns of the filter of a query.
// proto: AskTableRequest.filter "at most {} columns"
pub(crate) const TABLE_FILTER_COLUMNS_MAX: usize = 8;
/// Maximum number of groups of an answer.
// proto: AskTableResponse.groups "at most {} groups"
pub const TABLE_GROUPS_MAX: usize = 1_000;
/// Maximum digits after the decimal point. A sum of values of columns has no more, so that only averages are rounded.
// proto: TableAggregateValue.exact "{} digits"
const PLACES: u32 = 18;

named_enum! {
    pub enum AggregateFunction {
        /// Number of rows, or of rows with a value of the column.
        Count = "count",
        Sum = "sum",
        Average = "average",
        Min = "min",
        Max = "max",
    }
}

impl AggregateFunction {
    fn is_defined_for(self, kind: ColumnType) -> bool {
        match self {
            Self::Count => true,
            Self::Sum | Self::Average => kind.is_numeric(),
            Self::Min | Self::Max => kind.is_numeric() || kind == ColumnType::Date,
        }
    }
}

/// A function of the values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    pub function: AggregateFunction,
    /// Name of the column. None: the rows, which can only be counted.
    pub column: Option<String>,
}

/// A question about a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableQuery {
    /// Names of the columns whose values divide the rows into groups. Empty: one group.
    pub group_by: Vec<String>,
    pub aggregates: Vec<Aggregate>,
    /// Values by the names of columns: only rows with exactly these values count. Null: rows without a value that counts.
    pub filter: BTreeMap<String, Value>,
    /// True: only approved values count. False: every value counts that was not rejected.
    pub approved_only: bool,
}

/// The result of an aggregate for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregateValue {
    /// A decimal number, or a date. None: no row of the group has a value.
    pub value: Option<String>,
    /// False: the number is rounded.
    pub is_exact: bool,
    /// Number of rows whose value counts.
    pub counted: u64,
    /// Number of rows without a value that counts.
    pub skipped: u64,
}

/// A group of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregatedGroup {
    /// The values of the columns by which the rows are grouped. None: the rows have no value.
    pub key: Vec<Option<Value>>,
    /// Number of rows.
    pub rows: u64,
    /// The results, in the order of the aggregates.
    pub values: Vec<AggregateValue>,
}

/// Adds up the rows of a table. Its memory is bounded by the number of groups.
#[derive(Debug)]
pub struct Aggregator {
    group_by: Vec<Column>,
    aggregates: Vec<(AggregateFunction, Option<Column>)>,
    /// The comparable value of each column of the filter. None: no value counts.
    filter: Vec<(Column, Option<String>)>,
    approved_only: bool,
    groups: BTreeMap<Vec<Option<String>>, Group>,
}

#[derive(Debug)]
struct Group {
    key: Vec<Option<Value>>,
    rows: u64,
    parts: Vec<Part>,
}

/// The state of an aggregate.
#[derive(Debug, Clone, Default)]
struct Part {
    counted: u64,
    sum: Option<Rational>,
    /// The least or greatest value: a number, or a date.
    extreme: Option<Extreme>,
}

#[derive(Debug, Clone, PartialEq)]
enum Extreme {
    Number(Rational),
    Date(String),
}

impl TableQuery {
    /// Checks what depends on no table.
    ///
    /// # Errors
    /// `INVALID_FIELD`
    pub fn check(&self) -> Result<()> {
        if self.group_by.len() > TABLE_GROUP_COLUMNS_MAX {
            return Err(Error::invalid_field("group_by", format!("has more than {TABLE_GROUP_COLUMNS_MAX} elements")));
        }
        if self.aggregates.is_empty() || self.aggregates.len() > TABLE_AGGREGATES_MAX {
            let problem = format!("must have 1 to {TABLE_AGGREGATES_MAX} elements");
            return Err(Error::invalid_field("aggregates", problem));
        }
        if self.filter.len() > TABLE_FILTER_COLUMNS_MAX {
            return Err(Error::invalid_field("filter", format!("has more than {TABLE_FILTER_COLUMNS_MAX} columns")));
        }
        let lacks_column =
            |(_, one): &(usize, &Aggregate)| one.column.is_none() && one.function != AggregateFunction::Count;
        match self.aggregates.iter().enumerate().find(lacks_column) {
            Some((index, Aggregate { function, .. })) => {
                let problem = format!("is required for {}", function.as_str());
                Err(Error::invalid_field(format!("aggregates[{index}].column"), problem))
            }
            None => Ok(()),
        }
    }
}

impl Aggregator {
    /// Checks a query.
    ///
    /// # Errors
    /// `INVALID_FIELD`; `NOT_FOUND` for an unknown column.
    pub fn new(stack: &Stack, query: TableQuery) -> Result<Self> {
        query.check()?;
        let TableQuery { group_by, aggregates, filter, approved_only } = query;
        let column = |name: &String| stack.column(name).cloned();
        let group_by = group_by.iter().map(column).collect::<Result<_>>()?;
        let resolve = |(index, Aggregate { function, column: name }): (usize, Aggregate)| {
            let Some(name) = name else { return Ok((function, None)) };
            let found = column(&name)?;
            let kind = found.definition.kind;
            if !function.is_defined_for(kind) {
                let problem = format!("{} is not defined for the type {}", function.as_str(), kind.as_str());
                return Err(Error::invalid_field(format!("aggregates[{index}].column"), problem));
            }
            Ok((function, Some(found)))
        };
        let aggregates = aggregates.into_iter().enumerate().map(resolve).collect::<Result<_>>()?;
        let condition = |(name, value): (String, Value)| {
            let found = column(&name)?;
            let wanted = found.checked_value(&format!("filter.{name}"), &value)?;
            let wanted = wanted.map(|value| comparable(&found, &value));
            Ok::<_, Error>((found, wanted))
        };
        let filter = filter.into_iter().map(condition).collect::<Result<_>>()?;
        Ok(Self { group_by, aggregates, filter, approved_only, groups: BTreeMap::new() })
    }

    /// Adds a row, unless the filter excludes it.
    ///
    /// # Errors
    /// `TOO_LARGE` beyond [`TABLE_GROUPS_MAX`], or if a number exceeds exact arithmetic.
    pub fn add(&mut self, row: &StackRow) -> Result<()> {
        let approved_only = self.approved_only;
        let is_selected = |(column, wanted): &(Column, Option<String>)| {
            counted(row, column, approved_only).map(|value| comparable(column, value)) == *wanted
        };
        if !self.filter.iter().all(is_selected) {
            return Ok(());
        }
        let key: Vec<Option<&Value>> = self.group_by.iter().map(|column| counted(row, column, approved_only)).collect();
        let texts: Vec<Option<String>> = key
            .iter()
            .zip(&self.group_by)
            .map(|(value, column)| value.map(|value| comparable(column, value)))
            .collect();
        if !self.groups.contains_key(&texts) && self.groups.len() >= TABLE_GROUPS_MAX {
            let message = format!("the table has more than {TABLE_GROUPS_MAX} groups; group by fewer columns");
            return Err(Error::precondition(Reason::TooLarge, message));
        }
        let group = self.groups.entry(texts).or_insert_with(|| Group {
            key: key.into_iter().map(Option::<&Value>::cloned).collect(),
            rows: 0,
            parts: vec![Part::default(); self.aggregates.len()],
        });
        group.rows += 1;
        for (part, (function, column)) in group.parts.iter_mut().zip(&self.aggregates) {
            let Some(column) = column else {
                part.counted += 1;
                continue;
            };
            if let Some(value) = counted(row, column, approved_only) {
                part.counted += 1;
                let added = part.add(*function, value);
                added.ok_or_else(|| {
                    let message = format!("the numbers of the column {:?} exceed exact arithmetic", column.name());
                    Error::precondition(Reason::TooLarge, message)
                })?;
            }
        }
        Ok(())
    }

    /// Returns the groups in the order of their keys. Without columns that group, there is one group, also for a table without
    /// rows.
    ///
    /// # Errors
    /// `TOO_LARGE` if a number exceeds exact arithmetic.
    pub fn finish(self) -> Result<Vec<AggregatedGroup>> {
        let Self { group_by, aggregates, groups, .. } = self;
        let mut groups: Vec<Group> = groups.into_values().collect();
        if group_by.is_empty() && groups.is_empty() {
            groups.push(Group { key: Vec::new(), rows: 0, parts: vec![Part::default(); aggregates.len()] });
        }
        let finished = |Group { key, rows, parts }: Group| {
            let values = parts.into_iter().zip(&aggregates).map(|(part, (function, _))| part.finish(*function, rows));
            let values = values.collect::<Option<_>>();
            let too_large = || Error::precondition(Reason::TooLarge, "a result exceeds exact arithmetic");
            Ok(AggregatedGroup { key, rows, values: values.ok_or_else(too_large)? })
        };
        groups.into_iter().map(finished).collect()
    }
}

/// Returns the value of a row that counts.
fn counted<'a>(row: &'a StackRow, column: &Column, approved_only: bool) -> Option<&'a Value> {
    let cell = row.cells.get(&column.number)?;
    let is_counted = !approved_only || cell.state() == CellState::Approved;
    cell.counted_value(column).filter(|_| is_counted)
}

/// Returns a text that is equal for equal values of a column.
pub(super) fn comparable(column: &Column, value: &Value) -> String {
    let number = value.as_number().filter(|_| column.definition.kind.is_numeric());
    let decimal = number.and_then(Rational::of_number).and_then(|number| number.decimal(PLACES));
    decimal.map_or_else(|| value.to_string(), |(text, _)| text)
}

impl Part {
    /// Adds a value. None: the number exceeds exact arithmetic.
    fn add(&mut self, function: AggregateFunction, value: &Value) -> Option<()> {
        match function {
            AggregateFunction::Count => {}
            AggregateFunction::Sum | AggregateFunction::Average => {
                let number = Rational::of_number(value.as_number()?)?;
                self.sum = Some(self.sum.unwrap_or(Rational::ZERO).plus(number)?);
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                let new = match value {
                    Value::Number(number) => Extreme::Number(Rational::of_number(number)?),
                    other => Extreme::Date(other.as_str()?.to_owned()),
                };
                let wanted = if function == AggregateFunction::Min { Ordering::Less } else { Ordering::Greater };
                let is_replaced = match &self.extreme {
                    None => true,
                    Some(old) => new.compared_with(old)? == wanted,
                };
                if is_replaced {
                    self.extreme = Some(new);
                }
            }
        }
        Some(())
    }

    /// Returns the result. None: the number exceeds exact arithmetic.
    fn finish(self, function: AggregateFunction, rows: u64) -> Option<AggregateValue> {
        let Self { counted, sum, extreme } = self;
        let number = match (function, sum, extreme) {
            (AggregateFunction::Count, ..) => Some((counted.to_string(), true)),
            (AggregateFunction::Sum, Some(sum), _) => Some(sum.decimal(PLACES)?),
            (AggregateFunction::Average, Some(sum), _) => {
                let count = Rational::whole(usize::try_from(counted).ok()?)?;
                Some(sum.divided_by(count)?.decimal(PLACES)?)
            }
            (_, _, Some(Extreme::Number(number))) => Some(number.decimal(PLACES)?),
            (_, _, Some(Extreme::Date(date))) => Some((date, true)),
            _ => None,
        };
        let (value, is_exact) = number.map_or((None, true), |(text, is_exact)| (Some(text), is_exact));
        Some(AggregateValue { value, is_exact, counted, skipped: rows.saturating_sub(counted) })
    }
}

impl Extreme {
    fn compared_with(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) if one == other => Some(Ordering::Equal),
            (Self::Number(one), Self::Number(other)) => {
                Some(if one.is_less(*other)? { Ordering::Less } else { Ordering::Greater })
            }
            (Self::Date(one), Self::Date(other)) => Some(one.cmp(other)),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
