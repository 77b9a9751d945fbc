//! The evaluation of a grid: the check of the request, and the selection and order of rows. No I/O.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use folio_resources::folded;
use folio_types::{Error, Result, Timestamp, limits};

use super::columns::{Cell, Column, ColumnKind};
use super::{FILTERS_MAX, Grid, GridFilter, GridOperator, SORT_KEYS_MAX, VALUES_MAX};

/// The names of resources by their ids. An id without a name, such as that of a deleted resource, has no entry.
pub(super) type Names = HashMap<String, String>;

/// A row of a list: the parts of an item that a grid compares.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) created_at: Timestamp,
    /// The values of [`CheckedGrid::columns`].
    pub(super) cells: Vec<Cell>,
}

/// A valid grid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckedGrid {
    /// The columns that the grid uses.
    pub(super) columns: Vec<Column>,
    /// Folded.
    name_search: Option<String>,
    /// Positions in `columns`. True: descending.
    sort: Vec<(usize, bool)>,
    /// Positions in `columns`.
    filters: Vec<(usize, Test)>,
    matches_any: bool,
    /// All must hold. Positions in `columns`.
    required: Vec<(usize, Test)>,
}

/// A condition on a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Test {
    /// True: the cell must not have the property.
    is_negated: bool,
    property: Property,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Property {
    /// Folded text.
    Contains(String),
    StartsWith(String),
    EndsWith(String),
    /// Text that is compared including case.
    Equals(String),
    AnyOf(Vec<String>),
    Empty,
    /// From a time on, and before another one. None: unbounded.
    Within(Option<Timestamp>, Option<Timestamp>),
}

/// The value of a cell for sorting. An empty one precedes all others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SortValue {
    Text(String),
    Time(Timestamp),
}

impl CheckedGrid {
    /// Checks a grid for a list with these columns. `required`: filters that must hold in addition to those of the grid.
    ///
    /// # Errors
    /// `INVALID_FIELD` of a part of `grid`.
    pub(super) fn new(grid: &Grid, required: &[GridFilter], known: &[Column]) -> Result<Self> {
        let mut checked = Self {
            columns: Vec::new(),
            name_search: None,
            sort: Vec::new(),
            filters: Vec::new(),
            matches_any: grid.any,
            required: Vec::new(),
        };
        if !grid.name_search.trim().is_empty() {
            check_text("grid.name_search", &grid.name_search)?;
            checked.name_search = Some(folded(&grid.name_search));
        }
        at_most("grid.sort", grid.sort.len(), SORT_KEYS_MAX)?;
        at_most("grid.filters", grid.filters.len(), FILTERS_MAX)?;
        for (at, key) in grid.sort.iter().enumerate() {
            let column = checked.position(&format!("grid.sort[{at}].field"), &key.field, known)?;
            checked.sort.push((column, key.descending));
        }
        for (at, filter) in grid.filters.iter().enumerate() {
            let test = checked.test(&format!("grid.filters[{at}]"), filter, known)?;
            checked.filters.push(test);
        }
        for filter in required {
            let test = checked.test("filter", filter, known)?;
            checked.required.push(test);
        }
        Ok(checked)
    }

    fn test(&mut self, path: &str, filter: &GridFilter, known: &[Column]) -> Result<(usize, Test)> {
        let column = self.position(&format!("{path}.field"), &filter.field, known)?;
        let kind = self.columns.get(column).map_or(ColumnKind::Text, |column| column.kind);
        Ok((column, Test::new(path, filter, kind)?))
    }

    /// Returns the position of a column in `columns`, to which it is added.
    fn position(&mut self, path: &str, name: &str, known: &[Column]) -> Result<usize> {
        if let Some(found) = self.columns.iter().position(|column| column.name == name) {
            return Ok(found);
        }
        let Some(column) = known.iter().find(|column| column.name == name) else {
            let names: Vec<&str> = known.iter().map(|column| column.name).collect();
            return Err(Error::invalid_field(path, format!("must be one of {}", names.join(", "))));
        };
        self.columns.push(*column);
        Ok(self.columns.len() - 1)
    }

    /// Returns the positions of the rows that match, in order.
    pub(super) fn select(&self, rows: &[Row], names: &Names) -> Vec<usize> {
        let mut found: Vec<_> = rows
            .iter()
            .enumerate()
            .filter_map(|(position, row)| {
                let rank = self.rank(row)?;
                self.matches(row, names).then(|| (rank, self.sort_values(row, names), row, position))
            })
            .collect();
        found.sort_by(|one, other| {
            let (ranks, values) = (one.0.cmp(&other.0), self.compare(&one.1, &other.1));
            let newest_first = (other.2.created_at, &other.2.id).cmp(&(one.2.created_at, &one.2.id));
            ranks.then(values).then(newest_first)
        });
        found.into_iter().map(|(.., position)| position).collect()
    }

    /// Returns the rank of a name in a search: equal names, then names that begin with the text, then others that contain it.
    /// None: the name does not contain it.
    fn rank(&self, row: &Row) -> Option<u8> {
        let Some(search) = &self.name_search else { return Some(0) };
        let name = folded(&row.name);
        match name.find(search.as_str())? {
            0 if name.len() == search.len() => Some(0),
            0 => Some(1),
            _ => Some(2),
        }
    }

    fn matches(&self, row: &Row, names: &Names) -> bool {
        let holds = |(column, test): &(usize, Test)| row.cells.get(*column).is_some_and(|cell| test.holds(cell, names));
        let is_selected = match self.matches_any && !self.filters.is_empty() {
            true => self.filters.iter().any(holds),
            false => self.filters.iter().all(holds),
        };
        is_selected && self.required.iter().all(holds)
    }

    fn sort_values(&self, row: &Row, names: &Names) -> Vec<SortValue> {
        let ordered = |column: usize, text: &str| match self.columns.get(column) {
            Some(column) => column.sort_text(text),
            None => folded(text),
        };
        let value = |(column, _): &(usize, bool)| match row.cells.get(*column) {
            Some(Cell::Text(text)) => SortValue::Text(ordered(*column, text)),
            Some(Cell::Time(at)) => SortValue::Time(*at),
            Some(Cell::References(ids)) => {
                let mut texts: Vec<String> = ids.iter().map(|id| folded(names.get(id).unwrap_or(id))).collect();
                texts.sort_unstable();
                SortValue::Text(texts.join("\0"))
            }
            None => SortValue::Text(String::new()),
        };
        self.sort.iter().map(value).collect()
    }

    fn compare(&self, one: &[SortValue], other: &[SortValue]) -> Ordering {
        let keys = self.sort.iter().zip(one.iter().zip(other));
        let ordered =
            keys.map(|((_, is_descending), (one, other))| if *is_descending { other.cmp(one) } else { one.cmp(other) });
        ordered.fold(Ordering::Equal, Ordering::then)
    }
}

impl Test {
    fn new(path: &str, filter: &GridFilter, kind: ColumnKind) -> Result<Self> {
        use GridOperator as Op;
        let GridFilter { operator, values, .. } = filter;
        let values_path = format!("{path}.values");
        at_most(&values_path, values.len(), VALUES_MAX)?;
        for value in values {
            check_text(&values_path, value)?;
        }
        let is_time = kind == ColumnKind::Time;
        let one = || match values.as_slice() {
            [value] => Ok(value.as_str()),
            _ => Err(Error::invalid_field(&values_path, "must have one value for this operator")),
        };
        let named_period = || {
            let problem = "must be a date such as 2026-01-31, or a time such as 2026-01-31T08:15:00Z";
            period(one()?).ok_or_else(|| Error::invalid_field(&values_path, problem))
        };
        let (is_negated, property) = match operator {
            Op::IsEmpty | Op::IsNotEmpty if !values.is_empty() => {
                return Err(Error::invalid_field(&values_path, "must be empty for this operator"));
            }
            Op::IsEmpty => (false, Property::Empty),
            Op::IsNotEmpty => (true, Property::Empty),
            Op::On | Op::NotOn if is_time => {
                let (start, end) = named_period()?;
                (*operator == Op::NotOn, Property::Within(Some(start), Some(end)))
            }
            Op::After if is_time => (false, Property::Within(Some(named_period()?.1), None)),
            Op::OnOrAfter if is_time => (false, Property::Within(Some(named_period()?.0), None)),
            Op::Before if is_time => (false, Property::Within(None, Some(named_period()?.0))),
            Op::OnOrBefore if is_time => (false, Property::Within(None, Some(named_period()?.1))),
            Op::Contains if !is_time => (false, Property::Contains(folded(one()?))),
            Op::DoesNotContain if !is_time => (true, Property::Contains(folded(one()?))),
            Op::StartsWith if !is_time => (false, Property::StartsWith(folded(one()?))),
            Op::EndsWith if !is_time => (false, Property::EndsWith(folded(one()?))),
            Op::Equals if !is_time => (false, Property::Equals(one()?.to_owned())),
            Op::DoesNotEqual if !is_time => (true, Property::Equals(one()?.to_owned())),
            Op::IsAnyOf if !is_time && values.is_empty() => {
                return Err(Error::invalid_field(&values_path, "must have at least one value"));
            }
            Op::IsAnyOf if !is_time => (false, Property::AnyOf(values.clone())),
            _ => {
                let expected = if is_time { "times" } else { "texts" };
                let problem = format!("must be an operator for {expected}, or IS_EMPTY or IS_NOT_EMPTY");
                return Err(Error::invalid_field(format!("{path}.operator"), problem));
            }
        };
        Ok(Self { is_negated, property })
    }

    fn holds(&self, cell: &Cell, names: &Names) -> bool {
        let has_property = match cell {
            Cell::Text(text) => self.property.is_of_text(text),
            Cell::Time(at) => self.property.is_of_time(*at),
            Cell::References(ids) => self.property.is_of_references(ids, names),
        };
        has_property != self.is_negated
    }
}

impl Property {
    fn is_of_text(&self, text: &str) -> bool {
        match self {
            Self::Contains(part) => folded(text).contains(part),
            Self::StartsWith(part) => folded(text).starts_with(part),
            Self::EndsWith(part) => folded(text).ends_with(part),
            Self::Equals(value) => text == value,
            Self::AnyOf(values) => values.iter().any(|value| value == text),
            Self::Empty => text.is_empty(),
            Self::Within(..) => false,
        }
    }

    fn is_of_time(&self, at: Timestamp) -> bool {
        match self {
            Self::Within(start, end) => start.is_none_or(|start| start <= at) && end.is_none_or(|end| at < end),
            _ => false,
        }
    }

    /// Compares texts with the names of the resources, without regard to case; [`Self::AnyOf`] also with their ids.
    fn is_of_references(&self, ids: &[String], names: &Names) -> bool {
        let ignoring_case = match self {
            Self::Empty => return ids.is_empty(),
            Self::AnyOf(values) if ids.iter().any(|id| values.contains(id)) => return true,
            Self::AnyOf(values) => Self::AnyOf(values.iter().map(|value| folded(value)).collect()),
            Self::Equals(value) => Self::Equals(folded(value)),
            other => other.clone(),
        };
        ids.iter().filter_map(|id| names.get(id)).any(|name| ignoring_case.is_of_text(&folded(name)))
    }
}

fn at_most(path: &str, count: usize, max: usize) -> Result<()> {
    if count > max { Err(Error::invalid_field(path, format!("must have at most {max} entries"))) } else { Ok(()) }
}

/// Checks a text that rows are compared with. No row has a longer text than a description.
fn check_text(path: &str, text: &str) -> Result<()> {
    if text.trim().is_empty() || text.chars().count() > limits::SEARCH_CHARS {
        return Err(Error::invalid_field(path, format!("must have 1 to {} characters", limits::SEARCH_CHARS)));
    }
    Ok(())
}

/// Returns the period that a date or time names: a day, a minute if the time has no seconds, otherwise a second. Without a
/// zone, the time is in UTC. None: the text is neither.
fn period(text: &str) -> Option<(Timestamp, Timestamp)> {
    if text.len() == "2026-01-31".len() {
        let start: Timestamp = format!("{text}T00:00:00Z").parse().ok()?;
        return Some((start, start.checked_add(limits::DAY).ok()?));
    }
    let start = text.parse::<Timestamp>().or_else(|_| format!("{text}Z").parse()).ok()?;
    let time = text.split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
    let local = time.split(['+', '-', 'Z', 'z']).next().unwrap_or_default();
    let length = if local.matches(':').count() < 2 { Duration::from_secs(60) } else { Duration::from_secs(1) };
    Some((start, start.checked_add(length).ok()?))
}

#[cfg(test)]
mod tests;
