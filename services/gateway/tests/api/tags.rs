//! TagService.

use folio_proto::v1;
use folio_types::{Code, Etag, Reason};

use crate::harness::{Server, refused};

#[tokio::test]
async fn a_tag_is_created_changed_and_deleted_once_for_each_request() {
    let server = Server::start().await;
    let client = server.member().await;
    let create = v1::CreateTagRequest {
        tag: Some(v1::Tag {
            name: "Invoices".into(),
            color: "#AABBCC".into(),
            description: "all of them".into(),
            ..Default::default()
        }),
        request_id: "r1".into(),
    };
    let tag = client.tags().create_tag(create.clone()).await.unwrap().into_inner().tag.unwrap();
    assert_eq!(
        (tag.name.as_str(), tag.color.as_str(), tag.description.as_str()),
        ("Invoices", "#aabbcc", "all of them")
    );
    let again = client.tags().create_tag(create.clone()).await.unwrap().into_inner().tag.unwrap();
    assert_eq!(again, tag);
    let other =
        v1::CreateTagRequest { tag: Some(v1::Tag { name: "Other".into(), ..Default::default() }), ..create.clone() };
    assert_eq!(refused(client.tags().create_tag(other).await, "other content").reason, Reason::RequestIdConflict);
    let taken = v1::CreateTagRequest {
        tag: Some(v1::Tag { name: "INVOICES".into(), ..Default::default() }),
        request_id: "r2".into(),
    };
    assert_eq!(refused(client.tags().create_tag(taken).await, "same name").reason, Reason::NameTaken);

    let update = v1::UpdateTagRequest {
        tag: Some(v1::Tag {
            tag_id: tag.tag_id.clone(),
            color: String::new(),
            etag: tag.etag.clone(),
            ..Default::default()
        }),
        request_id: "u1".into(),
        update_mask: Some(prost_types::FieldMask { paths: vec!["color".into()] }),
    };
    let updated = client.tags().update_tag(update.clone()).await.unwrap().into_inner().tag.unwrap();
    assert_eq!((updated.color.as_str(), updated.description.as_str()), ("", "all of them"));
    assert_ne!(updated.etag, tag.etag);
    let again = client.tags().update_tag(update.clone()).await.unwrap().into_inner().tag.unwrap();
    assert_eq!(again, updated, "the same request again changes nothing");
    let stale = v1::UpdateTagRequest { request_id: "u2".into(), ..update };
    let error = refused(client.tags().update_tag(stale).await, "stale");
    assert_eq!((error.code, error.reason), (Code::Aborted, Reason::VersionConflict));

    let delete = v1::DeleteTagRequest { tag_id: tag.tag_id.clone(), request_id: "d1".into(), ..Default::default() };
    client.tags().delete_tag(delete.clone()).await.unwrap();
    client.tags().delete_tag(delete.clone()).await.unwrap();
    let delete_again = v1::DeleteTagRequest { request_id: "d2".into(), ..delete };
    assert_eq!(refused(client.tags().delete_tag(delete_again).await, "gone").code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn a_request_id_identifies_one_request_of_any_operation() {
    let server = Server::start().await;
    let client = server.member().await;
    let (one, two) = (client.tag("one").await, client.tag("two").await);
    let update = |tag: &v1::Tag| v1::UpdateTagRequest {
        tag: Some(v1::Tag { tag_id: tag.tag_id.clone(), description: "changed".into(), ..Default::default() }),
        request_id: "r".into(),
        ..Default::default()
    };
    client.tags().update_tag(update(&one)).await.unwrap();
    let second = refused(client.tags().update_tag(update(&two)).await, "another tag");
    assert_eq!((second.code, second.reason), (Code::AlreadyExists, Reason::RequestIdConflict));
    let delete = v1::DeleteTagRequest { tag_id: two.tag_id.clone(), request_id: "r".into(), ..Default::default() };
    assert_eq!(refused(client.tags().delete_tag(delete).await, "another rpc").reason, Reason::RequestIdConflict);
    let found = v1::GetTagRequest { tag_id: two.tag_id.clone() };
    assert_eq!(client.tags().get_tag(found).await.unwrap().into_inner().tag.unwrap(), two);
    client.tags().update_tag(update(&one)).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn concurrent_changes_are_all_applied() {
    let server = Server::start().await;
    let client = server.member().await;
    let tag = client.tag("shared").await;
    let changes = (0..4).map(|n| {
        let (client, tag_id) = (client.clone(), tag.tag_id.clone());
        async move {
            let request = v1::UpdateTagRequest {
                tag: Some(v1::Tag { tag_id, description: format!("by {n}"), ..Default::default() }),
                ..Default::default()
            };
            client.tags().update_tag(request).await
        }
    });
    for answer in futures::future::join_all(changes).await {
        answer.unwrap();
    }
    let request = v1::GetTagRequest { tag_id: tag.tag_id.clone() };
    let found = client.tags().get_tag(request).await.unwrap().into_inner().tag.unwrap();
    let version = |tag: &v1::Tag| tag.etag.parse::<Etag>().unwrap().version();
    assert_eq!(version(&found), version(&tag) + 4);
    server.stop().await;
}

#[tokio::test]
async fn a_tag_in_use_stays() {
    let server = Server::start().await;
    let client = server.member().await;
    let tag = client.tag("used").await;
    let document = client.upload("a.txt", "hello", "").await.unwrap();
    let request = v1::UpdateDocumentRequest {
        document: Some(v1::Document {
            document_id: document.document_id,
            tag_ids: vec![tag.tag_id.clone()],
            ..Default::default()
        }),
        ..Default::default()
    };
    client.documents().update_document(request).await.unwrap();
    let delete = v1::DeleteTagRequest { tag_id: tag.tag_id, ..Default::default() };
    let error = refused(client.tags().delete_tag(delete).await, "in use");
    assert_eq!((error.code, error.reason), (Code::FailedPrecondition, Reason::InUse));
    assert!(error.message.contains("a.txt"), "{error}");
    server.stop().await;
}
