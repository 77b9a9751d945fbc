//! AuditService: administrative changes and effects of calls are recorded, for admins of the organization, page by
//! page.

use std::sync::Arc;
use std::time::Duration;

use folio_gateway::Options;
use folio_operations::{Audit, operations};
use folio_proto::v1::*;
use folio_storage::Stores;
use folio_storage_conformance::layer::Layered;
use folio_types::audit::AuditKind as Kind;
use folio_types::{OrgId, Reason, Role, System, TokenId};
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;

use crate::calls::call;
use crate::faulty::{FaultyLog, FaultyTokens};
use crate::harness::{Answer, Client, Server};
use crate::samples::{missing, samples};

async fn list(client: &Client, filter: &str) -> Vec<AuditEntry> {
    let request = ListAuditEntriesRequest {
        filter: filter.into(),
        order_by: "create_time".into(),
        page_size: 3,
        ..Default::default()
    };
    let (mut entries, mut request) = (Vec::new(), request);
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

async fn download(client: &Client, filter: &str) -> Vec<Value> {
    let request = DownloadAuditEntriesRequest { filter: filter.into(), ..Default::default() };
    let parts = client.audits().download_audit_entries(request).await.unwrap().into_inner();
    let text: Vec<String> = parts.map(|part| part.unwrap().json_lines).collect().await;
    text.concat().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn every_administrative_change_is_in_the_audit_logs_of_the_concerned_organizations() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let admin = server.platform_admin(&org).await;
    let theirs = OrgId::generate(&System);
    let them = server.user(&theirs, Role::Admin).await;

    let token = json!({"token": {"name": "job", "role": "ROLE_VIEWER"}, "request_id": "t1"});
    let made = admin.done("CreateToken", token).await;
    let (token_id, secret) = (made["token"]["token_id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    admin.done("RevokeToken", json!({ "token_id": token_id })).await;
    admin.refusal("RevokeToken", json!({"token_id": TokenId::derive(&["unknown"]).to_string()})).await;
    let member = admin.done("AddMember", json!({"member": {"name": "Ann", "role": "ROLE_MEMBER"}})).await;
    let user = &member["member"]["user_id"];
    admin.done("UpdateMember", json!({"member": {"user_id": user, "role": "ROLE_VIEWER"}})).await;
    admin.done("RemoveMember", json!({ "user_id": user })).await;
    admin.done("UpdateOrganization", json!({"organization": {"name": "Ours"}})).await;
    admin.done("SetPolicy", json!({"policy": {"rules": [{"name": "all", "allow": {}}]}})).await;
    let credit = json!({"organization_id": theirs.to_string(), "credits": 5});
    admin.done("GrantCredit", credit.clone()).await;
    admin.done("WithdrawCredit", credit).await;
    let limits = json!({"organization_id": theirs.to_string(), "own": {"requests_per_second": 9}});
    admin.done("SetLimits", limits).await;
    let key = "sk-very-secret-0123456789";
    for (name, owner) in [("mine", "PROVIDER_OWNER_ORGANIZATION"), ("all", "PROVIDER_OWNER_PLATFORM")] {
        let model = json!({"name": format!("{name}-model"), "enabled": true, "chat": true});
        let url = "https://models.example/v1";
        let provider = json!({"name": name, "base_url": url, "models": [model], "api_key": key});
        admin.done("UpdateProvider", json!({"provider": provider, "owner": owner})).await;
    }
    admin.done("SetModelDefaults", json!({"default_model": "mine-model"})).await;
    admin.refusal("DiscoverModels", json!({"name": "nobody"})).await;
    admin.done("DeleteProvider", json!({"name": "mine"})).await;
    let password = format!("https://user:{key}@models.example/v1");
    admin.refusal("UpdateProvider", json!({"provider": {"name": "mine", "base_url": password}})).await;
    let new = admin.done("CreateOrganization", json!({"organization": {"name": "New"}, "admin_name": "Bo"})).await;
    let new_token = new["admin_token"].as_str().unwrap();
    let delete = json!({"organization_id": theirs.to_string(), "name": "another"});
    admin.refusal("DeleteOrganization", delete).await;

    let log = list(&admin, "").await;
    let recorded: Vec<_> = log.iter().map(|entry| (entry.subject.as_str(), entry.kind())).collect();
    let mut expected = Vec::new();
    for (subject, outcome) in [
        ("TokenService.CreateToken", AuditKind::ChangeApplied),
        ("TokenService.RevokeToken", AuditKind::ChangeApplied),
        ("TokenService.RevokeToken", AuditKind::ChangeFailed),
        ("OrganizationService.AddMember", AuditKind::ChangeApplied),
        ("OrganizationService.UpdateMember", AuditKind::ChangeApplied),
        ("OrganizationService.RemoveMember", AuditKind::ChangeApplied),
        ("OrganizationService.UpdateOrganization", AuditKind::ChangeApplied),
        ("PolicyService.SetPolicy", AuditKind::ChangeApplied),
        ("CreditService.GrantCredit", AuditKind::ChangeApplied),
        ("CreditService.WithdrawCredit", AuditKind::ChangeApplied),
        ("LimitService.SetLimits", AuditKind::ChangeApplied),
        ("ProviderService.UpdateProvider", AuditKind::ChangeApplied),
        ("ProviderService.UpdateProvider", AuditKind::ChangeApplied),
        ("ProviderService.SetModelDefaults", AuditKind::ChangeApplied),
        ("ProviderService.DiscoverModels", AuditKind::ChangeFailed),
        ("ProviderService.DeleteProvider", AuditKind::ChangeApplied),
        ("OrganizationService.CreateOrganization", AuditKind::ChangeApplied),
        ("OrganizationService.DeleteOrganization", AuditKind::ChangeFailed),
    ] {
        expected.extend([(subject, AuditKind::ChangeRequested), (subject, outcome)]);
    }
    assert_eq!(recorded, expected);
    assert!(log.iter().all(|entry| entry.user_id == admin.user.to_string()));
    assert!(log.iter().map(|entry| &entry.entry_id).is_sorted());
    assert_eq!((log[1].target_kind.as_str(), log[1].target_id.as_str()), ("token", token_id));
    assert_eq!(log[5].outcome, "NOT_FOUND");
    assert_eq!(serde_json::from_str::<Value>(&log[6].arguments_json).unwrap()["name"], "Ann");
    assert!(log[15].arguments_json.contains("\"all\""), "{}", log[15].arguments_json);
    let text = format!("{log:?}");
    assert!(![secret, new_token, key].iter().any(|secret| text.contains(secret)), "no secret");
    let provider = log.iter().find(|entry| entry.subject == "ProviderService.UpdateProvider").unwrap();
    let arguments: Value = serde_json::from_str(&provider.arguments_json).unwrap();
    let redacted = json!({"name": "mine-model", "enabled": true, "input_price": null, "cached_input_price": null, "output_price": null});
    assert_eq!((&arguments["api_key"], &arguments["models"][0]), (&json!("set"), &redacted));

    // The log of the concerned organization records the change as well, and nothing else.
    let log = list(&them, "").await;
    let recorded: Vec<_> = log.iter().map(|entry| (entry.subject.as_str(), entry.kind())).collect();
    let of_theirs = ["CreditService.GrantCredit", "CreditService.WithdrawCredit", "LimitService.SetLimits"];
    let whole = |subject| [(subject, AuditKind::ChangeRequested), (subject, AuditKind::ChangeApplied)];
    assert_eq!(recorded, of_theirs.map(whole).concat());
    let founded = list(&server.holder(new_token), "").await;
    let told: Vec<_> = founded.iter().map(|entry| (entry.subject.as_str(), entry.kind())).collect();
    assert_eq!(told, [("OrganizationService.CreateOrganization", AuditKind::ChangeApplied)]);
    let error = server.user(&org, Role::Member).await.refusal("ListAuditEntries", json!({})).await;
    assert_eq!(error.reason, Reason::RoleNotAllowed, "a member reads no log");
    server.stop().await;
}

#[tokio::test]
async fn every_operation_that_is_declared_as_recorded_leaves_entries() {
    let server = Server::start().await;
    let admin = server.platform_admin(&OrgId::generate(&System)).await;
    for operation in operations().filter(|operation| operation.audit == Audit::Recorded) {
        let subject = format!("{}.{}", operation.service.name, operation.name);
        let (mut ids, other) = (missing(), OrgId::generate(&System));
        server.organization(&other).await;
        ids.insert("organization", other.to_string());
        for request in samples(operation.name, &ids, &ids).valid {
            let before = list(&admin, "").await.len();
            let outcome = match call(&admin, operation, &request).await {
                Ok(_) => AuditKind::ChangeApplied,
                Err(_) => AuditKind::ChangeFailed,
            };
            let log = list(&admin, "").await;
            let new: Vec<_> = log[before..].iter().map(|entry| (entry.subject.as_str(), entry.kind())).collect();
            assert_eq!(new, [(subject.as_str(), AuditKind::ChangeRequested), (&subject, outcome)]);
            assert!(!format!("{log:?}").contains("SECRET"), "{subject} records a secret");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_change_whose_deadline_is_over_is_made_and_recorded_whole() {
    let held = Arc::new(FaultyLog::new(0));
    let options = Options { short_timeout: Duration::from_secs(3), ..Options::default() };
    let layer = |stores: Stores| Stores { audit: Layered::over(Arc::clone(&held), &stores.audit), ..stores };
    let server = Server::on(options, layer).await;
    let (org, theirs) = (OrgId::generate(&System), OrgId::generate(&System));
    let (admin, them) = (server.platform_admin(&org).await, server.user(&theirs, Role::Admin).await);
    let limits = json!({"organization_id": theirs.to_string(), "own": {"requests_per_second": 9}});
    let error = admin.refusal("SetLimits", limits).await;
    assert_eq!(error.reason, Reason::DeadlineExceeded, "no caller waits for it any more");
    assert!(list(&admin, "").await.is_empty(), "and nothing is made before it is recorded");

    held.unblock();
    folio_testkit::wait_for("whom it concerns is told", Duration::from_secs(20), async || {
        (kinds(&them).await == [AuditKind::ChangeRequested, AuditKind::ChangeApplied]).then_some(())
    })
    .await;
    assert_eq!(kinds(&admin).await, [AuditKind::ChangeRequested, AuditKind::ChangeApplied]);
    let set = server.found(&theirs).await.unwrap().quotas.requests_per_second;
    assert_eq!(set, Some(9));
    server.stop().await;
}

/// Returns the kinds of the entries of a log, in order.
async fn kinds(client: &Client) -> Vec<AuditKind> {
    list(client, "").await.iter().map(AuditEntry::kind).collect()
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
    let there = server.found(&theirs).await.unwrap();
    assert_eq!((there.quotas.requests_per_second, kinds(&them).await), (None, Vec::new()));

    log.refuse(&theirs, &[Kind::ChangeApplied]);
    admin.done("SetLimits", limits(8)).await;
    admin.done("GrantCredit", grant).await;
    assert_eq!(kinds(&them).await, [AuditKind::ChangeRequested; 2], "the change stands, and they can see it");
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
    let log = list(&admin, "").await;
    assert_eq!(log.iter().map(AuditEntry::kind).collect::<Vec<_>>(), [AuditKind::ChangeRequested]);
    let arguments: Value = serde_json::from_str(&log[0].arguments_json).unwrap();
    let id: OrgId = arguments["organization_id"].as_str().unwrap().parse().unwrap();
    assert!(server.found(&id).await.is_some(), "it stands, and the log names it");
    tokens.set_away(false);
    let made = admin.done("CreateOrganization", create).await;
    assert_eq!(made["organization"]["organization_id"], id.as_str());
    assert_eq!(kinds(&admin).await, [AuditKind::ChangeRequested, AuditKind::ChangeRequested, AuditKind::ChangeApplied]);

    tokens.set_away(true);
    let delete = json!({"organization_id": id.to_string(), "name": "Acme"});
    admin.refusal("DeleteOrganization", delete.clone()).await;
    assert_eq!(server.found(&id).await, None, "it is deleted all the same");
    assert_eq!(kinds(&admin).await[3..], [AuditKind::ChangeRequested]);
    folio_testkit::wait_for("what it had is swept soon", Duration::from_secs(30), async || {
        server.stores.access().members(&id).await.unwrap().is_empty().then_some(())
    })
    .await;
    tokens.set_away(false);
    admin.done("DeleteOrganization", delete).await;
    assert_eq!(kinds(&admin).await[4..], [AuditKind::ChangeRequested, AuditKind::ChangeApplied]);
    server.stop().await;
}

#[tokio::test]
async fn the_log_of_calls_is_filtered_listed_and_exported() {
    let server = Server::start().await;
    let member = server.member().await;
    let admin = server.user(&member.org, Role::Admin).await;
    let document = member.ready_document("a.txt", "text").await.document_id;
    let mut turns = Vec::new();
    for name in ["first", "second"] {
        server.model.next(Answer::Calls(vec![("create_tag", json!({ "name": name }))]));
        server.model.answer("Made.");
        let request = ChatRequest {
            text: "do it".into(),
            document_ids: vec![document.clone()],
            auto_approve: true,
            ..Default::default()
        };
        turns.extend(member.chat(request).await.into_iter().map(|event| event.turn_id));
    }
    turns.dedup();
    let [first, second] = turns.as_slice() else { panic!("{turns:?}") };
    let kinds = |entries: &[AuditEntry]| entries.iter().map(AuditEntry::kind).collect::<Vec<_>>();
    let both = [AuditKind::CallAllowed, AuditKind::CallEffect];
    assert_eq!(kinds(&list(&admin, "").await), [both, both].concat());
    for filter in [format!("turn:{first}"), format!("thread:{}", first.split('.').next().unwrap())] {
        let entries = list(&admin, &filter).await;
        assert_eq!(kinds(&entries), both, "{filter}");
        assert!(entries.iter().all(|entry| entry.call_id.starts_with(first.as_str())));
        assert_eq!(entries[0].ground(), AuditGround::AutoApprove);
        assert_eq!(entries[0].arguments_json, r#"{"name":"<5 characters>"}"#);
        assert_eq!((entries[1].outcome.as_str(), entries[1].target_kind.as_str()), ("ok", "tag"));
    }
    let filter = format!("kind:call_effect user:{} subject:create_tag", member.user);
    assert_eq!(list(&admin, &filter).await.len(), 2);
    assert!(list(&admin, &format!("user:{}", admin.user)).await.is_empty());

    let entries = list(&admin, "").await;
    let newest = ListAuditEntriesRequest { end_time: entries[3].create_time, page_size: 2, ..Default::default() };
    let page = admin.audits().list_audit_entries(newest).await.unwrap().into_inner();
    assert_eq!(page.entries, [entries[2].clone(), entries[1].clone()], "newest first, before the end time");

    let exported = download(&admin, "").await;
    assert_eq!(exported.len(), 4);
    for (line, entry) in exported.iter().zip(&entries) {
        assert_eq!((line["id"].as_str(), line["user"].as_str()), (Some(&*entry.entry_id), Some(&*entry.user_id)));
        assert_eq!(line["arguments"]["digest"], entry.arguments_digest.as_str());
    }
    assert_eq!(exported[0]["kind"], "call_allowed");
    assert_eq!(exported[1]["target"]["kind"], "tag");
    assert_eq!(download(&admin, &format!("turn:{second}")).await.len(), 2);
    server.stop().await;
}
