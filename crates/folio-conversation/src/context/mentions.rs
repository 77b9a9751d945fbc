//! Sections about the resources that the user's message mentions.

use folio_history::journal::Mention;
use folio_resources::{Collection, PromptRevision, SchemaRevision, Tag};
use folio_types::limits;

use super::text::{delimited, quoted, truncate_with_note};

/// A mention with its resource.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there are few per turn")]
pub(crate) enum Artifact {
    Schema(SchemaRevision),
    /// A prompt revision, its linked schema, and its tags.
    Prompt(PromptRevision, Option<SchemaRevision>, Vec<Tag>),
    Tag(Tag),
    Collection(Collection),
    /// The resource does not exist or was deleted.
    Missing(Mention),
}

/// Writes the resources: each at most [`limits::MENTION_CHARS`] characters, all together at most `share`.
pub(super) fn write(out: &mut String, artifacts: &[Artifact], share: usize) {
    if artifacts.is_empty() {
        return;
    }
    out.push_str("# Referenced artifacts\n\n");
    let mut left = share;
    for artifact in artifacts {
        let before = out.len();
        write_one(out, artifact, left.min(limits::MENTION_CHARS));
        left = left.saturating_sub(out.len().saturating_sub(before));
        out.push('\n');
    }
}

fn write_one(out: &mut String, artifact: &Artifact, max: usize) {
    match artifact {
        Artifact::Schema(schema) => {
            out.push_str(&format!("## Schema {}\n\n", schema.revid));
            out.push_str(&format!("name: {}\n", quoted(&schema.name)));
            write_schema(out, schema, max);
        }
        Artifact::Prompt(prompt, schema, tags) => write_prompt(out, prompt, schema.as_ref(), tags, max),
        Artifact::Tag(tag) => {
            out.push_str(&format!("## Tag {}\n\n", tag.id));
            out.push_str(&format!("name: {}\n", quoted(&tag.name)));
            if let Some(color) = &tag.color {
                out.push_str(&format!("color: {}\n", quoted(color)));
            }
            if let Some(description) = &tag.description {
                delimited(out, "description", &truncate_with_note(description, max, "Description"));
            }
        }
        Artifact::Collection(collection) => {
            out.push_str(&format!("## Collection {}\n\n", collection.id));
            out.push_str(&format!("name: {}\n", quoted(&collection.name)));
            if let Some(description) = &collection.description {
                delimited(out, "description", &truncate_with_note(description, max, "Description"));
            }
        }
        Artifact::Missing(mention) => {
            let (kind, id) = match mention {
                Mention::Schema(id) => ("Schema", id.to_string()),
                Mention::Prompt(id) => ("Prompt", id.to_string()),
                Mention::Tag(id) => ("Tag", id.to_string()),
                Mention::Collection(id) => ("Collection", id.to_string()),
            };
            out.push_str(&format!("## {kind} {id}\n\nNot found: it was deleted or never existed.\n"));
        }
    }
}

fn write_schema(out: &mut String, schema: &SchemaRevision, max: usize) {
    delimited(out, "schema", &truncate_with_note(&schema.response_format.to_string(), max, "Schema"));
}

fn write_prompt(out: &mut String, prompt: &PromptRevision, schema: Option<&SchemaRevision>, tags: &[Tag], max: usize) {
    out.push_str(&format!("## Prompt {}\n\n", prompt.revid));
    out.push_str(&format!("name: {}\n", quoted(&prompt.name)));
    out.push_str(&format!("model: {}\n", prompt.model.as_deref().map_or_else(|| "none".to_owned(), quoted)));
    let tags: Vec<String> = tags.iter().map(|tag| format!("{} {}", tag.id, quoted(&tag.name))).collect();
    out.push_str(&format!("tags: {}\n", if tags.is_empty() { "none".to_owned() } else { tags.join(", ") }));
    // An extraction must match the schema, so the schema gets at least half of the space.
    let content = truncate_with_note(&prompt.content, max / 2, "Prompt");
    let left = max.saturating_sub(content.chars().count());
    delimited(out, "prompt", &content);
    match (schema, &prompt.schema) {
        (Some(schema), _) => {
            out.push_str(&format!("linked schema: {} {}\n", schema.revid, quoted(&schema.name)));
            write_schema(out, schema, left);
        }
        (None, Some(revid)) => out.push_str(&format!("linked schema: {revid}, which was not found\n")),
        (None, None) => out.push_str("linked schema: none\n"),
    }
}
