//! The routes of links between documents, and of questions about terms.

use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::Server;
use crate::tenants::create_question;

#[tokio::test]
async fn links_are_resolved_and_listed_in_both_directions() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, org) = (Http::new(&server, &client), format!("/v0/orgs/{}", client.org));
    let contract = client.ready_document("contract.txt", "See annex.txt and missing.pdf.").await.document_id;
    let annex = client.ready_document("annex.txt", "The annex.").await.document_id;
    for document in [&annex, &contract] {
        let resolved = http.json(Method::POST, &format!("{org}/documents/{document}/links/resolve"), &json!({})).await;
        assert_eq!(resolved.status, 200, "{resolved:?}");
    }
    let links = http.get(&format!("{org}/documents/{contract}/links")).await.json();
    let statuses: Vec<&Value> = links["links"].as_array().unwrap().iter().map(|link| &link["status"]).collect();
    assert_eq!((statuses, &links["total_count"]), (vec![&json!("matched"), &json!("missing")], &json!(2)));
    assert_eq!(links["links"][0]["documents"], json!([{ "document_id": annex, "document_name": "annex.txt" }]));
    let matched = http.get(&format!("{org}/documents/{contract}/links?status=matched&limit=1")).await.json();
    assert_eq!(matched["total_count"], 1);
    let incoming = http.get(&format!("{org}/documents/{annex}/links/incoming")).await.json();
    assert_eq!(incoming["links"][0]["document"]["document_id"], json!(contract));
    let missing = http.get(&format!("{org}/links/missing")).await.json();
    assert_eq!((&missing["links"][0]["target"], &missing["total_count"]), (&json!("missing.pdf"), &json!(1)));
    assert_eq!(missing["links"][0]["document_ids"], json!([contract]));
    let refused = http.get(&format!("{org}/documents/{contract}/links?status=other")).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_question_is_answered_and_its_term_gets_an_entry() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, dictionary) = (Http::new(&server, &client), format!("/v0/orgs/{}/dictionary", client.org));
    let document = client.ready_document("sales.txt", "Sales in MY rose.").await.document_id;
    let question = create_question(&server, &client.org, &document).await;
    let listed = http.get(&format!("{dictionary}/questions?state=open")).await.json();
    assert_eq!((&listed["dictionary_questions"][0]["id"], &listed["total_count"]), (&json!(question), &json!(1)));
    let one = format!("{dictionary}/questions/{question}");
    let invalid = http.json(Method::POST, &format!("{one}/answer"), &json!({ "expansion": " " })).await;
    assert_eq!(invalid.status, 422, "{invalid:?}");
    let answered = http.json(Method::POST, &format!("{one}/answer"), &json!({ "expansion": "Malaysia" })).await;
    let answered = answered.json();
    assert_eq!(answered["dictionary_question"]["state"], "answered");
    let entry = answered["dictionary_entry_id"].as_str().unwrap();
    let entry = http.get(&format!("{dictionary}/{entry}")).await.json();
    assert_eq!((&entry["expansion"], &entry["provenance"]), (&json!("Malaysia"), &json!("person")));
    let dismissed = http.json(Method::POST, &format!("{one}/dismiss"), &json!({})).await;
    assert_eq!((dismissed.status.as_u16(), dismissed.json()["code"].clone()), (400, json!("QUESTION_DECIDED")));
    assert_eq!(http.get(&one).await.json()["state"], "answered");
    let proposals = http.get(&format!("{dictionary}/proposals")).await.json();
    assert_eq!((&proposals["document_count"], &proposals["next_page_token"]), (&json!(1), &json!("")));
    server.stop().await;
}
