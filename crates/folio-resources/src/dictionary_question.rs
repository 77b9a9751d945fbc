//! Questions to a person: the meaning of a term that a document uses and the dictionary of the organization does not contain.
//!
//! ```text
//! Create ──► Open ─┬─Answer──► Answered
//!                  └─Dismiss─► Dismissed
//! ```
//!
//! A question belongs to the document that contains the term, and is deleted with it. Term, guess and excerpts come from the
//! document and from a model: they are hostile input.

use folio_types::op::Write;
use folio_types::{DocumentId, OrgId, Reason, Result, Timestamp, UserId, named_enum, plain_id};
use serde::{Deserialize, Serialize};

use crate::resource::{common_functions, decided_function};
use crate::{Condition, CreationPeriod, ListRow, Plan, Resource, parent_term, term, term_key};

plain_id!(DictionaryQuestionId, "dqn", "dictionary question");

/// Maximum number of excerpts of a question.
// proto: DictionaryQuestion.contexts "at most {} excerpts"
pub const QUESTION_CONTEXTS_MAX: usize = 3;
/// Maximum length of an excerpt, in characters. A longer one is cut.
// proto: DictionaryQuestion.contexts "{} characters"
pub const QUESTION_CONTEXT_CHARS: usize = 200;

named_enum! {
    /// The state of a question.
    pub enum QuestionState {
        /// The question waits for a person.
        Open = "open",
        /// A person entered the meaning.
        Answered = "answered",
        /// A person decided that the term needs no entry.
        Dismissed = "dismissed",
    }
}

/// A meaning that a model inferred. It is the inferred entry of the dictionary until a person answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeaningGuess {
    pub expansion: String,
    /// From 0 to 1.
    pub confidence: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DictionaryQuestion {
    /// Derived from the document and the key of the term, so that a repeated ingestion makes no second question.
    pub id: DictionaryQuestionId,
    pub org: OrgId,
    pub document: DocumentId,
    /// The spelling of the term in the document.
    pub term: String,
    /// The key of the term: see [`term_key`].
    pub key: String,
    /// Number of occurrences in the document.
    pub occurrences: u64,
    /// Excerpts of the document around the first occurrences, in one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<String>,
    /// None: no model inferred a meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guess: Option<MeaningGuess>,
    pub state: QuestionState,
    /// User that answered or dismissed the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Timestamp>,
    /// User for whom the document was ingested.
    pub created_by: UserId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Incremented by every change. A write states the version that it expects.
    pub version: u64,
}

/// A question that ingestion found.
#[derive(Debug, Clone, PartialEq)]
pub struct NewQuestion {
    /// The document must be live.
    pub document: DocumentId,
    pub term: String,
    pub occurrences: u64,
    pub contexts: Vec<String>,
    pub guess: Option<MeaningGuess>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DictionaryQuestionChange {
    Create(Box<NewQuestion>),
    /// Has no effect on an answered question.
    Answer,
    /// Has no effect on a dismissed question.
    Dismiss,
    Delete,
}

/// All conditions must hold. None, or an empty list: no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DictionaryQuestionFilter {
    pub document: Option<DocumentId>,
    /// The question is in one of these states.
    pub any_state: Vec<QuestionState>,
    /// The term has one of these keys.
    pub any_key: Vec<String>,
    pub created: Option<CreationPeriod>,
}

impl DictionaryQuestion {
    /// Returns the id of the question about a term in a document.
    pub fn id_of(org: &OrgId, document: &DocumentId, term: &str) -> DictionaryQuestionId {
        DictionaryQuestionId::derive(&[org.as_str(), document.as_str(), &term_key(term)])
    }

    decided_function! {
        DictionaryQuestionChange, QuestionState,
        open: QuestionState::Open, noun: "question", reason: Reason::QuestionDecided
    }
}

const STATE: &str = "state";
const KEY: &str = "key";

impl Resource for DictionaryQuestion {
    type Change = DictionaryQuestionChange;
    type Filter = DictionaryQuestionFilter;
    const KIND: &'static str = "dictionary_question";
    const DELETE: DictionaryQuestionChange = DictionaryQuestionChange::Delete;
    const HAS_PARENT: bool = true;

    common_functions!(DictionaryQuestionId);

    fn parent(&self) -> Option<String> {
        Some(self.document.to_string())
    }

    fn list_row(&self) -> ListRow {
        let terms = [parent_term(&self.document), term(STATE, self.state.as_str()), term(KEY, &self.key)];
        ListRow {
            id: self.id.to_string(),
            terms: terms.into(),
            parent: Some(self.document.to_string()),
            created_at: Some(self.created_at),
            ..ListRow::default()
        }
    }

    fn parent_in(filter: &DictionaryQuestionFilter) -> Option<String> {
        filter.document.as_ref().map(ToString::to_string)
    }

    fn conditions(filter: &DictionaryQuestionFilter) -> Vec<Condition> {
        let DictionaryQuestionFilter { document, any_state, any_key, created } = filter;
        let any = [
            document.iter().map(parent_term).collect::<Vec<_>>(),
            any_state.iter().map(|state| term(STATE, state.as_str())).collect(),
            any_key.iter().map(|key| term(KEY, key)).collect(),
        ];
        Condition::any_terms(any).chain(created.map(Condition::Created)).collect()
    }

    fn apply(
        id: &DictionaryQuestionId,
        write: &Write<DictionaryQuestionChange>,
        before: Option<Self>,
    ) -> Result<Plan<Self>> {
        let done = |question: Self| Ok(Plan::stored(question));
        match (&write.change, before) {
            (DictionaryQuestionChange::Create(new), None) => {
                let NewQuestion { document, term, occurrences, contexts, guess } = NewQuestion::clone(new);
                let cut = |text: String| text.chars().take(QUESTION_CONTEXT_CHARS).collect();
                done(Self {
                    id: id.clone(),
                    org: write.org.clone(),
                    document,
                    key: term_key(&term),
                    term,
                    occurrences,
                    contexts: contexts.into_iter().take(QUESTION_CONTEXTS_MAX).map(cut).collect(),
                    guess,
                    state: QuestionState::Open,
                    decided_by: None,
                    decided_at: None,
                    created_by: write.by.clone(),
                    created_at: write.at,
                    updated_at: write.at,
                    version: 1,
                })
            }
            (DictionaryQuestionChange::Answer, Some(before)) => done(before.decided(write, QuestionState::Answered)?),
            (DictionaryQuestionChange::Dismiss, Some(before)) => done(before.decided(write, QuestionState::Dismissed)?),
            (DictionaryQuestionChange::Delete, Some(_)) => Ok(Plan::deleted()),
            _ => Err(Self::not_found(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_types::op::Expected;

    use super::*;
    use crate::golden::{assert_golden, at, document, org};

    fn apply(change: DictionaryQuestionChange, before: Option<DictionaryQuestion>) -> Result<DictionaryQuestion> {
        let expected = before.as_ref().map_or(Expected::Absent, |before| Expected::Version(before.version));
        let write = Write::by_platform(org(), "key".parse().unwrap(), at(), expected, change);
        let id = DictionaryQuestion::id_of(&org(), &document().id, "MY");
        Ok(DictionaryQuestion::apply(&id, &write, before)?.after.unwrap())
    }

    fn new() -> NewQuestion {
        NewQuestion {
            document: document().id,
            term: "MY".to_owned(),
            occurrences: 3,
            contexts: vec!["Sales in MY rose".to_owned()],
            guess: Some(MeaningGuess { expansion: "Malaysia".to_owned(), confidence: 0.5 }),
        }
    }

    /// Returns a question in a state.
    fn in_state(state: QuestionState) -> DictionaryQuestion {
        let open = apply(DictionaryQuestionChange::Create(Box::new(new())), None).unwrap();
        match state {
            QuestionState::Open => open,
            QuestionState::Answered => apply(DictionaryQuestionChange::Answer, Some(open)).unwrap(),
            QuestionState::Dismissed => apply(DictionaryQuestionChange::Dismiss, Some(open)).unwrap(),
        }
    }

    #[test]
    fn the_stored_format_of_each_state_is_that_of_its_golden_file() {
        for &state in QuestionState::ALL {
            assert_golden(state.as_str(), in_state(state));
        }
        let bare = NewQuestion { contexts: Vec::new(), guess: None, ..new() };
        assert_golden("bare", apply(DictionaryQuestionChange::Create(Box::new(bare)), None).unwrap());
    }

    #[test]
    fn each_change_of_each_state_leads_to_the_state_of_the_diagram_or_is_refused() {
        use QuestionState::{Answered, Dismissed, Open};
        for &state in QuestionState::ALL {
            let before = in_state(state);
            assert_eq!((before.state, QuestionState::from_name(state.as_str())), (state, Some(state)));
            let changes =
                [(DictionaryQuestionChange::Answer, Answered), (DictionaryQuestionChange::Dismiss, Dismissed)];
            for (change, to) in changes {
                let after = apply(change.clone(), Some(before.clone()));
                if state == to {
                    assert_eq!(after.unwrap(), before, "a repeated decision has no effect");
                } else if state == Open {
                    let after = after.unwrap();
                    assert_eq!((after.state, after.version, after.decided_at), (to, 2, Some(at())));
                } else {
                    assert_eq!(after.unwrap_err().reason, Reason::QuestionDecided, "{change:?} of {state:?}");
                }
            }
            let again = apply(DictionaryQuestionChange::Create(Box::new(new())), Some(before)).unwrap_err();
            assert_eq!(again.reason, Reason::NotFound, "a second creation under the id");
        }
    }

    #[test]
    fn a_question_is_found_by_its_document_its_state_and_the_key_of_its_term() {
        let found = in_state(QuestionState::Open);
        let filter = DictionaryQuestionFilter {
            document: Some(document().id),
            any_state: vec![QuestionState::Open, QuestionState::Dismissed],
            any_key: vec![term_key("ｍｙ"), "sg".to_owned()],
            created: Some(CreationPeriod { start: Some(at()), end: None }),
        };
        assert!(found.list_row().matches(&DictionaryQuestion::conditions(&filter)));
        let answered = DictionaryQuestionFilter { any_state: vec![QuestionState::Answered], ..filter.clone() };
        assert!(!found.list_row().matches(&DictionaryQuestion::conditions(&answered)));
        let other = DictionaryQuestionFilter { any_key: vec!["sg".to_owned()], ..filter };
        assert!(!found.list_row().matches(&DictionaryQuestion::conditions(&other)));
    }

    #[test]
    fn excerpts_are_bounded() {
        let contexts = vec!["ä".repeat(QUESTION_CONTEXT_CHARS + 1); QUESTION_CONTEXTS_MAX + 1];
        let new = NewQuestion { contexts, ..new() };
        let found = apply(DictionaryQuestionChange::Create(Box::new(new)), None).unwrap();
        assert_eq!(found.contexts, vec!["ä".repeat(QUESTION_CONTEXT_CHARS); QUESTION_CONTEXTS_MAX]);
    }
}
