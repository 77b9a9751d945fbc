//! Tags: labels of documents and prompts.

use folio_types::op::Write;
use folio_types::{Error, OrgId, Result, TagId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::resource::{changed_function, common_functions};
use crate::{Condition, Plan, Resource, fields};

/// Maximum length of a description, in characters.
// proto: Tag.description "at most {} characters"
// proto: Collection.description "at most {} characters"
pub const DESCRIPTION_CHARS: usize = 2_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    pub id: TagId,
    pub org: OrgId,
    /// Unique in the organization, case-insensitive.
    pub name: String,
    /// `#rrggbb`.
    pub color: Option<String>,
    /// Free text.
    pub description: Option<String>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Incremented by every change. A write states the version that it expects.
    pub version: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagChange {
    /// Creates a tag. The name must be unique among the live tags of the organization. Color: `#rrggbb`.
    Create { name: String, color: Option<String>, description: Option<String> },
    /// None: unchanged. Inner None: removes the value.
    Update { name: Option<String>, color: Option<Option<String>>, description: Option<Option<String>> },
    /// Deletes the tag. `IN_USE` while a live document or prompt has the tag.
    Delete,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagFilter {
    /// Substring of the name, case-insensitive.
    pub name_search: Option<String>,
    /// The whole name, in this spelling.
    pub name: Option<String>,
}

/// Validates a color `#rrggbb`. The digits keep their case. Empty: None.
pub fn check_color(field: &str, color: &str) -> Result<Option<String>> {
    match color.strip_prefix('#') {
        Some(digits) if digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            Ok(Some(color.to_owned()))
        }
        None if color.is_empty() => Ok(None),
        _ => Err(Error::invalid_field(field, "must be a color in the form #rrggbb, such as \"#1f77b4\"")),
    }
}

/// Validates the description of a tag or a collection: at most 2,000 characters, no NUL. Empty: None.
pub fn check_description(field: &str, description: &str) -> Result<Option<String>> {
    let description = fields::paragraph(field, description, DESCRIPTION_CHARS)?;
    Ok(Some(description).filter(|description| !description.is_empty()))
}

impl Tag {
    changed_function!();
}

impl Resource for Tag {
    type Change = TagChange;
    type Filter = TagFilter;
    const KIND: &'static str = "tag";
    const DELETE: TagChange = TagChange::Delete;
    const IS_REFERENCED: bool = true;

    common_functions!(TagId);

    fn unique_name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn conditions(filter: &TagFilter) -> Vec<Condition> {
        Condition::names(filter.name_search.as_ref(), filter.name.as_ref()).collect()
    }

    fn apply(id: &TagId, write: &Write<TagChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |tag: Self| Ok(Plan::stored(tag));
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
                done(tag.changed(&before, write.at))
            }
            (TagChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_golden, tag};

    #[test]
    fn the_stored_format_is_that_of_the_golden_file() {
        assert_golden("live", tag());
    }

    #[test]
    fn a_color_is_normalized_to_lower_case() {
        assert_eq!(check_color("color", "#AbCdEf").unwrap().as_deref(), Some("#AbCdEf"));
        assert_eq!(check_color("color", "").unwrap(), None);
        for bad in ["red", "#fff", "#12345g", "#1234567", "123456"] {
            assert!(check_color("color", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_description_is_bounded_and_an_empty_one_is_none() {
        let longest = "ä".repeat(DESCRIPTION_CHARS);
        assert_eq!(check_description("description", &longest).unwrap().as_ref(), Some(&longest));
        assert_eq!(check_description("description", "").unwrap(), None);
        assert!(check_description("description", &format!("{longest}.")).is_err());
    }
}
