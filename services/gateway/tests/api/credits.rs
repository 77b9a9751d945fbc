//! UsageService and CreditService, and calls that the balance does not cover.

use std::sync::Arc;
use std::time::Duration;

use folio_credit::LedgerRow;
use folio_metering::{Draw, Escrow, Options as Credit};
use folio_proto::v1;
use folio_types::{BlockId, Environment as _, Incarnation, OrgId, System};
use serde_json::json;
use tokio_stream::StreamExt as _;
use tonic::Status;
use v1::event::Kind;

use crate::harness::{Answer, Client, Server};

/// Starts a server on which an organization has this monthly allowance.
async fn server(monthly_allowance: u64) -> Server {
    Server::credited(Credit { monthly_allowance, ..Credit::default() }).await
}

async fn balance(client: &Client) -> Result<v1::GetBalanceResponse, Status> {
    Ok(client.usages().get_balance(v1::GetBalanceRequest::default()).await?.into_inner())
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
