//! The nested fields that an agent writes, with the evidence for each value: merge, update and remove. Pure.
//!
//! `confidences` and `citations` of a call mirror the shape of its `fields`: the same members and items, with a number or a
//! citation at the path of each value. Stored evidence is a list by path, in the order of the data.

use std::collections::BTreeMap;

use folio_resources::{
    AgentData, CITATIONS_MAX, Citation, Extraction, FieldConfidence, QUOTE_CHARS, item_path, leaves, member_path,
};
use folio_types::{Error, Timestamp};
use serde_json::{Map, Value};

use super::super::model_evidence::QUOTE_CHARS_MIN;
use crate::path::{Missing, PATH_BYTES, Path};

/// Maximum number of problems that an error lists.
const PROBLEMS_MAX: usize = 20;

/// A quote that the model stated for a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageQuote {
    /// Number of the page, from 1.
    pub(crate) page: u32,
    /// Words of the page, as the model copied them: 3 to 500 characters.
    pub(crate) quote: String,
}

/// The data of an extraction, with the evidence for its values by their canonical paths.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fields {
    pub(super) data: Value,
    confidences: BTreeMap<String, f64>,
    citations: BTreeMap<String, Citation>,
}

impl Fields {
    /// Returns the current data. A value that a person edited has no evidence.
    pub(super) fn of(extraction: &Extraction) -> Self {
        let (unchanged, report) = (extraction.unchanged_paths(), &extraction.report);
        let confidences = report.confidences.iter().filter(|found| unchanged.contains(&found.path));
        let citations = report.citations.iter().filter(|found| unchanged.contains(&found.path));
        Self {
            data: extraction.current().clone(),
            confidences: confidences.map(|found| (found.path.clone(), found.confidence)).collect(),
            citations: citations.map(|found| (found.path.clone(), found.clone())).collect(),
        }
    }

    /// Merges fields into the data: the members of objects are merged, and every other value is replaced. The evidence for
    /// replaced values is removed.
    pub(super) fn merge(&mut self, fields: &Value) {
        let mut replaced = Vec::new();
        merge("", &mut self.data, fields, &mut replaced);
        replaced.iter().for_each(|path| self.forget(path));
    }

    /// Sets the value at a path, whose last step may be new: a member of an object, or an item at the end of an array. The
    /// evidence for replaced values is removed.
    ///
    /// # Errors
    /// `INVALID_PATH`.
    pub(super) fn update(&mut self, path: &Path, value: Value) -> Result<(), Error> {
        path.set(&mut self.data, value, Missing::Add)?;
        let canonical = path.canonical(&self.data)?;
        self.forget(&canonical);
        Ok(())
    }

    /// Removes the value at a path with its evidence. The later items of an array move up with their evidence.
    ///
    /// # Errors
    /// `INVALID_PATH`.
    pub(super) fn remove(&mut self, path: &Path) -> Result<(), Error> {
        let canonical = path.canonical(&self.data)?;
        path.remove(&mut self.data)?;
        self.forget(&canonical);
        let item = canonical.strip_suffix(']').and_then(|start| start.rsplit_once('['));
        if let Some((array, index)) = item.and_then(|(array, digits)| Some((array, digits.parse::<usize>().ok()?))) {
            let moved = |path: String| moved_up(&path, array, index).unwrap_or(path);
            let confidences = std::mem::take(&mut self.confidences).into_iter();
            self.confidences = confidences.map(|(path, confidence)| (moved(path), confidence)).collect();
            let citations = std::mem::take(&mut self.citations).into_iter();
            self.citations = citations.map(|(path, citation)| (moved(path), citation)).collect();
        }
        Ok(())
    }

    pub(super) fn add_confidences(&mut self, confidences: impl IntoIterator<Item = (String, f64)>) {
        self.confidences.extend(confidences);
    }

    pub(super) fn has_citations(&self) -> bool {
        !self.citations.is_empty()
    }

    pub(super) fn add_citations(&mut self, citations: impl IntoIterator<Item = Citation>) {
        self.citations.extend(citations.into_iter().map(|citation| (citation.path.clone(), citation)));
    }

    /// Returns the data to store. Evidence whose value no longer exists is omitted.
    pub(super) fn into_data(mut self, text_generation: Option<Timestamp>) -> AgentData {
        let (mut citations, mut confidences) = (Vec::new(), Vec::new());
        for (path, _) in leaves(&self.data) {
            if let Some(confidence) = self.confidences.remove(&path) {
                confidences.push(FieldConfidence { path: path.clone(), confidence });
            }
            if let Some(citation) = self.citations.remove(&path) {
                citations.push(Citation { path, ..citation });
            }
        }
        AgentData { data: self.data, citations, confidences, text_generation }
    }

    /// Returns the confidences in the shape of the data. A value without confidence has null.
    pub(super) fn confidence_mirror(&self) -> Value {
        mirror_of("", &self.data, &|path| self.confidences.get(path).map_or(Value::Null, |found| Value::from(*found)))
    }

    /// Returns the citations in the shape of the data, as a call states them. A value without citation has null.
    pub(super) fn citation_mirror(&self) -> Value {
        let stated = |found: &Citation| serde_json::json!({ "page": found.page, "quote": found.quote });
        mirror_of("", &self.data, &|path| self.citations.get(path).map_or(Value::Null, stated))
    }

    /// Removes the evidence for the values at and below a path.
    fn forget(&mut self, path: &str) {
        self.confidences.retain(|found, _| !is_at_or_below(found, path));
        self.citations.retain(|found, _| !is_at_or_below(found, path));
    }
}

/// Merges `new` into the value at a path, and adds the paths of replaced and added values.
fn merge(path: &str, old: &mut Value, new: &Value, replaced: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(members), Value::Object(added)) => {
            for (name, value) in added {
                let path = member_path(path, name);
                match members.get_mut(name) {
                    Some(member) => merge(&path, member, value, replaced),
                    None => {
                        members.insert(name.clone(), value.clone());
                        replaced.push(path);
                    }
                }
            }
        }
        (old, new) => {
            *old = new.clone();
            replaced.push(path.to_owned());
        }
    }
}

fn is_at_or_below(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the path after the item `index` of an array was removed. None: the path does not change.
fn moved_up(path: &str, array: &str, index: usize) -> Option<String> {
    let (digits, rest) = path.strip_prefix(array)?.strip_prefix('[')?.split_once(']')?;
    let item: usize = digits.parse().ok()?;
    let before = item.checked_sub(1).filter(|_| item > index)?;
    Some(format!("{}{rest}", item_path(array, before)))
}

fn mirror_of(path: &str, value: &Value, leaf: &dyn Fn(&str) -> Value) -> Value {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let mirrored =
                |(name, member): (&String, &Value)| (name.clone(), mirror_of(&member_path(path, name), member, leaf));
            Value::Object(members.iter().map(mirrored).collect())
        }
        Value::Array(items) if !items.is_empty() => {
            let mirrored = |(index, item): (usize, &Value)| mirror_of(&item_path(path, index), item, leaf);
            items.iter().enumerate().map(mirrored).collect()
        }
        _ => leaf(path),
    }
}

/// Checks that the names in a value of a call are so short that a path can name each value. The paths of many values below a long
/// name would need much more memory than the call.
///
/// # Errors
/// The problem. `name`: the argument.
pub(super) fn check_names(name: &str, value: &Value) -> Result<(), String> {
    if are_short(value, PATH_BYTES) {
        return Ok(());
    }
    Err(format!("{name} contains a value whose path has more than {PATH_BYTES} bytes; use shorter names"))
}

/// Returns true if the names on the way to each value have at most `max` bytes, with one byte between two of them.
fn are_short(value: &Value, max: usize) -> bool {
    let is_short = |bytes: usize, below: &Value| {
        let rest = max.checked_sub(bytes.saturating_add(1));
        rest.is_some_and(|rest| are_short(below, rest))
    };
    match value {
        Value::Object(members) => members.iter().all(|(name, member)| is_short(name.len(), member)),
        Value::Array(items) => items.iter().all(|item| is_short(0, item)),
        _ => true,
    }
}

/// Returns the confidences of a call by the paths of their values.
///
/// # Errors
/// The problems, at most [`PROBLEMS_MAX`]: another shape than that of the fields, a missing confidence, or one that is not from 0
/// to 1. A null and an empty array or object need no confidence.
pub(super) fn confidences(fields: &Value, mirror: &Value) -> Result<BTreeMap<String, f64>, Vec<String>> {
    let mut walk = MirrorWalk::new("confidences", fields, Some(mirror));
    let mut found = BTreeMap::new();
    for (path, value, mirrored) in std::mem::take(&mut walk.leaves) {
        match mirrored.map(confidence) {
            Some(Ok(confidence)) => {
                found.insert(path, confidence);
            }
            _ if is_empty(value) => {}
            Some(Err(problem)) => walk.problems.push(format!("confidences.{path}: {problem}")),
            None => walk.problems.push(format!("confidences.{path} is missing")),
        }
    }
    walk.result(found)
}

/// Returns the quotes of a call by the paths of their values. A value needs no quote.
///
/// # Errors
/// The problems, at most [`PROBLEMS_MAX`]: another shape than that of the fields, too many quotes, or a citation without a page or
/// with a quote out of its bounds.
pub(super) fn quotes(fields: &Value, mirror: Option<&Value>) -> Result<BTreeMap<String, PageQuote>, Vec<String>> {
    let mut walk = MirrorWalk::new("citations", fields, mirror);
    let mut found = BTreeMap::new();
    for (path, _, mirrored) in std::mem::take(&mut walk.leaves) {
        match mirrored.map(quote) {
            Some(Ok(quote)) => {
                found.insert(path, quote);
            }
            Some(Err(problem)) => walk.problems.push(format!("citations.{path}: {problem}")),
            None => {}
        }
    }
    if found.len() > CITATIONS_MAX {
        walk.problems.push(format!("citations has {} quotes; the maximum is {CITATIONS_MAX}", found.len()));
    }
    walk.result(found)
}

/// Parses a confidence of the model.
pub(crate) fn confidence(value: &Value) -> Result<f64, String> {
    let confidence = value.as_f64().filter(|confidence| (0.0..=1.0).contains(confidence));
    confidence.ok_or_else(|| format!("Confidence must be 0.0-1.0, got {}", crate::rules::excerpt(&value.to_string())))
}

/// Parses a citation of the model.
pub(crate) fn quote(citation: &Value) -> Result<PageQuote, String> {
    let page = citation.get("page").and_then(Value::as_f64).filter(|page| page.fract() == 0.0);
    // The bounds are within u32, so `as` is exact.
    let page = page.filter(|page| (1.0..=1_000_000.0).contains(page)).map(|page| page as u32);
    let quote = citation.get("quote").and_then(Value::as_str).map(str::trim);
    let length = QUOTE_CHARS_MIN..=QUOTE_CHARS;
    match (page, quote) {
        (Some(page), Some(quote)) if length.contains(&quote.chars().count()) => {
            Ok(PageQuote { page, quote: quote.to_owned() })
        }
        (Some(_), Some(quote)) => {
            let (count, min, max) = (quote.chars().count(), QUOTE_CHARS_MIN, QUOTE_CHARS);
            Err(format!("the quote has {count} characters: expected {min} to {max}"))
        }
        _ => Err("expected an object with page (a number from 1) and quote (words of that page)".to_owned()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Walks the fields of a call together with a value that mirrors their shape.
struct MirrorWalk<'a> {
    /// Name of the argument, for problems.
    name: &'static str,
    /// The leaves of the fields with the mirrored value at the same path. None: the mirror has none, or null.
    leaves: Vec<(String, &'a Value, Option<&'a Value>)>,
    problems: Vec<String>,
}

impl<'a> MirrorWalk<'a> {
    fn new(name: &'static str, fields: &'a Value, mirror: Option<&'a Value>) -> Self {
        let mut walk = Self { name, leaves: Vec::new(), problems: Vec::new() };
        walk.add(String::new(), fields, mirror);
        walk
    }

    fn add(&mut self, path: String, value: &'a Value, mirrored: Option<&'a Value>) {
        let mirrored = mirrored.filter(|mirrored| !mirrored.is_null());
        match (value, mirrored) {
            (Value::Object(members), None) if !members.is_empty() => {
                members.iter().for_each(|(name, member)| self.add(member_path(&path, name), member, None));
            }
            (Value::Object(members), Some(Value::Object(same))) if !members.is_empty() => {
                self.add_members(&path, members, same)
            }
            (Value::Array(items), None) if !items.is_empty() => {
                items.iter().enumerate().for_each(|(index, item)| self.add(item_path(&path, index), item, None));
            }
            (Value::Array(items), Some(Value::Array(same))) if !items.is_empty() => {
                if same.len() > items.len() {
                    self.add_problem(&path, &format!("has {} items, but fields has {}", same.len(), items.len()));
                }
                for (index, item) in items.iter().enumerate() {
                    self.add(item_path(&path, index), item, same.get(index));
                }
            }
            (Value::Object(members), Some(_)) if !members.is_empty() => {
                self.add_problem(&path, "must be an object with the members of fields");
            }
            (Value::Array(items), Some(_)) if !items.is_empty() => {
                self.add_problem(&path, "must be an array with the items of fields");
            }
            (leaf, mirrored) => self.leaves.push((path, leaf, mirrored)),
        }
    }

    fn add_members(&mut self, path: &str, members: &'a Map<String, Value>, same: &'a Map<String, Value>) {
        for name in same.keys().filter(|name| !members.contains_key(*name)) {
            self.add_problem(&member_path(path, name), "has no value in fields");
        }
        for (name, member) in members {
            self.add(member_path(path, name), member, same.get(name));
        }
    }

    fn add_problem(&mut self, path: &str, problem: &str) {
        let path = if path.is_empty() { self.name.to_owned() } else { format!("{}.{path}", self.name) };
        self.problems.push(format!("{path} {problem}"));
    }

    fn result<T>(self, found: T) -> Result<T, Vec<String>> {
        match self.problems.len() {
            0 => Ok(found),
            _ => Err(self.problems.into_iter().take(PROBLEMS_MAX).collect()),
        }
    }
}

#[cfg(test)]
mod tests;
