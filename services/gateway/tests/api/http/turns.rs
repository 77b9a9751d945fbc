//! The REST routes of conversations and turns, which serve the agents of all profiles.

use folio_types::{ThreadId, TurnId};
use http::Method;
use serde_json::{Value, json};

use super::Http;
use super::assistant::script_sum;
use crate::harness::{Answer, Client, Server};

/// An event of a stream: its name, its id and its data.
type StreamEvent = (String, String, Value);

/// A conversation about a stack without columns, with the agent of the stack.
struct Conversation {
    http: Http,
    /// The path of the organization, with which its routes begin.
    routes: String,
    /// The path of the stack.
    stack: String,
    thread: String,
}

impl Conversation {
    async fn start(server: &Server, client: &Client) -> Self {
        let (http, routes) = (Http::new(server, client), format!("/v0/orgs/{}", client.org));
        let document = client.ready_document("a.txt", "Acme. Total 0.1").await.document_id;
        let fields = json!({ "name": "Bills", "document_ids": [document] });
        let created = http.json(Method::POST, &format!("{routes}/stacks"), &fields).await.json();
        let stack = format!("{routes}/stacks/{}", created["id"].as_str().unwrap());
        let created = http.json(Method::POST, &format!("{stack}/threads"), &json!({})).await.json();
        let thread = created["thread_id"].as_str().unwrap().to_owned();
        Self { http, routes, stack, thread }
    }

    async fn say(&self, body: Value) -> super::Answer {
        let messages = format!("{}/threads/{}/messages", self.routes, self.thread);
        self.http.json(Method::POST, &messages, &body).await
    }

    /// Says something that the agent answers with a call that waits for approval. Returns the data of the event of the pause.
    async fn wait_for_approval(&self, server: &Server) -> Value {
        script_columns(server, "Gross");
        last(&self.say(json!({ "text": "What do we owe?" })).await).2
    }

    async fn turn(&self, turn: &str, action: &str, body: Value) -> super::Answer {
        self.http.json(Method::POST, &format!("{}/turns/{turn}/{action}", self.routes), &body).await
    }

    async fn find(&self, turn: &str) -> Value {
        self.http.get(&format!("{}/turns/{turn}", self.routes)).await.json()
    }

    /// Opens the event stream of a turn again, after the last event that the client received.
    async fn rejoin(&self, turn: &str, last_event: &str) -> super::Answer {
        let path = format!("{}/turns/{turn}/events", self.routes);
        self.http.send(self.http.request(Method::GET, &path).header("last-event-id", last_event)).await
    }

    /// Returns the name of the first column of the stack, or null.
    async fn column(&self) -> Value {
        self.http.get(&self.stack).await.json()["columns"][0]["name"].clone()
    }
}

/// Lets the next answer of the model be a call of `define_columns` with one column.
fn script_columns(server: &Server, name: &str) {
    let columns = json!({ "columns": [{ "name": name, "type": "number" }] });
    server.model.next(Answer::Calls(vec![("define_columns", columns)]));
}

/// Parses the events of a stream of server-sent events. Comments are skipped.
fn events(stream: &str) -> Vec<StreamEvent> {
    let blocks = stream.split("\n\n").filter(|block| block.lines().any(|line| line.starts_with("data: ")));
    blocks
        .map(|block| {
            let of = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            (of("event: ").to_owned(), of("id: ").to_owned(), serde_json::from_str(of("data: ")).unwrap())
        })
        .collect()
}

fn last(stream: &super::Answer) -> StreamEvent {
    assert_eq!(stream.status, 200, "{stream:?}");
    events(&stream.text).pop().unwrap_or_else(|| panic!("{stream:?} has no event"))
}

#[tokio::test]
async fn the_agent_of_a_stack_waits_until_its_columns_are_edited_and_approved() {
    let server = Server::start().await;
    let client = server.member().await;
    let talk = Conversation::start(&server, &client).await;
    script_columns(&server, "Gross");
    let answer = talk.say(json!({ "text": "What do we owe?" })).await;
    assert_eq!(answer.header("content-type"), "text/event-stream; charset=utf-8");
    let all = events(&answer.text);
    assert_eq!(all[0].0, "turn_started", "{all:?}");
    assert_eq!(all[0].2["turn_started"]["thread_id"], json!(talk.thread));
    let (name, id, data) = all.last().unwrap();
    let turn = data["turn_id"].as_str().unwrap();
    assert_eq!((name.as_str(), id), ("awaiting_approval", &format!("{turn}.{}", data["number"].as_str().unwrap())));
    let waiting = talk.find(turn).await;
    assert_eq!(waiting["status"], "TURN_STATUS_AWAITING_APPROVAL", "{waiting}");
    let call = &waiting["pending"][0];
    assert_eq!((&call["name"], talk.column().await), (&json!("define_columns"), Value::Null));

    let busy = talk.say(json!({ "text": "And now?" })).await;
    assert_eq!(busy.json()["code"], "TURN_PENDING", "{busy:?}");
    for (body, status) in [
        (json!({ "approvals": [{ "call_id": "x", "approved": true }] }), 422),
        (json!({ "approvals": [{ "call_id": call["call_id"], "approved": "false" }] }), 422),
        (json!({ "approvals": [], "undecided": "later" }), 422),
        (json!({}), 422),
    ] {
        assert_eq!(talk.turn(turn, "approve", body.clone()).await.status.as_u16(), status, "{body}");
    }
    let undecided = talk.turn(turn, "approve", json!({ "approvals": [] })).await.json();
    assert_eq!(undecided["still_awaiting"]["missing"][0]["call_id"], call["call_id"], "{undecided}");

    server.model.answer("Defined.");
    let edited = json!({ "columns": [{ "name": "Net", "type": "number" }] });
    let decision = json!([{ "call_id": call["call_id"], "approved": true, "arguments": edited }]);
    let approved = talk.turn(turn, "approve", json!({ "approvals": decision })).await.json();
    assert_eq!(approved["completed"]["text"], "Defined.", "{approved}");
    assert_eq!(talk.column().await, "Net", "the call ran with the edited arguments");
    let again = talk.turn(turn, "approve", json!({ "approvals": decision })).await.json();
    assert_eq!(again, approved, "a repetition has the same answer");
    let other = json!([{ "call_id": call["call_id"], "approved": false }]);
    let other = talk.turn(turn, "approve", json!({ "approvals": other })).await;
    assert_eq!(other.json()["code"], "DECISION_CONFLICT", "{other:?}");

    let rest = events(&talk.rejoin(turn, id).await.text);
    assert_eq!(rest.last().map(|(name, ..)| name.as_str()), Some("completed"), "{rest:?}");
    assert!(rest.iter().all(|event| event.1 != *id), "the client has the event of the pause: {rest:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_turn_is_rejected_cancelled_superseded_and_resumed() {
    let server = Server::start().await;
    let client = server.member().await;
    let talk = Conversation::start(&server, &client).await;
    let waiting = talk.wait_for_approval(&server).await;
    let turn = waiting["turn_id"].as_str().unwrap();
    server.model.answer("As you like.");
    let rejected = talk.turn(turn, "approve", json!({ "approvals": [], "undecided": "reject" })).await.json();
    assert_eq!(rejected["completed"]["text"], "As you like.", "{rejected}");
    assert_eq!(rejected["round"]["results"][0]["status"], "CALL_STATUS_REJECTED", "{rejected}");

    let waiting = talk.wait_for_approval(&server).await;
    let cancelled = talk.turn(waiting["turn_id"].as_str().unwrap(), "cancel", Value::Null).await.json();
    assert_eq!(cancelled["status"], "TURN_STATUS_CANCELLED", "{cancelled}");

    let waiting = talk.wait_for_approval(&server).await;
    // The model has no further answer, so that the turn fails.
    let failed = talk.say(json!({ "text": "Hello", "if_pending": "supersede" })).await;
    let (name, _, failed) = last(&failed);
    assert_eq!((name.as_str(), &failed["failed"]["retriable"]), ("failed", &json!(true)), "{failed}");
    let superseded = talk.find(waiting["turn_id"].as_str().unwrap()).await;
    assert_eq!(superseded["status"], "TURN_STATUS_SUPERSEDED", "{superseded}");
    server.model.answer("Hello.");
    let resumed = talk.turn(failed["turn_id"].as_str().unwrap(), "resume", Value::Null).await;
    assert_eq!(last(&resumed).2["completed"]["text"], "Hello.");
    assert_eq!(talk.column().await, Value::Null, "no call ran");
    server.stop().await;
}

#[tokio::test]
async fn the_nodes_of_the_assistant_are_events_that_a_client_rejoins() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, routes) = (Http::new(&server, &client), format!("/v0/orgs/{}", client.org));
    script_sum(&server);
    let question = json!({ "question": "What is 1 + 1?", "stream": true });
    let answer = http.json(Method::POST, &format!("{routes}/assistant/ask"), &question).await;
    let all = events(&answer.text);
    let nodes = all.iter().filter(|(name, ..)| name == "node_started");
    let nodes: Vec<&Value> = nodes.map(|(_, _, data)| &data["node_started"]["name"]).collect();
    assert_eq!(nodes, ["classify_intent", "calculation_agent", "update_memory"], "{all:?}");
    let (name, _, completed) = all.last().unwrap();
    let answer_type = &completed["completed"]["answer_type"];
    assert_eq!((name.as_str(), answer_type), ("completed", &json!("CalculationResponse")), "{completed}");

    let turn = completed["turn_id"].as_str().unwrap();
    let path = format!("{routes}/turns/{turn}/events");
    let rejoin =
        async |last_event: &str| http.send(http.request(Method::GET, &path).header("last-event-id", last_event)).await;
    assert_eq!(events(&rejoin(&all[1].1).await.text), all[2..], "the events after the second one");
    let from = all[3].2["number"].as_str().unwrap();
    assert_eq!(events(&http.get(&format!("{path}?from_event={from}")).await.text), all[3..]);
    let of_other_turn = format!("{}.1", TurnId::new(ThreadId::derive(&["x"]), 1));
    for refused in ["nonsense", of_other_turn.as_str()] {
        assert_eq!(rejoin(refused).await.status, 422, "{refused}");
    }
    assert_eq!(http.get(&format!("{path}?from_event=x")).await.status, 422);

    let threads = format!("{routes}/threads");
    let created = http.json(Method::POST, &threads, &json!({ "profile": "assistant", "title": "Sums" })).await.json();
    script_sum(&server);
    let messages = format!("{threads}/{}/messages", created["thread_id"].as_str().unwrap());
    let said = http.json(Method::POST, &messages, &json!({ "text": "What is 1 + 1?" })).await;
    assert_eq!(last(&said).2["completed"]["text"], "1 + 1 = 2");
    let tag = folio_types::TagId::derive(&["missing"]);
    for (body, status) in [
        (json!({}), 422),
        (json!({ "text": " " }), 422),
        (json!({ "text": "a", "if_busy": "later" }), 422),
        (json!({ "text": "a", "credit_budget": 0 }), 422),
        (json!({ "text": "a", "mentions": [{ "type": "tag", "id": tag }] }), 404),
        (json!({ "text": "a", "mentions": [{ "type": "collection", "id": "x" }] }), 404),
    ] {
        let refused = http.json(Method::POST, &messages, &body).await;
        assert_eq!(refused.status.as_u16(), status, "{body}: {refused:?}");
    }
    for body in [json!({}), json!({ "profile": "assistant", "document_ids": ["../../etc/passwd"] })] {
        assert_eq!(http.json(Method::POST, &threads, &body).await.status, 422, "{body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn invariant_6_conversations_of_other_organizations_and_users_are_like_missing_ones() {
    let server = Server::start().await;
    let client = server.member().await;
    let talk = Conversation::start(&server, &client).await;
    let waiting = talk.wait_for_approval(&server).await;
    let turn = waiting["turn_id"].as_str().unwrap();
    let call = waiting["awaiting_approval"]["pending"][0]["call_id"].clone();
    let calls = server.model.calls();
    let missing = ThreadId::derive(&["x"]);
    let colleague = server.user(&client.org, folio_types::Role::Member).await;
    for stranger in [server.member().await, colleague] {
        let (http, routes) = (Http::new(&server, &stranger), format!("/v0/orgs/{}", stranger.org));
        let approval = json!({ "approvals": [{ "call_id": call, "approved": true }] });
        for (method, path, body) in [
            (Method::POST, "/threads/THREAD/messages", json!({ "text": "Hello" })),
            (Method::GET, "/turns/THREAD.1", Value::Null),
            (Method::GET, "/turns/THREAD.1/events", Value::Null),
            (Method::POST, "/turns/THREAD.1/approve", approval),
            (Method::POST, "/turns/THREAD.1/cancel", Value::Null),
            (Method::POST, "/turns/THREAD.1/resume", Value::Null),
        ] {
            let of = async |thread: &str| {
                let path = format!("{routes}{}", path.replace("THREAD", thread));
                let answer = http.json(method.clone(), &path, &body).await;
                (answer.status.as_u16(), answer.text.replace(thread, "THREAD"))
            };
            let theirs = of(&talk.thread).await;
            assert_eq!(theirs.0, 404, "{method} {path}: {theirs:?}");
            assert_eq!(theirs, of(&missing.to_string()).await, "{method} {path}");
        }
    }
    assert_eq!(server.model.calls(), calls, "no model was called");
    assert_eq!(talk.find(turn).await["status"], "TURN_STATUS_AWAITING_APPROVAL");
    assert_eq!(talk.column().await, Value::Null);
    server.stop().await;
}
