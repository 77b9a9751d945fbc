//! The routes of the results of prompts: the extractions of a document. A client knows one result of each revision of a prompt:
//! the newest one.

use std::collections::BTreeSet;

use bytes::Bytes;
use folio_operations::documents::GetDocument;
use folio_operations::exports::DownloadExtractions;
use folio_operations::extractions::{
    DeleteExtraction, GetExtraction, ListExtractions, ReplaceExtraction, VerifyExtraction,
};
use folio_operations::prompts::GetPromptRevision;
use folio_operations::{ListRequest, Period, PromptRef};
use folio_resources::{Extraction, ExtractionState};
use folio_types::access::Scope;
use folio_types::{DocumentId, PromptId, PromptRevId, Reason, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::endpoint::{delete, get, put};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::list::rows;
use super::reply::{Reply, Variant};
use super::routes::{Level, Route, org_path, route};
use super::streamed::{ArrayWriter, Streamed, to_json};

const RESULT: &str = org_path!("/llm/result/{document_id}");
const JSON: &str = "application/json";
/// Maximum number of extractions of a document that are read, the newest ones.
const RESULTS_MAX: usize = 10_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<GetExtraction>(Level::One, get(RESULT, find)),
        route::<ReplaceExtraction>(Level::One, put(RESULT, update)),
        route::<DeleteExtraction>(Level::One, delete(RESULT, remove)),
        // A file with all results is a transfer, like an export.
        route::<DownloadExtractions>(Level::One, get(org_path!("/llm/results/{document_id}/download"), download)),
    ]
}

/// The query parameters of a result.
#[derive(Debug, Deserialize, ToSchema)]
struct FindQuery {
    /// The id of a prompt, for the result of its newest revision that has one; `default` is the built-in prompt.
    prompt_id: Option<String>,
    /// The id of a revision of a prompt.
    prompt_revid: Option<String>,
    /// True: if the revision has no result, that of the newest revision of its prompt that has one.
    #[serde(default)]
    prompt_revid_fallback: bool,
    /// The older name of `prompt_revid_fallback`.
    #[serde(default)]
    fallback: bool,
}

/// The query parameters of a change of a result.
#[derive(Debug, Deserialize, ToSchema)]
struct RevisionQuery {
    /// The id of a revision of a prompt.
    prompt_revid: String,
}

/// The changed fields of a result.
#[derive(Debug, Deserialize, ToSchema)]
struct ResultFields {
    /// The complete data, with the members of the original data.
    #[schema(value_type = Object)]
    updated_llm_result: Map<String, Value>,
    /// True if a person confirms the data.
    is_verified: Option<bool>,
}

/// The result of a prompt.
#[derive(Debug, Serialize, ToSchema)]
struct ResultBody {
    /// The id of the revision of the prompt.
    prompt_revid: String,
    /// The id of the prompt.
    prompt_id: String,
    /// The number of the revision.
    prompt_version: u32,
    /// Identifies the document.
    document_id: String,
    /// The data that the model returned.
    #[schema(value_type = Object)]
    llm_result: Value,
    /// The current data.
    #[schema(value_type = Object)]
    updated_llm_result: Value,
    /// True if the data were changed after the model returned them.
    is_edited: bool,
    /// True if the data are confirmed.
    is_verified: bool,
    /// The time of the extraction.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The name of the prompt. Null: the prompt is deleted, or the token does not cover prompts.
    prompt_display_name: Option<String>,
    /// Null: the server has no runs over several documents.
    #[schema(value_type = Option<Object>)]
    run: Option<Value>,
}

/// The outcome of a deletion.
#[derive(Debug, Serialize, ToSchema)]
struct Deletion {
    /// `success`.
    status: &'static str,
    /// The outcome for a person.
    message: &'static str,
}

/// The results of a document as a file.
#[derive(Debug, Serialize, ToSchema)]
struct ResultFile {
    /// Identifies the document.
    document_id: String,
    /// Identifies the organization.
    organization_id: String,
    /// The name of the document. Null: the token does not cover documents.
    document_name: Option<String>,
    /// The time of the newest result.
    #[schema(value_type = String, format = DateTime)]
    extraction_date: Timestamp,
    /// The results, newest first.
    results: Vec<FileEntry>,
}

/// A result in a file.
#[derive(Debug, Serialize, ToSchema)]
struct FileEntry {
    /// The id of the revision of the prompt.
    prompt_revid: String,
    /// The name of the prompt. Null: the prompt is deleted, or the token does not cover prompts.
    prompt_name: Option<String>,
    /// The number of the revision.
    prompt_version: u32,
    /// The current data.
    #[schema(value_type = Object)]
    extraction_result: Value,
    metadata: EntryMetadata,
}

/// Facts about a result in a file.
#[derive(Debug, Serialize, ToSchema)]
struct EntryMetadata {
    /// The time of the extraction.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// True if the data were changed after the model returned them.
    is_edited: bool,
    /// True if the data are confirmed.
    is_verified: bool,
}

/// Returns the ids of a revision and of its prompt for clients.
fn prompt_ids(revid: &PromptRevId) -> (String, String) {
    if revid.of == PromptId::built_in() {
        return (PromptId::BUILT_IN.to_owned(), PromptId::BUILT_IN.to_owned());
    }
    (revid.to_string(), revid.of.to_string())
}

/// Returns data as an object, which clients require.
pub(super) fn object(data: &Value) -> Value {
    if data.is_object() { data.clone() } else { json!({ "result": data }) }
}

/// Returns the completed result of the newest revision, and of this revision the newest one. The results are newest first.
fn newest(found: &[Extraction]) -> Option<&Extraction> {
    let completed = found.iter().filter(|extraction| extraction.state() == ExtractionState::Completed);
    completed.rev().max_by_key(|extraction| extraction.prompt.version)
}

/// Returns the newest completed result of each revision. The results are newest first.
fn newest_of_each(found: Vec<Extraction>) -> Vec<Extraction> {
    let mut seen = BTreeSet::new();
    let completed = found.into_iter().filter(|extraction| extraction.state() == ExtractionState::Completed);
    completed.filter(|extraction| seen.insert(extraction.prompt.to_string())).collect()
}

/// Returns the results of a document without their data, newest first. None as the prompt: of all prompts.
async fn results(
    client: &Client,
    document_id: &DocumentId,
    prompt: Option<&PromptRef>,
) -> Result<Vec<Extraction>, Failure> {
    let filter = prompt.map(|prompt| format!("prompt:{prompt}")).unwrap_or_default();
    let read = |list: ListRequest| {
        let (document_id, period) = (Some(document_id.clone()), Period::default());
        let found = client.run(ListExtractions { document_id, period, include_data: false, list });
        async move { found.await.map(|found| found.page) }
    };
    let found = rows(ListRequest { filter, ..ListRequest::default() }, RESULTS_MAX, &read).await?;
    Ok(found.items)
}

/// Returns the result of a prompt or of a revision, with its data. None: it has no result.
async fn result(client: &Client, document_id: &DocumentId, prompt: &PromptRef) -> Result<Option<Extraction>, Failure> {
    match newest(&results(client, document_id, Some(prompt)).await?) {
        Some(found) => client.run(GetExtraction { extraction_id: found.id.clone() }).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the name of a prompt, if the token covers prompts and the prompt exists.
async fn prompt_name(client: &Client, revid: &PromptRevId) -> Result<Option<String>, folio_types::Error> {
    if !client.covers(Scope::Definitions) {
        return Ok(None);
    }
    match client.call(GetPromptRevision { prompt_revid: PromptRef::Revision(revid.clone()) }).await {
        Ok(revision) => Ok(Some(revision.name)),
        Err(error) if error.reason == Reason::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

async fn body(client: &Client, extraction: &Extraction) -> Reply<Variant<ResultBody>> {
    let prompt_display_name = prompt_name(client, &extraction.prompt).await?;
    let (prompt_revid, prompt_id) = prompt_ids(&extraction.prompt);
    let body = ResultBody {
        prompt_revid,
        prompt_id,
        prompt_version: extraction.prompt.version,
        document_id: extraction.document.to_string(),
        llm_result: object(&extraction.original),
        updated_llm_result: object(extraction.current()),
        is_edited: extraction.edited.is_some(),
        is_verified: extraction.verified,
        created_at: extraction.created_at,
        updated_at: extraction.updated_at,
        prompt_display_name,
        run: None,
    };
    // A later run makes another extraction the result.
    Ok(Variant { version: extraction.version, variant: extraction.id.to_string(), body })
}

async fn find(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<FindQuery>,
) -> Reply<Variant<ResultBody>> {
    let named = |id: &Option<String>| id.clone().filter(|id| !id.is_empty());
    let (of_prompt, of_revision) = (named(&query.prompt_id), named(&query.prompt_revid));
    let Some(id) = of_prompt.as_ref().or(of_revision.as_ref()) else {
        let detail = "Either prompt_id or prompt_revid is required";
        return Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    };
    let missing = || Failure::not_found(format!("LLM result not found for document_id: {document_id}"));
    let prompt: PromptRef = id.parse().map_err(|_| missing())?;
    let found = match (result(&client, &document_id, &prompt).await?, &prompt) {
        (None, PromptRef::Revision(revision)) if query.prompt_revid_fallback || query.fallback => {
            result(&client, &document_id, &PromptRef::Newest(revision.of.clone())).await?
        }
        (found, _) => found,
    };
    body(&client, &found.ok_or_else(missing)?).await
}

async fn update(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<RevisionQuery>,
    Json(fields): Json<ResultFields>,
) -> Reply<Variant<ResultBody>> {
    let existing = match query.prompt_revid.parse::<PromptRef>() {
        Ok(prompt) => result(&client, &document_id, &prompt).await?,
        Err(_) => {
            results(&client, &document_id, None).await?;
            None
        }
    };
    let Some(existing) = existing else {
        let prompt: String = query.prompt_revid.chars().take(80).collect();
        let detail = format!("No existing LLM result found for document_id: {document_id}, prompt_revid: {prompt}");
        return Err(Failure::bad_request(detail));
    };
    client.check_variant(existing.id.as_str())?;
    check_members(&existing.original, &fields.updated_llm_result)?;
    let extraction_id = existing.id;
    let data = Value::Object(fields.updated_llm_result);
    let replace = ReplaceExtraction { extraction_id: extraction_id.clone(), data, etag: client.etag };
    let replaced = client.run_part("data", replace).await;
    let mut changed = replaced.map_err(|failure| failure.rename("data", "updated_llm_result"))?;
    // A repeated request finds the verification.
    if fields.is_verified.unwrap_or(false) && !changed.verified {
        let etag = Some(folio_types::Etag::new(changed.version));
        changed = client.run_part("verification", VerifyExtraction { extraction_id, verified: true, etag }).await?;
    }
    body(&client, &changed).await
}

/// Checks that the new data have the members of the original data. Error: status 400.
fn check_members(original: &Value, updated: &Map<String, Value>) -> Result<(), Failure> {
    let original = object(original);
    let names = |members: &Map<String, Value>| members.keys().cloned().collect::<BTreeSet<_>>();
    let (expected, found) = (original.as_object().map(names).unwrap_or_default(), names(updated));
    if expected == found {
        return Ok(());
    }
    let detail = format!("Updated result signature does not match original. Expected: {expected:?}, found: {found:?}");
    Err(Failure::bad_request(detail))
}

/// Deletes all results of a revision, so that none is found afterwards.
async fn remove(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<RevisionQuery>,
) -> Reply<Json<Deletion>> {
    let mut found = match query.prompt_revid.parse::<PromptRef>() {
        Ok(prompt) => results(&client, &document_id, Some(&prompt)).await?,
        Err(_) => {
            results(&client, &document_id, None).await?;
            Vec::new()
        }
    };
    if found.is_empty() {
        return Err(Failure::not_found(format!("LLM result not found for document_id: {document_id}")));
    }
    // The client knows the version of the result, which is deleted first.
    let position = newest(&found).and_then(|newest| found.iter().position(|extraction| extraction.id == newest.id));
    found.rotate_left(position.unwrap_or_default());
    if let Some(first) = found.first() {
        client.check_variant(first.id.as_str())?;
    }
    let mut etag = client.etag;
    for extraction in found {
        let part = format!("deletion of {}", extraction.id);
        client.run_part(&part, DeleteExtraction { extraction_id: extraction.id, etag: etag.take() }).await?;
    }
    Ok(Json(Deletion { status: "success", message: "LLM result deleted" }))
}

async fn download(client: Client, Id(document_id): Id<DocumentId>) -> Reply<Streamed<Json<ResultFile>>> {
    let found = newest_of_each(results(&client, &document_id, None).await?);
    let Some(newest) = found.first() else {
        return Err(Failure::not_found("No LLM results found for this document"));
    };
    let document_name = match client.covers(Scope::Documents) {
        true => Some(client.run(GetDocument { document_id: document_id.clone() }).await?.name),
        false => None,
    };
    let name = format!("{document_id}_results.json");
    let file = ResultFile {
        document_id: document_id.to_string(),
        organization_id: client.organization().to_string(),
        document_name,
        extraction_date: newest.created_at,
        results: Vec::new(),
    };
    // The array of the results is the last member.
    let mut start = to_json(&file)?;
    start.truncate(start.len().saturating_sub("]}".len()));
    let reader = client.clone();
    let whole = async_stream::try_stream! {
        yield Bytes::from(start);
        let mut array = ArrayWriter::default();
        for extraction in found {
            let extraction = reader.call(GetExtraction { extraction_id: extraction.id }).await?;
            let prompt_name = prompt_name(&reader, &extraction.prompt).await?;
            yield array.elements(&[entry(&extraction, prompt_name)])?;
        }
        yield Bytes::from_static(b"]}");
    };
    Ok(Streamed::new(&client, JSON, whole).attachment(&name))
}

fn entry(extraction: &Extraction, prompt_name: Option<String>) -> FileEntry {
    FileEntry {
        prompt_revid: prompt_ids(&extraction.prompt).0,
        prompt_name,
        prompt_version: extraction.prompt.version,
        extraction_result: object(extraction.current()),
        metadata: EntryMetadata {
            created_at: extraction.created_at,
            updated_at: extraction.updated_at,
            is_edited: extraction.edited.is_some(),
            is_verified: extraction.verified,
        },
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    #[test]
    fn the_built_in_prompt_is_named_by_a_word() {
        let own = PromptRevId::new(PromptId::derive(&["a"]), 3);
        assert_eq!(prompt_ids(&own), (own.to_string(), own.of.to_string()));
        let built_in = PromptRevId::new(PromptId::built_in(), 1);
        assert_eq!(prompt_ids(&built_in), ("default".to_owned(), "default".to_owned()));
    }

    #[test]
    fn a_result_is_an_object() {
        assert_eq!(object(&json!({ "a": 1 })), json!({ "a": 1 }));
        assert_eq!(object(&json!([1])), json!({ "result": [1] }));
    }

    #[test]
    fn an_update_has_the_members_of_the_original() {
        let original = json!({ "a": 1, "b": { "c": 2 } });
        for (updated, accepted) in [
            (json!({ "b": {}, "a": null }), true),
            (json!({ "a": 1 }), false),
            (json!({ "a": 1, "b": 2, "c": 3 }), false),
        ] {
            let checked = check_members(&original, updated.as_object().unwrap());
            assert_eq!(checked.is_ok(), accepted, "{updated}");
            assert!(checked.is_ok() || checked.unwrap_err().into_response().status() == 400);
        }
        assert!(check_members(&json!([1]), json!({ "result": [2] }).as_object().unwrap()).is_ok());
    }
}
