//! Refusals: any shape of body, never a key.

use folio_types::Temperature;
use llm_sim::{Fault, FaultRule};

use super::raw::{RawServer, send};
use super::*;

async fn refused(code: u16, body: &str) -> ModelError {
    let fault = Fault::Status { code, retry_after: None, body: Some(body.to_owned()) };
    let sim = faulty(FaultPlan::always(fault)).await;
    let models = models(&sim.url());
    let (_, error) = streamed(&models).await.unwrap_err();
    assert_eq!(models.complete(request()).await.unwrap_err(), error, "streamed and whole");
    assert_eq!(sim.chats().len(), 2, "a refusal is not tried again");
    assert!(!error.is_retriable());
    error
}

#[tokio::test]
async fn every_body_of_a_refusal_is_returned_with_its_status() {
    for (code, body, message) in [
        (400, r#"{"error": {"message": "context too long", "type": "x", "code": 400}}"#, "context too long"),
        (404, r#"{"detail": "no such model"}"#, "no such model"),
        (422, "<html><h1>Unprocessable</h1></html>", "Unprocessable"),
        (413, "", ""),
        (429, r#"{"error": {"code": "insufficient_quota", "message": "pay first"}}"#, "pay first"),
    ] {
        assert_eq!(refused(code, body).await, ModelError::Refused { status: code, message: message.into() });
    }
    let ModelError::Refused { message, .. } = refused(400, &"x".repeat(1 << 20)).await else { panic!("no refusal") };
    assert!(message.chars().count() < 600);
}

#[tokio::test]
async fn a_refused_key_is_reported_and_never_shown() {
    for code in [400, 401, 403] {
        let body = format!(r#"{{"error": {{"message": "Incorrect API key provided: {KEY}. See sk-test-****mnop"}}}}"#);
        let error = refused(code, &body).await;
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("abcdef") && !shown.contains("mnop"), "{shown}");
        assert_eq!(shown.contains("openai refused the API key"), code != 400, "{shown}");
    }
    let sim = LlmSim::builder().api_key("another").start().await.unwrap();
    let (_, error) = streamed(&models(&sim.url())).await.unwrap_err();
    assert!(matches!(&error, ModelError::Refused { status: 401, .. }), "{error:?}");
    let sim = LlmSim::builder().api_key(KEY).start().await.unwrap();
    assert!(streamed(&models(&sim.url())).await.is_ok());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = faulty(FaultPlan::none()).await;
    let head =
        format!("HTTP/1.1 307 Elsewhere\r\nlocation: {}/chat/completions\r\ncontent-length: 0\r\n\r\n", other.url());
    let server = RawServer::start(vec![send(head)]).await;
    let (_, error) = streamed(&models(&server.url())).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused { status: 307, .. }), "{error:?}");
    assert!(other.requests().is_empty(), "neither conversation nor key went elsewhere");
}

#[tokio::test]
async fn a_refused_temperature_is_omitted_and_remembered_for_the_model() {
    let body = r#"{"error": {"message": "Unsupported value: 'temperature' does not support 0 with this model."}}"#;
    let refusal = |message: &str| Fault::Status { code: 400, retry_after: None, body: Some(message.to_owned()) };
    let cold = || ModelRequest { temperature: Some(Temperature::default()), ..request() };
    for is_streamed in [false, true] {
        let sim = faulty(FaultPlan::first(1, refusal(body))).await;
        let models = models(&sim.url());
        for _ in 0..2 {
            if is_streamed {
                let mut stream = models.stream(cold()).await.unwrap();
                assert!(receive(&mut stream).await.end.unwrap().is_ok());
            } else {
                models.complete(cold()).await.unwrap();
            }
        }
        let sent: Vec<bool> = sim.chats().iter().map(|chat| chat.body.get("temperature").is_some()).collect();
        assert_eq!(sent, [true, false, false], "streamed: {is_streamed}");
    }

    // A refusal for another reason is not repeated.
    let rule = FaultRule { nth: Some(1), ..FaultRule::always(refusal("the context is too long")) };
    let sim = faulty(FaultPlan { rules: vec![rule] }).await;
    let models = models(&sim.url());
    assert!(matches!(models.complete(cold()).await, Err(ModelError::Refused { status: 400, .. })));
    models.complete(cold()).await.unwrap();
    assert!(sim.chats().iter().all(|chat| chat.body["temperature"] == 0.0) && sim.chats().len() == 2);
}
