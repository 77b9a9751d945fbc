//! Rows of the table of a stack: one for each document, with a cell for each column.
//!
//! ```text
//!            Fill              Edit (any state)
//!  (absent) ─────► Empty ─────────────┐
//!     │              Filled ──────────┼─► Edited
//!     └────────────►   │              │     │
//!        Review: approve, reject      └─────┤
//!                      └─► Approved, Rejected ◄┘     Review: reset returns to the state before the decision
//! ```
//!
//! An agent fills cells. It never replaces a value that a person entered or approved, as long as the value has the form that
//! the column expects.

use std::collections::BTreeMap;

use folio_types::op::{OpKey, OpResult, Write};
use folio_types::{DocumentId, Error, OrgId, Reason, Result, StackId, Timestamp, TurnId, UserId, named_enum, plain_id};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::{changed_function, common_functions};
use crate::{Citation, Column, Condition, CreationPeriod, FieldDecision, ListRow, Plan, Resource, parent_term, term};

/// Maximum number of rows of a table.
// proto: Stack "at most {} documents"
// proto: Stack.too_many_documents "more than {} documents"
// proto: UpdateStackRequest.add_document_ids "at most {} documents"
pub const STACK_ROWS_MAX: usize = 10_000;

plain_id!(StackRowId, "srw", "stack row");

impl StackRowId {
    /// Returns the id of the row of a document. A table has one row for each document.
    pub fn of(stack: &StackId, document: &DocumentId) -> Self {
        Self::derive(&[stack.as_str(), document.as_str()])
    }
}

named_enum! {
    pub enum CellState {
        /// An agent found no value in the document, or a person removed the value.
        Empty = "empty",
        /// An agent filled the value.
        Filled = "filled",
        /// A person entered the value.
        Edited = "edited",
        /// A person or the review rule approved the value.
        Approved = "approved",
        /// A person rejected the value.
        Rejected = "rejected",
    }
}

/// The origin of the value of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellAuthor {
    Agent,
    Person,
}

/// The decision about the value of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellDecision {
    pub decision: FieldDecision,
    /// The user that decided, or for whom the agent worked if the review rule decided.
    pub by: UserId,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_by_rule: bool,
    pub at: Timestamp,
}

/// The value of a document for a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// None: the document has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The confidence of the model, from 0 to 1. None: a person entered the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// The evidence for a value that an agent quoted. Its path is the name of the column when the cell was filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub citation: Option<Box<Citation>>,
    pub author: CellAuthor,
    /// The user that entered the value, or for whom the agent worked.
    pub by: UserId,
    /// The time at which the value was written.
    pub at: Timestamp,
    /// The revision of the column for which the value was written.
    pub revision: u32,
    /// The turn in which an agent wrote the value. None: a person entered the value, or the cell was stored by a version without turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<CellDecision>,
    /// True if a person must decide, because the review rule did not approve the value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_review: bool,
}

impl Cell {
    pub fn state(&self) -> CellState {
        match (&self.decision, self.author, &self.value) {
            (Some(found), ..) if found.decision == FieldDecision::Approved => CellState::Approved,
            (Some(_), ..) => CellState::Rejected,
            (None, CellAuthor::Person, Some(_)) => CellState::Edited,
            (None, CellAuthor::Agent, Some(_)) => CellState::Filled,
            (None, _, None) => CellState::Empty,
        }
    }

    /// Returns true if the cell waits for a person.
    pub fn is_waiting(&self) -> bool {
        self.needs_review && self.decision.is_none()
    }

    /// Returns true if a person entered the value or decided about it.
    fn is_decided_by_person(&self) -> bool {
        self.author == CellAuthor::Person || self.decision.as_ref().is_some_and(|found| !found.is_by_rule)
    }

    /// Returns the value that counts in aggregates and exports. None: there is none, it was rejected, or it has not the form that
    /// the column expects.
    pub fn counted_value(&self, column: &Column) -> Option<&Value> {
        let value = self.value.as_ref().filter(|_| self.state() != CellState::Rejected)?;
        matches!(column.value(value), Ok(Some(_))).then_some(value)
    }

    /// Returns true if no agent may replace the value: a person entered it or decided about it, and it has the form that the
    /// column expects. A rejected value of an earlier revision of the column may be replaced.
    pub fn is_protected(&self, column: &Column) -> bool {
        let fits = self.value.as_ref().is_none_or(|value| column.value(value).is_ok());
        let is_current = self.revision >= column.revision || self.state() != CellState::Rejected;
        self.is_decided_by_person() && fits && is_current
    }

    fn filled(write: &Write<StackRowChange>, new: &FilledCell, rule: Option<&CellRule>) -> Self {
        let FilledCell { revision, value, confidence, citation, .. } = new;
        let is_approved = rule.is_some_and(|rule| rule.approves(new));
        let decision = is_approved.then(|| CellDecision {
            decision: FieldDecision::Approved,
            by: write.by.clone(),
            is_by_rule: true,
            at: write.at,
        });
        Self {
            value: value.clone(),
            confidence: *confidence,
            citation: citation.clone(),
            author: CellAuthor::Agent,
            by: write.by.clone(),
            at: write.at,
            revision: *revision,
            turn: match &write.op {
                OpKey::Call(call) => Some(call.turn.clone()),
                OpKey::Request { .. } => None,
            },
            decision,
            needs_review: rule.is_some() && !is_approved && value.is_some(),
        }
    }

    fn edited(write: &Write<StackRowChange>, edit: &CellEdit) -> Self {
        Self {
            value: edit.value.clone(),
            confidence: None,
            citation: None,
            author: CellAuthor::Person,
            by: write.by.clone(),
            at: write.at,
            revision: edit.revision,
            turn: None,
            decision: None,
            needs_review: false,
        }
    }
}

/// Approves the values of agents without a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellRule {
    /// Minimum confidence of an approved value, from 0 to 1.
    pub min_confidence: f64,
    /// True if an approved value must have a citation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_citation: bool,
}

impl CellRule {
    /// # Errors
    /// `INVALID_FIELD` if the minimum is not from 0 to 1.
    pub fn checked(self, field: &str) -> Result<Self> {
        match (0.0..=1.0).contains(&self.min_confidence) {
            true => Ok(self),
            false => Err(Error::invalid_field(format!("{field}.min_confidence"), "must be from 0 to 1")),
        }
    }

    fn approves(&self, cell: &FilledCell) -> bool {
        cell.value.is_some()
            && cell.confidence.is_some_and(|confidence| confidence >= self.min_confidence)
            && (cell.citation.is_some() || !self.requires_citation)
    }
}

/// A value that an agent found.
#[derive(Debug, Clone, PartialEq)]
pub struct FilledCell {
    /// The number of the column.
    pub column: u32,
    /// The revision of the column.
    pub revision: u32,
    /// The canonical value. None: the document has no value.
    pub value: Option<Value>,
    pub confidence: Option<f64>,
    pub citation: Option<Box<Citation>>,
}

/// A value that a person enters.
#[derive(Debug, Clone, PartialEq)]
pub struct CellEdit {
    /// The number of the column.
    pub column: u32,
    /// The revision of the column.
    pub revision: u32,
    /// The canonical value. None: removes the value.
    pub value: Option<Value>,
    /// The columns of the table. Cells of columns that were removed from it are removed from the row.
    pub columns: Vec<Column>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StackRow {
    /// Derived from the stack and the document.
    pub id: StackRowId,
    pub org: OrgId,
    pub stack: StackId,
    pub document: DocumentId,
    /// The cells by the numbers of their columns. A column without a cell was not filled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cells: BTreeMap<u32, Cell>,
    /// The version of the text of the document that the newest citations refer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_generation: Option<Timestamp>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Incremented by every change. A write states the version that it expects.
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StackRowChange {
    Create {
        stack: StackId,
        document: DocumentId,
    },
    /// Writes values of an agent, and creates a missing row. Protected cells do not change: the caller has checked them, and a person
    /// may have changed a cell since. Neither do cells of a later revision of their column, which the caller has not read. Cells of
    /// removed columns are removed.
    Fill {
        stack: StackId,
        document: DocumentId,
        cells: Vec<FilledCell>,
        /// The columns of the table.
        columns: Vec<Column>,
        /// None: the values wait for no decision.
        rule: Option<CellRule>,
        text_generation: Option<Timestamp>,
    },
    Edit(CellEdit),
    /// Decides about the values of these columns. None: withdraws the decisions.
    Review {
        columns: Vec<u32>,
        decision: Option<FieldDecision>,
    },
    Delete,
}

/// All conditions that are set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackRowFilter {
    pub stack: Option<StackId>,
    pub document: Option<DocumentId>,
    /// The row has a cell in this state.
    pub cell_state: Option<CellState>,
    /// The row has a cell that waits for a decision.
    pub is_waiting_for_review: bool,
    pub created: Option<CreationPeriod>,
}

const DOCUMENT: &str = "document";
const CELL: &str = "cell";
/// The term of a row with a cell that waits for a decision.
const REVIEW: (&str, &str) = ("review", "waiting");

impl StackRow {
    fn new(id: &StackRowId, write: &Write<StackRowChange>, stack: &StackId, document: &DocumentId) -> Self {
        Self {
            id: id.clone(),
            org: write.org.clone(),
            stack: stack.clone(),
            document: document.clone(),
            cells: BTreeMap::new(),
            text_generation: None,
            created_by: write.by.clone(),
            created_at: write.at,
            updated_at: write.at,
            version: 1,
        }
    }

    /// Returns true if an agent must fill the cell of a column: it is absent, or it was written for an earlier revision of the
    /// column and is not protected.
    pub fn is_missing(&self, column: &Column) -> bool {
        let cell = self.cells.get(&column.number);
        cell.is_none_or(|cell| cell.revision < column.revision && !cell.is_protected(column))
    }

    /// Returns true if a cell waits for a person.
    pub fn is_waiting(&self) -> bool {
        self.cells.values().any(Cell::is_waiting)
    }

    /// Returns the number of cells in a state.
    pub fn count(&self, state: CellState) -> usize {
        self.cells.values().filter(|cell| cell.state() == state).count()
    }

    /// Removes the cells of columns that the table no longer has. A column that is newer than all of `columns` may have been added
    /// since the caller read them.
    fn without_removed(mut self, columns: &[Column]) -> Self {
        let newest = columns.iter().map(|column| column.number).max();
        let is_current = |number: u32| columns.iter().any(|column| column.number == number);
        self.cells.retain(|number, _| newest.is_none_or(|newest| *number > newest) || is_current(*number));
        self
    }

    fn filled(
        self,
        write: &Write<StackRowChange>,
        (cells, columns): (&[FilledCell], &[Column]),
        (rule, text_generation): (Option<&CellRule>, Option<Timestamp>),
    ) -> Self {
        let mut row = self.without_removed(columns);
        for new in cells {
            let column = columns.iter().find(|column| column.number == new.column);
            let stored = row.cells.get(&new.column);
            let is_protected = stored.zip(column).is_some_and(|(cell, column)| cell.is_protected(column));
            let is_newer = stored.is_some_and(|cell| cell.revision > new.revision);
            if !is_protected && !is_newer {
                row.cells.insert(new.column, Cell::filled(write, new, rule));
            }
        }
        row.text_generation = text_generation.or(row.text_generation);
        row
    }

    /// # Errors
    /// `NOT_FOUND` if a column has no cell; `INVALID_FIELD` for the approval or the rejection of a cell that was never filled.
    fn reviewed(
        mut self,
        write: &Write<StackRowChange>,
        columns: &[u32],
        decision: Option<FieldDecision>,
    ) -> Result<Self> {
        for number in columns {
            let Some(cell) = self.cells.get_mut(number) else {
                let message = "a cell that was not filled has no value to review; edit the cell instead";
                return Err(Error::precondition(Reason::InvalidField, message));
            };
            let is_same = |found: &CellDecision| Some(found.decision) == decision && !found.is_by_rule;
            if !cell.decision.as_ref().is_some_and(is_same) {
                cell.decision = decision.map(|decision| CellDecision {
                    decision,
                    by: write.by.clone(),
                    is_by_rule: false,
                    at: write.at,
                });
            }
        }
        Ok(self)
    }

    changed_function!();
}

impl Resource for StackRow {
    type Change = StackRowChange;
    type Filter = StackRowFilter;
    const KIND: &'static str = "stack_row";
    const DELETE: StackRowChange = StackRowChange::Delete;
    const HAS_PARENT: bool = true;

    common_functions!(StackRowId);

    fn parent(&self) -> Option<String> {
        Some(self.stack.to_string())
    }

    fn list_row(&self) -> ListRow {
        let states = CellState::ALL.iter().copied().filter(|state| self.count(*state) > 0);
        let states = states.map(|state| term(CELL, state.as_str()));
        let review = self.is_waiting().then(|| term(REVIEW.0, REVIEW.1));
        let own = [parent_term(&self.stack), term(DOCUMENT, &self.document)];
        ListRow {
            id: self.id.to_string(),
            terms: own.into_iter().chain(states).chain(review).collect(),
            parent: Some(self.stack.to_string()),
            created_at: Some(self.created_at),
            ..ListRow::default()
        }
    }

    fn parent_in(filter: &StackRowFilter) -> Option<String> {
        filter.stack.as_ref().map(ToString::to_string)
    }

    fn conditions(filter: &StackRowFilter) -> Vec<Condition> {
        let StackRowFilter { stack, document, cell_state, is_waiting_for_review, created } = filter;
        let stack = stack.iter().map(parent_term);
        let document = document.iter().map(|document| term(DOCUMENT, document));
        let state = cell_state.iter().map(|state| term(CELL, state.as_str()));
        let review = is_waiting_for_review.then(|| term(REVIEW.0, REVIEW.1));
        let terms = stack.chain(document).chain(state).chain(review);
        terms.map(|term| Condition::AnyTerm(vec![term])).chain(created.map(Condition::Created)).collect()
    }

    fn apply(id: &StackRowId, write: &Write<StackRowChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |row: Self| {
            let result = OpResult::Resource { id: row.id.to_string(), name: row.document.to_string() };
            Ok(Plan { after: Some(row), result })
        };
        match (&write.change, before) {
            (StackRowChange::Create { stack, document }, None) => done(Self::new(id, write, stack, document)),
            (StackRowChange::Fill { stack, document, cells, columns, rule, text_generation }, before) => {
                let evidence = (rule.as_ref(), *text_generation);
                done(match before {
                    Some(before) => before.clone().filled(write, (cells, columns), evidence).changed(&before, write.at),
                    None => Self::new(id, write, stack, document).filled(write, (cells, columns), evidence),
                })
            }
            (StackRowChange::Edit(edit), Some(before)) => {
                let mut row = before.clone().without_removed(&edit.columns);
                let edited = Cell::edited(write, edit);
                let is_same = |cell: &Cell| {
                    cell.author == CellAuthor::Person && cell.value == edit.value && cell.revision == edit.revision
                };
                if !row.cells.get(&edit.column).is_some_and(is_same) {
                    row.cells.insert(edit.column, edited);
                }
                done(row.changed(&before, write.at))
            }
            (StackRowChange::Review { columns, decision }, Some(before)) => {
                done(before.clone().reviewed(write, columns, *decision)?.changed(&before, write.at))
            }
            (StackRowChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests;
