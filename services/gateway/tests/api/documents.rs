//! DocumentService.

use std::collections::BTreeMap;

use folio_proto::v1;
use folio_types::{Code, Reason};
use serde_json::json;
use v1::download_document_response::Part as Downloaded;
use v1::upload_document_request::Part;

use crate::harness::{Client, Server, refused};

async fn download(client: &Client, id: &str) -> (v1::Document, Vec<u8>) {
    let request = v1::DownloadDocumentRequest { document_id: id.into() };
    let mut stream = client.documents().download_document(request).await.unwrap().into_inner();
    let Some(Downloaded::Document(document)) = stream.message().await.unwrap().unwrap().part else {
        panic!("the document comes first");
    };
    let mut bytes = Vec::new();
    while let Some(next) = stream.message().await.unwrap() {
        let Some(Downloaded::Chunk(chunk)) = next.part else { panic!("a second document") };
        bytes.extend(chunk);
    }
    (document, bytes)
}

#[tokio::test]
async fn a_download_returns_the_uploaded_bytes() {
    let server = Server::start().await;
    let client = server.member().await;
    let text = "line\n".repeat(200_000);
    let metadata = BTreeMap::from([("year".to_owned(), "2024".to_owned())]);
    let description = v1::DocumentDescription { name: "lines.txt".into(), metadata, ..Default::default() };
    let mut parts = vec![Part::Description(description)];
    parts.extend(text.as_bytes().chunks(100_000).map(|chunk| Part::Chunk(chunk.to_vec())));
    let document = client.upload_parts(parts).await.unwrap();
    assert_eq!((document.media_type.as_str(), document.size_bytes), ("text/plain", text.len() as u64));
    assert_eq!(document.metadata["year"], "2024");
    let (described, bytes) = download(&client, &document.document_id).await;
    assert_eq!((described.document_id, described.sha256), (document.document_id, document.sha256));
    assert!(bytes == text.as_bytes());
    server.stop().await;
}

#[tokio::test]
async fn the_same_upload_again_gives_the_same_document() {
    let server = Server::start().await;
    let client = server.member().await;
    let first = client.upload("a.txt", "hello", "r1").await.unwrap();
    let again = client.upload("a.txt", "hello", "r1").await.unwrap();
    assert_eq!(first.document_id, again.document_id);
    let error = refused(client.upload("a.txt", "other", "r1").await, "other content");
    assert_eq!(error.reason, Reason::RequestIdConflict);
    assert_eq!(download(&client, &first.document_id).await.1, b"hello");
    assert_ne!(client.upload("a.txt", "hello", "").await.unwrap().document_id, first.document_id);
    server.stop().await;
}

#[tokio::test]
async fn malformed_uploads_leave_nothing() {
    let server = Server::start().await;
    let client = server.member().await;
    let named = |name: &str| v1::DocumentDescription { name: name.into(), ..Default::default() };
    let description = |size_bytes| v1::DocumentDescription { size_bytes, ..named("a.txt") };
    let chunk = |bytes: usize| Part::Chunk(vec![b'x'; bytes]);
    let missing_tag = folio_types::TagId::derive(&["x"]).to_string();
    let cases = vec![
        ("no description", vec![chunk(3)], Reason::InvalidField),
        ("two descriptions", vec![Part::Description(named("a")), Part::Description(named("a"))], Reason::InvalidField),
        ("no name", vec![Part::Description(named("")), chunk(3)], Reason::InvalidField),
        ("an empty file", vec![Part::Description(named("a.txt"))], Reason::InvalidField),
        ("fewer bytes than declared", vec![Part::Description(description(9)), chunk(3)], Reason::InvalidField),
        ("more bytes than declared", vec![Part::Description(description(2)), chunk(3)], Reason::InvalidField),
        (
            "a declared size above the maximum",
            vec![Part::Description(description(u64::MAX)), chunk(3)],
            Reason::TooLarge,
        ),
        ("too large a chunk", vec![Part::Description(named("a")), chunk(1024 * 1024 + 1)], Reason::TooLarge),
        (
            "too large a file",
            std::iter::once(Part::Description(named("a.txt"))).chain((0..4).map(|_| chunk(1024 * 1024))).collect(),
            Reason::TooLarge,
        ),
        (
            "a program",
            vec![Part::Description(named("a.exe")), Part::Chunk(b"\x7fELF\x02\x01\x01\0\0\0".to_vec())],
            Reason::UnsupportedType,
        ),
        (
            "a missing tag",
            vec![Part::Description(v1::DocumentDescription { tag_ids: vec![missing_tag], ..named("a.txt") }), chunk(3)],
            Reason::NotFound,
        ),
        (
            "a malformed request id",
            vec![Part::Description(v1::DocumentDescription { request_id: "ä".into(), ..named("a.txt") }), chunk(3)],
            Reason::InvalidId,
        ),
    ];
    for (what, parts, reason) in cases {
        let error = refused(client.upload_parts(parts).await, what);
        assert_eq!(error.reason, reason, "{what}: {error}");
    }
    let list = client.documents().list_documents(v1::ListDocumentsRequest::default()).await.unwrap();
    assert_eq!(list.into_inner().total_size, 0);
    server.stop().await;
}

#[tokio::test]
async fn text_is_returned_by_page_when_it_is_ready() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = client.ready_document("a.txt", "Invoice 17\nTotal 12.50").await;
    let request = v1::GetDocumentTextRequest { document_id: document.document_id.clone(), ..Default::default() };
    let text = client.documents().get_document_text(request.clone()).await.unwrap().into_inner();
    assert_eq!((text.state(), text.total_pages, text.next_page), (v1::DocumentState::Ready, 1, 0));
    assert!(text.pages[0].text.contains("Total 12.50"), "{text:?}");
    let beyond = v1::GetDocumentTextRequest { from_page: 2, ..request };
    let text = client.documents().get_document_text(beyond).await.unwrap().into_inner();
    assert_eq!((text.pages.len(), text.next_page), (0, 0));
    server.stop().await;
}

#[tokio::test]
async fn a_deleted_document_takes_its_dependents_with_it() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = client.upload("a.txt", "hello", "").await.unwrap();
    let id = json!({"document_id": document.document_id});
    let delete = json!({"document_id": document.document_id, "request_id": "d"});
    client.done("DeleteDocument", delete.clone()).await;
    client.done("DeleteDocument", delete).await;
    for operation in ["GetDocument", "GetDocumentText", "DownloadDocument", "ListExtractions"] {
        assert_eq!(client.refusal(operation, id.clone()).await.code, Code::NotFound, "{operation}");
    }
    server.stop().await;
}
