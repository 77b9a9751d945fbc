//! The conflicts between the rows of a stack.

use anyhow::Result;
use folio_proto::v1;
use serde_json::json;

use super::super::DataArguments;
use super::super::output::View;
use super::id;
use crate::client::{Client, answer};
use crate::names;
use crate::terminal::note;

#[derive(Debug, clap::Args)]
pub(crate) struct Conflicts {
    /// The stack, by id or name.
    stack: String,
    /// A column whose values identify a subject; may be given several times.
    #[arg(long = "key", value_name = "COLUMN", required = true)]
    keys: Vec<String>,
    /// A column whose values are compared; may be given several times [default: all other columns].
    #[arg(long = "column", value_name = "COLUMN")]
    columns: Vec<String>,
    #[command(flatten)]
    pub(super) data: DataArguments,
}

pub(super) async fn compare(client: &Client, conflicts: &Conflicts) -> Result<View> {
    let request = v1::GetStackConflictsRequest {
        stack_id: id(client, &conflicts.stack, names::choose).await?,
        key_columns: conflicts.keys.clone(),
        columns: conflicts.columns.clone(),
    };
    let found = answer(client.stacks().get_stack_conflicts(request)).await?;
    if usize::try_from(found.total_count)? > found.conflicts.len() {
        note(&format!("only the first of {} conflicts are listed", found.total_count));
    }
    let shown = |conflict: &v1::StackConflict| {
        let value = |value: &v1::StackConflictValue| json!({ "value": value.value, "documents": value.document_count, "document_ids": value.document_ids });
        json!({
            "key": conflict.key, "column": conflict.column,
            "values": conflict.values.iter().map(value).collect::<Vec<_>>(),
        })
    };
    Ok(View::list(["key", "column", "values"], found.conflicts.iter().map(shown).collect()))
}
