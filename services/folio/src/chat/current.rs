//! The current values of the resource that a call changes, for the difference on its card.

use anyhow::{Context as _, Result, bail};
use folio_proto::v1;
use serde_json::{Value, json};

use crate::client::{Client, answer};
use crate::names;

/// Returns the current values under the names of the arguments of the call. None: the call changes no existing resource,
/// or the resource cannot be read. `document`: the document of the conversation. `extraction`: the data of its working
/// extraction.
pub(crate) async fn of(client: &Client, call: &v1::Call, document: &str, extraction: Option<&str>) -> Option<Value> {
    let arguments: Value = serde_json::from_str(&call.arguments_json).ok()?;
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    let found = match call.name.as_str() {
        "update_schema" | "delete_schema" => schema(client, text("schema_id")?).await,
        "create_schema" => schema_named(client, text("name")?).await,
        "update_prompt" | "delete_prompt" => prompt(client, text("prompt_id")?).await,
        "create_prompt" => prompt_named(client, text("name")?).await,
        "update_tag" | "delete_tag" => tag(client, text("tag_id")?).await,
        "update_document" | "delete_document" => self::document(client, text("document_id").unwrap_or(document)).await,
        "update_extraction_field" => {
            let data: Value = serde_json::from_str(extraction?).ok()?;
            return Some(json!({ "value": value_at(&data, text("path")?)? }));
        }
        _ => return None,
    };
    // Without the current values, the card shows all arguments.
    found.ok()
}

async fn schema(client: &Client, id: &str) -> Result<Value> {
    let request = v1::GetSchemaRevisionRequest { schema_revid: id.to_owned() };
    let revision = answer(client.schemas().get_schema_revision(request)).await?.schema_revision;
    let revision = revision.context("the schema is missing")?;
    let format: Value = serde_json::from_str(&revision.response_format_json)?;
    Ok(json!({ "name": revision.name, "response_format": format, "schema": format }))
}

async fn schema_named(client: &Client, name: &str) -> Result<Value> {
    let (page_size, filter) = (names::CANDIDATES, names::filter(name));
    let request = v1::ListSchemasRequest { page_size, filter, ..v1::ListSchemasRequest::default() };
    let listed = answer(client.schemas().list_schemas(request)).await?.schemas;
    match listed.iter().find(|found| found.name.to_lowercase() == name.to_lowercase()) {
        Some(found) => schema(client, &found.schema_id).await,
        None => bail!("no schema has the name"),
    }
}

async fn prompt(client: &Client, id: &str) -> Result<Value> {
    let request = v1::GetPromptRevisionRequest { prompt_revid: id.to_owned() };
    let revision = answer(client.prompts().get_prompt_revision(request)).await?.prompt_revision;
    let revision = revision.context("the prompt is missing")?;
    // The tool names the schema, the prompt is linked to a revision: the id of the schema, a period, and a number.
    let schema_id = revision.schema_revid.split('.').next().unwrap_or_default();
    Ok(json!({
        "name": revision.name, "content": revision.content, "schema_id": schema_id,
        "schema_revid": revision.schema_revid, "model": revision.model, "tag_ids": revision.tag_ids,
    }))
}

async fn prompt_named(client: &Client, name: &str) -> Result<Value> {
    let (page_size, filter) = (names::CANDIDATES, names::filter(name));
    let request = v1::ListPromptsRequest { page_size, filter, ..v1::ListPromptsRequest::default() };
    let listed = answer(client.prompts().list_prompts(request)).await?.prompts;
    match listed.iter().find(|found| found.name.to_lowercase() == name.to_lowercase()) {
        Some(found) => prompt(client, &found.prompt_id).await,
        None => bail!("no prompt has the name"),
    }
}

async fn tag(client: &Client, id: &str) -> Result<Value> {
    let tag = answer(client.tags().get_tag(v1::GetTagRequest { tag_id: id.to_owned() })).await?.tag;
    let tag = tag.context("the tag is missing")?;
    Ok(json!({ "name": tag.name, "color": tag.color, "description": tag.description }))
}

async fn document(client: &Client, id: &str) -> Result<Value> {
    let request = v1::GetDocumentRequest { document_id: id.to_owned() };
    let document =
        answer(client.documents().get_document(request)).await?.document.context("the document is missing")?;
    let metadata: serde_json::Map<String, Value> =
        document.metadata.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
    Ok(json!({ "document_name": document.name, "tag_ids": document.tag_ids, "metadata": metadata }))
}

/// Returns the value at a path such as `items[0].amount` or `items.0.amount`. None: the path does not exist.
fn value_at<'a>(data: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = data;
    for key in path.split(['.', '[', ']']).filter(|key| !key.is_empty()) {
        value = match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?)?,
            other => other.get(key)?,
        };
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_path() {
        let data = json!({ "total": 3, "items": [{ "amount": 1 }, { "amount": 2 }] });
        for (path, value) in [("total", 3), ("items[1].amount", 2), ("items.0.amount", 1)] {
            assert_eq!(value_at(&data, path), Some(&json!(value)), "{path}");
        }
        for path in ["other", "items[2].amount", "items.x", "total.x"] {
            assert_eq!(value_at(&data, path), None, "{path}");
        }
    }
}
