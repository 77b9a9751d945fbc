//! Tool calls about a document or a stack: turns with a direct call.

use folio_history::command::{ChatCommand, DirectCall, IfBusy};
use folio_history::event::{CallView, ResultView, TurnStatus, TurnView};
use folio_history::journal::CallStatus;
use folio_history::peer::EventStream;
use folio_operations::conversations::GetTurn;
use folio_types::{DocumentId, Error, Reason, RequestId, Result, StackId, TurnId, limits};
use futures::StreamExt as _;
use serde_json::{Map, Value, json};

use super::Client;
use super::approval::{self, Waiting, waiting};
use super::message::{Failure, Protocol};
use super::stack_calls::{self, STACK};
use crate::http_status::public;
use crate::json_member::set_member;

/// The member of `_meta` that identifies a repeated call.
const REQUEST_ID: &str = "request_id";
/// Kind of a thread in errors.
const THREAD: &str = "thread";

pub(super) enum Outcome {
    /// The result of the call, or the state in which it waits.
    Ended(Value),
    /// The call waits, and the server sends the client a request to ask its user.
    Elicits(Box<Waiting>),
}

/// The resource that a direct call is about.
enum CallSubject {
    Document(DocumentId),
    Stack(StackId),
}

impl CallSubject {
    /// Removes the argument that names the subject. Error: the argument is missing or malformed.
    fn take(argument: &str, arguments: &mut Map<String, Value>) -> Result<Self> {
        let hint = format!("search_{argument}s returns ids");
        let Some(Value::String(text)) = arguments.remove(argument) else {
            return Err(Error::invalid_field(argument, format!("is missing: pass the id of a {argument}; {hint}")));
        };
        let subject = if argument == STACK {
            text.parse::<StackId>().map(Self::Stack)
        } else {
            text.parse::<DocumentId>().map(Self::Document)
        };
        subject.map_err(|error| Error::invalid(error.reason, format!("{argument}: {}; {hint}", error.message)))
    }
}

/// Runs a call about a document or a stack, or continues one that waited for an answer of the user. `argument`: the one that names
/// the subject, [`DOCUMENT`](super::tools::DOCUMENT) or [`STACK`].
pub(super) async fn run(
    client: &Client,
    tool: String,
    (argument, mut arguments): (&str, Map<String, Value>),
    params: &Map<String, Value>,
) -> Result<Outcome, Failure> {
    if let Some(state) = params.get("requestState") {
        return approval::resume(client, &tool, state, params.get("inputResponses")).await;
    }
    let request_id = request_id(params)?;
    let subject = match CallSubject::take(argument, &mut arguments) {
        Ok(subject) => subject,
        Err(error) => return Ok(Outcome::Ended(refused(error))),
    };
    let arguments = Value::Object(arguments);
    let bytes = arguments.to_string().len();
    if bytes > limits::ARGUMENTS_BYTES {
        let message = format!("the arguments have {bytes} bytes; the maximum is {}", limits::ARGUMENTS_BYTES);
        return Ok(Outcome::Ended(refused(Error::invalid(Reason::TooLarge, message))));
    }
    match start(client, &subject, (&tool, &arguments), request_id).await {
        Ok(events) => follow(client, events).await,
        Err(error) if error.reason == Reason::UnknownTool => {
            let message = format!("no tool has the name {tool:?}; tools/list returns the names");
            Ok(Outcome::Ended(refused(Error::invalid(Reason::UnknownTool, message))))
        }
        Err(error) => Ok(Outcome::Ended(refused(error))),
    }
}

pub(super) fn request_id(params: &Map<String, Value>) -> Result<Option<RequestId>, Failure> {
    let value = params.get("_meta").and_then(|meta| meta.get(REQUEST_ID));
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let id = value.as_str().and_then(|text| text.parse().ok());
    id.map(Some).ok_or_else(|| Failure::invalid_params("_meta.request_id must be 1 to 128 visible ASCII characters"))
}

/// Starts the turn in the first of the threads of direct calls that is not full. A repeated request finds its turn in the
/// same thread, because full threads still answer it.
async fn start(
    client: &Client,
    subject: &CallSubject,
    (tool, arguments): (&str, &Value),
    request_id: Option<RequestId>,
) -> Result<EventStream> {
    let mut over = None;
    for thread_number in 1..=limits::DIRECT_CALL_THREADS_MAX {
        let call = DirectCall { tool: tool.to_owned(), arguments: arguments.clone(), thread_number };
        match start_in(client, subject, call, request_id.clone()).await {
            Err(error) if is_over(&error) => over = Some(error),
            started => return started,
        }
    }
    Err(over.unwrap_or_else(|| Error::internal("a direct call has no thread")))
}

/// Starts the turn of a call in the thread with the number of the call.
async fn start_in(
    client: &Client,
    subject: &CallSubject,
    call: DirectCall,
    request_id: Option<RequestId>,
) -> Result<EventStream> {
    let text = format!("Run the tool {}.", call.tool);
    let (documents, thread, thread_number) = match subject {
        CallSubject::Document(document) => (vec![document.clone()], None, call.thread_number),
        // The number of a call in a named thread is 1.
        CallSubject::Stack(stack) => {
            (Vec::new(), Some(stack_calls::thread(client, stack, call.thread_number).await?), 1)
        }
    };
    let command = ChatCommand {
        documents,
        thread,
        direct_call: Some(DirectCall { thread_number, ..call }),
        if_busy: IfBusy::Enqueue,
        request_id,
        ..ChatCommand::new(text)
    };
    client.run(command).await
}

/// Returns true if the thread takes no further turn: it is full or was deleted.
fn is_over(error: &Error) -> bool {
    error.reason == Reason::ThreadFull || error.missing_resource().is_some_and(|(kind, _)| kind == THREAD)
}

/// Waits for the end or the pause of a turn.
async fn follow(client: &Client, events: EventStream) -> Result<Outcome, Failure> {
    match closed_turn(client, events).await {
        Ok(turn) => of_turn(client, turn).await,
        Err(lost) => Ok(Outcome::Ended(lost)),
    }
}

/// Returns the state of a turn after its end or pause. Err: the result of a call whose turn is lost or cannot be read.
pub(super) async fn ended_turn(client: &Client, events: EventStream) -> Result<TurnView, Value> {
    let turn_id = closed_turn(client, events).await?;
    client.run(GetTurn { turn_id }).await.map_err(refused)
}

/// Returns the id of a turn after its end or pause. Err: the result of a call whose stream is lost.
async fn closed_turn(client: &Client, events: EventStream) -> Result<TurnId, Value> {
    let mut events = client.api.bounded_events(events);
    let mut turn = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) if event.kind.is_closing() => return Ok(event.turn),
            Ok(event) => turn = Some(event.turn),
            Err(error) => return Err(lost(error, turn.as_ref())),
        }
    }
    let error = Error::unavailable(Reason::NodeLost, "the stream of the turn ended early");
    Err(lost(error, turn.as_ref()))
}

/// Returns the outcome of a turn. Asks the user of the client to decide if the client can and the caller may.
pub(super) async fn of_turn(client: &Client, turn_id: TurnId) -> Result<Outcome, Failure> {
    let view = match client.run(GetTurn { turn_id }).await {
        Ok(view) => view,
        Err(error) => return Ok(Outcome::Ended(refused(error))),
    };
    let Some(waiting) = waiting(&view).filter(|waiting| view.approvable.contains(&waiting.call.id)) else {
        return Ok(Outcome::Ended(result(&view)));
    };
    Ok(match client.protocol {
        Protocol::Handshake { elicits: true } => Outcome::Elicits(Box::new(waiting)),
        Protocol::Stateless { elicits: true } => Outcome::Ended(waiting.input_required()),
        _ => Outcome::Ended(result(&view)),
    })
}

/// Converts a turn to the result of a tool call.
pub(super) fn result(view: &TurnView) -> Value {
    let turn = &view.turn;
    let mut result = match view.status {
        TurnStatus::AwaitingApproval => match waiting(view) {
            Some(waiting) => waiting.result(),
            None => state("waiting_for_approval", turn, false),
        },
        TurnStatus::Completed => match last_result(view) {
            Some(result) => of_result(result),
            None => content(&json!({ "status": "completed", "text": view.text }), false),
        },
        TurnStatus::Running => state("running", turn, false),
        TurnStatus::Cancelled => state("cancelled", turn, true),
        TurnStatus::Expired => state("expired", turn, true),
        TurnStatus::Superseded => state("superseded", turn, true),
        TurnStatus::Failed => refused(view.error.clone().unwrap_or_else(|| Error::internal("the turn failed"))),
    };
    let call = last_call(view).map(|call| call.id.to_string());
    set_member(&mut result, "_meta", json!({ "turn_id": view.turn, "call_id": call, "retriable": view.retriable }));
    result
}

fn state(status: &str, turn: &TurnId, is_error: bool) -> Value {
    content(&json!({ "status": status, "turn_id": turn }), is_error)
}

fn last_call(view: &TurnView) -> Option<&CallView> {
    view.rounds.last().and_then(|round| round.calls.last())
}

fn last_result(view: &TurnView) -> Option<&ResultView> {
    let call = last_call(view)?;
    view.rounds.iter().flat_map(|round| &round.results).find(|result| result.call == call.id)
}

fn of_result(result: &ResultView) -> Value {
    // A result that was cut is no longer JSON.
    let structured = serde_json::from_str::<Value>(&result.content).ok().filter(Value::is_object);
    with_text(&result.content, structured, result.status != CallStatus::Ok)
}

/// Creates a result whose text is the JSON of its structured content.
pub(super) fn content(value: &Value, is_error: bool) -> Value {
    with_text(&value.to_string(), Some(value.clone()), is_error)
}

fn with_text(text: &str, structured: Option<Value>, is_error: bool) -> Value {
    let mut result = json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
    if let Some(structured) = structured {
        set_member(&mut result, "structuredContent", structured);
    }
    result
}

/// Creates the result of a call that was refused.
pub(super) fn refused(error: Error) -> Value {
    let error = public(error);
    let retry_after = error.retry_after.map(|wait| wait.as_secs_f64());
    let reason = json!({
        "reason": error.reason.as_str(),
        "message": error.message,
        "details": error.details,
        "retry_after_seconds": retry_after,
    });
    content(&json!({ "error": reason }), true)
}

/// Creates the result of a call whose turn may continue although its events are lost.
fn lost(error: Error, turn: Option<&TurnId>) -> Value {
    let mut result = refused(error);
    set_member(&mut result, "_meta", json!({ "turn_id": turn }));
    result
}

#[cfg(test)]
mod tests {
    use folio_history::event::RoundView;
    use folio_history::journal::Access;
    use folio_types::{CallId, Digest, ThreadId};

    use super::*;

    fn view(status: TurnStatus, results: Vec<(CallStatus, &str)>) -> TurnView {
        let turn = TurnId::new(ThreadId::derive(&["t"]), 1);
        let id = CallId::new(turn.clone(), 1, 1);
        let call = CallView {
            id: id.clone(),
            name: "create_tag".to_owned(),
            arguments: json!({"name": "a"}),
            digest: Digest::of_json(&json!({"name": "a"})),
            access: Access::ReadWrite,
            needs_approval: true,
            approval_requirement: None,
            group: None,
        };
        let result = |(status, content): (CallStatus, &str)| ResultView {
            call: id.clone(),
            status,
            content: content.to_owned(),
        };
        let round = RoundView {
            round: 1,
            text: String::new(),
            thinking: String::new(),
            calls: vec![call],
            results: results.into_iter().map(result).collect(),
            node: None,
        };
        TurnView { status, rounds: vec![round], ..TurnView::new(turn, "m", "text") }
    }

    #[test]
    fn the_result_of_the_call_is_the_result_of_the_turn() {
        let done = result(&view(TurnStatus::Completed, vec![(CallStatus::Ok, r#"{"tag_id": "x"}"#)]));
        assert_eq!((&done["structuredContent"]["tag_id"], &done["isError"]), (&json!("x"), &json!(false)));
        assert!(done["_meta"]["call_id"].as_str().unwrap().ends_with(".1.1.1"));
        let cut = result(&view(TurnStatus::Completed, vec![(CallStatus::Ok, "{\"a\": [truncated")]));
        assert_eq!((&cut["structuredContent"], &cut["isError"]), (&Value::Null, &json!(false)));
        let failed = result(&view(TurnStatus::Completed, vec![(CallStatus::Rejected, r#"{"error": "no"}"#)]));
        assert_eq!(failed["isError"], true);
        let expired = result(&view(TurnStatus::Expired, Vec::new()));
        assert_eq!((&expired["structuredContent"]["status"], &expired["isError"]), (&json!("expired"), &json!(true)));
        let error = Some(Error::unavailable(Reason::NodeLost, "lost"));
        let lost = TurnView { error, retriable: true, ..view(TurnStatus::Failed, Vec::new()) };
        let lost = result(&lost);
        assert_eq!(lost["structuredContent"]["error"]["reason"], "NODE_LOST");
        assert_eq!(lost["_meta"]["retriable"], true);
    }

    #[test]
    fn a_full_and_a_deleted_thread_are_over_and_a_missing_document_is_not() {
        assert!(is_over(&Error::precondition(Reason::ThreadFull, "full")));
        assert!(is_over(&Error::not_found("thread", "thr_x")));
        assert!(!is_over(&Error::not_found("document", "doc_x")));
        assert!(!is_over(&Error::precondition(Reason::TurnPending, "pending")));
    }

    #[test]
    fn the_subject_of_a_call_is_removed_from_its_arguments() {
        let stack = StackId::derive(&["s"]);
        let take = |argument: &str, value: Value| {
            let mut arguments = value.as_object().unwrap().clone();
            let subject = CallSubject::take(argument, &mut arguments);
            (subject, arguments)
        };
        let (subject, rest) = take(STACK, json!({ "stack": stack, "columns": [] }));
        assert!(matches!(subject, Ok(CallSubject::Stack(id)) if id == stack));
        assert_eq!(Value::Object(rest), json!({ "columns": [] }));
        for (argument, value) in
            [("stack", json!({})), ("document", json!({ "document": 7 })), ("stack", json!({ "stack": "x" }))]
        {
            let error = take(argument, value).0.err().unwrap();
            assert!(error.to_string().contains(&format!("search_{argument}s")), "{error}");
        }
    }

    #[test]
    fn the_id_of_a_request_is_checked() {
        let id = |value: Value| request_id(json!({"_meta": {"request_id": value}}).as_object().unwrap());
        assert_eq!(id(json!("r-1")).unwrap(), Some("r-1".parse().unwrap()));
        assert_eq!(id(Value::Null).unwrap(), None);
        assert_eq!(request_id(&Map::new()).unwrap(), None);
        for bad in [json!(""), json!("a b"), json!(7), json!("x".repeat(129))] {
            assert!(id(bad.clone()).is_err(), "{bad}");
        }
    }
}
