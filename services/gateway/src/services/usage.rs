//! UsageService: the balance, and what model calls cost.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_credit::Basis;
use folio_proto::{fields, time, v1};
use folio_storage::{UsageRecord, UsageStore};
use folio_types::{Error, OrgId, Principal, Reason, Result, Timestamp};
use futures::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};
use v1::usage_service_server::UsageService;

use super::{Answer, Api, answer, credit, principal, streamed};

/// Calls that one question may sum up.
const CALLS_MAX: u64 = 200_000;
/// Groups that one answer may have.
const ROWS_MAX: usize = 10_000;
/// Calls that are read at once.
const READ: usize = 500;
/// The range of a question that names none.
const RANGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[tonic::async_trait]
impl UsageService for Api {
    type DownloadUsageStream = Answer<v1::DownloadUsageResponse>;

    async fn get_balance(
        &self,
        request: Request<v1::GetBalanceRequest>,
    ) -> Result<Response<v1::GetBalanceResponse>, Status> {
        answer(request, async |principal, request| {
            let named = fields::optional_id::<OrgId>("organization_id", &request.organization_id)?;
            if let Some(other) = named.filter(|named| *named != principal.org) {
                return Err(Error::not_found("organization", other));
            }
            let balance = self.gateway.credit.balance(&principal.org).await?;
            Ok(v1::GetBalanceResponse {
                available: balance.available,
                in_blocks: balance.in_blocks,
                granted: balance.account.granted,
                expired: balance.account.expired + (balance.account.available() - balance.available),
                settled: balance.account.settled,
                grants: balance.account.grants.iter().map(credit::shown).collect(),
                unlimited: self.gateway.credit.is_unlimited(),
            })
        })
        .await
    }

    async fn get_usage(&self, request: Request<v1::GetUsageRequest>) -> Result<Response<v1::GetUsageResponse>, Status> {
        answer(request, |principal, request| self.usage(principal, request)).await
    }

    async fn download_usage(
        &self,
        request: Request<v1::DownloadUsageRequest>,
    ) -> Result<Response<Self::DownloadUsageStream>, Status> {
        let principal = principal(&request)?;
        let request = request.into_inner();
        self.gateway.credit.collect(&principal.org).await;
        let range = self.range(request.from.as_ref(), request.until.as_ref());
        let range = range.map_err(folio_proto::status::from_error)?;
        let records = records(self.gateway.stores.usage.clone(), principal.org, range);
        let entries = records.map(|records| {
            records.map(|records| v1::DownloadUsageResponse { entries: records.into_iter().map(entry).collect() })
        });
        Ok(Response::new(streamed(entries, self.transfer_limits(), self.cut.clone())))
    }
}

impl Api {
    fn range(
        &self,
        from: Option<&prost_types::Timestamp>,
        until: Option<&prost_types::Timestamp>,
    ) -> Result<(Timestamp, Timestamp)> {
        let until = until.map(|until| time::from_proto("until", until)).transpose()?;
        let until = until.unwrap_or_else(|| self.gateway.environment.now());
        let from = from.map(|from| time::from_proto("from", from)).transpose()?;
        let from = from.unwrap_or_else(|| until.checked_sub(RANGE).unwrap_or(Timestamp::UNIX_EPOCH));
        if from > until {
            return Err(Error::invalid_field("from", "lies after `until`"));
        }
        Ok((from, until))
    }

    async fn usage(&self, principal: Principal, request: v1::GetUsageRequest) -> Result<v1::GetUsageResponse> {
        // Calls that are charged by this are in a range that ends now.
        self.gateway.credit.collect(&principal.org).await;
        let range = self.range(request.from.as_ref(), request.until.as_ref())?;
        let mut groups = Vec::new();
        for group in &request.group_by {
            match fields::choice("group_by", *group)? {
                v1::UsageGroup::Unspecified => return Err(Error::invalid_field("group_by", "is not said")),
                group if groups.contains(&group) => return Err(Error::invalid_field("group_by", "stands twice")),
                group => groups.push(group),
            }
        }
        let (mut rows, mut total) = (BTreeMap::new(), v1::UsageRow::default());
        let mut records = std::pin::pin!(records(self.gateway.stores.usage.clone(), principal.org, range));
        while let Some(some) = records.next().await {
            for record in some? {
                count(&mut total, &record);
                count(rows.entry(key(&groups, &record)).or_default(), &record);
            }
            if total.calls > CALLS_MAX || rows.len() > ROWS_MAX {
                let what =
                    format!("the range has more than {CALLS_MAX} calls, or {ROWS_MAX} groups; ask for a shorter one");
                return Err(Error::invalid(Reason::TooLarge, what));
            }
        }
        let mut rows: Vec<v1::UsageRow> = rows.into_iter().map(|(key, row)| labelled(&groups, key, row)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.credits, row.calls)));
        Ok(v1::GetUsageResponse { rows, total: Some(total) })
    }
}

/// The records of a range, oldest first, some at a time.
fn records(
    store: std::sync::Arc<dyn UsageStore>,
    org: OrgId,
    (from, until): (Timestamp, Timestamp),
) -> impl Stream<Item = Result<Vec<UsageRecord>>> + Send {
    async_stream::try_stream! {
        // Of the moment that the last ones had, some may be left: those that were given are known by their keys.
        let (mut next, mut given, mut limit) = (moment(from), Vec::new(), READ);
        loop {
            let read = store.list(&org, next, limit).await?;
            let whole = read.len() < limit;
            let last = read.last().map(|record| moment(record.at));
            let fresh: Vec<_> =
                read.into_iter().filter(|record| record.at >= from && record.at < until && !given.contains(&record.key)).collect();
            if let Some(at) = last {
                limit = if at == next { limit * 2 } else { READ };
                if at != next {
                    given.clear();
                }
                given.extend(fresh.iter().filter(|record| moment(record.at) == at).map(|record| record.key.clone()));
                next = at;
            }
            if !fresh.is_empty() {
                yield fresh;
            }
            if whole || next >= until {
                break;
            }
        }
    }
}

/// A time as stores list by it: in whole microseconds. What follows within one is listed again, in an order of its own.
fn moment(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// What a record's row is about, in the order of the groups.
fn key(groups: &[v1::UsageGroup], record: &UsageRecord) -> Vec<String> {
    let part = |group: &v1::UsageGroup| match group {
        v1::UsageGroup::Unspecified => String::new(),
        v1::UsageGroup::Model => record.model.clone(),
        v1::UsageGroup::Operation => record.operation.clone(),
        v1::UsageGroup::Document => record.document.as_ref().map(ToString::to_string).unwrap_or_default(),
        v1::UsageGroup::User => record.user.to_string(),
        v1::UsageGroup::Day => record.at.to_string().chars().take("2026-01-01".len()).collect(),
    };
    groups.iter().map(part).collect()
}

fn labelled(groups: &[v1::UsageGroup], key: Vec<String>, mut row: v1::UsageRow) -> v1::UsageRow {
    for (group, part) in groups.iter().zip(key) {
        match group {
            v1::UsageGroup::Unspecified => {}
            v1::UsageGroup::Model => row.model = part,
            v1::UsageGroup::Operation => row.operation = part,
            v1::UsageGroup::Document => row.document_id = part,
            v1::UsageGroup::User => row.user_id = part,
            v1::UsageGroup::Day => row.day = part,
        }
    }
    row
}

fn count(row: &mut v1::UsageRow, record: &UsageRecord) {
    let (usage, charged) = (&record.usage, record.charged.as_ref());
    row.calls += 1;
    row.input_tokens += usage.input_tokens;
    row.cached_input_tokens += usage.cached_input_tokens;
    row.output_tokens += usage.output_tokens;
    row.credits += charged.map_or(0, |charged| charged.credits);
    row.cost_microdollars += charged.and_then(|charged| charged.cost_microdollars).unwrap_or(0);
    row.unpriced_calls += u64::from(charged.is_none_or(|charged| charged.cost_microdollars.is_none()));
    row.unreported_calls += u64::from(!usage.reported);
    row.written_off_credits += charged.map_or(0, |charged| charged.written_off);
}

fn entry(record: UsageRecord) -> v1::UsageEntry {
    let UsageRecord { user, key, operation, model, usage, completed, at, document, charged, .. } = record;
    let basis = charged.as_ref().map(|charged| match charged.basis {
        Basis::Reported => v1::UsageBasis::Reported,
        Basis::Counted => v1::UsageBasis::Counted,
        Basis::Reserved => v1::UsageBasis::Reserved,
        Basis::NotSent => v1::UsageBasis::Unspecified,
    });
    v1::UsageEntry {
        key,
        at: Some(time::to_proto(at)),
        user_id: user.to_string(),
        operation,
        model,
        document_id: document.map(|document| document.to_string()).unwrap_or_default(),
        input_tokens: usage.input_tokens,
        cached_input_tokens: usage.cached_input_tokens,
        output_tokens: usage.output_tokens,
        completed,
        credits: charged.as_ref().map_or(0, |charged| charged.credits),
        cost_microdollars: charged.as_ref().and_then(|charged| charged.cost_microdollars),
        basis: basis.unwrap_or_default().into(),
        written_off_credits: charged.as_ref().map_or(0, |charged| charged.written_off),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use folio_types::UserId;
    use folio_types::message::Usage;

    use super::*;

    /// Lists as a store that keeps times to the microsecond.
    struct Coarse(Vec<UsageRecord>);

    #[async_trait::async_trait]
    impl UsageStore for Coarse {
        async fn record(&self, _: UsageRecord) -> Result<()> {
            Ok(())
        }

        async fn list(&self, _: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>> {
            let listed = self.0.iter().filter(|record| record.at.as_microsecond() >= from.as_microsecond());
            Ok(listed.take(limit).cloned().collect())
        }
    }

    #[tokio::test]
    async fn calls_of_one_microsecond_are_told_once_each() {
        let org = OrgId::derive(&["org"]);
        // Three in each microsecond, of which the stores do not know the order.
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
        let until = Timestamp::from_second(1).unwrap();
        let told = records(Arc::new(Coarse(all.clone())), org.clone(), (Timestamp::UNIX_EPOCH, until));
        let told: Vec<_> = told.map(Result::unwrap).concat().await;
        assert!(told.iter().map(|record| &record.key).eq(all.iter().map(|record| &record.key)), "{}", told.len());
    }
}
