//! Merges the data of the windows of a document. Pure.
//!
//! | data | merged |
//! |---|---|
//! | objects | member by member |
//! | arrays | concatenated; an item that an earlier window contains is dropped |
//! | equal values | the value, as the first window wrote it |
//! | different values | one of the values, by the rule that follows |
//!
//! Of different values, the merge chooses a value of an attached invoice, otherwise a value that the text of its window contains,
//! otherwise the value of most windows, otherwise the value with the highest confidence, otherwise the value of the first window. The
//! other values become conflicts.
//!
//! Null and blank texts do not count as values. Two texts are equal if their words are equal. Two numbers are equal if their
//! values are equal. An array keeps equal items if one window contains all of them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::ops::Bound;

use folio_resources::{Conflict, OriginalText, item_path, member_path};
use folio_types::notation::fold;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::model_evidence::Evidence;

/// Data of one window, with the facts about them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct WindowAnswer {
    pub(super) data: Value,
    /// Pages by the paths of the values that their text contains. Values in arrays have no page.
    pub(super) pages: BTreeMap<String, u32>,
    /// Paths of the values that the page of an attached structured invoice contains.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) structured: BTreeSet<String>,
    /// Texts by the paths of the values that were normalized.
    pub(super) originals: BTreeMap<String, String>,
    /// Quotes and confidences of the model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) evidence: Evidence,
    /// Number of model calls for the window.
    pub(super) model_calls: u32,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Merged {
    pub(super) data: Value,
    pub(super) conflicts: Vec<Conflict>,
    pub(super) originals: Vec<OriginalText>,
    /// The evidence of the windows whose values were chosen.
    pub(super) evidence: Evidence,
}

/// Merges the answers, in the order of the windows.
pub(super) fn merge(answers: &[WindowAnswer]) -> Merged {
    let mut merge = Merge { answers, conflicts: Vec::new(), originals: Vec::new(), evidence: Evidence::new() };
    let data = match answers {
        [only] => {
            merge.keep_facts(0, "", "");
            only.data.clone()
        }
        _ => merge.values("", answers.iter().map(|answer| &answer.data).enumerate().collect()),
    };
    Merged { data, conflicts: merge.conflicts, originals: merge.originals, evidence: merge.evidence }
}

/// A value of a window, with the index of the window.
type Candidate<'a> = (usize, &'a Value);

struct Merge<'a> {
    answers: &'a [WindowAnswer],
    conflicts: Vec<Conflict>,
    originals: Vec<OriginalText>,
    evidence: Evidence,
}

impl<'a> Merge<'a> {
    fn values(&mut self, path: &str, candidates: Vec<Candidate<'a>>) -> Value {
        let present: Vec<Candidate<'a>> = candidates.iter().copied().filter(|(_, value)| has_value(value)).collect();
        let objects: Vec<_> = present.iter().filter_map(|(at, value)| Some((*at, value.as_object()?))).collect();
        let arrays: Vec<_> = present.iter().filter_map(|(at, value)| Some((*at, value.as_array()?))).collect();
        if present.is_empty() {
            candidates.first().map(|(_, value)| (*value).clone()).unwrap_or_default()
        } else if objects.len() == present.len() {
            self.objects(path, &objects)
        } else if arrays.len() == present.len() {
            self.arrays(path, &arrays)
        } else {
            self.scalars(path, &present)
        }
    }

    /// Merges members in the order in which the windows name them first.
    fn objects(&mut self, path: &str, objects: &[(usize, &'a Map<String, Value>)]) -> Value {
        let mut merged = Map::new();
        for (_, object) in objects {
            for name in object.keys() {
                if !merged.contains_key(name) {
                    let of_member = |(at, object): &(usize, &'a Map<String, Value>)| Some((*at, object.get(name)?));
                    let candidates = objects.iter().filter_map(of_member).collect();
                    merged.insert(name.clone(), self.values(&member_path(path, name), candidates));
                }
            }
        }
        Value::Object(merged)
    }

    fn arrays(&mut self, path: &str, arrays: &[(usize, &'a Vec<Value>)]) -> Value {
        let mut merged: Vec<Value> = Vec::new();
        // Numbers of equal items, by key.
        let mut counts: HashMap<String, u32> = HashMap::new();
        for (at, items) in arrays {
            let mut earlier = counts.clone();
            for (index, item) in items.iter().enumerate() {
                let key = key(item);
                match earlier.get_mut(&key).filter(|count| **count > 0) {
                    Some(count) => *count -= 1,
                    None => {
                        self.keep_facts(*at, &item_path(path, index), &item_path(path, merged.len()));
                        merged.push(item.clone());
                        *counts.entry(key).or_default() += 1;
                    }
                }
            }
        }
        Value::Array(merged)
    }

    fn scalars(&mut self, path: &str, present: &[Candidate<'a>]) -> Value {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for (at, value) in present {
            let answer = self.answers.get(*at);
            let page = answer.and_then(|answer| answer.pages.get(path)).copied();
            let is_structured = answer.is_some_and(|answer| answer.structured.contains(path));
            let confidence = answer.and_then(|answer| answer.evidence.get(path)?.confidence).unwrap_or_default();
            let key = key(value);
            match groups.iter_mut().find(|group| group.key == key) {
                Some(group) => {
                    group.windows += 1;
                    group.page = group.page.or(page);
                    group.is_structured |= is_structured;
                    group.confidence = group.confidence.max(confidence);
                }
                None => groups.push(Group { first: *at, value, key, windows: 1, page, is_structured, confidence }),
            }
        }
        let best = groups.iter().max_by(|one, other| one.compare(other));
        let Some(chosen) = best.map(|group| group.first) else { return Value::Null };
        let mut merged = Value::Null;
        for group in groups {
            if group.first == chosen {
                self.keep_facts(chosen, path, path);
                merged = group.value.clone();
            } else {
                let Group { value, page, .. } = group;
                self.conflicts.push(Conflict { path: path.to_owned(), value: value.clone(), page });
            }
        }
        merged
    }

    /// Keeps the original texts and the evidence that a window has for the values at and below the path `from`. The paths of the
    /// facts are changed from `from` to `to`.
    fn keep_facts(&mut self, window: usize, from: &str, to: &str) {
        let Some(answer) = self.answers.get(window) else { return };
        let original = |(path, text): (String, &String)| OriginalText { path, text: text.clone() };
        self.originals.extend(moved(&answer.originals, from, to).map(original));
        self.evidence.extend(moved(&answer.evidence, from, to).map(|(path, fact)| (path, fact.clone())));
    }
}

/// Returns the facts at and below the path `from`, with their paths at and below `to`.
fn moved<'m, T>(facts: &'m BTreeMap<String, T>, from: &str, to: &str) -> impl Iterator<Item = (String, &'m T)> {
    let below = facts.range::<str, _>((Bound::Included(from), Bound::Unbounded));
    let rests = below.map_while(move |(path, fact)| Some((path.strip_prefix(from)?, fact)));
    let inside = rests.filter(move |(rest, _)| from.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']));
    inside.map(move |(rest, fact)| (format!("{to}{rest}"), fact))
}

/// Windows with the same value.
struct Group<'a> {
    /// Index of the first window.
    first: usize,
    /// Value as the first window wrote it.
    value: &'a Value,
    key: String,
    windows: usize,
    /// Page whose text contains the value.
    page: Option<u32>,
    /// True if an attached structured invoice contains the value.
    is_structured: bool,
    /// The highest confidence of a window, from 0 to 1. 0: no window states one.
    confidence: f64,
}

impl Group<'_> {
    /// Orders the groups from the worst to the best value. No two groups are equal.
    fn compare(&self, other: &Self) -> Ordering {
        let facts = |group: &Self| (group.is_structured, group.page.is_some(), group.windows);
        let by_facts = facts(self).cmp(&facts(other));
        by_facts.then(self.confidence.total_cmp(&other.confidence)).then(other.first.cmp(&self.first))
    }
}

/// Returns false for null, blank texts, empty arrays, and objects without a value.
fn has_value(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => members.values().any(has_value),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Returns a text that is equal for values of the same meaning.
fn key(value: &Value) -> String {
    let mut key = String::new();
    write_key(value, &mut key);
    key
}

fn write_key(value: &Value, key: &mut String) {
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => _ = write!(key, "{float}"),
            None => _ = write!(key, "{number}"),
        },
        Value::String(text) => {
            let folded = fold(text);
            _ = write!(key, "{:?}", if folded.is_empty() { text } else { &folded });
        }
        Value::Array(items) => {
            key.push('[');
            for item in items {
                write_key(item, key);
                key.push(',');
            }
            key.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| name.as_str());
            key.push('{');
            for (name, member) in members {
                _ = write!(key, "{name:?}:");
                write_key(member, key);
                key.push(',');
            }
            key.push('}');
        }
        Value::Null | Value::Bool(_) => _ = write!(key, "{value}"),
    }
}

#[cfg(test)]
mod tests;
