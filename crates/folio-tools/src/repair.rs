//! Repair of near misses: response formats that a model wrote almost correctly.
//!
//! A pure function of the arguments of a call. It runs once, when the answer of the model is checked, before the policy
//! is evaluated and before a person decides. The journal stores the repaired arguments, so the approval, the digest, the
//! effect and a recovery use the same ones. The arguments of an approver are not repaired. A repair adds what is missing
//! or moves what is misplaced. It never removes a property.

use std::collections::BTreeMap;

use folio_llm::schema::format_name;
use folio_types::limits;
use serde_json::{Map, Value, json};

use crate::spelling::parse_string;

/// Members of a response format that a model may write as arguments of their own.
const SPREAD: [&str; 6] = ["type", "json_schema", "properties", "required", "additionalProperties", "strict"];
/// Members of `json_schema`. Every other member is a keyword of the schema.
const WRAPPER: [&str; 4] = ["name", "description", "schema", "strict"];
/// Types that a model may write in place of a schema.
const SIMPLE_TYPES: [&str; 4] = ["string", "number", "integer", "boolean"];

/// A kind of repair, in the order in which a result lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Repair {
    Parse,
    Rename,
    Gather,
    Wrap,
    SetType,
    Lift,
    SetName,
    AddStrict,
    ExpandType,
    DropRequired,
    MoveKeywords,
    AddType,
    AddRequired,
    AddAdditional,
}

impl Repair {
    /// Returns the description for the model. It contains no text of the call, so its length is bounded.
    fn text(self) -> &'static str {
        match self {
            Self::Parse => "replaced a string by the JSON in it",
            Self::Rename => "renamed schema to response_format",
            Self::Gather => "moved arguments into response_format",
            Self::Wrap => "wrapped the schema in {\"type\":\"json_schema\",\"json_schema\":{…}}",
            Self::SetType => "set type of response_format to \"json_schema\"",
            Self::Lift => "moved keywords into json_schema.schema",
            Self::SetName => "set json_schema.name to a valid name",
            Self::AddStrict => "added \"strict\":true",
            Self::ExpandType => "replaced a type in place of a schema by {\"type\":…}",
            Self::DropRequired => "removed \"required\":true or false, because required is a list of names",
            Self::MoveKeywords => "moved required or additionalProperties out of properties",
            Self::AddType => "added \"type\":\"object\"",
            Self::AddRequired => "added required with every property",
            Self::AddAdditional => "added \"additionalProperties\":false",
        }
    }
}

/// Number of repairs of each kind.
#[derive(Default)]
struct Repairs(BTreeMap<Repair, usize>);

impl Repairs {
    fn add(&mut self, repair: Repair) {
        *self.0.entry(repair).or_default() += 1;
    }

    fn texts(&self) -> Vec<String> {
        let text = |(repair, count): (&Repair, &usize)| match count {
            1 => repair.text().to_owned(),
            count => format!("{} ({count} times)", repair.text()),
        };
        self.0.iter().map(text).collect()
    }
}

/// Repairs the response format in `arguments`, which is the argument `argument`. Returns a description of each kind of
/// repair, empty if the format needs none. Idempotent.
pub(crate) fn repair_response_format(arguments: &mut Map<String, Value>, argument: &str) -> Vec<String> {
    let mut repairs = Repairs::default();
    gather(arguments, argument, &mut repairs);
    let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(format) = arguments.get_mut(argument) {
        repair_format(format, &name, &mut repairs);
    }
    repairs.texts()
}

/// Creates the argument from arguments that contain its parts.
fn gather(arguments: &mut Map<String, Value>, argument: &str, repairs: &mut Repairs) {
    if arguments.get(argument).is_some_and(|format| !format.is_null()) {
        return;
    }
    if let Some(schema) = arguments.shift_remove("schema") {
        arguments.insert(argument.to_owned(), schema);
        repairs.add(Repair::Rename);
    } else if arguments.contains_key("json_schema") || arguments.contains_key("properties") {
        let mut format = Map::new();
        for member in SPREAD {
            if let Some(value) = arguments.shift_remove(member) {
                format.insert(member.to_owned(), value);
            }
        }
        arguments.insert(argument.to_owned(), Value::Object(format));
        repairs.add(Repair::Gather);
    }
}

fn repair_format(format: &mut Value, name: &str, repairs: &mut Repairs) {
    parse(format, repairs);
    let Some(members) = format.as_object_mut() else { return };
    wrap(members, repairs);
    if let Some(inner) = members.get_mut("json_schema") {
        parse(inner, repairs);
    }
    let Some(Value::Object(mut inner)) = members.get("json_schema").cloned() else { return };
    if members.get("type").and_then(Value::as_str) != Some("json_schema") {
        members.insert("type".to_owned(), json!("json_schema"));
        repairs.add(Repair::SetType);
    }
    let strays: Vec<String> = members.keys().filter(|name| !is_outer(name)).cloned().collect();
    let has_moved_members = move_absent(members, &mut inner, strays);
    if lift(&mut inner, repairs) || has_moved_members {
        repairs.add(Repair::Lift);
    }
    if let Some(schema) = inner.get_mut("schema") {
        parse(schema, repairs);
        repair_schema(schema, limits::JSON_DEPTH, repairs);
        complete_wrapper(&mut inner, name, repairs);
    }
    members.insert("json_schema".to_owned(), Value::Object(inner));
}

fn is_outer(name: &str) -> bool {
    ["type", "json_schema"].contains(&name)
}

fn parse(value: &mut Value, repairs: &mut Repairs) {
    if parse_string(value) {
        repairs.add(Repair::Parse);
    }
}

/// Wraps a bare schema, or the members of `json_schema` without their wrapper.
fn wrap(members: &mut Map<String, Value>, repairs: &mut Repairs) {
    let is_object = members.get("type").is_some_and(|kind| kind == "object");
    let is_bare = is_object || members.contains_key("properties") || members.contains_key("schema");
    if members.contains_key("json_schema") || !is_bare {
        return;
    }
    let inner = std::mem::take(members);
    members.insert("type".to_owned(), json!("json_schema"));
    members.insert("json_schema".to_owned(), Value::Object(inner));
    repairs.add(Repair::Wrap);
}

/// Moves keywords of the schema from `json_schema` into its member `schema`. Returns true if a keyword was moved, except
/// from a schema that was wrapped.
fn lift(inner: &mut Map<String, Value>, repairs: &Repairs) -> bool {
    // The type of the wrapper, repeated inside of it, is no type of the schema.
    let repeats_type = inner.get("type").is_some_and(|kind| kind == "json_schema");
    if repeats_type {
        inner.shift_remove("type");
    }
    let keywords: Vec<String> = inner.keys().filter(|name| !WRAPPER.contains(&name.as_str())).cloned().collect();
    let mut schema = match inner.get("schema") {
        None => Map::new(),
        Some(Value::Object(schema)) => schema.clone(),
        Some(_) => return repeats_type,
    };
    let has_moved = move_absent(inner, &mut schema, keywords);
    if has_moved {
        inner.insert("schema".to_owned(), Value::Object(schema));
    }
    (has_moved || repeats_type) && !repairs.0.contains_key(&Repair::Wrap)
}

/// Moves members that `to` does not have. Returns true if a member was moved.
fn move_absent(from: &mut Map<String, Value>, to: &mut Map<String, Value>, names: Vec<String>) -> bool {
    let mut has_moved = false;
    for name in names {
        if !to.contains_key(&name)
            && let Some(value) = from.shift_remove(&name)
        {
            to.insert(name, value);
            has_moved = true;
        }
    }
    has_moved
}

/// Adds the members of `json_schema` that are missing. `name`: the name of the schema, if its own name is missing.
fn complete_wrapper(inner: &mut Map<String, Value>, name: &str, repairs: &mut Repairs) {
    let own = inner.get("name").and_then(Value::as_str);
    let valid = format_name(own.unwrap_or(name));
    if own != Some(valid.as_str()) {
        inner.insert("name".to_owned(), Value::String(valid));
        repairs.add(Repair::SetName);
    }
    if is_missing(inner, "strict") {
        inner.insert("strict".to_owned(), Value::Bool(true));
        repairs.add(Repair::AddStrict);
    }
}

fn is_missing(members: &Map<String, Value>, name: &str) -> bool {
    members.get(name).is_none_or(Value::is_null)
}

/// Repairs a schema and its subschemas, down to `levels` levels.
fn repair_schema(schema: &mut Value, levels: usize, repairs: &mut Repairs) {
    let Some(below) = levels.checked_sub(1) else { return };
    if let Value::String(name) = schema
        && SIMPLE_TYPES.contains(&name.as_str())
    {
        *schema = json!({ "type": name });
        repairs.add(Repair::ExpandType);
    }
    let Some(members) = schema.as_object_mut() else { return };
    for (keyword, value) in members.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(schemas)) => {
                schemas.values_mut().for_each(|schema| repair_schema(schema, below, repairs));
            }
            ("items" | "anyOf" | "oneOf" | "allOf", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| repair_schema(schema, below, repairs));
            }
            ("items", schema) => repair_schema(schema, below, repairs),
            _ => {}
        }
    }
    complete_object(members, repairs);
}

/// Adds the keywords that an object with properties lacks. A list in `required` is not completed, because it states
/// which properties are optional.
fn complete_object(members: &mut Map<String, Value>, repairs: &mut Repairs) {
    if members.get("required").is_some_and(Value::is_boolean) {
        members.shift_remove("required");
        repairs.add(Repair::DropRequired);
    }
    if move_keywords(members) {
        repairs.add(Repair::MoveKeywords);
    }
    let Some(properties) = members.get("properties").and_then(Value::as_object) else { return };
    let names: Vec<Value> = properties.keys().map(|name| Value::from(name.as_str())).collect();
    if members.contains_key("$ref") {
        return;
    }
    if is_missing(members, "type") {
        members.insert("type".to_owned(), json!("object"));
        repairs.add(Repair::AddType);
    }
    if is_missing(members, "required") {
        members.insert("required".to_owned(), Value::Array(names));
        repairs.add(Repair::AddRequired);
    }
    if is_missing(members, "additionalProperties") {
        members.insert("additionalProperties".to_owned(), Value::Bool(false));
        repairs.add(Repair::AddAdditional);
    }
}

/// Moves keywords of the object that are among its properties. A list, or true or false, is no schema that the rules permit, so
/// the keyword is not the name of a property. A keyword that the object has stays among the properties. Returns true if a
/// keyword was moved.
fn move_keywords(members: &mut Map<String, Value>) -> bool {
    let Some(mut properties) = members.get("properties").and_then(Value::as_object).cloned() else { return false };
    let is_keyword = |name: &str, value: &Value| match name {
        "required" => value.is_array(),
        "additionalProperties" => value.is_boolean(),
        _ => false,
    };
    let keywords = properties.iter().filter(|(name, value)| is_keyword(name.as_str(), value));
    let keywords: Vec<String> = keywords.map(|(name, _)| name.clone()).collect();
    let has_moved = move_absent(&mut properties, members, keywords);
    if has_moved {
        members.insert("properties".to_owned(), Value::Object(properties));
    }
    has_moved
}

#[cfg(test)]
mod tests;
