//! Foreign text in a message for a model: quoted, delimited, cut visibly.

use serde_json::Value;

/// A short foreign text as a JSON string on one line.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A longer foreign text between `<mark>` and `</mark>`. No closing mark within it is left intact; in JSON the change is
/// an escape that means the same.
pub(super) fn delimited(out: &mut String, mark: &str, body: &str) {
    out.push_str(&format!("<{mark}>\n"));
    out.push_str(&body.replace("</", "<\\/"));
    if !body.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(&format!("</{mark}>\n"));
}

/// The first `max` characters, and whether that is less than all.
pub(super) fn first_chars(text: &str, max: usize) -> (&str, bool) {
    match text.char_indices().nth(max) {
        Some((end, _)) => (text.get(..end).unwrap_or_default(), true),
        None => (text, false),
    }
}

/// The first `max` characters, with a mark where that is less than all.
pub(super) fn cut(text: &str, max: usize, what: &str) -> String {
    match first_chars(text, max) {
        (whole, false) => whole.to_owned(),
        (kept, true) => format!("{kept}\n[{what} cut after {max} characters]"),
    }
}
