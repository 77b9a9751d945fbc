//! JWTs as access tokens.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_gateway::{IssuerOptions, Options};
use folio_proto::v1;
use folio_testkit::wait_for;
use folio_types::{Environment as _, OrgId, Reason, Role, System, UserId};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::harness::{Client, Server, refused};
use crate::http::Http;
use crate::issuer::{Answer, KeyServer, Signer, base64, now};
use crate::tokens::{end_of, endless_about};

const LIMIT: Duration = Duration::from_secs(20);
const ISSUER: &str = "https://login.example";

/// An issuer with keys at a URL. A token with an unknown key triggers a refresh after 10 ms.
fn issuer(keys: &KeyServer) -> IssuerOptions {
    IssuerOptions {
        issuer: ISSUER.to_owned(),
        audiences: vec!["folio".to_owned()],
        jwks_url: keys.url.clone(),
        refetch: Duration::from_millis(10),
        ..IssuerOptions::default()
    }
}

fn options(issuers: &[IssuerOptions]) -> Options {
    let jwt: BTreeMap<_, _> =
        issuers.iter().enumerate().map(|(at, issuer)| (format!("issuer-{at}"), issuer.clone())).collect();
    let options = Options { jwt, failed_attempts_per_minute: 10_000, ..Options::default() };
    options.check().unwrap();
    options
}

fn claims(org: &OrgId, role: &str) -> Value {
    json!({
        "iss": ISSUER, "aud": "folio", "sub": "ada", "org": org.as_str(), "role": role,
        "iat": now(), "exp": now() + 600,
    })
}

fn with(claims: &Value, name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims.clone();
    claims[name] = value.into();
    claims
}

async fn read(client: &Client) -> Result<Vec<v1::Tag>, Status> {
    let answer = client.tags().list_tags(v1::ListTagsRequest::default()).await?;
    Ok(answer.into_inner().tags)
}

async fn fresh_organization(server: &Server) -> OrgId {
    let org = OrgId::generate(&System);
    server.organization(&org).await;
    org
}

#[tokio::test]
async fn a_jwt_grants_the_access_of_its_claims_with_every_key_type() {
    let signers =
        [Signer::ec("ec"), Signer::ed("ed"), Signer::rsa("rs", Algorithm::RS256), Signer::rsa("ps", Algorithm::PS512)];
    let keys = KeyServer::start(&signers.iter().collect::<Vec<_>>()).await;
    let server = Server::with(options(&[issuer(&keys)])).await;
    let org = fresh_organization(&server).await;
    for signer in &signers {
        let member = server.holder(&signer.sign(&claims(&org, "member")));
        member.tag(&format!("by {}", signer.kid)).await;
    }
    let viewer = server.holder(&signers[0].sign(&claims(&org, "viewer")));
    assert_eq!(read(&viewer).await.unwrap().len(), signers.len());
    let tag = json!({"tag": {"name": "no"}});
    assert_eq!(viewer.refusal("CreateTag", tag).await.reason, Reason::RoleNotAllowed);
    let admin = server.holder(&signers[1].sign(&claims(&org, "admin")));
    let error = admin.refusal("ListOrganizations", json!({})).await;
    assert_eq!(error.reason, Reason::RoleNotAllowed, "an admin is not a platform administrator");
    // The gateway read the key set once, at its start.
    assert_eq!(keys.requests(), 1);
    server.stop().await;
}

#[tokio::test]
async fn every_invalid_jwt_gets_the_same_answer() {
    let (signer, stranger) = (Signer::ec("one"), Signer::ec("one"));
    let keys = KeyServer::start(&[&signer]).await;
    let limited = IssuerOptions { issuer: "limited".into(), algorithms: vec![Algorithm::RS256], ..issuer(&keys) };
    let server = Server::with(options(&[issuer(&keys), limited])).await;
    let org = fresh_organization(&server).await;
    let good = claims(&org, "member");
    let token = signer.sign(&good);
    read(&server.holder(&token)).await.unwrap();

    let mut hmac = Header::new(Algorithm::HS256);
    hmac.kid = Some("one".into());
    let secret = |text: &str| jsonwebtoken::encode(&hmac, &good, &EncodingKey::from_secret(text.as_bytes())).unwrap();
    let part = |value: &Value| base64(value.to_string().as_bytes());
    let none = |alg: &str| format!("{}.{}.", part(&json!({ "alg": alg, "typ": "JWT", "kid": "one" })), part(&good));
    let parts: Vec<_> = token.split('.').collect();
    let critical = Header { crit: Some(vec!["b64".into()]), ..signer.header() };
    let typed = Header { typ: Some("logout+jwt".into()), ..signer.header() };
    let unknown = Header { kid: Some("two".into()), ..signer.header() };
    let bad = [
        ("nothing", String::new()),
        ("no parts", "..".to_owned()),
        ("nonsense", "a.b.c".to_owned()),
        ("four parts", format!("{token}.{}", parts[2])),
        ("no signature", format!("{}.{}.", parts[0], parts[1])),
        ("a signature of other claims", format!("{}.{}.{}", parts[0], part(&with(&good, "role", "admin")), parts[2])),
        ("a key of another issuer", stranger.sign(&good)),
        ("alg none", none("none")),
        ("alg None", none("None")),
        ("the public key as a secret", secret(&signer.public_text())),
        ("an empty secret", secret("")),
        ("an unknown key", signer.sign_as(&unknown, &good)),
        ("critical headers", signer.sign_as(&critical, &good)),
        ("another type", signer.sign_as(&typed, &good)),
        ("an algorithm that is not permitted", signer.sign(&with(&good, "iss", "limited"))),
        ("another issuer", signer.sign(&with(&good, "iss", "https://else.example"))),
        ("another audience", signer.sign(&with(&good, "aud", "else"))),
        ("expired", signer.sign(&with(&with(&good, "exp", now() - 60), "iat", now() - 600))),
        ("not yet", signer.sign(&with(&good, "nbf", now() + 600))),
        ("too old", signer.sign(&with(&good, "iat", now() - 3 * 86_400))),
        ("no role", signer.sign(&with(&good, "role", "unknown"))),
        ("no user", signer.sign(&with(&good, "sub", ""))),
        ("no organization", signer.sign(&with(&good, "org", "acme"))),
        ("a missing organization", signer.sign(&with(&good, "org", OrgId::generate(&System).as_str()))),
        ("too long", signer.sign(&with(&good, "more", "x".repeat(8 * 1024)))),
    ];
    let expected = read(&server.stranger(None)).await.unwrap_err();
    assert_eq!(expected.code(), Code::Unauthenticated);
    for (what, token) in bad {
        let status = read(&server.holder(&token)).await.expect_err(what);
        let refusal = (status.code(), status.message(), status.details());
        assert_eq!(refusal, (expected.code(), expected.message(), expected.details()), "{what}");
    }
    read(&server.holder(&token)).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_jwt_of_one_organization_never_reaches_another() {
    let (ours, theirs) = (Signer::ec("one"), Signer::ec("one"));
    let (our_keys, their_keys) = (KeyServer::start(&[&ours]).await, KeyServer::start(&[&theirs]).await);
    // The settings of the gateway contain the ids of the organizations.
    let (acme, globex) = (OrgId::generate(&System), OrgId::generate(&System));
    let bound = |org: &OrgId, issuer: IssuerOptions| IssuerOptions { organization: Some(org.clone()), ..issuer };
    let listed = IssuerOptions {
        issuer: "listed".into(),
        organizations: [("acme".to_owned(), acme.clone())].into(),
        ..issuer(&our_keys)
    };
    let server = Server::with(options(&[
        bound(&acme, issuer(&our_keys)),
        bound(&globex, IssuerOptions { issuer: "theirs".into(), ..issuer(&their_keys) }),
        listed,
    ]))
    .await;
    server.organization(&acme).await;
    server.organization(&globex).await;
    let globexs = server.user(&globex, Role::Admin).await;
    let tag = globexs.tag("secret").await;

    // The claims of a token cannot select an organization other than that of its issuer.
    let one = server.holder(&ours.sign(&with(&claims(&globex, "admin"), "sub", globexs.user.as_str())));
    assert!(read(&one).await.unwrap().is_empty());
    assert_eq!(one.refusal("GetTag", json!({"tag_id": tag})).await.reason, Reason::NotFound);
    // Neither a header nor a path selects another organization, which need not exist.
    let http = Http::new(&server, &one);
    for other in [&globex, &OrgId::generate(&System)] {
        assert_eq!(refused(read(&one.in_organization(Some(other))).await, "another").reason, Reason::NotAMember);
        let answer = http.get(&format!("/v0/orgs/{other}/tags")).await;
        let expected = json!("You are not a member of this organization");
        assert_eq!((answer.status.as_u16(), answer.detail()), (403, expected));
    }
    assert_eq!(http.get(&format!("/v0/orgs/{acme}/tags")).await.status, 200);
    let tags = read(&server.holder(&theirs.sign(&with(&claims(&acme, "viewer"), "iss", "theirs")))).await.unwrap();
    assert_eq!(tags.iter().map(|tag| &tag.tag_id).collect::<Vec<_>>(), [&tag]);
    // A key verifies tokens of its own issuer only, although both keys have the same id.
    for (signer, issuer) in [(&theirs, ISSUER), (&ours, "theirs")] {
        let error =
            refused(read(&server.holder(&signer.sign(&with(&claims(&acme, "admin"), "iss", issuer)))).await, issuer);
        assert_eq!(error.reason, Reason::InvalidToken);
    }
    let named =
        |org: &str| server.holder(&ours.sign(&with(&with(&claims(&acme, "admin"), "iss", "listed"), "org", org)));
    assert!(read(&named("acme")).await.unwrap().is_empty());
    for org in ["globex", globex.as_str(), acme.as_str()] {
        assert_eq!(refused(read(&named(org)).await, org).reason, Reason::InvalidToken);
    }
    server.stop().await;
}

#[tokio::test]
async fn the_role_of_a_member_and_scopes_limit_a_jwt() {
    let signer = Signer::ed("one");
    let keys = KeyServer::start(&[&signer]).await;
    let scoped = IssuerOptions { issuer: "scoped".into(), scopes_claim: "scope".into(), ..issuer(&keys) };
    let server = Server::with(options(&[issuer(&keys), scoped])).await;
    let org = fresh_organization(&server).await;
    let admin = server.user(&org, Role::Admin).await;
    let ada = server.holder(&signer.sign(&claims(&org, "admin")));
    let user = UserId::derive(&["jwt", ISSUER, "ada"]);
    ada.tag("as an admin").await;

    let row = json!({"member": {"name": "ada", "role": "ROLE_VIEWER", "user_id": user.as_str()}});
    assert_eq!(admin.call_ok("AddMember", row.clone()).await["member"]["user_id"], user.as_str());
    wait_for("the row bounds the role", LIMIT, || async {
        let answer = ada.call("CreateTag", json!({"tag": {"name": System.uuid().to_string()}})).await;
        answer.is_err_and(|error| error.reason == Reason::RoleNotAllowed).then_some(())
    })
    .await;
    read(&ada).await.unwrap();
    admin.call_ok("RemoveMember", json!({"user_id": user.as_str()})).await;
    wait_for("the removed member is refused", LIMIT, || async { read(&ada).await.is_err().then_some(()) }).await;
    admin.call_ok("AddMember", row).await;
    wait_for("the member is back", LIMIT, || async { read(&ada).await.ok() }).await;

    let limited = with(&with(&claims(&org, "admin"), "iss", "scoped"), "scope", "openid documents");
    let limited = server.holder(&signer.sign(&limited));
    limited.upload("a.txt", "text", "").await.unwrap();
    assert_eq!(refused(read(&limited).await, "out of scope").reason, Reason::ScopeNotAllowed);
    let none = server.holder(&signer.sign(&with(&claims(&org, "admin"), "iss", "scoped")));
    assert_eq!(refused(read(&none).await, "no scopes").reason, Reason::InvalidToken);
    server.stop().await;
}

#[tokio::test]
async fn a_caller_with_a_jwt_creates_tokens_for_members_only() {
    let signer = Signer::ec("one");
    let keys = KeyServer::start(&[&signer]).await;
    let server = Server::with(options(&[issuer(&keys)])).await;
    let org = fresh_organization(&server).await;
    let admin = server.user(&org, Role::Admin).await;
    let ada = server.holder(&signer.sign(&claims(&org, "admin")));
    let user = UserId::derive(&["jwt", ISSUER, "ada"]).to_string();
    let request = json!({"token": {"name": "x", "role": "ROLE_ADMIN"}});
    let error = ada.refusal("CreateToken", request.clone()).await;
    assert_eq!(error.reason, Reason::NotFound, "the user is not a member");

    admin.call_ok("AddMember", json!({"member": {"name": "ada", "role": "ROLE_ADMIN", "user_id": user}})).await;
    admin.call_ok("AddMember", json!({"member": {"name": "bo", "role": "ROLE_ADMIN"}})).await;
    let made = ada.call_ok("CreateToken", request).await;
    let token = server.holder(made["secret"].as_str().unwrap());
    read(&token).await.unwrap();
    admin.call_ok("RemoveMember", json!({"user_id": user})).await;
    wait_for("the token ended with the member", LIMIT, || async { read(&token).await.is_err().then_some(()) }).await;
    server.stop().await;
}

#[tokio::test]
async fn keys_rotate_and_removed_keys_sign_nothing() {
    let (old, new) = (Signer::ec("old"), Signer::rsa("new", Algorithm::RS256));
    let (keys, certificate) = KeyServer::with_tls(&[&old]).await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, certificate).unwrap();
    let server = Server::with(options(&[IssuerOptions { ca: Some(ca), ..issuer(&keys) }])).await;
    let org = fresh_organization(&server).await;
    let (with_old, with_new) = (old.sign(&claims(&org, "viewer")), new.sign(&claims(&org, "viewer")));
    read(&server.holder(&with_old)).await.unwrap();
    assert_eq!(refused(read(&server.holder(&with_new)).await, "not published").reason, Reason::InvalidToken);
    keys.rotate(&[&old, &new]);
    wait_for("the new key is accepted", LIMIT, || async { read(&server.holder(&with_new)).await.ok() }).await;
    read(&server.holder(&with_old)).await.unwrap();
    keys.rotate(&[&new]);
    let unknown = Signer::ec("unknown").sign(&claims(&org, "viewer"));
    wait_for("the old key is refused", LIMIT, || async {
        // A token that names an unknown key triggers a read of the keys.
        assert!(read(&server.holder(&unknown)).await.is_err());
        read(&server.holder(&with_old)).await.is_err().then_some(())
    })
    .await;
    read(&server.holder(&with_new)).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn unknown_keys_cause_at_most_one_refresh_per_interval() {
    let (signer, other) = (Signer::ec("one"), Signer::ec("two"));
    let keys = KeyServer::start(&[&signer]).await;
    let patient = IssuerOptions { refetch: Duration::from_secs(3_600), ..issuer(&keys) };
    let server = Server::with(options(&[patient])).await;
    let org = fresh_organization(&server).await;
    read(&server.holder(&signer.sign(&claims(&org, "viewer")))).await.unwrap();
    let unknown = server.holder(&other.sign(&claims(&org, "viewer")));
    let answers = futures::future::join_all((0..50).map(|_| read(&unknown))).await;
    assert!(answers.into_iter().all(|answer| refused(answer, "unknown").reason == Reason::InvalidToken));
    assert_eq!(keys.requests(), 1, "the interval has not passed");
    server.stop().await;
}

#[tokio::test]
async fn keys_are_used_for_a_limited_time_after_their_server_failed() {
    let signer = Signer::ec("one");
    let keys = KeyServer::start(&[&signer]).await;
    let brief = IssuerOptions {
        issuer: "brief".into(),
        stale: Duration::from_millis(400),
        refresh: Duration::from_millis(20),
        ..issuer(&keys)
    };
    let server = Server::with(options(&[issuer(&keys), brief])).await;
    let org = fresh_organization(&server).await;
    let [long, short] =
        [ISSUER, "brief"].map(|issuer| server.holder(&signer.sign(&with(&claims(&org, "viewer"), "iss", issuer))));
    read(&long).await.unwrap();
    wait_for("the keys are young enough", LIMIT, || async { read(&short).await.ok() }).await;
    let elsewhere = KeyServer::start(&[&signer]).await;
    let huge = format!("{{\"keys\":[],\"more\":\"{}\"}}", "x".repeat(300 * 1024));
    for failure in
        [Answer::Fault, Answer::Redirect(elsewhere.url.clone()), Answer::Keys(huge), Answer::Keys("{}".into())]
    {
        keys.answer(failure);
        let error = wait_for("keys that are too old are not used", LIMIT, || async {
            let error = folio_proto::status::to_error(&read(&short).await.err()?);
            (error.reason == Reason::IssuerUnavailable).then_some(error)
        })
        .await;
        assert!(error.retry_after.is_some());
        read(&long).await.unwrap();
        keys.rotate(&[&signer]);
        wait_for("the keys are back", LIMIT, || async { read(&short).await.ok() }).await;
    }
    assert_eq!(elsewhere.requests(), 0, "a redirect is not followed");
    server.stop().await;
}

#[tokio::test]
async fn a_silent_key_server_delays_no_other_issuer() {
    let signer = Signer::ec("one");
    let keys = KeyServer::start(&[&signer]).await;
    keys.answer(Answer::Silence);
    let hasty = IssuerOptions { fetch_timeout: Duration::from_millis(50), ..issuer(&keys) };
    let server = Server::with(options(&[hasty])).await;
    let org = fresh_organization(&server).await;
    let client = server.holder(&signer.sign(&claims(&org, "viewer")));
    let error = refused(read(&client).await, "no keys");
    assert_eq!((error.reason, error.retry_after.is_some()), (Reason::IssuerUnavailable, true));
    read(&server.user(&org, Role::Viewer).await).await.unwrap();
    keys.rotate(&[&signer]);
    wait_for("the keys are read", LIMIT, || async { read(&client).await.ok() }).await;
    server.stop().await;
}

#[tokio::test]
async fn keys_of_a_file_are_read_again() {
    let (old, new) = (Signer::ec("old"), Signer::ec("new"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    std::fs::write(&file, crate::issuer::key_set(&[&old])).unwrap();
    let keys = KeyServer::start(&[]).await;
    let from_file = IssuerOptions { jwks_url: String::new(), jwks_file: Some(file.clone()), ..issuer(&keys) };
    let server = Server::with(options(&[from_file])).await;
    let org = fresh_organization(&server).await;
    read(&server.holder(&old.sign(&claims(&org, "viewer")))).await.unwrap();
    std::fs::write(&file, crate::issuer::key_set(&[&new])).unwrap();
    let client = server.holder(&new.sign(&claims(&org, "viewer")));
    wait_for("the new key is accepted", LIMIT, || async { read(&client).await.ok() }).await;
    server.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_its_jwt() {
    let signer = Signer::ec("one");
    let keys = KeyServer::start(&[&signer]).await;
    let strict = IssuerOptions { leeway: Duration::ZERO, ..issuer(&keys) };
    let server = Server::with(options(&[strict])).await;
    let org = fresh_organization(&server).await;
    let member = claims(&org, "member");
    // A busy machine may read the document for longer than the token is valid.
    let document = server.holder(&signer.sign(&member)).ready_document("a.txt", "text").await;
    let client = server.holder(&signer.sign(&with(&member, "exp", now() + 8)));
    let mut events = endless_about(&server, &client, document).await;
    assert_eq!(end_of(&mut events).await, Code::Unauthenticated);
    server.stop().await;
}

#[tokio::test]
async fn invalid_jwts_do_not_refuse_valid_ones_of_the_same_address() {
    let signer = Signer::ec("one");
    let keys = KeyServer::start(&[&signer]).await;
    let server = Server::with(Options { failed_attempts_per_minute: 3, ..options(&[issuer(&keys)]) }).await;
    let org = fresh_organization(&server).await;
    let good = server.holder(&signer.sign(&claims(&org, "viewer")));
    read(&good).await.unwrap();
    let bad = server.holder(&Signer::ec("one").sign(&claims(&org, "viewer")));
    for _ in 0..3 {
        assert_eq!(refused(read(&bad).await, "a bad one").reason, Reason::InvalidToken);
    }
    assert_eq!(refused(read(&bad).await, "one too many").reason, Reason::TooManyAttempts);
    read(&good).await.unwrap();
    let renewed = server.holder(&signer.sign(&claims(&org, "member")));
    read(&renewed).await.unwrap();
    server.stop().await;
}
