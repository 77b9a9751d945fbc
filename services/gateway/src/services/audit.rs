//! Serves `AuditService`.

use folio_operations::audit_log::{DownloadAuditEntries, ListAuditEntries};
use folio_operations::{Call, ListPage, Operation};
use folio_proto::{fields, time, v1};
use folio_resources::audit::{AuditEntry, Ground};
use folio_types::{Error, Result};
use futures::StreamExt as _;
use tonic::Request;
use v1::audit_service_server::AuditService;

use super::handler::read;
use super::{Api, ResponseStream, RpcResult, list_request, period, total_size};

#[tonic::async_trait]
impl AuditService for Api {
    type DownloadAuditEntriesStream = ResponseStream<v1::DownloadAuditEntriesResponse>;

    read!(
        list_audit_entries,
        ListAuditEntriesRequest,
        ListAuditEntriesResponse,
        |request| ListAuditEntries { period: period!(request), list: list_request!(request) },
        |page: ListPage<AuditEntry>| v1::ListAuditEntriesResponse {
            entries: page.items.iter().map(to_proto).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        }
    );

    async fn download_audit_entries(
        &self,
        request: Request<v1::DownloadAuditEntriesRequest>,
    ) -> RpcResult<Self::DownloadAuditEntriesStream> {
        let call = |request: v1::DownloadAuditEntriesRequest| {
            Ok(Call::new(DownloadAuditEntries { period: period!(request), filter: request.filter }))
        };
        let response = |entries: <DownloadAuditEntries as Operation>::Output| {
            let lines = entries.map(|entries| {
                let lines: String = entries?.iter().map(line).collect::<Result<_>>()?;
                Ok(v1::DownloadAuditEntriesResponse { json_lines: lines })
            });
            self.transfer(lines)
        };
        self.call(request, call, response).await
    }
}

#[derive(serde::Serialize)]
struct Line<'a> {
    id: String,
    #[serde(flatten)]
    entry: &'a AuditEntry,
}

/// Returns an entry as a line of JSON, with a line feed.
fn line(entry: &AuditEntry) -> Result<String> {
    let line = serde_json::to_string(&Line { id: entry.id(), entry });
    let line = line.map_err(|error| Error::internal(format!("an audit entry cannot be serialized: {error}")))?;
    Ok(line + "\n")
}

fn to_proto(entry: &AuditEntry) -> v1::AuditEntry {
    let (ground, rule) = match &entry.ground {
        None => (v1::AuditGround::Unspecified, String::new()),
        Some(Ground::Rule(name)) => (v1::AuditGround::Rule, name.clone()),
        Some(Ground::AutoApprove) => (v1::AuditGround::AutoApprove, String::new()),
        Some(Ground::AutoApprovedTool) => (v1::AuditGround::AutoApprovedTool, String::new()),
        Some(Ground::WritesWait) => (v1::AuditGround::WritesWait, String::new()),
        Some(Ground::Profile) => (v1::AuditGround::Profile, String::new()),
    };
    let arguments = entry.arguments.as_ref();
    let (target_kind, target_id) = entry.target.clone().map(|target| (target.kind, target.id)).unwrap_or_default();
    v1::AuditEntry {
        entry_id: entry.id(),
        create_time: Some(time::to_proto(entry.at)),
        kind: v1::AuditKind::from(entry.kind).into(),
        user_id: fields::text_of(entry.user.as_ref()),
        subject: entry.subject.clone(),
        call_id: fields::text_of(entry.call.as_ref()),
        arguments_json: fields::text_of(arguments.map(|arguments| &arguments.value)),
        arguments_digest: fields::text_of(arguments.map(|arguments| &arguments.digest)),
        ground: ground.into(),
        rule,
        target_kind,
        target_id,
        outcome: entry.outcome.clone().unwrap_or_default(),
        token_creator_user_id: entry.token_creator.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}
