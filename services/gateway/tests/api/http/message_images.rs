//! Images of messages over REST.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use folio_types::{MessageImageId, Role, limits};
use http::Method;
use serde_json::{Value, json};

use super::assistant::script_sum;
use super::{Http, PNG};
use crate::harness::Server;

#[tokio::test]
async fn an_image_is_uploaded_sent_with_a_message_and_read() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let images = format!("/v0/orgs/{}/message_images", client.org);
    let upload = async |data: &str| {
        let request = http.request(Method::POST, &images).header("idempotency-key", "one");
        http.send(request.json(&json!({ "data": data }))).await
    };
    let image = upload(PNG).await.json();
    let expected = (&json!(2), &json!(1), &json!("image/jpeg"));
    assert_eq!((&image["width"], &image["height"], &image["media_type"]), expected, "{image}");
    let repeated = upload(&format!("data:image/png;base64,{PNG}")).await;
    assert_eq!(repeated.json(), image, "the same file as a data URL");
    let id = image["image_id"].as_str().unwrap().to_owned();
    let read = http.get(&format!("{images}/{id}")).await;
    assert_eq!((read.status.as_u16(), read.header("content-type")), (200, "image/jpeg"));

    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let chat = format!("/v0/orgs/{}/documents/{document}/chat", client.org);
    let thread = http.json(Method::POST, &format!("{chat}/threads"), &Value::Null).await.json()["thread_id"].clone();
    let messages = json!([{ "role": "user", "content": "What is this?" }]);
    let body = json!({ "messages": messages, "thread_id": thread, "image_ids": [id] });
    server.model.answer("Two pixels.");
    assert_eq!(http.json(Method::POST, &chat, &body).await.json()["text"], "Two pixels.");
    let thread = thread.as_str().unwrap();
    let stored = http.get(&format!("{chat}/threads/{thread}")).await.json();
    assert_eq!(stored["messages"][0]["images"], json!([image]), "{stored}");
    assert_eq!(stored["messages"][1]["images"], json!([]));
    // A chat without a thread has images, too.
    server.model.answer("The same pixels.");
    let ephemeral = json!({ "messages": messages, "image_ids": [id] });
    assert_eq!(http.json(Method::POST, &chat, &ephemeral).await.json()["text"], "The same pixels.");

    // Others read the image with a thread that they may see.
    let admin = Http::new(&server, &server.user(&client.org, Role::Admin).await);
    let hidden = admin.get(&format!("{images}/{id}")).await;
    assert_eq!((hidden.status.as_u16(), hidden.detail()), (404, json!("Message image not found")));
    assert_eq!(admin.get(&format!("{images}/{id}?thread_id={thread}")).await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_question_to_the_assistant_has_images() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, base) = (Http::new(&server, &client), format!("/v0/orgs/{}", client.org));
    let image = http.json(Method::POST, &format!("{base}/message_images"), &json!({ "data": PNG })).await.json();
    script_sum(&server);
    let question = json!({ "question": "What is the sum?", "image_ids": [image["image_id"]] });
    let answer = http.json(Method::POST, &format!("{base}/assistant/ask"), &question).await.json();
    assert_eq!(answer["text"], "1 + 1 = 2", "{answer}");
    let thread = client.call_ok("GetThread", json!({ "thread_id": answer["thread_id"] })).await;
    assert_eq!(thread["messages"][0]["user"]["images"][0]["image_id"], image["image_id"], "{thread}");
    server.stop().await;
}

#[tokio::test]
async fn unusable_images_are_refused() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let images = format!("/v0/orgs/{}/message_images", client.org);
    let large = STANDARD.encode(vec![0_u8; limits::MESSAGE_IMAGE_BYTES + 1]);
    for (data, status) in [
        (json!("%%"), 422),
        (json!(""), 422),
        (json!(STANDARD.encode("no image")), 422),
        (Value::Null, 422),
        (json!(large), 413),
        (json!("A".repeat(12 * 1024 * 1024)), 413),
    ] {
        let refused = http.json(Method::POST, &images, &json!({ "data": data })).await;
        assert_eq!(refused.status.as_u16(), status, "{:.40}: {refused:?}", data.to_string());
    }
    let image = http.json(Method::POST, &images, &json!({ "data": PNG })).await.json()["image_id"].clone();
    let missing = MessageImageId::derive(&["missing"]).to_string();
    for id in ["x", missing.as_str()] {
        let answer = http.get(&format!("{images}/{id}")).await;
        assert_eq!((answer.status.as_u16(), answer.detail()), (404, json!("Message image not found")), "{id}");
    }

    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let chat = format!("/v0/orgs/{}/documents/{document}/chat", client.org);
    let messages = json!([{ "role": "user", "content": "What is this?" }]);
    for (ids, status) in [(json!([image, image]), 422), (json!(vec!["x"; 5]), 422), (json!([missing]), 404)] {
        let body = json!({ "messages": messages, "image_ids": ids });
        assert_eq!(http.json(Method::POST, &chat, &body).await.status.as_u16(), status, "{ids}");
    }
    // The text names the reason: the model exists, and accepts no images.
    let body = json!({ "messages": messages, "image_ids": [image], "model": "chat-only" });
    let refused = http.json(Method::POST, &chat, &body).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (400, &json!("MODEL_NOT_AVAILABLE")));
    assert!(refused.detail().as_str().unwrap().contains("messages with images"), "{refused:?}");
    assert_eq!(server.model.calls(), 0);
    server.stop().await;
}
