//! Arguments as the audit log shows them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::Digest;

/// Bytes that the shown form of arguments has at most, as JSON.
pub const REDACTED_BYTES: usize = 4 * 1024;
/// Levels that are shown.
const DEPTH: usize = 6;
/// Members of one object, or items of one array, that are shown.
const MEMBERS: usize = 32;
/// Characters of the name of a member.
const NAME_CHARS: usize = 64;
/// Characters of a number.
const NUMBER_CHARS: usize = 40;
/// Characters of a text that an administrator gave.
const TEXT_CHARS: usize = 200;
/// What one value is counted for beside its text.
const EACH: usize = 16;
/// Room that is kept for saying what was left out, on each level.
const LAST: usize = 64;

/// Arguments, without what nobody is to read in a log.
///
/// Of a call's arguments the names of members stay where they look like names (letters, digits, `_`, `-`, `.`, `$`; at most 64), and
/// so do types, numbers, booleans and Folio's own ids. Every other text is replaced by its length (`<12 characters>`): it may be a
/// document's, or a secret. Long and deep values are cut, and say so. The digest tells whether two calls had the same arguments,
/// and whether it was these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redacted {
    /// [`Digest::of_json`] of the whole arguments.
    pub digest: Digest,
    /// What of them is shown.
    pub shown: Value,
}

impl Redacted {
    /// The arguments of a tool call.
    pub fn call(arguments: &Value) -> Self {
        Self::of(arguments, 0)
    }

    /// What an administrator asked for: short texts (200 characters) stay, for they name things; none that may be a token. Whoever
    /// records it leaves other secrets out before.
    pub fn request(arguments: &Value) -> Self {
        Self::of(arguments, TEXT_CHARS)
    }

    fn of(arguments: &Value, text_chars: usize) -> Self {
        let mut room = Room { bytes: REDACTED_BYTES, text_chars };
        Self { digest: Digest::of_json(arguments), shown: room.shown(arguments, 0) }
    }
}

/// What may still be shown.
struct Room {
    bytes: usize,
    text_chars: usize,
}

impl Room {
    fn shown(&mut self, value: &Value, depth: usize) -> Value {
        let shown = match value {
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
        self.take(&shown.to_string());
        shown
    }

    fn text(&self, text: &str) -> String {
        let chars = text.chars().count();
        let plain = chars <= self.text_chars && !text.chars().any(char::is_control) && !text.contains("folio_");
        if plain || is_id(text) { text.to_owned() } else { format!("<{chars} characters>") }
    }

    fn items(&mut self, items: &[Value], depth: usize) -> Value {
        self.take("[]");
        let mut shown = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if at == MEMBERS || !self.has_room(item, depth) {
                shown.push(Value::String(left_out(items.len() - at)));
                break;
            }
            shown.push(self.shown(item, depth + 1));
        }
        Value::Array(shown)
    }

    fn members(&mut self, members: &Map<String, Value>, depth: usize) -> Value {
        self.take("{}");
        let mut shown = Map::new();
        for (at, (name, value)) in members.iter().enumerate() {
            if at == MEMBERS || !self.has_room(value, depth) {
                shown.insert("…".to_owned(), Value::String(left_out(members.len() - at)));
                break;
            }
            let name = match is_name(name) {
                true => name.clone(),
                // Numbered, so that none takes another's place.
                false => format!("<name {}, {} characters>", at + 1, name.chars().count()),
            };
            self.take(&name);
            let value = self.shown(value, depth + 1);
            shown.insert(name, value);
        }
        Value::Object(shown)
    }

    /// Whether the longest form that a value can take still has its place, with what the levels above may have to say after it.
    fn has_room(&self, value: &Value, depth: usize) -> bool {
        let own = match value {
            // In JSON a character may take six bytes.
            Value::String(text) => {
                text.len().min(self.text_chars * 6).max(NAME_CHARS) * if self.text_chars > 0 { 2 } else { 1 }
            }
            _ => NAME_CHARS,
        };
        self.bytes > own + NAME_CHARS + EACH + (depth + 2) * LAST
    }

    fn take(&mut self, text: &str) {
        self.bytes = self.bytes.saturating_sub(text.len() + EACH);
    }
}

fn left_out(count: usize) -> String {
    format!("<{count} more>")
}

fn is_name(text: &str) -> bool {
    let char = |char: char| char.is_ascii_alphanumeric() || "_-.$".contains(char);
    !text.is_empty() && text.len() <= NAME_CHARS && text.chars().all(char)
}

/// Whether a text is an id of Folio: a prefix, 128 bits in hexadecimal, and numbers of what belongs to it.
fn is_id(text: &str) -> bool {
    let (plain, numbers) = text.split_once('.').unwrap_or((text, "1"));
    let numbered =
        numbers.len() <= 32 && numbers.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let digits = |hex: &str| hex.len() == 32 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let prefixes = ["org", "usr", "doc", "thr", "sch", "prm", "tag", "ext", "grn", "blk"];
    numbered && plain.split_once('_').is_some_and(|(prefix, hex)| prefixes.contains(&prefix) && digits(hex))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SchemaId, SchemaRevId, UserId};
    use serde_json::json;

    #[test]
    fn names_types_numbers_and_ids_stay_and_texts_become_their_length() {
        let revid = SchemaRevId::new(SchemaId::derive(&["a"]), 3);
        let arguments = json!({
            "schema_revid": revid, "name": "Überweisung", "count": 3, "share": 0.5, "on": true, "none": null,
            "fields": [{"path": "a.b", "value": "sk-secret"}],
        });
        let redacted = Redacted::call(&arguments);
        let shown = json!({
            "schema_revid": revid, "name": "<11 characters>", "count": 3, "share": 0.5, "on": true, "none": null,
            "fields": [{"path": "<3 characters>", "value": "<9 characters>"}],
        });
        assert_eq!(redacted.shown, shown);
        assert_eq!(redacted.digest, Digest::of_json(&arguments));
        let asked = json!({"name": "Nightly job", "note": "x".repeat(201), "user_id": UserId::derive(&["a"])});
        let shown = Redacted::request(&asked).shown;
        assert_eq!(shown["name"], "Nightly job");
        assert_eq!(shown["note"], "<201 characters>");
        let token = json!(format!("folio_{}_{}", "0".repeat(32), "1".repeat(64)));
        assert_eq!(Redacted::request(&token).shown, "<103 characters>");
    }

    #[test]
    fn nothing_of_a_hostile_argument_gets_through_where_a_name_or_an_id_is_expected() {
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
        let shown = Redacted::call(&hostile).shown.to_string();
        for word in ["Smith", "471", "aaaa", "abcdef", "text", "111", "\\n"] {
            assert!(!shown.contains(word), "{word} in {shown}");
        }
        assert_eq!(Redacted::call(&hostile).shown.as_object().unwrap().len(), 8);
    }

    #[test]
    fn what_is_shown_is_bounded_however_large_wide_or_deep_the_arguments_are() {
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
            for redacted in [Redacted::call(&value), Redacted::request(&value)] {
                let bytes = redacted.shown.to_string().len();
                assert!(bytes <= REDACTED_BYTES, "{bytes} bytes of {:.200}", redacted.shown.to_string());
            }
        }
    }
}
