//! Usage records: one for each model call, and their sums by hour.
//!
//! An hour is summed some time after its end, from its records. A record that is written later than that is *late*: its
//! hour gets the time of the write, after the record. Sums that were computed before that time are not current.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use async_trait::async_trait;
use folio_credit::Basis;
use folio_types::message::Usage;
use folio_types::{DocumentId, Error, OrgId, Reason, Result, Timestamp, UserId};
use serde::{Deserialize, Serialize};

/// Maximum length of a key, in bytes.
const KEY_BYTES: usize = 1_024;
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Time after the end of an hour after which a record of the hour is late.
const LATE_AFTER: Duration = Duration::from_secs(10 * 60);
/// Time after the end of an hour after which the hour may be summed. It exceeds [`LATE_AFTER`] by more than clocks
/// differ and writes last.
const SUMMED_AFTER: Duration = Duration::from_secs(60 * 60);
/// Maximum number of groups of an hour's sums, about 1 MiB.
const HOUR_GROUPS_MAX: usize = 5_000;

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

/// Sums over model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotals {
    pub calls: u64,
    /// Prompt tokens, including cached ones.
    pub input_tokens: u64,
    /// The part of the prompt tokens that the provider read from its cache.
    pub cached_input_tokens: u64,
    pub output_tokens: u64,
    pub credits: u64,
    /// Sum of the providers' prices in micro-dollars, of calls with a known price.
    pub cost_microdollars: u64,
    /// Number of calls of models without a known price.
    pub unpriced_calls: u64,
    /// Number of calls whose usage the provider did not report.
    pub unreported_calls: u64,
    /// Credits beyond the reservation, which are not charged.
    pub written_off_credits: u64,
}

impl UsageTotals {
    fn of(record: &UsageRecord) -> Self {
        let (usage, charged) = (&record.usage, record.charged.as_ref());
        Self {
            calls: 1,
            input_tokens: usage.input_tokens,
            cached_input_tokens: usage.cached_input_tokens,
            output_tokens: usage.output_tokens,
            credits: charged.map_or(0, |charged| charged.credits),
            cost_microdollars: charged.and_then(|charged| charged.cost_microdollars).unwrap_or(0),
            unpriced_calls: u64::from(charged.is_none_or(|charged| charged.cost_microdollars.is_none())),
            unreported_calls: u64::from(!usage.reported),
            written_off_credits: charged.map_or(0, |charged| charged.written_off),
        }
    }
}

impl AddAssign for UsageTotals {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.input_tokens += other.input_tokens;
        self.cached_input_tokens += other.cached_input_tokens;
        self.output_tokens += other.output_tokens;
        self.credits += other.credits;
        self.cost_microdollars += other.cost_microdollars;
        self.unpriced_calls += other.unpriced_calls;
        self.unreported_calls += other.unreported_calls;
        self.written_off_credits += other.written_off_credits;
    }
}

/// The properties by which model calls are summed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UsageKey {
    pub model: String,
    pub operation: String,
    pub user: UserId,
    /// None: no document, or the sums of the hour have no documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentId>,
}

/// The sums of the calls with one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageSum {
    #[serde(flatten)]
    pub key: UsageKey,
    #[serde(flatten)]
    pub totals: UsageTotals,
}

impl From<&UsageRecord> for UsageSum {
    fn from(record: &UsageRecord) -> Self {
        let UsageRecord { user, operation, model, document, .. } = record.clone();
        Self { key: UsageKey { model, operation, user, document }, totals: UsageTotals::of(record) }
    }
}

/// The sums of all model calls of an hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HourSums {
    pub groups: Vec<UsageSum>,
    /// False: the hour had too many documents for sums by document.
    pub has_documents: bool,
    /// [`UsageHour::late_at`] before the records were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_at: Option<Timestamp>,
}

/// An hour with records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageHour {
    /// The start of the hour (UTC).
    pub start: Timestamp,
    pub sums: Option<HourSums>,
    /// The time of the last late write. None: every record was in time.
    pub late_at: Option<Timestamp>,
}

impl UsageHour {
    /// Returns the start of the hour of a time.
    pub fn start_of(at: Timestamp) -> Timestamp {
        let seconds = i64::try_from(HOUR.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_second(at.as_second().div_euclid(seconds) * seconds).unwrap_or(Timestamp::MIN)
    }

    /// Returns the end of the hour, exclusive.
    pub fn end(&self) -> Timestamp {
        self.start.saturating_add(HOUR).unwrap_or(Timestamp::MAX)
    }

    /// Returns true if a record that is written now is late.
    pub fn is_late(record: &UsageRecord, now: Timestamp) -> bool {
        now >= after(Self::start_of(record.at), HOUR + LATE_AFTER)
    }

    /// Returns the sums unless a late record was written since.
    pub fn current_sums(&self) -> Option<&HourSums> {
        self.sums.as_ref().filter(|sums| sums.late_at == self.late_at)
    }

    /// Returns true if sums of the records that are read from now on can be stored.
    pub fn may_be_summed(&self, now: Timestamp) -> bool {
        now >= after(self.end(), SUMMED_AFTER) && self.late_at.is_none_or(|late_at| now >= after(late_at, LATE_AFTER))
    }
}

fn after(at: Timestamp, time: Duration) -> Timestamp {
    at.saturating_add(time).unwrap_or(Timestamp::MAX)
}

/// Sums up the records of an hour.
#[derive(Debug, Default)]
pub struct HourSummer {
    groups: BTreeMap<UsageKey, UsageTotals>,
    lacks_documents: bool,
}

impl HourSummer {
    /// Adds a call. Drops the documents if the hour has too many groups.
    pub fn add(&mut self, UsageSum { mut key, totals }: UsageSum) {
        key.document = key.document.filter(|_| !self.lacks_documents);
        *self.groups.entry(key).or_default() += totals;
        if self.groups.len() > HOUR_GROUPS_MAX && !self.lacks_documents {
            self.lacks_documents = true;
            for (key, totals) in std::mem::take(&mut self.groups) {
                *self.groups.entry(UsageKey { document: None, ..key }).or_default() += totals;
            }
        }
    }

    /// Returns the sums. None: the hour has too many groups even without documents.
    pub fn finish(self, late_at: Option<Timestamp>) -> Option<HourSums> {
        let groups: Vec<_> = self.groups.into_iter().map(|(key, totals)| UsageSum { key, totals }).collect();
        let has_documents = !self.lacks_documents;
        (groups.len() <= HOUR_GROUPS_MAX).then_some(HourSums { groups, has_documents, late_at })
    }
}

#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Stores a record. Idempotent. A repeated call has the same time, because that is the final time of the settled
    /// row in the ledger. A late record marks its hour after it is stored.
    ///
    /// # Errors
    /// `TOO_LARGE` for a key outside its bounds.
    async fn record(&self, record: UsageRecord, now: Timestamp) -> Result<()>;

    /// Returns at most `limit` records of the organization from `from` on, oldest first.
    async fn list(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>>;

    /// Returns at most `limit` hours with records, oldest first, starting with the hour that contains `from`. A shorter
    /// list contains the last hour.
    async fn hours(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageHour>>;

    /// Stores the sums of the hour that starts at `start`. Idempotent.
    async fn put_sums(&self, org: &OrgId, start: Timestamp, sums: HourSums) -> Result<()>;
}
