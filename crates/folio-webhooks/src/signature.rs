//! Signatures according to Standard Webhooks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use folio_types::{Environment, Error, Result, Secret};
use standardwebhooks::Webhook;

/// Prefix of a secret in the notation of Standard Webhooks. Base64 follows.
const PREFIX: &str = "whsec_";

/// Returns the key of a secret: the decoded Base64 after `whsec_`, otherwise the bytes of the text.
///
/// # Errors
/// A text that follows the name of the field in an error message.
pub fn signing_key(secret: &Secret) -> Result<Vec<u8>, String> {
    let text = secret.reveal();
    match text.strip_prefix(PREFIX) {
        // An empty key is public: every program can sign with it.
        Some(encoded) => match STANDARD.decode(encoded) {
            Ok(key) if !key.is_empty() => Ok(key),
            _ => Err(format!("must have Base64 after {PREFIX}")),
        },
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// Generates a secret in the notation of Standard Webhooks.
pub fn generate_secret(environment: &dyn Environment) -> Secret {
    let key = [environment.random().to_be_bytes(), environment.random().to_be_bytes()].concat();
    Secret::new(&format!("{PREFIX}{}", STANDARD.encode(key)))
}

/// Returns the value of the header `webhook-signature`.
pub(crate) fn sign(secret: &Secret, id: &str, seconds: i64, body: &str) -> Result<String> {
    let failed = |problem: String| Error::internal(format!("an event cannot be signed: {problem}"));
    let key = signing_key(secret).map_err(failed)?;
    let webhook = Webhook::from_bytes(key).map_err(|error| failed(error.to_string()))?;
    webhook.sign(id, seconds, body.as_bytes()).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_base64_after_its_prefix_or_a_text() {
        assert_eq!(signing_key(&Secret::new("whsec_AAEC")).unwrap(), [0, 1, 2]);
        assert_eq!(signing_key(&Secret::new("AAEC")).unwrap(), b"AAEC");
        assert!(signing_key(&Secret::new("whsec_")).is_err(), "an empty key");
        let problem = signing_key(&Secret::new("whsec_not base64")).unwrap_err();
        assert!(!problem.contains("not base64"), "{problem}");
    }

    #[test]
    fn a_generated_secret_has_32_bytes() {
        let secret = generate_secret(&folio_types::System);
        assert_eq!(signing_key(&secret).unwrap().len(), 32);
        assert_ne!(secret.reveal(), generate_secret(&folio_types::System).reveal());
    }

    #[test]
    fn a_signature_is_that_of_the_specification() {
        // The example of the specification.
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signature =
            sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#).unwrap();
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
