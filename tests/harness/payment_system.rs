//! A payment system that sends signed purchase events.

use reqwest::StatusCode;
use serde_json::Value;
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};

use super::process::Process;
use super::within;

pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Returns the URL at which a process accepts purchase events.
pub fn url(process: &Process) -> String {
    let url = process.printed_after("purchases on ").expect("the process accepts purchase events");
    format!("http://{url}/webhooks/purchases")
}

/// Returns the headers of an event that is signed at the time `at`, in seconds since the Unix epoch.
pub fn sign(secret: &str, at: i64, body: &str) -> [(&'static str, String); 3] {
    let webhook = Webhook::new(secret).expect("a secret");
    let signature = webhook.sign("msg_1", at, body.as_bytes()).expect("a signature");
    [
        (HEADER_WEBHOOK_ID, "msg_1".to_owned()),
        (HEADER_WEBHOOK_TIMESTAMP, at.to_string()),
        (HEADER_WEBHOOK_SIGNATURE, signature),
    ]
}

pub async fn send(url: &str, body: &str, headers: [(&str, String); 3]) -> StatusCode {
    let mut request = reqwest::Client::new().post(url).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    within("an answer", request.send()).await.expect("the process answers").status()
}

pub async fn send_signed(url: &str, secret: &str, message: &Value) -> StatusCode {
    let body = message.to_string();
    send(url, &body, sign(secret, folio_types::Timestamp::now().as_second(), &body)).await
}
