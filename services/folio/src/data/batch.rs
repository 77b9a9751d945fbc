//! `folio batch`: runs a prompt on many documents.

use anyhow::{Result, bail};
use folio_proto::v1;
use serde_json::json;

use super::output::View;
use super::{DataArguments, job, present, prompt, tag};
use crate::client::{Client, answer};
use crate::terminal::note;
use crate::{documents, names};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The prompt, by id, revision or name.
    prompt: String,
    /// The documents, by id or name [default: those that --tag, --name, --metadata or --all select].
    #[arg(value_name = "DOCUMENT", conflicts_with_all = ["tags", "name", "metadata", "all"])]
    documents: Vec<String>,
    /// Documents with this tag, by id or name; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Documents whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Documents whose entry KEY of the metadata contains this text; may be given several times.
    #[arg(long = "metadata", value_name = "KEY=TEXT", value_parser = super::document::entry)]
    metadata: Vec<(String, String)>,
    /// All documents.
    #[arg(long, conflicts_with_all = ["tags", "name", "metadata"])]
    all: bool,
    /// The model [default: the model of the prompt, otherwise of the organization].
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    /// Credit that the model calls may cost [default: no budget].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
    /// Print the number of documents and pages and the estimated credit, and start nothing.
    #[arg(long)]
    estimate: bool,
    /// Print the job at once. It continues on the server.
    #[arg(long, conflicts_with = "estimate")]
    no_wait: bool,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    arguments.data.run(async |client| start(&client, &arguments).await).await
}

async fn start(client: &Client, arguments: &Arguments) -> Result<View> {
    let mut document_ids = Vec::with_capacity(arguments.documents.len());
    for document in &arguments.documents {
        document_ids.push(documents::find(client, document, names::choose).await?.document_id);
    }
    let document_filter = match document_ids.is_empty() {
        true => Some(filter(client, arguments).await?),
        false => None,
    };
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
    let created = present(answer(client.extractions().run_extractions(request)).await?.job)?;
    match arguments.no_wait {
        true => job::view(Some(created)),
        false => {
            note(&format!("job {} runs the prompt, also if this command ends", created.job_id));
            job::watch(client, created.job_id).await
        }
    }
}

/// Returns the filter of the selected documents.
async fn filter(client: &Client, arguments: &Arguments) -> Result<String> {
    let tags = tag::ids(client, &arguments.tags).await?;
    let conditions = conditions(&tags, arguments.name.as_deref(), &arguments.metadata);
    if conditions.is_empty() && !arguments.all {
        bail!("no documents are selected: name them, or use --tag, --name, --metadata or --all");
    }
    Ok(conditions)
}

fn conditions(tags: &[String], name: Option<&str>, metadata: &[(String, String)]) -> String {
    let tags = tags.iter().map(|tag| format!("tag:{tag}"));
    let metadata = metadata.iter().map(|(key, text)| format!("metadata.{key}:{}", names::quoted(text)));
    tags.chain(name.map(names::filter)).chain(metadata).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_a_filter_of_documents() {
        let metadata = [("year".to_owned(), r#"20"26"#.to_owned())];
        let found = conditions(&["tag_1".to_owned()], Some("in voice"), &metadata);
        assert_eq!(found, r#"tag:tag_1 name:"in voice" metadata.year:"20\"26""#);
        assert_eq!(conditions(&[], None, &[]), "");
    }
}
