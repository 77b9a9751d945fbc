//! The route of the assistant: a question that is answered when its turn has ended, or by the events of the turn. No client of DocRouter
//! calls it.

use axum::response::IntoResponse as _;
use folio_history::command::ChatCommand;
use folio_history::event::EventKind;
use folio_resources::fields;
use folio_types::budget::check_credit_budget;
use folio_types::{Error, Reason, ThreadId, limits};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::chat::require_mentioned;
use super::endpoint::post;
use super::extract::{Client, Json};
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};
use super::turn_events::{TurnAnswer, TurnEvents, closing_event};
use crate::assistant_question::{Question, typed_answer};

pub(super) fn routes() -> Vec<Route> {
    vec![route::<ChatCommand>(Level::Own, post(org_path!("/assistant/ask"), ask))]
}

/// A question to the assistant.
#[derive(Debug, Deserialize, ToSchema)]
struct AssistantQuestion {
    /// The question, the request for a summary, or the calculation: not blank, at most 128 KiB.
    question: String,
    /// Only these documents, at most 100. Only without `thread_id`. Null or empty: all documents of the organization.
    document_ids: Option<Vec<String>>,
    /// Only documents with all of these tags, at most 20 with the collections. Null or empty: no condition.
    tag_ids: Option<Vec<String>>,
    /// Only documents in any of these collections. Null or empty: no condition.
    collection_ids: Option<Vec<String>>,
    /// Images of the question: at most 4 ids of `message_images`, of images that the caller uploaded or that the conversation
    /// contains. Null or empty: none.
    image_ids: Option<Vec<String>>,
    /// The conversation that the question continues. Null: a new one.
    thread_id: Option<String>,
    /// The model. Default: that of the conversation, or the default model of the organization.
    model: Option<String>,
    /// Maximum credits of the model calls. Default: no bound.
    credit_budget: Option<u64>,
    /// True: the answer is a stream of the events of the turn. Default: false.
    stream: Option<bool>,
}

/// An answer of the assistant.
#[derive(Debug, Serialize, ToSchema)]
struct AssistantAnswer {
    /// The type of the answer: `AnswerResponse`, `SummarizationResponse` or `CalculationResponse`.
    #[serde(rename = "type")]
    answer_type: String,
    /// The answer with its sources and passages.
    #[schema(value_type = Object)]
    answer: Value,
    /// The answer as a text.
    text: String,
    /// The conversation, for a further question.
    thread_id: String,
    turn_id: String,
    /// The charged credits of all model calls.
    credits: u64,
}

async fn ask(client: Client, Json(body): Json<AssistantQuestion>) -> Reply<TurnAnswer<AssistantAnswer>> {
    let is_stream = body.stream.unwrap_or_default();
    let command = ChatCommand { request_id: client.request_id().cloned(), ..body.command()? };
    require_mentioned(&client, &command.mentions).await?;
    let events = client.run(command).await?;
    if is_stream {
        return Ok(TurnAnswer::Events(TurnEvents::new(&client, events).into_response()));
    }
    let event = closing_event(client.bounded(events)).await?;
    match event.kind {
        EventKind::Completed { text, rounds, usage, .. } => {
            let (answer_type, answer) = typed_answer(&rounds).ok_or_else(|| unfinished("it has no typed answer"))?;
            Ok(TurnAnswer::Result(Box::new(Json(AssistantAnswer {
                answer_type: answer_type.to_owned(),
                answer: answer.clone(),
                text,
                thread_id: event.turn.thread.to_string(),
                turn_id: event.turn.to_string(),
                credits: usage.credits,
            }))))
        }
        EventKind::Failed { error, .. } => Err(error.into()),
        EventKind::AwaitingApproval { .. } => Err(unfinished("a call waits for an approval; see the inbox").into()),
        _ => Err(unfinished("it was ended before its answer").into()),
    }
}

impl AssistantQuestion {
    fn command(self) -> Result<ChatCommand, Error> {
        let ids = |ids: Option<Vec<String>>| ids.unwrap_or_default();
        let thread = self.thread_id.filter(|id| !id.is_empty());
        let thread = thread.map(|id| id.parse::<ThreadId>()).transpose();
        let question = Question {
            text: self.question,
            documents: fields::ids("document_ids", &ids(self.document_ids), limits::DOCUMENTS_PER_THREAD)?,
            tags: fields::tags("tag_ids", &ids(self.tag_ids))?,
            collections: fields::ids("collection_ids", &ids(self.collection_ids), limits::MENTIONS_MAX)?,
            thread: thread
                .map_err(|error| Error::invalid_field("thread_id", error.message).with_reason(error.reason))?,
        };
        let images = fields::ids("image_ids", &ids(self.image_ids), limits::MESSAGE_IMAGES_MAX)?;
        Ok(ChatCommand {
            images,
            model: self.model.filter(|model| !model.is_empty()),
            credit_budget: check_credit_budget(self.credit_budget)?,
            ..question.command()?
        })
    }
}

fn unfinished(reason: &str) -> Error {
    Error::precondition(Reason::TurnEnded, format!("the turn has no answer: {reason}"))
}
