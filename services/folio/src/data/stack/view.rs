//! Stacks and rows as JSON.

use folio_proto::v1;
use folio_resources::ColumnType;
use serde_json::{Map, Value, json};

use super::super::job::word;
use super::super::{parsed, time};

pub(crate) fn shown(stack: &v1::Stack) -> Value {
    let column = |column: &v1::StackColumn| {
        json!({
            "name": column.name, "type": type_name(column.r#type()), "description": column.description,
            "required": column.required, "unit": column.unit, "enum": column.enum_values,
        })
    };
    let members = match &stack.rule {
        Some(rule) => json!({ "tag_ids": rule.tag_ids, "metadata": rule.metadata }),
        None => json!({ "documents": stack.document_count }),
    };
    json!({
        "stack_id": stack.stack_id, "name": stack.name, "description": stack.description, "members": members,
        "columns": stack.columns.iter().map(column).collect::<Vec<_>>(), "model": stack.model,
        "auto_fill": stack.auto_fill.is_some(), "min_confidence": stack.review_rule.as_ref().map(|rule| rule.min_confidence),
        "complete_time": time(stack.complete_time.as_ref()), "created_by": stack.created_by,
        "create_time": time(stack.create_time.as_ref()), "update_time": time(stack.update_time.as_ref()),
        "etag": stack.etag,
    })
}

pub(super) fn type_name(kind: v1::StackColumnType) -> &'static str {
    ColumnType::try_from(kind).map_or("", ColumnType::as_str)
}

pub(crate) fn row(row: &v1::StackRow) -> Value {
    let value = |cell: &v1::StackCell| {
        let value = cell.value_json.as_deref().map_or(Value::Null, parsed);
        (cell.column.clone(), value)
    };
    let state = |cell: &v1::StackCell| {
        (cell.column.clone(), Value::from(word(cell.state().as_str_name(), "STACK_CELL_STATE_")))
    };
    json!({
        "stack_row_id": row.stack_row_id, "document_id": row.document_id, "document": row.document_name,
        "values": row.cells.iter().map(value).collect::<Map<_, _>>(),
        "states": row.cells.iter().map(state).collect::<Map<_, _>>(), "missing_columns": row.missing_columns,
        "waiting": row.cells.iter().filter(|cell| cell.waiting).count(),
        "update_time": time(row.update_time.as_ref()), "etag": row.etag,
    })
}
