//! Threads over the wire: working state, fork, truncation, ephemeral threads, and the window of messages for the model.

use folio_proto::v1;
use folio_proto::v1::message::Kind;

use crate::client::{ask, refused};
use crate::sandbox::Sandbox;

const SCRIPT: &str = "
rules:
  - when: {response_format: true}
    answer: {text: '{\"total\": 957}'}
  - when: {user: set up}
    rounds:
      - calls:
          - name: create_schema
            arguments:
              name: Bill
              response_format:
                type: json_schema
                json_schema:
                  name: bill
                  strict: true
                  schema: {type: object, properties: {total: {type: number}}, required: [total], additionalProperties: false}
      - calls: [{name: create_prompt, arguments: {name: P, content: Extract., schema_id: '{{last.create_schema.schema_id}}'}}]
      - calls: [{name: run_extraction}]
      - text: Set up.
  - when: {user: correct}
    rounds:
      - calls: [{name: update_extraction_field, arguments: {path: total, value: 1250}}]
      - text: Corrected.
  - when: {user: {prefix: say}}
    answer: {text: 'said: {{user}}'}
";

fn auto(thread: &str, text: &str) -> v1::ChatRequest {
    v1::ChatRequest { thread_id: thread.into(), text: text.into(), auto_approve: true, ..Default::default() }
}

fn total(state: Option<&v1::WorkingState>) -> Option<String> {
    Some(state?.extraction.as_ref()?.data_json.clone())
}

#[tokio::test]
async fn fork_and_truncate_restore_the_working_state_that_belonged_there() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.send(v1::ChatRequest { auto_approve: true, ..ask(&document, "set up") }).await.unwrap();
    let thread = stream.thread();
    let completed = stream.completed().await;
    let state = completed.working_state.unwrap();
    assert!(state.schema_revid.starts_with("sch_") && state.prompt_revid.starts_with("prm_"));
    assert_eq!(total(Some(&state)).unwrap(), "{\"total\":957}");
    let corrected = client.send(auto(&thread, "correct")).await.unwrap().completed().await;
    assert_eq!(total(corrected.working_state.as_ref()).unwrap(), "{\"total\":1250}");

    let fork = v1::ForkThreadRequest { thread_id: thread.clone(), message_count: Some(2), ..Default::default() };
    let fork = client.threads.clone().fork_thread(fork).await.unwrap().into_inner().thread.unwrap();
    assert_eq!(total(fork.working_state.as_ref()).unwrap(), "{\"total\":957}");
    assert_ne!(fork.thread_id, thread);

    let request = v1::ChatRequest { truncate_to_message_count: Some(2), ..auto(&thread, "say again") };
    let again = client.send(request).await.unwrap().completed().await;
    assert_eq!(again.text, "said: say again");
    assert_eq!(total(again.working_state.as_ref()).unwrap(), "{\"total\":957}");
    let messages = client.thread(&thread).await.messages;
    let users: Vec<_> = messages
        .iter()
        .filter_map(|message| if let Some(Kind::User(user)) = &message.kind { Some(user.text.as_str()) } else { None })
        .collect();
    assert_eq!(users, ["set up", "say again"]);
}

#[tokio::test]
async fn an_ephemeral_thread_is_hidden_and_brings_its_own_history() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let user = |text: &str| v1::Message {
        kind: Some(Kind::User(v1::UserMessage { text: text.into() })),
        ..Default::default()
    };
    // An assistant message whose call lacks its result: it is sent as text only, or the endpoint would refuse it.
    let dangling = v1::Message {
        kind: Some(Kind::Assistant(v1::AssistantMessage {
            text: "I was about to look.".into(),
            calls: vec![v1::MessageCall { id: "x".into(), name: "list_tags".into(), arguments_json: "{}".into() }],
            ..Default::default()
        })),
        ..Default::default()
    };
    let request =
        v1::ChatRequest { ephemeral: true, history: vec![user("earlier words"), dangling], ..ask(&document, "say hi") };
    let stream = client.send(request).await.unwrap();
    let thread = stream.thread();
    stream.completed().await;
    let sent = sandbox.sim.chats().await.pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("earlier words") && sent.contains("I was about to look."), "{sent}");
    assert!(!sent.contains("tool_calls"), "{sent}");
    let listed = client.threads.clone().list_threads(v1::ListThreadsRequest::default()).await.unwrap().into_inner();
    assert!(listed.threads.iter().all(|found| found.thread_id != thread));
    let found = client.thread(&thread).await.thread.unwrap();
    assert!(found.ephemeral && found.expire_time.is_some());
}

#[tokio::test]
async fn threads_are_listed_searched_renamed_and_deleted() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let long = format!("say {}", "word ".repeat(30));
    for text in ["say one", "say two", long.as_str()] {
        client.chat(&document, text).await.completed().await;
    }
    let list = |request: v1::ListThreadsRequest| {
        let mut threads = client.threads.clone();
        async move { threads.list_threads(request).await.unwrap().into_inner() }
    };
    let all = list(v1::ListThreadsRequest::default()).await;
    assert_eq!(all.total_size, 3);
    assert_eq!(all.threads[0].title.chars().count(), 50, "the first 50 characters of the first message");
    assert_eq!(all.threads[2].title, "say one", "newest first");
    let mut paged = Vec::new();
    let mut token = String::new();
    loop {
        let page = list(v1::ListThreadsRequest { page_size: 2, page_token: token, ..Default::default() }).await;
        paged.extend(page.threads.iter().map(|thread| thread.thread_id.clone()));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(paged, all.threads.iter().map(|thread| thread.thread_id.clone()).collect::<Vec<_>>());

    let id = all.threads[1].thread_id.clone();
    let rename = v1::RenameThreadRequest { thread_id: id.clone(), title: "Renamed".into(), ..Default::default() };
    client.threads.clone().rename_thread(rename).await.unwrap();
    assert_eq!(client.thread(&id).await.thread.unwrap().title, "Renamed");
    let delete = v1::DeleteThreadRequest { thread_id: id.clone(), ..Default::default() };
    client.threads.clone().delete_thread(delete).await.unwrap();
    let get = v1::GetThreadRequest { thread_id: id.clone(), ..Default::default() };
    assert_eq!(refused(client.threads.clone().get_thread(get).await).code, folio_types::Code::NotFound);
    assert_eq!(refused(client.send(auto(&id, "say hi")).await).code, folio_types::Code::NotFound);
    assert_eq!(list(v1::ListThreadsRequest::default()).await.total_size, 2);
}

#[tokio::test]
async fn the_window_is_the_last_twenty_messages_and_the_current_turn() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "say 0").await;
    let thread = stream.thread();
    stream.completed().await;
    for number in 1..=12 {
        client.say(&thread, &format!("say {number}")).await.completed().await;
    }
    let sent = sandbox.sim.chats().await.pop().unwrap().body["messages"].as_array().unwrap().clone();
    let words: Vec<&str> = sent.iter().skip(1).map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(words.len(), 21);
    assert_eq!((words[0], words[20]), ("say 2", "say 12"));
    assert_eq!(sent[0]["role"], "system");
}

#[tokio::test]
async fn the_thread_keeps_its_model() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let request = v1::ChatRequest { model: "second".into(), ..ask(&document, "say a") };
    let stream = client.send(request).await.unwrap();
    let thread = stream.thread();
    stream.completed().await;
    client.say(&thread, "say b").await.completed().await;
    let models: Vec<_> = sandbox.sim.chats().await.iter().map(|chat| chat.body["model"].clone()).collect();
    assert_eq!(models, ["second-upstream", "second-upstream"]);
    assert_eq!(client.thread(&thread).await.thread.unwrap().model, "second");
}

#[tokio::test]
async fn signed_thinking_is_sent_back_and_unsigned_is_not() {
    let script = "
rules:
  - when: {user: signed}
    rounds:
      - {calls: [{name: list_tags}], thinking: [{text: my signed thought, signature: sig-7}]}
      - text: Done.
  - when: {user: unsigned}
    rounds:
      - {calls: [{name: list_tags}], thinking: [{text: my loose thought}], thinking_form: reasoning_content}
      - text: Done.
";
    let sandbox = Sandbox::start(script).await;
    let (client, document) = sandbox.with_document().await;
    client.chat(&document, "signed").await.completed().await;
    let sent = sandbox.sim.chats().await.pop().unwrap().body;
    assert!(sent["messages"].to_string().contains("sig-7"), "{sent}");
    assert!(sent.get("thinking").is_some() || sent.get("reasoning_effort").is_some(), "asked to think: {sent}");
    client.chat(&document, "unsigned").await.completed().await;
    let sent = sandbox.sim.chats().await.pop().unwrap().body;
    assert!(!sent["messages"].to_string().contains("my loose thought"), "{sent}");
    assert!(sent.get("thinking").is_none(), "the parameter is left out: {sent}");
}
