//! Tags: labels of documents and prompts.

use folio_types::op::{OpResult, Write};
use folio_types::{OrgId, Result, TagId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::resource::common_functions;
use crate::{Condition, ListRow, Plan, Resource};

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The id of the tag.
    pub id: TagId,
    /// The organization of the tag.
    pub org: OrgId,
    /// The name of the tag, unique in the organization without regard to case.
    pub name: String,
    /// `#rrggbb`.
    pub color: Option<String>,
    /// The purpose, as free text.
    pub description: Option<String>,
    /// The user that created it.
    pub created_by: UserId,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its last change.
    pub updated_at: Timestamp,
    /// Grows with every change; a write expects it.
    pub version: u64,
}

/// A change of one tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagChange {
    /// Creates a tag.
    Create {
        /// The name, which no live tag of the organization has.
        name: String,
        /// `#rrggbb`.
        color: Option<String>,
        /// The purpose.
        description: Option<String>,
    },
    /// Changes the fields that are given; an inner none removes the value.
    Update {
        /// The new name.
        name: Option<String>,
        /// The new color.
        color: Option<Option<String>>,
        /// The new description.
        description: Option<Option<String>>,
    },
    /// Deletes the tag. Refused with `IN_USE` while a live document or prompt has it.
    Delete,
}

/// The filter of a list of tags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagFilter {
    /// A substring of the name, compared without regard to case.
    pub name_search: Option<String>,
}

impl Resource for Tag {
    type Change = TagChange;
    type Filter = TagFilter;
    const KIND: &'static str = "tag";
    const DELETE: TagChange = TagChange::Delete;
    const IS_REFERENCED: bool = true;

    common_functions!(TagId);

    fn label(&self) -> &str {
        &self.name
    }

    fn unique_name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn list_row(&self) -> ListRow {
        ListRow { id: self.id.to_string(), name: self.name.clone(), ..ListRow::default() }
    }

    fn conditions(filter: &TagFilter) -> Vec<Condition> {
        Condition::name_search(filter.name_search.as_ref()).into_iter().collect()
    }

    fn apply(id: &TagId, write: &Write<TagChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |tag: Self| {
            let result = OpResult::Resource { id: tag.id.to_string(), name: tag.name.clone() };
            Ok(Plan { after: Some(tag), result })
        };
        match (&write.change, before) {
            (TagChange::Create { name, color, description }, None) => done(Self {
                id: id.clone(),
                org: write.org.clone(),
                name: name.clone(),
                color: color.clone(),
                description: description.clone(),
                created_by: write.by.clone(),
                created_at: write.at,
                updated_at: write.at,
                version: 1,
            }),
            (TagChange::Update { name, color, description }, Some(before)) => {
                let mut tag = before.clone();
                tag.name.clone_from(name.as_ref().unwrap_or(&before.name));
                tag.color.clone_from(color.as_ref().unwrap_or(&before.color));
                tag.description.clone_from(description.as_ref().unwrap_or(&before.description));
                if tag != before {
                    tag.version += 1;
                    tag.updated_at = write.at;
                }
                done(tag)
            }
            (TagChange::Delete, Some(_)) => Ok(Plan { after: None, result: OpResult::Deleted }),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::golden::{assert_golden, tag};

    #[test]
    fn the_stored_format_is_that_of_the_golden_file() {
        assert_golden("live", tag());
    }
}
