//! Tests the webhook through which a payment system reports purchased credit.

use folio_proto::v1;
use folio_proto::v1::audit_service_client::AuditServiceClient;
use folio_proto::v1::usage_service_client::UsageServiceClient;
use folio_tests::harness::collector::Collector;
use folio_tests::harness::payment_system::{self, SECRET, sign};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::sandbox::Setup;
use crate::{LIMIT, within};

const OLD_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDAAAA";

/// Returns the setup of a server that receives purchase events, with two signing secrets.
fn with_purchases() -> Setup {
    Setup::new("rules: []")
        .with("FOLIO_PURCHASES__LISTEN", "127.0.0.1:0")
        .with("FOLIO_PURCHASES__SECRETS", json!([SECRET, OLD_SECRET]))
        .with("FOLIO_CREDIT__MONTHLY_ALLOWANCE", 0)
}

#[tokio::test]
async fn a_message_links_to_the_trace_of_its_sender() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SENDER: &str = "00f067aa0ba902b7";
    let collector = Collector::start().await;
    let sandbox = with_purchases().with("FOLIO_TELEMETRY__ENDPOINT", collector.url()).start().await;
    let parent = format!("00-{TRACE}-{SENDER}-01");
    let unsigned =
        reqwest::Client::new().post(payment_system::url(sandbox.server())).header("traceparent", parent).body("{}");
    let status = within("an answer", unsigned.send()).await.expect("the process answers").status();
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let received = || async { collector.spans().into_iter().find(|span| span.name == "POST /webhooks/purchases") };
    let span = folio_testkit::wait_for("the message's span", LIMIT, received).await;
    assert!(span.kind == 2 && span.parent.is_empty() && span.trace != TRACE, "{span:#?}");
    assert_eq!(span.links, [TRACE]);
    assert_eq!(span.get("http.response.status_code"), "401");
}

#[tokio::test]
async fn purchased_credit_is_granted_once_and_only_for_signed_messages() {
    let sandbox = with_purchases().start().await;
    let (client, url) = (sandbox.client().await, payment_system::url(sandbox.server()));
    let report = async |body: &str, headers| payment_system::send(&url, body, headers).await;
    let signed = async |secret: &str, message: &Value| payment_system::send_signed(&url, secret, message).await;
    let mut usages = UsageServiceClient::new(client.channel.clone());
    let mut balance = async || usages.get_balance(v1::GetBalanceRequest::default()).await.unwrap().into_inner();
    let mut organizations = v1::organization_service_client::OrganizationServiceClient::new(client.channel.clone());
    let own = organizations.get_organization(v1::GetOrganizationRequest::default()).await.unwrap().into_inner();
    let org = own.organization.unwrap().organization_id;
    let purchase = |id: &str, credits: u64| json!({"type": "credit.purchased", "data": {"purchase_id": id, "organization_id": org, "credits": credits, "note": "November"}});

    for secret in [SECRET, OLD_SECRET, SECRET] {
        assert_eq!(signed(secret, &purchase("p1", 5_000)).await, StatusCode::NO_CONTENT);
    }
    let now = balance().await;
    assert_eq!((now.available, now.granted, now.grants.len()), (5_000, 5_000, 1));
    assert_eq!((now.grants[0].kind(), now.grants[0].priority), (v1::GrantKind::Purchase, 100));
    assert_eq!(signed(SECRET, &purchase("p1", 6_000)).await, StatusCode::CONFLICT);
    assert_eq!(signed(SECRET, &json!({"type": "invoice.sent", "data": {}})).await, StatusCode::ACCEPTED);

    let (body, at) = (purchase("p2", 1).to_string(), folio_types::Timestamp::now().as_second());
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    assert_eq!(report(&body, sign(other, at, &body)).await, StatusCode::UNAUTHORIZED, "another secret");
    assert_eq!(report(&body, sign(SECRET, at - 600, &body)).await, StatusCode::UNAUTHORIZED, "an old message");
    assert_eq!(report(&body, sign(SECRET, at, &format!("{body} "))).await, StatusCode::UNAUTHORIZED, "another body");
    let mut unsigned = sign(SECRET, at, &body);
    unsigned[2].1 = "v1,".to_owned();
    assert_eq!(report(&body, unsigned).await, StatusCode::UNAUTHORIZED, "no signature");
    let mut hostile = sign(SECRET, at, &body);
    hostile[1].1 = i64::MIN.to_string();
    assert_eq!(report(&body, hostile).await, StatusCode::UNAUTHORIZED, "a time out of range");

    let changed = |name: &str, value: Value| {
        let mut message = purchase("p3", 1);
        message["data"][name] = value;
        message
    };
    for (name, value) in [
        ("credits", json!(0)),
        ("credits", json!(-1)),
        ("credits", json!(1e30)),
        ("organization_id", json!("nobody")),
        ("purchase_id", json!("")),
        ("purchase_id", json!("x".repeat(201))),
        ("note", json!("two\nlines")),
        ("priority", json!(256)),
        ("expires_at", json!("yesterday")),
        ("expires_at", json!("2020-01-01T00:00:00Z")),
    ] {
        assert_eq!(signed(SECRET, &changed(name, value.clone())).await, StatusCode::BAD_REQUEST, "{name} {value}");
    }
    let unknown_org = folio_types::OrgId::derive(&["nobody"]).to_string();
    assert_eq!(signed(SECRET, &changed("organization_id", json!(unknown_org))).await, StatusCode::NOT_FOUND);
    let large = changed("note", json!("x".repeat(70_000)));
    assert_eq!(signed(SECRET, &large).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(balance().await.granted, 5_000, "no other credit was granted");

    let log = v1::ListAuditEntriesRequest { order_by: "create_time".into(), ..Default::default() };
    let log = AuditServiceClient::new(client.channel.clone()).list_audit_entries(log).await.unwrap().into_inner();
    let received = |entry: &v1::AuditEntry| (entry.subject.clone(), entry.target_kind.clone(), entry.user_id.clone());
    let received: Vec<_> = log.entries.iter().map(received).collect();
    let by = |subject: &str, target: &str| (subject.to_owned(), target.to_owned(), String::new());
    assert_eq!(
        received,
        [by("first start", "token"), by("purchase", "grant")],
        "entries without a user of the organization, each once"
    );
}
