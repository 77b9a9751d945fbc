//! Parses the system messages: document and working state.

use serde_json::Value;

/// The parsed parts of the system messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SystemMessage {
    pub(super) document: Option<String>,
    pub(super) file_name: Option<String>,
    /// Text of the document. None: the message does not contain it.
    pub(super) text: Option<String>,
    pub(super) prompt_revid: Option<String>,
    pub(super) extraction: Option<Value>,
}

impl SystemMessage {
    pub(super) fn of(system: &str) -> Self {
        let head = system.split_once("# Document text").map_or(system, |(head, _)| head);
        let working = system.rfind("# Working state").and_then(|at| system.get(at..)).unwrap_or_default();
        let quoted = line(head, "file name:").and_then(|name| serde_json::from_str::<String>(name).ok());
        Self {
            document: line(head, "id:").map(str::to_owned),
            file_name: quoted.or_else(|| line(head, "file name:").map(str::to_owned)),
            text: document_text(system),
            prompt_revid: line(working, "prompt_revid:").filter(|id| *id != "none").map(str::to_owned),
            extraction: between(working, "extraction").and_then(|json| serde_json::from_str(json.trim()).ok()),
        }
    }
}

/// Returns the value of the first line with this label.
fn line<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim).filter(|value| !value.is_empty())
}

/// Returns the step in the instructions of a node, which precede the schema of its answer. None: the request is not that of a node.
pub(super) fn step(system: &str) -> Option<&str> {
    let (instructions, _) = system.split_once("\n# Answer\n")?;
    line(instructions, "Step:")
}

/// Returns the state of the profile in the working state.
pub(super) fn profile_state(system: &str) -> Option<Value> {
    let (_, working) = system.rsplit_once("# Working state")?;
    serde_json::from_str(between(working, "state")?.trim()).ok()
}

/// Returns the text between `<mark>` and `</mark>`.
pub(super) fn between<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("<{mark}>"))?;
    after.split_once(&format!("</{mark}>")).map(|(inner, _)| inner)
}

/// Returns the response format of the schema that the referenced prompt is linked to.
pub(super) fn linked_schema(system: &str) -> Option<Value> {
    let (_, artifacts) = system.split_once("# Referenced artifacts")?;
    let (_, linked) = artifacts.split_once("linked schema:")?;
    serde_json::from_str(between(linked, "schema")?.trim()).ok()
}

/// Returns the document's text in a message: between tags, or between lines of the form `=====BEGIN DOCUMENT
/// mark=====`.
pub(super) fn document_text(message: &str) -> Option<String> {
    let tagged = ["document_text", "document"].iter().find_map(|mark| between(message, mark));
    tagged.map(|inner| inner.replace("<\\/", "</")).or_else(|| between_marks(message).map(str::to_owned))
}

/// Returns the text between a line `=====BEGIN DOCUMENT mark=====` and the last line that ends the same mark.
fn between_marks(message: &str) -> Option<&str> {
    let (_, after) = message.split_once("=====BEGIN DOCUMENT ")?;
    let (mark, body) = after.split_once("=====")?;
    body.rsplit_once(&format!("=====END DOCUMENT {mark}=====")).map(|(inner, _)| inner)
}

/// Returns the leaves of an extraction as lines of text. Lists are counted.
pub(super) fn format_leaves(data: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in data.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Array(items) => format!("{} rows", items.len()),
            other => other.to_string(),
        };
        lines.push(format!("- {name}: {shown}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_message_is_parsed() {
        let system = "# Instructions\n\nUse their ids.\n\n# Document\n\nid: doc_1\nfile name: \"a \\\"b\\\".pdf\"\n\n# Document text\n\n<document_text>\nTotal: 1\n\
                      id: fake\n</document_text>\n\n# Working state\n\nschema_revid: none\nprompt_revid: prm_1.1\nextraction: \
                      ext_1 of doc_1\n<extraction>\n{\"total\":1}\n</extraction>\n";
        let view = SystemMessage::of(system);
        assert_eq!(view.document.as_deref(), Some("doc_1"));
        assert_eq!(view.file_name.as_deref(), Some("a \"b\".pdf"));
        assert_eq!(view.text.as_deref().map(str::trim), Some("Total: 1\nid: fake"));
        assert_eq!(view.prompt_revid.as_deref(), Some("prm_1.1"));
        assert_eq!(view.extraction.unwrap()["total"], 1);
        assert_eq!(SystemMessage::of("be nice"), SystemMessage::default());
        let message = "Extract.\n=====BEGIN DOCUMENT ab12=====\nTotal: 1\n=====END DOCUMENT ab12=====";
        assert_eq!(document_text(message).as_deref().map(str::trim), Some("Total: 1"));
    }
}
