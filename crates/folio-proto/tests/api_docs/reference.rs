//! Renders the reference of the API as Markdown: services, messages and enums with their comments in the proto files.

use std::collections::BTreeMap;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    ServiceDescriptorProto,
};

/// The package of the API, as a prefix of type names.
const PACKAGE: &str = ".folio.v1.";

/// Numbers of fields of the descriptors, which form the path of an element.
const FILE_MESSAGES: i32 = 4;
const FILE_ENUMS: i32 = 5;
const FILE_SERVICES: i32 = 6;
const MESSAGE_FIELDS: i32 = 2;
const MESSAGE_MESSAGES: i32 = 3;
const MESSAGE_ENUMS: i32 = 4;
const SERVICE_METHODS: i32 = 2;
const ENUM_VALUES: i32 = 2;

/// Returns the reference. `examples`: the Markdown of the example of each service. Files with services come first, each in
/// the order of the names.
pub(crate) fn render(set: &FileDescriptorSet, examples: &BTreeMap<String, String>) -> String {
    let mut files: Vec<_> = set.file.iter().filter(|file| file.package() == "folio.v1").collect();
    files.sort_by_key(|file| (file.service.is_empty(), file.name()));
    let mut text = String::from("\n| service | purpose |\n|---|---|\n");
    for file in &files {
        let comments = Comments::of(file);
        for (at, service) in (0..).zip(&file.service) {
            let purpose = comments.cell(&[FILE_SERVICES, at]);
            text += &format!("| {} | {} |\n", link(service.name()), first_sentence(&purpose));
        }
    }
    for file in files {
        render_file(file, examples, &mut text);
    }
    text
}

fn render_file(file: &FileDescriptorProto, examples: &BTreeMap<String, String>, text: &mut String) {
    let comments = Comments::of(file);
    if file.service.is_empty() {
        *text += &format!("\n### {}\n\n{}\n", base_name(file), source_link(file));
    }
    for (at, service) in (0..).zip(&file.service) {
        render_service(service, &comments, &[FILE_SERVICES, at], text);
        *text += &format!("\n{}\n", source_link(file));
        if let Some(example) = examples.get(service.name()) {
            *text += &format!("\n#### Example of {}\n\n{}\n", service.name(), example.trim());
        }
    }
    for (at, message) in (0..).zip(&file.message_type) {
        render_message(message, "", &comments, &[FILE_MESSAGES, at], text);
    }
    for (at, of_file) in (0..).zip(&file.enum_type) {
        render_enum(of_file, "", &comments, &[FILE_ENUMS, at], text);
    }
}

fn render_service(service: &ServiceDescriptorProto, comments: &Comments, path: &[i32], text: &mut String) {
    *text += &format!("\n### {}\n\n{}\n", service.name(), comments.paragraphs(path));
    *text += "\n| RPC | request | response | description |\n|---|---|---|---|\n";
    for (at, method) in (0..).zip(&service.method) {
        let description = comments.cell(&[path, &[SERVICE_METHODS, at]].concat());
        let stream = |is_stream: bool| if is_stream { "stream of " } else { "" };
        *text += &format!(
            "| `{}` | {}{} | {}{} | {description} |\n",
            method.name(),
            stream(method.client_streaming()),
            type_link(method.input_type()),
            stream(method.server_streaming()),
            type_link(method.output_type()),
        );
    }
}

/// `outer`: the names of the enclosing messages, each followed by a period.
fn render_message(message: &DescriptorProto, outer: &str, comments: &Comments, path: &[i32], text: &mut String) {
    let name = format!("{outer}{}", message.name());
    *text += &format!("\n#### {name}\n\n{}\n", comments.paragraphs(path));
    if !message.field.is_empty() {
        *text += "\n| field | type | description |\n|---|---|---|\n";
    }
    for (at, field) in (0..).zip(&message.field) {
        let description = comments.cell(&[path, &[MESSAGE_FIELDS, at]].concat());
        let choice = choice(message, field).map(|name| format!("One of `{name}`. ")).unwrap_or_default();
        *text += &format!("| `{}` | {} | {choice}{description} |\n", field.name(), field_type(message, field));
    }
    let nested = |name: &str| format!("{name}.");
    for (at, inner) in (0..).zip(&message.nested_type).filter(|(_, inner)| !is_map_entry(inner)) {
        render_message(inner, &nested(&name), comments, &[path, &[MESSAGE_MESSAGES, at]].concat(), text);
    }
    for (at, inner) in (0..).zip(&message.enum_type) {
        render_enum(inner, &nested(&name), comments, &[path, &[MESSAGE_ENUMS, at]].concat(), text);
    }
}

fn render_enum(declared: &EnumDescriptorProto, outer: &str, comments: &Comments, path: &[i32], text: &mut String) {
    *text += &format!("\n#### {outer}{}\n\n{}\n", declared.name(), comments.paragraphs(path));
    *text += "\n| value | number | description |\n|---|---|---|\n";
    for (at, value) in (0..).zip(&declared.value) {
        let description = comments.cell(&[path, &[ENUM_VALUES, at]].concat());
        *text += &format!("| `{}` | {} | {description} |\n", value.name(), value.number());
    }
}

/// Returns the name of the oneof to which a field belongs. None: it belongs to none that the proto file declares.
fn choice<'a>(message: &'a DescriptorProto, field: &FieldDescriptorProto) -> Option<&'a str> {
    let index = field.oneof_index.filter(|_| !field.proto3_optional())?;
    message.oneof_decl.get(usize::try_from(index).ok()?).map(|declared| declared.name())
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

fn field_type(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let entry = message
        .nested_type
        .iter()
        .find(|nested| is_map_entry(nested) && field.type_name().rsplit('.').next() == Some(nested.name()));
    if let Some(DescriptorProto { field: parts, .. }) = entry
        && let [key, value] = parts.as_slice()
    {
        return format!("map of {} to {}", single_type(key), single_type(value));
    }
    match field.label() {
        Label::Repeated => format!("repeated {}", single_type(field)),
        _ if field.proto3_optional() => format!("optional {}", single_type(field)),
        _ => single_type(field),
    }
}

fn single_type(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum | Type::Group => type_link(field.type_name()),
        scalar => format!("`{}`", scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase()),
    }
}

/// Returns a link to a type of the API, or the name of another type.
fn type_link(name: &str) -> String {
    match name.strip_prefix(PACKAGE) {
        Some(name) => link(name),
        None => format!("`{}`", name.trim_start_matches('.')),
    }
}

/// Returns a link to the heading with this name.
fn link(name: &str) -> String {
    format!("[`{name}`](#{})", name.to_lowercase().replace('.', ""))
}

fn base_name(file: &FileDescriptorProto) -> &str {
    file.name().rsplit('/').next().unwrap_or_default()
}

fn source_link(file: &FileDescriptorProto) -> String {
    format!("Source: [{}](../proto/{})", base_name(file), file.name())
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or_default().trim_end()
}

/// The comments of a file by the path of their element.
struct Comments<'a>(BTreeMap<&'a [i32], &'a str>);

impl<'a> Comments<'a> {
    fn of(file: &'a FileDescriptorProto) -> Self {
        let locations = file.source_code_info.iter().flat_map(|info| &info.location);
        let commented = locations.filter(|location| location.leading_comments.is_some());
        Self(commented.map(|location| (location.path.as_slice(), location.leading_comments())).collect())
    }

    /// Returns the comment of an element with its paragraphs, each in one line.
    fn paragraphs(&self, path: &[i32]) -> String {
        let lines = self.0.get(path).copied().unwrap_or_default().lines().map(str::trim);
        let mut paragraphs = vec![String::new()];
        for line in lines {
            match paragraphs.last_mut() {
                Some(last) if !line.is_empty() => {
                    *last += if last.is_empty() { "" } else { " " };
                    *last += line;
                }
                _ => paragraphs.push(String::new()),
            }
        }
        paragraphs.retain(|paragraph| !paragraph.is_empty());
        paragraphs.join("\n\n")
    }

    /// Returns the comment of an element for a cell of a table.
    fn cell(&self, path: &[i32]) -> String {
        self.paragraphs(path).replace("\n\n", " ").replace('|', "\\|")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_contains_comments_types_and_the_example() {
        let set = compiled(
            r#"
            syntax = "proto3";
            package folio.v1;
            // Manages things. With a second sentence.
            //
            // Second paragraph.
            service ThingService {
              // Streams a | b.
              rpc Watch(stream Thing) returns (stream Thing);
            }
            // A thing.
            message Thing {
              // The kind.
              Kind kind = 1;
              // The names.
              map<string, Thing> names = 2;
              // Optional.
              optional uint32 size = 3;
              oneof choice {
                // Chosen.
                string one = 4;
              }
              // The parts.
              repeated Whole.Part parts = 5;
            }
            // A whole.
            message Whole {
              // A part.
              message Part {}
            }
            // A kind.
            enum Kind {
              // Unspecified.
              KIND_UNSPECIFIED = 0;
            }
            "#,
        );
        let examples = BTreeMap::from([("ThingService".to_owned(), "The example.\n".to_owned())]);
        let rendered = render(&set, &examples);
        for expected in [
            "| [`ThingService`](#thingservice) | Manages things. |\n",
            "\n### ThingService\n\nManages things. With a second sentence.\n\nSecond paragraph.\n",
            "| `Watch` | stream of [`Thing`](#thing) | stream of [`Thing`](#thing) | Streams a \\| b. |\n",
            "\nSource: [thing.proto](../proto/folio/v1/thing.proto)\n",
            "\n#### Example of ThingService\n\nThe example.\n",
            "\n#### Thing\n\nA thing.\n\n| field | type | description |\n|---|---|---|\n| `kind` | [`Kind`](#kind) | The kind. |\n",
            "| `names` | map of `string` to [`Thing`](#thing) | The names. |\n",
            "| `size` | optional `uint32` | Optional. |\n",
            "| `one` | `string` | One of `choice`. Chosen. |\n",
            "| `parts` | repeated [`Whole.Part`](#wholepart) | The parts. |\n",
            "\n#### Whole.Part\n\nA part.\n",
            "\n#### Kind\n\nA kind.\n\n| value | number | description |\n|---|---|---|\n| `KIND_UNSPECIFIED` | 0 | Unspecified. |\n",
        ] {
            assert!(rendered.contains(expected), "{expected:?} is missing:\n{rendered}");
        }
        assert!(!rendered.contains("NamesEntry"), "{rendered}");
    }

    fn compiled(source: &str) -> FileDescriptorSet {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folio/v1/thing.proto");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, source).unwrap();
        protox::compile([path], [folder.path()]).unwrap()
    }
}
