//! Documents: durability after a kill, large files, the health of a server whose disk fails or whose clock jumps, and deletions
//! on a full disk.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use folio_proto::v1;
use folio_testkit::invoice::sample_invoice;
use folio_testkit::structured_pdf::structured_pdf;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use v1::DocumentState;

use crate::client::{Client, ask, refused};
use crate::sandbox::{Sandbox, Setup};
use crate::within;

const SCRIPT: &str = "
rules:
  - when: {user: hello}
    answer: {text: Hello.}
";

/// An image that consists of its header only, so that no program can decode it.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";

async fn state(client: &Client, id: &str) -> v1::Document {
    let request = v1::GetDocumentRequest { document_id: id.to_owned() };
    let found = within("a document", client.documents.clone().get_document(request)).await;
    found.expect("the document exists").into_inner().document.expect("a document")
}

async fn until(client: &Client, id: &str, wanted: DocumentState, limit: Duration) -> v1::Document {
    folio_testkit::wait_for(&format!("{wanted:?}"), limit, || async {
        Some(state(client, id).await).filter(|document| document.state() == wanted)
    })
    .await
}

async fn text(client: &Client, id: &str, from_page: u32) -> v1::GetDocumentTextResponse {
    let request = v1::GetDocumentTextRequest { document_id: id.to_owned(), from_page, page_count: 0 };
    let found = within("text", client.documents.clone().get_document_text(request)).await;
    found.expect("the text exists").into_inner()
}

fn program(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a program is written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("the program is executable");
}

/// Prints a line as Tesseract does, as a row of a table.
const RECOGNIZED: &str = r"printf '5\t1\t1\t1\t1\t1\t0\t0\t9\t9\t96\trecognized text\n'";

#[tokio::test]
async fn the_words_of_a_page_have_boxes() {
    let sandbox = Setup::new(SCRIPT).start().await;
    let client = sandbox.client().await;
    let words = async |name: &str, content: &[u8], page| {
        let document_id = client.try_upload(name, content).await.expect("an upload").document_id;
        until(&client, &document_id, DocumentState::Ready, crate::LIMIT).await;
        let request = v1::GetPageWordsRequest { document_id, page };
        within("words", client.documents.clone().get_page_words(request)).await.map(tonic::Response::into_inner)
    };
    let invoice = sample_invoice();
    let page = words("invoice.pdf", &invoice, 1).await.expect("a page");
    assert!(page.width > 500.0 && page.height > page.width, "{} {}", page.width, page.height);
    let number = page.words.iter().find(|word| word.text == "INV-2026-0417").expect("the number of the invoice");
    let area = number.bounding_box.expect("a bounding box");
    assert!(0.0 < area.left && area.left < area.right && area.right < 1.0, "{area:?}");
    assert!(0.0 < area.top && area.top < area.bottom && area.bottom < 0.5, "{area:?}");
    let page = words("note.txt", b"Total 12.50", 1).await.expect("a page");
    assert_eq!(
        page.words.iter().map(|word| (word.text.as_str(), word.bounding_box)).collect::<Vec<_>>(),
        [("Total", None), ("12.50", None)]
    );
    for number in [0, 2] {
        let refused = words("note.txt", b"Total 12.50", number).await.expect_err("no such page");
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains("must be from 1 to 1"), "{refused}");
    }
}

#[tokio::test]
async fn an_embedded_image_is_listed_and_streamed() {
    let sandbox = Setup::new(SCRIPT).start().await;
    let client = sandbox.client().await;
    let document_id = client.try_upload("a.pdf", &structured_pdf()).await.expect("an upload").document_id;
    until(&client, &document_id, DocumentState::Ready, crate::LIMIT).await;
    let request = v1::ListImagesRequest { document_id, ..Default::default() };
    let images = within("images", client.documents.clone().list_images(request)).await.expect("images").into_inner();
    let [image] = images.images.as_slice() else { panic!("{images:?}") };
    assert_eq!((image.page, image.width, image.caption.as_str()), (1, 32, "Figure 1: Colours"));
    for _ in ["copied", "stored"] {
        let request = v1::GetDocumentImageRequest { image_id: image.image_id.clone() };
        let parts = within("an image", client.documents.clone().get_document_image(request)).await.expect("an image");
        let mut parts = parts.into_inner();
        let mut bytes = Vec::new();
        while let Some(part) = within("a part", parts.message()).await.expect("a part") {
            bytes.extend(part.chunk);
        }
        assert!(bytes.starts_with(b"\x89PNG"), "{} bytes", bytes.len());
    }
    let request = v1::GetDocumentImageRequest { image_id: format!("{}9", image.image_id) };
    let refused = within("an image", client.documents.clone().get_document_image(request)).await;
    assert_eq!(refused.err().map(|status| status.code()), Some(tonic::Code::InvalidArgument));
}

#[tokio::test]
async fn the_image_of_a_page_is_streamed() {
    let sandbox = Setup::new(SCRIPT).start().await;
    let client = sandbox.client().await;
    let document_id = client.try_upload("invoice.pdf", &sample_invoice()).await.expect("an upload").document_id;
    for _ in ["rendered", "stored"] {
        let request = v1::GetPageImageRequest { document_id: document_id.clone(), page: 1, dpi: 150, format: 0 };
        let parts = within("an image", client.documents.clone().get_page_image(request)).await.expect("an image");
        let mut parts = parts.into_inner();
        let mut image = Vec::new();
        while let Some(part) = within("a part", parts.message()).await.expect("a part") {
            image.extend(part.chunk);
        }
        assert!(image.starts_with(b"\x89PNG") && image.len() > 10_000, "{}", image.len());
    }
}

#[tokio::test]
async fn documents_that_were_being_read_when_the_server_was_killed_are_read_after_its_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let (slow, recognizer) = (folder.path().join("slow"), folder.path().join("recognizer"));
    std::fs::write(&slow, "").expect("a mark");
    let script = format!("#!/bin/sh\nif [ -e {} ]; then exec sleep 120; fi\n{RECOGNIZED}\n", slow.display());
    program(&recognizer, &script);
    let setup = Setup::new(SCRIPT).with("FOLIO_DOCUMENTS__TESSERACT", recognizer.display());
    let mut sandbox = setup.with("FOLIO_DOCUMENTS__ATTEMPTS", 4).start().await;
    let client = sandbox.client().await;
    let mut images = Vec::new();
    for number in 0..4 {
        images.push(client.try_upload(&format!("{number}.png"), PNG).await.expect("an upload").document_id);
    }
    // The server is killed twice, each time while it reads two images and two other images wait.
    for _ in 0..2 {
        let client = sandbox.client().await;
        for image in &images[..2] {
            until(&client, image, DocumentState::Processing, crate::LIMIT).await;
        }
        sandbox.kill();
        sandbox.restart().await;
    }
    sandbox.kill();
    std::fs::remove_file(&slow).expect("the mark is deleted");
    let client = sandbox.restart().await;
    for image in &images {
        let document = until(&client, image, DocumentState::Ready, crate::LIMIT).await;
        assert_eq!(document.pages, 1);
        assert!(text(&client, image, 1).await.pages[0].text.contains("recognized text"));
    }
    let left = || std::fs::read_dir(sandbox.data().join("scratch")).map_or(0, Iterator::count);
    let empty = || std::future::ready((left() == 0).then_some(()));
    folio_testkit::wait_for("the scratch folder to be empty", crate::LIMIT, empty).await;
}

#[tokio::test]
async fn a_text_of_nearly_the_maximum_size_is_accepted_read_and_shown_in_bounded_time() {
    const LINES: usize = 840_000;
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let mut file = String::with_capacity(64 * LINES);
    for line in 0..LINES {
        use std::fmt::Write as _;
        writeln!(file, "line {line:07}: the quick brown fox jumps over the lazy dog, x").expect("a line");
    }
    assert!((50_000_000..=52_428_800).contains(&file.len()), "{}", file.len());
    let id = client.try_upload("large.txt", file.as_bytes()).await.expect("an upload").document_id;
    // Other requests are served during the ingestion.
    let small = client.upload("small.txt", b"some text").await;
    assert_eq!(state(&client, &small).await.state(), DocumentState::Ready);
    let document = until(&client, &id, DocumentState::Ready, 3 * crate::LIMIT).await;
    assert_eq!(document.size_bytes, file.len() as u64);
    let (mut next, mut kept, mut last) = (1, 0, String::new());
    while next != 0 {
        let answer = text(&client, &id, next).await;
        assert_eq!((answer.state(), answer.total_pages), (DocumentState::Ready, document.pages));
        if next == 1 {
            assert!(answer.pages[0].text.starts_with("line 0000000: the quick"));
        }
        assert!(answer.next_page == 0 || answer.next_page > next, "{} after {next}", answer.next_page);
        kept += answer.pages.iter().map(|page| page.text.len()).sum::<usize>();
        last = answer.pages.last().map_or(last, |page| page.text.clone());
        next = answer.next_page;
    }
    // The stored text is bounded and ends with a mark of the truncation.
    assert!((7_900_000..8_200_000).contains(&kept), "{kept}");
    assert!(last.contains("[…"), "{}", &last[last.len().saturating_sub(200)..]);

    client.send(ask(&id, "hello")).await.expect("a chat").completed().await;
    let sent = sandbox.sim.chat_requests().await;
    let system = sent[0].body["messages"][0]["content"].as_str().expect("a system message").to_owned();
    let from = system.find("line 0000000").expect("the excerpt");
    assert!(system.contains("line 0000100") && !system[from..].contains("line 0000200"), "{}", system.len());
}

async fn health(channel: &Channel) -> ServingStatus {
    let answer = within("health", HealthClient::new(channel.clone()).check(HealthCheckRequest::default())).await;
    answer.expect("health is reported").into_inner().status()
}

async fn becomes(channel: &Channel, wanted: ServingStatus) {
    let is_reported = || async { (health(channel).await == wanted).then_some(()) };
    folio_testkit::wait_for(&format!("{wanted:?}"), crate::LIMIT, is_reported).await;
}

async fn create_tag(client: &Client, name: &str) -> Result<(), tonic::Status> {
    let request =
        v1::CreateTagRequest { tag: Some(v1::Tag { name: name.into(), ..Default::default() }), ..Default::default() };
    within("a tag", client.tags.clone().create_tag(request)).await.map(drop)
}

#[tokio::test]
async fn a_server_on_embedded_stores_whose_clock_jumps_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let offset = folder.path().join("offset");
    let set_clock = |seconds: &str| std::fs::write(&offset, seconds).expect("the offset of the clock is set");
    set_clock("0");
    let setup = Setup::new(SCRIPT).with("FOLIO_GATEWAY__HEALTH_INTERVAL_SECONDS", 0.2);
    let sandbox = setup.with("FOLIO_CLOCK_OFFSET", offset.display()).start().await;
    let (client, url) = (sandbox.client().await, sandbox.url());
    let channel = Channel::from_shared(url).expect("a URL").connect().await.expect("a connection");
    create_tag(&client, "before").await.expect("the clock is right");
    becomes(&channel, ServingStatus::Serving).await;
    let tags = client.tag_names().await;
    // Two days ahead.
    set_clock("172800");
    let refused = create_tag(&client, "after").await.expect_err("the clock is wrong");
    assert!(refused.message().contains("the clock of this machine is wrong"), "{refused:?}");
    becomes(&channel, ServingStatus::NotServing).await;
    assert_eq!(client.tag_names().await, tags);
}

/// Limits the size of the files of a process.
fn limit_files(process: u32, bytes: &str) {
    let set = Command::new("prlimit").args(["--pid", &process.to_string(), &format!("--fsize={bytes}:")]).status();
    assert!(set.expect("prlimit (util-linux) is installed").success());
}

#[tokio::test]
async fn health_reports_a_full_disk_and_its_recovery() {
    let setup = Setup::new(SCRIPT).with("FOLIO_GATEWAY__HEALTH_INTERVAL_SECONDS", 0.2);
    let mut sandbox = setup.start().await;
    let client = sandbox.client().await;
    let url = sandbox.url();
    let channel = Channel::from_shared(url).expect("a URL").connect().await.expect("a connection");
    create_tag(&client, "before").await.expect("the disk works");
    becomes(&channel, ServingStatus::Serving).await;
    for name in ["first", "second"] {
        limit_files(sandbox.server().id(), "1");
        // The outcome is unknown, so each attempt uses another name.
        let refused = create_tag(&client, &format!("unknown {name}")).await.expect_err("the disk is full");
        assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused:?}");
        becomes(&channel, ServingStatus::NotServing).await;
        assert!(client.tag_names().await.contains(&"before".to_owned()), "stored tags can be read");
        limit_files(sandbox.server().id(), "unlimited");
        becomes(&channel, ServingStatus::Serving).await;
        create_tag(&client, name).await.expect("the disk works again");
    }
    sandbox.kill();
    let names = sandbox.restart().await.tag_names().await;
    for name in ["before", "first", "second"] {
        assert!(names.contains(&name.to_owned()), "{name} was acknowledged: {names:?}");
    }
}

/// The largest reserve of free space that the settings permit, in bytes.
const RESERVE_BYTES: u64 = 1 << 50;

/// Returns the numbers of documents, threads and tags in the lists.
async fn listed(client: &Client) -> [usize; 3] {
    let documents = client.documents.clone().list_documents(v1::ListDocumentsRequest::default()).await;
    let threads = client.threads.clone().list_threads(v1::ListThreadsRequest::default()).await;
    let documents = documents.expect("documents are listed").into_inner().documents;
    let threads = threads.expect("threads are listed").into_inner().threads;
    [documents.len(), threads.len(), client.tag_names().await.len()]
}

#[tokio::test]
async fn documents_threads_and_tags_are_deleted_while_a_full_disk_refuses_uploads() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, document_id) = sandbox.with_document().await;
    let chat = client.chat(&document_id, "hello").await;
    let thread_id = chat.thread();
    chat.completed().await;
    create_tag(&client, "invoices").await.expect("the disk has space");
    let tags = client.tags.clone().list_tags(v1::ListTagsRequest::default()).await.expect("tags are listed");
    let tag_id = tags.into_inner().tags[0].tag_id.clone();
    assert!(sandbox.stop().await);

    let client = sandbox.restart_with("FOLIO_STORAGE__RESERVE_BYTES", RESERVE_BYTES).await;
    assert_eq!(listed(&client).await, [1, 1, 1]);
    let refusal = refused(client.try_upload("new.txt", b"some text").await);
    assert_eq!(refusal.reason.as_str(), "OVERLOADED", "{refusal}");
    assert!(refusal.message.contains("deletions are still accepted"), "{refusal}");
    for attempt in ["first", "repeated"] {
        let request_id = "delete-thread".to_owned();
        let request = v1::DeleteThreadRequest { thread_id: thread_id.clone(), request_id };
        let deleted = within("a deletion", client.threads.clone().delete_thread(request)).await;
        deleted.unwrap_or_else(|status| panic!("{attempt}: the thread is not deleted: {status}"));
        let (document_id, request_id) = (document_id.clone(), "delete-document".to_owned());
        let request = v1::DeleteDocumentRequest { document_id, request_id, ..Default::default() };
        let deleted = within("a deletion", client.documents.clone().delete_document(request)).await;
        deleted.unwrap_or_else(|status| panic!("{attempt}: the document is not deleted: {status}"));
        let (tag_id, request_id) = (tag_id.clone(), "delete-tag".to_owned());
        let request = v1::DeleteTagRequest { tag_id, request_id, ..Default::default() };
        let deleted = within("a deletion", client.tags.clone().delete_tag(request)).await;
        deleted.unwrap_or_else(|status| panic!("{attempt}: the tag is not deleted: {status}"));
        assert_eq!(listed(&client).await, [0, 0, 0], "{attempt}");
    }
    let refusal = refused(client.try_upload("new.txt", b"some text").await);
    assert_eq!(refusal.reason.as_str(), "OVERLOADED", "{refusal}");
}
