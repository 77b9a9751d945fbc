//! Serves `AuditService`.

use folio_operations::audit_log::{DownloadAuditEntries, ListAuditEntries};
use folio_operations::{Call, ListPage, Operation};
use folio_proto::{time, v1};
use folio_resources::audit::{AuditEntry, AuditKind, Ground};
use folio_types::{Error, Result};
use futures::StreamExt as _;
use tonic::Request;
use v1::audit_service_server::AuditService;

use super::handler::handler;
use super::{Api, ResponseStream, RpcResult, bounded_stream, list_request, period, total_size};

#[tonic::async_trait]
impl AuditService for Api {
    type DownloadAuditEntriesStream = ResponseStream<v1::DownloadAuditEntriesResponse>;

    handler!(
        list_audit_entries,
        ListAuditEntriesRequest,
        ListAuditEntriesResponse,
        |request: v1::ListAuditEntriesRequest| {
            Ok(Call::new(ListAuditEntries { period: period!(request), list: list_request!(request) }))
        },
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
            bounded_stream(lines, self.transfer_limits(), self.cut.clone())
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
    let kind = match entry.kind {
        AuditKind::CallApproved => v1::AuditKind::CallApproved,
        AuditKind::CallEdited => v1::AuditKind::CallEdited,
        AuditKind::CallRejected => v1::AuditKind::CallRejected,
        AuditKind::CallAllowed => v1::AuditKind::CallAllowed,
        AuditKind::CallDenied => v1::AuditKind::CallDenied,
        AuditKind::CallEffect => v1::AuditKind::CallEffect,
        AuditKind::ChangeRequested => v1::AuditKind::ChangeRequested,
        AuditKind::ChangeApplied => v1::AuditKind::ChangeApplied,
        AuditKind::ChangeFailed => v1::AuditKind::ChangeFailed,
    };
    let (ground, rule) = match &entry.ground {
        None => (v1::AuditGround::Unspecified, String::new()),
        Some(Ground::Rule(name)) => (v1::AuditGround::Rule, name.clone()),
        Some(Ground::AutoApprove) => (v1::AuditGround::AutoApprove, String::new()),
        Some(Ground::AutoApprovedTool) => (v1::AuditGround::AutoApprovedTool, String::new()),
        Some(Ground::WritesWait) => (v1::AuditGround::WritesWait, String::new()),
    };
    let arguments = entry.arguments.as_ref();
    let target = entry.target.clone();
    let (target_kind, target_id) = target.map(|target| (target.kind, target.id)).unwrap_or_default();
    v1::AuditEntry {
        entry_id: entry.id(),
        create_time: Some(time::to_proto(entry.at)),
        kind: kind.into(),
        user_id: entry.user.as_ref().map(ToString::to_string).unwrap_or_default(),
        subject: entry.subject.clone(),
        call_id: entry.call.as_ref().map(ToString::to_string).unwrap_or_default(),
        arguments_json: arguments.map(|arguments| arguments.value.to_string()).unwrap_or_default(),
        arguments_digest: arguments.map(|arguments| arguments.digest.to_string()).unwrap_or_default(),
        ground: ground.into(),
        rule,
        target_kind,
        target_id,
        outcome: entry.outcome.clone().unwrap_or_default(),
    }
}
