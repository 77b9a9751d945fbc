//! Images of messages.

use folio_llm::Models;
use folio_types::MessageImageId;
use folio_types::message::MessageImage;
use llm_sim::RecordedRequest;
use serde_json::json;

use super::*;

/// Returns a request with an image of 60,000 bytes.
fn with_image() -> ModelRequest {
    let id = MessageImageId::derive(&["image"]);
    let image =
        MessageImage { id: id.clone(), media_type: "image/jpeg".into(), width: 512, height: 512, bytes: 60_000 };
    let messages = vec![Message::User { text: "What is this?".into(), images: vec![image] }];
    let mut request = ModelRequest { messages, ..request() };
    let bytes: Vec<u8> = [0xff, 0xd8, 0xff].into_iter().chain(std::iter::repeat(7)).take(60_000).collect();
    request.images.insert(id, bytes.into());
    request
}

fn client_with_vision(url: &str, vision: bool) -> OpenAiModels {
    let change = |options: &mut Options| {
        let model = options.providers.get_mut("openai").unwrap().models.get_mut("scripted").unwrap();
        model.vision = vision;
    };
    client(url, change).0
}

const SCRIPT: &str = r#"
rules:
  - when: {images: 1}
    answer: {text: A cat., no_usage: true}
  - answer: {text: No image., no_usage: true}
"#;

#[tokio::test]
async fn an_image_is_sent_to_models_with_vision_and_counts_by_its_size() {
    let sim = sim(Script::parse(SCRIPT).unwrap()).await;
    let models = client_with_vision(&sim.url(), true);
    let complete = models.complete(with_image()).await.unwrap();
    let mut stream = models.stream(with_image()).await.unwrap();
    let streamed = receive(&mut stream).await.end.unwrap().unwrap();
    for reply in [complete, streamed] {
        assert_eq!(reply.text, "A cat.");
        let tokens = reply.usage.input_tokens;
        assert!((361..600).contains(&tokens) && !reply.usage.reported, "the data counts as an image: {tokens}");
    }
    let sent = sim.requests();
    let url = |request: &RecordedRequest| request.body.pointer("/messages/1/content/1/image_url/url").cloned();
    assert!(
        sent.iter().all(|request| url(request).unwrap().as_str().unwrap().starts_with("data:image/jpeg;base64,/9j/"))
    );

    let models = client_with_vision(&sim.url(), false);
    assert_eq!(models.complete(with_image()).await.unwrap().text, "No image.");
    let content = sim.requests().last().unwrap().body.pointer("/messages/1/content").cloned().unwrap();
    let note = "The images of this message (1) were not sent";
    assert!(content.as_str().is_some_and(|text| text.contains(note)), "{content}");
    assert_ne!(content, json!("What is this?"));
}
