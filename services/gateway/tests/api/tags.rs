//! TagService.

use folio_types::{Code, Etag, Reason};
use serde_json::{Value, json};

use crate::harness::Server;

#[tokio::test]
async fn a_tag_is_created_changed_and_deleted_once_for_each_request() {
    let server = Server::start().await;
    let client = server.member().await;
    let create = json!({
        "tag": {"name": "Invoices", "color": "#AABBCC", "description": "all of them"}, "request_id": "r1",
    });
    let made = client.done("CreateTag", create.clone()).await;
    let tag = &made["tag"];
    assert_eq!([&tag["name"], &tag["color"], &tag["description"]], ["Invoices", "#aabbcc", "all of them"]);
    assert_eq!(client.done("CreateTag", create).await, made);
    let named = |name: &str, id: &str| json!({"tag": {"name": name}, "request_id": id});
    assert_eq!(client.refusal("CreateTag", named("Other", "r1")).await.reason, Reason::RequestIdConflict);
    assert_eq!(client.refusal("CreateTag", named("INVOICES", "r2")).await.reason, Reason::NameTaken);

    let id = &tag["tag_id"];
    let update = |request_id: &str| json!({"tag": {"tag_id": id, "etag": tag["etag"]}, "request_id": request_id, "update_mask": "color"});
    let updated = client.done("UpdateTag", update("u1")).await;
    assert_eq!((&updated["tag"]["color"], &updated["tag"]["description"]), (&Value::Null, &tag["description"]));
    assert_ne!(updated["tag"]["etag"], tag["etag"]);
    assert_eq!(client.done("UpdateTag", update("u1")).await, updated, "the same request again changes nothing");
    let error = client.refusal("UpdateTag", update("u2")).await;
    assert_eq!((error.code, error.reason), (Code::Aborted, Reason::VersionConflict));

    let delete = |request_id: &str| json!({"tag_id": id, "request_id": request_id});
    client.done("DeleteTag", delete("d1")).await;
    client.done("DeleteTag", delete("d1")).await;
    assert_eq!(client.refusal("DeleteTag", delete("d2")).await.code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn a_request_id_identifies_one_request_of_any_operation() {
    let server = Server::start().await;
    let client = server.member().await;
    let (one, two) = (client.tag("one").await.tag_id, client.tag("two").await.tag_id);
    let update = |id: &str| json!({"tag": {"tag_id": id, "description": "changed"}, "request_id": "r"});
    let before = client.done("GetTag", json!({"tag_id": two})).await;
    client.done("UpdateTag", update(&one)).await;
    let second = client.refusal("UpdateTag", update(&two)).await;
    assert_eq!((second.code, second.reason), (Code::AlreadyExists, Reason::RequestIdConflict));
    let delete = json!({"tag_id": two, "request_id": "r"});
    assert_eq!(client.refusal("DeleteTag", delete).await.reason, Reason::RequestIdConflict);
    assert_eq!(client.done("GetTag", json!({"tag_id": two})).await, before);
    client.done("UpdateTag", update(&one)).await;
    server.stop().await;
}

#[tokio::test]
async fn concurrent_changes_are_all_applied() {
    let server = Server::start().await;
    let client = server.member().await;
    let id = client.tag("shared").await.tag_id;
    let version = async || {
        let found = client.done("GetTag", json!({"tag_id": id})).await;
        found["tag"]["etag"].as_str().unwrap().parse::<Etag>().unwrap().version()
    };
    let before = version().await;
    let change = |n: u32| client.done("UpdateTag", json!({"tag": {"tag_id": id, "description": format!("by {n}")}}));
    futures::future::join_all((0..4).map(change)).await;
    assert_eq!(version().await, before + 4);
    server.stop().await;
}

#[tokio::test]
async fn a_tag_in_use_stays() {
    let server = Server::start().await;
    let client = server.member().await;
    let tag = client.tag("used").await.tag_id;
    let document = client.upload("a.txt", "hello", "").await.unwrap().document_id;
    client.done("UpdateDocument", json!({"document": {"document_id": document, "tag_ids": [tag]}})).await;
    let error = client.refusal("DeleteTag", json!({"tag_id": tag})).await;
    assert_eq!((error.code, error.reason), (Code::FailedPrecondition, Reason::InUse));
    assert!(error.message.contains("a.txt"), "{error}");
    server.stop().await;
}
