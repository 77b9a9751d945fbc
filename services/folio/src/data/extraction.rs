//! `folio extraction`.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use folio_proto::v1;
use folio_proto::v1::agent_event::Event;
use folio_resources::CitationKind;
use folio_types::{Coverage, ExtractionId, JobId};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};
use tonic::{Code, Streaming};

use super::export::ExportFormat;
use super::output::{Format, View};
use super::selection::{self, Conditions, Selection};
use super::{DataArguments, StoresArguments, export, fields, job, parsed, present, prompt, time};
use crate::client::{Client, answer, explain};
use crate::progress::{Progress, ProgressLine};
use crate::terminal::printable;
use crate::{documents, names};

/// Number of documents whose names are read at the same time.
const CONCURRENT_READS: usize = 8;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List extractions, newest first.
    List(List),
    /// Print an extraction: each value with its page and its quote.
    Show(Show),
    /// Export the data of extractions, oldest first in each document, as JSON, JSON lines, CSV or XLSX.
    Export(Export),
    /// Run a prompt on a document and print the extraction.
    Run(Run),
    /// Let the agent correct an extraction as described, and print the extraction.
    Correct(Correct),
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    selection: Selection,
    /// Maximum number of extractions. If documents are named: of each document.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    #[command(flatten)]
    selection: Selection,
    /// Only the results of this job, by id, in the order of its items; may be given several times.
    #[arg(long = "job", value_name = "ID", conflicts_with_all = Selection::CONDITIONS)]
    jobs: Vec<JobId>,
    /// The format [default: that of the name of the file, otherwise jsonl]. CSV with nested tables is a ZIP archive.
    #[arg(long, value_enum)]
    output: Option<ExportFormat>,
    /// The file that the export is written to [default: standard output].
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Add the page and the quote of each value, and the decisions of reviewers.
    #[arg(long)]
    citations: bool,
    #[command(flatten)]
    stores: StoresArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The id of the extraction.
    #[arg(value_name = "ID")]
    extraction: ExtractionId,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The document, by id or name.
    document: String,
    /// The prompt, by id, revision or name.
    prompt: String,
    /// The model [default: the model of the prompt, otherwise of the organization].
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    /// Credit that the model calls may cost [default: no budget].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Correct {
    /// The id of the extraction.
    #[arg(value_name = "ID")]
    extraction: ExtractionId,
    /// The correction in words, such as "The total is the gross amount."
    text: String,
    /// The model [default: the model of the extraction, otherwise of the organization].
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    /// Credit that the model calls may cost [default: no budget].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
    #[command(flatten)]
    data: DataArguments,
}

/// The model and the credit budget of an extraction.
#[derive(Debug, Clone, Default)]
pub(super) struct RunOptions {
    /// Empty: the default model.
    pub(super) model: String,
    /// None: no budget.
    pub(super) credit_budget: Option<u64>,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| extractions(&client, &list).await).await,
        Command::Show(show) => show.data.run(async |client| extraction(&client, &show.extraction).await).await,
        Command::Export(arguments) => arguments.stores.run(async |client| write(&client, &arguments).await).await,
        Command::Run(run) => run.data.run(async |client| start(&client, &run).await).await,
        Command::Correct(arguments) => arguments.data.run(async |client| correct(&client, &arguments).await).await,
    }
}

async fn extractions(client: &Client, list: &List) -> Result<View> {
    let found = selection::extractions(client, &list.selection, list.limit).await?;
    let names = names_of(client, found.iter().map(|extraction| extraction.document_id.clone()).collect()).await?;
    let name = |extraction: &v1::Extraction| names.get(&extraction.document_id).map_or("", String::as_str);
    let rows = found.iter().map(|extraction| row(name(extraction), extraction)).collect();
    let columns =
        ["extraction_id", "document", "prompt_revid", "model", "windows", "edited", "verified", "create_time"];
    Ok(View::list(columns, rows))
}

/// Returns the names of documents by their ids. A document that was deleted meanwhile has none.
async fn names_of(client: &Client, ids: BTreeSet<String>) -> Result<HashMap<String, String>> {
    let reads = ids.into_iter().map(async |document_id| {
        let request = v1::GetDocumentRequest { document_id: document_id.clone() };
        match client.documents().get_document(request).await {
            Ok(found) => Ok(found.into_inner().document.map(|document| (document_id, document.name))),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(explain(&status)),
        }
    });
    let found: Vec<_> = futures::stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

async fn write(client: &Client, arguments: &Export) -> Result<()> {
    let to = arguments.to.as_deref();
    let format = match (arguments.output, to) {
        (Some(format), _) => Some(format),
        (None, Some(to)) => ExportFormat::of_file(to)?,
        (None, None) => None,
    };
    let Conditions { document_ids, filter, start_time, end_time } = arguments.selection.resolve(client).await?;
    let request = v1::DownloadExtractionsRequest {
        document_ids,
        filter,
        start_time,
        end_time,
        format: v1::ExportFormat::from(format.unwrap_or(ExportFormat::Jsonl)).into(),
        include_citations: arguments.citations,
        job_ids: arguments.jobs.iter().map(ToString::to_string).collect(),
    };
    export::download(client, request, to).await
}

async fn extraction(client: &Client, id: &ExtractionId) -> Result<View> {
    Ok(view(&stored(client, id.to_string()).await?))
}

async fn stored(client: &Client, extraction_id: String) -> Result<v1::Extraction> {
    let request = v1::GetExtractionRequest { extraction_id };
    present(answer(client.extractions().get_extraction(request)).await?.extraction)
}

/// Returns an extraction; people read a line for each value.
fn view(extraction: &v1::Extraction) -> View {
    View::one(whole(extraction)).text(text(extraction))
}

/// Returns the values of a document for people.
pub(super) fn text_of_document(document: &str, extraction: &v1::Extraction) -> String {
    let coverage = coverage(extraction).map(|coverage| format!("{coverage}\n")).unwrap_or_default();
    let id = &extraction.extraction_id;
    format!("{}  {id}\n{coverage}\n{}", printable(document), fields::table(extraction))
}

/// Returns the properties and the values of an extraction for people.
fn text(extraction: &v1::Extraction) -> String {
    let mut properties = whole(extraction);
    if let Some(properties) = properties.as_object_mut() {
        // The values contain these parts.
        for part in ["data", "citations", "confidences", "checks", "reviews", "conflicts", "originals"] {
            properties.remove(part);
        }
        if extraction.examples.is_empty() {
            properties.remove("examples");
        }
    }
    format!("{}\n{}", View::one(properties).render(Format::Table), fields::table(extraction))
}

async fn start(client: &Client, run: &Run) -> Result<View> {
    let document = documents::find(client, &run.document, names::choose).await?;
    let is_ready = document.state() == v1::DocumentState::Ready;
    ensure!(is_ready, "{} has no text to extract from: {}", document.name, document.state_reason);
    let prompt_revid = prompt::id(client, &run.prompt, names::choose).await?;
    let progress = Progress::stderr().line(&document.name);
    let options = RunOptions { model: run.model.clone(), credit_budget: run.budget };
    let extraction = run_prompt(client, document.document_id, prompt_revid, options, &progress).await?;
    Ok(view(&extraction))
}

/// Runs a prompt on a document. Waits for the job of a long document.
pub(super) async fn run_prompt(
    client: &Client,
    document_id: String,
    prompt_revid: String,
    RunOptions { model, credit_budget }: RunOptions,
    progress: &ProgressLine,
) -> Result<v1::Extraction> {
    progress.step("extracting");
    let request = v1::RunExtractionRequest { document_id, prompt_revid, model, credit_budget, ..Default::default() };
    match answer(client.extractions().run_extraction(request)).await? {
        v1::RunExtractionResponse { job: Some(job), .. } => {
            let extraction_id = job::wait_for_extraction(client, job.job_id, progress).await?;
            stored(client, extraction_id).await
        }
        created => present(created.extraction),
    }
}

/// Lets the agent extract a document, and shows its tool calls. The run continues if the command ends.
pub(super) async fn run_agent(
    client: &Client,
    document_id: String,
    prompt_revid: String,
    RunOptions { model, credit_budget }: RunOptions,
    progress: &ProgressLine,
) -> Result<v1::Extraction> {
    progress.step("extracting");
    let request = v1::StartExtractionRequest { document_id, prompt_revid, model, credit_budget, ..Default::default() };
    let events = answer(client.extractions().start_extraction(request)).await?;
    follow(events, |response| response.event, progress).await
}

/// Lets the agent correct an extraction as a person describes.
async fn correct(client: &Client, correct: &Correct) -> Result<View> {
    let Correct { extraction, text, model, budget, data: _ } = correct;
    let (extraction_id, text, model) = (extraction.to_string(), text.clone(), model.clone());
    let progress = Progress::stderr().line(&extraction_id);
    progress.step("correcting");
    let credit_budget = *budget;
    let request = v1::CorrectExtractionRequest { extraction_id, text, model, credit_budget, ..Default::default() };
    let events = answer(client.extractions().correct_extraction(request)).await?;
    Ok(view(&follow(events, |response| response.event, &progress).await?))
}

/// Shows the tool calls of a run of the agent, and returns the completed extraction.
async fn follow<T>(
    mut events: Streaming<T>,
    event: impl Fn(T) -> Option<v1::AgentEvent>,
    progress: &ProgressLine,
) -> Result<v1::Extraction> {
    let mut ended = None;
    while let Some(response) = events.message().await.map_err(|status| explain(&status))? {
        match event(response).and_then(|event| event.event) {
            Some(Event::Started(started)) => {
                progress.note(&format!("job {} runs the agent, also if this command ends", started.job_id));
            }
            Some(Event::Tool(call)) => progress.step(&format!("the agent calls {}", call.name)),
            Some(Event::Complete(result)) => ended = result.extraction,
            _ => {}
        }
    }
    let extraction = present(ended)?;
    let id = &extraction.extraction_id;
    match extraction.state() {
        v1::ExtractionState::Completed => Ok(extraction),
        v1::ExtractionState::InProgress => bail!("extraction {id} waits for an approval: see folio inbox"),
        _ => bail!("the agent did not complete extraction {id}: {}", extraction.failure),
    }
}

/// Returns the current data.
pub(crate) fn data(extraction: &v1::Extraction) -> Value {
    parsed(extraction.edited_json.as_ref().unwrap_or(&extraction.original_json))
}

/// `document`: name of the document.
fn row(document: &str, extraction: &v1::Extraction) -> Value {
    let mut row = whole(extraction);
    if let Some(row) = row.as_object_mut() {
        row.insert("document".to_owned(), Value::from(document));
    }
    row
}

/// Returns the extraction as JSON. A value that a user edited has neither a citation nor a confidence, because these are about
/// the original data.
fn whole(extraction: &v1::Extraction) -> Value {
    let unchanged: Option<BTreeSet<String>> = extraction.edited_json.is_some().then(|| {
        let fields = fields::fields(extraction).into_iter();
        fields.filter(|field| field.is_original).map(|field| field.path).collect()
    });
    let is_unchanged = |path: &String| unchanged.as_ref().is_none_or(|unchanged| unchanged.contains(path));
    let citations = extraction.citations.iter().filter(|found| is_unchanged(&found.path));
    let confidences = extraction.confidences.iter().filter(|found| is_unchanged(&found.path));
    json!({
        "extraction_id": extraction.extraction_id, "document_id": extraction.document_id,
        "prompt_revid": extraction.prompt_revid, "schema_revid": extraction.schema_revid, "model": extraction.model,
        "state": state(extraction), "edited": extraction.edited_json.is_some(), "verified": extraction.verified,
        "verified_by": extraction.verified_by, "created_by": extraction.created_by,
        "create_time": time(extraction.create_time.as_ref()), "update_time": time(extraction.update_time.as_ref()),
        "etag": extraction.etag, "coverage": coverage(extraction),
        "windows": extraction.coverage.as_ref().map(|coverage| coverage.windows),
        "conflicts": extraction.conflicts.iter().map(conflict).collect::<Vec<_>>(),
        "originals": extraction.originals.iter().map(original).collect::<Vec<_>>(),
        "citations": citations.map(citation).collect::<Vec<_>>(),
        "confidences": confidences.map(confidence).collect::<Vec<_>>(),
        "checks": extraction.checks.iter().map(check).collect::<Vec<_>>(),
        "reviews": extraction.reviews.iter().map(review).collect::<Vec<_>>(),
        "examples": extraction.examples.iter().map(example).collect::<Vec<_>>(), "data": data(extraction),
    })
}

/// Returns the state with the reason of a failure.
fn state(extraction: &v1::Extraction) -> String {
    match extraction.state() {
        v1::ExtractionState::Unspecified | v1::ExtractionState::Completed => "completed".to_owned(),
        v1::ExtractionState::InProgress => "in progress".to_owned(),
        v1::ExtractionState::Failed => format!("failed: {}", extraction.failure),
    }
}

/// Returns a line that states which parts of the document were read. None: no prompt run made the extraction.
pub(crate) fn coverage(extraction: &v1::Extraction) -> Option<String> {
    extraction.coverage.clone().map(|coverage| Coverage::from(coverage).to_string())
}

pub(crate) fn conflict(conflict: &v1::ExtractionConflict) -> Value {
    let page = (conflict.page > 0).then_some(conflict.page);
    json!({ "path": conflict.path, "value": parsed(&conflict.value_json), "page": page })
}

/// Returns a line for each conflict: the value of a window that differs from the extracted value.
pub(crate) fn conflict_lines(extraction: &v1::Extraction) -> impl Iterator<Item = String> {
    extraction.conflicts.iter().map(|v1::ExtractionConflict { path, value_json, page }| {
        let page = if *page > 0 { format!(" (page {page})") } else { String::new() };
        format!("another value of {path}: {value_json}{page}")
    })
}

fn original(original: &v1::OriginalText) -> Value {
    json!({ "path": original.path, "text": original.text })
}

pub(crate) fn citation(citation: &v1::Citation) -> Value {
    let v1::Citation { path, page, section, cell, quote, occurrences, .. } = citation;
    json!({
        "path": path, "kind": kind(citation.kind()), "page": page, "section": section, "cell": cell, "quote": quote,
        "occurrences": occurrences,
    })
}

/// Returns the page of a citation for people, with the section or the cell of a workbook.
pub(crate) fn location(citation: &v1::Citation) -> String {
    let v1::Citation { page, section, .. } = citation;
    match cell(citation) {
        Some(cell) => format!("page {page}, cell {cell}"),
        None if section.is_empty() => format!("page {page}"),
        None => format!("page {page}, section {section}"),
    }
}

/// Returns the cell of a citation with its sheet, in the notation of spreadsheets. None: the citation has no cell.
pub(super) fn cell(citation: &v1::Citation) -> Option<String> {
    let v1::Citation { section: sheet, cell, .. } = citation;
    match (sheet.as_str(), cell.as_str()) {
        (_, "") => None,
        ("", cell) => Some(cell.to_owned()),
        (sheet, cell) => Some(format!("{sheet}!{cell}")),
    }
}

/// Returns the name of a kind of evidence.
pub(crate) fn kind(kind: v1::CitationKind) -> &'static str {
    match kind {
        v1::CitationKind::Cited => CitationKind::Cited.name(),
        v1::CitationKind::Located | v1::CitationKind::Unspecified => CitationKind::Located.name(),
    }
}

fn confidence(found: &v1::FieldConfidence) -> Value {
    json!({ "path": found.path, "confidence": found.confidence })
}

fn check(result: &v1::CheckResult) -> Value {
    let v1::CheckResult { check, left, right, reason, .. } = result;
    let outcome = job::word(result.outcome().as_str_name(), "CHECK_OUTCOME_");
    json!({ "check": check, "outcome": outcome, "left": left, "right": right, "reason": reason })
}

fn review(review: &v1::FieldReview) -> Value {
    let v1::FieldReview { path, user_id, by_rule, .. } = review;
    json!({
        "path": path, "decision": fields::word(review.decision()), "user_id": user_id, "by_rule": by_rule,
        "time": time(review.decide_time.as_ref()),
    })
}

fn example(example: &v1::ExtractionExample) -> Value {
    json!({
        "extraction_id": example.extraction_id, "similarity": example.similarity, "threshold": example.threshold,
    })
}

/// Returns the confidence of the model in a value of the original data.
pub(crate) fn confidence_of(extraction: &v1::Extraction, path: &str) -> Option<f64> {
    extraction.confidences.iter().find(|found| found.path == path).map(|found| found.confidence)
}

#[cfg(test)]
mod tests;
