//! The routes of prompts.

use folio_operations::PromptRef;
use folio_operations::documents::GetDocument;
use folio_operations::models::ModelUse;
use folio_operations::prompts::{
    CreatePrompt, DeletePrompt, GetPromptRevision, ListPromptRevisions, ListPrompts, PromptFields, UpdatePrompt,
};
use folio_resources::{Prompt, PromptRevision};
use folio_types::access::Scope;
use folio_types::{DocumentId, Error, PromptId, Reason, SchemaId, SchemaRevId, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::documents;
use super::endpoint::{delete, get, post, put};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::grid::Field;
use super::list::{ListQuery, RowPage, versions};
use super::models::{chosen, enabled};
use super::reply::{Message, Reply, Versioned};
use super::routes::{Level, Route, org_path, route};

const PROMPTS: &str = org_path!("/prompts");
/// The id is one of a revision in GET, and one of a prompt in PUT and DELETE.
const PROMPT: &str = org_path!("/prompts/{prompt_id}");

/// The model of DocRouter's clients that choose none.
const MODEL: &str = "gpt-4o-mini";

/// The fields that requests may sort and filter.
const FIELDS: &[Field] = &[
    Field::same("name"),
    Field::same("model"),
    Field::same("schema_id"),
    Field::same("tag_ids"),
    Field::same("created_by"),
    Field::same("prompt_revid"),
    Field::time("created_at", "create_time"),
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<CreatePrompt>(Level::One, post(PROMPTS, create)),
        route::<ListPrompts>(Level::One, get(PROMPTS, list)),
        route::<GetPromptRevision>(Level::One, get(PROMPT, find)),
        route::<UpdatePrompt>(Level::One, put(PROMPT, update)),
        route::<DeletePrompt>(Level::One, delete(PROMPT, remove)),
        route::<ListPromptRevisions>(Level::One, get(org_path!("/prompts/{prompt_id}/versions"), list_versions)),
    ]
}

/// The fields of a prompt. An update replaces all of them.
#[derive(Debug, Clone, Deserialize, ToSchema)]
struct PromptBodyFields {
    /// The name. If a prompt has it, without regard to case, a creation adds a version to that prompt.
    name: String,
    /// The instructions.
    content: String,
    /// The schema of the answers. Default: none.
    schema_id: Option<String>,
    /// The version of the schema. Default: the newest.
    schema_version: Option<u32>,
    /// The tags of the documents on which the prompt runs.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    tag_ids: Option<Vec<String>>,
    /// The model. Default: the default model of the organization, also for `gpt-4o-mini` if it is not enabled.
    model: Option<String>,
    /// Knowledge bases are not supported: any id is refused.
    kb_id: Option<String>,
}

/// A version of a prompt.
#[derive(Debug, Serialize, ToSchema)]
struct PromptBody {
    /// Identifies the version; `default` is the built-in one.
    prompt_revid: String,
    /// Identifies the prompt; `default` is the built-in one.
    prompt_id: String,
    /// The number of the version, from 1.
    prompt_version: u32,
    /// The current name of the prompt.
    name: String,
    /// The instructions.
    content: String,
    /// The schema of the answers.
    schema_id: Option<String>,
    /// The version of the schema.
    schema_version: Option<u32>,
    /// The tags of the documents on which the prompt runs.
    tag_ids: Vec<String>,
    /// The model that runs the prompt.
    model: String,
    /// Always null.
    kb_id: Option<String>,
    /// Always empty.
    peer_match_keys: Vec<String>,
    /// The parts of a document that the model receives.
    include: PromptInclude,
    /// The time of creation of the version.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The user that created the version.
    created_by: String,
}

/// The parts of a document that the model receives.
#[derive(Debug, Serialize, ToSchema)]
struct PromptInclude {
    /// Always true.
    ocr_text: bool,
    /// Always empty.
    metadata_keys: Vec<String>,
    /// Always false: models receive the text.
    pdf: bool,
}

/// A page of prompts, or the versions of one.
#[derive(Debug, Serialize, ToSchema)]
struct PromptList {
    /// The newest version of each prompt of the page, or the newest 100 versions of one prompt.
    prompts: Vec<PromptBody>,
    /// Number of prompts that match, exact up to 10,000, or number of versions.
    total_count: u64,
    /// Number of prompts before the page.
    skip: u32,
}

/// The query parameters of the list of prompts.
#[derive(Debug, Deserialize, ToSchema)]
struct PromptQuery {
    /// Only prompts that have a tag of this document.
    document_id: Option<String>,
    /// Ids of tags, separated by commas. Only prompts with all of them.
    tag_ids: Option<String>,
}

impl PromptBody {
    /// `default_model`: the model of a prompt that names none.
    fn new(revision: &PromptRevision, default_model: &str) -> Self {
        let is_built_in = revision.revid.of == PromptId::built_in();
        let id = |id: String| if is_built_in { PromptId::BUILT_IN.to_owned() } else { id };
        Self {
            prompt_revid: id(revision.revid.to_string()),
            prompt_id: id(revision.revid.of.to_string()),
            prompt_version: revision.revid.version,
            name: revision.name.clone(),
            content: revision.content.clone(),
            schema_id: revision.schema.as_ref().map(|schema| schema.of.to_string()),
            schema_version: revision.schema.as_ref().map(|schema| schema.version),
            tag_ids: revision.tags.iter().map(ToString::to_string).collect(),
            model: revision.model.as_deref().unwrap_or(default_model).to_owned(),
            kb_id: None,
            peer_match_keys: Vec::new(),
            include: PromptInclude { ocr_text: true, metadata_keys: Vec::new(), pdf: false },
            created_at: revision.created_at,
            created_by: revision.created_by.to_string(),
        }
    }
}

/// Returns the descriptions of revisions. Reads the default model only if one of them names no model.
async fn bodies(client: &Client, revisions: &[&PromptRevision]) -> Result<Vec<PromptBody>, Failure> {
    let default = match revisions.iter().any(|revision| revision.model.is_none()) {
        true => enabled(client, Some(ModelUse::Prompts)).await?.default,
        false => String::new(),
    };
    Ok(revisions.iter().map(|revision| PromptBody::new(revision, &default)).collect())
}

async fn body(client: &Client, revision: &PromptRevision) -> Result<PromptBody, Failure> {
    let described = bodies(client, &[revision]).await?.pop();
    described.ok_or_else(|| Error::internal("a prompt has no description").into())
}

async fn versioned(client: &Client, prompt: &Prompt) -> Reply<Versioned<PromptBody>> {
    Ok(Versioned { version: prompt.version, body: body(client, &prompt.latest).await? })
}

/// The references of a request, which are checked before the operation so that their errors have the texts of DocRouter.
struct References {
    /// Id of a schema revision, or of a schema for its newest revision. Empty: no schema.
    schema: String,
    tags: Vec<String>,
}

/// Checks the form of the references of a prompt.
///
/// # Errors
/// Status 400 for tags and knowledge bases, 404 for schemas.
fn references(fields: &PromptBodyFields) -> Result<References, Failure> {
    if fields.kb_id.is_some() {
        return Err(Failure::bad_request("Knowledge bases are not supported by this server"));
    }
    let tags = fields.tag_ids.clone().unwrap_or_default();
    documents::tags(&tags)?;
    let schema = match (&fields.schema_id, fields.schema_version) {
        (None, _) => String::new(),
        (Some(id), version) => {
            let id: SchemaId = id.parse().map_err(|_: Error| missing_schema(fields))?;
            version.map_or_else(|| id.to_string(), |version| SchemaRevId::new(id.clone(), version).to_string())
        }
    };
    if fields.schema_version == Some(0) && fields.schema_id.is_some() {
        return Err(missing_schema(fields));
    }
    Ok(References { schema, tags })
}

fn missing_schema(fields: &PromptBodyFields) -> Failure {
    let id: String = fields.schema_id.iter().flat_map(|id| id.chars()).take(80).collect();
    let version = fields.schema_version.map(|version| format!(" version {version}")).unwrap_or_default();
    Failure::not_found(format!("Schema with ID {id}{version} not found"))
}

/// Returns the error of a change with the texts that clients match.
fn refused(failure: Failure, fields: &PromptBodyFields) -> Failure {
    match failure.missing_kind() {
        Some("tag") => return documents::missing_tag(failure),
        Some(kind) if kind.starts_with("schema") => return missing_schema(fields),
        _ => {}
    }
    let model = fields.model.as_deref().unwrap_or_default();
    failure.when(Reason::ModelNotAvailable, StatusCode::BAD_REQUEST, format!("Invalid model: {model}"))
}

async fn create(client: Client, Json(fields): Json<PromptBodyFields>) -> Reply<Versioned<PromptBody>> {
    let References { schema, tags } = references(&fields)?;
    let model = chosen(&client, fields.model.clone(), ModelUse::Prompts, MODEL).await?;
    let prompt = PromptFields {
        name: fields.name.clone(),
        content: fields.content.clone(),
        schema_revid: schema,
        model: model.unwrap_or_default(),
        temperature: None,
        is_run_by_agent: false,
        tag_ids: tags,
    };
    let created = client.run(CreatePrompt { prompt }).await.map_err(|failure| refused(failure, &fields))?;
    versioned(&client, &created.prompt).await
}

async fn list(
    client: Client,
    Query(query): Query<ListQuery>,
    Query(prompts): Query<PromptQuery>,
) -> Reply<Json<PromptList>> {
    let filter = filter(&prompts)?;
    // Without the scope, a missing document has no prompts.
    if let Some(document_id) = filter.document.filter(|_| client.covers(Scope::Documents)) {
        client.run(GetDocument { document_id }).await?;
    }
    let page = query.page(FIELDS, &filter.text, |list| client.run(ListPrompts { list })).await?;
    let latest: Vec<&PromptRevision> = page.rows.iter().map(|listed| &listed.resource.latest).collect();
    let prompts = bodies(&client, &latest).await?;
    Ok(Json(PromptList { prompts, total_count: page.total_count, skip: page.skip }))
}

/// The conditions of a list of prompts.
#[derive(Debug)]
struct PromptConditions {
    /// The document that must exist.
    document: Option<DocumentId>,
    /// The filter of the operation.
    text: String,
}

/// Returns the conditions of a list. An empty parameter counts as absent.
///
/// # Errors
/// Status 404 for a malformed document, 400 for malformed tags.
fn filter(query: &PromptQuery) -> Result<PromptConditions, Failure> {
    let mut conditions = Vec::new();
    let document = query.document_id.as_deref().filter(|id| !id.is_empty());
    let document = document.map(|id| id.parse::<DocumentId>().map_err(|_| Failure::not_found("Document not found")));
    let document = document.transpose()?;
    conditions.extend(document.iter().map(|id| format!("document:{id}")));
    let ids = query.tag_ids.iter().flat_map(|ids| ids.split(',')).map(str::trim).filter(|id| !id.is_empty());
    let tags = documents::tags(&ids.map(str::to_owned).collect::<Vec<_>>())?;
    conditions.extend(tags.iter().map(|tag| format!("tag:{tag}")));
    Ok(PromptConditions { document, text: conditions.join(" ") })
}

async fn find(client: Client, Id(prompt_revid): Id<PromptRef>) -> Reply<Json<PromptBody>> {
    let is_revision = match &prompt_revid {
        PromptRef::Revision(_) => true,
        PromptRef::Newest(id) => *id == PromptId::built_in(),
    };
    if !is_revision {
        return Err(Error::not_found("prompt", prompt_revid).into());
    }
    let revision = client.run(GetPromptRevision { prompt_revid }).await?;
    Ok(Json(body(&client, &revision).await?))
}

async fn update(
    client: Client,
    Id(prompt_id): Id<PromptId>,
    Json(fields): Json<PromptBodyFields>,
) -> Reply<Versioned<PromptBody>> {
    let References { schema, tags } = references(&fields)?;
    let model = chosen(&client, fields.model.clone(), ModelUse::Prompts, MODEL).await?;
    let update = UpdatePrompt {
        prompt_id,
        name: Some(fields.name.clone()),
        content: Some(fields.content.clone()),
        schema_revid: Some(schema),
        model: Some(model.unwrap_or_default()),
        // DocRouter's clients do not know these fields.
        temperature: None,
        is_run_by_agent: None,
        tag_ids: Some(tags),
        etag: client.etag,
    };
    let updated = client.run(update).await.map_err(|failure| refused(failure, &fields))?;
    versioned(&client, &updated.prompt).await
}

async fn remove(client: Client, Id(prompt_id): Id<PromptId>) -> Reply<Json<Message>> {
    let etag = client.etag;
    client.run(DeletePrompt { prompt_id, etag }).await?;
    Ok(Message::new("Prompt deleted successfully"))
}

async fn list_versions(client: Client, Id(prompt): Id<PromptRef>) -> Reply<Json<PromptList>> {
    let prompt_id = match prompt {
        PromptRef::Newest(id) => id,
        revision @ PromptRef::Revision(_) => return Err(missing(Error::not_found("prompt", revision).into())),
    };
    if prompt_id == PromptId::built_in() {
        let revision = client.run(GetPromptRevision { prompt_revid: PromptRef::Newest(prompt_id) }).await?;
        let prompts = bodies(&client, &[&revision]).await?;
        return Ok(Json(PromptList { prompts, total_count: 1, skip: 0 }));
    }
    let read = |list| client.run(ListPromptRevisions { prompt_id: prompt_id.clone(), list });
    let RowPage { rows, total_count, skip } = versions(read).await.map_err(missing)?;
    let revisions: Vec<&PromptRevision> = rows.iter().collect();
    Ok(Json(PromptList { prompts: bodies(&client, &revisions).await?, total_count, skip }))
}

fn missing(failure: Failure) -> Failure {
    failure.when(Reason::NotFound, StatusCode::NOT_FOUND, "Prompt not found or not in this organization")
}

#[cfg(test)]
mod tests {
    use folio_types::TagId;

    use super::*;

    fn fields() -> PromptBodyFields {
        PromptBodyFields {
            name: "a".to_owned(),
            content: "b".to_owned(),
            schema_id: None,
            schema_version: None,
            tag_ids: None,
            model: None,
            kb_id: None,
        }
    }

    #[test]
    fn the_version_of_a_schema_is_part_of_its_reference() {
        let schema = SchemaId::derive(&["s"]);
        let of = |schema_id: Option<String>, schema_version| {
            references(&PromptBodyFields { schema_id, schema_version, ..fields() })
                .map(|references| references.schema)
                .map_err(|failure| failure.message().to_owned())
        };
        assert_eq!(of(None, Some(3)), Ok(String::new()));
        assert_eq!(of(Some(schema.to_string()), None), Ok(schema.to_string()));
        assert_eq!(of(Some(schema.to_string()), Some(3)), Ok(format!("{schema}.3")));
        assert_eq!(of(Some("x".to_owned()), None), Err("Schema with ID x not found".to_owned()));
        assert_eq!(of(Some("x".to_owned()), Some(2)), Err("Schema with ID x version 2 not found".to_owned()));
        assert!(of(Some(schema.to_string()), Some(0)).is_err());
    }

    #[test]
    fn unknown_references_are_refused_with_their_texts() {
        let tags = PromptBodyFields { tag_ids: Some(vec!["x".to_owned()]), ..fields() };
        assert_eq!(references(&tags).err().unwrap().message(), "Invalid tag IDs: [\"x\"]");
        assert!(references(&PromptBodyFields { kb_id: Some("k".to_owned()), ..fields() }).is_err());
    }

    #[test]
    fn a_list_has_the_conditions_of_its_parameters() {
        let (tag, document) = (TagId::derive(&["t"]), DocumentId::derive(&["d"]));
        let query = |document_id: &str, tag_ids: &str| {
            let query = PromptQuery { document_id: Some(document_id.to_owned()), tag_ids: Some(tag_ids.to_owned()) };
            filter(&query)
        };
        assert_eq!(query("", "").unwrap().text, "");
        let both = query(&document.to_string(), &format!("{tag}, {tag}")).unwrap();
        assert_eq!((both.text, both.document), (format!("document:{document} tag:{tag} tag:{tag}"), Some(document)));
        assert_eq!(query("x", "").unwrap_err().message(), "Document not found");
        assert_eq!(query("", "x").unwrap_err().message(), "Invalid tag IDs: [\"x\"]");
    }
}
