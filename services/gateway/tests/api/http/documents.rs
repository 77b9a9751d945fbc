//! The routes of stored documents.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use super::{Http, encoded};
use crate::harness::{Client, Server};

async fn start() -> (Server, Client, Http, String) {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, documents) = (Http::new(&server, &client), format!("/v0/orgs/{}/documents", client.org));
    (server, client, http, documents)
}

#[tokio::test]
async fn a_document_is_read_changed_and_deleted() {
    let (server, client, http, documents) = start().await;
    let tag = client.tag("a").await;
    let id = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let one = format!("{documents}/{id}");
    let found = http.get(&one).await;
    let document = found.json();
    assert_eq!(document["content"], STANDARD.encode("Total 12.50"));
    assert_eq!((&document["id"], &document["pdf_id"]), (&json!(id), &json!(id)));
    assert_eq!((&document["document_name"], &document["type"]), (&json!("a.txt"), &json!("text/plain")));
    assert_eq!((&document["state"], &document["metadata"]), (&json!("ocr_completed"), &json!({})));
    assert_eq!((&document["uploaded_by"], &document["tag_ids"]), (&json!(client.user.to_string()), &json!([])));
    assert!(document["upload_date"].as_str().unwrap().ends_with('Z'), "{document}");
    let known = http.request(Method::GET, &one).header("if-none-match", found.header("etag"));
    assert_eq!(http.send(known).await.status, 304);

    let change = json!({ "document_name": "b.txt", "tag_ids": [tag], "metadata": { "k": "v" }, "unknown": 1 });
    let changed = http.json(Method::PUT, &one, &change).await;
    assert_eq!(changed.json(), json!({ "message": "Document updated successfully" }));
    let cleared = http.json(Method::PUT, &one, &json!({ "metadata": {}, "tag_ids": null })).await;
    assert_eq!(cleared.status, 200);
    let document = http.get(&format!("{one}?include_content=False")).await.json();
    assert_eq!((&document["content"], &document["document_name"]), (&Value::Null, &json!("b.txt")));
    assert_eq!((&document["tag_ids"], &document["metadata"]), (&json!([tag]), &json!({})));
    let nothing = http.json(Method::PUT, &one, &json!({})).await;
    assert_eq!(nothing.json(), json!({ "message": "No updates provided" }));
    let missing = folio_types::TagId::derive(&["x"]).to_string();
    for tag in ["nonsense", missing.as_str()] {
        let refused = http.json(Method::PUT, &one, &json!({ "tag_ids": [tag] })).await;
        assert_eq!((refused.status.as_u16(), refused.detail()), (400, json!(format!("Invalid tag IDs: [\"{tag}\"]"))));
    }
    let wrong = http.json(Method::PUT, &one, &json!({ "metadata": { "k": 1 } })).await;
    assert_eq!((wrong.status.as_u16(), &wrong.detail()[0]["loc"]), (422, &json!(["body", "metadata", "k"])));

    let deleted = http.json(Method::DELETE, &one, &Value::Null).await;
    assert_eq!(deleted.json(), json!({ "message": "Document deleted successfully" }));
    for (method, path) in [(Method::GET, one.clone()), (Method::PUT, one.clone()), (Method::DELETE, one.clone())] {
        let missing = http.json(method, &path, &json!({})).await;
        assert_eq!((missing.status.as_u16(), missing.detail()), (404, json!("Document not found")));
    }
    assert_eq!(http.get(&format!("{one}/file")).await.detail(), "Document not found");
    server.stop().await;
}

#[tokio::test]
async fn a_document_is_downloaded_in_both_forms() {
    let (server, client, http, documents) = start().await;
    let one = format!("{documents}/{}", client.ready_document("ü \"1\".txt", "Total 12.50").await.document_id);
    let original = http.get(&format!("{one}/file?file_type=original")).await;
    assert_eq!((original.text.as_str(), original.header("content-type")), ("Total 12.50", "text/plain"));
    let disposition = "attachment; filename=\"_ _1_.txt\"; filename*=UTF-8''%C3%BC%20%221%22.txt";
    assert_eq!(original.header("content-disposition"), disposition);
    let form = http.request(Method::GET, &format!("{one}/file")).send().await.unwrap();
    assert_eq!(form.headers()["content-type"], "application/pdf");
    assert!(form.headers()["content-disposition"].to_str().unwrap().ends_with("%221%22.pdf"));
    let form = form.bytes().await.unwrap();
    assert!(form.starts_with(b"%PDF"), "{form:?}");
    let document = http.get(&format!("{one}?file_type=pdf")).await.json();
    assert_eq!((&document["content"], &document["type"]), (&json!(STANDARD.encode(&form)), &json!("application/pdf")));
    let refused = http.get(&format!("{one}?file_type=docx")).await;
    assert_eq!((refused.status.as_u16(), &refused.detail()[0]["loc"]), (422, &json!(["query", "file_type"])));
    server.stop().await;
}

#[tokio::test]
async fn documents_are_paged_searched_sorted_and_filtered() {
    let (server, client, http, documents) = start().await;
    let (paid, open) = (client.tag("Paid").await, client.tag("open").await);
    for (name, tags, metadata) in [
        ("my invoice.txt", json!([paid, open]), json!({ "a b": "x,y", "year": "2026" })),
        ("Invoice.txt", json!([paid]), json!({ "year": "2026" })),
        ("Order.txt", json!([]), json!({ "empty": "" })),
    ] {
        let document = client.ready_document(name, name).await.document_id;
        let change = json!({ "tag_ids": tags, "metadata": metadata });
        assert_eq!(http.json(Method::PUT, &format!("{documents}/{document}"), &change).await.status, 200);
    }
    let names = async |query: &[(&str, &str)]| {
        let answer = http.get(&format!("{documents}?{}", encoded(query))).await.json();
        let rows = answer["documents"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let names: Vec<_> = rows.iter().map(|row| row["document_name"].as_str().unwrap()).collect();
        format!("{} of {} from {}", names.join("|"), answer["total_count"], answer["skip"])
    };
    assert_eq!(names(&[]).await, "Order.txt|Invoice.txt|my invoice.txt of 3 from 0");
    assert_eq!(names(&[("skip", "1"), ("limit", "1")]).await, "Invoice.txt of 3 from 1");
    assert_eq!(names(&[("name_search", "INVOICE")]).await, "Invoice.txt|my invoice.txt of 2 from 0");
    let both = format!("{paid},{open}");
    assert_eq!(names(&[("tag_ids", &both)]).await, "my invoice.txt of 1 from 0");
    for (search, expected) in [
        ("a%20b%3Dx%2Cy", "my invoice.txt of 1 from 0"),
        ("year=2026", "Invoice.txt|my invoice.txt of 2 from 0"),
        ("year=2026, a%20b=x%2Cy", "my invoice.txt of 1 from 0"),
        ("year=202", " of 0 from 0"),
        ("empty=", "Order.txt of 1 from 0"),
        ("year%", "Order.txt|Invoice.txt|my invoice.txt of 3 from 0"),
    ] {
        assert_eq!(names(&[("metadata_search", search)]).await, expected, "{search}");
    }
    let sort = r#"[{"field": "documentName", "sort": "asc"}]"#;
    assert_eq!(names(&[("sort", sort), ("limit", "2")]).await, "Invoice.txt|my invoice.txt of 3 from 0");
    for (field, operator, value, expected) in [
        ("tag_ids", "contains", json!("PAI"), "Invoice.txt|my invoice.txt of 2 from 0"),
        ("tag_ids", "isAnyOf", json!(open), "my invoice.txt of 1 from 0"),
        ("document_name", "startsWith", json!("o"), "Order.txt of 1 from 0"),
        ("state", "equals", json!("ocr_completed"), "Order.txt|Invoice.txt|my invoice.txt of 3 from 0"),
        ("state", "equals", json!("ready"), " of 0 from 0"),
        ("upload_date", "before", json!("2020-01-01"), " of 0 from 0"),
        ("nothing", "equals", json!("x"), "Order.txt|Invoice.txt|my invoice.txt of 3 from 0"),
    ] {
        let filters = json!({ "items": [{ "field": field, "operator": operator, "value": value }] }).to_string();
        assert_eq!(names(&[("filters", &filters)]).await, expected, "{filters}");
    }
    for (query, status, detail) in [
        ("sort=x", 400, json!("Invalid sort JSON")),
        ("filters=x", 400, json!("Invalid filters JSON")),
        ("tag_ids=x", 400, json!("Invalid tag IDs: [\"x\"]")),
    ] {
        let refused = http.get(&format!("{documents}?{query}")).await;
        assert_eq!((refused.status.as_u16(), refused.detail()), (status, detail));
    }
    let date = r#"{"items": [{"field": "upload_date", "operator": "is", "value": "yesterday"}]}"#;
    let refused = http.get(&format!("{documents}?{}", encoded(&[("filters", date)]))).await;
    let location = json!(["query", "filters", 0, "values"]);
    assert_eq!((refused.status.as_u16(), &refused.detail()[0]["loc"]), (422, &location));
    assert_eq!(http.get(&format!("{documents}?limit=1001")).await.status, 422);
    assert_eq!(http.get(&format!("{documents}?limit=1000")).await.status, 200);
    server.stop().await;
}
