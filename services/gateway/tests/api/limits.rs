//! Limits of an organization besides its credit.

use std::time::Duration;

use folio_proto::{status, v1};
use folio_testkit::wait_for;
use folio_types::{OrgId, Role, System};
use serde_json::json;
use tonic::{Code, Status};

use crate::harness::{Answer, Client, Server};

const LIMIT: Duration = Duration::from_secs(20);

fn own(requests: Option<u32>, turns: Option<u32>, calls: Option<u32>) -> v1::OrganizationLimits {
    v1::OrganizationLimits {
        requests_per_second: requests,
        concurrent_turns: turns,
        concurrent_model_calls: calls,
        ..Default::default()
    }
}

async fn set(platform: &Client, org: &OrgId, own: v1::OrganizationLimits) -> v1::SetLimitsResponse {
    let request = v1::SetLimitsRequest { organization_id: org.to_string(), own: Some(own), ..Default::default() };
    platform.limits().set_limits(request).await.unwrap().into_inner()
}

async fn read(client: &Client) -> Result<(), Status> {
    client.tags().list_tags(v1::ListTagsRequest::default()).await.map(drop)
}

/// Checks the status of a call over a limit: the name of the limit, its value and the retry delay are details for
/// programs.
fn check(status: &Status, quota: &str, limit: &str) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let details = tonic_types::StatusExt::get_error_details(status);
    let info = details.error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("QUOTA_EXCEEDED", status::DOMAIN));
    assert_eq!((info.metadata["quota"].as_str(), info.metadata["limit"].as_str()), (quota, limit));
    assert_eq!(details.quota_failure().unwrap().violations.len(), 1);
    assert!(details.retry_info().unwrap().retry_delay.unwrap() <= Duration::from_secs(10));
}

#[tokio::test]
async fn the_request_rate_is_limited_per_organization() {
    let server = Server::start().await;
    let (ours, other_chat) = (OrgId::generate(&System), OrgId::generate(&System));
    let (platform, them) = (server.platform_admin(&ours).await, server.user(&other_chat, Role::Viewer).await);
    read(&them).await.unwrap();
    set(&platform, &other_chat, own(Some(1), None, None)).await;
    let status = wait_for("the limit counts", LIMIT, || async { read(&them).await.err() }).await;
    check(&status, "requests_per_second", "1");
    for _ in 0..20 {
        read(&platform).await.unwrap();
    }
    set(&platform, &other_chat, own(None, None, None)).await;
    wait_for("nothing is limited", LIMIT, || async {
        let answers = futures::future::join_all((0..20).map(|_| read(&them))).await;
        answers.into_iter().all(|answer| answer.is_ok()).then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn concurrent_turns_are_bounded_and_accepted_turns_continue() {
    let server = Server::start().await;
    let (ours, other_chat) = (OrgId::generate(&System), OrgId::generate(&System));
    let (platform, them) = (server.platform_admin(&ours).await, server.user(&other_chat, Role::Member).await);
    set(&platform, &other_chat, own(None, Some(1), None)).await;
    let document = them.ready_document("a.txt", "text").await;
    let chat = |text: &str| v1::ChatRequest {
        document_ids: vec![document.document_id.clone()],
        text: text.into(),
        ..Default::default()
    };
    server.model.next(Answer::Hang);
    let mut first = them.conversations().chat(chat("one")).await.unwrap().into_inner();
    let event = first.message().await.unwrap().unwrap();
    let status = them.conversations().chat(chat("two")).await.map(drop).unwrap_err();
    check(&status, "concurrent_turns", "1");
    // Another organization has its own.
    let other = platform.ready_document("a.txt", "text").await;
    server.model.answer("hello");
    let other_chat =
        v1::ChatRequest { document_ids: vec![other.document_id], text: "one".into(), ..Default::default() };
    platform.chat(other_chat).await;

    let cancel = v1::CancelTurnRequest { turn_id: event.event.unwrap().turn_id, ..Default::default() };
    them.conversations().cancel_turn(cancel).await.unwrap();
    wait_for("the resumption below the limit", LIMIT, || async {
        server.model.answer("hello");
        them.conversations().chat(chat("three")).await.ok()
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn resumed_turns_are_bounded_like_new_turns() {
    let server = Server::start().await;
    let (ours, other_chat) = (OrgId::generate(&System), OrgId::generate(&System));
    let (platform, them) = (server.platform_admin(&ours).await, server.user(&other_chat, Role::Member).await);
    set(&platform, &other_chat, own(None, Some(1), None)).await;
    let document = them.ready_document("a.txt", "text").await;
    let chat = |id: &str| v1::ChatRequest {
        document_ids: vec![document.document_id.clone()],
        text: "do it".into(),
        request_id: id.into(),
        ..Default::default()
    };
    // No answer is laid down: the turn fails, and may be resumed.
    let failed = them.chat(chat("failed")).await.swap_remove(0).turn_id;
    let view = || async {
        let get = v1::GetTurnRequest { turn_id: failed.clone() };
        them.conversations().get_turn(get).await.unwrap().into_inner().turn.unwrap()
    };
    let before = view().await;
    assert_eq!(before.status(), v1::TurnStatus::Failed);
    let calls = server.model.calls();
    server.model.next(Answer::Hang);
    let running = wait_for("the failed turn no longer counts", LIMIT, || async {
        them.conversations().chat(chat("running")).await.ok()
    })
    .await;
    let running = running.into_inner().message().await.unwrap().unwrap().event.unwrap().turn_id;
    // Otherwise another turn could receive the answer that hangs.
    wait_for("the model call of the running turn", LIMIT, || async { (server.model.calls() > calls).then_some(()) })
        .await;

    let resume = || v1::ResumeTurnRequest { turn_id: failed.clone(), ..Default::default() };
    let status = them.conversations().resume_turn(resume()).await.map(drop).unwrap_err();
    check(&status, "concurrent_turns", "1");
    let status = them.conversations().chat(chat("failed")).await.map(drop).unwrap_err();
    check(&status, "concurrent_turns", "1");
    assert_eq!(view().await, before, "nothing is changed");
    // A running turn is joined, which starts nothing.
    let join = v1::ResumeTurnRequest { turn_id: running.clone(), ..Default::default() };
    them.conversations().resume_turn(join).await.unwrap();

    let cancel = v1::CancelTurnRequest { turn_id: running, ..Default::default() };
    them.conversations().cancel_turn(cancel).await.unwrap();
    server.model.answer("hello");
    let resumed = wait_for("the resumption below the limit", LIMIT, || async {
        them.conversations().resume_turn(resume()).await.ok()
    });
    let mut events = resumed.await.into_inner();
    while events.message().await.unwrap().is_some() {}
    assert_eq!(view().await.status(), v1::TurnStatus::Completed);
    server.stop().await;
}

#[tokio::test]
async fn concurrent_model_calls_are_bounded() {
    let server = Server::start().await;
    let (ours, other_chat) = (OrgId::generate(&System), OrgId::generate(&System));
    let (platform, them) = (server.platform_admin(&ours).await, server.user(&other_chat, Role::Member).await);
    set(&platform, &other_chat, own(None, None, Some(1))).await;
    let document = them.ready_document("a.txt", "Total 12.50").await;
    let schema = them.schema("invoice", "total").await;
    let prompt = them.prompt("invoice", &schema.schema_id).await;
    server.model.next(Answer::Hang);
    let chat =
        v1::ChatRequest { document_ids: vec![document.document_id.clone()], text: "x".into(), ..Default::default() };
    let mut events = them.conversations().chat(chat).await.unwrap().into_inner();
    let event = events.message().await.unwrap().unwrap();
    wait_for("the model call", LIMIT, || async { (server.model.calls() == 1).then_some(()) }).await;
    let run = v1::RunExtractionRequest {
        document_id: document.document_id,
        prompt_revid: prompt.prompt_id,
        ..Default::default()
    };
    let status = them.extractions().run_extraction(run.clone()).await.map(drop).unwrap_err();
    check(&status, "concurrent_model_calls", "1");
    assert_eq!(server.model.calls(), 1, "the call was not made");
    them.done("CancelTurn", json!({"turn_id": event.event.unwrap().turn_id})).await;
    wait_for("there is room again", LIMIT, || async {
        server.model.answer(r#"{"total": 12.5}"#);
        them.extractions().run_extraction(run.clone()).await.ok()
    })
    .await;
    server.stop().await;
}
