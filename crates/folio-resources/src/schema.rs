//! Schemas: response formats with revisions.

use folio_types::op::{OpResult, Write};
use folio_types::{OrgId, Result, SchemaId, SchemaRevId, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::{common_functions, revision_functions, revisioned};
use crate::{Condition, Plan, Resource, ReviewRule};

const REVISION: &str = "schema_revision";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaRevision {
    /// Id of the schema and number of the revision.
    pub revid: SchemaRevId,
    pub org: OrgId,
    /// Name of the schema, the same for all revisions.
    pub name: String,
    /// `{type: "json_schema", json_schema: {name, schema, strict}}`.
    pub response_format: Value,
    /// True if the response format declares `strict` and the schema complies with the rules of strict mode. Otherwise,
    /// models receive the schema with `strict: false`.
    pub strict: bool,
    pub created_by: UserId,
    pub created_at: Timestamp,
}

impl SchemaRevision {
    /// Returns the inner JSON Schema. None: the response format lacks it.
    pub fn schema(&self) -> Option<&Value> {
        self.response_format.get("json_schema")?.get("schema")
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    pub id: SchemaId,
    /// Incremented by every change, including renames, so it differs from the revision number. A write states the
    /// version that it expects.
    pub version: u64,
    /// Time of the first revision.
    pub created_at: Timestamp,
    pub latest: SchemaRevision,
    /// Approves values of new extractions with any revision. None: persons approve all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_rule: Option<ReviewRule>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SchemaChange {
    /// Creates a schema with its first revision.
    Create {
        /// Unique among the live schemas of the organization.
        name: String,
        /// The complete response format.
        response_format: Value,
        /// True if the schema complies with the rules of strict mode.
        strict: bool,
    },
    /// Adds a revision if the format differs from the newest revision. A new name alone renames the schema, and a new
    /// rule adds no revision. None: unchanged.
    Update {
        name: Option<String>,
        /// New format, and whether it is strict.
        response_format: Option<(Value, bool)>,
        /// New rule, which the caller has validated. The inner None removes the rule.
        review_rule: Option<Option<ReviewRule>>,
    },
    /// Deletes the schema. `IN_USE` while a live prompt references any revision.
    Delete,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaFilter {
    /// Substring of the name, case-insensitive.
    pub name_search: Option<String>,
    /// The whole name, in this spelling.
    pub name: Option<String>,
}

impl Resource for Schema {
    type Change = SchemaChange;
    type Filter = SchemaFilter;
    const KIND: &'static str = "schema";
    const DELETE: SchemaChange = SchemaChange::Delete;
    const IS_REFERENCED: bool = true;

    common_functions!(SchemaId);
    revision_functions!(REVISION);

    fn unique_name(&self) -> Option<&str> {
        Some(&self.latest.name)
    }

    fn conditions(filter: &SchemaFilter) -> Vec<Condition> {
        Condition::names(filter.name_search.as_ref(), filter.name.as_ref()).collect()
    }

    fn apply(id: &SchemaId, write: &Write<SchemaChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |schema: Self, revised| {
            let result =
                OpResult::Schema { revid: schema.latest.revid.clone(), name: schema.latest.name.clone(), revised };
            Ok(Plan { after: Some(schema), result })
        };
        match (&write.change, before) {
            (SchemaChange::Create { name, response_format, strict }, None) => {
                let latest = SchemaRevision {
                    revid: SchemaRevId::new(id.clone(), 1),
                    org: write.org.clone(),
                    name: name.clone(),
                    response_format: response_format.clone(),
                    strict: *strict,
                    created_by: write.by.clone(),
                    created_at: write.at,
                };
                done(Self { id: id.clone(), version: 1, created_at: write.at, latest, review_rule: None }, true)
            }
            (SchemaChange::Update { name, response_format, review_rule }, Some(mut schema)) => {
                let name = name.as_ref().unwrap_or(&schema.latest.name).clone();
                // Compares the text instead of the value, because the order of properties is visible to users.
                let (text, strict_before) = (schema.latest.response_format.to_string(), schema.latest.strict);
                let revised = response_format.as_ref().filter(|(format, strict)| {
                    let new_text = format.to_string();
                    *strict != strict_before || new_text != text
                });
                let review_rule = review_rule.as_ref().unwrap_or(&schema.review_rule).clone();
                if revised.is_none() && name == schema.latest.name && review_rule == schema.review_rule {
                    return done(schema, false);
                }
                schema.version += 1;
                schema.review_rule = review_rule;
                schema.latest.name = name;
                if let Some((format, strict)) = revised {
                    schema.latest.revid.version += 1;
                    schema.latest.response_format = format.clone();
                    schema.latest.strict = *strict;
                    schema.latest.created_by = write.by.clone();
                    schema.latest.created_at = write.at;
                }
                done(schema, revised.is_some())
            }
            (SchemaChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

revisioned!(Schema, SchemaRevision, SchemaRevId, REVISION);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::golden::{assert_golden, at, schema};
    use folio_types::op::Expected;

    #[test]
    fn a_review_rule_is_set_and_removed_without_a_revision() {
        let rule = ReviewRule { min_confidence: 0.9, checks: vec!["sum(items.amount) = total".into()] };
        let applied = |schema: &Schema, review_rule| {
            let change = SchemaChange::Update { name: None, response_format: None, review_rule };
            let (org, key) = (schema.latest.org.clone(), "rule".parse().unwrap());
            let write = Write::by_platform(org, key, at(), Expected::Version(schema.version), change);
            let plan = Schema::apply(&schema.id, &write, Some(schema.clone())).unwrap();
            let OpResult::Schema { revised, .. } = plan.result else { panic!("{:?}", plan.result) };
            assert!(!revised);
            plan.after.unwrap()
        };
        let with_rule = applied(&schema(), Some(Some(rule.clone())));
        assert_eq!(with_rule, Schema { version: 10, review_rule: Some(rule.clone()), ..schema() });
        assert_eq!(applied(&with_rule, Some(Some(rule))), with_rule, "unchanged");
        assert_eq!(applied(&with_rule, None), with_rule);
        assert_eq!(applied(&with_rule, Some(None)), Schema { version: 11, ..schema() });
        assert_golden("rule", with_rule);
    }

    #[test]
    fn the_inner_schema_is_absent_from_a_malformed_response_format() {
        let revision = |response_format| SchemaRevision { response_format, ..schema().latest };
        for (format, inner) in [
            (
                json!({"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}),
                Some(json!({"type": "object"})),
            ),
            (json!({"json_schema": {"name": "invoice"}}), None),
            (json!({"schema": {}}), None),
        ] {
            assert_eq!(revision(format).schema(), inner.as_ref());
        }
    }
}
