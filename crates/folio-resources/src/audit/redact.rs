//! RedactedArguments arguments for the audit log.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use folio_types::Digest;

/// Maximum size of redacted arguments as JSON, in bytes.
// proto: AuditEntry.arguments_json "at most {} KiB"
pub const REDACTED_BYTES: usize = 4 * 1024;
/// Maximum nesting of redacted arguments.
const DEPTH: usize = 6;
/// Maximum members of an object, or items of an array.
const MEMBERS: usize = 32;
/// Maximum length of a member's name, in characters.
const NAME_CHARS: usize = 64;
/// Maximum length of a number, in characters.
const NUMBER_CHARS: usize = 40;
/// Maximum length of a text that is kept in an administrator's request, in characters.
const TEXT_CHARS: usize = 200;
/// Bytes that each value costs in addition to its text.
const VALUE_OVERHEAD_BYTES: usize = 16;
/// Bytes that are reserved on each level for the count of omitted values.
const NOTE_BYTES: usize = 64;

/// Arguments without texts of documents and without secrets.
///
/// The arguments of a call keep member names that have the form of an identifier (letters, digits, `_`, `-`, `.`, `$`;
/// at most 64 characters), types, numbers, booleans and Folio's own ids. Every other text may be document text or a
/// secret, so it is replaced by its length (`<12 characters>`). Long and deep values are cut with a note. Equal digests
/// mean equal arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactedArguments {
    /// [`Digest::of_json`] of the complete arguments.
    pub digest: Digest,
    pub value: Value,
}

impl RedactedArguments {
    /// Redacts the arguments of a tool call.
    pub fn call(arguments: &Value) -> Self {
        Self::of(arguments, 0)
    }

    /// Redacts an administrator's request. Texts of at most 200 characters are kept, because they are names, except
    /// texts that may be tokens. The caller removes other secrets first.
    pub fn request(arguments: &Value) -> Self {
        Self::of(arguments, TEXT_CHARS)
    }

    fn of(arguments: &Value, text_chars: usize) -> Self {
        let mut budget = Budget { bytes: REDACTED_BYTES, text_chars };
        Self { digest: Digest::of_json(arguments), value: budget.redact(arguments, 0) }
    }
}

/// Remaining size of the redacted arguments.
struct Budget {
    bytes: usize,
    text_chars: usize,
}

impl Budget {
    fn redact(&mut self, value: &Value, depth: usize) -> Value {
        let redacted = match value {
            Value::Null | Value::Bool(_) => value.clone(),
            Value::Number(number) => match number.to_string().chars().count() {
                0..=NUMBER_CHARS => value.clone(),
                digits => Value::String(format!("<number of {digits} characters>")),
            },
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) if depth < DEPTH => return self.items(items, depth),
            Value::Object(members) if depth < DEPTH => return self.members(members, depth),
            Value::Array(items) => Value::String(format!("<array of {}>", items.len())),
            Value::Object(members) => Value::String(format!("<object of {}>", members.len())),
        };
        self.take(&redacted.to_string());
        redacted
    }

    fn text(&self, text: &str) -> String {
        let chars = text.chars().count();
        let plain = chars <= self.text_chars && !text.chars().any(char::is_control) && !text.contains("folio_");
        if plain || is_id(text) { text.to_owned() } else { format!("<{chars} characters>") }
    }

    fn items(&mut self, items: &[Value], depth: usize) -> Value {
        self.take("[]");
        let mut redacted = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if at == MEMBERS || !self.fits(item, depth) {
                redacted.push(Value::String(omitted(items.len() - at)));
                break;
            }
            redacted.push(self.redact(item, depth + 1));
        }
        Value::Array(redacted)
    }

    fn members(&mut self, members: &Map<String, Value>, depth: usize) -> Value {
        self.take("{}");
        let mut redacted = Map::new();
        for (at, (name, value)) in members.iter().enumerate() {
            if at == MEMBERS || !self.fits(value, depth) {
                redacted.insert("…".to_owned(), Value::String(omitted(members.len() - at)));
                break;
            }
            let name = match is_name(name) {
                true => name.clone(),
                // The number makes the replaced names unique.
                false => format!("<name {}, {} characters>", at + 1, name.chars().count()),
            };
            self.take(&name);
            let value = self.redact(value, depth + 1);
            redacted.insert(name, value);
        }
        Value::Object(redacted)
    }

    /// Returns true if the longest redacted form of a value fits, together with the notes of the levels above.
    fn fits(&self, value: &Value, depth: usize) -> bool {
        let own = match value {
            // A character takes up to six bytes in JSON.
            Value::String(text) => {
                text.len().min(self.text_chars * 6).max(NAME_CHARS) * if self.text_chars > 0 { 2 } else { 1 }
            }
            _ => NAME_CHARS,
        };
        self.bytes > own + NAME_CHARS + VALUE_OVERHEAD_BYTES + (depth + 2) * NOTE_BYTES
    }

    fn take(&mut self, text: &str) {
        self.bytes = self.bytes.saturating_sub(text.len() + VALUE_OVERHEAD_BYTES);
    }
}

fn omitted(count: usize) -> String {
    format!("<{count} more>")
}

fn is_name(text: &str) -> bool {
    let char = |char: char| char.is_ascii_alphanumeric() || "_-.$".contains(char);
    !text.is_empty() && text.len() <= NAME_CHARS && text.chars().all(char)
}

/// Returns true if a text has the form of a Folio id: a prefix, 128 bits in hexadecimal, and numbers.
fn is_id(text: &str) -> bool {
    let (plain, numbers) = text.split_once('.').unwrap_or((text, "1"));
    let numbered =
        numbers.len() <= 32 && numbers.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let digits = |hex: &str| hex.len() == 32 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let prefixes = ["org", "usr", "doc", "thr", "sch", "prm", "tag", "ext", "tok", "grn", "blk"];
    numbered && plain.split_once('_').is_some_and(|(prefix, hex)| prefixes.contains(&prefix) && digits(hex))
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_types::{SchemaId, SchemaRevId, UserId};
    use serde_json::json;

    #[test]
    fn names_types_numbers_and_ids_stay_and_texts_become_their_length() {
        let revid = SchemaRevId::new(SchemaId::derive(&["a"]), 3);
        let arguments = json!({
            "schema_revid": revid, "name": "Überweisung", "count": 3, "share": 0.5, "on": true, "none": null,
            "fields": [{"path": "a.b", "value": "sk-secret"}],
        });
        let redacted = RedactedArguments::call(&arguments);
        let expected = json!({
            "schema_revid": revid, "name": "<11 characters>", "count": 3, "share": 0.5, "on": true, "none": null,
            "fields": [{"path": "<3 characters>", "value": "<9 characters>"}],
        });
        assert_eq!(redacted.value, expected);
        assert_eq!(redacted.digest, Digest::of_json(&arguments));
        let request = json!({"name": "Nightly job", "note": "x".repeat(201), "user_id": UserId::derive(&["a"])});
        let redacted = RedactedArguments::request(&request).value;
        assert_eq!(redacted["name"], "Nightly job");
        assert_eq!(redacted["note"], "<201 characters>");
        let token = json!(format!("folio_{}_{}", "0".repeat(32), "1".repeat(64)));
        assert_eq!(RedactedArguments::request(&token).value, "<103 characters>");
    }

    #[test]
    fn hostile_names_and_ids_are_redacted() {
        let hostile = json!({
            "the account 4711 of Mr. Smith": 1,
            "the account 4712 of Mr. Smith": 2,
            "": 3,
            "a".repeat(65): 4,
            "id": "doc_0123456789abcdef0123456789abcdeg",
            "revid": format!("doc_{}.1 and text", "0".repeat(32)),
            "token": format!("folio_{}_{}", "0".repeat(32), "1".repeat(64)),
            "line": "x\n\u{0}y",
        });
        let redacted = RedactedArguments::call(&hostile).value.to_string();
        for word in ["Smith", "471", "aaaa", "abcdef", "text", "111", "\\n"] {
            assert!(!redacted.contains(word), "{word} in {redacted}");
        }
        assert_eq!(RedactedArguments::call(&hostile).value.as_object().unwrap().len(), 8);
    }

    #[test]
    fn redacted_arguments_are_bounded() {
        let mut deep = json!("end");
        for _ in 0..60 {
            deep = json!({ "level": [deep] });
        }
        let wide: Map<String, Value> = (0..2_000).map(|n| (format!("member_{n}"), json!([n, "x"]))).collect();
        let texts: Vec<String> = (0..500).map(|n| format!("{n} {}", "\"\\".repeat(90))).collect();
        let digits: Value = serde_json::from_str("{\"n\": 12345678901234567890.123}").unwrap();
        let nested: Value =
            (0..5).fold(json!("x"), |inner, _| Value::Array(vec![inner; 40].into_iter().take(12).collect()));
        for value in [deep, Value::Object(wide), json!(texts), json!("y".repeat(1 << 20)), digits, nested] {
            for redacted in [RedactedArguments::call(&value), RedactedArguments::request(&value)] {
                let bytes = redacted.value.to_string().len();
                assert!(bytes <= REDACTED_BYTES, "{bytes} bytes of {:.200}", redacted.value.to_string());
            }
        }
    }

    #[test]
    fn values_that_might_exceed_the_bound_are_counted_instead() {
        let texts = vec![json!("a".repeat(200)); 40];
        let redacted = RedactedArguments::request(&json!(texts)).value;
        // 4096 bytes hold the brackets (18), 16 texts (218 each), and a reserve of 608 for the next text and the note.
        assert_eq!(redacted, Value::Array([&texts[..16], &[json!("<24 more>")]].concat()));

        let wide = vec![json!("ä".repeat(200)); 40];
        // A text of two-byte characters costs 418 bytes and reserves 1008.
        let expected = Value::Array([&wide[..8], &[json!("<32 more>")]].concat());
        assert_eq!(RedactedArguments::request(&json!(wide)).value, expected);

        let members = |count| (10..10 + count).map(|n| (format!("k{n}"), texts[0].clone())).collect::<Map<_, _>>();
        let mut expected = members(15);
        expected.insert("…".into(), json!("<25 more>"));
        // A member costs its name (19 bytes) in addition to its text.
        assert_eq!(RedactedArguments::request(&Value::Object(members(40))).value, Value::Object(expected));

        let text = json!("<1 characters>");
        let (full, partial) = (vec![text.clone(); 32], [vec![text; 19], vec![json!("<13 more>")]].concat());
        let nested = json!(vec![vec!["x"; 32]; 40]);
        let (full, partial, empty) = (json!(full), json!(partial), json!(["<32 more>"]));
        let expected = json!([full, full, full, partial, empty, empty, empty, "<33 more>"]);
        assert_eq!(RedactedArguments::call(&nested).value, expected);
    }

    #[test]
    fn values_below_the_sixth_level_are_counted() {
        assert_eq!(RedactedArguments::call(&json!([[[[[[[1, 2]]]]]]])).value, json!([[[[[["<array of 2>"]]]]]]));
        let levels = |end: Value, count: u8| (0..count).fold(end, |inner, _| json!({ "a": inner }));
        let redacted = RedactedArguments::call(&levels(json!({"a": 1, "b": 2}), 6)).value;
        assert_eq!(redacted, levels(json!("<object of 2>"), 6));
    }
}
