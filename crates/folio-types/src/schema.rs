//! Schemas: versioned response formats.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{OrgId, SchemaId, SchemaRevId, UserId};

/// One revision of a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaRevision {
    /// Its revid: the schema's id and the version.
    pub revid: SchemaRevId,
    /// Its organization.
    pub org: OrgId,
    /// The schema's name (one for all revisions).
    pub name: String,
    /// `{type: "json_schema", json_schema: {name, schema, strict}}`.
    pub response_format: serde_json::Value,
    /// Whether it holds the strict rules; if not, models are told so.
    pub strict: bool,
    /// Who made the revision.
    pub created_by: UserId,
    /// When.
    pub created_at: Timestamp,
}

impl SchemaRevision {
    /// The inner JSON Schema.
    pub fn schema(&self) -> Option<&serde_json::Value> {
        self.response_format.get("json_schema")?.get("schema")
    }
}

/// A schema as a list shows it: its newest revision and its condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// The schema's id.
    pub id: SchemaId,
    /// Grows with every change, renames too; what a write expects. Not the number of revisions.
    pub version: u64,
    /// The newest revision.
    pub latest: SchemaRevision,
}
