//! Arguments of calls: their JSON Schemas, and reading them.
//!
//! Every tool takes a strict object. An optional argument may be left out or null: many models write null for "not
//! given".

use std::fmt::Display;
use std::str::FromStr;

use folio_types::limits;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::rules;
use crate::tool::ToolError;

/// One argument in a schema.
pub(crate) struct Argument {
    name: &'static str,
    schema: Value,
    required: bool,
}

/// An argument that must be there.
pub(crate) fn required(name: &'static str, schema: Value) -> Argument {
    Argument { name, schema, required: true }
}

/// An argument that may be left out or null.
pub(crate) fn optional(name: &'static str, mut schema: Value) -> Argument {
    if let Some(kind) = schema.get_mut("type") {
        let kinds = if kind.is_array() { kind.take() } else { json!([kind.take()]) };
        *kind = kinds.as_array().into_iter().flatten().cloned().chain([json!("null")]).collect();
    }
    Argument { name, schema, required: false }
}

/// The schema of a tool's arguments.
pub(crate) fn object(arguments: Vec<Argument>) -> Value {
    let required: Vec<&str> = arguments.iter().filter(|a| a.required).map(|a| a.name).collect();
    let properties: Map<String, Value> = arguments.into_iter().map(|a| (a.name.to_owned(), a.schema)).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

pub(crate) fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(crate) fn number(description: &str, min: u32, max: u32) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": max, "description": description })
}

pub(crate) fn list_of_text(description: &str, max: usize) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "maxItems": max, "description": description })
}

pub(crate) fn map_of_text(description: &str) -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": description })
}

/// A value of any kind.
pub(crate) fn anything(description: &str) -> Value {
    json!({ "description": description })
}

/// A JSON object, or a text that holds one.
pub(crate) fn object_or_text(description: &str) -> Value {
    json!({ "type": ["object", "string"], "description": description })
}

/// `skip` and `limit` of a list.
pub(crate) fn paging() -> [Argument; 2] {
    [
        optional("skip", number("How many to pass over first. Default 0.", 0, 1_000_000)),
        optional("limit", number("How many at most. Default 20.", 1, 100)),
    ]
}

/// The arguments of a call, which matched the tool's schema; what a schema cannot say is told.
pub(crate) fn read<T: DeserializeOwned>(arguments: &Value) -> Result<T, ToolError> {
    T::deserialize(arguments).map_err(|error| ToolError::Told(format!("The arguments do not fit: {error}.")))
}

/// An id that the model gave.
pub(crate) fn id<T: FromStr>(argument: &str, text: &str, hint: &str) -> Result<T, ToolError>
where
    T::Err: Display,
{
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(80).collect();
        ToolError::Told(format!("{argument} {shown:?} is malformed: {hint}"))
    })
}

/// Ids that the model gave.
pub(crate) fn tag_ids(texts: &[String]) -> Result<Vec<folio_types::TagId>, ToolError> {
    let ids = texts.iter().map(|text| id("tag_ids", text, TAG_HINT)).collect::<Result<Vec<_>, _>>()?;
    Ok(rules::check_tags("tag_ids", &ids)?)
}

/// What `name_search` is.
pub(crate) const SEARCH: &str = "Only those whose name holds this, without regard to case.";

pub(crate) const DOCUMENT_HINT: &str = "a document_id looks like doc_…; list_documents shows them.";
pub(crate) const SCHEMA_HINT: &str =
    "a schema_id looks like sch_…, without the .version that a schema_revid has; list_schemas shows them.";
pub(crate) const SCHEMA_REVID_HINT: &str =
    "a schema_revid is a schema_id, a dot and a version, such as sch_….1; list_schemas shows them.";
pub(crate) const PROMPT_HINT: &str =
    "a prompt_id looks like prm_…, without the .version that a prompt_revid has; list_prompts shows them.";
pub(crate) const PROMPT_REVID_HINT: &str =
    "a prompt_revid is a prompt_id, a dot and a version, such as prm_….1; list_prompts shows them.";
pub(crate) const TAG_HINT: &str = "a tag_id looks like tag_…; list_tags shows them.";

/// `skip` and `limit`, as the model gave them.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Paging {
    #[serde(default, deserialize_with = "whole")]
    skip: Option<u32>,
    #[serde(default, deserialize_with = "whole")]
    limit: Option<u32>,
}

/// A whole number that the tool's schema has let through; some models write `1.0`.
pub(crate) fn whole<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    // The schema holds it to a range within u32 and to no fraction; `as` cannot lose anything then.
    Ok(<Option<f64> as serde::Deserialize>::deserialize(deserializer)?.map(|number| number as u32))
}

impl Paging {
    /// The page: newest first.
    pub(crate) fn request(&self) -> folio_types::page::PageRequest {
        folio_types::page::PageRequest {
            size: self.limit.unwrap_or(20).clamp(1, 100),
            skip: self.skip.unwrap_or(0),
            ..Default::default()
        }
    }

    /// A list as the model reads it.
    pub(crate) fn list<T>(&self, name: &str, page: folio_types::page::Page<T>, show: impl FnMut(T) -> Value) -> Value {
        let skip = self.skip.unwrap_or(0);
        let items: Vec<Value> = page.items.into_iter().map(show).collect();
        let mut list = Map::new();
        list.insert("total".to_owned(), page.total.into());
        list.insert("skip".to_owned(), skip.into());
        list.insert(name.to_owned(), items.into());
        Value::Object(list)
    }
}

/// A search text as the model gave it; blank is none.
pub(crate) fn search(text: Option<String>) -> Result<Option<String>, ToolError> {
    let text = text.filter(|text| !text.trim().is_empty());
    if let Some(text) = &text {
        rules::check_search("name_search", text)?;
    }
    Ok(text)
}

/// What a call's text of arguments holds, before its tool's schema is asked.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    if text.len() > limits::ARGUMENTS_BYTES {
        return Err(format!("The arguments have {} bytes, at most {}.", text.len(), limits::ARGUMENTS_BYTES));
    }
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(Value::Object(members)),
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(_) => Err("The arguments must be a JSON object.".to_owned()),
        Err(error) => Err(format!("The arguments are no JSON: {error}. Send one JSON object.")),
    }
}
