//! Filters of lists: conditions separated by whitespace or `AND`, all of which must be true.
//!
//! `field:value` is true if the field contains the value (a part of a text, an element of a set); `field=value` is true
//! if the field equals the value. A value with whitespace is written in double quotes, in which `\"` is a quote and
//! `\\` a backslash. This is a subset of AIP-160: no `OR`, no `NOT`, no comparison by order.

use folio_types::{DocumentId, Error, Result, limits};

/// Maximum size of a filter.
// proto: docs/api.md "at most {} KiB"
// proto: *.filter "and {} KiB"
pub const FILTER_BYTES: usize = 8 * 1024;
/// Maximum number of conditions of a filter.
// proto: docs/api.md "up to {} conditions"
// proto: *.filter "At most {} conditions"
pub const CONDITIONS_MAX: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `:`, the field contains the value.
    Has,
    /// `=`, the field equals the value.
    Equals,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The field, such as `name` or `metadata.year`.
    pub field: String,
    pub operator: Operator,
    pub value: String,
}

impl Condition {
    /// Returns the value as a part of a text.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the operator is `=`, or the value is blank or longer than [`limits::SEARCH_CHARS`].
    pub fn search(&self) -> Result<String> {
        if self.operator != Operator::Has {
            return Err(malformed(&format!("{} requires the operator ':'", self.field)));
        }
        if self.value.trim().is_empty() || self.value.chars().count() > limits::SEARCH_CHARS {
            let problem = format!("the value of {} must have 1 to {} characters", self.field, limits::SEARCH_CHARS);
            return Err(malformed(&problem));
        }
        Ok(self.value.clone())
    }

    /// Returns the value `true` or `false`, with either operator. Error: `INVALID_FIELD`.
    pub fn flag(&self) -> Result<bool> {
        self.value.parse().map_err(|_| malformed(&format!("the value of {} must be true or false", self.field)))
    }

    /// Returns the parsed value, with either operator. `value`: None if the text is none of `names`.
    ///
    /// # Errors
    /// `INVALID_FIELD` with the permitted names.
    pub fn one_of<T>(&self, value: Option<T>, names: &[&str]) -> Result<T> {
        value.ok_or_else(|| malformed(&format!("the value of {} must be one of {}", self.field, names.join(", "))))
    }

    /// Returns the value as an id, with either operator. Error: `INVALID_ID`.
    pub fn id<T: std::str::FromStr<Err = Error>>(&self) -> Result<T> {
        self.value.parse().map_err(|error: Error| malformed(&error.message).with_reason(error.reason))
    }
}

/// Parses a filter.
///
/// # Errors
/// `INVALID_FIELD` of `filter`: malformed, more than [`FILTER_BYTES`] bytes, or more than [`CONDITIONS_MAX`]
/// conditions.
pub fn parse(text: &str) -> Result<Vec<Condition>> {
    if text.len() > FILTER_BYTES {
        return Err(malformed(&format!("has more than {FILTER_BYTES} bytes")));
    }
    let mut conditions = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("AND").filter(|after| after.starts_with(char::is_whitespace)) {
            if conditions.is_empty() {
                return Err(malformed("AND is allowed only between conditions"));
            }
            rest = after.trim_start();
            continue;
        }
        let (condition, after) = condition(rest)?;
        conditions.push(condition);
        if conditions.len() > CONDITIONS_MAX {
            return Err(malformed(&format!("has more than {CONDITIONS_MAX} conditions")));
        }
        rest = after.trim_start();
    }
    Ok(conditions)
}

/// Parses the filter of a list whose only field is `name`. Returns the part of the name, and the whole name.
pub fn name_conditions(text: &str) -> Result<(Option<String>, Option<String>)> {
    let (mut part, mut whole) = (None, None);
    for condition in parse(text)? {
        match condition.field.as_str() {
            "name" => set_text(&mut part, &mut whole, &condition)?,
            _ => return Err(unknown_field(&condition, "name")),
        }
    }
    Ok((part, whole))
}

/// Stores a condition on a text: with `:` a part of it, with `=` the exact text, including case. A filter may have one
/// of each.
pub fn set_text(part: &mut Option<String>, whole: &mut Option<String>, condition: &Condition) -> Result<()> {
    match condition.operator {
        Operator::Has => set_once(part, condition, condition.search()?),
        Operator::Equals => set_once(whole, condition, condition.value.clone()),
    }
}

/// Returns a text as a value of a filter, in double quotes.
pub fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Parses the filter of a list whose only field is `name`, with a part of the name. None: the filter is empty.
pub fn name_search(text: &str) -> Result<Option<String>> {
    let mut name = None;
    for condition in parse(text)? {
        match condition.field.as_str() {
            "name" => set_once(&mut name, &condition, condition.search()?)?,
            _ => return Err(unknown_field(&condition, "name")),
        }
    }
    Ok(name)
}

/// Parses the filter of a list with the fields `state` and `document`. `from_name` returns the state with a name, and `names` are all
/// names. None: the filter lacks the condition.
pub(crate) fn state_and_document<S>(
    text: &str,
    names: &[&str],
    from_name: impl Fn(&str) -> Option<S>,
) -> Result<(Option<S>, Option<DocumentId>)> {
    let (mut state, mut document) = (None, None);
    for condition in parse(text)? {
        match condition.field.as_str() {
            "state" => {
                let named = from_name(&condition.value);
                set_once(&mut state, &condition, condition.one_of(named, names)?)?;
            }
            "document" => set_once(&mut document, &condition, condition.id()?)?,
            _ => return Err(unknown_field(&condition, "state and document")),
        }
    }
    Ok((state, document))
}

/// Checks the number of tags in a filter.
pub(crate) fn check_tags(count: usize) -> Result<()> {
    if count > limits::TAGS_MAX { Err(malformed(&format!("has more than {} tags", limits::TAGS_MAX))) } else { Ok(()) }
}

/// Returns true if a text contains the lowercase part, ignoring case. None: every text matches.
pub(crate) fn contains(text: &str, part: Option<&String>) -> bool {
    part.is_none_or(|part| text.to_lowercase().contains(part))
}

/// Accepts only an empty filter, for a list without filter fields. Error: `INVALID_FIELD` of `filter`.
pub fn require_empty(text: &str) -> Result<()> {
    if text.trim().is_empty() { Ok(()) } else { Err(malformed("this list has no filter fields")) }
}

/// The error of a condition on an unknown field. `known` names the fields of the list.
pub fn unknown_field(condition: &Condition, known: &str) -> Error {
    let field: String = condition.field.chars().take(60).collect();
    malformed(&format!("unknown field {field:?}: expected {known}"))
}

/// Stores the value of a field that a filter may name at most once. Error: `INVALID_FIELD` if the field already has a
/// value.
pub fn set_once<T>(slot: &mut Option<T>, condition: &Condition, value: T) -> Result<()> {
    if slot.replace(value).is_some() {
        return Err(malformed(&format!("{} appears twice", condition.field)));
    }
    Ok(())
}

fn malformed(problem: &str) -> Error {
    Error::invalid_field("filter", problem)
}

fn condition(text: &str) -> Result<(Condition, &str)> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let end = text.find(|c| !is_plain(c)).unwrap_or(text.len());
    let (head, mut rest) = text.split_at(end);
    let mut field = head.to_owned();
    if rest.starts_with('"') && field.ends_with('.') {
        let (part, after) = quoted(rest)?;
        field.push_str(&part);
        rest = after;
    }
    let rest = rest.trim_start();
    let operator = match rest.chars().next() {
        Some(':') => Operator::Has,
        Some('=') => Operator::Equals,
        _ => return Err(malformed("a condition is field:value or field=value")),
    };
    let rest = rest.get(1..).unwrap_or_default().trim_start();
    if field.is_empty() {
        return Err(malformed("a condition is field:value or field=value"));
    }
    if rest.starts_with('"') {
        let (value, rest) = quoted(rest)?;
        if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
            return Err(malformed("conditions are separated by spaces"));
        }
        return Ok((Condition { field, operator, value }, rest));
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (value, rest) = rest.split_at(end);
    if value.is_empty() || value.contains('"') {
        return Err(malformed("a value is a word or a text in double quotes"));
    }
    Ok((Condition { field, operator, value: value.to_owned() }, rest))
}

/// Parses a text in double quotes. Returns it with the remaining text.
fn quoted(text: &str) -> Result<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, text.get(at + 1..).unwrap_or_default())),
            '\\' => match chars.next() {
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                _ => return Err(malformed("a backslash must precede a quote or a backslash")),
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

    fn read(text: &str) -> Vec<(String, Operator, String)> {
        let conditions = parse(text).unwrap();
        conditions.into_iter().map(|condition| (condition.field, condition.operator, condition.value)).collect()
    }

    #[test]
    fn conditions_are_parsed_as_documented() {
        let has = |field: &str, value: &str| (field.to_owned(), Operator::Has, value.to_owned());
        let equals = |field: &str, value: &str| (field.to_owned(), Operator::Equals, value.to_owned());
        assert_eq!(read(""), []);
        assert_eq!(read(" name:inv "), [has("name", "inv")]);
        assert_eq!(read("state=READY"), [equals("state", "READY")]);
        assert_eq!(read("state = READY AND name : a"), [equals("state", "READY"), has("name", "a")]);
        assert_eq!(
            read(r#"name:"pur \"ord\\" AND tag:tag_1  metadata.key:v"#),
            [has("name", r#"pur "ord\"#), has("tag", "tag_1"), has("metadata.key", "v")]
        );
        assert_eq!(read(r#"metadata."my key":"a b""#), [has("metadata.my key", "a b")]);
        assert_eq!(read("name:AND"), [has("name", "AND")]);
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in
            ["name", "name:", ":x", "=x", "name:\"x", "AND name:x", "name:\"a\"b", "name<x", "a:b\"c", "name:\"\\n\""]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&"a:b ".repeat(CONDITIONS_MAX + 1)).is_err());
        assert!(parse(&"x".repeat(FILTER_BYTES + 1)).is_err());
        assert!(require_empty("name:a").is_err() && require_empty(" ").is_ok());
    }

    #[test]
    fn a_name_is_found_by_a_part_or_as_a_whole() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(name_conditions("").unwrap(), (None, None));
        assert_eq!(name_conditions(r#"name:inv name="Invoice 1""#).unwrap(), (text("inv"), text("Invoice 1")));
        assert_eq!(name_conditions(r#"name="""#).unwrap(), (None, text("")), "no item has this name");
        for bad in ["name:a name:b", "name=a name=b", "color=a", "name:\"\""] {
            assert!(name_conditions(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_text_is_searched_by_the_operator_has() {
        let [equals] = parse("name=a").unwrap().try_into().unwrap();
        assert!(equals.search().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_without_a_panic(text in "\\PC{0,60}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_value_can_be_quoted(value in "\\PC{0,40}") {
            let conditions = parse(&format!("name:{}", quote(&value))).unwrap();
            let expected = Condition { field: "name".to_owned(), operator: Operator::Has, value };
            prop_assert_eq!(conditions, [expected]);
        }
    }
}
