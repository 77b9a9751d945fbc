//! Operations that read the balance and the cost of model calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_credit::Grant;
use folio_storage::{HourSummer, UsageKey, UsageRecord, UsageStore, UsageSum, UsageTotals};
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

/// Maximum number of call records that one `GetUsage` adds up. Records of hours whose sums this call can store do not
/// count.
// proto: GetUsageResponse.rows "more than {} calls"
const CALLS_MAX: u64 = 1_000_000;
/// Number of hours that one store read requests.
// proto: none "bounds the memory of a read"
const HOURS_PER_READ: usize = 48;
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
    /// The price of a credit in micro-dollars.
    pub credit_microdollars: u64,
    /// Start and end of the calendar month (UTC) in which the monthly allowance applies.
    pub month: Option<(Timestamp, Timestamp)>,
}

impl Operation for GetBalance {
    const DECLARATION: Declaration = SERVICE.read("GetBalance");
    type Output = Balance;

    async fn run(self, context: &Context) -> Result<Balance> {
        let (org, credit, now) = (&context.principal().org, context.credit(), context.environment().now());
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
            credit_microdollars: credit.credit_microdollars(),
            month: credit.month(),
            grants: balance.account.grants.into_iter().map(|grant| without_due_credit(grant, now)).collect(),
        })
    }
}

/// Returns a grant whose unused credit has expired if the grant is due. The account marks it by its next change only.
fn without_due_credit(grant: Grant, now: Timestamp) -> Grant {
    if !grant.is_due(now) {
        return grant;
    }
    Grant { available: 0, expired: grant.expired + grant.available, ..grant }
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
    /// Returns the value of a group of calls in the hour that contains `at`.
    fn value(self, key: &UsageKey, at: Timestamp) -> String {
        match self {
            Self::Model => key.model.clone(),
            Self::Operation => key.operation.clone(),
            Self::Document => key.document.as_ref().map(ToString::to_string).unwrap_or_default(),
            Self::User => key.user.to_string(),
            Self::Day => at.to_string().chars().take("2026-01-01".len()).collect(),
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageRow {
    /// The values of the fields that the calls are grouped by, in the order of the request.
    pub values: Vec<String>,
    pub totals: UsageTotals,
}

#[derive(Debug, Clone, PartialEq, Eq)]
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
        let _permit = context.usage_permit().await?;
        let period = period_bounds(context, self.period).await?;
        let (store, now) = (Arc::clone(&context.stores().usage), context.environment().now());
        sum_up(store, &context.principal().org, period, (groups, CALLS_MAX), now).await
    }
}

/// Adds up the model calls of a period: stored sums of whole hours, and at most `calls_max` records of the other hours.
/// Stores the sums of each whole hour that [`UsageHour::may_be_summed`] permits.
async fn sum_up(
    store: Arc<dyn UsageStore>,
    org: &OrgId,
    (start, end): (Timestamp, Timestamp),
    (groups, calls_max): (&[UsageGroup], u64),
    now: Timestamp,
) -> Result<UsageSums> {
    let mut sums = Grouped { groups, rows: BTreeMap::new(), total: UsageTotals::default() };
    let (mut next, mut calls) = (start, 0);
    while next < end {
        let hours = store.hours(org, next, HOURS_PER_READ).await?;
        let is_last = hours.len() < HOURS_PER_READ || hours.last().is_some_and(|hour| hour.start >= end);
        for hour in hours.into_iter().take_while(|hour| hour.start < end) {
            next = hour.end();
            let is_whole = start <= hour.start && hour.end() <= end;
            let stored = hour.current_sums().filter(|_| is_whole);
            match stored.filter(|stored| stored.has_documents || !groups.contains(&UsageGroup::Document)) {
                Some(stored) => stored.groups.iter().try_for_each(|sum| sums.add(sum, hour.start))?,
                None => {
                    let mut summer =
                        (is_whole && stored.is_none() && hour.may_be_summed(now)).then(HourSummer::default);
                    let period = (start.max(hour.start), end.min(hour.end()));
                    let mut records = std::pin::pin!(records(Arc::clone(&store), org.clone(), period));
                    while let Some(read) = records.next().await {
                        for sum in read?.iter().map(UsageSum::from) {
                            sums.add(&sum, hour.start)?;
                            match &mut summer {
                                Some(summer) => summer.add(sum),
                                None => calls += 1,
                            }
                        }
                        if calls > calls_max {
                            return Err(too_large());
                        }
                    }
                    if let Some(sums) = summer.and_then(|summer| summer.finish(hour.late_at))
                        && let Err(error) = store.put_sums(org, hour.start, sums).await
                    {
                        tracing::warn!(%error, "cannot store the sums of an hour; later requests read its records again");
                    }
                }
            }
        }
        if is_last {
            break;
        }
    }
    Ok(sums.finish())
}

fn too_large() -> Error {
    let message = format!(
        "the period has more than {CALLS_MAX} calls in hours without stored sums, or more than {GROUPS_MAX} groups; request a shorter period"
    );
    Error::invalid(Reason::TooLarge, message)
}

/// The sums of a request.
struct Grouped<'a> {
    groups: &'a [UsageGroup],
    rows: BTreeMap<Vec<String>, UsageTotals>,
    total: UsageTotals,
}

impl Grouped<'_> {
    /// Adds the sums of calls in the hour that contains `at`. Error: `TOO_LARGE` if there are too many groups.
    fn add(&mut self, sum: &UsageSum, at: Timestamp) -> Result<()> {
        let values = self.groups.iter().map(|group| group.value(&sum.key, at)).collect();
        *self.rows.entry(values).or_default() += sum.totals;
        self.total += sum.totals;
        if self.rows.len() > GROUPS_MAX { Err(too_large()) } else { Ok(()) }
    }

    fn finish(self) -> UsageSums {
        let mut rows: Vec<_> = self.rows.into_iter().map(|(values, totals)| UsageRow { values, totals }).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.totals.credits, row.totals.calls)));
        UsageSums { rows, total: UsageRow { values: Vec::new(), totals: self.total } }
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
    let bounds = period_bounds(context, period).await?;
    Ok(records(Arc::clone(&context.stores().usage), context.principal().org.clone(), bounds))
}

/// Returns start and end of a period, after the calls of expired blocks are charged.
async fn period_bounds(context: &Context, period: Period) -> Result<(Timestamp, Timestamp)> {
    // Closing the expired blocks charges their calls, so a period that ends now contains these calls.
    context.credit().collect(&context.principal().org).await;
    let start = |end: Timestamp| end.checked_sub(PERIOD_DEFAULT).unwrap_or(Timestamp::UNIX_EPOCH);
    period.bounds(start, context.environment().now())
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
mod tests;
