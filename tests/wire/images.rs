//! Images: a model describes those of documents, and receives those of messages.

use std::io::Write as _;
use std::process::Stdio;

use folio_proto::v1;
use folio_testkit::structured_pdf::structured_pdf;

use crate::client::{Client, ask};
use crate::process::{binary, command};
use crate::program::{Output, Running};
use crate::sandbox::{Sandbox, Setup};
use crate::within;

const SCRIPT: &str = r#"
rules:
  - when: {response_format: image_description, images: 1}
    answer: {text: '{"caption": "Coloured\nsquares.", "steps": [], "entities": ["Colours"]}'}
  - when: {user: describe}
    rounds:
      - calls: [{name: pdf_outline}]
      - calls: [{name: image_annotator, arguments: {image_id: "{{last.pdf_outline.images.0.image_id}}"}}]
      - text: "{{last.image_annotator.caption}}"
  - when: {user: look, images: 1}
    answer: {text: One image.}
  - when: {user: again, images: 0}
    answer: {text: The same image.}
"#;

/// Starts a server whose default model has vision, and describes images.
async fn sandbox() -> Sandbox {
    let setup = Setup::new(SCRIPT).with("FOLIO_MODELS__PROVIDERS__SIM__MODELS__SCRIPTED__VISION", true);
    setup.with("FOLIO_MODELS__DEFAULT_IMAGE_MODEL", "scripted").start().await
}

async fn images(client: &Client, document: &str) -> Vec<v1::DocumentImage> {
    let request = v1::ListImagesRequest { document_id: document.to_owned(), ..Default::default() };
    within("images", client.documents.clone().list_images(request)).await.expect("images").into_inner().images
}

/// Returns the bytes of an image of a document.
async fn png(client: &Client, image_id: &str) -> Vec<u8> {
    let request = v1::GetDocumentImageRequest { image_id: image_id.to_owned() };
    let parts = within("an image", client.documents.clone().get_document_image(request)).await.expect("an image");
    let (mut parts, mut bytes) = (parts.into_inner(), Vec::new());
    while let Some(part) = within("a part", parts.message()).await.expect("a part") {
        bytes.extend(part.chunk);
    }
    bytes
}

async fn image(client: &Client, id: &str, thread: &str) -> Result<v1::GetImageResponse, tonic::Status> {
    let request = v1::GetImageRequest { image_id: id.to_owned(), thread_id: thread.to_owned() };
    within("an image", client.conversations.clone().get_image(request)).await.map(tonic::Response::into_inner)
}

/// Returns the number of images in the newest request of a chat.
async fn sent_images(sandbox: &Sandbox) -> usize {
    let requests = sandbox.sim.chat_requests().await;
    requests.last().expect("a request").body.to_string().matches("data:image/jpeg;base64,").count()
}

#[tokio::test]
async fn a_turn_describes_an_image_of_its_document() {
    let sandbox = sandbox().await;
    let client = sandbox.client().await;
    let document = client.upload("a.pdf", &structured_pdf()).await;
    assert_eq!(images(&client, &document).await[0].annotation, None);
    let completed = client.chat(&document, "describe").await.completed().await;
    assert_eq!(completed.text, "Coloured squares.", "a caption is one line");
    let listed = images(&client, &document).await;
    let annotation = listed[0].annotation.as_ref().expect("a description");
    assert_eq!((annotation.caption.as_str(), annotation.model.as_str()), ("Coloured squares.", "scripted"));
    assert_eq!(annotation.entities, ["Colours"]);
}

#[tokio::test]
async fn an_image_of_a_message_survives_a_kill_and_is_removed_with_its_thread() {
    let mut sandbox = sandbox().await;
    let client = sandbox.client().await;
    let document = client.upload("a.pdf", &structured_pdf()).await;
    let data = png(&client, &images(&client, &document).await[0].image_id).await;
    let upload = v1::UploadImageRequest { data, request_id: "upload".to_owned() };
    let mut uploaded = Vec::new();
    for _ in ["stored", "repeated"] {
        let answer = within("an upload", client.conversations.clone().upload_image(upload.clone())).await;
        uploaded.push(answer.expect("an upload").into_inner().image.expect("an image"));
    }
    assert_eq!(uploaded[0], uploaded[1]);
    let id = uploaded[0].image_id.clone();
    assert_eq!((uploaded[0].width, uploaded[0].media_type.as_str()), (32, "image/jpeg"));

    let request = v1::ChatRequest { image_ids: vec![id.clone()], ..ask(&document, "look") };
    let events = client.send(request).await.expect("the chat is accepted");
    let thread = events.thread();
    assert_eq!(events.completed().await.text, "One image.");
    assert_eq!(sent_images(&sandbox).await, 1);

    sandbox.kill();
    let client = sandbox.restart().await;
    let messages = client.thread(&thread).await.messages;
    let Some(v1::message::Kind::User(user)) = messages[0].kind.clone() else { panic!("{messages:?}") };
    assert_eq!(user.images, [uploaded[0].clone()]);
    let found = image(&client, &id, &thread).await.expect("an image");
    assert!(found.data.starts_with(&[0xff, 0xd8, 0xff]) && found.data.len() as u64 == uploaded[0].size_bytes);
    assert_eq!(client.say(&thread, "again").await.completed().await.text, "The same image.");
    assert_eq!(sent_images(&sandbox).await, 1, "the history contains the image");

    let delete = v1::DeleteThreadRequest { thread_id: thread.clone(), ..Default::default() };
    within("a deletion", client.threads.clone().delete_thread(delete)).await.expect("the thread is deleted");
    let missing = image(&client, &id, &thread).await.expect_err("a removed image");
    assert_eq!(missing.code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn a_chat_in_the_terminal_sends_an_image() {
    let sandbox = sandbox().await;
    let client = sandbox.client().await;
    let document = client.upload("a.pdf", &structured_pdf()).await;
    let data = png(&client, &images(&client, &document).await[0].image_id).await;
    std::fs::write(sandbox.folder().join("picture.png"), data).expect("the image is written");
    let (token, url) = (sandbox.token(), sandbox.url());
    let server = url.trim_start_matches("http://");
    let mut child = command(binary("folio"), sandbox.folder(), &[("FOLIO_TOKEN", token.as_str())])
        .args(["chat", document.as_str(), "--image", "picture.png", "--server", server])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("folio chat starts");
    let output = Output::of(child.stdout.take().expect("stdout is piped"));
    let mut input = child.stdin.take().expect("stdin is piped");
    let mut running = Running(child);
    writeln!(input, "/image\nlook").expect("the chat reads its input");
    output.until("One image.", 1).await;
    drop(input);
    output.wait("the end of the chat", || output.is_complete().then_some(())).await;
    assert!(running.0.wait().expect("the chat ends").success(), "{}", output.raw());
    let shown = output.shown();
    assert!(shown.contains("picture.png (32 x 32 pixels) is sent with the next message"), "{shown}");
    assert!(shown.contains("(images of the next message: 1)"), "{shown}");
    assert_eq!(sent_images(&sandbox).await, 1);
}
