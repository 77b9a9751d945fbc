//! Paths into JSON: `a.b.0.c`, `a.b[0].c` and `a."b.c"`.
//!
//! A path consists of names and numbers separated by dots; a number may also be written in brackets. A number in
//! brackets is an array index (from 0). A number after a dot is an array index, or a member name if it is applied to an
//! object. A name in quotation marks may be empty and contain any characters; `"` and `\` have a backslash before them.
//! [`member_path`] and [`item_path`] write paths in the canonical notation, of which the parser is the inverse.

use std::fmt;
use std::str::FromStr;

use folio_resources::{item_path, member_path};
use folio_types::{Error, Reason};
use serde_json::Value;

use crate::rules::excerpt;

/// Maximum length of a path, in bytes.
// proto: UpdateExtractionFieldRequest.path "at most {} KiB"
// proto: ReviewExtractionFieldRequest.path "at most {} KiB"
// proto: ListFieldHistoryRequest.path "at most {} KiB"
pub const PATH_BYTES: usize = 1_024;
/// Maximum number of steps of a path.
pub const STEPS_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A part between dots: a member name, or an index if it is applied to an array.
    Name(String),
    /// A number in brackets: an array index.
    Index(usize),
}

/// Handling of a last step that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Reject,
    /// Adds a member to an object, or appends an item to an array.
    Add,
}

impl FromStr for Path {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(malformed(text, "it is empty"));
        }
        if text.len() > PATH_BYTES {
            return Err(malformed(text, &format!("it has more than {PATH_BYTES} bytes")));
        }
        let steps = parse_steps(text).map_err(|problem| malformed(text, problem))?;
        if steps.len() > STEPS_MAX {
            return Err(malformed(text, &format!("it has more than {STEPS_MAX} steps")));
        }
        Ok(Self { steps })
    }
}

/// Parses the steps of a path. The error is the problem of the path.
fn parse_steps(text: &str) -> Result<Vec<Step>, &'static str> {
    let (mut steps, mut rest) = (Vec::new(), text);
    if !text.starts_with('[') {
        let (first, after) = name(text)?;
        steps.push(Step::Name(first));
        rest = after;
    }
    loop {
        if let Some(after) = rest.strip_prefix('.') {
            let (next, after) = name(after)?;
            steps.push(Step::Name(next));
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('[') {
            let (digits, after) = inner.split_once(']').ok_or("a \"[\" has no \"]\"")?;
            steps.push(Step::Index(index(digits).ok_or("brackets must contain a number, such as [0]")?));
            rest = after;
        } else if rest.is_empty() {
            return Ok(steps);
        } else {
            return Err("a dot is missing after \"]\" or a quotation mark");
        }
    }
}

/// Parses the name at the start of a text, and returns the text after it.
fn name(text: &str) -> Result<(String, &str), &'static str> {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted_name(quoted);
    }
    let (name, after) = text.split_at(text.find(['.', '[']).unwrap_or(text.len()));
    if name.is_empty() {
        return Err("a name is missing before or after a dot; write an empty name as \"\"");
    }
    if name.contains(']') {
        return Err("a \"]\" has no \"[\"");
    }
    Ok((name.to_owned(), after))
}

/// Parses a name up to its closing quotation mark, and returns the text after the mark.
fn quoted_name(text: &str) -> Result<(String, &str), &'static str> {
    let (mut name, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return Ok((name, letters.as_str())),
            '\\' => match letters.next() {
                Some(escaped @ ('"' | '\\')) => name.push(escaped),
                _ => return Err("in quotation marks, a backslash must precede \" or \\"),
            },
            letter => name.push(letter),
        }
    }
    Err("a closing quotation mark is missing")
}

/// Parses a number without leading zeros or sign.
fn index(digits: &str) -> Option<usize> {
    let number: usize = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// Returns a test of canonical paths: true for the path and the paths below it. An empty path selects all. The data may no
/// longer contain the path, so a number after a dot also selects an array index.
pub fn selector(path: &str) -> Result<impl Fn(&str) -> bool, Error> {
    let parse = |text: &str| -> Result<Vec<String>, Error> {
        let path: Path = text.parse()?;
        let name = |step: Step| match step {
            Step::Name(name) => name,
            Step::Index(index) => index.to_string(),
        };
        Ok(path.steps.into_iter().map(name).collect())
    };
    let prefix = if path.is_empty() { Vec::new() } else { parse(path)? };
    Ok(move |path: &str| prefix.is_empty() || parse(path).is_ok_and(|steps| steps.starts_with(&prefix)))
}

fn malformed(path: &str, problem: &str) -> Error {
    let problem = format!("{:?} is malformed: {problem}. Write it as a.b.0.c, a.b[0].c or a.\"b.c\".", excerpt(path));
    Error::invalid_field("path", problem).with_reason(Reason::InvalidPath)
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&written(&self.steps))
    }
}

fn written(steps: &[Step]) -> String {
    steps.iter().fold(String::new(), |path, step| match step {
        Step::Name(name) => member_path(&path, name),
        Step::Index(index) => item_path(&path, *index),
    })
}

impl Path {
    /// Returns the value at the path. Fails with `INVALID_PATH` and the first step that does not exist.
    pub fn get<'v>(&self, root: &'v Value) -> Result<&'v Value, Error> {
        self.walk(root, self.steps.len())
    }

    /// Returns the path in its canonical notation, in which every array index is in brackets. Fails with `INVALID_PATH` and
    /// the first step that does not exist.
    pub fn canonical(&self, root: &Value) -> Result<String, Error> {
        let (mut path, mut value) = (String::new(), root);
        for (at, step) in self.steps.iter().enumerate() {
            let (next, longer) = match position(value, step, Missing::Reject) {
                Some(Position::Member(name)) => (value.get(name), member_path(&path, name)),
                Some(Position::Item(index)) => (value.get(index), item_path(&path, index)),
                None => (None, String::new()),
            };
            value = next.ok_or_else(|| self.missing_step(at, value))?;
            path = longer;
        }
        Ok(path)
    }

    /// Sets the value at the path. If this fails with `INVALID_PATH`, the data is unchanged.
    pub fn set(&self, root: &mut Value, new: Value, missing: Missing) -> Result<(), Error> {
        let before = self.steps.len().saturating_sub(1);
        let container = self.walk(root, before)?;
        let missing_step = || self.missing_step(before, container);
        let position =
            self.steps.last().and_then(|last| position(container, last, missing)).ok_or_else(missing_step)?;
        let missing_step = missing_step();
        match (self.walk_mut(root, before), position) {
            (Some(Value::Object(members)), Position::Member(name)) => {
                members.insert(name.to_owned(), new);
            }
            (Some(Value::Array(items)), Position::Item(index)) => match items.get_mut(index) {
                Some(item) => *item = new,
                None => items.push(new),
            },
            _ => return Err(missing_step),
        }
        Ok(())
    }

    /// Removes the value at the path and returns it. The items after a removed item move up by one. If this fails with
    /// `INVALID_PATH`, the data is unchanged.
    pub fn remove(&self, root: &mut Value) -> Result<Value, Error> {
        let before = self.steps.len().saturating_sub(1);
        let container = self.walk(root, before)?;
        let missing_step = self.missing_step(before, container);
        let position = self.steps.last().and_then(|last| position(container, last, Missing::Reject));
        match (self.walk_mut(root, before), position) {
            (Some(Value::Object(members)), Some(Position::Member(name))) => {
                // `shift_remove` keeps the order of the other members.
                members.shift_remove(name).ok_or(missing_step)
            }
            (Some(Value::Array(items)), Some(Position::Item(index))) if index < items.len() => Ok(items.remove(index)),
            _ => Err(missing_step),
        }
    }

    fn walk<'v>(&self, root: &'v Value, steps: usize) -> Result<&'v Value, Error> {
        let mut value = root;
        for (at, step) in self.steps.iter().take(steps).enumerate() {
            let next = match position(value, step, Missing::Reject) {
                Some(Position::Member(name)) => value.get(name),
                Some(Position::Item(index)) => value.get(index),
                None => None,
            };
            value = next.ok_or_else(|| self.missing_step(at, value))?;
        }
        Ok(value)
    }

    fn walk_mut<'v>(&self, root: &'v mut Value, steps: usize) -> Option<&'v mut Value> {
        let mut value = root;
        for step in self.steps.iter().take(steps) {
            value = match position(value, step, Missing::Reject)? {
                Position::Member(name) => value.get_mut(name)?,
                Position::Item(index) => value.get_mut(index)?,
            };
        }
        Some(value)
    }

    /// Returns the error of a step that does not exist in `container`.
    fn missing_step(&self, at: usize, container: &Value) -> Error {
        let before = written(self.steps.get(..at).unwrap_or_default());
        let parent = if before.is_empty() { "the root".to_owned() } else { format!("{:?}", excerpt(&before)) };
        let step = match self.steps.get(at) {
            Some(Step::Name(name)) => format!("{:?}", excerpt(name)),
            Some(Step::Index(index)) => format!("[{index}]"),
            None => "more".to_owned(),
        };
        let has = match container {
            Value::Object(members) => {
                let names: Vec<String> = members.keys().take(20).map(|name| excerpt(name)).collect();
                format!(
                    "is an object with {}",
                    if names.is_empty() { "no fields".to_owned() } else { names.join(", ") }
                )
            }
            Value::Array(items) => format!("is an array of {} items, starting at [0]", items.len()),
            Value::Null => "is null".to_owned(),
            _ => "is a single value".to_owned(),
        };
        let message =
            format!("The path {:?} does not exist: {parent} {has}; it has no {step}.", excerpt(&self.to_string()));
        Error::invalid_field("path", message).with_reason(Reason::InvalidPath)
    }
}

/// Member or item that a step selects in its container.
enum Position<'p> {
    Member(&'p str),
    Item(usize),
}

fn position<'p>(container: &Value, step: &'p Step, missing: Missing) -> Option<Position<'p>> {
    match (container, step) {
        (Value::Object(members), Step::Name(name)) => {
            (missing == Missing::Add || members.contains_key(name)).then_some(Position::Member(name))
        }
        (Value::Array(items), step) => {
            let selected = match step {
                Step::Index(index) => *index,
                Step::Name(name) => index(name)?,
            };
            let end = items.len() + usize::from(missing == Missing::Add);
            (selected < end).then_some(Position::Item(selected))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
