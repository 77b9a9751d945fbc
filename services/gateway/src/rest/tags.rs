//! The routes of tags.

use folio_operations::tags::{CreateTag, DeleteTag, GetTag, ListTags, UpdateTag};
use folio_resources::Tag;
use folio_types::{PromptId, Reason, TagId, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{delete, get, post, put};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::grid::Field;
use super::list::ListQuery;
use super::reply::{Message, Reply, Versioned};
use super::routes::{Level, Route, org_path, route};

const TAGS: &str = org_path!("/tags");
const TAG: &str = org_path!("/tags/{tag_id}");

/// The color of a tag without one.
const COLOR: &str = "#3B82F6";

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<CreateTag>(Level::One, post(TAGS, create)),
        route::<ListTags>(Level::One, get(TAGS, list)),
        route::<GetTag>(Level::One, get(TAG, find)),
        route::<UpdateTag>(Level::One, put(TAG, update)),
        route::<DeleteTag>(Level::One, delete(TAG, remove)),
    ]
}

/// The fields of a tag that clients set.
#[derive(Debug, Deserialize, ToSchema)]
struct TagFields {
    /// The name, unique in the organization.
    name: String,
    /// The color as `#rrggbb`. Default: `#3B82F6`. In an update, null keeps the stored color.
    color: Option<String>,
    /// The purpose of the tag. In an update, null removes it.
    description: Option<String>,
}

/// A tag.
#[derive(Debug, Serialize, ToSchema)]
struct TagBody {
    /// Identifies the tag.
    id: String,
    /// The name.
    name: String,
    /// The color as `#rrggbb`.
    color: String,
    /// The purpose of the tag.
    description: Option<String>,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The user that created the tag.
    created_by: String,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// A page of tags.
#[derive(Debug, Serialize, ToSchema)]
struct TagList {
    /// The tags of the page, newest first unless the request sorts them.
    tags: Vec<TagBody>,
    /// Number of tags that match, exact up to 10,000.
    total_count: u64,
    /// Number of tags before the page.
    skip: u32,
}

impl From<&Tag> for TagBody {
    fn from(tag: &Tag) -> Self {
        Self {
            id: tag.id.to_string(),
            name: tag.name.clone(),
            color: tag.color.clone().unwrap_or_else(|| COLOR.to_owned()),
            description: tag.description.clone(),
            created_at: tag.created_at,
            created_by: tag.created_by.to_string(),
            updated_at: tag.updated_at,
        }
    }
}

/// The fields that requests may sort and filter.
const FIELDS: &[Field] = &[
    Field::text("id", "tag_id"),
    Field::same("name"),
    Field::same("description"),
    Field::same("color"),
    Field::time("created_at", "create_time"),
    Field::same("created_by"),
];

async fn create(client: Client, Json(fields): Json<TagFields>) -> Reply<Versioned<TagBody>> {
    let operation = CreateTag {
        name: fields.name.clone(),
        color: fields.color.unwrap_or_else(|| COLOR.to_owned()),
        description: fields.description.unwrap_or_default(),
    };
    let created = client.run(operation).await.map_err(|failure| name_taken(failure, &fields.name))?;
    Ok(Versioned::of(&created))
}

async fn list(client: Client, Query(query): Query<ListQuery>) -> Reply<Json<TagList>> {
    let page = query.page(FIELDS, "", |list| client.run(ListTags { list })).await?;
    let tags = page.rows.iter().map(Into::into).collect();
    Ok(Json(TagList { tags, total_count: page.total_count, skip: page.skip }))
}

async fn find(client: Client, Id(tag_id): Id<TagId>) -> Reply<Versioned<TagBody>> {
    Ok(Versioned::of(&client.run(GetTag { tag_id }).await?))
}

async fn update(client: Client, Id(tag_id): Id<TagId>, Json(fields): Json<TagFields>) -> Reply<Versioned<TagBody>> {
    let operation = UpdateTag {
        tag_id,
        name: Some(fields.name.clone()),
        color: fields.color,
        description: Some(fields.description.unwrap_or_default()),
        etag: client.etag,
    };
    let updated = client.run(operation).await.map_err(|failure| name_taken(failure, &fields.name))?;
    Ok(Versioned::of(&updated))
}

async fn remove(client: Client, Id(tag_id): Id<TagId>) -> Reply<Json<Message>> {
    let tag = client.run(GetTag { tag_id: tag_id.clone() }).await?;
    client.run(DeleteTag { tag_id, etag: client.etag }).await.map_err(|failure| in_use(failure, &tag.name))?;
    Ok(Message::new("Tag deleted successfully"))
}

fn name_taken(failure: Failure, name: &str) -> Failure {
    failure.when(Reason::NameTaken, StatusCode::BAD_REQUEST, format!("Tag with name '{name}' already exists"))
}

fn in_use(failure: Failure, name: &str) -> Failure {
    let is_prompt = |id: &str| id.split_once('_').is_some_and(|(prefix, _)| prefix == PromptId::PREFIX);
    let is_of_prompts = failure.error_detail("users").is_some_and(|ids| ids.split(',').all(is_prompt));
    let users = if is_of_prompts { "prompts" } else { "documents" };
    let detail = format!("Cannot delete tag '{name}' because it is assigned to one or more {users}");
    failure.when(Reason::InUse, StatusCode::BAD_REQUEST, detail)
}
