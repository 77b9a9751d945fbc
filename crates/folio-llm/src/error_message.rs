//! Messages of errors that endpoints return: a body of any format becomes a short message without secrets.

use folio_types::Secret;
use serde_json::Value;

/// Maximum length of a message, in characters.
const MESSAGE_CHARS: usize = 500;
/// Minimum length of a key that is removed, in bytes. A shorter one, such as "none", is the placeholder of an endpoint
/// without keys and may be a word of the message.
const KEY_BYTES_MIN: usize = 8;
/// Minimum length of the characters that remain of an abbreviated key, in bytes: the start and the end together.
const KEY_PART_BYTES: usize = 6;
/// The replacement of a key.
const MASK: &str = "[key]";

pub(crate) fn message_of_body(body: &[u8]) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => one_line(&message_of(&value)),
        Err(_) => one_line(&without_markup(&String::from_utf8_lossy(body))),
    }
}

/// Returns the message of a JSON error: `{"error": {"message"}}` (OpenAI), `{"error": ".."}`, `{"message"}`,
/// `{"detail"}` (text or list), else the JSON itself.
pub(crate) fn message_of(value: &Value) -> String {
    let mut current = value;
    // Proxies nest `error` in `error`.
    for _ in 0..4 {
        match ["error", "message", "detail", "msg", "errors"].iter().find_map(|name| current.get(name)) {
            Some(inner) if !inner.is_null() => current = inner,
            _ => break,
        }
        if let Value::Array(items) = current {
            current = items.first().unwrap_or(&Value::Null);
        }
    }
    match current {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns the text as one line, cut with an ellipsis.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (count, word) in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).enumerate()
    {
        if count > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > 4 * MESSAGE_CHARS {
            break;
        }
    }
    match line.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Returns the text with `[key]` in place of the key, also where the endpoint abbreviates the key with asterisks, dots or
/// an ellipsis. Other words remain, even if they start like the key.
pub(crate) fn without_key(text: &str, key: &Secret) -> String {
    let key = key.reveal();
    if key.len() < KEY_BYTES_MIN {
        return text.to_owned();
    }
    let text = text.replace(key, MASK);
    let (mut masked, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some(at) = rest.find(is_ellipsis) {
        let (before, after) = rest.split_at(at);
        let end = after.find(|c| !is_ellipsis(c)).unwrap_or(after.len());
        let (ellipsis, after) = after.split_at(end);
        let (start, end) = (start_of_key(before, key), end_of_key(after, key));
        if is_abbreviation(start, ellipsis, end) {
            masked.push_str(before.get(..before.len() - start).unwrap_or_default());
            masked.push_str(MASK);
            rest = after.get(end..).unwrap_or_default();
        } else {
            masked.push_str(before);
            masked.push_str(ellipsis);
            rest = after;
        }
    }
    masked + rest
}

/// Returns true for the characters that endpoints write in place of the middle of a key.
fn is_ellipsis(c: char) -> bool {
    matches!(c, '*' | '.' | '…' | '•')
}

/// Returns true if a key is abbreviated. `start` and `end`: the numbers of its bytes that remain. Dots without the end of
/// the key may end a sentence whose last word starts like the key, so they need a longer start.
fn is_abbreviation(start: usize, ellipsis: &str, end: usize) -> bool {
    let may_be_sentence = end == 0 && ellipsis.chars().all(|c| c == '.');
    start + end >= if may_be_sentence { KEY_BYTES_MIN } else { KEY_PART_BYTES }
}

/// Returns the length of the longest end of `text` that is a start of the key.
fn start_of_key(text: &str, key: &str) -> usize {
    let is_end = |length: &usize| key.get(..*length).is_some_and(|start| text.ends_with(start));
    (1..=key.len().min(text.len())).rev().find(is_end).unwrap_or(0)
}

/// Returns the length of the longest start of `text` that is an end of the key.
fn end_of_key(text: &str, key: &str) -> usize {
    let end_at = |at: usize| key.get(at..).filter(|end| text.starts_with(*end));
    (key.len().saturating_sub(text.len())..key.len()).find_map(end_at).map_or(0, str::len)
}

/// Returns the text of an HTML page.
fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(4 * MESSAGE_CHARS));
    let mut inside = false;
    for c in text.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => {
                inside = false;
                out.push(' ');
            }
            c if !inside => out.push(c),
            _ => {}
        }
    }
    if out.trim().is_empty() { text.to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_of_body_gives_a_message() {
        for (body, message) in [
            (r#"{"error": {"message": "no such model", "code": 404}}"#, "no such model"),
            (r#"{"error": "overloaded"}"#, "overloaded"),
            (r#"{"detail": [{"loc": ["a"], "msg": "field required"}]}"#, "field required"),
            (r#"{"detail": "Not Found"}"#, "Not Found"),
            (r#"{"message": "x\n\ty"}"#, "x y"),
            (r#"[1, 2]"#, "[1,2]"),
            (r#"{"error": {"error": {"message": "inner"}}}"#, "inner"),
            ("<html><body><h1>502</h1>Bad gateway</body></html>", "502 Bad gateway"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(message_of_body(body.as_bytes()), message, "{body}");
        }
        assert!(message_of_body(&[0xff; 10]).chars().count() <= 10);
    }

    #[test]
    fn messages_are_bounded() {
        assert_eq!(message_of_body("é ".repeat(100_000).as_bytes()).chars().count(), MESSAGE_CHARS + 1);
        assert_eq!(message_of_body("é".repeat(100_000).as_bytes()).chars().count(), MESSAGE_CHARS + 1);
    }

    #[test]
    fn no_part_of_a_key_remains() {
        let key = Secret::new("sk-abcdefghijklmnop");
        for (text, shown) in [
            ("key sk-abcdefghijklmnop is bad", "key [key] is bad"),
            ("Incorrect key: sk-abc***********mnop.", "Incorrect key: [key]."),
            ("\"sk-abcdefghijklmnop\"", "\"[key]\""),
            ("Received sk-...mnop, and sk-abcdefg…", "Received [key], and [key]"),
            ("(sk-abcd••••) sk-abcdefgh...", "([key]) [key]"),
        ] {
            assert_eq!(without_key(text, &key), shown);
        }
        assert_eq!(without_key("nothing here", &key), "nothing here");
    }

    #[test]
    fn no_other_word_is_masked() {
        for (text, key) in [
            ("nothing here", ""),
            ("none of the models is loaded", "none"),
            ("ollama is loading ollama-small... **wait** 1.5 s", "ollama-key"),
            ("use sk-project keys, not sk-...abcd", "sk-proj-0123456789"),
        ] {
            assert_eq!(without_key(text, &Secret::new(key)), text, "{key}");
        }
    }
}
