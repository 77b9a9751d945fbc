//! Tests of `AuditService`: administrative changes and effects of calls are recorded, for admins of the organization,
//! page by page.

use std::sync::Arc;
use std::time::Duration;

use folio_gateway::Options;
use folio_operations::{Access, Audit, operations};
use folio_proto::v1::*;
use folio_resources::audit::AuditKind as Kind;
use folio_storage::Stores;
use folio_storage_conformance::layer::Layered;
use folio_types::{OrgId, Reason, Role, System};
use serde_json::{Value, json};

use crate::calls::call;
use crate::faulty::{FaultyLog, FaultyTokens};
use crate::harness::{Client, Server};
use crate::samples::{missing, samples};

/// Returns the audit log, oldest entry first, read in pages.
async fn list(client: &Client) -> Vec<AuditEntry> {
    let mut request =
        ListAuditEntriesRequest { order_by: "create_time".into(), page_size: 3, ..ListAuditEntriesRequest::default() };
    let mut entries = Vec::new();
    loop {
        let page = client.audits().list_audit_entries(request.clone()).await.unwrap().into_inner();
        assert!(page.entries.len() <= 3);
        entries.extend(page.entries);
        if page.next_page_token.is_empty() {
            return entries;
        }
        request.page_token = page.next_page_token;
    }
}

#[tokio::test]
async fn every_operation_that_is_declared_as_recorded_leaves_entries() {
    let server = Server::start().await;
    let admin = server.platform_admin(&OrgId::generate(&System)).await;
    // The entries about accounts are in the log of another organization: see `accounts`.
    let recorded = operations().filter(|operation| operation.audit == Audit::Recorded);
    for operation in recorded.filter(|operation| operation.access != Access::Account) {
        let subject = format!("{}.{}", operation.service.name, operation.name);
        let (mut ids, other) = (missing(), OrgId::generate(&System));
        server.organization(&other).await;
        ids.insert("organization", other.to_string());
        for request in samples(operation.name, &ids, &ids).valid {
            let before = list(&admin).await.len();
            let outcome = match call(&admin, operation, &request).await {
                Ok(_) => AuditKind::ChangeApplied,
                Err(_) => AuditKind::ChangeFailed,
            };
            let log = list(&admin).await;
            let new: Vec<_> = log[before..].iter().map(|entry| (entry.subject.as_str(), entry.kind())).collect();
            assert_eq!(new, [(subject.as_str(), AuditKind::ChangeRequested), (&subject, outcome)]);
            assert!(log.iter().map(|entry| &entry.entry_id).is_sorted(), "{subject}");
            assert!(!format!("{log:?}").contains("SECRET"), "{subject} records a secret");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_change_completes_and_is_recorded_after_its_deadline() {
    let blocked_log = Arc::new(FaultyLog::new(0));
    let options = Options { short_timeout: Duration::from_secs(3), ..Options::default() };
    let layer = |stores: Stores| Stores { audit: Layered::over(Arc::clone(&blocked_log), &stores.audit), ..stores };
    let server = Server::on(options, layer).await;
    let (org, theirs) = (OrgId::generate(&System), OrgId::generate(&System));
    let (admin, them) = (server.platform_admin(&org).await, server.user(&theirs, Role::Admin).await);
    let limits = json!({"organization_id": theirs.to_string(), "own": {"requests_per_second": 9}});
    let error = admin.refusal("SetLimits", limits).await;
    assert_eq!(error.reason, Reason::DeadlineExceeded, "the caller no longer waits");
    assert!(list(&admin).await.is_empty(), "nothing is changed before it is recorded");

    blocked_log.unblock();
    // The logs are written one after the other.
    folio_testkit::wait_for("both logs to have both entries", Duration::from_secs(20), async || {
        let both = [AuditKind::ChangeRequested, AuditKind::ChangeApplied];
        (kinds(&them).await == both && kinds(&admin).await == both).then_some(())
    })
    .await;
    let set = server.organization_of(&theirs).await.unwrap().quotas.requests_per_second;
    assert_eq!(set, Some(9));
    server.stop().await;
}

async fn kinds(client: &Client) -> Vec<AuditKind> {
    list(client).await.iter().map(AuditEntry::kind).collect()
}

#[tokio::test]
async fn a_change_is_recorded_in_the_log_of_the_concerned_organization_before_it_is_made() {
    let log = Arc::new(FaultyLog::new(1));
    let layer = |stores: Stores| Stores { audit: Layered::over(Arc::clone(&log), &stores.audit), ..stores };
    let server = Server::on(Options::default(), layer).await;
    let theirs = OrgId::generate(&System);
    let admin = server.platform_admin(&OrgId::generate(&System)).await;
    let them = server.user(&theirs, Role::Admin).await;
    let limits = |most: u32| json!({"organization_id": theirs.to_string(), "own": {"requests_per_second": most}});
    let grant = json!({"organization_id": theirs.to_string(), "credits": 5});
    log.refuse(&theirs, &[Kind::ChangeRequested]);
    assert_eq!(admin.refusal("SetLimits", limits(7)).await.reason, Reason::StoreUnavailable);
    assert_eq!(admin.refusal("GrantCredit", grant.clone()).await.reason, Reason::StoreUnavailable);
    let affected = server.organization_of(&theirs).await.unwrap();
    assert_eq!((affected.quotas.requests_per_second, kinds(&them).await), (None, Vec::new()));

    log.refuse(&theirs, &[Kind::ChangeApplied]);
    admin.call_ok("SetLimits", limits(8)).await;
    admin.call_ok("GrantCredit", grant).await;
    assert_eq!(kinds(&them).await, [AuditKind::ChangeRequested; 2], "the change is applied and visible in the log");
    server.stop().await;
}

#[tokio::test]
async fn a_change_with_an_open_outcome_is_not_recorded_as_failed() {
    let tokens = Arc::new(FaultyTokens::default());
    let layer = |stores: Stores| Stores { resources: Layered::over(Arc::clone(&tokens), &stores.resources), ..stores };
    let server = Server::on(Options::default(), layer).await;
    let admin = server.platform_admin(&OrgId::generate(&System)).await;
    let create = json!({"organization": {"name": "Acme"}, "admin_name": "Bo", "request_id": "acme"});
    tokens.set_away(true);
    admin.refusal("CreateOrganization", create.clone()).await;
    let log = list(&admin).await;
    assert_eq!(log.iter().map(AuditEntry::kind).collect::<Vec<_>>(), [AuditKind::ChangeRequested]);
    let arguments: Value = serde_json::from_str(&log[0].arguments_json).unwrap();
    let id: OrgId = arguments["organization_id"].as_str().unwrap().parse().unwrap();
    assert!(server.organization_of(&id).await.is_some(), "the organization exists, and the log contains its id");
    tokens.set_away(false);
    let created = admin.call_ok("CreateOrganization", create).await;
    assert_eq!(created["organization"]["organization_id"], id.as_str());
    assert_eq!(kinds(&admin).await, [AuditKind::ChangeRequested, AuditKind::ChangeRequested, AuditKind::ChangeApplied]);

    tokens.set_away(true);
    let delete = json!({"organization_id": id.to_string(), "name": "Acme"});
    admin.refusal("DeleteOrganization", delete.clone()).await;
    assert_eq!(server.organization_of(&id).await, None, "the organization is deleted");
    assert_eq!(kinds(&admin).await[3..], [AuditKind::ChangeRequested]);
    folio_testkit::wait_for("the sweep to remove the members", Duration::from_secs(30), async || {
        server.stores.access().members(&id).await.unwrap().is_empty().then_some(())
    })
    .await;
    tokens.set_away(false);
    admin.call_ok("DeleteOrganization", delete).await;
    assert_eq!(kinds(&admin).await[4..], [AuditKind::ChangeRequested, AuditKind::ChangeApplied]);
    server.stop().await;
}
