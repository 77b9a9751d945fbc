//! Conversions of stacks, their columns and their rows.

use folio_resources::{
    AutoFill, Cell, CellAuthor, CellRule, CellState, Column, ColumnType, FieldDecision, MemberRule, NewColumn, Stack,
    StackMembers, StackRow,
};
use folio_types::{Etag, Result};

use super::resource::citation;
use super::time;
use crate::fields::{self, text_of};
use crate::{json, v1};

same_variants!(ColumnType = v1::StackColumnType of "type": Text, Number, Integer, Boolean, Date, Enum);

same_variants!(CellState = v1::StackCellState of "state": Empty, Filled, Edited, Approved, Rejected);

impl From<&Stack> for v1::Stack {
    fn from(stack: &Stack) -> Self {
        let (document_ids, rule) = match &stack.members {
            StackMembers::Documents(documents) => (documents.iter().map(ToString::to_string).collect(), None),
            StackMembers::Rule(rule) => (Vec::new(), Some(rule.into())),
        };
        Self {
            stack_id: stack.id.to_string(),
            name: stack.name.clone(),
            description: stack.description.clone(),
            document_count: u32::try_from(document_ids.len()).unwrap_or(u32::MAX),
            document_ids,
            rule,
            columns: stack.columns.iter().map(Into::into).collect(),
            model: stack.model.clone().unwrap_or_default(),
            review_rule: stack.review_rule.as_ref().map(Into::into),
            auto_fill: stack
                .auto_fill
                .as_ref()
                .map(|auto_fill| v1::StackAutoFill { credit_budget: auto_fill.credit_budget }),
            complete_time: stack.completion.as_ref().map(|completion| time::to_proto(completion.at)),
            created_by: stack.created_by.to_string(),
            create_time: Some(time::to_proto(stack.created_at)),
            update_time: Some(time::to_proto(stack.updated_at)),
            etag: Etag::new(stack.version).to_string(),
            too_many_documents: false,
        }
    }
}

/// Returns a stack without the ids of its documents, as lists contain it.
pub fn stack_without_documents(stack: &Stack) -> v1::Stack {
    v1::Stack { document_ids: Vec::new(), ..stack.into() }
}

impl From<&MemberRule> for v1::StackMemberRule {
    fn from(rule: &MemberRule) -> Self {
        Self {
            tag_ids: rule.tags.iter().map(ToString::to_string).collect(),
            metadata: rule.metadata.clone().into_iter().collect(),
        }
    }
}

impl From<&CellRule> for v1::StackReviewRule {
    fn from(rule: &CellRule) -> Self {
        Self { min_confidence: rule.min_confidence, requires_citation: rule.requires_citation }
    }
}

impl From<v1::StackReviewRule> for CellRule {
    fn from(rule: v1::StackReviewRule) -> Self {
        Self { min_confidence: rule.min_confidence, requires_citation: rule.requires_citation }
    }
}

impl From<v1::StackAutoFill> for AutoFill {
    fn from(auto_fill: v1::StackAutoFill) -> Self {
        Self { credit_budget: auto_fill.credit_budget }
    }
}

impl From<&Column> for v1::StackColumn {
    fn from(column: &Column) -> Self {
        let NewColumn { name, kind, description, required, unit, values } = &column.definition;
        Self {
            name: name.clone(),
            r#type: v1::StackColumnType::from(*kind).into(),
            description: description.clone(),
            required: *required,
            unit: unit.clone().unwrap_or_default(),
            enum_values: values.clone(),
            revision: column.revision,
        }
    }
}

/// Parses the definition of a column. `field`: the path of the column in errors.
///
/// # Errors
/// `INVALID_FIELD` if the type is missing or unknown. The other values are checked by the operation.
pub fn new_column(field: &str, column: v1::StackColumn) -> Result<NewColumn> {
    let field = format!("{field}.type");
    let kind: v1::StackColumnType = fields::choice(&field, column.r#type)?;
    let missing = |_| folio_types::Error::invalid_field(&field, "is missing");
    Ok(NewColumn {
        name: column.name,
        kind: ColumnType::try_from(kind).map_err(missing)?,
        description: column.description,
        required: column.required,
        unit: Some(column.unit).filter(|unit| !unit.is_empty()),
        values: column.enum_values,
    })
}

/// Converts a row of a table with these columns.
pub fn stack_row(columns: &[Column], row: &StackRow, document_name: &str) -> v1::StackRow {
    let text_generation = text_of(row.text_generation.as_ref());
    let cell = |column: &Column| Some(cell(column, row.cells.get(&column.number)?, &text_generation));
    let missing = columns.iter().filter(|column| row.is_missing(column));
    v1::StackRow {
        stack_row_id: row.id.to_string(),
        stack_id: row.stack.to_string(),
        document_id: row.document.to_string(),
        document_name: document_name.to_owned(),
        cells: columns.iter().filter_map(cell).collect(),
        missing_columns: missing.map(|column| column.name().to_owned()).collect(),
        create_time: Some(time::to_proto(row.created_at)),
        update_time: Some(time::to_proto(row.updated_at)),
        etag: Etag::new(row.version).to_string(),
    }
}

fn cell(column: &Column, cell: &Cell, text_generation: &str) -> v1::StackCell {
    let decision = cell.decision.as_ref();
    let reviewer = decision.filter(|decision| !decision.is_by_rule);
    let is_approved_by_rule =
        decision.is_some_and(|decision| decision.is_by_rule && decision.decision == FieldDecision::Approved);
    v1::StackCell {
        column: column.name().to_owned(),
        value_json: cell.value.as_ref().map(json::text),
        state: v1::StackCellState::from(cell.state()).into(),
        confidence: cell.confidence,
        citation: cell.citation.as_ref().map(|found| citation(found, text_generation)),
        by_agent: cell.author == CellAuthor::Agent,
        user_id: cell.by.to_string(),
        update_time: Some(time::to_proto(cell.at)),
        approved_by_rule: is_approved_by_rule,
        reviewer_id: text_of(reviewer.map(|decision| &decision.by)),
        review_time: decision.map(|decision| time::to_proto(decision.at)),
        waiting: cell.is_waiting(),
    }
}
