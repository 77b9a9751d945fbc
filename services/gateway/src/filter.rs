//! `filter`: conditions that must all hold, `field:value`, separated by blanks or `AND`.

use folio_proto::fields;
use folio_types::{Error, Result};

const FILTER_BYTES: usize = 8 * 1024;
const TERMS_MAX: usize = 60;
const SEARCH_CHARS: usize = 200;

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// The field; for `metadata.KEY` the whole.
    pub(crate) field: String,
    /// What it must have.
    pub(crate) value: String,
}

impl Term {
    /// A piece of text that is searched for.
    pub(crate) fn search(&self) -> Result<String> {
        if self.value.trim().is_empty() || self.value.chars().count() > SEARCH_CHARS {
            let problem = format!("{} is searched by 1 to {SEARCH_CHARS} characters", self.field);
            return Err(Error::invalid_field("filter", problem));
        }
        Ok(self.value.clone())
    }

    /// An id.
    pub(crate) fn id<T: std::str::FromStr<Err = Error>>(&self) -> Result<T> {
        fields::id("filter", &self.value)
    }
}

/// Reads a filter.
pub(crate) fn parse(text: &str) -> Result<Vec<Term>> {
    if text.len() > FILTER_BYTES {
        return Err(Error::invalid_field("filter", format!("more than {FILTER_BYTES} bytes")));
    }
    let mut terms = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("AND").filter(|after| after.starts_with(char::is_whitespace)) {
            if terms.is_empty() {
                return Err(malformed("AND stands between conditions"));
            }
            rest = after.trim_start();
            continue;
        }
        let (term, after) = term(rest)?;
        terms.push(term);
        if terms.len() > TERMS_MAX {
            return Err(malformed(&format!("more than {TERMS_MAX} conditions")));
        }
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err(malformed("conditions are separated by blanks"));
        }
        rest = after.trim_start();
    }
    Ok(terms)
}

/// The error of a field that a list does not know.
pub(crate) fn unknown(term: &Term, known: &str) -> Error {
    let shown: String = term.field.chars().take(60).collect();
    malformed(&format!("there is no field {shown:?}; there is {known}"))
}

/// The error of a field that stands twice where it may stand once.
pub(crate) fn once<T>(place: &mut Option<T>, term: &Term, value: T) -> Result<()> {
    if place.replace(value).is_some() {
        return Err(malformed(&format!("{} stands twice", term.field)));
    }
    Ok(())
}

fn malformed(problem: &str) -> Error {
    Error::invalid_field("filter", problem)
}

fn term(text: &str) -> Result<(Term, &str)> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let end = text.find(|c| !plain(c)).unwrap_or(text.len());
    let (head, mut rest) = text.split_at(end);
    let mut field = head.to_owned();
    if rest.starts_with('"') && field.ends_with('.') {
        let (part, after) = quoted(rest)?;
        field.push_str(&part);
        rest = after;
    }
    let Some(rest) = rest.strip_prefix(':').filter(|_| !field.is_empty()) else {
        return Err(malformed("a condition is field:value"));
    };
    if rest.starts_with('"') {
        let (value, rest) = quoted(rest)?;
        return Ok((Term { field, value }, rest));
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (value, rest) = rest.split_at(end);
    if value.is_empty() || value.contains('"') {
        return Err(malformed("a value is a word, or stands in quotes"));
    }
    Ok((Term { field, value: value.to_owned() }, rest))
}

/// Reads what stands in quotes; `\"` and `\\` stand for themselves.
fn quoted(text: &str) -> Result<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, text.get(at + 1..).unwrap_or_default())),
            '\\' => match chars.next() {
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                _ => return Err(malformed("a backslash stands before a quote or a backslash")),
            },
            other => value.push(other),
        }
    }
    Err(malformed("a quote is not closed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap().into_iter().map(|term| (term.field, term.value)).collect()
    }

    #[test]
    fn conditions_are_read_as_documented() {
        let pair = |field: &str, value: &str| (field.to_owned(), value.to_owned());
        assert_eq!(read(""), []);
        assert_eq!(read(" name:inv "), [pair("name", "inv")]);
        assert_eq!(
            read(r#"name:"pur \"ord\\" AND tag:tag_1  metadata.key:v"#),
            [pair("name", r#"pur "ord\"#), pair("tag", "tag_1"), pair("metadata.key", "v")]
        );
        assert_eq!(read(r#"metadata."my key":"a b""#), [pair("metadata.my key", "a b")]);
        assert_eq!(read("name:AND"), [pair("name", "AND")]);
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for bad in ["name", "name:", ":x", "name:\"x", "AND name:x", "name:\"a\"b", "name=x", "a:b\"c", "name:\"\\n\""]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&"a:b ".repeat(61)).is_err());
        assert!(parse(&"x".repeat(9_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_value_can_be_quoted(value in "\\PC{0,40}") {
            let text = format!("name:\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
            let terms = parse(&text).unwrap();
            prop_assert_eq!(terms, [Term { field: "name".to_owned(), value }]);
        }
    }
}
