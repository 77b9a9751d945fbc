//! Formats text of users and files for a model: quoted, enclosed in tags, or truncated.

use serde_json::Value;

/// Returns a short text as a JSON string on one line.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Writes a longer text between `<mark>` and `</mark>`. Closing tags within the text are escaped in a way that
/// preserves the meaning of JSON.
pub(super) fn delimited(out: &mut String, mark: &str, body: &str) {
    out.push_str(&format!("<{mark}>\n"));
    out.push_str(&body.replace("</", "<\\/"));
    if !body.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(&format!("</{mark}>\n"));
}

/// Returns the first `max` characters, and true if the text is longer.
pub(super) fn first_chars(text: &str, max: usize) -> (&str, bool) {
    match text.char_indices().nth(max) {
        Some((end, _)) => (text.get(..end).unwrap_or_default(), true),
        None => (text, false),
    }
}

/// Returns the first `max` characters, with a note if the text is longer.
pub(super) fn truncate_with_note(text: &str, max: usize, subject: &str) -> String {
    match first_chars(text, max) {
        (complete, false) => complete.to_owned(),
        (kept, true) => format!("{kept}\n[{subject} truncated after {max} characters]"),
    }
}
