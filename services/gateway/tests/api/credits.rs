//! Calls that the balance does not cover, and blocks of credit that dead processes drew.

use std::sync::Arc;
use std::time::Duration;

use folio_credit::LedgerRow;
use folio_metering::{Draw, Escrow, Options as Credit};
use folio_types::{BlockId, Environment as _, Incarnation, OrgId, System};
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Server};

async fn server(monthly_allowance: u64) -> Server {
    Server::configured(Credit { monthly_allowance, ..Credit::default() }, Default::default()).await
}

#[tokio::test]
async fn invariant_5_an_extraction_without_credit_fails_its_turn_and_runs_once_after_resuming() {
    let server = server(0).await;
    let admin = server.platform_admin(&OrgId::generate(&System)).await;
    let document = admin.ready_document("a.txt", "Total 12.50").await.document_id;
    let schema = admin.schema("Invoice", "total").await;
    let prompt_revid = admin.prompt("Total", &schema).await;
    // The credit covers the first model call of the turn only.
    admin.call_ok("GrantCredit", json!({"credits": 1, "request_id": "g1"})).await;
    let extraction = ("run_extraction", json!({ "prompt_revid": prompt_revid }));
    server.model.next(Answer::Calls(vec![("create_tag", json!({ "name": "before" })), extraction]));
    let chat = json!({"text": "extract", "document_ids": [document], "auto_approve": true});
    let mut events = admin.stream("Chat", chat).await;
    let turn = json!({"turn_id": events[0]["event"]["turn_id"]});
    let extractions = async || {
        let mut list = admin.call_ok("ListExtractions", json!({"document_id": document})).await;
        list["total_size"].take()
    };
    for _ in 0..2 {
        let failed = &events.last().unwrap()["event"]["failed"];
        let error = &failed["error"];
        assert_eq!(failed["retriable"], true, "{failed}");
        assert_eq!((&error["reason"], &error["details"]["balance"]), (&json!("SPU_EXHAUSTED"), &json!("0")));
        assert!(error["details"]["need"].is_string(), "{error}");
        assert_eq!((server.model.calls(), extractions().await), (1, Value::Null), "no model is called without credit");
        // Without a top-up, a resumption fails in the same way.
        events = admin.stream("ResumeTurn", turn.clone()).await;
    }

    admin.call_ok("GrantCredit", json!({"credits": 100, "request_id": "g2"})).await;
    server.model.answer(r#"{"total": 12.5}"#);
    server.model.answer("It is 12.50.");
    let events = admin.stream("ResumeTurn", turn).await;
    let completed = &events.last().unwrap()["event"]["completed"];
    assert_eq!(completed["text"], "It is 12.50.", "{events:?}");
    let results = completed["rounds"][0]["results"].as_array().unwrap();
    assert!(results.iter().all(|result| result["status"] == "CALL_STATUS_OK"), "{completed}");
    assert_eq!((server.model.calls(), extractions().await), (3, json!(1)), "invariant 3");
    let tags = admin.call_ok("ListTags", json!({})).await;
    assert_eq!(tags["total_size"], 1, "the effects of other calls are kept");
    // The audit log records the one effect of the call.
    let log = admin.call_ok("ListAuditEntries", json!({"filter": "subject:run_extraction"})).await;
    let outcomes = log["entries"].as_array().unwrap().iter().map(|entry| (&entry["kind"], &entry["outcome"]));
    let mut outcomes: Vec<_> = outcomes.collect();
    outcomes.sort_by_key(|(kind, _)| kind.to_string());
    let (allowed, effect) = (json!("AUDIT_KIND_CALL_ALLOWED"), json!("AUDIT_KIND_CALL_EFFECT"));
    assert_eq!(outcomes, [(&allowed, &Value::Null), (&effect, &json!("ok"))]);
    server.stop().await;
}

/// Stores an expired block of ten credits that a dead process drew, with one unsettled call of three credits.
async fn store_expired_block(server: &Server, client: &Client, name: &str) {
    let stores = &server.stores;
    let escrow = Escrow::new(stores.credit.clone(), stores.usage.clone(), Arc::new(System));
    let (id, holder) = (BlockId::derive(&[name]), Incarnation::derive(&[name]));
    let draw = Draw { id: id.clone(), holder, need: 10, want: 10, lifetime: Duration::ZERO };
    let row = LedgerRow::new(name, client.user.clone(), 3, System.now());
    escrow.draw(&client.org, &draw).await.unwrap().expect("the credit suffices");
    stores.credit.reserve(&client.org, &id, row).await.unwrap();
}

#[tokio::test]
async fn balance_and_usage_include_the_blocks_of_dead_processes() {
    let server = server(100).await;
    let client = server.member().await;
    let balance = async || client.call_ok("GetBalance", json!({})).await;
    assert_eq!(balance().await["available"], "100");
    store_expired_block(&server, &client, "before the balance").await;
    let now = balance().await;
    assert_eq!((&now["available"], &now["in_blocks"], &now["settled"]), (&json!("97"), &Value::Null, &json!("3")));

    store_expired_block(&server, &client, "before the sums").await;
    let usage = client.call_ok("GetUsage", json!({})).await;
    assert_eq!((&usage["total"]["calls"], &usage["total"]["credits"]), (&json!("2"), &json!("6")));
    store_expired_block(&server, &client, "before the download").await;
    let parts = client.stream("DownloadUsage", json!({})).await;
    assert_eq!(parts.iter().flat_map(|part| part["entries"].as_array().unwrap()).count(), 3);
    server.stop().await;
}
