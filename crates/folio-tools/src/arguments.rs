//! Arguments of calls: their JSON Schemas, and reading them.
//!
//! Every tool takes a strict object. An optional argument may be left out or null: many models write null for "not
//! given".

use std::fmt::Display;
use std::str::FromStr;

use folio_types::limits;
use folio_types::tag::Tag;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::rules;
use crate::spelling::{Spelled, Spelling, Spellings};
use crate::subject::Subject as _;
use crate::tool::ToolError;

/// Items that a list passes over at most.
const SKIP_MAX: u32 = 1_000_000;
/// Items that a list gives at most.
const LIMIT_MAX: u32 = 100;
/// Items that a list gives where the model does not say.
const LIMIT_DEFAULT: u32 = 20;

/// One argument in a schema.
pub(crate) struct Argument {
    name: &'static str,
    schema: Value,
    required: bool,
    spelling: Spelling,
}

impl Argument {
    /// Something empty leaves it out, too.
    pub(crate) fn or_empty(self) -> Self {
        Self { spelling: Spelling::Empty, ..self }
    }

    /// A blank text leaves it out, too.
    pub(crate) fn or_blank(self) -> Self {
        Self { spelling: Spelling::Blank, ..self }
    }

    /// A text may hold its JSON.
    pub(crate) fn or_text(self) -> Self {
        Self { spelling: Spelling::Text, ..self }
    }
}

/// An argument that must be there.
pub(crate) fn required(name: &'static str, schema: Value) -> Argument {
    Argument { name, schema, required: true, spelling: Spelling::Own }
}

/// An argument that may be left out or null.
pub(crate) fn optional(name: &'static str, mut schema: Value) -> Argument {
    if let Some(kind) = schema.get_mut("type") {
        let kinds = if kind.is_array() { kind.take() } else { json!([kind.take()]) };
        *kind = kinds.as_array().into_iter().flatten().cloned().chain([json!("null")]).collect();
    }
    Argument { name, schema, required: false, spelling: Spelling::Own }
}

/// How a tool's arguments may be written.
pub(crate) fn spellings(arguments: &[Argument]) -> Spellings {
    let spelled = |argument: &Argument| {
        let Argument { name, required, spelling, .. } = argument;
        Spelled { name, optional: !required, spelling: *spelling }
    };
    Spellings(arguments.iter().map(spelled).collect())
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
        optional("skip", number("How many to pass over first. Default 0.", 0, SKIP_MAX)),
        optional("limit", number("How many at most, 1 to 100. Default 20.", 1, LIMIT_MAX)),
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
    let ids = texts.iter().map(|text| id("tag_ids", text, Tag::HINT)).collect::<Result<Vec<_>, _>>()?;
    Ok(rules::check_tags("tag_ids", &ids)?)
}

/// `name_search` of a list; [`search`] reads it.
pub(crate) fn name_search() -> Argument {
    optional("name_search", text("Only those whose name holds this, without regard to case.")).or_blank()
}

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
            size: self.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX),
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
    match folio_types::json::read(text) {
        Ok(Value::Object(members)) => Ok(Value::Object(members)),
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(_) => Err("The arguments must be a JSON object.".to_owned()),
        Err(refused) => Err(format!("The arguments cannot be read: {refused}. Send one JSON object.")),
    }
}
