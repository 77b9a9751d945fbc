//! JSON schemas of the messages of the API, in their JSON form.

use std::collections::{BTreeMap, HashMap};

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Value, json};

use crate::descriptors::POOL;

/// The schemas of messages, by full name.
#[derive(Default)]
pub(super) struct Messages {
    pub(super) schemas: BTreeMap<String, Value>,
    comments: Comments,
}

impl Messages {
    /// Adds the schemas of a message and of its fields. Returns a reference to the schema.
    pub(super) fn reference(&mut self, message: &MessageDescriptor) -> Value {
        if let Some(schema) = well_known(message.full_name()) {
            return schema;
        }
        let name = message.full_name().to_owned();
        if !self.schemas.contains_key(&name) {
            // The entry ends the recursion of a message that contains itself.
            self.schemas.insert(name.clone(), Value::Null);
            let schema = self.schema(message);
            self.schemas.insert(name.clone(), schema);
        }
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    fn schema(&mut self, message: &MessageDescriptor) -> Value {
        let mut properties = serde_json::Map::new();
        for field in message.fields() {
            let mut schema = self.field(&field);
            let description = self.comments.of_field(&field);
            if let Value::Object(schema) = &mut schema
                && !description.is_empty()
            {
                schema.insert("description".to_owned(), description.into());
            }
            properties.insert(field.name().to_owned(), schema);
        }
        json!({
            "type": "object",
            "description": self.comments.of_message(message),
            "properties": properties,
            "additionalProperties": false,
        })
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        let kind = field.kind();
        if field.is_map()
            && let Kind::Message(entry) = &kind
        {
            let values = self.kind(&entry.map_entry_value_field().kind());
            return json!({ "type": "object", "additionalProperties": values });
        }
        let schema = self.kind(&kind);
        if field.is_list() { json!({ "type": "array", "items": schema }) } else { schema }
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Double | Kind::Float => json!({ "type": "number" }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({ "type": "integer", "format": "int32" }),
            Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
            // JSON numbers of other programs lose digits beyond 53 bits, so that responses contain texts.
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => json!({ "type": ["string", "integer"], "format": "int64" }),
            Kind::Uint64 | Kind::Fixed64 => json!({ "type": ["string", "integer"], "format": "uint64" }),
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::String => json!({ "type": "string" }),
            Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
            Kind::Enum(values) => enumeration(values),
            Kind::Message(message) => self.reference(message),
        }
    }
}

fn enumeration(values: &EnumDescriptor) -> Value {
    let names: Vec<String> = values.values().map(|value| value.name().to_owned()).collect();
    json!({ "anyOf": [{ "type": "string", "enum": names }, { "type": "integer", "format": "int32" }] })
}

/// Returns the schema of a message with a JSON form of its own.
fn well_known(name: &str) -> Option<Value> {
    Some(match name {
        "google.protobuf.Timestamp" => json!({ "type": "string", "format": "date-time" }),
        "google.protobuf.Duration" => json!({ "type": "string", "examples": ["1.5s"] }),
        "google.protobuf.FieldMask" => json!({ "type": "string", "examples": ["name,description"] }),
        _ => return None,
    })
}

/// The comments of the proto files, by file and path.
struct Comments(HashMap<(String, Vec<i32>), String>);

impl Default for Comments {
    fn default() -> Self {
        let mut comments = HashMap::new();
        for file in POOL.files().filter(|file| file.package_name() == "folio.v1") {
            let info = file.file_descriptor_proto().source_code_info.as_ref();
            for location in info.into_iter().flat_map(|info| &info.location) {
                let text = location.leading_comments().split_whitespace().collect::<Vec<_>>().join(" ");
                if !text.is_empty() {
                    comments.insert((file.name().to_owned(), location.path.clone()), text);
                }
            }
        }
        Self(comments)
    }
}

impl Comments {
    fn find(&self, file: &str, path: &[i32]) -> &str {
        self.0.get(&(file.to_owned(), path.to_vec())).map_or("", String::as_str)
    }

    fn of_field(&self, field: &FieldDescriptor) -> &str {
        self.find(field.parent_file().name(), field.path())
    }

    fn of_message(&self, message: &MessageDescriptor) -> &str {
        self.find(message.parent_file().name(), message.path())
    }
}

impl Messages {
    /// Returns the comment of an RPC.
    pub(super) fn comment_of(&self, method: &prost_reflect::MethodDescriptor) -> &str {
        self.comments.find(method.parent_file().name(), method.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema_of(name: &str) -> Value {
        let mut messages = Messages::default();
        let message = POOL.get_message_by_name(name).unwrap();
        messages.reference(&message);
        messages.schemas[name].clone()
    }

    #[test]
    fn a_message_has_the_names_the_types_and_the_comments_of_its_fields() {
        let tag = schema_of("folio.v1.Tag");
        assert_eq!(tag["properties"]["name"]["type"], "string");
        assert_eq!(tag["properties"]["create_time"]["format"], "date-time");
        assert!(tag["properties"]["color"]["description"].as_str().unwrap().contains("#rrggbb"), "{tag}");
        let list = schema_of("folio.v1.ListTagsResponse");
        assert_eq!(list["properties"]["tags"]["items"]["$ref"], "#/components/schemas/folio.v1.Tag");
        assert_eq!(list["properties"]["total_size"]["format"], "int32");
        let update = schema_of("folio.v1.UpdateTagRequest");
        assert_eq!(update["properties"]["update_mask"]["type"], "string");
        let document = schema_of("folio.v1.Document");
        assert_eq!(document["properties"]["metadata"]["additionalProperties"]["type"], "string");
    }
}
