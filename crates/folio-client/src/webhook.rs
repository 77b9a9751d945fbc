//! Verifies the signatures of webhook events according to Standard Webhooks.

use folio_types::Timestamp;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_TIMESTAMP, Webhook};

/// Prefix of a secret in the notation of Standard Webhooks. Base64 follows.
const PREFIX: &str = "whsec_";
/// Maximum size of the body of a request in bytes. A larger body is not an event of Folio.
const BODY_BYTES: usize = 64 * 1024;

/// A verified event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Identifies the event; an event may be delivered several times.
    pub id: String,
    /// The type, such as `document.ready`.
    pub kind: String,
    /// Time of the write that caused the event.
    pub timestamp: Timestamp,
    /// The data of the event: ids, states and versions.
    pub data: Map<String, Value>,
}

/// The body of an event.
#[derive(Deserialize)]
struct Body {
    #[serde(rename = "type")]
    kind: String,
    timestamp: Timestamp,
    data: Map<String, Value>,
}

/// The reason why a request is not a valid event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEvent {
    #[error("invalid secret: expected Base64 after {}, or any other text", PREFIX)]
    Secret,
    #[error("the body has {0} bytes; an event has at most {max}", max = BODY_BYTES)]
    TooLarge(usize),
    /// The request was not signed with the secret, or its time differs from the local clock by more than five minutes.
    #[error("invalid signature: {0}")]
    Signature(String),
    #[error("the body is not an event: {0}")]
    Body(String),
}

/// Verifies the signature and the time of a request, and returns its event. `secret`: the secret of the endpoint. `body`:
/// the unchanged bytes of the request.
///
/// # Errors
/// [`InvalidEvent`] if the secret is malformed, the body is too large or not an event, the request was not signed with
/// the secret, or its time differs from the local clock by more than five minutes.
pub fn verify(secret: &str, headers: &HeaderMap, body: &[u8]) -> Result<Event, InvalidEvent> {
    if body.len() > BODY_BYTES {
        return Err(InvalidEvent::TooLarge(body.len()));
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A time of 32 bits cannot overflow the calculations of the library.
    if header(HEADER_WEBHOOK_TIMESTAMP).parse::<u32>().is_err() {
        return Err(InvalidEvent::Signature("the time is missing or malformed".to_owned()));
    }
    let verified = webhook(secret)?.verify(body, headers);
    verified.map_err(|error| InvalidEvent::Signature(error.to_string()))?;
    let Body { kind, timestamp, data } =
        serde_json::from_slice(body).map_err(|error| InvalidEvent::Body(error.to_string()))?;
    Ok(Event { id: header(HEADER_WEBHOOK_ID).to_owned(), kind, timestamp, data })
}

fn webhook(secret: &str) -> Result<Webhook, InvalidEvent> {
    let is_empty = secret.strip_prefix(PREFIX).unwrap_or(secret).is_empty();
    let webhook = match secret.starts_with(PREFIX) {
        // An empty key is public: every program can sign with it.
        _ if is_empty => return Err(InvalidEvent::Secret),
        true => Webhook::new(secret),
        false => Webhook::from_bytes(secret.as_bytes().to_vec()),
    };
    webhook.map_err(|_| InvalidEvent::Secret)
}

#[cfg(test)]
mod tests {
    use standardwebhooks::HEADER_WEBHOOK_SIGNATURE;

    use super::*;

    const BODY: &str =
        r#"{"type": "document.ready", "timestamp": "2026-11-22T09:00:00.5Z", "data": {"document_id": "doc_1"}}"#;

    /// Returns the headers of a signed request that is `age` seconds old.
    fn signed(key: &[u8], body: &str, age: i64) -> HeaderMap {
        let seconds = Timestamp::now().as_second() - age;
        let signature = Webhook::from_bytes(key.to_vec()).unwrap().sign("evt_1", seconds, body.as_bytes()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(HEADER_WEBHOOK_ID, "evt_1".parse().unwrap());
        headers.insert(HEADER_WEBHOOK_TIMESTAMP, seconds.to_string().parse().unwrap());
        headers.insert(HEADER_WEBHOOK_SIGNATURE, signature.parse().unwrap());
        headers
    }

    #[test]
    fn a_signed_event_is_returned() {
        for (secret, key) in [("whsec_AAEC", &[0_u8, 1, 2][..]), ("any text", &b"any text"[..])] {
            let event = verify(secret, &signed(key, BODY, 0), BODY.as_bytes()).unwrap();
            assert_eq!((event.id.as_str(), event.kind.as_str()), ("evt_1", "document.ready"));
            assert_eq!(event.data["document_id"], "doc_1");
            assert_eq!(event.timestamp.to_string(), "2026-11-22T09:00:00.5Z");
        }
    }

    #[test]
    fn an_event_without_a_valid_signature_is_refused() {
        let (key, headers) = (b"key", signed(b"key", BODY, 0));
        let with = |name: &'static str, value: &str| {
            let mut headers = headers.clone();
            headers.insert(name, value.parse().unwrap());
            headers
        };
        let changed = format!("{BODY} ");
        for (secret, headers, body) in [
            ("other", headers.clone(), BODY),
            ("key", headers.clone(), changed.as_str()),
            ("key", signed(key, BODY, 302), BODY),
            ("key", signed(key, BODY, -302), BODY),
            ("key", with(HEADER_WEBHOOK_ID, "evt_2"), BODY),
            ("key", with(HEADER_WEBHOOK_SIGNATURE, "v1"), BODY),
            ("key", with(HEADER_WEBHOOK_TIMESTAMP, "now"), BODY),
            ("key", with(HEADER_WEBHOOK_TIMESTAMP, "-9223372036854775808"), BODY),
            ("key", HeaderMap::new(), BODY),
        ] {
            let refused = verify(secret, &headers, body.as_bytes()).unwrap_err();
            assert!(matches!(refused, InvalidEvent::Signature(_)), "{refused}");
        }
        let refused = verify("key", &signed(key, "[]", 0), b"[]").unwrap_err();
        assert!(matches!(refused, InvalidEvent::Body(_)), "{refused}");
        let large = " ".repeat(BODY_BYTES + 1);
        let refused = verify("key", &signed(key, &large, 0), large.as_bytes()).unwrap_err();
        assert_eq!(refused, InvalidEvent::TooLarge(BODY_BYTES + 1));
    }

    #[test]
    fn an_invalid_secret_is_refused_and_not_repeated_in_the_message() {
        for secret in ["whsec_", "whsec_%", ""] {
            let refused = verify(secret, &signed(b"key", BODY, 0), BODY.as_bytes()).unwrap_err();
            assert_eq!(refused, InvalidEvent::Secret, "{secret:?}");
            assert!(!refused.to_string().contains('%'));
        }
    }
}
