//! A table of malformed requests: each gets a clear error that names the field, and the server continues.

use folio_proto::v1;
use folio_types::{Code, DocumentId, SchemaId, ThreadId, limits};
use tonic::Status;

use crate::client::{Client, ask, refused};
use crate::sandbox::Sandbox;

const SCRIPT: &str = "rules: [{answer: {text: Hello.}}]";

/// The expected refusal: code, reason, and the field that it names. Empty: none.
type Wanted = (Code, &'static str, &'static str);

/// The refusal of an invalid value in this field.
const fn field(name: &'static str) -> Wanted {
    (Code::InvalidArgument, "INVALID_FIELD", name)
}

const fn id(name: &'static str) -> Wanted {
    (Code::InvalidArgument, "INVALID_ID", name)
}

const fn too_large(name: &'static str) -> Wanted {
    (Code::InvalidArgument, "TOO_LARGE", name)
}

/// Checks a refusal.
#[track_caller]
fn check<T>(what: &str, (code, reason, field): Wanted, result: Result<T, Status>) {
    let status = match result {
        Ok(_) => panic!("{what}: it was taken"),
        Err(status) => status,
    };
    let error = folio_proto::status::to_error(&status);
    let named = error.violations.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>();
    let wanted = if field.is_empty() { Vec::new() } else { vec![field] };
    assert_eq!((error.code, error.reason.as_str(), named), (code, reason, wanted), "{what}: {error:?}");
    assert!(error.message.len() > 5 && error.message.len() < 2_000, "{what}: {error:?}");
    assert!(!error.message.contains("internal"), "{what}: {error:?}");
}

/// Texts that are not ids.
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
    for text in no_ids() {
        let what = |call: &str| format!("{call} {:?}", text.chars().take(50).collect::<String>());
        let mut c = client.clone();
        check(
            &what("get document"),
            id("document_id"),
            c.documents.get_document(v1::GetDocumentRequest { document_id: text.clone() }).await,
        );
        let request = v1::GetThreadRequest { thread_id: text.clone(), ..Default::default() };
        check(&what("get thread"), id("thread_id"), c.threads.get_thread(request).await);
        let request = v1::GetSchemaRevisionRequest { schema_revid: text.clone() };
        check(&what("get schema"), id("schema_revid"), c.schemas.get_schema_revision(request).await);
        let request = v1::GetPromptRevisionRequest { prompt_revid: text.clone() };
        check(&what("get prompt"), id("prompt_revid"), c.prompts.get_prompt_revision(request).await);
        check(&what("get tag"), id("tag_id"), c.tags.get_tag(v1::GetTagRequest { tag_id: text.clone() }).await);
        let request = v1::GetExtractionRequest { extraction_id: text.clone() };
        check(&what("get extraction"), id("extraction_id"), c.extractions.get_extraction(request).await);
        check(
            &what("get turn"),
            id("turn_id"),
            c.conversations.get_turn(v1::GetTurnRequest { turn_id: text.clone() }).await,
        );
        check(&what("watch"), id("turn_id"), client.watch(&text, 0).await.map(drop));
        check(&what("resume"), id("turn_id"), client.resume(&text).await.map(drop));
        check(&what("cancel"), id("turn_id"), client.cancel(&text).await);
        check(
            &what("approve"),
            id("turn_id"),
            client.approve(v1::ApproveRequest { turn_id: text.clone(), round: 1, ..Default::default() }).await,
        );
        check(&what("chat"), id("document_ids[0]"), client.send(ask(&text, "hi")).await.map(drop));
        let request = v1::ChatRequest { thread_id: text.clone(), text: "hi".into(), ..Default::default() };
        check(&what("chat on"), id("thread_id"), client.send(request).await.map(drop));
        let request = v1::DeleteSchemaRequest { schema_id: text.clone(), ..Default::default() };
        check(&what("delete schema"), id("schema_id"), c.schemas.delete_schema(request).await);
        let request =
            v1::RunExtractionRequest { document_id: text.clone(), prompt_revid: text.clone(), ..Default::default() };
        check(&what("run extraction"), id("document_id"), c.extractions.run_extraction(request).await);
    }
    alive(&client).await;
}

/// Checks that the server still answers.
async fn alive(client: &Client) {
    let tools = client.conversations.clone().list_tools(v1::ListToolsRequest::default()).await.expect("it is alive");
    assert!(!tools.into_inner().tools.is_empty());
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
    let thread = ThreadId::derive(&["t"]).to_string();
    let refuse = async |wanted: Wanted, change: &dyn Fn(&mut v1::ChatRequest)| {
        let mut request = good.clone();
        change(&mut request);
        check(&format!("{wanted:?}"), wanted, client.send(request).await.map(drop));
    };
    refuse(field("text"), &|r| r.text.clear()).await;
    refuse(too_large("text"), &|r| r.text = "x".repeat(limits::USER_TEXT_BYTES + 1)).await;
    refuse(field("document_ids"), &|r| r.document_ids = vec![document.clone(); 101]).await;
    refuse(field("if_busy"), &|r| r.if_busy = 99).await;
    refuse(field("if_pending"), &|r| r.if_pending = -5).await;
    refuse(id("request_id"), &|r| r.request_id = "x".repeat(1_000)).await;
    refuse(id("request_id"), &|r| r.request_id = "line\nbreak".into()).await;
    refuse(field("model"), &|r| r.model = "m".repeat(10_000)).await;
    refuse((Code::InvalidArgument, "UNKNOWN_PROFILE", "profile"), &|r| r.profile = "\u{202e}elif".into()).await;
    refuse(field("mentions"), &|r| r.mentions = vec![v1::Mention::default(); 21]).await;
    refuse(field("mentions[0].target"), &|r| r.mentions = vec![v1::Mention::default()]).await;
    refuse(field("auto_approved_tools"), &|r| r.auto_approved_tools = vec!["create_tag".into(); 201]).await;
    let unknown_tool = (Code::InvalidArgument, "UNKNOWN_TOOL", "auto_approved_tools[1]");
    refuse(unknown_tool, &|r| r.auto_approved_tools = vec!["create_tag".into(), "rm".into()]).await;
    refuse(field("history"), &|r| r.history = vec![user("x".into())]).await;
    let ephemeral = |r: &mut v1::ChatRequest, history: Vec<v1::Message>| {
        r.ephemeral = true;
        r.history = history;
    };
    refuse(field("history"), &|r| ephemeral(r, vec![user("x".into()); 201])).await;
    refuse(too_large("history"), &|r| ephemeral(r, vec![user("x".repeat(100_000)); 12])).await;
    refuse(too_large("history[0]"), &|r| ephemeral(r, vec![user("x".repeat(200_000))])).await;
    refuse(field("history[0].kind"), &|r| ephemeral(r, vec![v1::Message::default()])).await;
    refuse(field("ephemeral"), &|r| {
        r.ephemeral = true;
        r.thread_id = thread.clone();
    })
    .await;
    refuse(field("truncate_to_message_count"), &|r| r.truncate_to_message_count = Some(3)).await;
    assert!(sandbox.sim.chats().await.is_empty());
    alive(&client).await;
}

/// Returns nested objects `{"a":{"a":…}}`.
fn deep(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

#[tokio::test]
async fn deep_huge_and_broken_json_is_refused() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let schema = SchemaId::derive(&["nobody"]);
    // Values that are not JSON, or too large.
    let broken = [
        String::new(),
        "{".into(),
        "nothing".into(),
        "[1, 2".into(),
        "{\"a\": NaN}".into(),
        "{\"a\": 1} trailing".into(),
        "\"\\ud800\"".into(),
        deep(100),
    ];
    let huge = [
        deep(100_000),
        format!("[{}1{}]", "[".repeat(100_000), "]".repeat(100_000)),
        format!("{{\"a\": \"{}\"}}", "x".repeat(2_000_000)),
        format!("{{{}}}", (0..200_000).map(|n| format!("\"{n}\":1")).collect::<Vec<_>>().join(",")),
    ];
    let broken = broken.into_iter().map(|json| (json, field as fn(&'static str) -> Wanted));
    for (json, wrong) in broken.chain(huge.into_iter().map(|json| (json, too_large as fn(&'static str) -> Wanted))) {
        let what = |call: &str| format!("{call} {}", json.chars().take(40).collect::<String>());
        let mut c = client.clone();
        let request = v1::CreateSchemaRequest {
            schema: Some(v1::Schema { name: "S".into(), response_format_json: json.clone(), ..Default::default() }),
            ..Default::default()
        };
        check(&what("create schema"), wrong("schema.response_format_json"), c.schemas.create_schema(request).await);
        let request = v1::ValidateDataRequest { schema_revid: format!("{schema}.1"), data_json: json.clone() };
        check(&what("validate data"), wrong("data_json"), c.schemas.validate_data(request).await);
        let request = v1::ReplaceExtractionRequest {
            extraction_id: folio_types::ExtractionId::derive(&["x"]).to_string(),
            data_json: json.clone(),
            ..Default::default()
        };
        check(&what("replace extraction"), wrong("data_json"), c.extractions.replace_extraction(request).await);
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
        check(
            &what,
            field("tag.name"),
            c.tags
                .create_tag(v1::CreateTagRequest {
                    tag: Some(v1::Tag { name: name.into(), ..Default::default() }),
                    ..Default::default()
                })
                .await,
        );
        let prompt = v1::Prompt { name: name.into(), content: "Extract.".into(), ..Default::default() };
        check(
            &what,
            field("prompt.name"),
            c.prompts.create_prompt(v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() }).await,
        );
    }
    check(
        "color",
        field("tag.color"),
        c.tags
            .create_tag(v1::CreateTagRequest {
                tag: Some(v1::Tag { name: "t".into(), color: "red?".into(), ..Default::default() }),
                ..Default::default()
            })
            .await,
    );
    check("no prompt", field("prompt"), c.prompts.create_prompt(v1::CreatePromptRequest::default()).await);
    let content = v1::Prompt { name: "p".into(), content: "x".repeat(limits::PROMPT_BYTES + 1), ..Default::default() };
    check(
        "content",
        field("prompt.content"),
        c.prompts.create_prompt(v1::CreatePromptRequest { prompt: Some(content), ..Default::default() }).await,
    );
    let content = v1::Prompt { name: "p".into(), content: "x".into(), model: "off".into(), ..Default::default() };
    check(
        "model",
        (Code::FailedPrecondition, "MODEL_NOT_AVAILABLE", ""),
        c.prompts.create_prompt(v1::CreatePromptRequest { prompt: Some(content), ..Default::default() }).await,
    );

    let page_token = (Code::InvalidArgument, "INVALID_PAGE_TOKEN", "page_token");
    let pages = [
        (page_token, v1::ListTagsRequest { page_token: "nonsense".into(), ..Default::default() }),
        (page_token, v1::ListTagsRequest { page_token: "A".repeat(100_000), ..Default::default() }),
        (field("page_size"), v1::ListTagsRequest { page_size: -1, ..Default::default() }),
        (field("skip"), v1::ListTagsRequest { skip: -1, ..Default::default() }),
        (field("filter"), v1::ListTagsRequest { filter: "nonsense:::".into(), ..Default::default() }),
        (field("filter"), v1::ListTagsRequest { filter: "name:".repeat(50_000), ..Default::default() }),
        (field("order_by"), v1::ListTagsRequest { order_by: "password".into(), ..Default::default() }),
    ];
    for (wanted, request) in pages {
        check(&format!("{wanted:?}"), wanted, c.tags.list_tags(request).await);
    }
    alive(&client).await;
}

#[tokio::test]
async fn uploads_out_of_bounds_are_refused() {
    use v1::upload_document_request::Part;
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    check("no name", field("description.name"), client.try_upload("", b"x").await);
    check("empty", field("chunk"), client.try_upload("a.txt", b"").await);
    check("name", field("description.name"), client.try_upload(&"n".repeat(1_000), b"x").await);
    check("control", field("description.name"), client.try_upload("a\nb.txt", b"x").await);
    check("too large", too_large("chunk"), client.try_upload("a.txt", &vec![b'x'; 51 << 20]).await);
    let send = |parts: Vec<v1::UploadDocumentRequest>| {
        let mut documents = client.documents.clone();
        async move { documents.upload_document(futures::stream::iter(parts)).await }
    };
    let part = |part| v1::UploadDocumentRequest { part: Some(part) };
    let described = |size_bytes| {
        Part::Description(v1::DocumentDescription { name: "a.txt".into(), size_bytes, ..Default::default() })
    };
    check("nothing", field("description"), send(Vec::new()).await);
    check("no description", field("description"), send(vec![part(Part::Chunk(b"x".to_vec()))]).await);
    check("no part", field("part"), send(vec![v1::UploadDocumentRequest::default()]).await);
    check(
        "twice described",
        field("description"),
        send(vec![part(described(0)), part(described(0)), part(Part::Chunk(b"x".to_vec()))]).await,
    );
    check(
        "other size",
        field("description.size_bytes"),
        send(vec![part(described(5)), part(Part::Chunk(b"x".to_vec()))]).await,
    );
    check(
        "announced too large",
        too_large("description.size_bytes"),
        send(vec![part(described(u64::MAX)), part(Part::Chunk(b"x".to_vec()))]).await,
    );
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
    // A field of type string that is no UTF-8; a truncated varint; a length beyond the end; a frame larger than
    // allowed.
    let mut oversized = vec![0, 0x7f, 0xff, 0xff, 0xff];
    oversized.extend([0; 100]);
    // What cannot be read has no fields to name.
    let bodies: Vec<(&str, Wanted, Vec<u8>)> = vec![
        ("not UTF-8", field(""), framed(&[0x0a, 2, 0xff, 0xfe])),
        ("cut varint", field(""), framed(&[0x0a, 0xff])),
        ("length beyond the end", field(""), framed(&[0x0a, 100, b'x'])),
        ("field 0", field(""), framed(&[0, 0])),
        ("no frame", field(""), b"hello".to_vec()),
        ("oversized", too_large(""), oversized),
        ("empty", field(""), Vec::new()),
    ];
    for (what, wanted, body) in bodies {
        for path in ["folio.v1.TagService/GetTag", "folio.v1.ConversationService/Chat"] {
            let sent = http
                .post(format!("{}/{path}", sandbox.url()))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .bearer_auth(&token)
                .body(body.clone());
            let response = sent.send().await.unwrap_or_else(|error| panic!("{what} at {path}: {error}"));
            let status = Status::from_header_map(response.headers());
            check(&format!("{what} at {path}"), wanted, Err::<(), _>(status.expect("a status and no message")));
            let bytes = response.bytes().await.unwrap_or_default();
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
