//! `folio prompt`.

use std::path::PathBuf;

use anyhow::Result;
use folio_proto::v1;
use folio_types::{PromptId, PromptRevId, counted, limits};
use serde_json::{Value, json};

use super::output::View;
use super::{
    DataArguments, ItemArguments, ListArguments, deleted, list_items, pending_review, present, read_text, schema, tag,
    time, with_review,
};
use crate::client::{Client, answer};
use crate::names::{self, Choice, chosen};
use crate::terminal::note;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List prompts with their newest revisions, newest first.
    List(ListArguments),
    /// Print a prompt: the newest revision, or the revision with this id.
    Show(ItemArguments),
    /// Create a prompt, or a revision of the prompt with this name.
    Create(Create),
    /// Delete a prompt with all its revisions. Its extractions are kept.
    #[command(visible_alias = "delete")]
    Rm(ItemArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The name.
    name: String,
    /// The file with the instructions; - for standard input.
    file: PathBuf,
    /// The schema of the answers, by id, revision or name [default: none].
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<String>,
    /// The model that runs the prompt [default: the default model of the run].
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    /// The sampling temperature of the model, 0 to 2 [default: 0].
    #[arg(long, value_name = "NUMBER")]
    temperature: Option<f64>,
    /// Run the prompt by the extraction agent, which reads the document step by step.
    #[arg(long)]
    agent: bool,
    /// A tag, by id or name; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| prompts(&client, &list).await).await,
        Command::Show(show) => show.data.run(async |client| revision(&client, &show.item).await).await,
        Command::Create(create) => {
            // The file is read before a server is needed.
            let content = read_text(&create.file, limits::PROMPT_BYTES)?;
            create.data.run(async |client| make(&client, &create, content).await).await
        }
        Command::Rm(rm) => rm.data.run(async |client| remove(&client, &rm.item).await).await,
    }
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let prompt_id = id(client, what, names::choose_only).await?;
    let request = v1::DeletePromptRequest { prompt_id: prompt_id.clone(), ..Default::default() };
    answer(client.prompts().delete_prompt(request)).await?;
    Ok(deleted(&prompt_id))
}

async fn prompts(client: &Client, list: &ListArguments) -> Result<View> {
    let found = list_items! {
        list.limit, client.prompts().list_prompts(ListPromptsRequest { filter: list.filter() }) => prompts
    };
    let rows: Vec<Value> = found.await?.iter().map(row).collect();
    Ok(View::list(
        with_review(&["prompt_id", "name", "revision", "schema_revid", "model", "revision_create_time"], &rows),
        rows,
    ))
}

async fn revision(client: &Client, what: &str) -> Result<View> {
    let request = v1::GetPromptRevisionRequest { prompt_revid: id(client, what, names::choose).await? };
    let revision = present(answer(client.prompts().get_prompt_revision(request)).await?.prompt_revision)?;
    Ok(View::one(json!({
        "prompt_revid": revision.prompt_revid, "prompt_id": revision.prompt_id, "name": revision.name,
        "revision": revision.revision, "schema_revid": revision.schema_revid, "model": revision.model,
        "temperature": revision.temperature, "agent": revision.agent, "tag_ids": revision.tag_ids, "created_by": revision.created_by,
        "create_time": time(revision.create_time.as_ref()), "content": revision.content,
    })))
}

async fn make(client: &Client, create: &Create, content: String) -> Result<View> {
    let schema_revid = match &create.schema {
        Some(schema) => schema::id(client, schema, names::choose).await?,
        None => String::new(),
    };
    let prompt = v1::Prompt {
        name: create.name.clone(),
        content,
        schema_revid,
        model: create.model.clone(),
        temperature: create.temperature,
        agent: create.agent,
        tag_ids: tag::ids(client, &create.tags).await?,
        ..v1::Prompt::default()
    };
    let request = v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() };
    let created = answer(client.prompts().create_prompt(request)).await?;
    if let Some(plan) = &created.tag_run_plan {
        note(&tag_runs(plan));
    }
    Ok(View::one(row(&present(created.prompt)?)))
}

/// Returns a line about the documents with a tag of a prompt.
pub(super) fn tag_runs(plan: &v1::TagRunPlan) -> String {
    let more = if plan.has_more { "more than " } else { "" };
    let documents = counted(plan.document_ids.len() as u64, "document");
    match &plan.job {
        Some(job) => format!("job {} runs the prompt on {documents} with its tags", job.job_id),
        None => format!(
            "{more}{documents} with tags of the prompt: folio batch --tag runs it on them, for about {} credits",
            plan.credits
        ),
    }
}

/// Returns the id of a prompt, or of a revision, that is named by id or name, or the word for the built-in prompt.
pub(super) async fn id(client: &Client, what: &str, choose: Choice<v1::Prompt>) -> Result<String> {
    if what == PromptId::BUILT_IN || what.parse::<PromptId>().is_ok() || what.parse::<PromptRevId>().is_ok() {
        return Ok(what.to_owned());
    }
    let chosen = chosen!("prompt", what, choose, client.prompts().list_prompts(ListPromptsRequest) => prompts);
    Ok(chosen?.prompt_id)
}

fn row(prompt: &v1::Prompt) -> Value {
    json!({
        "prompt_id": prompt.prompt_id, "name": prompt.name, "prompt_revid": prompt.prompt_revid,
        "revision": prompt.revision, "schema_revid": prompt.schema_revid, "model": prompt.model,
        "temperature": prompt.temperature, "agent": prompt.agent, "tag_ids": prompt.tag_ids, "revision_created_by": prompt.revision_created_by,
        "revision_create_time": time(prompt.revision_create_time.as_ref()), "etag": prompt.etag,
        "review": pending_review(&prompt.pending_proposal_id),
        "content": prompt.content,
    })
}
