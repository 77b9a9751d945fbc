//! Receives webhook messages of a payment system and grants the purchased credit.
//!
//! A message is signed according to Standard Webhooks (version 1, HMAC-SHA-256), with the headers `webhook-id`,
//! `webhook-timestamp` (at most five minutes from now) and `webhook-signature`. The body of a message:
//!
//! ```json
//! {"type": "credit.purchased",
//!  "data": {"purchase_id": "in_1Nv0", "organization_id": "org_…", "credits": 5000,
//!           "expires_at": "2027-11-22T00:00:00Z", "priority": 100, "note": "November"}}
//! ```
//!
//! A purchase is granted once, regardless of the number of its messages. Messages of other types are accepted and
//! ignored.

use std::sync::Arc;

use folio_credit::{AMOUNT_MAX, Grant, GrantKind};
use folio_metering::CreditMeter;
use folio_operations::credits::grant_purchase;
use folio_proto::fields;
use folio_storage::Stores;
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Code, Environment, Error, GrantId, OrgId, Reason, Result, Secret, Timestamp, limits};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use standardwebhooks::{HEADER_WEBHOOK_TIMESTAMP, Webhook};

/// Maximum size of a message in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Default priority of purchased credit. Credit with a lower priority is used first.
const PRIORITY: u8 = 100;
/// Maximum number of characters of the id of a purchase.
const PURCHASE_ID_CHARS: usize = 200;
/// Minimum size of a signing key in bytes, according to Standard Webhooks.
const KEY_BYTES_MIN: usize = 24;

/// Settings of purchases (`purchases`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The address `HOST:PORT` of the HTTP/1.1 listener for `/webhooks/purchases`, behind a proxy that terminates TLS.
    /// Port 0: any free port. Empty (the default): no listener.
    pub listen: String,
    /// The signing secrets, each `whsec_` and at least 24 bytes in Base64. A message must be signed with one of them.
    /// Several secrets permit a rotation.
    pub secrets: Vec<Secret>,
}

impl Options {
    /// Returns every invalid setting with its bounds.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("purchases");
        problems.check(self.listen.is_empty() || !self.secrets.is_empty(), "secrets", "are required with listen");
        for (at, secret) in self.secrets.iter().enumerate() {
            let path = format!("secrets[{at}]");
            problems.check(!secret.is_mask(), &path, "is the mask that printed settings contain in place of a secret");
            let expected = format_args!("must be whsec_ and {KEY_BYTES_MIN} bytes or more in Base64");
            problems.check(is_secret(secret.reveal()), &path, expected);
        }
        problems.into_result()
    }
}

fn is_secret(text: &str) -> bool {
    // Four characters of Base64 encode three bytes.
    let is_long_enough =
        text.strip_prefix("whsec_").is_some_and(|key| key.trim_end_matches('=').len() >= KEY_BYTES_MIN * 4 / 3);
    is_long_enough && Webhook::new(text).is_ok()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurchaseOutcome {
    /// The credit is granted, by this message or by an earlier one.
    Granted,
    /// The message has another type and is ignored.
    Ignored,
}

pub struct Purchases {
    webhooks: Vec<Webhook>,
    stores: Stores,
    credit: CreditMeter,
    environment: Arc<dyn Environment>,
}

impl std::fmt::Debug for Purchases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Purchases")
    }
}

#[derive(Deserialize)]
struct Message {
    r#type: String,
    #[serde(default)]
    data: serde_json::Value,
}

#[derive(Deserialize)]
struct Purchase {
    purchase_id: String,
    organization_id: String,
    credits: u64,
    #[serde(default)]
    expires_at: Option<Timestamp>,
    #[serde(default)]
    priority: Option<u8>,
    #[serde(default)]
    note: String,
}

impl Purchases {
    /// Creates a receiver of messages that are signed with one of these secrets.
    ///
    /// # Errors
    /// `INTERNAL` if a secret is malformed; [`Options::check`] finds it at startup.
    pub fn new(
        secrets: &[Secret],
        stores: Stores,
        credit: CreditMeter,
        environment: Arc<dyn Environment>,
    ) -> Result<Self> {
        let webhooks = secrets.iter().map(|secret| Webhook::new(secret.reveal()));
        let webhooks = webhooks.collect::<Result<Vec<_>, _>>();
        let webhooks = webhooks.map_err(|_| Error::internal("a secret of purchases is malformed"))?;
        Ok(Self { webhooks, stores, credit, environment })
    }

    /// Verifies the signature of a message and grants the purchased credit. Idempotent.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` without a valid signature; `INVALID_FIELD` with the field; `NOT_FOUND` if the organization
    /// does not exist; `REQUEST_ID_CONFLICT` if the purchase was reported with other content before.
    pub async fn receive(&self, headers: &HeaderMap, body: &[u8]) -> Result<PurchaseOutcome> {
        if !self.is_signed(headers, body) {
            let message = "the signature of the message is missing or invalid";
            return Err(Error::new(Code::Unauthenticated, Reason::InvalidToken, message));
        }
        let unreadable =
            |error: serde_json::Error| Error::invalid_field("body", format!("is not a JSON message: {error}"));
        let message: Message = serde_json::from_slice(body).map_err(unreadable)?;
        if message.r#type != "credit.purchased" {
            let kind: String = message.r#type.chars().take(64).collect();
            tracing::debug!(kind, "ignored a webhook message that is not credit.purchased");
            return Ok(PurchaseOutcome::Ignored);
        }
        let unreadable = |error: serde_json::Error| Error::invalid_field("data", format!("is not a purchase: {error}"));
        let purchase: Purchase = serde_json::from_value(message.data).map_err(unreadable)?;
        self.grant(purchase).await
    }

    fn is_signed(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        // The library does not check the format of the timestamp.
        let time = headers.get(HEADER_WEBHOOK_TIMESTAMP).map(|time| time.as_bytes());
        let is_number = time.is_some_and(|time| (1..=12).contains(&time.len()) && time.iter().all(u8::is_ascii_digit));
        is_number && self.webhooks.iter().any(|webhook| webhook.verify(body, headers).is_ok())
    }

    async fn grant(&self, purchase: Purchase) -> Result<PurchaseOutcome> {
        let purchase_id = fields::line("data.purchase_id", &purchase.purchase_id, PURCHASE_ID_CHARS)?;
        if purchase_id.is_empty() {
            return Err(Error::invalid_field("data.purchase_id", "is missing"));
        }
        let invalid = |_| Error::invalid_field("data.organization_id", "is not the id of an organization");
        let org: OrgId = purchase.organization_id.parse().map_err(invalid)?;
        if !(1..=AMOUNT_MAX).contains(&purchase.credits) {
            return Err(Error::invalid_field("data.credits", format!("must be from 1 to {AMOUNT_MAX}")));
        }
        let note = fields::line("data.note", &purchase.note, limits::NAME_CHARS)?;
        let id = GrantId::derive(&["purchase", &purchase_id]);
        let grant = Grant {
            expires_at: purchase.expires_at,
            priority: purchase.priority.unwrap_or(PRIORITY),
            note,
            ..Grant::new(id, GrantKind::Purchase, purchase.credits, self.environment.now())
        };
        grant_purchase(&self.stores, &self.credit, &org, grant).await?;
        Ok(PurchaseOutcome::Granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(options: Options) -> String {
        options.check().map_or_else(|invalid| invalid.problems.join("; "), |()| String::new())
    }

    #[test]
    fn a_listener_without_a_good_secret_is_refused() {
        let listen = "127.0.0.1:0".to_owned();
        let with = |secret: &str| Options { listen: listen.clone(), secrets: vec![Secret::new(secret)] };
        assert_eq!(problems(Options::default()), "");
        assert!(problems(Options { listen: listen.clone(), secrets: vec![] }).contains("are required with listen"));
        let without_prefix = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ";
        for bad in ["", "whsec_", "whsec_c2hvcnQ=", without_prefix, "whsec_not base64 not base64 not base64"] {
            assert!(problems(with(bad)).contains("purchases.secrets[0]"), "{bad}");
        }
        assert!(problems(with("********")).contains("mask"));
        let good = with("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        assert_eq!(problems(good.clone()), "");
        assert!(!format!("{good:?} {}", serde_json::to_string(&good).unwrap()).contains("MfKQ"));
    }
}
