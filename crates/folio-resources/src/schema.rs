//! Schemas: response formats with revisions.

use folio_types::op::{OpResult, Write};
use folio_types::{OrgId, Result, SchemaId, SchemaRevId, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::resource::{common_functions, revision_functions, revisioned};
use crate::{Condition, ListRow, Plan, Resource};

const REVISION: &str = "schema_revision";

/// One revision of a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaRevision {
    /// The schema's id and the number of the revision.
    pub revid: SchemaRevId,
    /// The organization of the schema.
    pub org: OrgId,
    /// The schema's name, the same for all revisions.
    pub name: String,
    /// `{type: "json_schema", json_schema: {name, schema, strict}}`.
    pub response_format: Value,
    /// Whether it complies with the strict rules. If not, the schema is added to the prompt.
    pub strict: bool,
    /// The user that created the revision.
    pub created_by: UserId,
    /// The time of the revision.
    pub created_at: Timestamp,
}

impl SchemaRevision {
    /// Returns the inner JSON Schema.
    pub fn schema(&self) -> Option<&Value> {
        self.response_format.get("json_schema")?.get("schema")
    }
}

/// A schema with its newest revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// The id of the schema.
    pub id: SchemaId,
    /// Grows with every change, also with renames; a write expects it. Not the number of revisions.
    pub version: u64,
    /// The time of its first revision.
    pub created_at: Timestamp,
    /// The newest revision.
    pub latest: SchemaRevision,
}

/// A change of one schema.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaChange {
    /// Creates a schema with its first revision.
    Create {
        /// The name, which no live schema of the organization has.
        name: String,
        /// The whole response format.
        response_format: Value,
        /// Whether it complies with the strict rules.
        strict: bool,
    },
    /// Adds a revision if the format differs from the newest one; renames the schema if only the name differs.
    Update {
        /// The new name; none: unchanged.
        name: Option<String>,
        /// The new format and whether it is strict; none: unchanged.
        response_format: Option<(Value, bool)>,
    },
    /// Deletes the schema. Refused with `IN_USE` while a live prompt refers to any revision.
    Delete,
}

/// The filter of a list of schemas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaFilter {
    /// A substring of the name, compared without regard to case.
    pub name_search: Option<String>,
}

impl Resource for Schema {
    type Change = SchemaChange;
    type Filter = SchemaFilter;
    const KIND: &'static str = "schema";
    const DELETE: SchemaChange = SchemaChange::Delete;
    const IS_REFERENCED: bool = true;

    common_functions!(SchemaId);
    revision_functions!(REVISION);

    fn label(&self) -> &str {
        &self.latest.name
    }

    fn unique_name(&self) -> Option<&str> {
        Some(&self.latest.name)
    }

    fn list_row(&self) -> ListRow {
        ListRow { id: self.id.to_string(), name: self.latest.name.clone(), ..ListRow::default() }
    }

    fn conditions(filter: &SchemaFilter) -> Vec<Condition> {
        Condition::name_search(filter.name_search.as_ref()).into_iter().collect()
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
                done(Self { id: id.clone(), version: 1, created_at: write.at, latest }, true)
            }
            (SchemaChange::Update { name, response_format }, Some(mut schema)) => {
                let name = name.as_ref().unwrap_or(&schema.latest.name).clone();
                // Compares the text and not the value: people see the order of a schema's properties.
                let (text, strict_before) = (schema.latest.response_format.to_string(), schema.latest.strict);
                let revised = response_format.as_ref().filter(|(format, strict)| {
                    let new_text = format.to_string();
                    *strict != strict_before || new_text != text
                });
                if revised.is_none() && name == schema.latest.name {
                    return done(schema, false);
                }
                schema.version += 1;
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
            (SchemaChange::Delete, Some(_)) => Ok(Plan { after: None, result: OpResult::Deleted }),
            _ => Err(Self::not_found(id)),
        }
    }
}

revisioned!(Schema, SchemaRevision, SchemaRevId, REVISION);
