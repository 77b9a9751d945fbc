//! Conversions of questions about terms.

use folio_resources::{DictionaryQuestion, QuestionState};
use folio_types::Etag;

use super::time;
use crate::fields::text_of;
use crate::v1;

same_variants!(QuestionState = v1::DictionaryQuestionState of "state": Open, Answered, Dismissed);

impl From<&DictionaryQuestion> for v1::DictionaryQuestion {
    fn from(question: &DictionaryQuestion) -> Self {
        let guess = question.guess.as_ref();
        Self {
            dictionary_question_id: question.id.to_string(),
            document_id: question.document.to_string(),
            term: question.term.clone(),
            occurrences: question.occurrences,
            contexts: question.contexts.clone(),
            guess: guess.map(|guess| guess.expansion.clone()).unwrap_or_default(),
            confidence: guess.map_or(0.0, |guess| guess.confidence),
            state: v1::DictionaryQuestionState::from(question.state).into(),
            decided_by: text_of(question.decided_by.as_ref()),
            decide_time: question.decided_at.map(time::to_proto),
            created_by: question.created_by.to_string(),
            create_time: Some(time::to_proto(question.created_at)),
            etag: Etag::new(question.version).to_string(),
        }
    }
}
