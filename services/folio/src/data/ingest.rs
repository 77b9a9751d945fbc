//! `folio ingest`: makes documents searchable.

use anyhow::Result;
use folio_proto::v1;
use serde_json::{Value, json};

use super::document_selection::{DocumentSelection, SelectedDocuments};
use super::job::{self, word};
use super::organization::IngestionMode;
use super::output::View;
use super::{DataArguments, present, time};
use crate::client::{Client, answer};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: DocumentSelection,
    /// The steps: index (those without a chat model), fast (also terms, summaries and images) or agentic (agents decide)
    /// [default: those of the organization].
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<IngestionMode>,
    /// Credit that the model calls may cost [default: no budget].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
    /// Print the states of the ingestions of the named documents, and start no ingestion.
    #[arg(long, conflicts_with_all = ["mode", "budget", "tags", "name", "metadata", "all", "no_wait"])]
    state: bool,
    /// Print the created job and exit. The job continues on the server.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    arguments.data.run(async |client| start(&client, &arguments).await).await
}

async fn start(client: &Client, arguments: &Arguments) -> Result<View> {
    let SelectedDocuments { document_ids, document_filter } = arguments.selection.resolve(client).await?;
    if arguments.state {
        return states(client, document_ids).await;
    }
    let request = v1::StartIngestionRequest {
        document_ids,
        document_filter,
        mode: arguments.mode.map_or(v1::IngestionMode::Unspecified, Into::into).into(),
        credit_budget: arguments.budget,
        ..Default::default()
    };
    let created = answer(client.ingestions().start_ingestion(request)).await?.job;
    job::follow(client, created, arguments.no_wait, "ingests the documents").await
}

/// Returns the states of the ingestions of documents.
async fn states(client: &Client, document_ids: Vec<String>) -> Result<View> {
    let mut rows = Vec::with_capacity(document_ids.len());
    for document_id in document_ids {
        let found = answer(client.ingestions().get_ingestion(v1::GetIngestionRequest { document_id })).await?;
        rows.push(row(&present(found.ingestion)?));
    }
    Ok(View::list(COLUMNS, rows))
}

const COLUMNS: [&str; 7] = ["document_id", "state", "passages", "vector_space", "current", "reason", "job_id"];

fn row(ingestion: &v1::Ingestion) -> Value {
    let state = match ingestion.state() {
        v1::IngestionState::Unspecified => "none".to_owned(),
        state => word(state.as_str_name(), "INGESTION_STATE_"),
    };
    let reason = match &ingestion.error {
        Some(error) => error.message.clone(),
        None if ingestion.skipped_reason.is_empty() => ingestion.omissions.join("; "),
        None => ingestion.skipped_reason.clone(),
    };
    let passages = ingestion.passages.clone().unwrap_or_default();
    let summary = |summary: &v1::DocumentSummary| {
        json!({
            "section_id": summary.section_id, "scope": word(summary.scope().as_str_name(), "SUMMARY_SCOPE_"),
            "text": summary.text, "source_section_ids": summary.source_section_ids, "model": summary.model,
        })
    };
    json!({
        "document_id": ingestion.document_id, "state": state, "passages": passages.count,
        "generation": passages.generation, "vector_space": passages.vector_space, "current": passages.current,
        "create_time": time(passages.create_time.as_ref()), "reason": reason, "job_id": ingestion.job_id,
        "summaries": ingestion.summaries.iter().map(summary).collect::<Vec<_>>(),
        "omissions": ingestion.omissions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_states_the_passages_and_the_reason() {
        let found = row(&v1::Ingestion::default());
        assert_eq!((&found["state"], &found["passages"], &found["reason"]), (&json!("none"), &json!(0), &json!("")));
        let omissions = vec!["no images".to_owned(), "no terms".to_owned()];
        let found = row(&v1::Ingestion { omissions, ..Default::default() });
        assert_eq!((&found["reason"], &found["omissions"][1]), (&json!("no images; no terms"), &json!("no terms")));
        let passages = v1::DocumentPassages { count: 3, current: true, ..Default::default() };
        let error = v1::Error { message: "too large".to_owned(), ..Default::default() };
        let state = v1::IngestionState::Failed.into();
        let summary = v1::DocumentSummary {
            scope: v1::SummaryScope::Document.into(),
            text: "Terms.".to_owned(),
            ..Default::default()
        };
        let summaries = vec![summary];
        let failed =
            v1::Ingestion { state, error: Some(error), passages: Some(passages), summaries, ..Default::default() };
        let found = row(&failed);
        assert_eq!((&found["state"], &found["reason"]), (&json!("failed"), &json!("too large")));
        assert_eq!((&found["passages"], &found["current"]), (&json!(3), &json!(true)));
        let summary = &found["summaries"][0];
        assert_eq!((&summary["scope"], &summary["text"]), (&json!("document"), &json!("Terms.")));
    }
}
