//! Tests of `TagService`.

use folio_types::Etag;
use serde_json::json;

use crate::harness::Server;

#[tokio::test]
async fn concurrent_changes_are_all_applied() {
    let server = Server::start().await;
    let client = server.member().await;
    let id = client.tag("shared").await;
    let version = async || {
        let found = client.call_ok("GetTag", json!({"tag_id": id})).await;
        found["tag"]["etag"].as_str().unwrap().parse::<Etag>().unwrap().version()
    };
    let before = version().await;
    let change = |n: u32| client.call_ok("UpdateTag", json!({"tag": {"tag_id": id, "description": format!("by {n}")}}));
    futures::future::join_all((0..4).map(change)).await;
    assert_eq!(version().await, before + 4);
    server.stop().await;
}
