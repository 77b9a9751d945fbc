//! `folio extract`: from files to data in one command.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use folio_operations::exports::EXPORT_DOCUMENTS_MAX;
use folio_proto::v1;
use folio_proto::v1::decision::Decision;
use futures::StreamExt as _;
use serde_json::Value;

use super::export::{self, Destination, ExportFormat};
use super::extraction::RunOptions;
use super::{ModelArguments, StoresArguments, document, extraction, parsed, present, prompt, schema};
use crate::chat::screen::ChatScreen;
use crate::client::{Client, answer};
use crate::demo::conversation;
use crate::documents::{self, NewFile};
use crate::names;
use crate::progress::{Progress, ProgressLine};
use crate::terminal::Screen;

/// Number of files that are processed at the same time.
const CONCURRENT_FILES: usize = 4;
/// Maximum exit status for failed files. Shells use greater statuses for other purposes.
const STATUS_MAX: usize = 100;
/// Maximum length of the name of a schema or prompt before a suffix is appended, in characters.
const NAME_CHARS: usize = 100;

/// The message that derives a prompt from a document.
const DERIVE: &str = "create a schema and a prompt for documents like this";
/// The tools whose calls are approved. With the appended mark in their names, the calls change no existing schema or prompt.
const DERIVING_TOOLS: [&str; 2] = ["create_schema", "create_prompt"];
/// The reason for the rejection of other calls.
const REJECTED: &str = "only a new schema and a new prompt are needed";
/// Number of characters of a document's id in the names of its schema and prompt.
const MARK_CHARS: usize = 12;
/// The instructions of a prompt for a schema of the user.
const INSTRUCTIONS: &str =
    "Extract the fields of the schema from the document. A value that the document does not contain is null.";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The files, at most 100: PDF, PNG, JPEG, TIFF, office documents, mail, HTML, Markdown, CSV or text.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The schema of the data, by id, revision, name, or file (a JSON Schema or a response format) [default: derived from
    /// the first file].
    #[arg(long, value_name = "SCHEMA", conflicts_with = "prompt")]
    schema: Option<String>,
    /// The prompt, by id, revision or name [default: derived from the first file].
    #[arg(long, value_name = "PROMPT")]
    prompt: Option<String>,
    /// Let the extraction agent read each file and write its data step by step. Default: the setting of the prompt.
    #[arg(long)]
    agent: bool,
    /// Credit that the model calls for each file may cost, and those that derive a prompt [default: no budget].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
    #[command(flatten)]
    model: ModelArguments,
    /// Read the password of protected PDFs from the terminal, or from the first line of standard input. The password is
    /// not stored.
    #[arg(long)]
    password: bool,
    /// The format of the output [default: that of the name of the file of --to, otherwise table].
    #[arg(long, value_enum)]
    output: Option<Output>,
    /// Short for --output json.
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Add the page and the quote of each value to CSV and XLSX. The other formats always contain them.
    #[arg(long)]
    citations: bool,
    /// The file that the output is written to [default: standard output].
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    stores: StoresArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For each file, a line for each value with its page and its quote.
    Table,
    /// One JSON document.
    Json,
    /// One JSON object in each line.
    Jsonl,
    /// A CSV file, or a ZIP archive with a file for each table.
    Csv,
    /// A workbook with a sheet for each table.
    Xlsx,
}

impl Output {
    /// Returns the format of the export. None: the table.
    fn export(self) -> Option<ExportFormat> {
        match self {
            Self::Table => None,
            Self::Json => Some(ExportFormat::Json),
            Self::Jsonl => Some(ExportFormat::Jsonl),
            Self::Csv => Some(ExportFormat::Csv),
            Self::Xlsx => Some(ExportFormat::Xlsx),
        }
    }
}

impl Arguments {
    /// Returns the format of the export. None: the table.
    fn format(&self) -> Result<Option<ExportFormat>> {
        match (self.json, self.output, &self.to) {
            (true, ..) => Ok(Some(ExportFormat::Json)),
            (false, Some(output), _) => Ok(output.export()),
            (false, None, Some(to)) => ExportFormat::of_file(to),
            (false, None, None) => Ok(None),
        }
    }
}

/// The error of a command after the output for its successful files: a message for each failed file.
#[derive(Debug)]
pub(crate) struct FailedFiles(Vec<String>);

impl FailedFiles {
    /// Returns the exit status: the number of failed files, at most [`STATUS_MAX`].
    pub(crate) fn status(&self) -> u8 {
        u8::try_from(self.0.len().min(STATUS_MAX)).unwrap_or(u8::MAX)
    }
}

impl std::fmt::Display for FailedFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for FailedFiles {}

/// An uploaded file whose text is available.
struct ReadFile<'a> {
    path: &'a Path,
    document: v1::Document,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let count = arguments.files.len();
    ensure!(count <= EXPORT_DOCUMENTS_MAX, "{count} files are too many: at most {EXPORT_DOCUMENTS_MAX} in one command");
    // An output that cannot be written fails before models are called.
    let format = arguments.format()?;
    export::check(format, arguments.to.as_deref())?;
    let password = document::password(arguments.password).await?;
    let failed = arguments
        .stores
        .run_anywhere(&arguments.model, async |client| Box::pin(extract(&client, &arguments, format, password)).await);
    let failed = failed.await?;
    if failed.is_empty() { Ok(()) } else { Err(FailedFiles(failed).into()) }
}

/// Extracts and prints the data of the files. `format`: None is the table. Returns the failures of single files.
async fn extract(
    client: &Client,
    arguments: &Arguments,
    format: Option<ExportFormat>,
    password: String,
) -> Result<Vec<String>> {
    let model = arguments.model.model.clone().unwrap_or_default();
    let options = RunOptions { model, credit_budget: arguments.budget };
    let prompt = match (&arguments.prompt, &arguments.schema) {
        (Some(prompt), _) => Some(prompt::id(client, prompt, names::choose).await?),
        (None, Some(schema)) => Some(prompt_of(client, schema::revision_of(client, schema).await?).await?),
        (None, None) => None,
    };
    let (progress, template) = (Progress::stderr(), NewFile { password, ..NewFile::default() });
    let mut failed = Vec::new();
    let reading = arguments.files.iter().map(async |path| read(client, path, &template, &progress).await);
    let read: Vec<ReadFile<'_>> = successes(reading, &mut failed).await;
    let Some(first) = read.first() else { return Ok(failed) };
    let prompt = match prompt {
        Some(prompt) => prompt,
        None => {
            let line = progress.line(&first.document.name);
            line.step("deriving a schema and a prompt");
            derive(client, &first.document, &options, &line).await?
        }
    };
    let extracting = read.iter().map(async |file| {
        let line = progress.line(&file.document.name);
        let document_id = file.document.document_id.clone();
        let (prompt, options) = (prompt.clone(), options.clone());
        let extracted = match arguments.agent {
            true => extraction::run_agent(client, document_id, prompt, options, &line).await,
            false => extraction::run_prompt(client, document_id, prompt, options, &line).await,
        };
        extracted.map(|extraction| (file, extraction)).map_err(|error| documents::failure(file.path, &error))
    });
    let extracted: Vec<(&ReadFile<'_>, v1::Extraction)> = successes(extracting, &mut failed).await;
    if extracted.is_empty() {
        return Ok(failed);
    }
    let to = arguments.to.as_deref();
    match format {
        Some(format) => {
            let request = request(extracted.iter().map(|(_, extraction)| extraction), format, arguments.citations);
            export::download(client, request, to).await?;
        }
        None => {
            let text = |(file, extraction): &(&ReadFile<'_>, v1::Extraction)| {
                extraction::text_of_document(&file.document.name, extraction)
            };
            let text = extracted.iter().map(text).collect::<Vec<_>>().join("\n");
            let mut destination = Destination::open(to)?;
            destination.write(text.as_bytes())?;
            destination.finish()?;
        }
    }
    Ok(failed)
}

/// Runs the work of the files, several at a time, and returns the results in order. Adds the failures to `failed`.
async fn successes<T>(
    work: impl Iterator<Item = impl Future<Output = Result<T, String>>>,
    failed: &mut Vec<String>,
) -> Vec<T> {
    let results: Vec<Result<T, String>> = futures::stream::iter(work).buffered(CONCURRENT_FILES).collect().await;
    let mut found = Vec::with_capacity(results.len());
    for result in results {
        match result {
            Ok(success) => found.push(success),
            Err(failure) => failed.push(failure),
        }
    }
    found
}

/// Uploads a file and waits for its text. Error: a file without text.
async fn read<'a>(
    client: &Client,
    path: &'a Path,
    template: &NewFile,
    progress: &Progress,
) -> Result<ReadFile<'a>, String> {
    let line = progress.line(&documents::name_of(path));
    let read = async {
        let document = documents::add(client, path, template, &line).await?;
        let document = documents::read_text(client, &document.document_id, &line).await?;
        let is_ready = document.state() == v1::DocumentState::Ready;
        ensure!(is_ready, "the file has no text: {}", document.state_reason);
        Ok(document)
    };
    read.await.map(|document| ReadFile { path, document }).map_err(|error| documents::failure(path, &error))
}

/// Creates or finds the prompt for a revision of a schema. A repeated command with the same revision uses the same prompt.
async fn prompt_of(client: &Client, schema: v1::SchemaRevision) -> Result<String> {
    let name: String = schema.name.chars().take(NAME_CHARS).collect();
    let prompt = v1::Prompt {
        name: format!("{name} ({})", schema.schema_revid),
        content: INSTRUCTIONS.to_owned(),
        schema_revid: schema.schema_revid,
        ..v1::Prompt::default()
    };
    let request = v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() };
    Ok(present(answer(client.prompts().create_prompt(request)).await?.prompt)?.prompt_revid)
}

/// Derives a schema and a prompt from a document, and prints both. A repeated derivation uses the same prompt.
async fn derive(
    client: &Client,
    document: &v1::Document,
    options: &RunOptions,
    progress: &ProgressLine,
) -> Result<String> {
    let mark = mark(&document.document_id);
    let request =
        v1::ListPromptsRequest { page_size: 1, filter: names::filter(&mark), ..v1::ListPromptsRequest::default() };
    let earlier = answer(client.prompts().list_prompts(request)).await?.prompts.into_iter().next();
    if let Some(prompt) = earlier {
        progress.note(&format!("the prompt {:?} was derived from this file earlier", prompt.name));
        return Ok(prompt.prompt_revid);
    }
    let request = v1::ChatRequest {
        document_ids: vec![document.document_id.clone()],
        ephemeral: true,
        text: DERIVE.to_owned(),
        model: options.model.clone(),
        credit_budget: options.credit_budget,
        ..v1::ChatRequest::default()
    };
    let mut screen = ChatScreen::new(Screen::hidden());
    let finished = conversation::run(client, &mut screen, request, Some(&|call| decision(call, &mark))).await?;
    let working = finished.completed.working_state.unwrap_or_default();
    if working.prompt_revid.is_empty() {
        let answer = finished.completed.text;
        bail!("no prompt was derived from {}: pass --schema or --prompt; the model: {answer}", document.name);
    }
    let request = v1::GetPromptRevisionRequest { prompt_revid: working.prompt_revid };
    let prompt = present(answer(client.prompts().get_prompt_revision(request)).await?.prompt_revision)?;
    progress.note(&format!("derived the prompt {:?} ({})", prompt.name, prompt.prompt_revid));
    if !prompt.schema_revid.is_empty() {
        let schema = schema::get_revision(client, prompt.schema_revid).await?;
        let (name, revid, json) = (schema.name, schema.schema_revid, json_schema(&schema.response_format_json));
        progress.note(&format!("derived the schema {name:?} ({revid}):\n{json:#}"));
    }
    Ok(prompt.prompt_revid)
}

/// Returns the mark: the suffix of the names of a schema and a prompt that are derived from a document.
fn mark(document_id: &str) -> String {
    let start = document_id.char_indices().rev().nth(MARK_CHARS - 1).map_or(0, |(at, _)| at);
    format!("(from {})", document_id.get(start..).unwrap_or_default())
}

/// Approves calls that create a schema or a prompt, after appending the mark to the name in their arguments. Rejects any other
/// call, because the text of the document is untrusted.
fn decision(call: &v1::Call, mark: &str) -> Decision {
    let arguments = DERIVING_TOOLS.contains(&call.name.as_str()).then(|| parsed(&call.arguments_json));
    let marked = arguments.and_then(|mut arguments| {
        let name: String = arguments.get("name")?.as_str()?.chars().take(NAME_CHARS).collect();
        *arguments.get_mut("name")? = Value::from(format!("{name} {mark}"));
        Some(arguments.to_string())
    });
    match marked {
        Some(arguments_json) => Decision::ApprovedEdited(v1::ApprovedEdited { arguments_json }),
        None => Decision::Rejected(v1::Rejected { reason: REJECTED.to_owned() }),
    }
}

/// Returns the JSON Schema of a response format.
fn json_schema(response_format: &str) -> Value {
    let mut format = parsed(response_format);
    format.pointer_mut("/json_schema/schema").map(Value::take).unwrap_or(format)
}

/// Returns the request that exports these extractions of one prompt.
fn request<'a>(
    extractions: impl Iterator<Item = &'a v1::Extraction> + Clone,
    format: ExportFormat,
    citations: bool,
) -> v1::DownloadExtractionsRequest {
    let mut document_ids: Vec<String> = Vec::new();
    for extraction in extractions.clone() {
        if !document_ids.contains(&extraction.document_id) {
            document_ids.push(extraction.document_id.clone());
        }
    }
    let first = extractions.clone().filter_map(|extraction| extraction.create_time);
    let prompt = extractions.map(|extraction| extraction.prompt_revid.as_str()).next().unwrap_or_default();
    v1::DownloadExtractionsRequest {
        document_ids,
        filter: format!("prompt:{prompt}"),
        // Earlier extractions with the prompt do not belong to this command.
        start_time: first.min_by_key(|time| (time.seconds, time.nanos)),
        format: v1::ExportFormat::from(format).into(),
        include_citations: citations || matches!(format, ExportFormat::Json | ExportFormat::Jsonl),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_is_the_number_of_failed_files() {
        let failed = |count| FailedFiles(vec!["a.pdf: the file is empty".to_owned(); count]);
        assert_eq!([1, 2, 100, 300].map(|count| failed(count).status()), [1, 2, 100, 100]);
        assert_eq!(failed(2).to_string(), "a.pdf: the file is empty\na.pdf: the file is empty");
    }

    #[test]
    fn an_export_has_the_extractions_of_the_command() {
        let extraction = |document: &str, seconds| v1::Extraction {
            document_id: document.to_owned(),
            prompt_revid: "prm_1.1".to_owned(),
            create_time: Some(prost_types::Timestamp { seconds, nanos: 5 }),
            ..v1::Extraction::default()
        };
        let extractions = [extraction("doc_1", 9), extraction("doc_2", 7), extraction("doc_1", 8)];
        let json = request(extractions.iter(), ExportFormat::Json, false);
        assert_eq!(json.document_ids, ["doc_1", "doc_2"]);
        assert_eq!((json.filter.as_str(), json.start_time.unwrap().seconds), ("prompt:prm_1.1", 7));
        assert!(json.include_citations);
        assert!(!request(extractions.iter(), ExportFormat::Csv, false).include_citations);
        assert!(request(extractions.iter(), ExportFormat::Csv, true).include_citations);
    }

    #[test]
    fn only_new_schemas_and_prompts_are_approved_under_names_of_the_document() {
        let mark = mark("doc_930c534d385380939dcda0a360b3a31d");
        assert_eq!((mark.as_str(), super::mark("ä").as_str()), ("(from a0a360b3a31d)", "(from ä)"));
        let call = |name: &str, arguments: &str| v1::Call {
            name: name.to_owned(),
            arguments_json: arguments.to_owned(),
            ..v1::Call::default()
        };
        let edited = decision(&call("create_prompt", r#"{"name":"Invoice","content":"Read."}"#), &mark);
        let arguments_json = r#"{"name":"Invoice (from a0a360b3a31d)","content":"Read."}"#.to_owned();
        assert_eq!(edited, Decision::ApprovedEdited(v1::ApprovedEdited { arguments_json }));
        let rejected = Decision::Rejected(v1::Rejected { reason: REJECTED.to_owned() });
        for (name, arguments) in
            [("delete_document", r#"{"name":"a"}"#), ("create_schema", "{}"), ("create_schema", "no JSON")]
        {
            assert_eq!(decision(&call(name, arguments), &mark), rejected, "{name}");
        }
    }

    #[test]
    fn the_schema_of_a_response_format_is_printed() {
        let format = r#"{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}"#;
        assert_eq!(json_schema(format).to_string(), r#"{"type":"object"}"#);
        assert_eq!(json_schema("{}").to_string(), "{}");
    }

    #[tokio::test]
    async fn a_failed_file_does_not_stop_the_others() {
        let mut failed = Vec::new();
        let work = (0..10).map(async |number| if number % 3 == 1 { Err(format!("{number}")) } else { Ok(number) });
        assert_eq!(successes(work, &mut failed).await, [0, 2, 3, 5, 6, 8, 9]);
        assert_eq!(failed, ["1", "4", "7"]);
    }
}
