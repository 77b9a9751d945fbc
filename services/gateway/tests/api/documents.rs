//! Tests of `DocumentService`.

use std::collections::BTreeMap;

use folio_proto::v1;
use v1::download_document_response::Part as Downloaded;
use v1::upload_document_request::Part;

use crate::harness::{Client, Server};

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
