//! Serves `StackService`.

use folio_operations::documents::Content;
use folio_operations::exports::ExportFormat;
use folio_operations::stack_rows::{GetStackRow, ListStackRows, ReviewStackCells, RowView, UpdateStackCell};
use folio_operations::stack_tables::{
    AskTable, ExportTable, GetStackConflicts, RequestedAggregate, TableAnswer, TableChange, WatchTable,
};
use folio_operations::stacks::{
    CreateStack, CreateStackThread, DefineStackColumns, DeleteStack, FillStack, GetStack, ListStacks, StackView,
    UpdateStack, UpdateStackColumn,
};
use folio_operations::{Call, Operation};
use folio_proto::{field_decision, fields, json, new_column, stack_row, stack_without_documents, v1};
use folio_resources::{CELL_BYTES, MemberRule, NewColumn, STACK_COLUMNS_MAX, STACK_ROWS_MAX, StackMembers};
use folio_tools::stack::{AggregateFunction, AggregatedGroup, TableConflict};
use folio_types::{DocumentId, Error, Result, ThreadId};
use futures::TryStreamExt as _;
use serde_json::Value;
use tonic::Request;
use v1::stack_service_server::StackService;

use super::handler::{change, delete, list, read};
use super::job::to_proto as job_to_proto;
use super::{Api, ResponseStream, RpcResult};

/// Maximum size of a value in a request: that of a cell, and the space for another spelling of its characters.
const VALUE_BYTES: usize = 6 * CELL_BYTES;

#[tonic::async_trait]
impl StackService for Api {
    type WatchTableStream = ResponseStream<v1::WatchTableResponse>;
    type ExportTableStream = ResponseStream<v1::ExportTableResponse>;

    change!(create_stack, CreateStackRequest, CreateStackResponse { stack }, |request| {
        let stack = fields::required("stack", request.stack)?;
        CreateStack {
            members: members(&stack.document_ids, stack.rule)?,
            model: fields::optional_word("stack.model", &stack.model)?,
            review_rule: stack.review_rule.map(Into::into),
            auto_fill: stack.auto_fill.map(Into::into),
            name: stack.name,
            description: stack.description,
        }
    });

    read!(
        get_stack,
        GetStackRequest,
        GetStackResponse,
        |request| GetStack { stack_id: fields::id("stack_id", &request.stack_id)? },
        |found: StackView| {
            let too_many_documents = found.has_too_many_documents;
            v1::GetStackResponse { stack: Some(v1::Stack { too_many_documents, ..(&found.stack).into() }) }
        }
    );

    list!(list_stacks, ListStacksRequest, ListStacks {}, ListStacksResponse { stacks: stack_without_documents });

    change!(update_stack, UpdateStackRequest, UpdateStackResponse { stack }, |request| {
        let stack = fields::required("stack", request.stack)?;
        let set = [
            ("name", !stack.name.is_empty()),
            ("description", !stack.description.is_empty()),
            ("document_ids", !stack.document_ids.is_empty()),
            ("rule", stack.rule.is_some()),
            ("model", !stack.model.is_empty()),
            ("review_rule", stack.review_rule.is_some()),
            ("auto_fill", stack.auto_fill.is_some()),
            ("add_document_ids", !request.add_document_ids.is_empty()),
            ("remove_document_ids", !request.remove_document_ids.is_empty()),
        ];
        let mask = fields::mask(request.update_mask.as_ref(), &set)?;
        let has_members = mask.has("document_ids") || mask.has("rule");
        let members = has_members.then(|| members(&stack.document_ids, stack.rule)).transpose()?;
        let model = mask.take("model", &stack.model).map(|model| fields::optional_word("stack.model", model));
        UpdateStack {
            stack_id: fields::id("stack.stack_id", &stack.stack_id)?,
            etag: fields::etag("stack.etag", &stack.etag)?,
            members,
            add_document_ids: documents("add_document_ids", &request.add_document_ids)?,
            remove_document_ids: documents("remove_document_ids", &request.remove_document_ids)?,
            model: model.transpose()?,
            review_rule: mask.take("review_rule", stack.review_rule.map(Into::into)),
            auto_fill: mask.take("auto_fill", stack.auto_fill.map(Into::into)),
            name: mask.take("name", stack.name),
            description: mask.take("description", stack.description),
        }
    });

    delete!(delete_stack, DeleteStackRequest, DeleteStack { stack_id }, DeleteStackResponse);

    change!(define_stack_columns, DefineStackColumnsRequest, DefineStackColumnsResponse { stack }, |request| {
        DefineStackColumns {
            stack_id: fields::id("stack_id", &request.stack_id)?,
            columns: columns(request.columns)?,
            etag: fields::etag("etag", &request.etag)?,
        }
    });

    change!(update_stack_column, UpdateStackColumnRequest, UpdateStackColumnResponse { stack }, |request| {
        UpdateStackColumn {
            stack_id: fields::id("stack_id", &request.stack_id)?,
            column: new_column("column", fields::required("column", request.column)?)?,
            column_name: request.column_name,
            etag: fields::etag("etag", &request.etag)?,
        }
    });

    change!(
        create_stack_thread,
        CreateStackThreadRequest,
        CreateStackThreadResponse,
        |request| CreateStackThread {
            stack_id: fields::id("stack_id", &request.stack_id)?,
            model: fields::optional_word("model", &request.model)?,
        },
        |thread: ThreadId| v1::CreateStackThreadResponse { thread_id: thread.to_string() }
    );

    change!(fill_stack, FillStackRequest, FillStackResponse { job: job_to_proto }, |request| FillStack {
        stack_id: fields::id("stack_id", &request.stack_id)?,
        model: fields::optional_word("model", &request.model)?,
        credit_budget: request.credit_budget,
    });

    list!(list_stack_rows, ListStackRowsRequest, ListStackRows { stack_id }, ListStackRowsResponse { rows: row });

    read!(
        get_stack_row,
        GetStackRowRequest,
        GetStackRowResponse,
        |request| GetStackRow {
            stack_id: fields::id("stack_id", &request.stack_id)?,
            document_id: fields::id("document_id", &request.document_id)?,
        },
        |found: RowView| v1::GetStackRowResponse { row: Some(row(&found)) }
    );

    change!(update_stack_cell, UpdateStackCellRequest, UpdateStackCellResponse { row: row }, |request| {
        UpdateStackCell {
            stack_id: fields::id("stack_id", &request.stack_id)?,
            document_id: fields::id("document_id", &request.document_id)?,
            value: value("value_json", &request.value_json)?,
            column: request.column,
            etag: fields::etag("etag", &request.etag)?,
        }
    });

    change!(review_stack_cells, ReviewStackCellsRequest, ReviewStackCellsResponse { row: row }, |request| {
        ReviewStackCells {
            stack_id: fields::id("stack_id", &request.stack_id)?,
            document_id: fields::id("document_id", &request.document_id)?,
            columns: request.columns,
            decision: field_decision("decision", request.decision)?,
            etag: fields::etag("etag", &request.etag)?,
        }
    });

    read!(
        get_stack_conflicts,
        GetStackConflictsRequest,
        GetStackConflictsResponse,
        |request| GetStackConflicts {
            stack_id: fields::id("stack_id", &request.stack_id)?,
            key_columns: request.key_columns,
            columns: request.columns,
        },
        |(conflicts, total): (Vec<TableConflict>, u64)| v1::GetStackConflictsResponse {
            conflicts: conflicts.into_iter().map(conflict).collect(),
            total_count: number(total),
        }
    );

    read!(
        ask_table,
        AskTableRequest,
        AskTableResponse,
        |request| AskTable {
            stack_id: fields::id("stack_id", &request.stack_id)?,
            aggregates: request.aggregates.into_iter().enumerate().map(aggregate).collect::<Result<_>>()?,
            group_by: request.group_by,
            filter: request.filter.into_iter().map(condition).collect::<Result<_>>()?,
            approved_only: request.approved_only,
        },
        answer
    );

    async fn watch_table(&self, request: Request<v1::WatchTableRequest>) -> RpcResult<Self::WatchTableStream> {
        let call = |request: v1::WatchTableRequest| {
            Ok(Call::new(WatchTable { stack_id: fields::id("stack_id", &request.stack_id)? }))
        };
        let response = |changes: <WatchTable as Operation>::Output| {
            self.watched(changes.map_ok(|change| v1::WatchTableResponse { change: Some(encode(&change)) }))
        };
        self.call(request, call, response).await
    }

    async fn export_table(&self, request: Request<v1::ExportTableRequest>) -> RpcResult<Self::ExportTableStream> {
        let call = |request: v1::ExportTableRequest| {
            Ok(Call::new(ExportTable {
                stack_id: fields::id("stack_id", &request.stack_id)?,
                format: format(request.format)?,
                has_details: request.include_details,
            }))
        };
        let response = |content: Content| {
            let chunks = content.into_stream().map_ok(|chunk| v1::ExportTableResponse { chunk: chunk.into() });
            self.transfer(chunks)
        };
        self.call(request, call, response).await
    }
}

fn documents(field: &str, ids: &[String]) -> Result<Vec<DocumentId>> {
    fields::ids(field, ids, STACK_ROWS_MAX)
}

/// Returns the members of a stack: those of the rule, or the listed documents.
///
/// # Errors
/// `INVALID_FIELD` if there are both.
fn members(document_ids: &[String], rule: Option<v1::StackMemberRule>) -> Result<StackMembers> {
    match rule {
        None => Ok(StackMembers::Documents(documents("stack.document_ids", document_ids)?)),
        Some(_) if !document_ids.is_empty() => {
            Err(Error::invalid_field("stack.document_ids", "must be empty if the stack has a rule"))
        }
        Some(rule) => Ok(StackMembers::Rule(MemberRule {
            tags: fields::tags("stack.rule.tag_ids", &rule.tag_ids)?,
            metadata: rule.metadata.into_iter().collect(),
        })),
    }
}

/// Bounds the number of columns before they are parsed.
fn columns(columns: Vec<v1::StackColumn>) -> Result<Vec<NewColumn>> {
    if columns.len() > STACK_COLUMNS_MAX {
        return Err(Error::invalid_field("columns", format!("has more than {STACK_COLUMNS_MAX} elements")));
    }
    let parse = |(index, column)| new_column(&format!("columns[{index}]"), column);
    columns.into_iter().enumerate().map(parse).collect()
}

/// Parses the value of a cell. Empty: null.
fn value(field: &str, text: &str) -> Result<Value> {
    if text.is_empty() { Ok(Value::Null) } else { json::parse(field, text, VALUE_BYTES) }
}

fn format(number: i32) -> Result<ExportFormat> {
    Ok(match fields::choice("format", number)? {
        v1::ExportFormat::Unspecified | v1::ExportFormat::JsonLines => ExportFormat::JsonLines,
        v1::ExportFormat::Json => ExportFormat::Json,
        v1::ExportFormat::Csv => ExportFormat::Csv,
        v1::ExportFormat::Xlsx => ExportFormat::Xlsx,
    })
}

fn aggregate((index, aggregate): (usize, v1::TableAggregate)) -> Result<RequestedAggregate> {
    let field = format!("aggregates[{index}].function");
    let function = match fields::choice(&field, aggregate.function)? {
        v1::TableFunction::Unspecified => return Err(Error::invalid_field(field, "is missing")),
        v1::TableFunction::Count => AggregateFunction::Count,
        v1::TableFunction::Sum => AggregateFunction::Sum,
        v1::TableFunction::Average => AggregateFunction::Average,
        v1::TableFunction::Min => AggregateFunction::Min,
        v1::TableFunction::Max => AggregateFunction::Max,
    };
    let column = Some(aggregate.column).filter(|column| !column.is_empty());
    Ok(RequestedAggregate { function: function.as_str().to_owned(), column })
}

/// Parses the value of a column of a filter.
fn condition((column, text): (String, String)) -> Result<(String, Value)> {
    Ok((column, value("filter", &text)?))
}

fn number(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn row(found: &RowView) -> v1::StackRow {
    stack_row(&found.columns, &found.row, &found.document_name)
}

fn conflict(found: TableConflict) -> v1::StackConflict {
    let TableConflict { key, column, values } = found;
    let value = |value: folio_tools::stack::ConflictingValue| v1::StackConflictValue {
        value: value.value,
        document_ids: value.documents.iter().map(ToString::to_string).collect(),
        document_count: number(value.count),
    };
    v1::StackConflict { key, column, values: values.into_iter().map(value).collect() }
}

fn answer(found: TableAnswer) -> v1::AskTableResponse {
    let TableAnswer { groups, units, rows } = found;
    let group = |AggregatedGroup { key, rows, values }: AggregatedGroup| v1::TableGroup {
        key_json: key.iter().map(|value| value.as_ref().map_or_else(|| "null".to_owned(), json::text)).collect(),
        row_count: number(rows),
        values: values
            .into_iter()
            .zip(&units)
            .map(|(value, unit)| v1::TableAggregateValue {
                value: value.value.unwrap_or_default(),
                exact: value.is_exact,
                counted_rows: number(value.counted),
                skipped_rows: number(value.skipped),
                unit: unit.clone().unwrap_or_default(),
            })
            .collect(),
    };
    v1::AskTableResponse { groups: groups.into_iter().map(group).collect(), row_count: number(rows) }
}

fn encode(change: &TableChange) -> v1::watch_table_response::Change {
    match change {
        TableChange::Stack(stack) => v1::watch_table_response::Change::Stack(stack_without_documents(stack)),
        TableChange::Row(found) => v1::watch_table_response::Change::Row(row(found)),
        TableChange::Removed(id) => v1::watch_table_response::Change::RemovedStackRowId(id.to_string()),
    }
}
