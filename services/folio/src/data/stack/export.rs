//! The export of the table of a stack.

use std::path::{Path, PathBuf};

use anyhow::Result;
use folio_proto::v1;

use super::super::StoresArguments;
use super::super::export::{Destination, ExportFormat, check};
use super::id;
use crate::client::{Client, answer, explain};
use crate::names;

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The stack, by id or name.
    stack: String,
    /// Also write the state and the evidence of each cell.
    #[arg(long)]
    details: bool,
    /// The format [default: that of the extension of the file, otherwise jsonl].
    #[arg(long, value_enum)]
    output: Option<ExportFormat>,
    /// The file that the export is written to [default: standard output].
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    pub(super) stores: StoresArguments,
}

pub(super) async fn download(client: &Client, export: &Export) -> Result<()> {
    let to = export.to.as_deref();
    let named = to.map(ExportFormat::of_file).transpose()?.flatten();
    let format = export.output.or(named).unwrap_or(ExportFormat::Jsonl);
    check(Some(format), to)?;
    let request = v1::ExportTableRequest {
        stack_id: id(client, &export.stack, names::choose).await?,
        format: v1::ExportFormat::from(format).into(),
        include_details: export.details,
    };
    write(client, request, to).await
}

async fn write(client: &Client, request: v1::ExportTableRequest, to: Option<&Path>) -> Result<()> {
    let mut destination = Destination::open(to)?;
    let mut chunks = answer(client.stacks().export_table(request)).await?;
    while let Some(part) = chunks.message().await.map_err(|status| explain(&status))? {
        destination.write(&part.chunk)?;
    }
    destination.finish()
}
