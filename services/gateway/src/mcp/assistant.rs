//! The tool `ask`: a question to the assistant, whose answer has a type and sources.

use folio_history::command::ChatCommand;
use folio_history::event::{TurnStatus, TurnView};
use folio_resources::CollectionId;
use folio_types::{DocumentId, Result, TagId, ThreadId, limits};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Client;
use super::call::{self, Outcome};
use super::message::Failure;
use super::tools::{parse, tool};
use crate::assistant_question::{Question, typed_answer};
use crate::json_member::set_member;

pub(super) const ASK: &str = "ask";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    question: String,
    #[serde(default)]
    document_ids: Vec<DocumentId>,
    #[serde(default)]
    tag_ids: Vec<TagId>,
    #[serde(default)]
    collection_ids: Vec<CollectionId>,
    thread_id: Option<ThreadId>,
}

/// Describes the tool.
pub(super) fn description() -> Value {
    let text = "Asks the assistant of the organization and returns its answer with sources. Call it for a question about facts, \
        for a summary, or for a calculation from numbers in documents; search only finds passages. A model of the organization \
        answers, which costs credit. Returns type (AnswerResponse, SummarizationResponse or CalculationResponse), answer (with \
        sources and passages: document_id, document_name, page, quote) and thread_id for a further question.";
    let (max, mentions) = (limits::DOCUMENTS_PER_THREAD, limits::MENTIONS_MAX);
    let properties = json!({
        "question": { "type": "string", "description": "The question, the request for a summary, or the calculation." },
        "document_ids": { "type": "array", "items": { "type": "string" }, "maxItems": max,
            "description": "Only these documents, by ids from search_documents. Only without thread_id. Default: all." },
        "tag_ids": { "type": "array", "items": { "type": "string" }, "maxItems": mentions,
            "description": "Only documents with all of these tags, by ids from list_tags. Default: no condition." },
        "collection_ids": { "type": "array", "items": { "type": "string" }, "maxItems": mentions,
            "description": "Only documents in any of these collections, by ids. Default: no condition." },
        "thread_id": { "type": "string", "description": "The thread_id of an earlier result, to continue its conversation. \
            Default: a new conversation." },
    });
    tool(ASK, text, (properties, &["question"]), true)
}

/// Runs a turn of the assistant to its end.
pub(super) async fn ask(
    client: &Client,
    arguments: Map<String, Value>,
    params: &Map<String, Value>,
) -> Result<Outcome, Failure> {
    let request_id = call::request_id(params)?;
    let Arguments { question: text, document_ids: documents, tag_ids: tags, collection_ids: collections, thread_id } =
        match parse(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return Ok(Outcome::Ended(call::refused(error))),
        };
    let question = Question { text, documents, tags, collections, thread: thread_id };
    let command = match question.command() {
        Ok(command) => ChatCommand { request_id, ..command },
        Err(error) => return Ok(Outcome::Ended(call::refused(error))),
    };
    let events = match client.run(command).await {
        Ok(events) => events,
        Err(error) => return Ok(Outcome::Ended(call::refused(error))),
    };
    match call::ended_turn(client, events).await {
        Ok(view) => Ok(Outcome::Ended(result(&view))),
        Err(lost) => Ok(Outcome::Ended(lost)),
    }
}

/// Returns the typed answer of a completed turn, else its state.
fn result(view: &TurnView) -> Value {
    let answer = typed_answer(&view.rounds).filter(|_| view.status == TurnStatus::Completed);
    let Some((answer_type, answer)) = answer else { return call::result(view) };
    let content = json!({ "type": answer_type, "answer": answer, "thread_id": view.turn.thread });
    let mut result = call::content(&content, false);
    set_member(&mut result, "_meta", json!({ "turn_id": view.turn }));
    result
}

#[cfg(test)]
mod tests {
    use folio_history::event::RoundView;
    use folio_history::journal::{NodeEnd, RoundNode};
    use folio_types::TurnId;
    use folio_types::profile::NodeKind;

    use super::*;

    #[test]
    fn the_result_of_a_completed_turn_is_its_typed_answer() {
        let turn = TurnId::new(ThreadId::derive(&["t"]), 1);
        let node = |kind, answer: Value| {
            let end = Some(NodeEnd { answer: Some(answer), is_default: false, next: None });
            let (name, answer_type) = ("node".to_owned(), "AnswerResponse".to_owned());
            RoundView { node: Some(Box::new(RoundNode { name, kind, answer_type, end })), ..RoundView::new(1) }
        };
        let rounds = vec![
            node(NodeKind::Answer, json!({ "answer": "42", "sources": [] })),
            node(NodeKind::Memory, json!({ "summary": "s" })),
        ];
        let view = TurnView { status: TurnStatus::Completed, rounds, ..TurnView::new(turn.clone(), "m", "q") };
        let found = result(&view);
        assert_eq!(found["structuredContent"]["answer"]["answer"], "42", "{found}");
        assert_eq!(found["structuredContent"]["thread_id"], json!(turn.thread));
        let running = TurnView { status: TurnStatus::Running, ..view };
        assert_eq!(result(&running)["structuredContent"]["status"], "running");
    }
}
