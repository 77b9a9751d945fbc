//! UsageService and CreditService, and calls that the balance does not cover.

use std::sync::Arc;
use std::time::Duration;

use folio_credit::LedgerRow;
use folio_metering::{Draw, Escrow, Options as Credit};
use folio_proto::v1;
use folio_types::{BlockId, Code, Environment as _, Incarnation, OrgId, Reason, Role, System};
use serde_json::json;
use tokio_stream::StreamExt as _;
use tonic::Status;
use v1::event::Kind;

use crate::harness::{Answer, Client, Server, refused};

/// Starts a server on which an organization has this monthly allowance.
async fn server(monthly_allowance: u64) -> Server {
    Server::credited(Credit { monthly_allowance, ..Credit::default() }).await
}

async fn balance(client: &Client) -> Result<v1::GetBalanceResponse, Status> {
    Ok(client.usages().get_balance(v1::GetBalanceRequest::default()).await?.into_inner())
}

#[tokio::test]
async fn credit_is_granted_and_withdrawn_once_per_request() {
    let server = server(0).await;
    let org = OrgId::generate(&System);
    let admin = server.platform_admin(&org).await;
    let grant =
        v1::GrantCreditRequest { credits: 100, note: "a start".into(), request_id: "g1".into(), ..Default::default() };
    let granted = admin.credits().grant_credit(grant.clone()).await.unwrap().into_inner().grant.unwrap();
    assert_eq!((granted.credits, granted.available, granted.note.as_str()), (100, 100, "a start"));
    assert_eq!(granted.kind(), v1::GrantKind::Admin);
    let again = admin.credits().grant_credit(grant.clone()).await.unwrap().into_inner().grant.unwrap();
    assert_eq!(again, granted);
    let other = v1::GrantCreditRequest { credits: 101, ..grant.clone() };
    assert_eq!(refused(admin.credits().grant_credit(other).await, "other content").reason, Reason::RequestIdConflict);
    let past = prost_types::Timestamp { seconds: 1, nanos: 0 };
    let expired = v1::GrantCreditRequest { expire_time: Some(past), request_id: "g2".into(), ..grant.clone() };
    assert_eq!(refused(admin.credits().grant_credit(expired).await, "expired").reason, Reason::InvalidField);
    let nothing = v1::GrantCreditRequest { credits: 0, request_id: "g3".into(), ..grant.clone() };
    assert_eq!(refused(admin.credits().grant_credit(nothing).await, "nothing").reason, Reason::InvalidField);

    let take = v1::WithdrawCreditRequest { credits: 30, request_id: "w1".into(), ..Default::default() };
    for _ in 0..2 {
        admin.credits().withdraw_credit(take.clone()).await.unwrap();
    }
    let more = v1::WithdrawCreditRequest { credits: 71, request_id: "w2".into(), ..Default::default() };
    assert_eq!(refused(admin.credits().withdraw_credit(more).await, "more than there is").reason, Reason::InvalidField);
    let now = balance(&admin).await.unwrap();
    assert_eq!((now.available, now.granted, now.settled, now.grants.len()), (70, 70, 0, 1));

    let other_org = OrgId::generate(&System);
    let them = server.user(&other_org, Role::Viewer).await;
    let to_them =
        v1::GrantCreditRequest { organization_id: other_org.to_string(), request_id: "g4".into(), ..grant.clone() };
    admin.credits().grant_credit(to_them).await.unwrap();
    assert_eq!(balance(&them).await.unwrap().available, 100);
    assert_eq!(balance(&admin).await.unwrap().available, 70);
    let unknown_org = OrgId::generate(&System).to_string();
    let to_missing = v1::GrantCreditRequest { organization_id: unknown_org, request_id: "g5".into(), ..grant };
    assert_eq!(refused(admin.credits().grant_credit(to_missing).await, "a missing organization").code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn invariant_5_a_turn_without_credit_fails_visibly_and_is_resumed_after_a_top_up() {
    let server = server(0).await;
    let org = OrgId::generate(&System);
    let admin = server.platform_admin(&org).await;
    let document = admin.ready_document("a.txt", "Total 12.50").await.document_id;
    server.model.answer("Here.");
    let chat = v1::ChatRequest {
        text: "hello".into(),
        document_ids: vec![document],
        request_id: "c1".into(),
        ..Default::default()
    };
    let events = admin.chat(chat).await;
    let Some(Kind::Failed(failed)) = events.last().unwrap().kind.clone() else { panic!("{events:?}") };
    let error = failed.error.unwrap();
    assert!(failed.retriable);
    assert_eq!((error.reason.as_str(), error.details["balance"].as_str()), ("SPU_EXHAUSTED", "0"));
    assert!(error.details.contains_key("need"), "{error:?}");

    let grant = v1::GrantCreditRequest { credits: 100, request_id: "g1".into(), ..Default::default() };
    admin.credits().grant_credit(grant).await.unwrap();
    let events = resumed(&admin, &events[0].turn_id).await;
    assert!(matches!(events.last().unwrap().kind, Some(Kind::Completed(_))), "{events:?}");

    // The record follows the settlement, which the answer does not wait for.
    let row = folio_testkit::wait_for("the record of the call", Duration::from_secs(10), || async {
        let usage = v1::GetUsageRequest { group_by: vec![v1::UsageGroup::Operation.into()], ..Default::default() };
        admin.usages().get_usage(usage).await.unwrap().into_inner().rows.pop()
    })
    .await;
    assert_eq!((row.operation.as_str(), row.calls), ("chat", 1));
    assert!(row.credits >= 1);
    server.stop().await;
}

/// Resumes a turn, and returns its events.
async fn resumed(client: &Client, turn_id: &str) -> Vec<v1::Event> {
    let resume = v1::ResumeTurnRequest { turn_id: turn_id.into(), ..Default::default() };
    let events = client.conversations().resume_turn(resume).await.unwrap().into_inner();
    events.map(|event| event.unwrap().event.unwrap()).collect().await
}

#[tokio::test]
async fn invariant_5_an_extraction_without_credit_fails_its_turn_and_runs_once_after_resuming() {
    let server = server(0).await;
    let org = OrgId::generate(&System);
    let admin = server.platform_admin(&org).await;
    let document = admin.ready_document("a.txt", "Total 12.50").await.document_id;
    let schema = admin.schema("Invoice", "total").await;
    let prompt_revid = admin.prompt("Total", &schema.schema_id).await.prompt_revid;
    let grant = |credits, id: &str| v1::GrantCreditRequest { credits, request_id: id.into(), ..Default::default() };
    // Enough for the model that asks, and for nothing else.
    admin.credits().grant_credit(grant(1, "g1")).await.unwrap();
    let extraction = ("run_extraction", json!({ "prompt_revid": prompt_revid }));
    server.model.next(Answer::Calls(vec![("create_tag", json!({ "name": "before" })), extraction]));
    let chat = v1::ChatRequest {
        text: "extract".into(),
        document_ids: vec![document.clone()],
        auto_approve: true,
        ..Default::default()
    };
    let mut events = admin.chat(chat).await;
    let turn = events[0].turn_id.clone();
    let extractions = async || {
        let list = v1::ListExtractionsRequest { document_id: document.clone(), ..Default::default() };
        admin.extractions().list_extractions(list).await.unwrap().into_inner().extractions
    };
    for _ in 0..2 {
        let Some(Kind::Failed(failed)) = events.last().unwrap().kind.clone() else { panic!("{events:?}") };
        let error = failed.error.unwrap();
        assert!(failed.retriable, "{error:?}");
        assert_eq!((error.reason.as_str(), error.details["balance"].as_str()), ("SPU_EXHAUSTED", "0"));
        assert!(error.details.contains_key("need"), "{error:?}");
        assert_eq!((server.model.calls(), extractions().await.len()), (1, 0), "no model is called without credit");
        // Without a top-up, a resumption fails in the same way.
        events = resumed(&admin, &turn).await;
    }

    admin.credits().grant_credit(grant(100, "g2")).await.unwrap();
    server.model.answer(r#"{"total": 12.5}"#);
    server.model.answer("It is 12.50.");
    let events = resumed(&admin, &turn).await;
    let Some(Kind::Completed(completed)) = events.last().unwrap().kind.clone() else { panic!("{events:?}") };
    assert_eq!(completed.text, "It is 12.50.");
    assert!(completed.rounds[0].results.iter().all(|result| result.status() == v1::CallStatus::Ok), "{completed:?}");
    assert_eq!((server.model.calls(), extractions().await.len()), (3, 1), "invariant 3");
    let tags = admin.tags().list_tags(v1::ListTagsRequest::default()).await.unwrap().into_inner().tags;
    assert_eq!(tags.len(), 1, "the effects of other calls are kept");
    // The audit log records the one effect of the call.
    let list = v1::ListAuditEntriesRequest { filter: "subject:run_extraction".into(), ..Default::default() };
    let entries = admin.audits().list_audit_entries(list).await.unwrap().into_inner().entries;
    let outcomes: Vec<_> = entries.iter().map(|entry| (entry.kind(), entry.outcome.as_str())).collect();
    let (allowed, effect) = (v1::AuditKind::CallAllowed, v1::AuditKind::CallEffect);
    assert_eq!(outcomes.len(), 2, "{entries:?}");
    assert!(outcomes.contains(&(allowed, "")) && outcomes.contains(&(effect, "ok")), "{entries:?}");
    server.stop().await;
}

/// Stores credit that a dead process reserved some time ago: a call used three credits of it.
async fn left_behind(server: &Server, client: &Client, name: &str) {
    let stores = &server.stores;
    let escrow = Escrow::new(stores.credit.clone(), stores.usage.clone(), Arc::new(System));
    let (id, holder) = (BlockId::derive(&[name]), Incarnation::derive(&[name]));
    let draw = Draw { id: id.clone(), holder, need: 10, want: 10, life: Duration::ZERO };
    let now = System.now();
    let row = LedgerRow {
        key: name.to_owned(),
        permit: name.to_owned(),
        user: client.user.clone(),
        operation: "chat".to_owned(),
        model: "model".to_owned(),
        document: None,
        credits: 3,
        input_tokens: 10,
        at: now,
        deadline: now,
        settled: None,
    };
    escrow.draw(&client.org, &draw).await.unwrap().expect("the credit suffices");
    stores.credit.reserve(&client.org, &id, row).await.unwrap();
}

#[tokio::test]
async fn balance_and_usage_include_the_blocks_of_dead_processes() {
    let server = server(100).await;
    let client = server.member().await;
    assert_eq!(balance(&client).await.unwrap().available, 100);
    left_behind(&server, &client, "before the balance").await;
    let now = balance(&client).await.unwrap();
    assert_eq!((now.available, now.in_blocks, now.settled), (97, 0, 3));

    let calls = async || client.usages().get_usage(v1::GetUsageRequest::default()).await.unwrap().into_inner().total;
    left_behind(&server, &client, "before the sums").await;
    assert_eq!(calls().await.map(|total| (total.calls, total.credits)), Some((2, 6)));
    left_behind(&server, &client, "before the download").await;
    let entries = client.usages().download_usage(v1::DownloadUsageRequest::default()).await.unwrap().into_inner();
    let entries: Vec<_> = entries.map(|some| some.unwrap().entries).collect().await;
    assert_eq!(entries.concat().len(), 3);
    server.stop().await;
}

#[tokio::test]
async fn usage_is_summed_up_in_groups_and_streamed_by_call() {
    let server = server(1_000).await;
    let org = OrgId::generate(&System);
    let (one, two) = (server.user(&org, Role::Member).await, server.user(&org, Role::Member).await);
    let document = one.ready_document("a.txt", "Total 12.50").await.document_id;
    let schema = one.schema("Invoice", "total").await;
    let prompt = one.prompt("Total", &schema.schema_id).await.prompt_id;
    for client in [&one, &one, &two] {
        server.model.answer(r#"{"total": 12.5}"#);
        let (document_id, prompt_revid) = (document.clone(), prompt.clone());
        let run = v1::RunExtractionRequest { document_id, prompt_revid, ..Default::default() };
        client.extractions().run_extraction(run).await.unwrap();
    }
    let by = |groups: &[v1::UsageGroup]| v1::GetUsageRequest {
        group_by: groups.iter().map(|group| (*group).into()).collect(),
        ..Default::default()
    };
    let users = one.usages().get_usage(by(&[v1::UsageGroup::User])).await.unwrap().into_inner();
    let mut calls: Vec<_> = users.rows.iter().map(|row| (row.user_id.clone(), row.calls)).collect();
    calls.sort_by_key(|(_, calls)| *calls);
    assert_eq!(calls, [(two.user.to_string(), 1), (one.user.to_string(), 2)]);
    let total = users.total.unwrap();
    assert_eq!(total.calls, 3);
    assert!(total.credits >= 3 && total.cost_microdollars > 0, "{total:?}");
    let all = [v1::UsageGroup::Model, v1::UsageGroup::Operation, v1::UsageGroup::Document, v1::UsageGroup::Day];
    let rows = one.usages().get_usage(by(&all)).await.unwrap().into_inner().rows;
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.operation.as_str(), row.document_id.as_str()), ("extraction", document.as_str()));
    assert!(!row.model.is_empty() && row.day.len() == 10, "{row:?}");
    for wrong in [vec![v1::UsageGroup::Unspecified], vec![v1::UsageGroup::Day, v1::UsageGroup::Day]] {
        let error = refused(one.usages().get_usage(by(&wrong)).await, "wrong groups");
        assert_eq!(error.reason, Reason::InvalidField);
    }

    let entries = one.usages().download_usage(v1::DownloadUsageRequest::default()).await.unwrap().into_inner();
    let entries: Vec<_> = entries.map(|some| some.unwrap().entries).collect().await;
    let entries = entries.concat();
    assert_eq!(entries.len(), 3);
    assert_eq!(entries.iter().map(|entry| entry.credits).sum::<u64>(), total.credits);
    assert!(entries.iter().all(|entry| entry.basis() == v1::UsageBasis::Reported && entry.completed), "{entries:?}");
    let early = v1::DownloadUsageRequest { end_time: entries[1].end_time, ..Default::default() };
    let early = one.usages().download_usage(early).await.unwrap().into_inner();
    let early: Vec<_> = early.map(|some| some.unwrap().entries).collect().await;
    assert_eq!(early.concat(), entries[..1], "before the end time");
    let others = server.member().await;
    let nothing = others.usages().get_usage(by(&[])).await.unwrap().into_inner();
    assert_eq!((nothing.rows.len(), nothing.total.unwrap().calls), (0, 0), "another organization's");
    server.stop().await;
}
