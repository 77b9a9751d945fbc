//! The columns of a stack.

use std::path::PathBuf;

use anyhow::Result;
use folio_proto::v1;
use folio_resources::NewColumn;

use super::super::output::View;
use super::super::{DataArguments, present, read_text, stack_text};
use super::{column_definitions, id};
use crate::client::{Client, answer};
use crate::names;

/// Maximum size of a file with columns, in bytes.
pub(crate) const COLUMNS_BYTES: usize = 1024 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct Columns {
    /// The stack, by id or name.
    stack: String,
    /// A JSON array of objects with the members name, type (text, number, integer, boolean, date or enum), description, required,
    /// unit and enum; - is standard input.
    file: PathBuf,
    #[command(flatten)]
    pub(super) data: DataArguments,
}

pub(super) async fn define(client: &Client, columns: &Columns) -> Result<View> {
    let text = read_text(&columns.file, COLUMNS_BYTES)?;
    let stack_id = id(client, &columns.stack, names::choose).await?;
    let request = v1::DefineStackColumnsRequest { stack_id, columns: column_definitions(&text)?, ..Default::default() };
    Ok(stack_text::view(&present(answer(client.stacks().define_stack_columns(request)).await?.stack)?))
}

pub(crate) fn column(column: NewColumn) -> v1::StackColumn {
    v1::StackColumn {
        name: column.name,
        r#type: v1::StackColumnType::from(column.kind).into(),
        description: column.description,
        required: column.required,
        unit: column.unit.unwrap_or_default(),
        enum_values: column.values,
        revision: 0,
    }
}
