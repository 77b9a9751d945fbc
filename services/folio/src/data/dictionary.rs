//! `folio dictionary`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use folio_operations::dictionary_import::IMPORT_BYTES;
use folio_operations::filter::quote;
use folio_proto::v1;
use folio_resources::DictionaryEntryId;
use folio_types::counted;
use serde_json::{Value, json};

use super::dictionary_question;
use super::export::Destination;
use super::output::View;
use super::{DataArguments, StoresArguments, deleted, list_items, present, read_text, set_fields, time, update_mask};
use crate::client::{Client, answer, explain};
use crate::documents;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List terms with their meaning, newest first.
    List(List),
    /// Print the entry of a term.
    #[command(visible_alias = "show")]
    Get(Item),
    /// Set the meaning of a term. It counts as confirmed by a person, unless --confidence is passed.
    Set(Set),
    /// Delete the entry of a term.
    #[command(visible_alias = "rm")]
    Delete(Item),
    /// Create or change entries from a file with JSON lines or CSV.
    Import(Import),
    /// Write the entries as JSON lines or CSV.
    Export(Export),
    /// Look up the abbreviations of a document. A model infers unknown ones, and each becomes a question.
    Review(dictionary_question::Review),
    /// List the questions about terms, newest first.
    Questions(dictionary_question::Questions),
    /// Answer a question: set the meaning of its term.
    Answer(dictionary_question::Answer),
    /// Dismiss a question: its term needs no entry.
    Dismiss(dictionary_question::Dismiss),
    /// Propose entries for the terms that documents explain, and create them with --yes.
    Seed(dictionary_question::Seed),
}

/// The selection of entries.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Only terms that contain this text.
    #[arg(long, value_name = "TEXT")]
    term: Option<String>,
    /// Only entries with this tag; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only meanings of this origin.
    #[arg(long, value_enum)]
    provenance: Option<Origin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Origin {
    /// Entered or confirmed by a person.
    Person,
    /// Read by an agent.
    Agent,
    /// Inferred by a model.
    Inferred,
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    selection: Selection,
    /// Maximum number of entries.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Item {
    /// The term in any spelling, or the id.
    #[arg(value_name = "TERM or ID")]
    item: String,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    /// The term.
    term: String,
    /// The meaning, such as the words of an abbreviation.
    expansion: String,
    /// A text that distinguishes the meaning from others of the term; "" removes it [default: unchanged].
    #[arg(long, value_name = "TEXT")]
    disambiguation: Option<String>,
    /// A tag such as a region; may be given several times [default: unchanged].
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// A document that contains the term, by id or name; may be given several times [default: unchanged].
    #[arg(long = "source", value_name = "DOCUMENT")]
    sources: Vec<String>,
    /// The confidence of an inferred meaning, from 0 to 1 [default: a person confirms the meaning].
    #[arg(long, value_name = "N")]
    confidence: Option<f64>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FileFormat {
    /// One JSON object in each line.
    Jsonl,
    /// CSV with a header.
    Csv,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The file; - is standard input.
    file: PathBuf,
    /// The format [default: csv for a file that ends with .csv, otherwise jsonl].
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    #[command(flatten)]
    selection: Selection,
    /// The format [default: csv for a file that ends with .csv, otherwise jsonl].
    #[arg(long, value_enum)]
    output: Option<FileFormat>,
    /// The file to which the export is written [default: standard output].
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    stores: StoresArguments,
}

impl Selection {
    /// Returns the filter of the request.
    fn filter(&self) -> String {
        let term = self.term.iter().map(|text| format!("term:{}", quote(text)));
        let tags = self.tags.iter().map(|tag| format!("tag:{}", quote(tag)));
        let provenance = self.provenance.iter().map(|origin| {
            let name = match origin {
                Origin::Person => "person",
                Origin::Agent => "agent",
                Origin::Inferred => "inferred",
            };
            format!("provenance:{name}")
        });
        term.chain(tags).chain(provenance).collect::<Vec<_>>().join(" ")
    }
}

impl FileFormat {
    /// Returns the chosen format, otherwise the format that the name of the file states.
    fn of(chosen: Option<Self>, file: Option<&Path>) -> v1::DictionaryFormat {
        let is_csv = file.and_then(Path::extension).is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        match chosen.unwrap_or(if is_csv { Self::Csv } else { Self::Jsonl }) {
            Self::Jsonl => v1::DictionaryFormat::JsonLines,
            Self::Csv => v1::DictionaryFormat::Csv,
        }
    }
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| entries(&client, &list).await).await,
        Command::Get(get) => get.data.run(async |client| Ok(View::one(row(&find(&client, &get.item).await?)))).await,
        Command::Set(set) => set.data.run(async |client| write(&client, &set).await).await,
        Command::Delete(delete) => delete.data.run(async |client| remove(&client, &delete.item).await).await,
        Command::Import(import) => import.data.run(async |client| read(&client, &import).await).await,
        Command::Export(export) => export.stores.run(async |client| download(&client, &export).await).await,
        Command::Review(review) => review.run().await,
        Command::Questions(questions) => questions.run().await,
        Command::Answer(answer) => answer.run().await,
        Command::Dismiss(dismiss) => dismiss.run().await,
        Command::Seed(seed) => seed.run().await,
    }
}

async fn entries(client: &Client, list: &List) -> Result<View> {
    let filter = list.selection.filter();
    let found = list_items! {
        list.limit, client.dictionary().list_dictionary_entries(ListDictionaryEntriesRequest {
            filter: filter.clone()
        }) => dictionary_entries
    };
    let rows = found.await?.iter().map(row).collect();
    Ok(View::list(["term", "expansion", "tags", "provenance", "confidence"], rows))
}

/// Returns the entry with this id, or the entry of this term. An unknown term is an error.
async fn find(client: &Client, what: &str) -> Result<v1::DictionaryEntry> {
    if what.parse::<DictionaryEntryId>().is_ok() {
        let request = v1::GetDictionaryEntryRequest { dictionary_entry_id: what.to_owned() };
        return present(answer(client.dictionary().get_dictionary_entry(request)).await?.dictionary_entry);
    }
    match of_term(client, what).await? {
        Some(entry) => Ok(entry),
        None => bail!("the dictionary has no term {what:?}"),
    }
}

async fn of_term(client: &Client, term: &str) -> Result<Option<v1::DictionaryEntry>> {
    let filter = format!("term={}", quote(term));
    let request = v1::ListDictionaryEntriesRequest { page_size: 1, filter, ..Default::default() };
    let page = answer(client.dictionary().list_dictionary_entries(request)).await?;
    Ok(page.dictionary_entries.into_iter().next())
}

async fn write(client: &Client, set: &Set) -> Result<View> {
    let provenance = match set.confidence {
        Some(_) => v1::DictionaryProvenance::Inferred,
        None => v1::DictionaryProvenance::Person,
    };
    let entry = v1::DictionaryEntry {
        term: set.term.clone(),
        expansion: set.expansion.clone(),
        disambiguation: set.disambiguation.clone().unwrap_or_default(),
        tags: set.tags.clone(),
        source_document_ids: documents::ids(client, &set.sources).await?,
        provenance: provenance.into(),
        confidence: set.confidence,
        ..v1::DictionaryEntry::default()
    };
    let Some(stored) = of_term(client, &set.term).await? else {
        let request = v1::CreateDictionaryEntryRequest { dictionary_entry: Some(entry), ..Default::default() };
        let created = answer(client.dictionary().create_dictionary_entry(request)).await?;
        return Ok(View::one(row(&present(created.dictionary_entry)?)));
    };
    let fields = set_fields(&[
        ("term", true),
        ("expansion", true),
        ("provenance", true),
        ("disambiguation", set.disambiguation.is_some()),
        ("tags", !set.tags.is_empty()),
        ("source_document_ids", !set.sources.is_empty()),
    ]);
    let (dictionary_entry_id, etag) = (stored.dictionary_entry_id, stored.etag);
    let request = v1::UpdateDictionaryEntryRequest {
        dictionary_entry: Some(v1::DictionaryEntry { dictionary_entry_id, etag, ..entry }),
        update_mask: update_mask(&fields),
        ..Default::default()
    };
    let updated = answer(client.dictionary().update_dictionary_entry(request)).await?;
    Ok(View::one(row(&present(updated.dictionary_entry)?)))
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let dictionary_entry_id = find(client, what).await?.dictionary_entry_id;
    let request =
        v1::DeleteDictionaryEntryRequest { dictionary_entry_id: dictionary_entry_id.clone(), ..Default::default() };
    answer(client.dictionary().delete_dictionary_entry(request)).await?;
    Ok(deleted(&dictionary_entry_id))
}

async fn read(client: &Client, import: &Import) -> Result<View> {
    let request = v1::ImportDictionaryRequest {
        format: FileFormat::of(import.format, Some(&import.file)).into(),
        content: read_text(&import.file, IMPORT_BYTES)?,
        ..Default::default()
    };
    Ok(imported(&answer(client.dictionary().import_dictionary(request)).await?))
}

/// Returns a view of the results, one row for each row of the file. If a row was not written, the command prints the view and
/// fails.
fn imported(response: &v1::ImportDictionaryResponse) -> View {
    let shown = |row: &v1::ImportedDictionaryRow| {
        let result = match (row.error_reason.is_empty(), row.created) {
            (false, _) => "failed",
            (true, true) => "created",
            (true, false) => "updated",
        };
        json!({
            "row": row.row, "term": row.term, "result": result, "dictionary_entry_id": row.dictionary_entry_id,
            "error_reason": row.error_reason, "problem": row.error_message,
        })
    };
    let view = View::list(["row", "term", "result", "problem"], response.rows.iter().map(shown).collect());
    match u64::try_from(response.failed_count) {
        Ok(failed) if failed > 0 => {
            view.failing(format!("{} of {} failed", counted(failed, "row"), response.rows.len()))
        }
        _ => view,
    }
}

async fn download(client: &Client, export: &Export) -> Result<()> {
    let to = export.to.as_deref();
    let format = FileFormat::of(export.output, to).into();
    let mut destination = Destination::open(to)?;
    let request = v1::ExportDictionaryRequest { filter: export.selection.filter(), format };
    let mut chunks = answer(client.dictionary().export_dictionary(request)).await?;
    while let Some(part) = chunks.message().await.map_err(|status| explain(&status))? {
        destination.write(&part.chunk)?;
    }
    destination.finish()
}

pub(super) fn row(entry: &v1::DictionaryEntry) -> Value {
    let provenance = match entry.provenance() {
        v1::DictionaryProvenance::Unspecified => "",
        v1::DictionaryProvenance::Person => "person",
        v1::DictionaryProvenance::Agent => "agent",
        v1::DictionaryProvenance::Inferred => "inferred",
    };
    json!({
        "dictionary_entry_id": entry.dictionary_entry_id, "term": entry.term, "expansion": entry.expansion,
        "disambiguation": entry.disambiguation, "tags": entry.tags,
        "source_document_ids": entry.source_document_ids, "provenance": provenance, "confidence": entry.confidence,
        "created_by": entry.created_by, "create_time": time(entry.create_time.as_ref()),
        "update_time": time(entry.update_time.as_ref()), "etag": entry.etag,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_a_filter_with_quoted_texts() {
        let selection = Selection {
            term: Some("a \"b\"".to_owned()),
            tags: vec!["APAC".to_owned(), "Net sales".to_owned()],
            provenance: Some(Origin::Inferred),
        };
        let expected = r#"term:"a \"b\"" tag:"APAC" tag:"Net sales" provenance:inferred"#;
        assert_eq!(selection.filter(), expected);
        assert_eq!(Selection { term: None, tags: Vec::new(), provenance: None }.filter(), "");
    }

    #[test]
    fn the_name_of_a_file_states_the_format() {
        let of = |chosen, file: Option<&str>| FileFormat::of(chosen, file.map(Path::new));
        assert_eq!(of(None, Some("a.CSV")), v1::DictionaryFormat::Csv);
        for file in [Some("a.jsonl"), Some("-"), None] {
            assert_eq!(of(None, file), v1::DictionaryFormat::JsonLines, "{file:?}");
        }
        assert_eq!(of(Some(FileFormat::Jsonl), Some("a.csv")), v1::DictionaryFormat::JsonLines);
    }

    #[test]
    fn an_import_with_a_failed_row_fails_after_its_output() {
        let row = |error_reason: &str| v1::ImportedDictionaryRow {
            error_reason: error_reason.to_owned(),
            ..v1::ImportedDictionaryRow::default()
        };
        let response = |rows: Vec<v1::ImportedDictionaryRow>, failed_count| v1::ImportDictionaryResponse {
            rows,
            failed_count,
            ..v1::ImportDictionaryResponse::default()
        };
        assert_eq!(imported(&response(vec![row("")], 0)).failure, None);
        let failed = imported(&response(vec![row(""), row("INVALID_FIELD")], 1)).failure.unwrap();
        assert_eq!(failed, "1 row of 2 failed");
    }
}
