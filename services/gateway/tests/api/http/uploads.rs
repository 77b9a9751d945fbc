//! The routes that store documents.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use folio_types::Role;
use folio_types::access::Scope;
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::Server;

#[tokio::test]
async fn files_in_json_are_stored_in_their_order_with_their_bytes() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, documents) = (Http::new(&server, &client), format!("/v0/orgs/{}/documents", client.org));
    let tag = client.tag("a").await;
    let files = json!({ "documents": [
        { "name": "a.txt", "content": STANDARD.encode("first"), "tag_ids": [tag], "metadata": { "k": "v" } },
        { "name": "b.txt", "content": format!("data:text/plain;base64,{}", STANDARD.encode("second")) },
    ] });
    let stored = http.json(Method::POST, &documents, &files).await.json();
    let names: Vec<&Value> = stored["documents"].as_array().unwrap().iter().map(|one| &one["document_name"]).collect();
    assert_eq!(names, ["a.txt", "b.txt"]);
    assert_eq!(
        (&stored["documents"][0]["tag_ids"], &stored["documents"][0]["metadata"]),
        (&json!([tag]), &json!({ "k": "v" }))
    );
    let parts = client.stream("DownloadDocument", json!({"document_id": stored["documents"][1]["document_id"]})).await;
    assert_eq!(parts[1]["chunk"], STANDARD.encode("second"));
    assert_eq!(
        http.json(Method::POST, &documents, &json!({ "documents": [] })).await.json(),
        json!({ "documents": [] })
    );
    server.stop().await;
}

#[tokio::test]
async fn a_request_with_a_wrong_file_stores_none_of_its_files() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, documents) = (Http::new(&server, &client), format!("/v0/orgs/{}/documents", client.org));
    let good = json!({ "name": "a.txt", "content": STANDARD.encode("text") });
    let with = |name: &str, content: String, tag: &str| {
        let tags = if tag.is_empty() { json!([]) } else { json!([tag]) };
        json!({ "documents": [good, { "name": name, "content": content, "tag_ids": tags }] })
    };
    let missing = folio_types::TagId::derive(&["x"]).to_string();
    let (text, binary) = (STANDARD.encode("text"), STANDARD.encode([0, 159, 146, 150]));
    let large = STANDARD.encode(vec![b'x'; 3 * 1024 * 1024 + 1]);
    for (body, status, detail) in [
        (with("b.txt", "%".to_owned(), ""), 400, "Invalid base64 content: "),
        (with("b.exe", binary, ""), 400, "Unsupported file extension .exe: b.exe"),
        (with("b.txt", text.clone(), "nonsense"), 400, "Invalid tag IDs: [\"nonsense\"]"),
        (with("b.txt", text.clone(), &missing), 400, "Invalid tag IDs: "),
        (with("b.txt", large, ""), 413, ""),
    ] {
        let refused = http.json(Method::POST, &documents, &body).await;
        assert_eq!(refused.status.as_u16(), status, "{refused:?}");
        assert!(refused.detail().as_str().unwrap().starts_with(detail), "{refused:?}");
    }
    assert_eq!(client.call_ok("ListDocuments", json!({})).await, json!({}));
    server.stop().await;
}

#[tokio::test]
async fn a_file_name_is_a_text_and_never_a_path() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, documents) = (Http::new(&server, &client), format!("/v0/orgs/{}/documents", client.org));
    let name = "../../etc/passwd.txt";
    let file = json!({ "documents": [{ "name": name, "content": STANDARD.encode("first") }] });
    let stored = http.json(Method::POST, &documents, &file).await.json();
    let form =
        format!("--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\nsecond\r\n--B--\r\n");
    let request = http.request(Method::POST, &format!("{documents}/multipart"));
    let request = request.header("content-type", "multipart/form-data; boundary=B").body(form);
    let received = http.send(request).await.json();
    for (document, text) in [(&stored["documents"][0], "first"), (&received["document"], "second")] {
        assert_eq!(document["document_name"], name);
        let id = document["document_id"].as_str().unwrap();
        let file = http.get(&format!("{documents}/{id}/file?file_type=original")).await;
        assert_eq!(file.text, text, "{file:?}");
        assert!(file.header("content-disposition").contains("filename=\".._.._etc_passwd.txt\""), "{file:?}");
    }
    for wrong in ["a\u{0}.txt", "a\r\nb.txt", ""] {
        let file = json!({ "documents": [{ "name": wrong, "content": STANDARD.encode("x") }] });
        let refused = http.json(Method::POST, &documents, &file).await;
        assert!([400, 422].contains(&refused.status.as_u16()), "{wrong:?}: {refused:?}");
    }
    assert_eq!(client.call_ok("ListDocuments", json!({})).await["total_size"], 2);
    server.stop().await;
}

#[tokio::test]
async fn a_form_is_stored_once_under_its_idempotency_key() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, form) = (Http::new(&server, &client), format!("/v0/orgs/{}/documents/multipart", client.org));
    let part = |head: &str, body: &str| format!("--B\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n");
    let body = part("name=\"file\"; filename=\"ü.txt\"", "Total 12.50")
        + &part("name=\"metadata\"", "{\"a\": \"b\"}")
        + "--B--\r\n";
    let send = async || {
        let request = http.request(Method::POST, &form).header("content-type", "multipart/form-data; boundary=B");
        http.send(request.header("idempotency-key", "k").body(body.clone())).await
    };
    let (first, again) = (send().await, send().await);
    assert_eq!(first.json()["document"]["document_name"], "ü.txt", "{first:?}");
    assert_eq!(first.json()["document"]["document_id"], again.json()["document"]["document_id"]);
    assert_eq!(client.call_ok("ListDocuments", json!({})).await["total_size"], 1);
    let other = http.json(Method::POST, &form, &json!({})).await;
    assert_eq!(other.status, 415);
    server.stop().await;
}

#[tokio::test]
async fn the_password_of_a_form_is_that_of_its_pdf() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, documents) = (Http::new(&server, &client), format!("/v0/orgs/{}/documents/multipart", client.org));
    for (password, status, problem) in [
        ("open sesame".to_owned(), 422, "only a PDF has a password"),
        ("x".repeat(128), 422, "must have 1 to 127 bytes"),
        (String::new(), 200, ""),
    ] {
        let part = |head: &str, body: &str| format!("--B\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n");
        let form =
            part("name=\"file\"; filename=\"a.txt\"", "Total 12.50") + &part("name=\"password\"", password.as_str());
        let request = http.request(Method::POST, &documents).header("content-type", "multipart/form-data; boundary=B");
        let answer = http.send(request.body(form + "--B--\r\n")).await;
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
        assert!(answer.text.contains(problem), "{answer:?}");
        assert!(password.is_empty() || !answer.text.contains(&password), "an answer contains no password");
    }
    assert_eq!(client.call_ok("ListDocuments", json!({})).await["total_size"], 1);
    server.stop().await;
}

#[tokio::test]
async fn an_upload_states_whether_an_agent_makes_a_proposal() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, documents) = (Http::new(&server, &client), format!("/v0/orgs/{}/documents", client.org));
    let admin = server.user(&client.org, Role::Admin).await;
    admin.call_ok("UpdateOrganization", json!({ "organization": { "auto_create": true } })).await;
    let form = |value: &str| {
        let part = |head: &str, body: &str| format!("--B\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n");
        let file = part("name=\"file\"; filename=\"a.txt\"", "Total 12.50");
        let auto_create = if value.is_empty() { String::new() } else { part("name=\"auto_create\"", value) };
        file + &auto_create + "--B--\r\n"
    };
    let send = async |http: &Http, value: &str| {
        let request = http.request(Method::POST, &format!("{documents}/multipart"));
        http.send(request.header("content-type", "multipart/form-data; boundary=B").body(form(value))).await
    };
    let stored = async |id: &Value| {
        client.call_ok("GetDocument", json!({ "document_id": id })).await["document"]["auto_create"] == true
    };
    for (value, expected) in [("true", true), ("false", false), ("", true)] {
        let uploaded = send(&http, value).await.json();
        assert_eq!(stored(&uploaded["document"]["document_id"]).await, expected, "{value:?}: {uploaded}");
    }
    assert_eq!(send(&http, "1").await.status, 400);
    for (value, expected) in [(json!(true), true), (json!(false), false), (Value::Null, true)] {
        let file = json!({ "name": "a.txt", "content": STANDARD.encode("text"), "auto_create": value });
        let uploaded = http.json(Method::POST, &documents, &json!({ "documents": [file] })).await.json();
        assert_eq!(stored(&uploaded["documents"][0]["document_id"]).await, expected, "{value}: {uploaded}");
    }
    let file = json!({ "name": "a.txt", "content": STANDARD.encode("text"), "credit_budget": 0 });
    let refused = http.json(Method::POST, &documents, &json!({ "documents": [file] })).await;
    assert_eq!(refused.status, 422, "the credit budget of the agent is checked: {refused:?}");

    let restricted = server.restricted_user(&client.org, Role::Member, &[Scope::Documents], false).await;
    let refused = send(&Http::new(&server, &restricted), "true").await;
    assert_eq!(refused.status, 403, "a proposal needs further scopes: {refused:?}");
    server.stop().await;
}
