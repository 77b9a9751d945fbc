//! Grants and withdrawals of credit are idempotent on the stores of a cluster.

use folio_proto::v1;
use folio_proto::v1::credit_service_client::CreditServiceClient;
use folio_tests::harness::client::Client;
use folio_tests::harness::shop::{self, SECRET};
use folio_tests::harness::tenant::Tenant;
use reqwest::StatusCode;
use serde_json::json;

use crate::stage::on_stage;

#[test]
fn invariant_5_grants_purchases_and_withdrawals_happen_once_per_request() {
    on_stage("rules: []", async |stage| {
        let org = stage.cluster.tenants[0].org.clone();
        let platform = Tenant::platform(stage.stores()).await;
        let secrets = format!("[\"{SECRET}\"]");
        let taking = [("FOLIO_PURCHASES__LISTEN", "127.0.0.1:0"), ("FOLIO_PURCHASES__SECRETS", &*secrets)];
        let gateway = &mut stage.cluster.gateways[0];
        gateway.kill();
        gateway.start(&taking).await;
        let shop = shop::url(gateway.process());

        let (grant, take) = (
            v1::GrantCreditRequest {
                organization_id: org.to_string(),
                credits: 100,
                request_id: "g".into(),
                ..Default::default()
            },
            v1::WithdrawCreditRequest {
                organization_id: org.to_string(),
                credits: 30,
                request_id: "w".into(),
                ..Default::default()
            },
        );
        let mut answers = Vec::new();
        for gateway in &stage.cluster.gateways {
            let url = format!("http://{}", gateway.door.address());
            let mut credits = CreditServiceClient::new(Client::connect(&url, Some(&platform.token)).await.channel);
            answers.push(credits.grant_credit(grant.clone()).await.expect("credit is granted").into_inner());
            credits.withdraw_credit(take.clone()).await.expect("credit is taken back");
        }
        assert_eq!(answers[0].grant.as_ref().map(|grant| grant.credits), Some(100));
        assert_eq!(answers[0], answers[1]);

        let bought = json!({"type": "credit.purchased", "data": {
            "purchase_id": "p", "organization_id": org, "credits": 5_000, "note": "November",
        }});
        for _ in 0..2 {
            assert_eq!(shop::send_signed(&shop, SECRET, &bought).await, StatusCode::NO_CONTENT);
        }
        let account = stage.stores().credit.account(&org).await.expect("the account is read");
        let kept: Vec<_> = account.grants.iter().map(|grant| grant.available).collect();
        assert_eq!((account.granted, kept), (5_070, vec![70, 5_000]));
        stage.assert_clean().await;
    });
}
