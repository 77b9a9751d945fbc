//! Usage records: one for each model call.

use async_trait::async_trait;
use folio_credit::Basis;
use folio_types::message::Usage;
use folio_types::{DocumentId, Error, OrgId, Reason, Result, Timestamp, UserId};
use serde::{Deserialize, Serialize};

/// Maximum length of a key, in bytes.
const KEY_BYTES: usize = 1_024;

/// The usage of one model call, identified by its organization, time and key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRecord {
    pub org: OrgId,
    /// The user on whose behalf the call was made.
    pub user: UserId,
    /// 1 to 1,024 bytes: (turn, round, call, epoch, attempt) or (job, item, epoch, attempt).
    pub key: String,
    /// `chat`, `extraction`, …
    pub operation: String,
    /// The name of the model that answered.
    pub model: String,
    pub usage: Usage,
    /// True if the model answered completely.
    pub completed: bool,
    /// The document that the call was about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentId>,
    /// None: the call was not metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charged: Option<Charged>,
    /// The time of the settlement.
    pub at: Timestamp,
}

impl UsageRecord {
    /// Fails with `TOO_LARGE` if the key is empty or too long.
    pub fn check(&self) -> Result<()> {
        if self.key.is_empty() || self.key.len() > KEY_BYTES {
            let length = self.key.len();
            let message = format!("invalid key of a usage record: expected 1 to {KEY_BYTES} bytes, got {length}");
            return Err(Error::invalid(Reason::TooLarge, message));
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charged {
    pub credits: u64,
    /// The cost at the provider's prices. None: the prices of the model are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microdollars: Option<u64>,
    pub basis: Basis,
    /// Credits beyond the reservation, which are not charged.
    #[serde(default)]
    pub written_off: u64,
}

#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Stores a record. Idempotent. A repeated call has the same time, because that is the final time of the settled
    /// row in the ledger.
    ///
    /// # Errors
    /// `TOO_LARGE` for a key outside its bounds.
    async fn record(&self, record: UsageRecord) -> Result<()>;

    /// Returns at most `limit` records of the organization from `from` on, oldest first.
    async fn list(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>>;
}
