//! Usage records: one for each model call.

use async_trait::async_trait;
use folio_credit::Basis;
use folio_types::message::Usage;
use folio_types::{DocumentId, Error, OrgId, Reason, Result, Timestamp, UserId};
use serde::{Deserialize, Serialize};

/// Maximum length of a record's key, in bytes.
const KEY_BYTES: usize = 1_024;

/// The usage of one model call. Its organization, time and key identify it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRecord {
    /// The tenant.
    pub org: OrgId,
    /// The user on whose behalf the call was made.
    pub user: UserId,
    /// The key of the call, 1 to 1,024 bytes: (turn, round, call, epoch, attempt) or (job, item, epoch, attempt).
    pub key: String,
    /// The kind of operation: `chat`, `extraction`, …
    pub operation: String,
    /// The name of the model that answered.
    pub model: String,
    /// Tokens and calls.
    pub usage: Usage,
    /// Whether the model answered completely.
    pub completed: bool,
    /// The document that the call was about. None if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentId>,
    /// The charge. None if the call was not metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charged: Option<Charged>,
    /// The time of the settlement.
    pub at: Timestamp,
}

impl UsageRecord {
    /// Checks the length of the key.
    ///
    /// # Errors
    /// `TOO_LARGE`.
    pub fn check(&self) -> Result<()> {
        if self.key.is_empty() || self.key.len() > KEY_BYTES {
            return Err(Error::invalid(Reason::TooLarge, "the key of a usage record has 1 to 1024 bytes"));
        }
        Ok(())
    }
}

/// The charge of a model call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charged {
    /// The charge in credits.
    pub credits: u64,
    /// The cost in micro-dollars at the provider's prices. None if the prices of the model are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microdollars: Option<u64>,
    /// The source of the charged usage.
    pub basis: Basis,
    /// Credits beyond the reservation, which are not charged.
    #[serde(default)]
    pub written_off: u64,
}

/// Usage records of organizations.
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Stores a record. Storing the same record again changes nothing: repetitions come from the settled row of a
    /// ledger, whose time is final.
    ///
    /// # Errors
    /// `TOO_LARGE` for a key outside its bounds.
    async fn record(&self, record: UsageRecord) -> Result<()>;

    /// Returns the organization's records from `from` on, oldest first, at most `limit`.
    async fn list(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>>;
}
