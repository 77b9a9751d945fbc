//! The routes of the structure of documents, and of parts of PDF files.

use http::Method;
use serde_json::json;

use super::Http;
use crate::harness::Server;

const TEXT: &str = "Intro\n\n# Scope\n\nSee [the fees](https://example.com/fees) below.\n\n## Services\n\nMany words.\n\n\
    # Fees\n\n| Item | Price |\n| --- | --- |\n| Work | 12 |\n";

#[tokio::test]
async fn sections_tables_links_and_images_are_read() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let document = client.ready_document("terms.md", TEXT).await.document_id;
    let other = client.ready_document("other.md", "# Other\n\nText.").await.document_id;
    let one = format!("/v0/orgs/{}/documents/{document}", client.org);
    let structure = http.get(&format!("{one}/structure")).await.json();
    let titles: Vec<_> = structure["sections"].as_array().unwrap().iter().map(|section| &section["title"]).collect();
    assert_eq!(titles, ["", "Scope", "Services", "Fees"]);
    let scope = structure["sections"][1]["section_id"].as_str().unwrap();
    assert_eq!(structure["sections"][2]["parent_section_id"], json!(scope));
    assert_eq!(structure["tables"][0]["rows"], json!([["Item", "Price"], ["Work", "12"]]));
    assert_eq!((&structure["total_pages"], &structure["next_page"]), (&json!(1), &json!(null)));

    let section = http.get(&format!("{one}/section?section_id={scope}")).await.json();
    assert_eq!((&section["section"]["title"], &section["rest_id"]), (&json!("Scope"), &json!(null)));
    assert!(section["pages"][0]["text"].as_str().unwrap().contains("Many words."), "{section}");
    let part = http.get(&format!("{one}/section?section_id={scope}&max_tokens=4")).await.json();
    let rest = http.get(&format!("{one}/section?section_id={}", part["rest_id"].as_str().unwrap())).await.json();
    assert!(rest["pages"][0]["text"].as_str().unwrap().contains("Many words."), "{rest}");
    let foreign = format!("/v0/orgs/{}/documents/{other}/section?section_id={scope}", client.org);
    for refused in [foreign, format!("{one}/section"), format!("{one}/section?section_id=s1")] {
        let answer = http.get(&refused).await;
        assert!([404, 422].contains(&answer.status.as_u16()), "{refused}: {answer:?}");
    }

    let links = http.get(&format!("{one}/hyperlinks")).await.json();
    assert_eq!((&links["links"][0]["url"], &links["total_count"]), (&json!("https://example.com/fees"), &json!(1)));
    assert_eq!(http.get(&format!("{one}/hyperlinks?skip=1")).await.json()["links"], json!([]));
    let images = http.get(&format!("{one}/images")).await.json();
    assert_eq!((&images["images"], &images["total_count"]), (&json!([]), &json!(0)));
    let text = scope.rsplit_once('.').unwrap().0;
    let missing = http.get(&format!("{one}/image?image_id={text}.p1i1")).await;
    assert_eq!(missing.status, 422, "{missing:?}");
    server.stop().await;
}

#[tokio::test]
async fn only_a_pdf_is_split() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let document = client.ready_document("terms.md", TEXT).await.document_id;
    let split = format!("/v0/orgs/{}/documents/{document}/split", client.org);
    let proposed = http.get(&split).await;
    assert_eq!(proposed.json()["code"], "UNSUPPORTED_TYPE", "{proposed:?}");
    let parts =
        json!({"parts": [{"first_page": 1, "last_page": 1}, {"first_page": 2, "last_page": 2, "name": "b.pdf"}]});
    let refused = http.json(Method::POST, &split, &parts).await;
    assert_eq!(refused.json()["code"], "UNSUPPORTED_TYPE", "{refused:?}");
    let one = json!({"parts": [{"first_page": 1, "last_page": 1}]});
    assert_eq!(http.json(Method::POST, &split, &one).await.status, 422);
    server.stop().await;
}
