//! The routes of the dictionary.

use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::Server;

#[tokio::test]
async fn an_entry_is_created_listed_changed_and_deleted() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, entries) = (Http::new(&server, &client), format!("/v0/orgs/{}/dictionary", client.org));
    let fields = json!({ "term": "MY", "expansion": "Malaysia", "tags": ["APAC"], "confidence": 0.5 });
    let created = http.json(Method::POST, &entries, &fields).await;
    let entry = created.json();
    assert_eq!((created.status.as_u16(), &entry["provenance"]), (200, &json!("inferred")), "{entry}");
    assert_eq!((&entry["disambiguation"], &entry["source_document_ids"]), (&Value::Null, &json!([])));
    let taken = http.json(Method::POST, &entries, &json!({ "term": "my", "expansion": "x" })).await;
    assert_eq!((taken.status.as_u16(), taken.json()["code"].clone()), (409, json!("NAME_TAKEN")));
    let invalid = http.json(Method::POST, &entries, &json!({ "term": " ", "expansion": "x" })).await;
    assert_eq!(invalid.status, 422, "{invalid:?}");
    let one = format!("{entries}/{}", entry["id"].as_str().unwrap());
    assert_eq!(http.get(&one).await.json(), entry);

    let changed = http.json(Method::PUT, &one, &json!({ "term": "MY", "expansion": "Malaysia, the country" })).await;
    let changed = changed.json();
    assert_eq!((&changed["provenance"], &changed["tags"]), (&json!("person"), &json!([])));
    let found = http.get(&format!("{entries}?term=M&provenance=person")).await.json();
    assert_eq!(found, json!({ "dictionary_entries": [changed], "total_count": 1, "skip": 0 }));
    let none = http.get(&format!("{entries}?tag=APAC&limit=1")).await.json();
    assert_eq!(none["dictionary_entries"], json!([]));

    let deleted = http.json(Method::DELETE, &one, &Value::Null).await;
    assert_eq!(deleted.json(), json!({ "message": "Dictionary entry deleted successfully" }));
    assert_eq!(http.get(&one).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn a_file_is_imported_and_exported() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, entries) = (Http::new(&server, &client), format!("/v0/orgs/{}/dictionary", client.org));
    let file = json!({ "format": "csv", "content": "term,expansion,tags\nMY,Malaysia,APAC;Sales\nSG,,\n" });
    let imported = http.json(Method::POST, &format!("{entries}/import"), &file).await.json();
    let rows = imported["rows"].as_array().unwrap();
    assert_eq!((&rows[0]["created"], &rows[0]["code"]), (&json!(true), &Value::Null), "{imported}");
    assert_eq!((&rows[1]["created"], &rows[1]["code"]), (&json!(false), &json!("INVALID_FIELD")), "{imported}");
    let exported = http.get(&format!("{entries}/export")).await;
    let line: Value = serde_json::from_str(&exported.text).unwrap();
    assert_eq!((&line["term"], &line["tags"]), (&json!("MY"), &json!(["APAC", "Sales"])));
    let exported = http.get(&format!("{entries}/export?format=csv&tag=sales")).await;
    assert_eq!(exported.text.lines().nth(1), Some("MY,Malaysia,,APAC;Sales,,person,"));
    server.stop().await;
}
