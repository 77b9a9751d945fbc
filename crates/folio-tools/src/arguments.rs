//! Arguments of tool calls: JSON Schemas and parsing.
//!
//! The arguments of every tool are a strict object. An optional argument may be omitted. Many models write null for an
//! omitted argument, so the canonical spelling removes it.

use std::fmt::Display;
use std::str::FromStr;

use folio_resources::Tag;
use folio_types::{Error, limits};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::rules;
use crate::spelling::{ArgumentSpelling, Spelling, Spellings};
use crate::subject::ToolResource as _;
use crate::tool::ToolError;

const SKIP_MAX: u32 = 1_000_000;
const LIMIT_MAX: u32 = 100;
const LIMIT_DEFAULT: u32 = 20;

/// An argument of a tool: a property of its schema.
pub(crate) struct Argument {
    name: &'static str,
    schema: Value,
    required: bool,
    spelling: Spelling,
}

impl Argument {
    /// Treats an empty text, list or object as omitted.
    pub(crate) fn or_empty(self) -> Self {
        Self { spelling: Spelling::EmptyMeansOmitted, ..self }
    }

    /// Treats a blank text as omitted.
    pub(crate) fn or_blank(self) -> Self {
        Self { spelling: Spelling::BlankMeansOmitted, ..self }
    }

    /// Accepts a string that contains the value as JSON.
    pub(crate) fn or_json_string(self) -> Self {
        Self { spelling: Spelling::JsonInString, ..self }
    }

    /// Accepts a string that contains the response format as JSON, and repairs near misses of a model.
    pub(crate) fn or_near_format(self) -> Self {
        Self { spelling: Spelling::ResponseFormat, ..self }
    }
}

pub(crate) fn required(name: &'static str, schema: Value) -> Argument {
    Argument { name, schema, required: true, spelling: Spelling::CanonicalOnly }
}

/// Declares an optional argument, which may be omitted. Null means omitted, but the schema does not offer it.
pub(crate) fn optional(name: &'static str, schema: Value) -> Argument {
    Argument { name, schema, required: false, spelling: Spelling::CanonicalOnly }
}

pub(crate) fn spellings(arguments: &[Argument]) -> Spellings {
    let spelling_of = |argument: &Argument| {
        let Argument { name, required, spelling, .. } = argument;
        ArgumentSpelling { name, optional: !required, spelling: *spelling }
    };
    Spellings(arguments.iter().map(spelling_of).collect())
}

/// Returns the JSON Schema of a tool's arguments.
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

pub(crate) fn anything(description: &str) -> Value {
    json!({ "description": description })
}

/// Returns the schema of a JSON object or a string that contains one.
pub(crate) fn object_or_text(description: &str) -> Value {
    json!({ "type": ["object", "string"], "description": description })
}

/// Declares the arguments `skip` and `limit` of a list.
pub(crate) fn paging() -> [Argument; 2] {
    let limit = format!("Maximum number of items. Default: {LIMIT_DEFAULT}.");
    [
        optional("skip", number("Items to skip. Default: 0.", 0, SKIP_MAX)),
        optional("limit", number(&limit, 1, LIMIT_MAX)),
    ]
}

/// Deserializes arguments that match the tool's schema. Fails with `ForModel` if a value violates a rule that JSON
/// Schema cannot express.
pub(crate) fn parse<T: DeserializeOwned>(arguments: &Value) -> Result<T, ToolError> {
    T::deserialize(arguments).map_err(|error| ToolError::ForModel(format!("The arguments are invalid: {error}.")))
}

/// Parses an id. `hint` describes the format and names the tool that finds ids.
pub(crate) fn id<T: FromStr>(argument: &str, text: &str, hint: &str) -> Result<T, ToolError>
where
    T::Err: Display,
{
    text.parse().map_err(|_| ToolError::ForModel(format!("{argument} {:?} is malformed: {hint}", rules::excerpt(text))))
}

pub(crate) fn tag_ids(texts: &[String]) -> Result<Vec<folio_types::TagId>, ToolError> {
    let ids = texts.iter().map(|text| id("tag_ids", text, Tag::HINT)).collect::<Result<Vec<_>, _>>()?;
    Ok(folio_resources::fields::check_tags("tag_ids", &ids)?)
}

/// Declares the argument `name_search` of a list. [`search`] validates it.
pub(crate) fn name_search() -> Argument {
    optional("name_search", text("Only items whose name contains this text. Default: all.")).or_blank()
}

#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct Paging {
    #[serde(default, deserialize_with = "whole")]
    skip: Option<u32>,
    #[serde(default, deserialize_with = "whole")]
    limit: Option<u32>,
}

/// Deserializes an integer that matches the tool's schema. Some models write `1.0`.
pub(crate) fn whole<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    // The schema bounds the value to a range within u32 and to integers, so `as` is exact.
    Ok(<Option<f64> as serde::Deserialize>::deserialize(deserializer)?.map(|number| number as u32))
}

impl Paging {
    /// Returns the page request, newest first.
    pub(crate) fn request(&self) -> folio_types::page::PageRequest {
        folio_types::page::PageRequest {
            size: self.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX),
            skip: self.skip.unwrap_or(0),
            ..Default::default()
        }
    }

    /// Returns the tool result of a list.
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

pub(crate) fn search(text: Option<String>) -> Result<Option<String>, ToolError> {
    if text.as_ref().is_some_and(|text| text.chars().count() > limits::SEARCH_CHARS) {
        let problem = format!("has more than {} characters", limits::SEARCH_CHARS);
        return Err(Error::invalid_field("name_search", problem).into());
    }
    Ok(text)
}

/// Parses the text of a call's arguments, before validation against the tool's schema. The error is a message for the
/// model.
pub(crate) fn parse_text(text: &str) -> Result<Value, String> {
    if text.len() > limits::ARGUMENTS_BYTES {
        return Err(format!("The arguments have {} bytes; the maximum is {}.", text.len(), limits::ARGUMENTS_BYTES));
    }
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match folio_types::json::read(text) {
        Ok(Value::Object(members)) => Ok(Value::Object(members)),
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(_) => Err("The arguments must be a JSON object.".to_owned()),
        Err(error) => Err(format!("The arguments cannot be parsed: {error}. Send one JSON object.")),
    }
}
