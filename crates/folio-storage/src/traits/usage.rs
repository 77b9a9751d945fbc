//! Records of model calls.

use async_trait::async_trait;
use folio_credit::Basis;
use folio_types::message::Usage;
use folio_types::{DocumentId, OrgId, Result, Timestamp, UserId};
use serde::{Deserialize, Serialize};

/// One model call that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRecord {
    /// The tenant.
    pub org: OrgId,
    /// On whose behalf.
    pub user: UserId,
    /// One of its kind for each call: (turn, round, call, epoch, attempt) or (job, item, epoch, attempt).
    pub key: String,
    /// What it was for: `chat`, `extraction`, …
    pub operation: String,
    /// The model that answered.
    pub model: String,
    /// What it used.
    pub usage: Usage,
    /// Whether it was answered whole.
    pub completed: bool,
    /// The document that it was about, where it was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentId>,
    /// What it cost in credits, and why; none: nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charged: Option<Charged>,
    /// When.
    pub at: Timestamp,
}

/// What a call cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charged {
    /// In credits.
    pub credits: u64,
    /// In micro-dollars, as the provider asks; none: the model's prices are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microdollars: Option<u64>,
    /// What that is based on.
    pub basis: Basis,
    /// Credits that it would have cost beyond its reservation.
    #[serde(default)]
    pub written_off: u64,
}

/// Records of model calls.
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Records a call; the same key again changes nothing.
    async fn record(&self, record: UsageRecord) -> Result<()>;

    /// The organization's records from `from` on, oldest first, at most `limit`.
    async fn list(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>>;
}
