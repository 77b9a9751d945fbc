//! Users that sign in: failed sign-ins, ends of sessions, and the audit log.

use std::time::Duration;

use folio_gateway::Options;
use folio_operations::{Access, Audit, operations};
use folio_resources::audit::{AuditEntry, AuditKind, AuditPosition};
use folio_testkit::wait_for;
use folio_types::token::Token;
use folio_types::{Code, Error, OrgId, Reason, Role, System, Timestamp};
use serde_json::{Value, json};

use crate::calls::call;
use crate::harness::{Client, Server};
use crate::samples::{missing, samples};
use crate::tokens::{end_of, endless};

const SOON: Duration = Duration::from_secs(20);
const RIGHT: &str = "a SECRET password";

/// Creates a user that signs in with [`RIGHT`], and returns its id.
async fn register(server: &Server, email: &str) -> String {
    let admin = server.platform_admin(&OrgId::generate(&System)).await;
    let request = json!({"user": {"email": email, "name": email}, "password": RIGHT});
    let mut created = admin.call_ok("CreateUser", request).await;
    created["user"]["user_id"].take().as_str().unwrap().to_owned()
}

async fn sign_in(server: &Server, email: &str, password: &str) -> Result<Value, Error> {
    server.stranger(None).call("SignIn", json!({"email": email, "password": password})).await
}

/// Signs a user in, without an organization.
async fn session(server: &Server, email: &str) -> Client {
    let signed_in = sign_in(server, email, RIGHT).await.unwrap();
    server.holder(signed_in["session_token"].as_str().unwrap())
}

#[tokio::test]
async fn an_account_is_closed_after_ten_failed_sign_ins() {
    let server = Server::start().await;
    register(&server, "ann@example.com").await;
    register(&server, "bob@example.com").await;
    for _ in 0..12 {
        sign_in(&server, "ann@example.com", RIGHT).await.expect("a successful sign-in does not count");
    }
    for email in ["ann@example.com", "unknown@example.com"] {
        for _ in 0..10 {
            let refused = sign_in(&server, email, "a WRONG password").await.unwrap_err();
            assert_eq!((refused.code, refused.reason), (Code::Unauthenticated, Reason::SignInFailed), "{email}");
        }
        for password in [RIGHT, "a WRONG password"] {
            let refused = sign_in(&server, email, password).await.unwrap_err();
            assert_eq!((refused.code, refused.reason), (Code::ResourceExhausted, Reason::TooManyAttempts), "{email}");
            let wait = refused.retry_after.unwrap();
            assert!(wait > Duration::from_secs(14 * 60) && wait <= Duration::from_secs(15 * 60), "{wait:?}");
        }
    }
    sign_in(&server, "bob@example.com", RIGHT).await.expect("another account");
    server.stop().await;
}

#[tokio::test]
async fn a_wrong_current_password_counts_as_a_failed_sign_in() {
    let server = Server::start().await;
    register(&server, "ann@example.com").await;
    let ann = session(&server, "ann@example.com").await;
    let wrong = json!({"current_password": "a WRONG password", "new_password": "another password"});
    for _ in 0..10 {
        assert_eq!(ann.refusal("ChangePassword", wrong.clone()).await.reason, Reason::SignInFailed);
    }
    assert_eq!(ann.refusal("ChangePassword", wrong).await.reason, Reason::TooManyAttempts);
    assert_eq!(sign_in(&server, "ann@example.com", RIGHT).await.unwrap_err().reason, Reason::TooManyAttempts);
    ann.call_ok("GetAccount", json!({})).await;
    server.stop().await;
}

#[tokio::test]
async fn failed_sign_ins_of_one_address_slow_down_and_a_right_password_is_accepted() {
    let server = Server::with(Options { failed_attempts_per_minute: 3, ..Options::default() }).await;
    register(&server, "ann@example.com").await;
    let wrong = async |number: u32| sign_in(&server, &format!("{number}@example.com"), RIGHT).await.unwrap_err();
    for number in 0..3 {
        assert_eq!(wrong(number).await.reason, Reason::SignInFailed);
    }
    assert_eq!(wrong(3).await.reason, Reason::TooManyAttempts);
    sign_in(&server, "ann@example.com", RIGHT).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn streams_of_a_session_end_with_the_session_the_password_and_the_membership() {
    let server = Server::start().await;
    let [acme, other] = [(); 2].map(|()| OrgId::generate(&System));
    let admin = server.user(&acme, Role::Admin).await;
    let platform = server.platform_admin(&OrgId::generate(&System)).await;
    let user = server.account("ann", false).await;
    server.join(&user, &acme, Role::Member).await;
    server.join(&user, &other, Role::Member).await;
    let id = user.id.to_string();

    let session = server.session(&user, Some(&acme)).await;
    let mut events = endless(&server, &session).await;
    session.call_ok("SignOut", json!({})).await;
    assert_eq!(end_of(&mut events).await, tonic::Code::Unauthenticated);

    // The stream in another organization continues when the user leaves one.
    let session = server.session(&user, Some(&acme)).await;
    let mut events = endless(&server, &session).await;
    let mut elsewhere = endless(&server, &session.in_organization(Some(&other))).await;
    admin.call_ok("RemoveMember", json!({ "user_id": id })).await;
    assert_eq!(end_of(&mut events).await, tonic::Code::Unauthenticated);
    assert_eq!(session.refusal("ListTags", json!({})).await.reason, Reason::NotAMember);
    session.in_organization(Some(&other)).call_ok("ListTags", json!({})).await;

    let reset = json!({"user_id": id, "password": "another SECRET password"});
    platform.call_ok("ResetPassword", reset).await;
    assert_eq!(end_of(&mut elsewhere).await, tonic::Code::Unauthenticated);
    server.stop().await;
}

#[tokio::test]
async fn a_session_with_another_secret_and_an_expired_one_are_refused_like_unknown_tokens() {
    let server = Server::start().await;
    register(&server, "ann@example.com").await;
    let signed_in = sign_in(&server, "ann@example.com", RIGHT).await.unwrap();
    let token = signed_in["session_token"].as_str().unwrap();
    let (public, _) = token.rsplit_once('_').unwrap();
    let unknown = Token::generate(&OrgId::platform(), &System).reveal();
    let expected = server.holder(&unknown).refusal("GetAccount", json!({})).await;
    assert_eq!(expected.reason, Reason::InvalidToken);
    for forged in [format!("{public}_{}", "0".repeat(64)), token.replace(&public[14..46], &"0".repeat(32))] {
        assert_eq!(server.holder(&forged).refusal("GetAccount", json!({})).await, expected, "{forged}");
    }
    let user = server.account("bob", false).await;
    let old = folio_types::SessionToken::generate(&user.id, &System);
    let long_ago: Timestamp = "2020-01-01T00:00:00Z".parse().unwrap();
    let session = folio_resources::Session::new(&old, &user, long_ago);
    server.stores.accounts().add_session(&user.id, &session, long_ago).await.unwrap();
    assert_eq!(server.holder(&old.reveal()).refusal("GetAccount", json!({})).await, expected);
    server.holder(token).call_ok("GetAccount", json!({})).await;
    server.stop().await;
}

/// Returns the log in which the operations on accounts are recorded, oldest entry first.
async fn account_log(server: &Server) -> Vec<AuditEntry> {
    let (low, high) = (AuditPosition::before(Timestamp::UNIX_EPOCH), AuditPosition::before(Timestamp::MAX));
    let mut found = server.stores.audit.list(&OrgId::first(), &low, &high, false, 1_000).await.unwrap();
    found.sort_by_key(AuditEntry::position);
    found
}

#[tokio::test]
async fn every_operation_on_an_account_leaves_entries_in_the_log_of_the_first_organization() {
    let server = Server::start().await;
    let own = OrgId::generate(&System);
    for operation in operations().filter(|operation| operation.access == Access::Account) {
        let subject = format!("{}.{}", operation.service.name, operation.name);
        let client = server.signed_in(&own, Role::Admin, true).await;
        for request in samples(operation.name, &missing(), &missing()).valid {
            let before = account_log(&server).await.len();
            let outcome = match call(&client, operation, &request).await {
                Ok(_) => AuditKind::ChangeApplied,
                Err(_) => AuditKind::ChangeFailed,
            };
            let log = account_log(&server).await;
            let new: Vec<_> = log[before..].iter().map(|entry| (entry.subject.as_str(), entry.kind)).collect();
            let expected = [(subject.as_str(), AuditKind::ChangeRequested), (&subject, outcome)];
            match operation.audit {
                Audit::Recorded => assert_eq!(new, expected),
                Audit::Unrecorded | Audit::ByOperation => assert!(new.is_empty(), "{subject} only reads"),
            }
            assert!(log[before..].iter().all(|entry| entry.user.as_ref() == Some(&client.user)), "{subject}");
            assert!(!format!("{log:?}").contains("SECRET"), "{subject} records a secret");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn sign_ins_to_an_account_are_recorded_whether_they_succeed_or_fail() {
    let server = Server::start().await;
    let id = register(&server, "ann@example.com").await;
    sign_in(&server, "ann@example.com", RIGHT).await.unwrap();
    for email in ["ann@example.com", "unknown@example.com"] {
        sign_in(&server, email, "a WRONG password").await.unwrap_err();
    }
    // A failure is recorded after its response.
    let log =
        wait_for("both entries", SOON, || async { Some(account_log(&server).await).filter(|log| log.len() == 2) })
            .await;
    let found: Vec<_> = log.iter().map(|entry| (entry.kind, entry.user.as_ref().unwrap().as_str())).collect();
    assert_eq!(found, [(AuditKind::ChangeApplied, id.as_str()), (AuditKind::ChangeFailed, &id)]);
    assert!(log.iter().all(|entry| entry.subject == "AccountService.SignIn"));
    assert_eq!(log[0].target.as_ref().unwrap().kind, "session");
    assert_eq!(log[1].outcome.as_deref(), Some("SIGN_IN_FAILED"));
    server.stop().await;
}

#[tokio::test]
async fn no_name_and_no_address_of_a_deleted_user_remains() {
    let server = Server::start().await;
    let admin = server.platform_admin(&OrgId::generate(&System)).await;
    let request = json!({
        "user": {"email": "rhinoceros@example.com", "name": "The Rhinoceros"},
        "password": RIGHT,
        "request_id": "create",
    });
    let created = admin.call_ok("CreateUser", request).await;
    let id = created["user"]["user_id"].as_str().unwrap();
    let acme = server.user(&OrgId::generate(&System), Role::Admin).await;
    acme.call_ok("AddMember", json!({"member": {"user_id": id, "name": "a member", "role": "ROLE_MEMBER"}})).await;
    let rename = json!({"user": {"user_id": id, "name": "Old Rhinoceros"}, "request_id": "rename"});
    admin.call_ok("UpdateUser", rename).await;
    let session = session(&server, "rhinoceros@example.com").await;
    session.call_ok("CreateAccountToken", json!({"token": {"name": "robot", "role": "ROLE_MEMBER"}})).await;
    let contains = |word: &str| {
        let found = server.everything().into_iter().filter(|row| row.to_lowercase().contains(word));
        found.collect::<Vec<_>>()
    };
    assert!(!contains("rhinoceros").is_empty() && !contains("argon2id").is_empty());
    assert_eq!(contains(&RIGHT.to_lowercase()), Vec::<String>::new(), "a password is stored");
    let rows = |group: &str| contains(&format!("/row/{group}/{id}/")).len();
    assert_eq!((rows("session"), rows("user_organization")), (1, 1));

    admin.call_ok("DeleteUser", json!({"user_id": id, "email": "rhinoceros@example.com"})).await;
    for word in ["rhinoceros", "argon2id"] {
        assert_eq!(contains(word), Vec::<String>::new());
    }
    assert_eq!((rows("session"), rows("user_organization")), (0, 0));
    let members = server.stores.access().members(&acme.org).await.unwrap();
    assert_eq!(members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["deleted user"]);
    server.stop().await;
}

#[tokio::test]
async fn a_server_without_users_accepts_neither_sign_ins_nor_sessions() {
    let server = Server::without_users().await;
    let (org, admin) = (OrgId::generate(&System), server.platform_admin(&OrgId::generate(&System)).await);
    let refused = sign_in(&server, "ann@example.com", RIGHT).await.unwrap_err();
    assert_eq!((refused.code, refused.reason), (Code::FailedPrecondition, Reason::UsersDisabled));
    let create = json!({"user": {"email": "ann@example.com", "name": "Ann"}, "password": RIGHT});
    assert_eq!(admin.refusal("CreateUser", create).await.reason, Reason::UsersDisabled);
    let session = server.signed_in(&org, Role::Admin, true).await;
    for operation in ["GetAccount", "ListTags"] {
        assert_eq!(session.refusal(operation, json!({})).await.reason, Reason::InvalidToken);
    }
    let token = Token::generate(&OrgId::platform(), &System);
    server.store_token(&token, crate::harness::record(&token, &session.user, Role::Admin)).await;
    assert_eq!(server.holder(&token.reveal()).refusal("GetAccount", json!({})).await.reason, Reason::InvalidToken);
    // Users that exist can still be deleted.
    server.join(&server.account("next", false).await, &org, Role::Admin).await;
    let email = format!("{}@example.com", session.user);
    admin.call_ok("DeleteUser", json!({"user_id": session.user.to_string(), "email": email})).await;
    server.stop().await;
}
