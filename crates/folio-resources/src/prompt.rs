//! Prompts: instructions for extractions, with revisions.
//!
//! A prompt references the tags and schemas of all its revisions, so that older revisions can still be read and run.

use std::collections::BTreeSet;

use folio_types::op::{OpResult, Write};
use folio_types::{
    DocumentId, Error, OrgId, PromptId, PromptRevId, Result, SchemaId, SchemaRevId, TagId, Temperature, Timestamp,
    UserId, limits,
};
use serde::{Deserialize, Serialize};

use crate::resource::{common_functions, revision_functions, revisioned};
use crate::stored::decode_plain;
use crate::tag_set::{distinct, tag_terms};
use crate::{Condition, ListRow, Plan, Resource};

const REVISION: &str = "prompt_revision";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRevision {
    /// Id of the prompt and number of the revision.
    pub revid: PromptRevId,
    pub org: OrgId,
    /// Name of the prompt, the same for all revisions.
    pub name: String,
    pub content: String,
    /// Schema that answers must match. None: free text.
    pub schema: Option<SchemaRevId>,
    /// Model that runs the prompt. None: the default model of the run.
    pub model: Option<String>,
    /// None: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    /// True if the extraction agent runs the prompt. False: one model call for each window of the document.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_run_by_agent: bool,
    /// Without duplicates, in the order of the request.
    pub tags: Vec<TagId>,
    pub created_by: UserId,
    pub created_at: Timestamp,
}

impl PromptRevision {
    fn references(&self) -> BTreeSet<String> {
        let tags = self.tags.iter().map(ToString::to_string);
        tags.chain(self.schema.iter().map(|schema| schema.of.to_string())).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    pub id: PromptId,
    /// Incremented by every change, including renames, so it differs from the revision number. A write states the
    /// version that it expects.
    pub version: u64,
    /// Time of the first revision.
    pub created_at: Timestamp,
    pub latest: PromptRevision,
}

/// A change of a prompt. Fails with `NOT_FOUND` if a tag or the schema does not exist or is deleted.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptChange {
    /// Creates a prompt with its first revision.
    Create(NewPrompt),
    /// Adds a revision if anything except the name differs from the newest revision; a new name alone renames the
    /// prompt.
    Update(PromptUpdate),
    Delete,
}

/// The fields of a new prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewPrompt {
    /// Unique among the live prompts of the organization.
    pub name: String,
    pub content: String,
    /// Schema that answers must match. None: free text.
    pub schema: Option<SchemaRevId>,
    /// Model that runs the prompt. None: the default model of the run.
    pub model: Option<String>,
    /// None: 0.
    pub temperature: Option<Temperature>,
    /// True if the extraction agent runs the prompt.
    pub is_run_by_agent: bool,
    pub tags: Vec<TagId>,
}

/// The changed fields of a prompt. None: unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptUpdate {
    pub name: Option<String>,
    pub content: Option<String>,
    /// Inner None: no schema.
    pub schema: Option<Option<SchemaRevId>>,
    /// Inner None: the default model of the run.
    pub model: Option<Option<String>>,
    /// Inner None: 0.
    pub temperature: Option<Option<Temperature>>,
    pub is_run_by_agent: Option<bool>,
    pub tags: Option<Vec<TagId>>,
}

/// All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptFilter {
    /// Substring of the name, case-insensitive.
    pub name_search: Option<String>,
    /// The whole name, in this spelling.
    pub name: Option<String>,
    /// The prompt has at least one of these tags. Empty: no condition.
    pub any_tag: Vec<TagId>,
    /// The prompt has all of these tags.
    pub all_tags: Vec<TagId>,
    /// The prompt has at least one tag in common with this document.
    pub document: Option<DocumentId>,
    /// The newest revision of the prompt has a revision of this schema.
    pub schema: Option<SchemaId>,
}

/// Validates the content of a prompt: not blank, at most [`limits::PROMPT_BYTES`] bytes, no NUL.
pub fn check_prompt_content(field: &str, content: &str) -> Result<()> {
    let problem = if content.trim().is_empty() {
        "must not be empty".to_owned()
    } else if content.len() > limits::PROMPT_BYTES {
        format!("has {} bytes; the maximum is {}", content.len(), limits::PROMPT_BYTES)
    } else if content.contains('\0') {
        "must not contain NUL characters".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::invalid_field(field, problem))
}

/// Name of the built-in prompt.
const BUILT_IN_NAME: &str = "Document Summary";
/// Content of the built-in prompt, which has no schema.
const BUILT_IN_CONTENT: &str = "\
Summarize the document. Return a JSON object with exactly these members:
- `document_type`: the kind of the document in a few words, such as \"invoice\" or \"employment contract\".
- `document_date`: the date that the document states as its own, in the form YYYY-MM-DD. null if it states none.
- `summary`: one sentence with the most important content of the document, in the language of the document.";

impl Resource for Prompt {
    type Change = PromptChange;
    type Filter = PromptFilter;
    const KIND: &'static str = "prompt";
    const DELETE: PromptChange = PromptChange::Delete;

    common_functions!(PromptId);
    revision_functions!(REVISION);

    fn unique_name(&self) -> Option<&str> {
        Some(&self.latest.name)
    }

    fn references(&self) -> BTreeSet<String> {
        self.latest.references()
    }

    fn named_revisions(&self) -> BTreeSet<(String, u32)> {
        self.latest.schema.iter().map(|schema| (schema.of.to_string(), schema.version)).collect()
    }

    fn built_in(id: &PromptId) -> Option<Self> {
        let created_at = Timestamp::UNIX_EPOCH;
        (*id == PromptId::built_in()).then(|| Self {
            id: id.clone(),
            version: 1,
            created_at,
            latest: PromptRevision {
                revid: PromptRevId::new(id.clone(), 1),
                org: OrgId::platform(),
                name: BUILT_IN_NAME.to_owned(),
                content: BUILT_IN_CONTENT.to_owned(),
                schema: None,
                model: None,
                temperature: None,
                is_run_by_agent: false,
                tags: Vec::new(),
                created_by: UserId::platform(),
                created_at,
            },
        })
    }

    fn revision_references(stored: &[u8]) -> Result<BTreeSet<String>> {
        decode_plain::<PromptRevision>(REVISION, stored).map(|revision| revision.references())
    }

    fn list_row(&self) -> ListRow {
        ListRow {
            id: self.id.to_string(),
            name: self.latest.name.clone(),
            terms: tag_terms(&self.latest.tags).collect(),
            ..ListRow::default()
        }
    }

    fn conditions(filter: &PromptFilter) -> Vec<Condition> {
        let PromptFilter { name_search, name, any_tag, all_tags, document, schema } = filter;
        let mut conditions: Vec<_> = tag_terms(all_tags).map(|tag| Condition::AnyTerm(vec![tag])).collect();
        conditions.extend(Condition::any_terms([tag_terms(any_tag).collect()]));
        let shared = |document: &DocumentId| Condition::SharedTerm { with: document.to_string(), field: "tag" };
        conditions.extend(document.as_ref().map(shared));
        conditions.extend(schema.as_ref().map(|schema| Condition::RefersTo(schema.to_string())));
        conditions.extend(Condition::names(name_search.as_ref(), name.as_ref()));
        conditions
    }

    fn apply(id: &PromptId, write: &Write<PromptChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |prompt: Self, revised| {
            let result = OpResult::Prompt {
                revid: prompt.latest.revid.clone(),
                name: prompt.latest.name.clone(),
                schema: prompt.latest.schema.clone(),
                revised,
            };
            Ok(Plan { after: Some(prompt), result })
        };
        match (&write.change, before) {
            (PromptChange::Create(new), None) => {
                let NewPrompt { name, content, schema, model, temperature, is_run_by_agent, tags } = new;
                let latest = PromptRevision {
                    revid: PromptRevId::new(id.clone(), 1),
                    org: write.org.clone(),
                    name: name.clone(),
                    content: content.clone(),
                    schema: schema.clone(),
                    model: model.clone(),
                    temperature: *temperature,
                    is_run_by_agent: *is_run_by_agent,
                    tags: distinct(tags),
                    created_by: write.by.clone(),
                    created_at: write.at,
                };
                done(Self { id: id.clone(), version: 1, created_at: write.at, latest }, true)
            }
            (PromptChange::Update(update), Some(before)) => {
                let PromptUpdate { name, content, schema, model, temperature, is_run_by_agent, tags } = update;
                let mut latest = before.latest.clone();
                latest.name.clone_from(name.as_ref().unwrap_or(&before.latest.name));
                latest.content.clone_from(content.as_ref().unwrap_or(&before.latest.content));
                latest.schema.clone_from(schema.as_ref().unwrap_or(&before.latest.schema));
                latest.model.clone_from(model.as_ref().unwrap_or(&before.latest.model));
                latest.temperature = temperature.unwrap_or(before.latest.temperature);
                latest.is_run_by_agent = is_run_by_agent.unwrap_or(before.latest.is_run_by_agent);
                if let Some(tags) = tags {
                    latest.tags = distinct(tags);
                }
                if latest == before.latest {
                    return done(before, false);
                }
                let revised = PromptRevision { name: before.latest.name.clone(), ..latest.clone() } != before.latest;
                if revised {
                    latest.revid.version += 1;
                    latest.created_by = write.by.clone();
                    latest.created_at = write.at;
                }
                done(Self { version: before.version + 1, latest, ..before }, revised)
            }
            (PromptChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

revisioned!(Prompt, PromptRevision, PromptRevId, REVISION);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Revisioned as _, golden};

    #[test]
    fn the_temperature_is_stored_in_thousandths_and_only_if_it_is_set() {
        let mut prompt = golden::prompt();
        golden::assert_golden("live", prompt.clone());
        prompt.latest.temperature = Some(Temperature::new("temperature", 0.7).unwrap());
        golden::assert_golden("warm", prompt);
    }

    #[test]
    fn the_built_in_prompt_is_valid_and_the_only_one() {
        let prompt = Prompt::built_in(&PromptId::built_in()).unwrap();
        check_prompt_content("content", &prompt.latest.content).unwrap();
        crate::fields::check_name("name", &prompt.latest.name).unwrap();
        assert_eq!((prompt.newest().0, Prompt::parts(&prompt.latest.revid)), (1, (&PromptId::built_in(), 1)));
        assert_eq!(Prompt::built_in(&golden::prompt().id), None);
    }

    #[test]
    fn the_content_of_a_prompt_is_bounded_and_not_blank() {
        let longest = "a".repeat(limits::PROMPT_BYTES);
        for content in ["a", "\n a", &longest] {
            check_prompt_content("content", content).unwrap();
        }
        for content in ["", " \n", "a\0", &format!("{longest}a")] {
            assert_eq!(check_prompt_content("content", content).unwrap_err().violations[0].field, "content");
        }
    }
}
