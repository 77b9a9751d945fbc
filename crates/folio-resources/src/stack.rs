//! Stacks: sets of documents with a table, which has a row for each document.

use std::collections::{BTreeMap, BTreeSet};

use folio_types::op::Write;
use folio_types::{DocumentId, Error, OrgId, Reason, Result, StackId, TagId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::resource::common_functions;
use crate::stack_row::STACK_ROWS_MAX;
use crate::tag_set::{distinct, tag_terms};
use crate::{
    CellRule, Cleanup, Column, Condition, Document, DocumentFilter, ListRow, NewColumn, Plan, Resource, fields, folded,
    term,
};

/// Maximum length of the description of a stack, in characters.
// proto: Stack.description "at most {} characters"
pub const STACK_DESCRIPTION_CHARS: usize = 2_000;

/// The documents of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StackMembers {
    /// These documents, in order. A document may have been deleted.
    Documents(Vec<DocumentId>),
    /// Each document that fulfills the rule, including documents that are uploaded later.
    Rule(MemberRule),
}

/// A rule that selects the documents that fulfill all of its conditions. A rule has at least one condition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemberRule {
    /// The document has all of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<TagId>,
    /// The document has all of these keys with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl MemberRule {
    /// Returns the filter of the documents.
    pub fn filter(&self) -> DocumentFilter {
        DocumentFilter {
            all_tags: self.tags.clone(),
            metadata_equals: self.metadata.clone(),
            ..DocumentFilter::default()
        }
    }

    fn matches(&self, document: &Document) -> bool {
        self.tags.iter().all(|tag| document.tags.contains(tag))
            && self.metadata.iter().all(|(key, value)| document.metadata.get(key) == Some(value))
    }
}

impl StackMembers {
    /// Validates the members. `prefix` (`stack.` or empty) precedes the field names in errors.
    ///
    /// # Errors
    /// `INVALID_FIELD` if there are too many documents, or the rule has no condition.
    pub fn checked(self, prefix: &str) -> Result<Self> {
        match self {
            Self::Documents(documents) => Ok(Self::Documents(checked_documents(prefix, documents)?)),
            Self::Rule(MemberRule { tags, metadata }) => {
                let tags = fields::check_tags(&format!("{prefix}rule.tag_ids"), &tags)?;
                fields::check_metadata(&format!("{prefix}rule.metadata"), &metadata)?;
                if tags.is_empty() && metadata.is_empty() {
                    return Err(Error::invalid_field(format!("{prefix}rule"), "must have a tag or a metadata value"));
                }
                Ok(Self::Rule(MemberRule { tags, metadata }))
            }
        }
    }
}

fn checked_documents(prefix: &str, documents: Vec<DocumentId>) -> Result<Vec<DocumentId>> {
    let mut seen = BTreeSet::new();
    let documents: Vec<DocumentId> = documents.into_iter().filter(|document| seen.insert(document.clone())).collect();
    if documents.len() > STACK_ROWS_MAX {
        let problem = format!("has {} documents; the maximum is {STACK_ROWS_MAX}", documents.len());
        return Err(Error::invalid_field(format!("{prefix}document_ids"), problem).with_reason(Reason::TooLarge));
    }
    Ok(documents)
}

/// Fills the rows of new members, and the cells of new and changed columns, without a request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AutoFill {
    /// Credits that the model calls of each job may cost. None: no budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
}

/// The statement that a table is complete. A later change of the columns or of the members withdraws it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// The user, or the user for whom an agent worked.
    pub by: UserId,
    pub at: Timestamp,
    /// Number of rows at that time.
    pub rows: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    pub id: StackId,
    pub org: OrgId,
    /// Unique in the organization, case-insensitive.
    pub name: String,
    /// Text that describes the table to models and people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub members: StackMembers,
    /// The columns in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
    /// The number of the next new column.
    pub next_column: u32,
    /// Model of the turns that fill rows. None: the default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Approves values without a person. None: the values of the agent wait for no decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_rule: Option<CellRule>,
    /// None: rows are filled on request only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_fill: Option<AutoFill>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<Completion>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Incremented by every change. A write states the version that it expects.
    pub version: u64,
}

/// A stack without columns.
#[derive(Debug, Clone, PartialEq)]
pub struct NewStack {
    pub name: String,
    pub description: String,
    pub members: StackMembers,
    pub model: Option<String>,
    pub review_rule: Option<CellRule>,
    pub auto_fill: Option<AutoFill>,
}

/// A change of a stack apart from its columns. None: unchanged; inner None: removes the value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StackPatch {
    pub name: Option<String>,
    pub description: Option<String>,
    pub members: Option<StackMembers>,
    /// Added to the documents of a stack without a rule.
    pub add_documents: Vec<DocumentId>,
    /// Removed from the documents of a stack without a rule. Their rows are no longer part of the table.
    pub remove_documents: Vec<DocumentId>,
    pub model: Option<Option<String>>,
    pub review_rule: Option<Option<CellRule>>,
    pub auto_fill: Option<Option<AutoFill>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StackChange {
    Create(Box<NewStack>),
    Update(Box<StackPatch>),
    /// Replaces the columns. A column whose name exists, ignoring case, keeps its cells; a column whose name is missing is removed.
    /// The columns are checked.
    DefineColumns(Vec<NewColumn>),
    /// Replaces the definition of the column with this name. Another name keeps the cells. The definition is checked.
    UpdateColumn {
        name: String,
        column: Box<NewColumn>,
    },
    /// States that the table is complete. `rows`: the number of its rows.
    Complete {
        rows: u32,
    },
    Delete,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackFilter {
    /// Substring of the name, case-insensitive.
    pub name_search: Option<String>,
    /// The whole name, in this spelling.
    pub name: Option<String>,
    /// The rows of new members are filled automatically.
    pub has_auto_fill: bool,
    /// The rule of the stack has this tag.
    pub tag: Option<TagId>,
}

/// The term of a stack whose rows are filled automatically.
const AUTO_FILL: (&str, &str) = ("auto_fill", "on");

impl Stack {
    /// Returns true if a document is a member.
    pub fn contains(&self, document: &Document) -> bool {
        match &self.members {
            StackMembers::Documents(documents) => documents.contains(&document.id),
            StackMembers::Rule(rule) => rule.matches(document),
        }
    }

    /// Returns the column with a name, ignoring case.
    ///
    /// # Errors
    /// `NOT_FOUND`, with the names of the columns.
    pub fn column(&self, name: &str) -> Result<&Column> {
        let wanted = folded(name);
        self.columns.iter().find(|column| folded(column.name()) == wanted).ok_or_else(|| {
            let excerpt: String = name.chars().take(80).collect();
            let names: Vec<String> = self.columns.iter().map(|column| format!("{:?}", column.name())).collect();
            let mut error = Error::not_found("column", &excerpt);
            error.message = format!("the table has no column {excerpt:?}; its columns: {}", names.join(", "));
            error
        })
    }

    /// Returns true if the later state of the stack may have rows or cells that are not filled, and fills them automatically.
    pub fn starts_filling(before: Option<&Self>, after: &Self) -> bool {
        let Some(before) = before else { return false };
        let has_changed = before.columns != after.columns
            || before.members != after.members
            || before.auto_fill.is_some() != after.auto_fill.is_some();
        after.auto_fill.is_some() && !after.columns.is_empty() && has_changed
    }

    fn created(id: &StackId, write: &Write<StackChange>, new: &NewStack) -> Self {
        let NewStack { name, description, members, model, review_rule, auto_fill } = new.clone();
        Self {
            id: id.clone(),
            org: write.org.clone(),
            name,
            description,
            members,
            columns: Vec::new(),
            next_column: 1,
            model,
            review_rule,
            auto_fill,
            completion: None,
            created_by: write.by.clone(),
            created_at: write.at,
            updated_at: write.at,
            version: 1,
        }
    }

    /// # Errors
    /// `INVALID_FIELD` if documents are added to a stack with a rule, or if there are too many.
    fn patched(&self, patch: &StackPatch) -> Result<Self> {
        let mut stack = self.clone();
        stack.name.clone_from(patch.name.as_ref().unwrap_or(&self.name));
        stack.description.clone_from(patch.description.as_ref().unwrap_or(&self.description));
        stack.members.clone_from(patch.members.as_ref().unwrap_or(&self.members));
        stack.model.clone_from(patch.model.as_ref().unwrap_or(&self.model));
        stack.review_rule.clone_from(patch.review_rule.as_ref().unwrap_or(&self.review_rule));
        stack.auto_fill.clone_from(patch.auto_fill.as_ref().unwrap_or(&self.auto_fill));
        if patch.add_documents.is_empty() && patch.remove_documents.is_empty() {
            return Ok(stack);
        }
        let StackMembers::Documents(documents) = &mut stack.members else {
            let problem = "the stack selects its documents by a rule; change the rule instead";
            return Err(Error::invalid_field("add_document_ids", problem));
        };
        let removed: BTreeSet<&DocumentId> = patch.remove_documents.iter().collect();
        documents.retain(|document| !removed.contains(document));
        documents.extend(patch.add_documents.iter().cloned());
        *documents = checked_documents("add_", std::mem::take(documents))?;
        Ok(stack)
    }

    fn with_columns(&self, new: &[NewColumn]) -> Self {
        let mut stack = Self { columns: Vec::with_capacity(new.len()), ..self.clone() };
        for definition in new {
            let column = match self.columns.iter().find(|column| folded(column.name()) == folded(&definition.name)) {
                Some(existing) => existing.redefined(definition.clone()),
                None => {
                    let number = stack.next_column;
                    stack.next_column = number.saturating_add(1);
                    Column { number, revision: 1, definition: definition.clone() }
                }
            };
            stack.columns.push(column);
        }
        stack
    }

    /// # Errors
    /// `NOT_FOUND`; `INVALID_FIELD` if another column has the new name.
    fn with_column(&self, name: &str, definition: &NewColumn) -> Result<Self> {
        let number = self.column(name)?.number;
        let has_name = |column: &Column| folded(column.name()) == folded(&definition.name);
        if self.columns.iter().any(|column| column.number != number && has_name(column)) {
            return Err(Error::invalid_field("column.name", "another column has this name"));
        }
        let redefined = |column: &Column| match column.number == number {
            true => column.redefined(definition.clone()),
            false => column.clone(),
        };
        Ok(Self { columns: self.columns.iter().map(redefined).collect(), ..self.clone() })
    }

    /// Returns the stack after a change. Other columns or members withdraw the statement that the table is complete.
    fn changed(self, before: &Self, at: Timestamp) -> Self {
        if self == *before {
            return self;
        }
        let is_same_table = self.columns == before.columns && self.members == before.members;
        let completion = self.completion.clone().filter(|_| is_same_table);
        Self { completion, version: before.version + 1, updated_at: at, ..self }
    }
}

impl Resource for Stack {
    type Change = StackChange;
    type Filter = StackFilter;
    const KIND: &'static str = "stack";
    const DELETE: StackChange = StackChange::Delete;
    const CLEANUP: Cleanup = Cleanup::Dependents;

    common_functions!(StackId);

    fn unique_name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn references(&self) -> BTreeSet<String> {
        match &self.members {
            StackMembers::Rule(rule) => rule.tags.iter().map(ToString::to_string).collect(),
            StackMembers::Documents(_) => BTreeSet::new(),
        }
    }

    fn list_row(&self) -> ListRow {
        let tags = match &self.members {
            StackMembers::Rule(rule) => distinct(&rule.tags),
            StackMembers::Documents(_) => Vec::new(),
        };
        let auto_fill = self.auto_fill.as_ref().map(|_| term(AUTO_FILL.0, AUTO_FILL.1));
        ListRow {
            id: self.id.to_string(),
            name: self.name.clone(),
            terms: tag_terms(&tags).chain(auto_fill).collect(),
            ..ListRow::default()
        }
    }

    fn conditions(filter: &StackFilter) -> Vec<Condition> {
        let StackFilter { name_search, name, has_auto_fill, tag } = filter;
        let auto_fill = has_auto_fill.then(|| term(AUTO_FILL.0, AUTO_FILL.1));
        let terms = auto_fill.into_iter().chain(tag_terms(tag.as_slice()));
        let terms = terms.map(|term| Condition::AnyTerm(vec![term]));
        Condition::names(name_search.as_ref(), name.as_ref()).chain(terms).collect()
    }

    fn apply(id: &StackId, write: &Write<StackChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |stack: Self| Ok(Plan::stored(stack));
        let changed = |before: &Self, after: Self| done(after.changed(before, write.at));
        match (&write.change, before) {
            (StackChange::Create(new), None) => done(Self::created(id, write, new)),
            (StackChange::Update(patch), Some(before)) => changed(&before, before.patched(patch)?),
            (StackChange::DefineColumns(columns), Some(before)) => changed(&before, before.with_columns(columns)),
            (StackChange::UpdateColumn { name, column }, Some(before)) => {
                changed(&before, before.with_column(name, column)?)
            }
            (StackChange::Complete { rows }, Some(before)) => {
                let completion = Completion { by: write.by.clone(), at: write.at, rows: *rows };
                changed(&before, Self { completion: Some(completion), ..before.clone() })
            }
            (StackChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests;
