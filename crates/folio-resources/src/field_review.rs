//! Decisions of reviewers about single values of an extraction, and the history of the values.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use folio_types::op::{OpKey, Write};
use folio_types::{Error, Reason, Result, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of values of an extraction with a decision.
// proto: ReviewExtractionFieldRequest.path "At most {} values"
pub const REVIEWS_MAX: usize = 2_000;
/// Maximum number of changes in the history of an extraction. A further change removes the oldest one.
// proto: ListFieldHistoryResponse.changes "the last {} changes"
pub const FIELD_CHANGES_MAX: usize = 500;
/// Maximum size of a value in the history as JSON, in bytes. Of a larger value, the start is stored as a text.
// proto: FieldChange.before_json "more than {} bytes"
// proto: FieldChange.after_json "more than {} bytes"
pub const FIELD_VALUE_BYTES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldDecision {
    /// The value is correct.
    Approved,
    /// The value is wrong, and no correct one was entered.
    Rejected,
}

/// The decision about the current value at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldReview {
    pub decision: FieldDecision,
    /// The user that decided, or that ran the extraction if a review rule decided.
    pub by: UserId,
    /// True if the review rule of the schema made the decision. False: a user made it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_by_rule: bool,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldChangeKind {
    Edited,
    Approved,
    Rejected,
    /// The decision was withdrawn.
    Reset,
}

/// A change of a value, or a decision about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// The path of the value, such as `items[0].price`.
    pub path: String,
    pub kind: FieldChangeKind,
    /// The user, also if an agent changed the value on the user's behalf.
    pub by: UserId,
    /// True if a tool call of an agent changed the value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_by_agent: bool,
    /// True if the review rule of the schema made the decision. False: a user changed the value or decided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_by_rule: bool,
    pub at: Timestamp,
    /// The value before an edit. None: the path had no value, or the change is a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value after an edit, or the value that the decision is about. None: the path has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Decisions about single values.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    /// The paths of the values: leaves of the data, see [`leaves`].
    pub paths: Vec<String>,
    /// None: withdraws the decisions.
    pub decision: Option<FieldDecision>,
    /// True if the review rule of the schema decides.
    pub is_by_rule: bool,
    /// Corrected data. None: the data is unchanged.
    pub data: Option<Value>,
    /// The paths of the values that must be approved.
    pub required: Vec<String>,
    /// The paths of values whose approval by a rule is withdrawn before these decisions, because the text that was read again
    /// lacks them.
    pub withdrawn: Vec<String>,
}

/// The decisions about the values of an extraction, and its last changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FieldLog {
    /// The decisions about current values, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reviews: BTreeMap<String, FieldReview>,
    /// The last changes, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FieldChange>,
    /// The user that requested a review. None: no review is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<UserId>,
}

impl FieldLog {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Records the differences between two versions of the data. An edit withdraws the decision about the old value.
    #[must_use]
    pub fn edited<C>(mut self, write: &Write<C>, before: &Value, after: &Value) -> Self {
        for (path, before, after) in differences(before, after) {
            self.reviews.remove(&path);
            let change = change(write, path, FieldChangeKind::Edited);
            self.changes.push(FieldChange { before: before.map(bounded), after: after.map(bounded), ..change });
        }
        self.limited()
    }

    /// Returns the paths of the values that a review rule approved and that are not in `supported`.
    pub fn unsupported(&self, supported: &BTreeSet<String>) -> Vec<String> {
        let by_rule = |review: &FieldReview| review.is_by_rule && review.decision == FieldDecision::Approved;
        let approved = self.reviews.iter().filter(|(_, review)| by_rule(review)).map(|(path, _)| path);
        approved.filter(|path| !supported.contains(*path)).cloned().collect()
    }

    /// Removes the approvals of a review rule for values that are not in `supported`. Returns true if there were any. The
    /// decisions of persons are kept.
    pub fn withdraw_unsupported(&mut self, supported: &BTreeSet<String>) -> bool {
        let withdrawn = self.unsupported(supported);
        for path in &withdrawn {
            self.reviews.remove(path);
        }
        !withdrawn.is_empty()
    }

    /// Records decisions about values of the current data.
    ///
    /// # Errors
    /// `TOO_LARGE` if more than [`REVIEWS_MAX`] values have a decision then.
    pub fn reviewed<C>(mut self, write: &Write<C>, review: &Review, data: &Value) -> Result<Self> {
        let values: BTreeMap<String, &Value> = leaves(data).into_iter().collect();
        for path in &review.withdrawn {
            // A person may have decided meanwhile.
            if self.reviews.get(path).is_some_and(|review| review.is_by_rule) {
                self.reviews.remove(path);
                let (after, kind) = (values.get(path).copied().map(bounded), FieldChangeKind::Reset);
                self.changes.push(FieldChange { after, is_by_rule: true, ..change(write, path.clone(), kind) });
            }
        }
        for path in &review.paths {
            let kind = match review.decision {
                Some(FieldDecision::Approved) => FieldChangeKind::Approved,
                Some(FieldDecision::Rejected) => FieldChangeKind::Rejected,
                None => FieldChangeKind::Reset,
            };
            let previous = match review.decision {
                Some(decision) => {
                    let review =
                        FieldReview { decision, by: write.by.clone(), is_by_rule: review.is_by_rule, at: write.at };
                    self.reviews.insert(path.clone(), review)
                }
                None => self.reviews.remove(path),
            };
            if previous.map(|previous| previous.decision) != review.decision {
                let after = values.get(path).copied().map(bounded);
                let is_by_rule = review.is_by_rule;
                self.changes.push(FieldChange { after, is_by_rule, ..change(write, path.clone(), kind) });
            }
        }
        if self.reviews.len() > REVIEWS_MAX {
            let message =
                format!("more than {REVIEWS_MAX} values would have a decision; verify the extraction instead");
            return Err(Error::invalid(Reason::TooLarge, message));
        }
        Ok(self.limited())
    }

    /// Returns the number of values that have this decision.
    pub fn decided(&self, decision: FieldDecision) -> usize {
        self.reviews.values().filter(|review| review.decision == decision).count()
    }

    fn limited(mut self) -> Self {
        let surplus = self.changes.len().saturating_sub(FIELD_CHANGES_MAX);
        self.changes.drain(..surplus);
        self
    }

    /// Returns true if the values at all paths are approved, and no value is rejected.
    pub fn is_approved(&self, required: &[String]) -> bool {
        let decision = |path| self.reviews.get(path).map(|review| review.decision);
        let is_rejected = self.reviews.values().any(|review| review.decision == FieldDecision::Rejected);
        !self.reviews.is_empty()
            && !is_rejected
            && required.iter().all(|path| decision(path) == Some(FieldDecision::Approved))
    }
}

fn change<C>(write: &Write<C>, path: String, kind: FieldChangeKind) -> FieldChange {
    let (by, is_by_agent) = (write.by.clone(), matches!(write.op, OpKey::Call(_)));
    FieldChange { path, kind, by, is_by_agent, is_by_rule: false, at: write.at, before: None, after: None }
}

fn bounded(value: &Value) -> Value {
    crate::extraction_report::bounded(value.clone(), FIELD_VALUE_BYTES)
}

/// Returns the canonical path of a member of the object at a path. A name that is empty or contains `.`, `[`, `]` or `"` is
/// written in quotation marks, with a backslash before `"` and `\`, so that different values have different paths.
pub fn member_path(path: &str, name: &str) -> String {
    let is_plain = !name.is_empty() && !name.contains(['.', '[', ']', '"']);
    let name = match is_plain {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))),
    };
    if path.is_empty() { name.into_owned() } else { format!("{path}.{name}") }
}

/// Returns the path of an item of the array at a path.
pub fn item_path(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// Returns the values that contain no other values, with their paths, in the order of the data: texts, numbers, truth
/// values, nulls, and empty arrays and objects. The path of data that is such a value is empty.
pub fn leaves(data: &Value) -> Vec<(String, &Value)> {
    leaves_at("", data)
}

/// Returns the leaves of the value at a canonical path, with their paths in the whole data.
pub fn leaves_at<'a>(path: &str, value: &'a Value) -> Vec<(String, &'a Value)> {
    let mut found = Vec::new();
    add_leaves(path.to_owned(), value, &mut found);
    found
}

fn add_leaves<'a>(path: String, value: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                add_leaves(member_path(&path, name), member, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                add_leaves(item_path(&path, index), item, found);
            }
        }
        leaf => found.push((path, leaf)),
    }
}

/// Returns the leaves that differ, by their paths, with their values before and after.
fn differences<'a>(before: &'a Value, after: &'a Value) -> Vec<(String, Option<&'a Value>, Option<&'a Value>)> {
    let mut all: BTreeMap<String, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
    for (path, value) in leaves(before) {
        all.entry(path).or_default().0 = Some(value);
    }
    for (path, value) in leaves(after) {
        all.entry(path).or_default().1 = Some(value);
    }
    let differ = all.into_iter().filter(|(_, (before, after))| before != after);
    differ.map(|(path, (before, after))| (path, before, after)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_types::op::Expected;
    use serde_json::json;

    use super::*;
    use crate::golden::{at, org};

    fn write(seconds: u64) -> Write<()> {
        Write::by_platform(org(), "change".parse().unwrap(), at() + Duration::from_secs(seconds), Expected::Absent, ())
    }

    fn review(paths: &[&str], decision: Option<FieldDecision>) -> Review {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        Review { paths, decision, is_by_rule: false, data: None, required: Vec::new(), withdrawn: Vec::new() }
    }

    #[test]
    fn leaves_are_the_values_that_contain_no_others() {
        let data = json!({"a": {"b": [1, {"c": "x"}], "d": []}, "e": null, "f": {}});
        let paths: Vec<String> = leaves(&data).into_iter().map(|(path, _)| path).collect();
        let mut expected = ["a.b[0]", "a.b[1].c", "a.d", "e", "f"].map(str::to_owned).to_vec();
        let mut found = paths;
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(leaves(&json!(5)), [(String::new(), &json!(5))]);
    }

    #[test]
    fn names_with_the_characters_of_paths_are_quoted() {
        for (path, name, expected) in [
            ("", "a", "a"),
            ("a", "net amount", "a.net amount"),
            ("a", r"c:\d", r"a.c:\d"),
            ("", "", r#""""#),
            ("a", "", r#"a."""#),
            ("", "a.b", r#""a.b""#),
            ("a[0]", "[1]", r#"a[0]."[1]""#),
            ("a", r#"5" \ 6"#, r#"a."5\" \\ 6""#),
        ] {
            assert_eq!(member_path(path, name), expected);
        }
        let data = json!({"a.b": 1, "a": {"b": 2, "": 3}});
        let mut paths: Vec<String> = leaves(&data).into_iter().map(|(path, _)| path).collect();
        paths.sort();
        assert_eq!(paths, [r#""a.b""#, r#"a."""#, "a.b"]);
        assert_eq!(leaves_at("x", &data["a"]).len(), 2);
    }

    #[test]
    fn an_edit_withdraws_the_decisions_about_the_changed_values_only() {
        let (before, after) = (json!({"a": 1, "b": 2, "c": [3, 4]}), json!({"a": 1, "b": 5, "c": [3]}));
        let approved = review(&["a", "b", "c[0]", "c[1]"], Some(FieldDecision::Approved));
        let log = FieldLog::default().reviewed(&write(0), &approved, &before).unwrap();
        assert_eq!((log.reviews.len(), log.changes.len()), (4, 4));
        let log = log.edited(&write(1), &before, &after);
        assert_eq!(log.reviews.keys().collect::<Vec<_>>(), ["a", "c[0]"]);
        let edits: Vec<_> = log.changes[4..]
            .iter()
            .map(|change| (change.path.as_str(), change.kind, change.before.clone(), change.after.clone()))
            .collect();
        let edited = FieldChangeKind::Edited;
        assert_eq!(edits, [("b", edited, Some(json!(2)), Some(json!(5))), ("c[1]", edited, Some(json!(4)), None)]);
        assert!(log.clone().edited(&write(2), &after, &after) == log, "nothing changed");
    }

    #[test]
    fn a_repeated_decision_updates_the_reviewer_and_adds_no_change() {
        let data = json!({"a": "x".repeat(1_000)});
        let approve = review(&["a"], Some(FieldDecision::Approved));
        let log = FieldLog::default().reviewed(&write(0), &approve, &data).unwrap();
        let again = log.clone().reviewed(&write(5), &approve, &data).unwrap();
        assert_eq!((again.changes.len(), again.reviews["a"].at), (1, at() + Duration::from_secs(5)));
        let approved = |log: &FieldLog, paths: &[&str]| {
            log.is_approved(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
        };
        assert!(approved(&again, &["a"]) && approved(&again, &[]) && !approved(&again, &["a", "b"]));
        assert!(log.changes[0].after.as_ref().unwrap().as_str().unwrap().len() <= FIELD_VALUE_BYTES + "…".len());
        let rejected = again.reviewed(&write(6), &review(&["a"], Some(FieldDecision::Rejected)), &data).unwrap();
        assert!(!approved(&rejected, &["a"]) && !approved(&rejected, &[]));
        let reset = rejected.reviewed(&write(7), &review(&["a", "b"], None), &data).unwrap();
        let kinds: Vec<FieldChangeKind> = reset.changes.iter().map(|change| change.kind).collect();
        assert_eq!(kinds, [FieldChangeKind::Approved, FieldChangeKind::Rejected, FieldChangeKind::Reset]);
        assert!(reset.reviews.is_empty() && !approved(&reset, &[]));
    }

    #[test]
    fn approvals_of_a_rule_are_withdrawn_before_a_decision_and_those_of_a_person_are_kept() {
        let data = json!({"a": 1, "b": 2, "c": 3});
        let approve = |paths: &[&str]| review(paths, Some(FieldDecision::Approved));
        let by_rule = Review { is_by_rule: true, ..approve(&["a", "b"]) };
        let log = FieldLog::default().reviewed(&write(0), &by_rule, &data).unwrap();
        let log = log.reviewed(&write(1), &approve(&["b"]), &data).unwrap();
        assert_eq!(log.unsupported(&BTreeSet::new()), ["a"]);
        assert_eq!(log.unsupported(&BTreeSet::from(["a".to_owned()])), Vec::<String>::new());
        let mut checked = log.clone();
        assert!(!checked.withdraw_unsupported(&BTreeSet::from(["a".to_owned()])) && checked == log);
        assert!(checked.withdraw_unsupported(&BTreeSet::new()));
        assert_eq!(checked.reviews.keys().collect::<Vec<_>>(), ["b"]);
        let withdrawn = ["a", "b", "c"].map(str::to_owned).to_vec();
        let log = log.reviewed(&write(2), &Review { withdrawn, ..approve(&["c"]) }, &data).unwrap();
        assert_eq!(log.reviews.keys().collect::<Vec<_>>(), ["b", "c"]);
        let last: Vec<_> = log.changes[2..]
            .iter()
            .map(|change| (change.path.as_str(), change.kind, change.is_by_rule, change.after.clone()))
            .collect();
        let reset = ("a", FieldChangeKind::Reset, true, Some(json!(1)));
        assert_eq!(last, [reset, ("c", FieldChangeKind::Approved, false, Some(json!(3)))]);
        assert!(!log.is_approved(&["a".to_owned(), "c".to_owned()]));
    }

    #[test]
    fn decisions_and_changes_are_bounded() {
        let data = Value::from((0..=REVIEWS_MAX).collect::<Vec<_>>());
        let paths: Vec<String> = leaves(&data).into_iter().map(|(path, _)| path).collect();
        let mut all = Review { paths, ..review(&[], Some(FieldDecision::Approved)) };
        let refused = FieldLog::default().reviewed(&write(0), &all, &data).unwrap_err();
        assert_eq!(refused.reason, Reason::TooLarge);
        all.paths.pop();
        let log = FieldLog::default().reviewed(&write(0), &all, &data).unwrap();
        assert_eq!((log.reviews.len(), log.changes.len()), (REVIEWS_MAX, FIELD_CHANGES_MAX));
        assert_eq!(log.changes.last().unwrap().path, format!("[{}]", REVIEWS_MAX - 1));
    }
}
