//! Refusals before `turn_started`: a status, never an event.

use folio_proto::v1;
use folio_types::{Code, DocumentId, SchemaId, TagId, ThreadId};

use crate::client::{Client, ask, refused};
use crate::sandbox::Sandbox;

const SCRIPT: &str = "
rules:
  - when: {user: held}
    fault: {hold: {gate: g}}
    answer: {text: Late.}
  - when: {user: write}
    rounds:
      - calls: [{name: create_tag, arguments: {name: made}}]
      - text: Done.
  - answer: {text: Hello.}
";

#[tokio::test]
async fn a_call_without_a_good_token_is_refused() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (_, document) = sandbox.with_document().await;
    let token = sandbox.token();
    let (id, secret) = token.rsplit_once('_').unwrap();
    let flipped: String = secret.chars().rev().collect();
    let wrong = format!("{id}_{flipped}");
    for token in [None, Some(""), Some("nonsense"), Some(wrong.as_str()), Some(id), Some("folio__")] {
        let client = Client::connect(&sandbox.url(), token).await;
        let error = refused(client.send(ask(&document, "hi")).await);
        assert_eq!((error.code, error.reason.as_str()), (Code::Unauthenticated, "INVALID_TOKEN"), "{token:?}");
        let listed = client.tags.clone().list_tags(v1::ListTagsRequest::default()).await;
        assert_eq!(refused(listed).code, Code::Unauthenticated, "{token:?}");
        let uploaded = client.try_upload("a.txt", b"a").await;
        assert_eq!(refused(uploaded).code, Code::Unauthenticated, "{token:?}");
    }
    assert!(sandbox.sim.chats().await.is_empty());
}

#[tokio::test]
async fn a_chat_that_names_what_is_not_there_is_refused() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let nobody = DocumentId::derive(&["nobody"]).to_string();
    let thread = ThreadId::derive(&["nobody"]).to_string();
    let good = ask(&document, "hi");
    let missing = (Code::NotFound, "NOT_FOUND", "");
    let no_model = (Code::FailedPrecondition, "MODEL_NOT_AVAILABLE", "");
    let invalid = |reason, field| (Code::InvalidArgument, reason, field);
    let documents = invalid("INVALID_FIELD", "document_ids");
    let cases: Vec<(&str, v1::ChatRequest, _)> = vec![
        ("document", ask(&nobody, "hi"), missing),
        ("thread", v1::ChatRequest { thread_id: thread, text: "hi".into(), ..Default::default() }, missing),
        ("no document", v1::ChatRequest { text: "hi".into(), ..Default::default() }, documents),
        ("two", v1::ChatRequest { document_ids: vec![document.clone(), nobody], ..good.clone() }, documents),
        ("model", v1::ChatRequest { model: "nothing".into(), ..good.clone() }, no_model),
        ("model off", v1::ChatRequest { model: "off".into(), ..good.clone() }, no_model),
        ("not for chats", v1::ChatRequest { model: "extractor".into(), ..good.clone() }, no_model),
        ("profile", v1::ChatRequest { profile: "pilot".into(), ..good.clone() }, invalid("UNKNOWN_PROFILE", "profile")),
        (
            "tool",
            v1::ChatRequest { auto_approved_tools: vec!["rm".into()], ..good.clone() },
            invalid("UNKNOWN_TOOL", "auto_approved_tools[0]"),
        ),
    ];
    for (what, request, (code, reason, field)) in cases {
        let error = refused(client.send(request).await);
        let named = error.violations.first().map_or("", |violation| violation.field.as_str());
        assert_eq!((error.code, error.reason.as_str(), named), (code, reason, field), "{what}: {error:?}");
        assert!(!error.message.is_empty(), "{what}");
    }
    assert!(sandbox.sim.chats().await.is_empty(), "no model was called");
    let listed = client.threads.clone().list_threads(v1::ListThreadsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.total_size, 0, "no thread was left by a refused chat: {listed:?}");
}

#[tokio::test]
async fn mentions_of_what_is_not_there_do_no_harm() {
    use v1::mention::Target;
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let mention = |target| v1::Mention { target: Some(target) };
    let request = v1::ChatRequest {
        mentions: vec![
            mention(Target::SchemaRevid(format!("{}.1", SchemaId::derive(&["nobody"])))),
            mention(Target::TagId(TagId::derive(&["nobody"]).to_string())),
        ],
        ..ask(&document, "hi")
    };
    client.send(request).await.unwrap().completed().await;
    let sent = sandbox.sim.chats().await.pop().unwrap().body["messages"][0]["content"].to_string();
    assert!(sent.contains("Not found: it was deleted or never existed."), "{sent}");
}

#[tokio::test]
async fn a_busy_thread_refuses_queues_or_is_interrupted() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let running = client.chat(&document, "held").await;
    let (thread, turn) = (running.thread(), running.turn());
    sandbox.sim.until_held().await;
    let next = |if_busy: v1::IfBusy| v1::ChatRequest {
        thread_id: thread.clone(),
        text: "hi".into(),
        if_busy: if_busy.into(),
        ..Default::default()
    };
    let error = refused(client.send(next(v1::IfBusy::Reject)).await);
    assert_eq!(error.reason.as_str(), "TURN_BUSY");

    // Of nine that are to wait one is refused, while the turn before them runs.
    let mut queued = tokio::task::JoinSet::new();
    for _ in 0..9 {
        let (client, request) = (client.clone(), next(v1::IfBusy::Enqueue));
        queued.spawn(async move { Ok::<_, tonic::Status>(client.send(request).await?.completed().await) });
    }
    let first = crate::within("a full queue", queued.join_next()).await.unwrap().unwrap();
    assert_eq!(refused(first).reason.as_str(), "QUEUE_FULL");
    sandbox.sim.open("g").await;
    assert_eq!(running.completed().await.text, "Late.");
    while let Some(turn) = queued.join_next().await {
        assert_eq!(turn.unwrap().unwrap().text, "Hello.");
    }
    assert_eq!(client.turn(&turn).await.status(), v1::TurnStatus::Completed);
}

#[tokio::test]
async fn an_interrupting_chat_cancels_the_running_turn_first() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let running = client.chat(&document, "held").await;
    let (thread, turn) = (running.thread(), running.turn());
    sandbox.sim.until_held().await;
    let request = v1::ChatRequest {
        thread_id: thread,
        text: "hi".into(),
        if_busy: v1::IfBusy::Interrupt.into(),
        ..Default::default()
    };
    assert_eq!(client.send(request).await.unwrap().completed().await.text, "Hello.");
    assert!(matches!(running.close().await, v1::event::Kind::Cancelled(_)));
    assert_eq!(client.turn(&turn).await.status(), v1::TurnStatus::Cancelled);
}

#[tokio::test]
async fn a_waiting_thread_refuses_a_chat_that_does_not_supersede() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "write").await;
    let thread = stream.thread();
    stream.pause().await;
    let request = v1::ChatRequest { thread_id: thread.clone(), text: "hi".into(), ..Default::default() };
    assert_eq!(refused(client.send(request).await).reason.as_str(), "TURN_PENDING");
    assert!(client.thread(&thread).await.pending_turn.is_some());
}

#[tokio::test]
async fn health_and_reflection_answer_without_a_token() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let sandbox = Sandbox::start(SCRIPT).await;
    let channel = tonic::transport::Endpoint::from_shared(sandbox.url()).unwrap().connect().await.unwrap();
    let asked =
        |asked| tonic_reflection::pb::v1::ServerReflectionRequest { host: String::new(), message_request: Some(asked) };
    let mut client = ServerReflectionClient::new(channel);
    let details = ["ErrorInfo", "BadRequest", "RetryInfo", "QuotaFailure"];
    for name in details.map(|name| format!("google.rpc.{name}")) {
        let request = tokio_stream::once(asked(MessageRequest::FileContainingSymbol(name.clone())));
        let mut answers = client.server_reflection_info(request).await.unwrap().into_inner();
        let answer = answers.message().await.unwrap().unwrap().message_response;
        assert!(matches!(answer, Some(MessageResponse::FileDescriptorResponse(_))), "{name}: {answer:?}");
    }
    let request = tokio_stream::once(asked(MessageRequest::ListServices(String::new())));
    let mut answers = client.server_reflection_info(request).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) = answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list")
    };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    for service in ["Conversation", "Thread", "Document", "Schema", "Prompt", "Tag", "Extraction", "Model"] {
        assert!(names.contains(&format!("folio.v1.{service}Service")), "{service} in {names:?}");
    }
}

#[tokio::test]
async fn refusals_carry_the_reason_that_a_client_decides_by() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let mut c = client.clone();
    let mut found = Vec::new();
    let mut note = |wanted: &'static str, error: folio_types::Error| found.push((wanted, error.reason.as_str()));

    let profile = v1::ChatRequest { profile: "pilot".into(), ..ask(&document, "hi") };
    note("UNKNOWN_PROFILE", refused(client.send(profile).await));
    let tool = v1::ChatRequest { auto_approved_tools: vec!["rm".into()], ..ask(&document, "hi") };
    note("UNKNOWN_TOOL", refused(client.send(tool).await));
    let model = v1::ChatRequest { model: "off".into(), ..ask(&document, "hi") };
    note("MODEL_NOT_AVAILABLE", refused(client.send(model).await));
    let page = v1::ListTagsRequest { page_token: "nonsense".into(), ..Default::default() };
    note("INVALID_PAGE_TOKEN", refused(c.tags.list_tags(page).await));
    note("INVALID_ID", refused(c.tags.get_tag(v1::GetTagRequest { tag_id: "x".into() }).await));

    let tag = |name: &str| v1::CreateTagRequest {
        tag: Some(v1::Tag { name: name.into(), ..Default::default() }),
        ..Default::default()
    };
    let first = c.tags.create_tag(tag("first")).await.unwrap().into_inner().tag.unwrap();
    c.tags.create_tag(tag("second")).await.unwrap();
    let taken = v1::UpdateTagRequest {
        tag: Some(v1::Tag { tag_id: first.tag_id.clone(), name: "second".into(), ..Default::default() }),
        ..Default::default()
    };
    note("NAME_TAKEN", refused(c.tags.update_tag(taken).await));
    let stale = v1::UpdateTagRequest {
        tag: Some(v1::Tag {
            tag_id: first.tag_id.clone(),
            name: "third".into(),
            etag: "v99".into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    note("VERSION_CONFLICT", refused(c.tags.update_tag(stale).await));
    let tagged = v1::UpdateDocumentRequest {
        document: Some(v1::Document {
            document_id: document.clone(),
            tag_ids: vec![first.tag_id.clone()],
            ..Default::default()
        }),
        ..Default::default()
    };
    c.documents.update_document(tagged).await.unwrap();
    let used = v1::DeleteTagRequest { tag_id: first.tag_id, ..Default::default() };
    note("IN_USE", refused(c.tags.delete_tag(used).await));

    note("UNSUPPORTED_TYPE", refused(client.try_upload("numbers.xlsx", b"PK\x03\x04 no office file").await));
    let silent = client.upload("dot.gif", b"GIF89a\x01\0\x01\0\0\0\0;").await;
    let prompt = v1::Prompt { name: "P".into(), content: "Extract.".into(), ..Default::default() };
    let prompt = v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() };
    let prompt = c.prompts.create_prompt(prompt).await.unwrap().into_inner().prompt.unwrap();
    let prompt_revid = prompt.prompt_revid;
    let run = v1::RunExtractionRequest { document_id: silent, prompt_revid, ..Default::default() };
    note("NO_TEXT", refused(c.extractions.run_extraction(run).await));

    let waiting = client.chat(&document, "write").await.pause().await;
    client.cancel(&waiting.turn_id).await.unwrap();
    note("TURN_NOT_RESUMABLE", refused(client.resume(&waiting.turn_id).await));
    let stream = client.chat(&document, "held").await;
    let turn = stream.turn();
    sandbox.sim.until_held().await;
    let early = v1::ApproveRequest { turn_id: turn.clone(), round: 1, ..Default::default() };
    note("NOT_AWAITING_APPROVAL", refused(client.approve(early).await));
    client.cancel(&turn).await.unwrap();

    let wrong: Vec<_> = found.iter().filter(|(wanted, reason)| wanted != reason).collect();
    assert!(wrong.is_empty(), "wanted and found: {wrong:?}");
}
