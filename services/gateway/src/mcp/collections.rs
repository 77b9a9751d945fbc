//! The tool `search_collections`.

use folio_operations::collections::ListCollections;
use folio_operations::{Declaration, ListRequest, Operation as _};
use folio_resources::Collection;
use folio_types::Result;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Client;
use super::call;
use super::tools::{filter, parse, tool};

pub(super) const SEARCH_COLLECTIONS: &str = "search_collections";

/// Maximum number of collections of one answer.
const PAGE_MAX: i32 = 100;

/// Returns the tool with the operation that it runs.
pub(super) fn description() -> (&'static Declaration, Value) {
    let text = "Finds collections by their name. A collection is a group of documents, in which search can be restricted by its \
        collection_id. Returns collections (collection_id, name, description) and next_cursor, which is empty on the last page.";
    let limit = "Maximum number of collections. Default: 50.";
    let properties = json!({
        "name": { "type": "string", "description": "A part of the name. Default: every name." },
        "cursor": { "type": "string", "description": "next_cursor of the previous page. Default: the first page." },
        "limit": { "type": "integer", "minimum": 1, "maximum": PAGE_MAX, "description": limit },
    });
    (&ListCollections::DECLARATION, tool(SEARCH_COLLECTIONS, text, (properties, &[]), true))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Arguments {
    name: String,
    cursor: String,
    limit: i32,
}

pub(super) async fn search(client: &Client, arguments: Map<String, Value>) -> Result<Value> {
    let Arguments { name, cursor, limit } = parse(arguments)?;
    let list = ListRequest {
        page_size: limit.min(PAGE_MAX),
        page_token: cursor,
        filter: filter(&name, ""),
        ..ListRequest::default()
    };
    let page = client.run(ListCollections { list }).await?;
    let collections: Vec<Value> = page.items.iter().map(collection).collect();
    Ok(call::content(&json!({ "collections": collections, "next_cursor": page.next_page_token }), false))
}

fn collection(collection: &Collection) -> Value {
    json!({
        "collection_id": collection.id,
        "name": collection.name,
        "description": collection.description.as_deref().unwrap_or_default(),
    })
}
