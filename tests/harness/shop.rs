//! A payment system: it signs messages of what was bought, and sends them.

use reqwest::StatusCode;
use serde_json::Value;
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};

use super::process::Process;
use super::within;

/// What it signs with.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Where a process takes messages.
///
/// # Panics
/// It takes none.
pub fn url(process: &Process) -> String {
    let place = process.said().lines().find_map(|line| line.strip_prefix("purchases on ")).expect("it says where");
    format!("http://{place}/webhooks/purchases")
}

/// The headers of a message that was signed at this second.
///
/// # Panics
/// The secret is none.
pub fn sign(secret: &str, at: i64, body: &str) -> [(&'static str, String); 3] {
    let webhook = Webhook::new(secret).expect("a secret");
    let signature = webhook.sign("msg_1", at, body.as_bytes()).expect("a signature");
    [
        (HEADER_WEBHOOK_ID, "msg_1".to_owned()),
        (HEADER_WEBHOOK_TIMESTAMP, at.to_string()),
        (HEADER_WEBHOOK_SIGNATURE, signature),
    ]
}

/// Sends a message with these headers.
///
/// # Panics
/// Nobody answers.
pub async fn send(url: &str, body: &str, headers: [(&str, String); 3]) -> StatusCode {
    let mut request = reqwest::Client::new().post(url).body(body.to_owned());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    within("an answer", request.send()).await.expect("it answers").status()
}

/// Sends a message that is signed now.
///
/// # Panics
/// Nobody answers.
pub async fn tell(url: &str, secret: &str, message: &Value) -> StatusCode {
    let body = message.to_string();
    send(url, &body, sign(secret, folio_types::Timestamp::now().as_second(), &body)).await
}
