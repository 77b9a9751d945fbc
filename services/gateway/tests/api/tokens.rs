//! Tokens that are invalid, or become invalid while a stream is open.

use std::time::Duration;

use folio_proto::v1;
use folio_resources::{Organization, OrganizationChange, TokenChange, TokenFilter, TokenRecord};
use folio_types::op::{Expected, Write};
use folio_types::page::PageRequest;
use folio_types::token::Token;
use folio_types::{Environment as _, OrgId, Reason, Role, System, UserId};
use serde_json::json;
use tonic::{Code, Streaming};

use crate::harness::{Answer, Client, Server, record};

fn with_another_secret(token: &Token) -> String {
    Token::with_id(token.org(), token.id().clone(), &System).reveal()
}

#[tokio::test]
async fn every_invalid_token_gets_the_same_answer() {
    let server = Server::start().await;
    let (org, user) = (OrgId::generate(&System), UserId::generate(&System));
    server.organization(&org).await;
    let good = Token::generate(&org, &System);
    server.store_token(&good, record(&good, &user, Role::Admin)).await;
    let (expired, revoked) = (Token::generate(&org, &System), Token::generate(&org, &System));
    let mut old = record(&expired, &user, Role::Admin);
    old.expires_at = Some(System.now() - Duration::from_secs(1));
    server.store_token(&expired, old).await;
    server.store_token(&revoked, record(&revoked, &user, Role::Admin)).await;
    let revoke = TokenChange::revoke_by_platform(&org, revoked.id(), System.now()).unwrap();
    server.stores.of::<TokenRecord>().decide(revoked.id(), revoke).await.unwrap();
    let elsewhere = good.reveal().replace(&org.as_str()[4..], &OrgId::generate(&System).as_str()[4..]);

    let other_secret = with_another_secret(&good);
    let bad = [
        None,
        Some(String::new()),
        Some("Bearer".into()),
        Some("Bearer nonsense".into()),
        Some(format!("Basic {}", good.reveal())),
        Some(good.reveal()),
        Some(format!("Bearer {}x", good.reveal())),
        Some(format!("Bearer {}", Token::generate(&org, &System).reveal())),
        Some(format!("Bearer {elsewhere}")),
        Some(format!("Bearer {other_secret}")),
        Some(format!("Bearer {}", expired.reveal())),
        Some(format!("Bearer {}", revoked.reveal())),
        Some(format!("Bearer folio_{}_{}_{}", "0".repeat(32), "0".repeat(10_000), "0".repeat(64))),
    ];
    let mut answers = Vec::new();
    for authorization in &bad {
        let client = server.stranger(authorization.as_deref());
        let status = client.tags().list_tags(v1::ListTagsRequest::default()).await.unwrap_err();
        answers.push((status.code(), status.message().to_owned(), status.details().to_vec()));
    }
    assert_eq!(answers[0].0, Code::Unauthenticated);
    for (answer, token) in answers.iter().zip(&bad) {
        assert_eq!(*answer, answers[0], "{token:?}");
    }
    let client = server.stranger(Some(&format!("bearer {}", good.reveal())));
    assert!(client.tags().list_tags(v1::ListTagsRequest::default()).await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let (admin, member) = (server.user(&org, Role::Admin).await, server.user(&org, Role::Member).await);
    let mut events = endless(&server, &member).await;
    let list = admin.call_ok("ListTokens", json!({"filter": format!("user:{}", member.user)})).await;
    admin.call_ok("RevokeToken", json!({"token_id": list["tokens"][0]["token_id"]})).await;
    assert_eq!(end_of(&mut events).await, Code::Unauthenticated);
    server.stop().await;
}

#[tokio::test]
async fn a_stream_ends_when_its_token_expires() {
    let server = Server::start().await;
    let (org, user) = (OrgId::generate(&System), UserId::generate(&System));
    let (lasting, token) = (Token::generate(&org, &System), Token::generate(&org, &System));
    server.organization(&org).await;
    server.store_token(&lasting, record(&lasting, &user, Role::Member)).await;
    // Another token uploads the document: on a busy machine, its text may be ready only after the tested token has expired.
    let document = server.holder(&lasting.reveal()).ready_document("a.txt", "text").await;
    let mut brief = record(&token, &user, Role::Member);
    brief.expires_at = Some(System.now() + Duration::from_secs(8));
    server.store_token(&token, brief).await;
    let mut events = endless_about(&server, &server.holder(&token.reveal()), document).await;
    assert_eq!(end_of(&mut events).await, Code::Unauthenticated);
    server.stop().await;
}

#[tokio::test]
async fn a_stream_ends_when_its_users_role_is_lowered() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    let max = admin.call_ok("AddMember", json!({"member": {"name": "max", "role": "ROLE_MEMBER"}})).await;
    let id = &max["member"]["user_id"];
    let token = json!({"token": {"name": "of max", "user_id": id, "role": "ROLE_MEMBER"}});
    let holder = server.holder(admin.call_ok("CreateToken", token).await["secret"].as_str().unwrap());
    let mut events = endless(&server, &holder).await;
    admin.call_ok("UpdateMember", json!({"member": {"user_id": id, "role": "ROLE_VIEWER"}})).await;
    assert_eq!(end_of(&mut events).await, Code::Unauthenticated);
    // The token has the current role of its user.
    holder.call_ok("ListTags", json!({})).await;
    let refusal = holder.refusal("CreateTag", json!({"tag": {"name": "new"}})).await;
    assert_eq!(refusal.code, folio_types::Code::PermissionDenied, "a member's call");
    server.stop().await;
}

#[tokio::test]
async fn a_token_ends_with_its_organization() {
    let server = Server::start().await;
    let member = server.member().await;
    let mut events = endless(&server, &member).await;
    // Only the organization is deleted, as if the token had been created concurrently.
    let (key, at) = ("delete".parse().unwrap(), System.now());
    let delete = Write::by_platform(OrgId::platform(), key, at, Expected::Version(1), OrganizationChange::Delete);
    server.stores.of::<Organization>().decide(&member.org, delete).await.unwrap();
    assert_eq!(end_of(&mut events).await, Code::Unauthenticated);
    folio_testkit::wait_for("the token is refused", Duration::from_secs(30), || async {
        let refusal = member.tags().list_tags(v1::ListTagsRequest::default()).await.err();
        refusal.is_some_and(|status| status.code() == Code::Unauthenticated).then_some(())
    })
    .await;
    let tokens = server.stores.of::<TokenRecord>();
    let left = tokens.list(&member.org, &TokenFilter::default(), &PageRequest::default()).await.unwrap();
    assert_eq!(left.total, 1, "the token itself still exists");
    server.stop().await;
}

/// Starts an endless turn about a new document, and returns the events of the turn.
pub(crate) async fn endless(server: &Server, client: &Client) -> Streaming<v1::ChatResponse> {
    let document = client.ready_document("a.txt", "text").await;
    endless_about(server, client, document).await
}

/// Starts an endless turn about a document, and returns the events of the turn.
pub(crate) async fn endless_about(
    server: &Server,
    client: &Client,
    document: v1::Document,
) -> Streaming<v1::ChatResponse> {
    server.model.next(Answer::Hang);
    let chat = v1::ChatRequest { document_ids: vec![document.document_id], text: "hello".into(), ..Default::default() };
    let mut events = client.conversations().chat(chat).await.unwrap().into_inner();
    assert!(events.message().await.unwrap().is_some(), "the turn has begun");
    events
}

/// Returns the status with which a stream ends.
pub(crate) async fn end_of(events: &mut Streaming<v1::ChatResponse>) -> Code {
    let ended = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            if let Err(status) = events.message().await {
                return status.code();
            }
        }
    });
    ended.await.expect("the stream ends")
}

#[tokio::test]
async fn invalid_tokens_do_not_refuse_valid_ones_of_the_same_address() {
    let options = folio_gateway::Options { failed_attempts_per_minute: 3, ..Default::default() };
    let server = Server::with(options).await;
    let org = OrgId::generate(&System);
    let token = Token::generate(&org, &System);
    server.organization(&org).await;
    server.store_token(&token, record(&token, &UserId::generate(&System), Role::Member)).await;
    let good = server.holder(&token.reveal());
    good.call_ok("ListTags", json!({})).await;
    let refusal = async |client: Client| client.refusal("ListTags", json!({})).await;
    let unknown = || server.holder(&Token::generate(&org, &System).reveal());
    for _ in 0..3 {
        assert_eq!(refusal(unknown()).await.reason, Reason::InvalidToken);
    }
    let refused = refusal(unknown()).await;
    assert_eq!((refused.reason, refused.retry_after.is_some()), (Reason::TooManyAttempts, true));
    assert_eq!(refusal(server.holder(&with_another_secret(&token))).await.reason, Reason::TooManyAttempts);
    server.member().await.call_ok("ListTags", json!({})).await;
    good.call_ok("ListTags", json!({})).await;
    server.stop().await;
}
