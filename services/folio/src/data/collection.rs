//! `folio collection`.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use folio_proto::v1;
use folio_resources::CollectionId;
use serde_json::{Value, json};

use super::document::{self, entry};
use super::output::View;
use super::{
    DataArguments, ItemArguments, ListArguments, deleted, list_items, present, set_fields, tag, time, update_mask,
};
use crate::client::{Client, answer};
use crate::names::{self, Choice, chosen};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List collections, newest first.
    List(ListArguments),
    /// Print a collection with its rule.
    #[command(visible_alias = "get")]
    Show(ItemArguments),
    /// Create a collection. Its members are the documents that have all tags and metadata of its rule, also later ones.
    Create(Create),
    /// Change the name, the description or the rule of a collection.
    Update(Update),
    /// List the documents of a collection, newest first.
    Documents(Documents),
    /// Delete a collection. Its documents remain.
    #[command(visible_alias = "delete")]
    Rm(ItemArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The name.
    name: String,
    /// The purpose [default: none].
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    /// A tag that members have, by id or name; may be given several times.
    #[arg(long = "tag", value_name = "TAG", required_unless_present = "metadata")]
    tags: Vec<String>,
    /// A value that members have in their metadata; may be given several times.
    #[arg(long = "metadata", value_name = "KEY=VALUE", value_parser = entry)]
    metadata: Vec<(String, String)>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Update {
    /// The collection, by id or name.
    #[arg(value_name = "ID or NAME")]
    item: String,
    /// The new name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The new purpose; "" removes it.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A tag that members have, by id or name; may be given several times. The tags replace those of the rule.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Remove the tags of the rule.
    #[arg(long, conflicts_with = "tags")]
    no_tags: bool,
    /// A value that members have in their metadata; may be given several times. The values replace those of the rule.
    #[arg(long = "metadata", value_name = "KEY=VALUE", value_parser = entry)]
    metadata: Vec<(String, String)>,
    /// Remove the metadata of the rule.
    #[arg(long, conflicts_with = "metadata")]
    no_metadata: bool,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Documents {
    /// The collection, by id or name.
    #[arg(value_name = "ID or NAME")]
    item: String,
    #[command(flatten)]
    list: ListArguments,
}

impl Update {
    /// Returns the names of the fields to change.
    fn fields(&self) -> Vec<&'static str> {
        set_fields(&[
            ("name", self.name.is_some()),
            ("description", self.description.is_some()),
            ("tag_ids", self.no_tags || !self.tags.is_empty()),
            ("metadata", self.no_metadata || !self.metadata.is_empty()),
        ])
    }
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| collections(&client, &list).await).await,
        Command::Show(show) => show.data.run(async |client| one(&client, &show.item).await).await,
        Command::Create(create) => create.data.run(async |client| make(&client, &create).await).await,
        Command::Update(update) => update.data.run(async |client| change(&client, &update).await).await,
        Command::Documents(of) => of.list.data.run(async |client| members(&client, &of).await).await,
        Command::Rm(rm) => rm.data.run(async |client| remove(&client, &rm.item).await).await,
    }
}

async fn collections(client: &Client, list: &ListArguments) -> Result<View> {
    let found = list_items! {
        list.limit, client.collections().list_collections(ListCollectionsRequest {
            filter: list.filter()
        }) => collections
    };
    let found = found.await?;
    let tags = tag::names_by_id(client, found.iter().any(|collection| !collection.tag_ids.is_empty())).await?;
    let rows = found.iter().map(row).collect();
    let view = View::list(["collection_id", "name", "tag_ids", "metadata", "description"], rows);
    Ok(view.table_of(table(&found, &tags)))
}

/// Returns a table of collections with the names of their tags, by id in `tags`.
fn table(collections: &[v1::Collection], tags: &BTreeMap<String, String>) -> View {
    let row = |collection: &v1::Collection| {
        let names: Vec<&String> = collection.tag_ids.iter().map(|id| tags.get(id).unwrap_or(id)).collect();
        let values: Vec<String> = collection.metadata.iter().map(|(key, value)| format!("{key}={value}")).collect();
        json!({
            "collection_id": collection.collection_id, "name": collection.name, "tags": names, "metadata": values,
            "description": collection.description,
        })
    };
    let columns = ["collection_id", "name", "tags", "metadata", "description"];
    View::list(columns, collections.iter().map(row).collect())
}

async fn one(client: &Client, what: &str) -> Result<View> {
    let collection_id = id(client, what, names::choose).await?;
    let found = answer(client.collections().get_collection(v1::GetCollectionRequest { collection_id })).await?;
    Ok(View::one(row(&present(found.collection)?)))
}

async fn make(client: &Client, create: &Create) -> Result<View> {
    let collection = v1::Collection {
        name: create.name.clone(),
        description: create.description.clone(),
        tag_ids: tag::ids(client, &create.tags).await?,
        metadata: create.metadata.iter().cloned().collect(),
        ..v1::Collection::default()
    };
    let request = v1::CreateCollectionRequest { collection: Some(collection), ..Default::default() };
    let created = answer(client.collections().create_collection(request)).await?;
    Ok(View::one(row(&present(created.collection)?)))
}

async fn change(client: &Client, update: &Update) -> Result<View> {
    let fields = update.fields();
    ensure!(
        !fields.is_empty(),
        "nothing to change: pass --name, --description, --tag, --no-tags, --metadata or --no-metadata"
    );
    let collection = v1::Collection {
        collection_id: id(client, &update.item, names::choose).await?,
        name: update.name.clone().unwrap_or_default(),
        description: update.description.clone().unwrap_or_default(),
        tag_ids: tag::ids(client, &update.tags).await?,
        metadata: update.metadata.iter().cloned().collect(),
        ..v1::Collection::default()
    };
    let request = v1::UpdateCollectionRequest {
        collection: Some(collection),
        update_mask: update_mask(&fields),
        ..Default::default()
    };
    let changed = answer(client.collections().update_collection(request)).await?;
    Ok(View::one(row(&present(changed.collection)?)))
}

async fn members(client: &Client, of: &Documents) -> Result<View> {
    let collection_id = id(client, &of.item, names::choose).await?;
    let found = list_items! {
        of.list.limit, client.collections().list_collection_documents(ListCollectionDocumentsRequest {
            collection_id: collection_id.clone(), filter: of.list.filter()
        }) => documents
    };
    Ok(View::list(document::COLUMNS, found.await?.iter().map(document::row).collect()))
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let collection_id = id(client, what, names::choose_only).await?;
    let request = v1::DeleteCollectionRequest { collection_id: collection_id.clone(), ..Default::default() };
    answer(client.collections().delete_collection(request)).await?;
    Ok(deleted(&collection_id))
}

/// Returns the id of a collection that is named by id or name.
async fn id(client: &Client, what: &str, choose: Choice<v1::Collection>) -> Result<String> {
    if what.parse::<CollectionId>().is_ok() {
        return Ok(what.to_owned());
    }
    let chosen = chosen!("collection", what, choose, client.collections().list_collections(ListCollectionsRequest) => collections);
    Ok(chosen?.collection_id)
}

/// Returns the ids of collections that are named by ids or names.
pub(super) async fn ids(client: &Client, collections: &[String]) -> Result<Vec<String>> {
    let mut ids = Vec::with_capacity(collections.len());
    for collection in collections {
        ids.push(id(client, collection, names::choose).await?);
    }
    Ok(ids)
}

fn row(collection: &v1::Collection) -> Value {
    json!({
        "collection_id": collection.collection_id, "name": collection.name, "description": collection.description,
        "tag_ids": collection.tag_ids, "metadata": collection.metadata, "created_by": collection.created_by,
        "create_time": time(collection.create_time.as_ref()), "update_time": time(collection.update_time.as_ref()),
        "etag": collection.etag,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse_arguments;

    fn update(arguments: &[&str]) -> Result<Update, clap::Error> {
        parse_arguments(&[&["Contracts"][..], arguments].concat())
    }

    #[test]
    fn an_update_changes_the_fields_that_its_arguments_name() {
        assert_eq!(update(&[]).unwrap().fields(), [""; 0]);
        assert_eq!(update(&["--description", "", "--tag", "a"]).unwrap().fields(), ["description", "tag_ids"]);
        assert_eq!(update(&["--no-tags", "--metadata", "year=2026"]).unwrap().fields(), ["tag_ids", "metadata"]);
        assert_eq!(update(&["--name", "Bills", "--no-metadata"]).unwrap().fields(), ["name", "metadata"]);
        for refused in [&["--no-tags", "--tag", "a"][..], &["--metadata", "year"]] {
            assert!(update(refused).is_err(), "{refused:?}");
        }
    }
}
