//! The routes of the document chat.

use std::time::Duration;

use folio_testkit::wait_for;
use folio_types::{OrgId, PromptId, Role, SchemaId, System, TagId};
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{Answer, Client, Server};

const SOON: Duration = Duration::from_secs(20);

struct Chat {
    server: Server,
    client: Client,
    http: Http,
    /// The path of the chat about a document.
    path: String,
}

impl Chat {
    async fn start() -> Self {
        let server = Server::start().await;
        let client = server.member().await;
        let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
        let path = format!("/v0/orgs/{}/documents/{document}/chat", client.org);
        Self { http: Http::new(&server, &client), server, client, path }
    }

    async fn post(&self, path: &str, body: Value) -> super::Answer {
        self.http.json(Method::POST, &format!("{}{path}", self.path), &body).await
    }

    async fn say(&self, text: &str, more: Value) -> super::Answer {
        let mut body = json!({ "messages": [{ "role": "user", "content": text }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post("", body).await
    }

    async fn thread(&self) -> String {
        let created = self.post("/threads", Value::Null).await;
        created.json()["thread_id"].as_str().unwrap().to_owned()
    }

    async fn read(&self, thread: &str) -> Value {
        self.http.get(&format!("{}/threads/{thread}", self.path)).await.json()
    }

    fn call(&self, names: &[&str]) {
        let calls = names.iter().map(|name| ("create_tag", json!({ "name": name }))).collect();
        self.server.model.next(Answer::Calls(calls));
    }

    async fn tags(&self) -> usize {
        let tags = self.client.call_ok("ListTags", json!({})).await;
        tags["tags"].as_array().map_or(0, Vec::len)
    }
}

/// Returns the frames of an event stream with the ids of their events. Comments are left out.
fn frames(stream: &str) -> Vec<(String, Value)> {
    let blocks = stream.split("\n\n").filter(|block| block.lines().any(|line| line.starts_with("data: ")));
    blocks
        .map(|block| {
            let of = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            (of("id: ").to_owned(), serde_json::from_str(of("data: ")).unwrap())
        })
        .collect()
}

fn types(frames: &[(String, Value)]) -> Vec<&str> {
    frames.iter().map(|(_, frame)| frame["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_chat_streams_its_frames_and_is_stored_in_its_thread() {
    let chat = Chat::start().await;
    let thread = chat.thread().await;
    assert_eq!(chat.read(&thread).await["title"], "New chat");
    chat.server.model.next(Answer::Calls(vec![("list_tags", json!({}))]));
    chat.server.model.answer("There are none.");
    let answer = chat.say("Which tags are there?", json!({ "stream": true, "thread_id": thread })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), "text/event-stream; charset=utf-8");
    assert_eq!((answer.header("cache-control"), answer.header("x-accel-buffering")), ("no-cache", "no"));
    let frames = frames(&answer.text);
    let expected =
        ["tool_calls", "tool_result", "round_executed", "assistant_text_chunk", "assistant_text_done", "done"];
    assert_eq!(types(&frames), expected);
    let has_id: Vec<bool> = frames.iter().map(|(id, _)| id.starts_with(&format!("{thread}.1."))).collect();
    assert_eq!(has_id, [true, true, true, true, false, true], "the last frame of each event has its id");
    let result = &frames[5].1["result"];
    assert_eq!((&result["text"], result["executed_rounds"].as_array().unwrap().len()), (&json!("There are none."), 1));

    let stored = chat.read(&thread).await;
    assert_eq!((&stored["title"], &stored["extraction"]), (&json!("Which tags are there?"), &json!({})));
    let messages = stored["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[0]["content"]), (2, &json!("Which tags are there?")));
    assert_eq!((&messages[1]["role"], &messages[1]["content"]), (&json!("assistant"), &json!("There are none.")));
    assert_eq!(messages[1]["executed_rounds"][0]["tool_calls"][0]["name"], "list_tags");
    assert!(stored.get("pending").is_none());

    chat.server.model.answer("Still none.");
    let more = json!({ "thread_id": thread, "truncate_thread_to_message_count": 0 });
    assert_eq!(chat.say("And now?", more).await.json()["text"], "Still none.");
    assert_eq!(chat.read(&thread).await["messages"].as_array().unwrap().len(), 2, "the first turn was truncated");
    chat.server.stop().await;
}

#[tokio::test]
async fn a_client_rejoins_the_stream_after_the_last_event_that_it_received() {
    let chat = Chat::start().await;
    let thread = chat.thread().await;
    chat.server.model.next(Answer::Calls(vec![("list_tags", json!({}))]));
    chat.server.model.answer("There are none.");
    let answer = chat.say("Which tags are there?", json!({ "stream": true, "thread_id": thread })).await;
    let all = frames(&answer.text);
    let rejoin = async |id: &str| {
        let body = json!({ "messages": [], "stream": true });
        chat.http.send(chat.http.request(Method::POST, &chat.path).header("last-event-id", id).json(&body)).await
    };
    let rest = frames(&rejoin(&all[1].0).await.text);
    assert_eq!(rest, all[2..], "the frames after the second event");
    assert_eq!(chat.server.model.calls(), 2, "no turn begins");
    assert_eq!(rejoin("nonsense").await.status, 422);
    let missing = rejoin(&format!("{}.1.1", folio_types::ThreadId::derive(&["x"]))).await;
    assert_eq!((missing.status.as_u16(), missing.detail()), (404, json!("Thread not found")));

    // The turn continues without its client.
    chat.server.model.delay(Duration::from_millis(500));
    chat.server.model.answer("Done.");
    let body = json!({ "messages": [{ "role": "user", "content": "Go on" }], "stream": true, "thread_id": thread });
    let sent = chat.http.request(Method::POST, &chat.path).json(&body).send().await.unwrap();
    drop(sent);
    wait_for("the answer", SOON, async || {
        let stored = chat.read(&thread).await;
        (stored["messages"][3]["content"] == "Done.").then_some(())
    })
    .await;
    chat.server.stop().await;
}

#[tokio::test]
async fn a_silent_stream_sends_comments() {
    let chat = Chat::start().await;
    chat.server.model.next(Answer::Hang);
    let body = json!({ "messages": [{ "role": "user", "content": "Hello" }], "stream": true });
    let document = chat.path.rsplit('/').nth(1).unwrap();
    let requests = [
        chat.http.request(Method::POST, &chat.path).json(&body),
        chat.http
            .request(Method::POST, "/folio.v1.DocumentService/WatchDocument")
            .json(&json!({ "document_id": document })),
    ];
    let streams = requests.map(|request| async move {
        let (mut response, mut received) = (request.send().await.unwrap(), String::new());
        while !received.contains(": ping\n\n") {
            let chunk = response.chunk().await.unwrap().expect("the stream stays open");
            received += std::str::from_utf8(&chunk).unwrap();
        }
    });
    // The interval of 15 s is a part of the contract, so that real time passes.
    tokio::time::timeout(2 * SOON, futures::future::join_all(streams)).await.expect("comments arrive in time");
    chat.server.stop().await;
}

#[tokio::test]
async fn a_pending_round_runs_what_is_approved_and_rejects_what_is_left_out() {
    let chat = Chat::start().await;
    let thread = chat.thread().await;
    chat.call(&["one", "two"]);
    let answer = chat.say("Make two tags", json!({ "stream": true, "thread_id": thread })).await;
    let pending = frames(&answer.text);
    assert_eq!(types(&pending), ["assistant_text_done", "done"], "calls that wait are not announced");
    let waiting = &pending[1].1["result"];
    let calls = waiting["tool_calls"].as_array().unwrap();
    assert_eq!((calls.len(), &calls[0]["arguments"]), (2, &json!(r#"{"name":"one"}"#)));
    let stored = chat.read(&thread).await;
    assert_eq!(stored["pending"]["turn_id"], waiting["turn_id"]);
    assert_eq!(stored["messages"][1]["tool_calls"], waiting["tool_calls"]);

    let decide =
        |approvals: Value| json!({ "turn_id": waiting["turn_id"], "approvals": approvals, "thread_id": thread });
    let first = json!([{ "call_id": calls[0]["id"], "approved": true }]);
    for (body, status) in [
        (decide(json!([{ "call_id": calls[0]["id"], "approved": "false" }])), 422),
        (decide(json!([{ "call_id": "x", "approved": true }])), 422),
        (json!({ "turn_id": "x", "approvals": [] }), 400),
        (json!({ "turn_id": waiting["turn_id"], "approvals": first, "thread_id": "x" }), 400),
    ] {
        let refused = chat.post("/approve", body).await;
        assert_eq!(refused.status.as_u16(), status, "{refused:?}");
    }
    assert_eq!(chat.tags().await, 0, "nothing runs");
    chat.server.model.answer("Done.");
    let approved = chat.post("/approve", decide(first.clone())).await;
    let result = approved.json();
    assert_eq!((approved.status.as_u16(), &result["text"]), (200, &json!("Done.")), "{result}");
    assert_eq!(result["executed_rounds"][0]["tool_calls"], waiting["tool_calls"], "rejected calls are included");
    assert!(result.get("turn_id").is_none());
    assert_eq!(chat.tags().await, 1);
    assert_eq!(chat.post("/approve", decide(first)).await.json(), result, "a repetition has the same answer");
    let other = chat.post("/approve", decide(json!([{ "call_id": calls[0]["id"], "approved": false }]))).await;
    let text = "Decisions conflict with those already made";
    assert_eq!((other.status.as_u16(), other.detail()), (409, json!(text)));
    chat.server.stop().await;
}

#[tokio::test]
async fn a_read_only_call_with_a_rule_is_rejected_if_it_is_left_out() {
    let chat = Chat::start().await;
    let admin = chat.server.user(&chat.client.org, Role::Admin).await;
    let rule = json!({ "name": "ask", "tools": ["list_schemas"], "ask": {} });
    admin.call_ok("SetPolicy", json!({ "policy": { "rules": [rule] } })).await;
    let calls = vec![("list_schemas", json!({})), ("list_tags", json!({})), ("create_tag", json!({ "name": "a" }))];
    chat.server.model.next(Answer::Calls(calls));
    let waiting = chat.say("Do it", json!({})).await.json();
    let create = &waiting["tool_calls"][2];
    assert_eq!(create["name"], "create_tag", "{waiting}");
    chat.server.model.answer("Done.");
    let approvals = json!([{ "call_id": create["id"], "approved": true }]);
    let decided = chat.post("/approve", json!({ "turn_id": waiting["turn_id"], "approvals": approvals })).await;
    assert_eq!(decided.json()["text"], "Done.", "{decided:?}");
    let turn = chat.client.call_ok("GetTurn", json!({ "turn_id": waiting["turn_id"] })).await;
    let results = turn["turn"]["rounds"][0]["results"].as_array().unwrap();
    let statuses: Vec<&str> = results.iter().map(|result| result["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["CALL_STATUS_REJECTED", "CALL_STATUS_OK", "CALL_STATUS_OK"], "{turn}");
    chat.server.stop().await;
}

#[tokio::test]
async fn invariant_2_a_call_that_an_admin_must_approve_is_answered_to_others_with_403() {
    let chat = Chat::start().await;
    let admin = chat.server.user(&chat.client.org, Role::Admin).await;
    let rule = json!({ "name": "two eyes", "tools": ["create_tag"], "ask": { "roles": ["ROLE_ADMIN"] } });
    admin.call_ok("SetPolicy", json!({ "policy": { "rules": [rule] } })).await;
    chat.call(&["one"]);
    let waiting = chat.say("Do it", json!({})).await.json();
    let approvals = json!([{ "call_id": waiting["tool_calls"][0]["id"], "approved": true }]);
    let body = json!({ "turn_id": waiting["turn_id"], "approvals": approvals });
    let refused = chat.post("/approve", body.clone()).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (403, &json!("POLICY_DENIED")), "{refused:?}");
    assert_eq!(chat.tags().await, 0);
    chat.server.model.answer("Done.");
    let of_admin = Http::new(&chat.server, &admin);
    let approved = of_admin.json(Method::POST, &format!("{}/approve", chat.path), &body).await;
    assert_eq!((&approved.json()["text"], chat.tags().await), (&json!("Done."), 1), "{approved:?}");
    chat.server.stop().await;
}

#[tokio::test]
async fn an_approval_goes_on_through_rounds_that_need_none() {
    let chat = Chat::start().await;
    chat.call(&["one"]);
    let waiting = chat.say("Do it", json!({})).await.json();
    chat.server.model.next(Answer::Calls(vec![("list_tags", json!({}))]));
    chat.call(&["two"]);
    let approvals = json!([{ "call_id": waiting["tool_calls"][0]["id"], "approved": true }]);
    let again = chat.post("/approve", json!({ "turn_id": waiting["turn_id"], "approvals": approvals })).await.json();
    assert_eq!(again["turn_id"], waiting["turn_id"], "{again}");
    assert_eq!((again["executed_rounds"].as_array().unwrap().len(), chat.tags().await), (2, 1), "{again}");
    assert_eq!(again["tool_calls"][0]["arguments"], r#"{"name":"two"}"#);
    chat.server.model.answer("As you like.");
    let all_left_out = json!({ "turn_id": waiting["turn_id"], "approvals": [] });
    let last = chat.post("/approve", all_left_out).await.json();
    assert_eq!((&last["text"], chat.tags().await), (&json!("As you like."), 1), "{last}");
    chat.server.stop().await;
}

#[tokio::test]
async fn a_failure_is_an_error_before_the_first_byte_and_a_frame_after_it() {
    let chat = Chat::start().await;
    let revision = |prefix: &str| format!("{prefix}_{}.1", "0".repeat(32));
    for (more, status, text) in [
        (json!({ "model": "no-such-model" }), 400, "Invalid model: no-such-model"),
        (json!({ "mentions": [{ "type": "schema", "id": "x" }] }), 404, "Schema not found"),
        (json!({ "mentions": [{ "type": "schema", "id": revision(SchemaId::PREFIX) }] }), 404, "Schema not found"),
        (json!({ "mentions": [{ "type": "prompt", "id": revision(PromptId::PREFIX) }] }), 404, "Prompt not found"),
        (json!({ "mentions": [{ "type": "tag", "id": TagId::derive(&["missing"]) }] }), 404, "Tag not found"),
        (json!({ "thread_id": "x" }), 404, "Thread not found"),
    ] {
        for stream in [false, true] {
            let mut body = more.clone();
            body["stream"] = json!(stream);
            let refused = chat.say("Hello", body).await;
            assert_eq!((refused.status.as_u16(), refused.detail()), (status, json!(text)));
        }
    }
    // No answer is scripted.
    let failed = frames(&chat.say("Hello", json!({ "stream": true })).await.text);
    assert_eq!(types(&failed), ["error"]);
    assert!(failed[0].1["error"].is_string() && failed[0].1["code"].is_string(), "{failed:?}");
    assert!(chat.say("Hello", json!({})).await.status.is_server_error());
    chat.server.model.answer("Hello.");
    let named = chat.say("Hello", json!({ "model": "claude-sonnet-4-6" })).await;
    assert_eq!(named.json()["text"], "Hello.", "a client that chooses no model sends this one: {named:?}");
    chat.server.stop().await;
}

#[tokio::test]
async fn a_chat_without_credit_is_answered_with_402() {
    let credit = folio_metering::Options { monthly_allowance: 0, ..folio_metering::Options::default() };
    let server = Server::configured(credit, Default::default()).await;
    let client = server.member().await;
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let path = format!("/v0/orgs/{}/documents/{document}/chat", client.org);
    let http = Http::new(&server, &client);
    let body = |stream: bool| json!({ "messages": [{ "role": "user", "content": "Hello" }], "stream": stream });
    let refused = http.json(Method::POST, &path, &body(false)).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (402, &json!("SPU_EXHAUSTED")), "{refused:?}");
    let streamed = http.json(Method::POST, &path, &body(true)).await;
    let frames = frames(&streamed.text);
    assert_eq!((streamed.status.as_u16(), types(&frames)), (200, vec!["error"]));
    assert!(frames[0].1["error"].as_str().unwrap().starts_with("Insufficient SPU credits"), "{frames:?}");
    server.stop().await;
}

#[tokio::test]
async fn threads_belong_to_their_user_and_document() {
    let chat = Chat::start().await;
    let (first, second) = (chat.thread().await, chat.thread().await);
    chat.server.model.answer("Hello.");
    chat.say("Hello", json!({ "thread_id": first })).await;
    let listed = chat.http.get(&format!("{}/threads", chat.path)).await.json();
    let ids: Vec<&Value> = listed.as_array().unwrap().iter().map(|thread| &thread["id"]).collect();
    assert_eq!(ids, [&json!(first), &json!(second)], "the last updated first");
    let limited = chat.http.get(&format!("{}/threads?limit=1", chat.path)).await.json();
    assert_eq!(limited.as_array().unwrap().len(), 1);
    assert_eq!(chat.http.get(&format!("{}/threads?limit=101", chat.path)).await.status, 422);

    let admin = chat.server.user(&chat.client.org, Role::Admin).await;
    let other = chat.client.ready_document("b.txt", "x").await.document_id;
    let other = format!("/v0/orgs/{}/documents/{other}/chat", chat.client.org);
    let of_admin = Http::new(&chat.server, &admin);
    for answer in [
        of_admin.get(&format!("{}/threads/{first}", chat.path)).await,
        chat.http.get(&format!("{other}/threads/{first}")).await,
        chat.http.get(&format!("{}/threads/x", chat.path)).await,
        of_admin.json(Method::DELETE, &format!("{}/threads/{first}", chat.path), &Value::Null).await,
    ] {
        assert_eq!((answer.status.as_u16(), answer.detail()), (404, json!("Thread not found")));
    }
    assert_eq!(of_admin.get(&format!("{}/threads", chat.path)).await.json(), json!([]));
    let removed = chat.http.json(Method::DELETE, &format!("{}/threads/{second}", chat.path), &Value::Null).await;
    assert_eq!(removed.json(), json!({ "ok": true }));
    assert_eq!(chat.http.get(&format!("{}/threads/{second}", chat.path)).await.status, 404);
    let named = chat.post("/threads", json!({ "title": "Mine" })).await.json();
    assert_eq!(chat.read(named["thread_id"].as_str().unwrap()).await["title"], "Mine");
    chat.server.stop().await;
}

#[tokio::test]
async fn invariant_6_a_turn_of_another_organization_or_document_cannot_be_decided() {
    let chat = Chat::start().await;
    chat.call(&["one"]);
    let waiting = chat.say("Do it", json!({})).await.json();
    let approvals = json!([{ "call_id": waiting["tool_calls"][0]["id"], "approved": true }]);
    let body = json!({ "turn_id": waiting["turn_id"], "approvals": approvals });
    let stranger = chat.server.user(&OrgId::generate(&System), Role::Admin).await;
    let theirs = stranger.ready_document("a.txt", "x").await.document_id;
    let ours = chat.client.ready_document("b.txt", "x").await.document_id;
    let of_stranger = Http::new(&chat.server, &stranger);
    let unknown = json!({ "turn_id": format!("{}.1", folio_types::ThreadId::derive(&["x"])), "approvals": [] });
    let at = |org: &OrgId, document: &str| format!("/v0/orgs/{org}/documents/{document}/chat/approve");
    for answer in [
        of_stranger.json(Method::POST, &at(&stranger.org, &theirs), &body).await,
        chat.http.json(Method::POST, &at(&chat.client.org, &ours), &body).await,
        chat.post("/approve", unknown).await,
    ] {
        assert_eq!((answer.status.as_u16(), answer.detail()), (400, json!("Turn expired or not found")));
    }
    assert_eq!(chat.tags().await, 0);
    chat.server.stop().await;
}

#[tokio::test]
async fn tools_are_listed_by_their_access() {
    let chat = Chat::start().await;
    let tools = chat.http.get(&format!("{}/tools", chat.path)).await.json();
    let names = |list: &str| -> Vec<String> {
        tools[list].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let (read_only, read_write) = (names("read_only"), names("read_write"));
    assert!(read_only.contains(&"get_ocr_text".to_owned()) && read_write.contains(&"create_tag".to_owned()), "{tools}");
    assert!(read_only.is_sorted() && read_write.is_sorted(), "{tools}");
    let missing = chat.http.get(&format!("/v0/orgs/{}/documents/x/chat/tools", chat.client.org)).await;
    assert_eq!((missing.status.as_u16(), missing.detail()), (404, json!("Document not found")));
    chat.server.stop().await;
}
