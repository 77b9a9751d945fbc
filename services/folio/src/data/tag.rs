//! `folio tag`.

use std::collections::BTreeMap;

use anyhow::Result;
use folio_proto::v1;
use folio_types::TagId;
use serde_json::{Value, json};

use super::output::View;
use super::{DataArguments, ItemArguments, ListArguments, deleted, list_items, present, time};
use crate::client::{Client, answer};
use crate::names::{self, Choice, chosen};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List tags, newest first.
    List(ListArguments),
    /// Create a tag.
    Create(Create),
    /// Delete a tag that no document and no prompt has.
    #[command(visible_alias = "delete")]
    Rm(ItemArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The name.
    name: String,
    /// The color, such as #ff8800 [default: none].
    #[arg(long, value_name = "#RRGGBB", default_value = "", hide_default_value = true)]
    color: String,
    /// The purpose [default: none].
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| tags(&client, &list).await).await,
        Command::Create(create) => create.data.run(async |client| make(&client, &create).await).await,
        Command::Rm(rm) => rm.data.run(async |client| remove(&client, &rm.item).await).await,
    }
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let tag_id = id(client, what, names::choose_only).await?;
    let request = v1::DeleteTagRequest { tag_id: tag_id.clone(), ..Default::default() };
    answer(client.tags().delete_tag(request)).await?;
    Ok(deleted(&tag_id))
}

async fn tags(client: &Client, list: &ListArguments) -> Result<View> {
    let found = list_items!(list.limit, client.tags().list_tags(ListTagsRequest { filter: list.filter() }) => tags);
    Ok(View::list(["tag_id", "name", "color", "description"], found.await?.iter().map(row).collect()))
}

async fn make(client: &Client, create: &Create) -> Result<View> {
    let tag = v1::Tag {
        name: create.name.clone(),
        color: create.color.clone(),
        description: create.description.clone(),
        ..v1::Tag::default()
    };
    let request = v1::CreateTagRequest { tag: Some(tag), ..Default::default() };
    Ok(View::one(row(&present(answer(client.tags().create_tag(request)).await?.tag)?)))
}

/// Returns the id of a tag that is named by id or name.
pub(super) async fn id(client: &Client, what: &str, choose: Choice<v1::Tag>) -> Result<String> {
    if what.parse::<TagId>().is_ok() {
        return Ok(what.to_owned());
    }
    let chosen = chosen!("tag", what, choose, client.tags().list_tags(ListTagsRequest) => tags);
    Ok(chosen?.tag_id)
}

/// Returns the ids of tags that are named by ids or names.
pub(super) async fn ids(client: &Client, tags: &[String]) -> Result<Vec<String>> {
    let mut ids = Vec::with_capacity(tags.len());
    for tag in tags {
        ids.push(id(client, tag, names::choose).await?);
    }
    Ok(ids)
}

/// Returns the names of the newest 1,000 tags by their ids. `is_needed`: false reads no tags.
pub(super) async fn names_by_id(client: &Client, is_needed: bool) -> Result<BTreeMap<String, String>> {
    if !is_needed {
        return Ok(BTreeMap::new());
    }
    let request = v1::ListTagsRequest { page_size: 1_000, ..Default::default() };
    let found = answer(client.tags().list_tags(request)).await?.tags;
    Ok(found.into_iter().map(|tag| (tag.tag_id, tag.name)).collect())
}

fn row(tag: &v1::Tag) -> Value {
    json!({
        "tag_id": tag.tag_id, "name": tag.name, "color": tag.color, "description": tag.description,
        "created_by": tag.created_by, "create_time": time(tag.create_time.as_ref()),
        "update_time": time(tag.update_time.as_ref()), "etag": tag.etag,
    })
}
