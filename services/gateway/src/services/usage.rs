//! Serves `UsageService`.

use folio_credit::Basis;
use folio_operations::Call;
use folio_operations::usage::{Balance, DownloadUsage, GetBalance, GetUsage, UsageGroup, UsageRow, UsageSums};
use folio_proto::{fields, time, v1};
use folio_storage::UsageRecord;
use folio_types::{Error, Result};
use futures::StreamExt as _;
use tonic::{Request, Response};
use v1::usage_service_server::UsageService;

use super::handler::read;
use super::{Api, ResponseStream, RpcResult, credit, period};

#[tonic::async_trait]
impl UsageService for Api {
    type DownloadUsageStream = ResponseStream<v1::DownloadUsageResponse>;

    read!(
        get_balance,
        GetBalanceRequest,
        GetBalanceResponse,
        |request| GetBalance { organization_id: fields::optional_id("organization_id", &request.organization_id)? },
        |balance: Balance| v1::GetBalanceResponse {
            available: balance.available,
            in_blocks: balance.in_blocks,
            granted: balance.granted,
            expired: balance.expired,
            settled: balance.settled,
            grants: balance.grants.iter().map(credit::to_proto).collect(),
            unlimited: balance.is_unlimited,
            credit_price_microdollars: balance.credit_microdollars,
            month_start_time: balance.month.map(|(start, _)| time::to_proto(start)),
            month_end_time: balance.month.map(|(_, end)| time::to_proto(end)),
        }
    );

    async fn get_usage(&self, request: Request<v1::GetUsageRequest>) -> RpcResult<v1::GetUsageResponse> {
        let mut groups = Vec::new();
        let call = |request: v1::GetUsageRequest| {
            let group_by: Vec<UsageGroup> =
                request.group_by.iter().map(|number| group(*number)).collect::<Result<_>>()?;
            groups.clone_from(&group_by);
            Ok(Call::new(GetUsage { period: period!(request), group_by }))
        };
        let sums: UsageSums = self.call(request, call, Response::new).await?.into_inner().into_inner();
        let rows = sums.rows.into_iter().map(|row| to_proto(&groups, row)).collect();
        Ok(Response::new(v1::GetUsageResponse { rows, total: Some(to_proto(&[], sums.total)) }))
    }

    async fn download_usage(&self, request: Request<v1::DownloadUsageRequest>) -> RpcResult<Self::DownloadUsageStream> {
        let call = |request: v1::DownloadUsageRequest| Ok(Call::new(DownloadUsage { period: period!(request) }));
        let response = |records: <DownloadUsage as folio_operations::Operation>::Output| {
            let entries = records.map(|records| {
                records.map(|records| v1::DownloadUsageResponse { entries: records.into_iter().map(entry).collect() })
            });
            self.transfer(entries)
        };
        self.call(request, call, response).await
    }
}

fn group(number: i32) -> Result<UsageGroup> {
    Ok(match fields::choice("group_by", number)? {
        v1::UsageGroup::Unspecified => return Err(Error::invalid_field("group_by", "must not be unspecified")),
        v1::UsageGroup::Model => UsageGroup::Model,
        v1::UsageGroup::Operation => UsageGroup::Operation,
        v1::UsageGroup::Document => UsageGroup::Document,
        v1::UsageGroup::User => UsageGroup::User,
        v1::UsageGroup::Day => UsageGroup::Day,
    })
}

fn to_proto(groups: &[UsageGroup], row: UsageRow) -> v1::UsageRow {
    let totals = row.totals;
    let mut message = v1::UsageRow {
        calls: totals.calls,
        input_tokens: totals.input_tokens,
        cached_input_tokens: totals.cached_input_tokens,
        output_tokens: totals.output_tokens,
        credits: totals.credits,
        cost_microdollars: totals.cost_microdollars,
        unpriced_calls: totals.unpriced_calls,
        unreported_calls: totals.unreported_calls,
        written_off_credits: totals.written_off_credits,
        ..v1::UsageRow::default()
    };
    for (group, value) in groups.iter().zip(row.values) {
        match group {
            UsageGroup::Model => message.model = value,
            UsageGroup::Operation => message.operation = value,
            UsageGroup::Document => message.document_id = value,
            UsageGroup::User => message.user_id = value,
            UsageGroup::Day => message.day = value,
        }
    }
    message
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
        end_time: Some(time::to_proto(at)),
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
