//! The routes of usage and credit.

use std::collections::BTreeMap;

use folio_credit::{Grant, GrantKind};
use folio_operations::credits::GrantCredit;
use folio_operations::usage::{Balance, GetBalance, GetUsage, UsageGroup, UsageRow};
use folio_operations::{Declaration, Operation as _, Period};
use folio_types::access::Scope;
use folio_types::{Error, Role, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::endpoint::{get, post};
use super::extract::{Client, Json, Query};
use super::reply::Reply;
use super::routes::{Level, Route, org_path, restricted_route, route};

/// Number of micro-dollars in a dollar.
const MILLION: f64 = 1_000_000.0;
/// The member `source` of a data point. DocRouter's own name of the server.
const SOURCE: &str = "backend";

/// DocRouter shows usage and credit to administrators only.
static USAGE: Declaration = GetUsage::DECLARATION.role(Role::Admin);
const USAGE_DENIED: &str = "Org admin access required for org_id: {organization_id}";

pub(super) fn routes() -> Vec<Route> {
    vec![
        restricted_route(Level::One, get(org_path!("/payments/usage"), current), &USAGE).denied_with(USAGE_DENIED),
        restricted_route(Level::One, get(org_path!("/payments/usage/range"), range), &USAGE).denied_with(USAGE_DENIED),
        route::<GetBalance>(Level::One, get(org_path!("/payments/credits/config"), config)),
        route::<GrantCredit>(Level::One, post(org_path!("/payments/credits/add"), add)).denied_with("Admin only"),
    ]
}

/// The credit and the usage of an organization.
#[derive(Debug, Serialize, ToSchema)]
struct CurrentUsage {
    /// Always `stripe`, which clients expect.
    usage_source: &'static str,
    /// The amounts.
    data: UsageBody,
}

/// Amounts in credits.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
struct UsageBody {
    /// Always null: there are no subscriptions.
    subscription_type: Option<String>,
    /// Always `spu`: a credit.
    usage_unit: &'static str,
    /// Credits charged to the calls of the current month (UTC).
    period_metered_usage: u64,
    /// Credits charged to all calls. Calls of the last minutes may be missing, except those of the current month.
    total_metered_usage: u64,
    /// Credits left of the monthly allowance.
    remaining_included: u64,
    /// Purchased credits, of purchases that are not used up.
    purchased_credits: u64,
    /// Credits of these purchases that are used or reserved.
    purchased_credits_used: u64,
    /// Credits of these purchases that are left.
    purchased_credits_remaining: u64,
    /// Credits that administrators granted, of grants that are not used up.
    granted_credits: u64,
    /// Credits of these grants that are used or reserved.
    granted_credits_used: u64,
    /// Credits of these grants that are left.
    granted_credits_remaining: u64,
    /// The start of the current month (UTC) in Unix seconds.
    period_start: Option<i64>,
    /// The end of the current month (UTC) in Unix seconds.
    period_end: Option<i64>,
}

/// The credit of the grants of one kind.
#[derive(Debug, Default)]
struct KindCredit {
    credits: u64,
    used: u64,
    remaining: u64,
}

fn credit_of(grants: &[Grant], kind: GrantKind) -> KindCredit {
    let mut sums = KindCredit::default();
    for grant in grants.iter().filter(|grant| grant.kind == kind) {
        let usable = grant.amount.saturating_sub(grant.expired);
        sums.credits += usable;
        sums.used += usable.saturating_sub(grant.available);
        sums.remaining += grant.available;
    }
    sums
}

impl UsageBody {
    /// `month_credits`: the credits charged to the calls of the current month.
    fn new(balance: &Balance, month_credits: u64) -> Self {
        let credit = |kind| credit_of(&balance.grants, kind);
        let (purchased, granted) = (credit(GrantKind::Purchase), credit(GrantKind::Admin));
        Self {
            subscription_type: None,
            usage_unit: "spu",
            period_metered_usage: month_credits,
            // A call is settled when its block is closed, after it counts as usage.
            total_metered_usage: balance.settled.max(month_credits),
            remaining_included: credit(GrantKind::Allowance).remaining,
            purchased_credits: purchased.credits,
            purchased_credits_used: purchased.used,
            purchased_credits_remaining: purchased.remaining,
            granted_credits: granted.credits,
            granted_credits_used: granted.used,
            granted_credits_remaining: granted.remaining,
            period_start: balance.month.map(|(start, _)| start.as_second()),
            period_end: balance.month.map(|(_, end)| end.as_second()),
        }
    }
}

async fn current(client: Client) -> Reply<Json<CurrentUsage>> {
    let balance = client.run(GetBalance { organization_id: None }).await?;
    let (start_time, end_time) = balance.month.unzip();
    let usage = client.run(GetUsage { period: Period { start_time, end_time }, group_by: Vec::new() }).await?;
    let data = UsageBody::new(&balance, usage.total.totals.credits);
    Ok(Json(CurrentUsage { usage_source: "stripe", data }))
}

/// A date, or a time. A time without a zone is in UTC, and a date is its first instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instant(Timestamp);

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let problem = "value_error: must be a date such as 2026-01-31, or a time such as 2026-01-31T08:15:00Z";
        instant(&text).map(Self).ok_or_else(|| D::Error::custom(problem))
    }
}

fn instant(text: &str) -> Option<Timestamp> {
    let is_date = text.len() == "2026-01-31".len();
    let forms =
        if is_date { [format!("{text}T00:00:00Z"), String::new()] } else { [text.to_owned(), format!("{text}Z")] };
    forms.iter().find_map(|form| form.parse().ok())
}

#[derive(Debug, Deserialize, ToSchema)]
struct RangeQuery {
    /// The start of the period, inclusive: a date or a time.
    #[schema(value_type = String, format = Date)]
    start_date: Instant,
    /// The end of the period, exclusive: a date or a time.
    #[schema(value_type = String, format = Date)]
    end_date: Instant,
}

/// The usage of a period.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
struct UsageRange {
    /// One for each day (UTC) and purpose with usage, in order.
    data_points: Vec<DataPoint>,
    /// Credits charged in the period.
    total_spus: u64,
    /// One for each day (UTC) with usage, in order.
    usage: Vec<DayUsage>,
}

/// The usage of a day for one purpose.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
struct DataPoint {
    /// The day as `YYYY-MM-DD`.
    date: String,
    /// Credits charged.
    spus: u64,
    /// The purpose of the model calls, such as `chat`.
    operation: String,
    /// Always `backend`.
    source: &'static str,
}

/// The usage of a day.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
struct DayUsage {
    /// The day as `YYYY-MM-DD`.
    date: String,
    /// Credits charged.
    credits_used: u64,
}

/// The groups of [`UsageRange::new`].
const GROUPS: [UsageGroup; 2] = [UsageGroup::Day, UsageGroup::Operation];

impl UsageRange {
    /// `rows`: usage by [`GROUPS`].
    fn new(rows: Vec<UsageRow>, total_spus: u64) -> Self {
        let mut days = BTreeMap::<String, u64>::new();
        let mut data_points = Vec::new();
        for UsageRow { values, totals } in rows {
            let mut values = values.into_iter();
            let (date, operation) = (values.next().unwrap_or_default(), values.next().unwrap_or_default());
            *days.entry(date.clone()).or_default() += totals.credits;
            data_points.push(DataPoint { date, spus: totals.credits, operation, source: SOURCE });
        }
        data_points.sort_by(|one, other| (&one.date, &one.operation).cmp(&(&other.date, &other.operation)));
        let usage = days.into_iter().map(|(date, credits_used)| DayUsage { date, credits_used }).collect();
        Self { data_points, total_spus, usage }
    }
}

async fn range(client: Client, Query(query): Query<RangeQuery>) -> Reply<Json<UsageRange>> {
    let period = Period { start_time: Some(query.start_date.0), end_time: Some(query.end_date.0) };
    let found = client.run(GetUsage { period, group_by: GROUPS.to_vec() }).await;
    let found = found.map_err(|failure| failure.rename("start_time", "start_date"))?;
    Ok(Json(UsageRange::new(found.rows, found.total.totals.credits)))
}

/// The price of credit.
#[derive(Debug, Serialize, ToSchema)]
struct CreditConfig {
    /// The price of a credit in the currency.
    price_per_credit: f64,
    /// Always `usd`.
    currency: &'static str,
    /// Always 0: clients cannot purchase credit over this API.
    min_cost: f64,
    /// Always 0: clients cannot purchase credit over this API.
    max_cost: f64,
}

async fn config(client: Client) -> Reply<Json<CreditConfig>> {
    let balance = client.run(GetBalance { organization_id: None }).await?;
    let price_per_credit = balance.credit_microdollars as f64 / MILLION;
    Ok(Json(CreditConfig { price_per_credit, currency: "usd", min_cost: 0.0, max_cost: 0.0 }))
}

/// Credit for an organization.
#[derive(Debug, Deserialize, ToSchema)]
struct CreditFields {
    /// The amount: 1 to 1,000,000,000,000 credits.
    #[schema(minimum = 1)]
    amount: u64,
}

/// The credit that was added.
#[derive(Debug, Serialize, ToSchema)]
struct AddedCredit {
    /// Always true.
    success: bool,
    /// The credits that were added.
    added: u64,
    /// The credits that were added.
    credits_added: u64,
    /// The credits that are available now. Null: the token does not cover usage, or the balance cannot be read.
    new_balance: Option<u64>,
}

async fn add(client: Client, Json(fields): Json<CreditFields>) -> Reply<Json<AddedCredit>> {
    let operation = GrantCredit {
        organization_id: None,
        credits: fields.amount,
        expire_time: None,
        priority: 0,
        note: String::new(),
    };
    let granted = client.run(operation).await.map_err(|failure| failure.rename("credits", "amount"))?;
    // The credit is granted: an error of the balance is none of the request.
    let balance = if client.covers(Scope::Usage) {
        client.call(GetBalance { organization_id: None }).await.inspect_err(unread).ok()
    } else {
        None
    };
    let (added, new_balance) = (granted.amount, balance.map(|balance| balance.available));
    Ok(Json(AddedCredit { success: true, added, credits_added: added, new_balance }))
}

fn unread(error: &Error) {
    tracing::warn!(%error, "cannot read the balance after a grant");
}

#[cfg(test)]
mod tests {
    use folio_storage::UsageTotals;
    use folio_types::GrantId;

    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_date_is_its_first_instant_and_a_time_without_a_zone_is_in_utc() {
        for (text, expected) in [
            ("2026-01-31", "2026-01-31T00:00:00Z"),
            ("2026-01-31T08:15:00Z", "2026-01-31T08:15:00Z"),
            ("2026-01-31T08:15:00", "2026-01-31T08:15:00Z"),
            ("2026-01-31T08:15:00+02:00", "2026-01-31T06:15:00Z"),
        ] {
            assert_eq!(instant(text), Some(time(expected)), "{text}");
        }
        for wrong in ["", "today", "2026-02-30", "2026-1-31", "31.01.2026", "1769817600"] {
            assert_eq!(instant(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn amounts_are_summed_by_the_kind_of_the_grant() {
        let month = (time("2026-11-01T00:00:00Z"), time("2026-12-01T00:00:00Z"));
        let grant = |kind, amount, available, settled| Grant {
            available,
            settled,
            ..Grant::new(GrantId::derive(&[&format!("{kind:?}{amount}")]), kind, amount, month.0)
        };
        let expired = Grant { expired: 5, ..grant(GrantKind::Admin, 20, 5, 10) };
        let grants = vec![
            grant(GrantKind::Allowance, 100, 60, 40),
            grant(GrantKind::Purchase, 50, 30, 15),
            grant(GrantKind::Purchase, 7, 7, 0),
            expired,
        ];
        let balance = Balance {
            available: 102,
            in_blocks: 5,
            granted: 177,
            expired: 5,
            settled: 65,
            grants,
            is_unlimited: false,
            credit_microdollars: 10_000,
            month: Some(month),
        };
        let body = UsageBody::new(&balance, 40);
        assert_eq!((body.period_metered_usage, body.total_metered_usage, body.remaining_included), (40, 65, 60));
        let purchased = (body.purchased_credits, body.purchased_credits_used, body.purchased_credits_remaining);
        assert_eq!(purchased, (57, 20, 37), "reserved credit counts as used");
        let granted = (body.granted_credits, body.granted_credits_used, body.granted_credits_remaining);
        assert_eq!(granted, (15, 10, 5), "expired credit does not count");
        assert_eq!((body.period_start, body.period_end), (Some(1_793_491_200), Some(1_796_083_200)));
        assert_eq!(UsageBody::new(&balance, 70).total_metered_usage, 70);
    }

    #[test]
    fn usage_is_in_the_order_of_days_and_summed_for_each_day() {
        let row = |day: &str, operation: &str, credits| UsageRow {
            values: vec![day.to_owned(), operation.to_owned()],
            totals: UsageTotals { credits, ..UsageTotals::default() },
        };
        let rows = vec![row("2026-01-02", "extraction", 9), row("2026-01-02", "chat", 2), row("2026-01-01", "chat", 1)];
        let range = UsageRange::new(rows, 12);
        let points: Vec<_> = range.data_points.iter().map(|point| (point.date.as_str(), point.spus)).collect();
        assert_eq!(points, [("2026-01-01", 1), ("2026-01-02", 2), ("2026-01-02", 9)]);
        let days: Vec<_> = range.usage.iter().map(|day| (day.date.as_str(), day.credits_used)).collect();
        assert_eq!((days, range.total_spus), (vec![("2026-01-01", 1), ("2026-01-02", 11)], 12));
    }
}
