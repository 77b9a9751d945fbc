//! The routes of usage and credit.

use std::sync::Arc;
use std::time::Duration;

use folio_credit::{Grant, GrantKind};
use folio_metering::Escrow;
use folio_testkit::wait_for;
use folio_types::access::Scope;
use folio_types::{Environment as _, GrantId, OrgId, Role, System, Timestamp};
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{MODEL, Server};

const SOON: Duration = Duration::from_secs(20);

/// Returns the day that is `days` from now as `YYYY-MM-DD`.
fn day(days: i64) -> String {
    let at = Timestamp::from_second(System.now().as_second() + days * 86_400).unwrap();
    at.to_string().chars().take("2026-01-31".len()).collect()
}

#[tokio::test]
async fn usage_and_credit_are_those_of_the_operations() {
    let credit = folio_metering::Options { monthly_allowance: 1_000, ..folio_metering::Options::default() };
    let server = Server::configured(credit, Default::default()).await;
    let org = OrgId::generate(&System);
    let platform = server.platform_admin(&org).await;
    let http = Http::new(&server, &platform);
    let path = |rest: &str| format!("/v0/orgs/{org}/payments/{rest}");
    let granted = json!({ "success": true, "added": 70, "credits_added": 70, "new_balance": 1_070 });
    let add = http.request(Method::POST, &path("credits/add")).header("idempotency-key", "g1");
    for _ in 0..2 {
        let answer = http.send(add.try_clone().unwrap().json(&json!({ "amount": 70 }))).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (200, granted.clone()), "a repetition grants nothing");
    }
    for amount in [json!(0), json!(-1), json!("x"), json!(1.5), json!(1_000_000_000_001_u64), Value::Null] {
        let refused = http.json(Method::POST, &path("credits/add"), &json!({ "amount": amount })).await;
        assert_eq!(refused.status, 422, "{amount}: {refused:?}");
        assert_eq!(refused.detail()[0]["loc"], json!(["body", "amount"]), "{amount}: {refused:?}");
    }
    let purchase = Grant::new(GrantId::derive(&["purchase"]), GrantKind::Purchase, 30, System.now());
    let escrow = Escrow::new(server.stores.credit.clone(), server.stores.usage.clone(), Arc::new(System));
    escrow.grant(&org, purchase).await.unwrap();

    server.model.answer("Good day");
    let messages = json!([{ "role": "user", "content": "hello" }]);
    let body = json!({ "model": MODEL, "messages": messages });
    let run = http.json(Method::POST, &format!("/v0/orgs/{org}/llm/run"), &body).await;
    assert_eq!(run.status, 200, "{run:?}");
    let used: u64 = wait_for("the usage of the call", SOON, async || {
        let usage = platform.call_ok("GetUsage", json!({})).await;
        usage["total"]["credits"].as_str().map(|credits| credits.parse().unwrap())
    })
    .await;

    let current = http.get(&path("usage")).await.json();
    assert_eq!(current["usage_source"], "stripe");
    let data = &current["data"];
    assert_eq!((&data["subscription_type"], &data["usage_unit"]), (&Value::Null, &json!("spu")));
    assert_eq!((&data["period_metered_usage"], &data["total_metered_usage"]), (&json!(used), &json!(used)));
    assert_eq!((&data["purchased_credits"], &data["granted_credits"]), (&json!(30), &json!(70)));
    let left = ["remaining_included", "purchased_credits_remaining", "granted_credits_remaining"];
    let left: u64 = left.iter().map(|name| data[*name].as_u64().unwrap()).sum();
    assert!((1_000..1_100).contains(&left), "a call reserves or uses credit: {data}");
    let (start, end) = (data["period_start"].as_i64().unwrap(), data["period_end"].as_i64().unwrap());
    let now = System.now().as_second();
    assert!(start <= now && now < end && (28..=31).contains(&((end - start) / 86_400)), "{data}");

    let range = http.get(&path(&format!("usage/range?start_date={}&end_date={}", day(-1), day(1)))).await.json();
    let today = range["data_points"][0]["date"].as_str().unwrap();
    assert!([day(0), day(-1)].contains(&today.to_owned()), "{range}");
    let point = json!({ "date": today, "spus": used, "operation": "completion", "source": "backend" });
    let expected = json!({
        "data_points": [point], "total_spus": used, "usage": [{ "date": today, "credits_used": used }],
    });
    assert_eq!(range, expected);
    let before = http.get(&path(&format!("usage/range?start_date={}&end_date={}", day(-3), day(-2)))).await.json();
    assert_eq!(before, json!({ "data_points": [], "total_spus": 0, "usage": [] }));
    for (query, kind, location) in [
        ("", "missing", json!(["query", "end_date"])),
        ("start_date=2026-01-01", "missing", json!(["query", "end_date"])),
        ("start_date=x&end_date=2026-01-01", "value_error", json!(["query", "start_date"])),
        ("start_date=2026-01-02&end_date=2026-01-01", "value_error", json!(["body", "start_date"])),
    ] {
        let refused = http.get(&path(&format!("usage/range?{query}"))).await;
        assert_eq!(refused.status, 422, "{query}: {refused:?}");
        let detail = &refused.detail()[0];
        assert_eq!(detail["type"], kind, "{query}: {detail}");
        assert!(query.is_empty() || detail["loc"] == location, "{query}: {detail}");
    }
    let config = http.get(&path("credits/config")).await.json();
    let expected = json!({ "price_per_credit": 0.01, "currency": "usd", "min_cost": 0.0, "max_cost": 0.0 });
    assert_eq!(config, expected);
    server.stop().await;
}

#[tokio::test]
async fn credit_is_added_by_the_platform_and_usage_is_read_by_administrators_of_the_organization() {
    let server = Server::start().await;
    let [org, other] = [(); 2].map(|()| OrgId::generate(&System));
    let admin = Http::new(&server, &server.user(&org, Role::Admin).await);
    let path = |org: &OrgId, rest: &str| format!("/v0/orgs/{org}/payments/{rest}");
    let refused = admin.json(Method::POST, &path(&org, "credits/add"), &json!({ "amount": 1 })).await;
    assert_eq!((refused.status.as_u16(), refused.detail()), (403, json!("Admin only")));
    for role in [Role::Viewer, Role::Member] {
        let client = Http::new(&server, &server.user(&org, role).await);
        let range = "usage/range?start_date=2026-01-01&end_date=2026-01-02";
        for (rest, status) in [("usage", 403_u16), (range, 403), ("credits/config", 200)] {
            let answer = client.get(&path(&org, rest)).await;
            assert_eq!(answer.status, status, "{rest} by {role:?}: {answer:?}");
            if status == 403 {
                let expected = format!("Org admin access required for org_id: {org}");
                assert_eq!(answer.detail(), json!(expected), "{rest} by {role:?}");
            }
        }
    }
    server.platform_admin(&other).await;
    for rest in ["usage", "usage/range?start_date=2026-01-01&end_date=2026-01-02", "credits/config"] {
        assert_eq!(admin.get(&path(&org, rest)).await.status, 200, "{rest}");
        assert_eq!(admin.get(&path(&other, rest)).await.status, 401, "{rest}");
    }
    // A token without the scope of usage adds credit and does not see the balance.
    let limited = server.restricted_user(&org, Role::Admin, &[Scope::Administration], true).await;
    let added =
        Http::new(&server, &limited).json(Method::POST, &path(&org, "credits/add"), &json!({ "amount": 1 })).await;
    assert_eq!((added.status.as_u16(), &added.json()["new_balance"]), (200, &Value::Null));
    server.stop().await;
}
