//! The conventions of every list: pages, skip, filter, order and total.

use std::collections::BTreeMap;

use folio_proto::v1;
use folio_types::Reason;

use crate::harness::{Client, Server, refused};

async fn names(client: &Client, request: v1::ListDocumentsRequest) -> (Vec<String>, String, i32) {
    let page = client.documents().list_documents(request).await.unwrap().into_inner();
    (page.documents.into_iter().map(|document| document.name).collect(), page.next_page_token, page.total_size)
}

async fn five(client: &Client) {
    for name in ["delta.txt", "Alpha.txt", "charlie.txt", "Bravo.txt", "echo invoice.txt"] {
        client.upload(name, name, "").await.unwrap();
    }
}

#[tokio::test]
async fn filters_hold_together_and_ignore_case() {
    let server = Server::start().await;
    let client = server.member().await;
    five(&client).await;
    let tag = client.tag("t").await.tag_id;
    let description = v1::DocumentDescription {
        name: "Invoice of May.txt".into(),
        tag_ids: vec![tag.clone()],
        metadata: BTreeMap::from([("Month name".to_owned(), "May 2024".to_owned())]),
        ..Default::default()
    };
    let parts = vec![
        v1::upload_document_request::Part::Description(description),
        v1::upload_document_request::Part::Chunk(b"x".to_vec()),
    ];
    client.upload_parts(parts).await.unwrap();
    for (filter, expected) in [
        ("name:INVOICE".to_owned(), 2),
        (r#"name:"invoice of""#.to_owned(), 1),
        (format!("tag:{tag}"), 1),
        (format!("name:alpha AND tag:{tag}"), 0),
        (r#"metadata."Month name":may"#.to_owned(), 1),
        (r#"metadata."Month name":june"#.to_owned(), 0),
    ] {
        let request = v1::ListDocumentsRequest { filter: filter.clone(), ..Default::default() };
        assert_eq!(names(&client, request).await.2, expected, "{filter}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_page_token_belongs_to_its_list() {
    let server = Server::start().await;
    let client = server.member().await;
    five(&client).await;
    let first = v1::ListDocumentsRequest { page_size: 1, ..Default::default() };
    let token = names(&client, first.clone()).await.1;
    let other = server.member().await;
    let with = |filter: &str, order_by: &str| v1::ListDocumentsRequest {
        page_token: token.clone(),
        filter: filter.into(),
        order_by: order_by.into(),
        ..first.clone()
    };
    let answers = [
        client.documents().list_documents(with("name:a", "")).await,
        client.documents().list_documents(with("", "name")).await,
        other.documents().list_documents(with("", "")).await,
    ];
    for answer in answers {
        assert_eq!(refused(answer, "a token of another list").reason, Reason::InvalidPageToken);
    }
    let tags = v1::ListTagsRequest { page_token: token.clone(), ..Default::default() };
    assert_eq!(refused(client.tags().list_tags(tags).await, "tags").reason, Reason::InvalidPageToken);
    assert_eq!(names(&client, with("", "")).await.0, ["Bravo.txt"]);
    server.stop().await;
}
