//! Questions to the assistant, and their typed answers.

use folio_proto::v1;
use folio_proto::v1::mention::Target;
use folio_types::Code;
use folio_types::profile::ASSISTANT_PROFILE;
use serde_json::Value;

use crate::connection::Client;
use crate::error::{Error, Result};

/// A question, a request for a summary, or a calculation. The default restricts neither the documents nor the credit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Question {
    pub text: String,
    /// Restricts a new conversation to these documents. Empty: all documents of the organization.
    pub document_ids: Vec<String>,
    /// Restricts the question to documents with all of these tags. Empty: no restriction.
    pub tag_ids: Vec<String>,
    /// Restricts the question to documents in any of these collections. Empty: no restriction.
    pub collection_ids: Vec<String>,
    /// The conversation that the question continues. Empty: a new one.
    pub thread_id: String,
    /// Empty: the model of the conversation, or the default model of the organization.
    pub model: String,
    /// Maximum credits of the model calls. None: no bound.
    pub credit_budget: Option<u64>,
}

/// An answer of the assistant.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// `AnswerResponse`, `SummarizationResponse` or `CalculationResponse`.
    pub answer_type: String,
    /// The answer as a JSON object of this type. `sources` and `passages` are the evidence.
    pub value: Value,
    /// The answer as a text.
    pub text: String,
    /// The conversation, for a further question.
    pub thread_id: String,
    pub turn_id: String,
    /// The charged credits of all model calls.
    pub credits: u64,
}

impl Question {
    /// Returns the chat request that sends the question.
    fn request(self) -> v1::ChatRequest {
        let Self { text, document_ids, tag_ids, collection_ids, thread_id, model, credit_budget } = self;
        let targets = tag_ids.into_iter().map(Target::TagId);
        let targets = targets.chain(collection_ids.into_iter().map(Target::CollectionId));
        v1::ChatRequest {
            profile: ASSISTANT_PROFILE.to_owned(),
            text,
            document_ids,
            thread_id,
            mentions: targets.map(|target| v1::Mention { target: Some(target) }).collect(),
            model,
            credit_budget,
            ..v1::ChatRequest::default()
        }
    }
}

impl Answer {
    /// Returns the answer of a completed turn.
    ///
    /// # Errors
    /// `FailedPrecondition`: the turn has no typed answer, because the profile of its thread is not that of the assistant.
    fn of(completed: v1::Completed, thread_id: &str, turn_id: &str) -> Result<Self> {
        let value = serde_json::from_str(&completed.answer_json)
            .map_err(|_| Error::new(Code::FailedPrecondition, "the turn has no typed answer"))?;
        Ok(Self {
            answer_type: completed.answer_type,
            value,
            text: completed.text,
            thread_id: thread_id.to_owned(),
            turn_id: turn_id.to_owned(),
            credits: completed.usage.map(|usage| usage.credits).unwrap_or_default(),
        })
    }
}

impl Client {
    /// Asks the assistant and waits for its answer.
    ///
    /// # Errors
    /// The server refuses the question, the turn ends without an answer, or the connection is lost.
    pub async fn ask(&self, question: Question) -> Result<Answer> {
        let mut turn = self.chat(question.request());
        let completed = turn.completed().await?;
        Answer::of(completed, &turn.position().thread_id, &turn.position().turn_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_collections_are_mentions() {
        let (tag_ids, collection_ids) = (vec!["tag_1".to_owned()], vec!["col_1".to_owned()]);
        let request =
            Question { text: "Who pays?".to_owned(), tag_ids, collection_ids, ..Question::default() }.request();
        assert_eq!((request.profile.as_str(), request.text.as_str()), ("assistant", "Who pays?"));
        let targets: Vec<_> = request.mentions.into_iter().filter_map(|mention| mention.target).collect();
        assert_eq!(targets, [Target::TagId("tag_1".to_owned()), Target::CollectionId("col_1".to_owned())]);
    }

    #[test]
    fn an_answer_has_its_type_and_its_members() {
        let completed = v1::Completed {
            text: "1+1 = 2".to_owned(),
            answer_type: "CalculationResponse".to_owned(),
            answer_json: r#"{"expression": "1+1", "result": 2}"#.to_owned(),
            ..v1::Completed::default()
        };
        let answer = Answer::of(completed, "thr_1", "thr_1.1").unwrap();
        assert_eq!((answer.answer_type.as_str(), &answer.value["result"]), ("CalculationResponse", &Value::from(2)));
        assert_eq!((answer.thread_id.as_str(), answer.credits), ("thr_1", 0));
        let without = Answer::of(v1::Completed::default(), "thr_1", "thr_1.1").unwrap_err();
        assert_eq!(without.code(), Code::FailedPrecondition);
    }
}
