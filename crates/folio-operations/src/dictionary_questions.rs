//! Operations on questions about terms: a person enters the meaning that ingestion did not find, or dismisses the question.

use folio_resources::{
    CreationPeriod, DictionaryEntry, DictionaryEntryChange, DictionaryEntryId, DictionaryEntryPatch,
    DictionaryQuestion, DictionaryQuestionChange, DictionaryQuestionFilter, DictionaryQuestionId, ENTRY_SOURCES_MAX,
    NewDictionaryEntry, Provenance, QuestionState, Resource as _,
};
use folio_types::op::{Expected, OpState, WriteOutcome};
use folio_types::page::PageRequest;
use folio_types::{Error, Etag, Reason, Result, Role, Timestamp, limits};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::Declaration;
use crate::dictionary::SERVICE;
use crate::filter;
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest, SortKeys};
use crate::operation::{Operation, get_operation, outcome_as_json};
use crate::waiting_items::WaitingItem;

/// Maximum number of attempts to write an entry while other requests change it.
const ATTEMPTS: u32 = 5;

get_operation! {
    GetDictionaryQuestion { dictionary_question_id: DictionaryQuestionId } -> DictionaryQuestion
}

/// Lists questions. Filter: `state:` a state, `document:` a document id.
#[derive(Debug, Clone, Serialize)]
pub struct ListDictionaryQuestions {
    pub list: ListRequest,
}

impl Operation for ListDictionaryQuestions {
    const DECLARATION: Declaration = SERVICE.read("ListDictionaryQuestions");
    type Output = ListPage<DictionaryQuestion>;

    async fn run(self, context: &Context) -> Result<ListPage<DictionaryQuestion>> {
        let filter = question_filter(&self.list.filter)?;
        context.list(&self.list, &filter, SortKeys::CreateTime, LARGE_PAGE_MAX).await
    }
}

fn question_filter(text: &str) -> Result<DictionaryQuestionFilter> {
    let (state, document) = filter::state_and_document(text, &QuestionState::names(), QuestionState::from_name)?;
    let any_state = state.into_iter().collect();
    Ok(DictionaryQuestionFilter { document, any_state, ..DictionaryQuestionFilter::default() })
}

impl WaitingItem for DictionaryQuestion {
    type Resource = Self;

    fn filter(created: Option<CreationPeriod>) -> DictionaryQuestionFilter {
        let any_state = vec![QuestionState::Open];
        DictionaryQuestionFilter { any_state, created, ..DictionaryQuestionFilter::default() }
    }

    fn of(resource: Self) -> Self {
        resource
    }

    fn id(&self) -> &DictionaryQuestionId {
        &self.id
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

/// Answers a question with the meaning of its term: the entry of the term is created or replaced, with the provenance of a person. The
/// other open questions about the term become answered, too.
#[derive(Debug, Clone, Serialize)]
pub struct AnswerDictionaryQuestion {
    pub dictionary_question_id: DictionaryQuestionId,
    pub expansion: String,
    /// Empty: none.
    pub disambiguation: String,
    /// Empty: an existing entry keeps its tags.
    pub tags: Vec<String>,
    /// The version that the answer is based on. None: any version.
    pub etag: Option<Etag>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnsweredQuestion {
    pub question: DictionaryQuestion,
    pub entry: DictionaryEntry,
}

impl Operation for AnswerDictionaryQuestion {
    const DECLARATION: Declaration = SERVICE.administer("AnswerDictionaryQuestion").role(Role::Member);
    type Output = AnsweredQuestion;

    outcome_as_json!();

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<AnsweredQuestion>> {
        let arguments = json!({ "dictionary_question_id": self.dictionary_question_id });
        Ok(AuditRecord::new(arguments).target(DictionaryQuestion::KIND, &self.dictionary_question_id))
    }

    /// Writes the decision before the entry. After a crash, a repeated request sets the entry.
    async fn run(self, context: &Context) -> Result<AnsweredQuestion> {
        let meaning = DictionaryEntryPatch {
            expansion: Some(self.expansion),
            disambiguation: Some(Some(self.disambiguation)),
            tags: Some(self.tags),
            provenance: Some(Provenance::Person),
            ..DictionaryEntryPatch::default()
        };
        let meaning = meaning.checked("")?;
        let answer = DictionaryQuestionChange::Answer;
        let question: DictionaryQuestion =
            context.update(&self.dictionary_question_id, self.etag, answer.clone()).await?;
        let entry = set_meaning(context, &question, &meaning).await?;
        decide_others(context, &question, &answer).await?;
        Ok(AnsweredQuestion { question, entry })
    }
}

/// Creates the entry of the term of a question, or replaces its meaning.
async fn set_meaning(
    context: &Context,
    question: &DictionaryQuestion,
    meaning: &DictionaryEntryPatch,
) -> Result<DictionaryEntry> {
    let (org, entries, request) =
        (&context.principal().org, context.stores().of::<DictionaryEntry>(), &context.request);
    let [org_part, user, request_id] = request.id_parts();
    let own = DictionaryEntryId::derive(&[org_part, user, request_id, question.id.as_str()]);
    for _ in 0..ATTEMPTS {
        let (id, expected, change) = match entries.by_name(org, &question.key).await? {
            Some(found) => {
                let mut sources = found.sources.clone();
                if !sources.contains(&question.document) && sources.len() < ENTRY_SOURCES_MAX {
                    sources.push(question.document.clone());
                }
                let tags = meaning.tags.clone().filter(|tags| !tags.is_empty());
                let patch = DictionaryEntryPatch { tags, sources: Some(sources), ..meaning.clone() };
                let change = DictionaryEntryChange::Update(Box::new(patch));
                (found.id, Expected::Version(found.version), change)
            }
            None => {
                let new = NewDictionaryEntry {
                    term: question.term.clone(),
                    expansion: meaning.expansion.clone().unwrap_or_default(),
                    disambiguation: meaning.disambiguation.clone().flatten(),
                    tags: meaning.tags.clone().unwrap_or_default(),
                    sources: vec![question.document.clone()],
                    provenance: Provenance::Person,
                };
                (own.clone(), Expected::Absent, DictionaryEntryChange::Create(Box::new(new)))
            }
        };
        let name = format!("{} {} {id} {expected:?}", request.id(), question.id);
        let written = entries.decide(&id, request.further_write(&name, expected, change)?).await;
        match written {
            Ok(WriteOutcome::Row(row)) if matches!(row.state, OpState::Done(_)) => return context.find(&id).await,
            // Another request created, changed or deleted the entry after the read.
            Ok(_) => {}
            Err(error) if matches!(error.reason, Reason::NameTaken | Reason::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    let message = format!("the entry of {:?} was changed concurrently; retry", question.term);
    Err(Error::version_conflict(message))
}

/// Makes the same decision on the other open questions about the term, of other documents.
async fn decide_others(
    context: &Context,
    question: &DictionaryQuestion,
    change: &DictionaryQuestionChange,
) -> Result<()> {
    let filter = DictionaryQuestionFilter {
        any_state: vec![QuestionState::Open],
        any_key: vec![question.key.clone()],
        ..DictionaryQuestionFilter::default()
    };
    let (org, questions) = (&context.principal().org, context.stores().of::<DictionaryQuestion>());
    let page = PageRequest { size: limits::PAGE_SIZE_MAX, ..PageRequest::default() };
    for other in questions.list(org, &filter, &page).await?.items {
        if other.id == question.id {
            continue;
        }
        let name = format!("{} {} {}", context.request.id(), other.id, other.version);
        let write = context.request.further_write(&name, Expected::Version(other.version), change.clone())?;
        // A question that was decided or deleted meanwhile stays as it is.
        match questions.decide(&other.id, write).await {
            Ok(_) => {}
            Err(error) if matches!(error.reason, Reason::NotFound | Reason::QuestionDecided) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Dismisses a question and the other open questions about its term: the dictionary is not changed, and no document asks about the
/// term again while the question exists.
#[derive(Debug, Clone, Serialize)]
pub struct DismissDictionaryQuestion {
    pub dictionary_question_id: DictionaryQuestionId,
    /// The version that the decision is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for DismissDictionaryQuestion {
    const DECLARATION: Declaration = SERVICE.administer("DismissDictionaryQuestion").role(Role::Member);
    type Output = DictionaryQuestion;

    outcome_as_json!();

    async fn audit(&self, _context: &Context) -> Result<AuditRecord<DictionaryQuestion>> {
        let arguments = json!({ "dictionary_question_id": self.dictionary_question_id });
        Ok(AuditRecord::new(arguments).target(DictionaryQuestion::KIND, &self.dictionary_question_id))
    }

    async fn run(self, context: &Context) -> Result<DictionaryQuestion> {
        let dismiss = DictionaryQuestionChange::Dismiss;
        let question: DictionaryQuestion =
            context.update(&self.dictionary_question_id, self.etag, dismiss.clone()).await?;
        decide_others(context, &question, &dismiss).await?;
        Ok(question)
    }
}

#[cfg(test)]
mod tests {
    use folio_types::DocumentId;

    use super::*;

    #[test]
    fn a_filter_selects_a_state_and_a_document() {
        let document = DocumentId::derive(&["d"]);
        let filter = question_filter(&format!("state:open document:{document}")).unwrap();
        assert_eq!((filter.any_state, filter.document), (vec![QuestionState::Open], Some(document)));
        assert_eq!(question_filter("").unwrap(), DictionaryQuestionFilter::default());
        for bad in ["state:new", "state:open state:answered", "document:x", "term:a"] {
            assert!(question_filter(bad).is_err(), "{bad}");
        }
    }
}
