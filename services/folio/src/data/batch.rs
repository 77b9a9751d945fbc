//! `folio batch`: runs a prompt on many documents.

use anyhow::Result;
use folio_proto::v1;
use serde_json::json;

use super::document_selection::{DocumentSelection, SelectedDocuments};
use super::output::View;
use super::{DataArguments, job, prompt};
use crate::client::{Client, answer};
use crate::names;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The prompt, by id, revision or name.
    prompt: String,
    #[command(flatten)]
    selection: DocumentSelection,
    /// The model [default: the model of the prompt, otherwise of the organization].
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    /// Credit that the model calls may cost [default: no budget].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
    /// Print the number of documents and pages and the estimated credit, and start nothing.
    #[arg(long)]
    estimate: bool,
    /// Print the created job and exit. The job continues on the server.
    #[arg(long, conflicts_with = "estimate")]
    no_wait: bool,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    arguments.data.run(async |client| start(&client, &arguments).await).await
}

async fn start(client: &Client, arguments: &Arguments) -> Result<View> {
    let SelectedDocuments { document_ids, document_filter } = arguments.selection.resolve(client).await?;
    let prompt_revid = prompt::id(client, &arguments.prompt, names::choose).await?;
    let model = arguments.model.clone();
    if arguments.estimate {
        let request = v1::GetExtractionEstimateRequest { document_ids, document_filter, prompt_revid, model };
        let v1::GetExtractionEstimateResponse { documents, pages, credits, planned_documents } =
            answer(client.extractions().get_extraction_estimate(request)).await?;
        return Ok(View::one(json!({
            "documents": documents, "pages": pages, "credits": credits, "planned_documents": planned_documents,
        })));
    }
    let credit_budget = arguments.budget;
    let request = v1::RunExtractionsRequest {
        document_ids,
        document_filter,
        prompt_revid,
        model,
        credit_budget,
        ..Default::default()
    };
    let created = answer(client.extractions().run_extractions(request)).await?.job;
    job::follow(client, created, arguments.no_wait, "runs the prompt").await
}
