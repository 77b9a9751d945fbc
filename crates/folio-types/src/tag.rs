//! Tags.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{OrgId, TagId, UserId};

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// Its id.
    pub id: TagId,
    /// Its organization.
    pub org: OrgId,
    /// Its name, one of its kind in the organization without regard to case.
    pub name: String,
    /// `#rrggbb`.
    pub color: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Who made it.
    pub created_by: UserId,
    /// When.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Grows with every change; what a write expects.
    pub version: u64,
}
