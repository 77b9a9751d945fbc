//! `folio extraction`.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use folio_proto::v1;
use folio_resources::CitationKind;
use folio_types::{Coverage, ExtractionId};
use serde_json::{Map, Value, json};

use super::output::View;
use super::{DataArguments, collect, document, job, parsed, present, prompt, time};
use crate::client::{Client, answer};
use crate::{documents, names};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List extractions, newest first in each document.
    List(Selection),
    /// Print an extraction with its data.
    Show(Show),
    /// Print the data of extractions, with a column for each value.
    Export(Selection),
    /// Run a prompt on a document and print the extraction.
    Run(Run),
    /// Start a job that runs a prompt on several documents, and print the job; see `folio job`.
    Batch(Batch),
}

/// The selection of extractions.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// The documents, by id or name [default: all].
    #[arg(value_name = "DOCUMENT")]
    documents: Vec<String>,
    /// Only extractions of this prompt or prompt revision, by id or name.
    #[arg(long, value_name = "PROMPT")]
    prompt: Option<String>,
    /// Only extractions that a user verified.
    #[arg(long)]
    verified: bool,
    /// Maximum number of documents, and of extractions of a document.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
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
    #[arg(long, default_value = "")]
    model: String,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Batch {
    /// The prompt, by id, revision or name.
    prompt: String,
    /// The documents, by id or name.
    #[arg(value_name = "DOCUMENT", required = true)]
    documents: Vec<String>,
    /// The model [default: the model of the prompt, otherwise of the organization].
    #[arg(long, default_value = "")]
    model: String,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(selection) => selection.data.run(async |client| list(&client, &selection).await).await,
        Command::Show(show) => show.data.run(async |client| extraction(&client, &show.extraction).await).await,
        Command::Export(selection) => selection.data.run(async |client| export(&client, &selection).await).await,
        Command::Run(run) => run.data.run(async |client| start(&client, &run).await).await,
        Command::Batch(batch) => batch.data.run(async |client| start_job(&client, &batch).await).await,
    }
}

async fn list(client: &Client, selection: &Selection) -> Result<View> {
    let rows = selected(client, selection).await?.iter().map(|(document, found)| row(document, found)).collect();
    let columns =
        ["extraction_id", "document", "prompt_revid", "model", "windows", "edited", "verified", "create_time"];
    Ok(View::list(columns, rows))
}

async fn export(client: &Client, selection: &Selection) -> Result<View> {
    let found = selected(client, selection).await?;
    Ok(data_view(found.iter().map(|(document, extraction)| (document.name.as_str(), extraction))))
}

/// Returns the selected extractions, each with its document.
async fn selected(client: &Client, selection: &Selection) -> Result<Vec<(v1::Document, v1::Extraction)>> {
    let prompt = match &selection.prompt {
        Some(prompt) => Some(prompt::id(client, prompt, names::choose).await?),
        None => None,
    };
    let documents = if selection.documents.is_empty() {
        document::all(client, "", selection.limit).await?
    } else {
        let mut documents = Vec::with_capacity(selection.documents.len());
        for document in &selection.documents {
            documents.push(documents::find(client, document, names::choose).await?);
        }
        documents
    };
    let mut found = Vec::new();
    for document in documents {
        let of_document = collect(selection.limit, async |page_size, page_token| {
            let document_id = document.document_id.clone();
            let request = v1::ListExtractionsRequest { document_id, page_size, page_token, ..Default::default() };
            let page = answer(client.extractions().list_extractions(request)).await?;
            Ok((page.extractions, page.next_page_token))
        });
        let of_document = of_document.await?;
        let of_document = of_document.into_iter().filter(|extraction| {
            let is_of_prompt = prompt.as_deref().is_none_or(|prompt| is_revision_of(&extraction.prompt_revid, prompt));
            is_of_prompt && (extraction.verified || !selection.verified)
        });
        found.extend(of_document.map(|extraction| (document.clone(), extraction)));
    }
    Ok(found)
}

/// Returns true if `revid` is the revision `prompt`, or a revision of the prompt `prompt`.
fn is_revision_of(revid: &str, prompt: &str) -> bool {
    revid == prompt || revid.split_once('.').is_some_and(|(id, _)| id == prompt)
}

async fn extraction(client: &Client, id: &ExtractionId) -> Result<View> {
    let request = v1::GetExtractionRequest { extraction_id: id.to_string() };
    let found = present(answer(client.extractions().get_extraction(request)).await?.extraction)?;
    Ok(View::one(whole(&found)))
}

async fn start(client: &Client, run: &Run) -> Result<View> {
    let document = documents::find(client, &run.document, names::choose).await?;
    let is_ready = document.state() == v1::DocumentState::Ready;
    ensure!(is_ready, "{} has no text to extract from: {}", document.name, document.state_reason);
    let request = v1::RunExtractionRequest {
        document_id: document.document_id,
        prompt_revid: prompt::id(client, &run.prompt, names::choose).await?,
        model: run.model.clone(),
        ..Default::default()
    };
    match answer(client.extractions().run_extraction(request)).await? {
        v1::RunExtractionResponse { job: Some(job), .. } => {
            let extraction_id = job::wait_for_extraction(client, job.job_id).await?;
            let request = v1::GetExtractionRequest { extraction_id };
            let found = present(answer(client.extractions().get_extraction(request)).await?.extraction)?;
            Ok(View::one(whole(&found)))
        }
        created => Ok(View::one(whole(&present(created.extraction)?))),
    }
}

async fn start_job(client: &Client, batch: &Batch) -> Result<View> {
    let mut document_ids = Vec::with_capacity(batch.documents.len());
    for document in &batch.documents {
        document_ids.push(documents::find(client, document, names::choose).await?.document_id);
    }
    let prompt_revid = prompt::id(client, &batch.prompt, names::choose).await?;
    let model = batch.model.clone();
    let request = v1::RunExtractionsRequest { document_ids, prompt_revid, model, ..Default::default() };
    job::view(answer(client.extractions().run_extractions(request)).await?.job)
}

/// Returns the current data.
pub(crate) fn data(extraction: &v1::Extraction) -> Value {
    parsed(extraction.edited_json.as_ref().unwrap_or(&extraction.original_json))
}

fn row(document: &v1::Document, extraction: &v1::Extraction) -> Value {
    let mut row = whole(extraction);
    if let Some(row) = row.as_object_mut() {
        row.insert("document".to_owned(), Value::from(document.name.clone()));
    }
    row
}

fn whole(extraction: &v1::Extraction) -> Value {
    json!({
        "extraction_id": extraction.extraction_id, "document_id": extraction.document_id,
        "prompt_revid": extraction.prompt_revid, "schema_revid": extraction.schema_revid, "model": extraction.model,
        "edited": extraction.edited_json.is_some(), "verified": extraction.verified,
        "verified_by": extraction.verified_by, "created_by": extraction.created_by,
        "create_time": time(extraction.create_time.as_ref()), "update_time": time(extraction.update_time.as_ref()),
        "etag": extraction.etag, "coverage": coverage(extraction),
        "windows": extraction.coverage.as_ref().map(|coverage| coverage.windows),
        "conflicts": extraction.conflicts.iter().map(conflict).collect::<Vec<_>>(),
        "originals": extraction.originals.iter().map(original).collect::<Vec<_>>(),
        "citations": extraction.citations.iter().map(citation).collect::<Vec<_>>(),
        "confidences": extraction.confidences.iter().map(confidence).collect::<Vec<_>>(), "data": data(extraction),
    })
}

/// Returns a line that states which parts of the document were read. None: no prompt run made the extraction.
pub(crate) fn coverage(extraction: &v1::Extraction) -> Option<String> {
    extraction.coverage.as_ref().map(|coverage| Coverage::from(coverage).to_string())
}

fn conflict(conflict: &v1::ExtractionConflict) -> Value {
    let page = (conflict.page > 0).then_some(conflict.page);
    json!({ "path": conflict.path, "value": parsed(&conflict.value_json), "page": page })
}

fn original(original: &v1::OriginalText) -> Value {
    json!({ "path": original.path, "text": original.text })
}

pub(crate) fn citation(citation: &v1::Citation) -> Value {
    let v1::Citation { path, page, quote, occurrences, .. } = citation;
    json!({
        "path": path, "kind": kind(citation.kind()), "page": page, "quote": quote, "occurrences": occurrences,
    })
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

/// Returns the confidence of the model in a value of the original data.
pub(crate) fn confidence_of(extraction: &v1::Extraction, path: &str) -> Option<f64> {
    extraction.confidences.iter().find(|found| found.path == path).map(|found| found.confidence)
}

/// Returns the data of extractions of named documents. Tables and CSV have a column for each path of a value, in the
/// order of its first occurrence.
fn data_view<'a>(extractions: impl Iterator<Item = (&'a str, &'a v1::Extraction)>) -> View {
    let mut columns = vec!["document".to_owned(), "extraction_id".to_owned()];
    let mut known = BTreeSet::new();
    let mut rows = Vec::new();
    for (document, extraction) in extractions {
        let mut row = Map::new();
        row.insert("document".to_owned(), Value::from(document));
        row.insert("extraction_id".to_owned(), Value::from(extraction.extraction_id.clone()));
        for (path, value) in values(&data(extraction)) {
            if known.insert(path.clone()) {
                columns.push(path.clone());
            }
            row.insert(path, value);
        }
        rows.push(Value::Object(row));
    }
    View::list(columns, rows)
}

/// Returns the values of an object by their paths, such as `data.seller.name`. Lists are values.
fn values(data: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    add_values("data", data, &mut found);
    found
}

fn add_values(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                add_values(&format!("{path}.{name}"), member, found);
            }
        }
        other => found.push((path.to_owned(), other.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::output::Format;
    use super::*;

    fn stored(id: &str, original: &str, edited: Option<&str>) -> v1::Extraction {
        v1::Extraction {
            extraction_id: id.to_owned(),
            original_json: original.to_owned(),
            edited_json: edited.map(str::to_owned),
            ..v1::Extraction::default()
        }
    }

    #[test]
    fn an_export_has_a_column_for_each_value_and_the_edited_data() {
        let one = stored("ext_1", r#"{"total": 1}"#, Some(r#"{"total": 12.5, "seller": {"name": "A, B"}}"#));
        let two = stored("ext_2", r#"{"items": [{"pos": 1}], "total": 3}"#, None);
        let view = data_view([("a.pdf", &one), ("b.pdf", &two)].into_iter());
        assert_eq!(
            view.render(Format::Csv),
            "document,extraction_id,data.total,data.seller.name,data.items\n\
             a.pdf,ext_1,12.5,\"A, B\",\n\
             b.pdf,ext_2,3,,\"[{\"\"pos\"\":1}]\"\n"
        );
        let first: Value = serde_json::from_str(view.render(Format::Jsonl).lines().next().unwrap()).unwrap();
        assert_eq!(first["data.seller.name"], "A, B");
    }

    #[test]
    fn a_row_names_the_document_and_states_an_edit() {
        let document = v1::Document { name: "a.pdf".to_owned(), ..v1::Document::default() };
        let row = row(&document, &stored("ext_1", "{}", Some("{\"a\":1}")));
        assert_eq!((&row["document"], &row["edited"], &row["data"]), (&json!("a.pdf"), &json!(true), &json!({"a": 1})));
    }

    #[test]
    fn a_row_states_what_was_read_and_the_conflicts() {
        let coverage = v1::ExtractionCoverage {
            pages: 2,
            pages_read: 2,
            windows: 2,
            model_calls: 3,
            conflicts: 1,
            ..Default::default()
        };
        let conflict = |page| v1::ExtractionConflict { path: "total".to_owned(), value_json: "12.5".to_owned(), page };
        let extraction = v1::Extraction {
            coverage: Some(coverage),
            conflicts: vec![conflict(2), conflict(0)],
            originals: vec![v1::OriginalText { path: "total".to_owned(), text: "957,00 €".to_owned() }],
            citations: vec![v1::Citation {
                path: "total".to_owned(),
                page: 2,
                quote: "957,00".to_owned(),
                occurrences: 1,
                kind: v1::CitationKind::Cited.into(),
                ..v1::Citation::default()
            }],
            confidences: vec![v1::FieldConfidence { path: "total".to_owned(), confidence: 0.75 }],
            ..stored("ext_1", "{}", None)
        };
        let shown = whole(&extraction);
        assert_eq!(shown["coverage"], "2 of 2 pages in 2 windows, 3 model calls, 1 conflict");
        let conflicts =
            json!([{"path": "total", "value": 12.5, "page": 2}, {"path": "total", "value": 12.5, "page": null}]);
        assert_eq!((&shown["windows"], &shown["conflicts"]), (&json!(2), &conflicts));
        assert_eq!(shown["originals"], json!([{"path": "total", "text": "957,00 €"}]));
        let citation = json!({"path": "total", "kind": "cited", "page": 2, "quote": "957,00", "occurrences": 1});
        assert_eq!(shown["citations"], json!([citation]));
        assert_eq!(shown["confidences"], json!([{"path": "total", "confidence": 0.75}]));
        assert_eq!((confidence_of(&extraction, "total"), confidence_of(&extraction, "other")), (Some(0.75), None));
        let without = whole(&stored("ext_1", "{}", None));
        assert_eq!((&without["coverage"], &without["windows"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_prompt_selects_all_of_its_revisions() {
        assert!(is_revision_of("prm_1.3", "prm_1") && is_revision_of("prm_1.3", "prm_1.3"));
        assert!(!is_revision_of("prm_1.3", "prm_1.2") && !is_revision_of("prm_12.1", "prm_1"));
    }
}
