//! Collections: documents with all tags and metadata values of a rule.

use std::collections::{BTreeMap, BTreeSet};

use folio_types::op::Write;
use folio_types::{Error, OrgId, Result, TagId, Timestamp, UserId, plain_id};
use serde::{Deserialize, Serialize};

use crate::resource::{changed_function, common_functions};
use crate::{Condition, Document, DocumentFilter, Plan, Resource, fields};

/// Maximum number of collections of an organization. Concurrent creations may exceed it slightly.
// proto: CollectionService.CreateCollection "at most {} collections"
pub const COLLECTIONS_MAX: u64 = 1_000;
/// Maximum number of tags and metadata values of a rule together.
// proto: Collection.tag_ids "1 to {} tags"
const RULE_CONDITIONS_MAX: usize = 20;

plain_id!(
    /// A collection of documents.
    CollectionId, "col", "collection"
);

/// The rule that decides about the members of a collection. All conditions must be true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionRule {
    /// Members have all of these tags.
    pub tags: Vec<TagId>,
    /// Members have exactly these values.
    pub metadata: BTreeMap<String, String>,
}

impl CollectionRule {
    /// Validates a rule, and returns it without duplicate tags. `prefix` precedes the field names in errors.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the rule has no condition or too many, or a condition is malformed. `TOO_LARGE` if a value is.
    pub fn checked(self, prefix: &str) -> Result<Self> {
        let field = format!("{prefix}tag_ids");
        let tags = fields::check_tags(&field, &self.tags)?;
        fields::check_metadata(&format!("{prefix}metadata"), &self.metadata)?;
        let conditions = tags.len().saturating_add(self.metadata.len());
        if !(1..=RULE_CONDITIONS_MAX).contains(&conditions) {
            let problem = format!(
                "the rule has {conditions} tags and metadata values; expected 1 to {RULE_CONDITIONS_MAX} of both together"
            );
            return Err(Error::invalid_field(field, problem));
        }
        Ok(Self { tags, ..self })
    }

    /// Returns the filter of the list of the members.
    pub fn filter(&self) -> DocumentFilter {
        let (all_tags, metadata_equals) = (self.tags.clone(), self.metadata.clone());
        DocumentFilter { all_tags, metadata_equals, ..DocumentFilter::default() }
    }

    /// Returns true if a document is a member.
    pub fn is_member(&self, document: &Document) -> bool {
        let has_value = |(key, value): (&String, &String)| document.metadata.get(key) == Some(value);
        self.tags.iter().all(|tag| document.tags.contains(tag)) && self.metadata.iter().all(has_value)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    pub id: CollectionId,
    pub org: OrgId,
    /// Unique in the organization, case-insensitive.
    pub name: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub rule: CollectionRule,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// From 1. Incremented by every change. A write states the version that it expects.
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectionChange {
    /// The name must be unique among the live collections of the organization. The tags must exist.
    Create {
        name: String,
        description: Option<String>,
        rule: CollectionRule,
    },
    /// None: unchanged. Inner None: removes the description. The rule must keep a condition.
    Update {
        name: Option<String>,
        description: Option<Option<String>>,
        tags: Option<Vec<TagId>>,
        metadata: Option<BTreeMap<String, String>>,
    },
    Delete,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectionFilter {
    /// Substring of the name, case-insensitive.
    pub name_search: Option<String>,
    /// The whole name, in this spelling.
    pub name: Option<String>,
}

impl Collection {
    changed_function!();
}

impl Resource for Collection {
    type Change = CollectionChange;
    type Filter = CollectionFilter;
    const KIND: &'static str = "collection";
    const DELETE: CollectionChange = CollectionChange::Delete;

    common_functions!(CollectionId);

    fn unique_name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn references(&self) -> BTreeSet<String> {
        self.rule.tags.iter().map(ToString::to_string).collect()
    }

    fn conditions(filter: &CollectionFilter) -> Vec<Condition> {
        Condition::names(filter.name_search.as_ref(), filter.name.as_ref()).collect()
    }

    fn apply(id: &CollectionId, write: &Write<CollectionChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |collection: Self| Ok(Plan::stored(collection));
        match (&write.change, before) {
            (CollectionChange::Create { name, description, rule }, None) => done(Self {
                id: id.clone(),
                org: write.org.clone(),
                name: name.clone(),
                description: description.clone(),
                rule: rule.clone(),
                created_by: write.by.clone(),
                created_at: write.at,
                updated_at: write.at,
                version: 1,
            }),
            (CollectionChange::Update { name, description, tags, metadata }, Some(before)) => {
                let mut collection = before.clone();
                collection.name.clone_from(name.as_ref().unwrap_or(&before.name));
                collection.description.clone_from(description.as_ref().unwrap_or(&before.description));
                let rule = CollectionRule {
                    tags: tags.as_ref().unwrap_or(&before.rule.tags).clone(),
                    metadata: metadata.as_ref().unwrap_or(&before.rule.metadata).clone(),
                };
                collection.rule = rule.checked("collection.")?;
                done(collection.changed(&before, write.at))
            }
            (CollectionChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_golden, at, document, org, user};

    fn rule(tags: &[&str], metadata: &[(&str, &str)]) -> CollectionRule {
        CollectionRule {
            tags: tags.iter().map(|name| TagId::derive(&[*name])).collect(),
            metadata: metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        }
    }

    fn collection() -> Collection {
        Collection {
            id: CollectionId::derive(&["golden"]),
            org: org(),
            name: "Contracts".into(),
            description: Some("of this year".into()),
            rule: rule(&["golden"], &[("year", "2026")]),
            created_by: user(),
            created_at: at(),
            updated_at: at(),
            version: 2,
        }
    }

    #[test]
    fn the_stored_format_is_that_of_the_golden_file() {
        assert_golden("live", collection());
        let bare = rule(&["golden"], &[]);
        assert_golden("bare", Collection { description: None, rule: bare, ..collection() });
    }

    #[test]
    fn a_rule_has_a_bounded_number_of_conditions() {
        assert_eq!(rule(&["a", "a"], &[]).checked("").unwrap(), rule(&["a"], &[]));
        assert!(rule(&[], &[("k", "")]).checked("").is_ok());
        assert!(rule(&[], &[]).checked("").is_err());
        let names: Vec<String> = (0..RULE_CONDITIONS_MAX).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(rule(&names, &[]).checked("").is_ok());
        let error = rule(&names, &[("k", "v")]).checked("collection.").unwrap_err();
        assert_eq!(error.violations[0].field, "collection.tag_ids");
        assert!(rule(&[], &[(" k", "v")]).checked("").is_err());
    }

    #[test]
    fn members_have_all_tags_and_values() {
        let document = Document {
            tags: vec![TagId::derive(&["a"]), TagId::derive(&["b"])],
            metadata: [("city".to_owned(), "Köln".to_owned())].into(),
            ..document()
        };
        for (rule, is_member) in [
            (rule(&["a"], &[]), true),
            (rule(&["a", "b"], &[("city", "Köln")]), true),
            (rule(&["a", "c"], &[]), false),
            (rule(&["a"], &[("city", "köln")]), false),
            (rule(&[], &[("country", "")]), false),
        ] {
            assert_eq!(rule.is_member(&document), is_member, "{rule:?}");
        }
    }
}
