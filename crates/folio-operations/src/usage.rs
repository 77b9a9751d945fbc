//! Operations that read the balance and the cost of model calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_credit::Grant;
use folio_storage::{UsageRecord, UsageStore};
use folio_types::access::Scope;
use folio_types::{Error, OrgId, Reason, Result, Timestamp};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use serde::Serialize;

use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::list::Period;
use crate::operation::Operation;

service! {
    "UsageService", Some(Scope::Usage) =>
    GetBalance, GetUsage, DownloadUsage
}

/// Maximum number of model calls that one `GetUsage` adds up.
// proto: GetUsageResponse.rows "more than {} calls"
const CALLS_MAX: u64 = 200_000;
/// Maximum number of groups of one `GetUsage`.
// proto: GetUsageResponse.rows "more than {} groups"
const GROUPS_MAX: usize = 10_000;
/// Number of records that one store read requests.
const READ_RECORDS: usize = 500;
/// Default length of a period.
// proto: GetUsageRequest.start_time "{} days before"
// proto: DownloadUsageRequest.start_time "{} days before"
const PERIOD_DEFAULT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Returns the credit balance of the caller's organization.
#[derive(Debug, Clone, Serialize)]
pub struct GetBalance {
    /// The caller's organization. None: the same. Any other organization is reported as not found.
    pub organization_id: Option<OrgId>,
}

/// Credit balance of an organization. Invariant: `granted - expired = available + in_blocks + settled`.
#[derive(Debug, Clone)]
pub struct Balance {
    /// Credits that no process has drawn.
    pub available: u64,
    /// Credits in blocks that processes have drawn.
    pub in_blocks: u64,
    /// Sum of all grants minus withdrawals.
    pub granted: u64,
    /// Sum of the credits that expired unused.
    pub expired: u64,
    /// Sum of the credits charged to calls in closed blocks.
    pub settled: u64,
    /// Grants with credits left, in the order in which they are used.
    pub grants: Vec<Grant>,
    /// True if calls are only recorded and never refused.
    pub is_unlimited: bool,
}

impl Operation for GetBalance {
    const DECLARATION: Declaration = SERVICE.read("GetBalance");
    type Output = Balance;

    async fn run(self, context: &Context) -> Result<Balance> {
        let (org, credit) = (&context.principal().org, context.credit());
        if let Some(other) = self.organization_id.filter(|named| named != org) {
            return Err(Error::not_found("organization", other));
        }
        let balance = credit.balance(org).await?;
        Ok(Balance {
            available: balance.available,
            in_blocks: balance.in_blocks,
            granted: balance.account.granted,
            expired: balance.account.expired + (balance.account.available() - balance.available),
            settled: balance.account.settled,
            is_unlimited: credit.is_unlimited(),
            grants: balance.account.grants,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum UsageGroup {
    Model,
    /// The purpose of the call, such as `chat`.
    Operation,
    Document,
    User,
    /// The day (UTC).
    Day,
}

impl UsageGroup {
    fn value(self, record: &UsageRecord) -> String {
        match self {
            Self::Model => record.model.clone(),
            Self::Operation => record.operation.clone(),
            Self::Document => record.document.as_ref().map(ToString::to_string).unwrap_or_default(),
            Self::User => record.user.to_string(),
            Self::Day => record.at.to_string().chars().take("2026-01-01".len()).collect(),
        }
    }
}

/// Returns the sums of the model calls of a period, in groups.
#[derive(Debug, Clone, Serialize)]
pub struct GetUsage {
    /// Default: the 30 days before now.
    pub period: Period,
    /// The fields that the calls are grouped by, each at most once. Empty: one row for all calls.
    pub group_by: Vec<UsageGroup>,
}

/// The sums of a group of calls.
#[derive(Debug, Clone, Default)]
pub struct UsageRow {
    /// The values of the fields that the calls are grouped by, in the order of the request.
    pub values: Vec<String>,
    pub calls: u64,
    /// Prompt tokens, including cached ones.
    pub input_tokens: u64,
    /// Those prompt tokens that the provider read from its cache.
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

impl UsageRow {
    fn add(&mut self, record: &UsageRecord) {
        let (usage, charged) = (&record.usage, record.charged.as_ref());
        self.calls += 1;
        self.input_tokens += usage.input_tokens;
        self.cached_input_tokens += usage.cached_input_tokens;
        self.output_tokens += usage.output_tokens;
        self.credits += charged.map_or(0, |charged| charged.credits);
        self.cost_microdollars += charged.and_then(|charged| charged.cost_microdollars).unwrap_or(0);
        self.unpriced_calls += u64::from(charged.is_none_or(|charged| charged.cost_microdollars.is_none()));
        self.unreported_calls += u64::from(!usage.reported);
        self.written_off_credits += charged.map_or(0, |charged| charged.written_off);
    }
}

#[derive(Debug, Clone)]
pub struct UsageSums {
    /// One row for each group, the most expensive first.
    pub rows: Vec<UsageRow>,
    pub total: UsageRow,
}

impl Operation for GetUsage {
    const DECLARATION: Declaration = SERVICE.read("GetUsage").long();
    type Output = UsageSums;

    async fn run(self, context: &Context) -> Result<UsageSums> {
        let groups = &self.group_by;
        if groups.iter().enumerate().any(|(at, group)| groups.iter().take(at).any(|other| other == group)) {
            return Err(Error::invalid_field("group_by", "must not name a field twice"));
        }
        let (mut rows, mut total) = (BTreeMap::<Vec<String>, UsageRow>::new(), UsageRow::default());
        let mut records = std::pin::pin!(period_records(context, self.period).await?);
        while let Some(read) = records.next().await {
            for record in read? {
                total.add(&record);
                rows.entry(groups.iter().map(|group| group.value(&record)).collect()).or_default().add(&record);
            }
            if total.calls > CALLS_MAX || rows.len() > GROUPS_MAX {
                let message =
                    format!("the period has more than {CALLS_MAX} calls or {GROUPS_MAX} groups; request a shorter one");
                return Err(Error::invalid(Reason::TooLarge, message));
            }
        }
        let mut rows: Vec<UsageRow> = rows.into_iter().map(|(values, row)| UsageRow { values, ..row }).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.credits, row.calls)));
        Ok(UsageSums { rows, total })
    }
}

/// Streams the model calls of a period, oldest first.
#[derive(Debug, Clone, Serialize)]
pub struct DownloadUsage {
    /// Default: the 30 days before now.
    pub period: Period,
}

impl Operation for DownloadUsage {
    const DECLARATION: Declaration = SERVICE.read("DownloadUsage").long();
    type Output = BoxStream<'static, Result<Vec<UsageRecord>>>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        Ok(period_records(context, self.period).await?.boxed())
    }
}

async fn period_records(
    context: &Context,
    period: Period,
) -> Result<impl Stream<Item = Result<Vec<UsageRecord>>> + Send + use<>> {
    let org = context.principal().org.clone();
    // Closing the expired blocks charges their calls, so a period that ends now contains these calls.
    context.credit().collect(&org).await;
    let start = |end: Timestamp| end.checked_sub(PERIOD_DEFAULT).unwrap_or(Timestamp::UNIX_EPOCH);
    let bounds = period.bounds(start, context.environment().now())?;
    Ok(records(Arc::clone(&context.stores().usage), org, bounds))
}

/// Streams the records of a period, oldest first, in chunks of at most [`READ_RECORDS`], or more if many have equal
/// times.
fn records(
    store: Arc<dyn UsageStore>,
    org: OrgId,
    (start, end): (Timestamp, Timestamp),
) -> impl Stream<Item = Result<Vec<UsageRecord>>> + Send + use<> {
    async_stream::try_stream! {
        // Each read starts at the microsecond at which the last read ended, because that microsecond may have further
        // records. `returned` contains the keys of its records that are already returned.
        let (mut next, mut returned, mut limit) = (to_microseconds(start), Vec::new(), READ_RECORDS);
        loop {
            let read = store.list(&org, next, limit).await?;
            let is_last = read.len() < limit;
            let last = read.last().map(|record| to_microseconds(record.at));
            let fresh: Vec<_> = read
                .into_iter()
                .filter(|record| record.at >= start && record.at < end && !returned.contains(&record.key))
                .collect();
            if let Some(at) = last {
                limit = if at == next { limit * 2 } else { READ_RECORDS };
                if at != next {
                    returned.clear();
                }
                let in_last_microsecond = fresh.iter().filter(|record| to_microseconds(record.at) == at);
                returned.extend(in_last_microsecond.map(|record| record.key.clone()));
                next = at;
            }
            if !fresh.is_empty() {
                yield fresh;
            }
            if is_last || next >= end {
                break;
            }
        }
    }
}

/// Truncates a time to microseconds, as the stores do. They order the records within a microsecond arbitrarily.
fn to_microseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use folio_types::UserId;
    use folio_types::message::Usage;

    use super::*;

    /// A store that truncates times to microseconds.
    struct MicrosecondStore(Vec<UsageRecord>);

    #[async_trait::async_trait]
    impl UsageStore for MicrosecondStore {
        async fn record(&self, _: UsageRecord) -> Result<()> {
            Ok(())
        }

        async fn list(&self, _: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>> {
            let listed = self.0.iter().filter(|record| record.at.as_microsecond() >= from.as_microsecond());
            Ok(listed.take(limit).cloned().collect())
        }
    }

    #[tokio::test]
    async fn calls_of_one_microsecond_are_returned_once_each() {
        let org = OrgId::derive(&["org"]);
        // Three records in each microsecond, in an order that the stores do not preserve.
        let record = |number: i128| UsageRecord {
            org: org.clone(),
            user: UserId::derive(&["user"]),
            key: format!("{number:05}"),
            operation: "chat".to_owned(),
            model: "m".to_owned(),
            usage: Usage::default(),
            completed: true,
            at: Timestamp::from_nanosecond(1_000 * (number / 3) + 300 * (2 - number % 3)).unwrap(),
            document: None,
            charged: None,
        };
        let all: Vec<_> = (0..2_000).map(record).collect();
        let end = Timestamp::from_second(1).unwrap();
        let returned = records(Arc::new(MicrosecondStore(all.clone())), org.clone(), (Timestamp::UNIX_EPOCH, end));
        let returned: Vec<_> = returned.map(Result::unwrap).concat().await;
        assert!(returned.iter().map(|record| &record.key).eq(all.iter().map(|record| &record.key)));
    }
}
