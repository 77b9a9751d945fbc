//! Messages of errors that endpoints return: a body of any format becomes a short message without secrets.

use folio_types::Secret;
use serde_json::Value;

/// Maximum length of a message, in characters.
const MESSAGE_CHARS: usize = 500;
/// Minimum length of a part of the key that is removed, in characters. Endpoints repeat keys with asterisks in the
/// middle.
const KEY_PART_CHARS: usize = 6;

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

/// Returns the text without words that may contain a part of the key.
pub(crate) fn without_key(text: &str, key: &Secret) -> String {
    let key = key.reveal();
    if key.is_empty() {
        return text.to_owned();
    }
    let replaced = text.replace(key, "[key]");
    let Some((begin, _)) = key.char_indices().nth(KEY_PART_CHARS) else { return replaced };
    let begin = key.get(..begin).unwrap_or(key);
    let words = replaced.split(' ').map(|word| if word.contains(begin) { "[key]" } else { word });
    words.collect::<Vec<_>>().join(" ")
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
        for text in
            ["key sk-abcdefghijklmnop is bad", "Incorrect key: sk-abc***********mnop.", "\"sk-abcdefghijklmnop\""]
        {
            let shown = without_key(text, &key);
            assert!(!shown.contains("abc") && !shown.contains("mnop"), "{shown}");
        }
        assert_eq!(without_key("nothing here", &key), "nothing here");
        assert_eq!(without_key("nothing here", &Secret::default()), "nothing here");
    }
}
