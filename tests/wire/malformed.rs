//! A table of malformed requests: each gets a clear error that names what is wrong, and the server goes on.

use folio_proto::v1;
use folio_types::{Code, DocumentId, SchemaId, ThreadId, limits};
use tonic::Status;

use crate::client::{Client, ask, refused};
use crate::sandbox::Sandbox;

const SCRIPT: &str = "rules: [{answer: {text: Hello.}}]";

/// What must be said of a case: nothing but wrong input, with words.
#[track_caller]
fn check<T>(what: &str, result: Result<T, Status>) {
    let status = match result {
        Ok(_) => panic!("{what}: it was taken"),
        Err(status) => status,
    };
    let error = folio_proto::status::to_error(&status);
    let wrong = [Code::InvalidArgument, Code::FailedPrecondition, Code::NotFound, Code::ResourceExhausted];
    assert!(wrong.contains(&error.code), "{what}: {status:?}");
    assert!(error.message.len() > 5 && error.message.len() < 2_000, "{what}: {error:?}");
    assert!(!error.message.contains("internal"), "{what}: {error:?}");
}

/// Texts that are no id.
fn no_ids() -> Vec<String> {
    let uuid = "0123456789abcdef0123456789abcdef";
    vec![
        " ".into(),
        "doc_".into(),
        "nonsense".into(),
        "../../etc/passwd".into(),
        format!("doc_{}", uuid.to_uppercase()),
        format!("doc_{uuid}0"),
        format!("doc_{uuid}\0"),
        format!("doc_{uuid}\n"),
        format!("xyz_{uuid}"),
        "ä".repeat(36),
        "a".repeat(100_000),
        "'; DROP TABLE documents; --".into(),
    ]
}

#[tokio::test]
async fn malformed_ids_are_refused_everywhere() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    for id in no_ids() {
        let what = |call: &str| format!("{call} {:?}", id.chars().take(50).collect::<String>());
        let mut c = client.clone();
        check(
            &what("get document"),
            c.documents.get_document(v1::GetDocumentRequest { document_id: id.clone() }).await,
        );
        let request = v1::GetThreadRequest { thread_id: id.clone(), ..Default::default() };
        check(&what("get thread"), c.threads.get_thread(request).await);
        let request = v1::GetSchemaRevisionRequest { schema_revid: id.clone() };
        check(&what("get schema"), c.schemas.get_schema_revision(request).await);
        let request = v1::GetPromptRevisionRequest { prompt_revid: id.clone() };
        check(&what("get prompt"), c.prompts.get_prompt_revision(request).await);
        check(&what("get tag"), c.tags.get_tag(v1::GetTagRequest { tag_id: id.clone() }).await);
        let request = v1::GetExtractionRequest { extraction_id: id.clone() };
        check(&what("get extraction"), c.extractions.get_extraction(request).await);
        check(&what("get turn"), c.conversations.get_turn(v1::GetTurnRequest { turn_id: id.clone() }).await);
        check(&what("watch"), client.watch(&id, 0).await.map(drop));
        check(&what("resume"), client.resume(&id).await.map(drop));
        check(&what("cancel"), client.cancel(&id).await);
        check(
            &what("approve"),
            client.approve(v1::ApproveRequest { turn_id: id.clone(), round: 1, ..Default::default() }).await,
        );
        check(&what("chat"), client.send(ask(&id, "hi")).await.map(drop));
        let request = v1::ChatRequest { thread_id: id.clone(), text: "hi".into(), ..Default::default() };
        check(&what("chat on"), client.send(request).await.map(drop));
        let request = v1::DeleteSchemaRequest { schema_id: id.clone(), ..Default::default() };
        check(&what("delete schema"), c.schemas.delete_schema(request).await);
        let request =
            v1::RunExtractionRequest { document_id: id.clone(), prompt_revid: id.clone(), ..Default::default() };
        check(&what("run extraction"), c.extractions.run_extraction(request).await);
    }
    alive(&client).await;
}

/// The server still answers.
async fn alive(client: &Client) {
    let tools = client.conversations.clone().list_tools(v1::ListToolsRequest::default()).await.expect("it is alive");
    assert_eq!(tools.into_inner().tools.len(), 27);
}

#[tokio::test]
async fn chats_out_of_bounds_are_refused_by_field() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let good = ask(&document, "hi");
    let user = |text: String| v1::Message {
        kind: Some(v1::message::Kind::User(v1::UserMessage { text })),
        ..Default::default()
    };
    let with = |change: &dyn Fn(&mut v1::ChatRequest)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    let thread = ThreadId::derive(&["t"]).to_string();
    let cases: Vec<(&str, v1::ChatRequest)> = vec![
        ("text", with(&|r| r.text.clear())),
        ("text", with(&|r| r.text = "x".repeat(limits::USER_TEXT_BYTES + 1))),
        ("document_ids", with(&|r| r.document_ids = vec![document.clone(); 101])),
        ("if_busy", with(&|r| r.if_busy = 99)),
        ("if_pending", with(&|r| r.if_pending = -5)),
        ("request_id", with(&|r| r.request_id = "x".repeat(1_000))),
        ("request_id", with(&|r| r.request_id = "line\nbreak".into())),
        ("model", with(&|r| r.model = "m".repeat(10_000))),
        ("profile", with(&|r| r.profile = "\u{202e}elif".into())),
        ("mentions", with(&|r| r.mentions = vec![v1::Mention::default(); 21])),
        ("mentions[0].target", with(&|r| r.mentions = vec![v1::Mention::default()])),
        ("auto_approved_tools", with(&|r| r.auto_approved_tools = vec!["create_tag".into(); 201])),
        ("history", with(&|r| r.history = vec![user("x".into())])),
        (
            "history",
            with(&|r| {
                r.ephemeral = true;
                r.history = vec![user("x".into()); 201];
            }),
        ),
        (
            "history",
            with(&|r| {
                r.ephemeral = true;
                r.history = vec![user("x".repeat(100_000)); 12];
            }),
        ),
        (
            "history",
            with(&|r| {
                r.ephemeral = true;
                r.history = vec![v1::Message::default()];
            }),
        ),
        (
            "ephemeral",
            with(&|r| {
                r.ephemeral = true;
                r.thread_id = thread.clone();
            }),
        ),
        ("truncate_to_message_count", with(&|r| r.truncate_to_message_count = Some(3))),
    ];
    for (field, request) in cases {
        let result = client.send(request).await.map(drop);
        assert!(result.is_err(), "{field}: it was taken");
        let error = refused(result);
        assert_eq!(error.code, Code::InvalidArgument, "{field}: {error:?}");
        let named = error.violations.iter().any(|violation| violation.field.starts_with(field));
        assert!(named || error.message.contains(field), "{field}: {error:?}");
    }
    assert!(sandbox.sim.chats().await.is_empty());
    alive(&client).await;
}

/// `{"a":{"a":…}}` so deep.
fn deep(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

#[tokio::test]
async fn deep_huge_and_broken_json_is_refused() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let schema = SchemaId::derive(&["nobody"]);
    let broken = [
        String::new(),
        "{".into(),
        "nothing".into(),
        "[1, 2".into(),
        "{\"a\": NaN}".into(),
        "{\"a\": 1} trailing".into(),
        "\"\\ud800\"".into(),
        deep(100),
        deep(100_000),
        format!("[{}1{}]", "[".repeat(100_000), "]".repeat(100_000)),
        format!("{{\"a\": \"{}\"}}", "x".repeat(2_000_000)),
        format!("{{{}}}", (0..200_000).map(|n| format!("\"{n}\":1")).collect::<Vec<_>>().join(",")),
    ];
    for json in broken {
        let what = |call: &str| format!("{call} {}", json.chars().take(40).collect::<String>());
        let mut c = client.clone();
        let request =
            v1::CreateSchemaRequest { name: "S".into(), response_format_json: json.clone(), ..Default::default() };
        check(&what("create schema"), c.schemas.create_schema(request).await);
        let request = v1::ValidateDataRequest { schema_revid: format!("{schema}.1"), data_json: json.clone() };
        check(&what("validate data"), c.schemas.validate_data(request).await);
        let request = v1::ReplaceExtractionRequest {
            extraction_id: folio_types::ExtractionId::derive(&["x"]).to_string(),
            data_json: json.clone(),
            ..Default::default()
        };
        check(&what("replace extraction"), c.extractions.replace_extraction(request).await);
    }
    alive(&client).await;
}

#[tokio::test]
async fn names_lists_and_pages_out_of_bounds_are_refused() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let mut c = client.clone();
    for name in ["", "   ", "a\nb", "a\0b", &"n".repeat(limits::NAME_CHARS + 1)] {
        let what = format!("name {:?}", name.chars().take(20).collect::<String>());
        check(&what, c.tags.create_tag(v1::CreateTagRequest { name: name.into(), ..Default::default() }).await);
        let prompt = v1::PromptContent { name: name.into(), content: "Extract.".into(), ..Default::default() };
        check(
            &what,
            c.prompts.create_prompt(v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() }).await,
        );
    }
    check(
        "color",
        c.tags.create_tag(v1::CreateTagRequest { name: "t".into(), color: "red?".into(), ..Default::default() }).await,
    );
    check("no prompt", c.prompts.create_prompt(v1::CreatePromptRequest::default()).await);
    let content =
        v1::PromptContent { name: "p".into(), content: "x".repeat(limits::PROMPT_BYTES + 1), ..Default::default() };
    check(
        "content",
        c.prompts.create_prompt(v1::CreatePromptRequest { prompt: Some(content), ..Default::default() }).await,
    );
    let content =
        v1::PromptContent { name: "p".into(), content: "x".into(), model: "off".into(), ..Default::default() };
    check(
        "model",
        c.prompts.create_prompt(v1::CreatePromptRequest { prompt: Some(content), ..Default::default() }).await,
    );

    let pages = [
        ("page_token", v1::ListTagsRequest { page_token: "nonsense".into(), ..Default::default() }),
        ("page_token", v1::ListTagsRequest { page_token: "A".repeat(100_000), ..Default::default() }),
        ("page_size", v1::ListTagsRequest { page_size: -1, ..Default::default() }),
        ("skip", v1::ListTagsRequest { skip: -1, ..Default::default() }),
        ("filter", v1::ListTagsRequest { filter: "nonsense:::".into(), ..Default::default() }),
        ("filter", v1::ListTagsRequest { filter: "name:".repeat(50_000), ..Default::default() }),
        ("order_by", v1::ListTagsRequest { order_by: "password".into(), ..Default::default() }),
    ];
    for (field, request) in pages {
        check(field, c.tags.list_tags(request).await);
    }
    alive(&client).await;
}

#[tokio::test]
async fn uploads_out_of_bounds_are_refused() {
    use v1::upload_document_request::Part;
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    check("no name", client.try_upload("", b"x").await);
    check("empty", client.try_upload("a.txt", b"").await);
    check("name", client.try_upload(&"n".repeat(1_000), b"x").await);
    check("control", client.try_upload("a\nb.txt", b"x").await);
    check("too large", client.try_upload("a.txt", &vec![b'x'; 51 << 20]).await);
    let send = |parts: Vec<v1::UploadDocumentRequest>| {
        let mut documents = client.documents.clone();
        async move { documents.upload_document(futures::stream::iter(parts)).await }
    };
    let part = |part| v1::UploadDocumentRequest { part: Some(part) };
    let described = |size_bytes| {
        Part::Description(v1::DocumentDescription { name: "a.txt".into(), size_bytes, ..Default::default() })
    };
    check("nothing", send(Vec::new()).await);
    check("no description", send(vec![part(Part::Chunk(b"x".to_vec()))]).await);
    check("no part", send(vec![v1::UploadDocumentRequest::default()]).await);
    check(
        "twice described",
        send(vec![part(described(0)), part(described(0)), part(Part::Chunk(b"x".to_vec()))]).await,
    );
    check("other size", send(vec![part(described(5)), part(Part::Chunk(b"x".to_vec()))]).await);
    check("announced too large", send(vec![part(described(u64::MAX)), part(Part::Chunk(b"x".to_vec()))]).await);
    let listed =
        client.documents.clone().list_documents(v1::ListDocumentsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.total_size, 0, "{listed:?}");
    alive(&client).await;
}

#[tokio::test]
async fn bytes_that_are_no_request_are_refused() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let http = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let token = sandbox.token();
    let framed = |body: &[u8]| {
        let mut bytes = vec![0];
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(body);
        bytes
    };
    // A field of type string that is no UTF-8; a truncated varint; a length beyond the end; a frame larger than allowed.
    let mut oversized = vec![0, 0x7f, 0xff, 0xff, 0xff];
    oversized.extend([0; 100]);
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("not UTF-8", framed(&[0x0a, 2, 0xff, 0xfe])),
        ("cut varint", framed(&[0x0a, 0xff])),
        ("length beyond the end", framed(&[0x0a, 100, b'x'])),
        ("field 0", framed(&[0, 0])),
        ("no frame", b"hello".to_vec()),
        ("oversized", oversized),
        ("empty", Vec::new()),
    ];
    for (what, body) in bodies {
        for path in ["folio.v1.TagService/GetTag", "folio.v1.ConversationService/Chat"] {
            let sent = http
                .post(format!("{}/{path}", sandbox.url()))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .bearer_auth(&token)
                .body(body.clone());
            let response = sent.send().await.unwrap_or_else(|error| panic!("{what} at {path}: {error}"));
            let status = response.headers().get("grpc-status").and_then(|value| value.to_str().ok()).map(str::to_owned);
            // The status may come as a trailer, which this client does not show; a message must not come.
            let bytes = response.bytes().await.unwrap_or_default();
            assert!(status.as_deref() != Some("0"), "{what} at {path}");
            assert!(bytes.is_empty(), "{what} at {path}: {bytes:?}");
        }
    }
    alive(&client).await;
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_says_what() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let id = DocumentId::derive(&["nobody"]).to_string();
    let error =
        refused(client.documents.clone().get_document(v1::GetDocumentRequest { document_id: id.clone() }).await);
    assert_eq!((error.code, error.reason.as_str()), (Code::NotFound, "NOT_FOUND"));
    assert!(error.message.contains(&id), "{error:?}");
}
