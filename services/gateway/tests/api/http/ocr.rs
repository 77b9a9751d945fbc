//! The routes of the text of documents.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{Client, Server};

const INVOICE: &[u8] = include_bytes!("../../../../../samples/invoice.pdf");

/// Uploads a PDF file and waits for its text. Returns its id.
async fn invoice(client: &Client, http: &Http) -> String {
    let file = json!({ "documents": [{ "name": "invoice.pdf", "content": STANDARD.encode(INVOICE) }] });
    let documents = format!("/v0/orgs/{}/documents", client.org);
    let stored = http.json(Method::POST, &documents, &file).await.json();
    let id = stored["documents"][0]["document_id"].as_str().unwrap().to_owned();
    wait_for_text(client, http, &id).await;
    id
}

async fn wait_for_text(client: &Client, http: &Http, id: &str) {
    let one = format!("/v0/orgs/{}/documents/{id}?include_content=false", client.org);
    folio_testkit::wait_for("the text of a document", Duration::from_secs(60), || async {
        (http.get(&one).await.json()["state"] == "ocr_completed").then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_text_of_a_document_is_read_with_its_boxes() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let id = invoice(&client, &http).await;
    let ocr = format!("/v0/orgs/{}/ocr", client.org);
    let text = http.get(&format!("{ocr}/download/text/{id}")).await;
    assert_eq!((text.status.as_u16(), text.header("content-type")), (200, "text/plain; charset=utf-8"));
    assert!(text.text.to_lowercase().contains("invoice"), "{text:?}");
    let metadata = http.get(&format!("{ocr}/download/metadata/{id}")).await.json();
    let pages = metadata["n_pages"].as_u64().unwrap();
    assert_eq!((&metadata["page_count"], &metadata["document_id"]), (&json!(pages), &json!(id)));
    assert!(metadata["ocr_date"].as_str().unwrap().ends_with('Z') && metadata["ocr_type"].is_null(), "{metadata}");
    let single = async |page: u64| http.get(&format!("{ocr}/download/text/{id}?page_num={page}")).await;
    let mut texts = Vec::new();
    for page in 1..=pages {
        texts.push(single(page).await.text);
    }
    assert_eq!(text.text, texts.join("\n"));
    for page in [0, pages + 1] {
        let missing = single(page).await;
        assert_eq!((missing.status.as_u16(), missing.detail()), (404, json!("OCR text not found")), "{page}");
    }

    let blocks = http.get(&format!("{ocr}/download/blocks/{id}?format=plain")).await.json();
    let of_type = |name: &str| blocks.as_array().unwrap().iter().filter(|block| block["BlockType"] == name).count();
    assert_eq!(of_type("PAGE") as u64, pages);
    assert_eq!(of_type("WORD"), text.text.split_whitespace().count());
    let stored = http.get(&format!("{ocr}/download/json/{id}")).await;
    assert_eq!(stored.header("cache-control"), "private, max-age=3600");
    let stored = stored.json();
    assert_eq!((&stored["Blocks"], stored["pages"].as_array().unwrap().len() as u64), (&blocks, pages));
    assert_eq!(stored["pages"][0], json!({ "index": 0, "markdown": texts[0] }));
    let compressed = http.request(Method::GET, &format!("{ocr}/download/json/{id}?format=gzip"));
    let compressed = compressed.header("accept-encoding", "identity").send().await.unwrap();
    assert_eq!(compressed.headers()["content-encoding"], "gzip");
    assert!(compressed.bytes().await.unwrap().starts_with(&[0x1f, 0x8b]));
    assert_eq!(http.get(&format!("{ocr}/download/json/{id}?format=zip")).await.status, 422);
    let markdown = http.get(&format!("{ocr}/export/markdown/{id}")).await;
    assert_eq!(markdown.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(markdown.text, texts.join("\n\n---\n\n"));
    let html = http.get(&format!("{ocr}/export/html/{id}")).await;
    assert_eq!(html.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(html.text.matches("<section>").count() as u64, pages);
    server.stop().await;
}

#[tokio::test]
async fn a_text_is_read_again_only_if_it_is_recognized() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let id = invoice(&client, &http).await;
    let ocr = format!("/v0/orgs/{}/ocr", client.org);
    let date = async || http.get(&format!("{ocr}/download/metadata/{id}")).await.json()["ocr_date"].clone();
    let first = date().await;
    let queued = json!({ "status": "queued", "document_id": id });
    let kept = http.json(Method::POST, &format!("{ocr}/run/{id}?force=false"), &Value::Null).await;
    assert_eq!((kept.json(), date().await), (queued.clone(), first.clone()));
    // A client sends `null` as the body.
    let run = http.request(Method::POST, &format!("{ocr}/run/{id}?ocr_only=true"));
    let run = http.send(run.header("content-type", "application/json").body("null")).await;
    assert_eq!(run.json(), queued);
    wait_for_text(&client, &http, &id).await;
    assert_ne!(date().await, first);

    let text = client.ready_document("a.txt", "text").await.document_id;
    let refused = http.json(Method::POST, &format!("{ocr}/run/{text}"), &Value::Null).await;
    assert_eq!((refused.status.as_u16(), refused.detail()), (400, json!("Document type does not support OCR")));
    for route in ["download/text", "download/metadata", "download/blocks", "download/json", "export/html"] {
        let refused = http.get(&format!("{ocr}/{route}/{text}")).await;
        let detail = json!("OCR not supported for this document extension");
        assert_eq!((refused.status.as_u16(), refused.detail()), (404, detail), "{route}");
    }
    let missing = folio_types::DocumentId::derive(&["x"]);
    let refused = http.get(&format!("{ocr}/download/text/{missing}")).await;
    assert_eq!((refused.status.as_u16(), refused.detail()), (404, json!("Document not found")));
    server.stop().await;
}
