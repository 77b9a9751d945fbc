//! Limits of an organization besides its credit.

use std::time::Duration;

use folio_proto::{status, v1};
use folio_testkit::wait_for;
use folio_types::quota::Quotas;
use folio_types::{OrgId, Reason, Role, System};
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

/// Limits of requests, turns and model calls, with any number of documents.
fn counts(requests: u32, turns: u32, calls: u32) -> v1::OrganizationLimits {
    v1::OrganizationLimits {
        documents: Some(0),
        storage_bytes: Some(0),
        ..own(Some(requests), Some(turns), Some(calls))
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
async fn limits_are_set_by_the_platform_and_shown_to_the_organizations_admins() {
    let quotas = Quotas { concurrent_turns: 7, ..Quotas::default() };
    let server = Server::limited_to(quotas).await;
    let (ours, other_chat) = (OrgId::generate(&System), OrgId::generate(&System));
    let platform = server.platform_admin(&ours).await;
    let (admin, member) = (server.user(&other_chat, Role::Admin).await, server.user(&other_chat, Role::Member).await);
    let get = v1::GetLimitsRequest::default;
    let before = admin.limits().get_limits(get()).await.unwrap().into_inner();
    assert_eq!((before.limits, before.own), (Some(counts(0, 7, 0)), Some(own(None, None, None))));

    let after = set(&platform, &other_chat, own(Some(100), None, Some(3))).await;
    assert_eq!(after.limits, Some(counts(100, 7, 3)));
    let shown = admin.limits().get_limits(get()).await.unwrap().into_inner();
    assert_eq!((shown.limits, shown.own, shown.etag), (after.limits, after.own, after.etag));
    let late = json!({"organization_id": other_chat.to_string(), "etag": "v99"});
    assert_eq!(platform.refusal("SetLimits", late).await.reason, Reason::VersionConflict);

    let wish = json!({"own": {"requests_per_second": 0}});
    assert_eq!(admin.refusal("SetLimits", wish).await.reason, Reason::RoleNotAllowed);
    assert_eq!(member.refusal("GetLimits", json!({})).await.reason, Reason::RoleNotAllowed);
    let foreign = json!({"organization_id": ours.to_string()});
    assert_eq!(admin.refusal("GetLimits", foreign).await.reason, Reason::NotFound);
    platform.done("GetLimits", json!({"organization_id": other_chat.to_string()})).await;
    // The name of the organization changes, its limits stay.
    admin.done("UpdateOrganization", json!({"organization": {"name": "new"}})).await;
    assert_eq!(admin.limits().get_limits(get()).await.unwrap().into_inner().own, after.own);
    server.stop().await;
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

#[tokio::test]
async fn documents_and_their_bytes_are_limited_per_organization() {
    let server = Server::start().await;
    let (ours, other_chat) = (OrgId::generate(&System), OrgId::generate(&System));
    let platform = server.platform_admin(&ours).await;
    let (us, them) = (server.user(&ours, Role::Member).await, server.user(&other_chat, Role::Member).await);
    let limits = |documents, storage_bytes| v1::OrganizationLimits { documents, storage_bytes, ..Default::default() };
    set(&platform, &other_chat, limits(Some(2), None)).await;
    let first = them.upload("first.txt", "first", "r1").await.unwrap().document_id;
    let second = them.upload("second.txt", "second", "r2").await.unwrap();
    check(&them.upload("third.txt", "third", "r3").await.unwrap_err(), "documents", "2");
    let listed = them.documents().list_documents(v1::ListDocumentsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.total_size, 2);
    // A repetition needs no room.
    assert_eq!(them.upload("second.txt", "second", "r2").await.unwrap().document_id, second.document_id);
    us.upload("ours.txt", "is not theirs", "r1").await.unwrap();

    // A deletion frees space as soon as the store is read again.
    them.done("DeleteDocument", json!({"document_id": first})).await;
    let room = async || them.upload("third.txt", "third", "r3").await.ok();
    wait_for("room for another one", LIMIT, room).await;

    set(&platform, &other_chat, limits(None, Some(100))).await;
    let large = "x".repeat(200);
    let full = async || {
        let refused = them.upload("large.txt", &large, "r4").await.unwrap_err();
        let other = tonic_types::StatusExt::get_error_details(&refused).error_info()?.metadata["quota"] == "documents";
        (!other).then(|| check(&refused, "storage_bytes", "100"))
    };
    wait_for("the limit of bytes", LIMIT, full).await;
    // The limit also applies if the description declares no size.
    let description = v1::DocumentDescription { name: "large.txt".into(), ..Default::default() };
    let parts = vec![
        v1::upload_document_request::Part::Description(description),
        v1::upload_document_request::Part::Chunk(large.into_bytes()),
    ];
    check(&them.upload_parts(parts).await.unwrap_err(), "storage_bytes", "100");
    them.upload("small.txt", "small", "r5").await.unwrap();
    server.stop().await;
}
