//! Grants and withdrawals of credit are idempotent on the stores of a cluster.

use folio_proto::v1;
use folio_proto::v1::credit_service_client::CreditServiceClient;
use folio_tests::harness::client::Client;
use folio_tests::harness::payment_system::{self, SECRET};
use folio_tests::harness::tenant::Tenant;
use reqwest::StatusCode;
use serde_json::json;

use crate::test_cluster::on_cluster;

#[test]
fn invariant_5_grants_purchases_and_withdrawals_happen_once_per_request() {
    on_cluster("rules: []", async |test| {
        let org = test.cluster.tenants[0].org.clone();
        let platform = Tenant::platform(test.stores()).await;
        let secrets = format!("[\"{SECRET}\"]");
        let purchase_settings = [("FOLIO_PURCHASES__LISTEN", "127.0.0.1:0"), ("FOLIO_PURCHASES__SECRETS", &*secrets)];
        let gateway = &mut test.cluster.gateways[0];
        gateway.kill();
        gateway.start(&purchase_settings).await;
        let purchases = payment_system::url(gateway.process());

        let (grant, withdrawal) = (
            v1::GrantCreditRequest {
                credits: 100,
                organization_id: org.to_string(),
                request_id: "g".into(),
                ..Default::default()
            },
            v1::WithdrawCreditRequest {
                credits: 30,
                organization_id: org.to_string(),
                request_id: "w".into(),
                ..Default::default()
            },
        );
        let mut answers = Vec::new();
        for gateway in &test.cluster.gateways {
            let url = format!("http://{}", gateway.listener_proxy.address());
            let mut credits = CreditServiceClient::new(Client::connect(&url, Some(&platform.token)).await.channel);
            answers.push(credits.grant_credit(grant.clone()).await.expect("credit is granted").into_inner());
            credits.withdraw_credit(withdrawal.clone()).await.expect("credit is withdrawn");
        }
        assert_eq!(answers[0].grant.as_ref().map(|grant| grant.credits), Some(100));
        assert_eq!(answers[0], answers[1]);

        let purchase = json!({"type": "credit.purchased", "data": {
            "purchase_id": "p", "organization_id": org, "credits": 5_000, "note": "November",
        }});
        for _ in 0..2 {
            assert_eq!(payment_system::send_signed(&purchases, SECRET, &purchase).await, StatusCode::NO_CONTENT);
        }
        let account = test.stores().credit.account(&org).await.expect("the account is read");
        let available: Vec<_> = account.grants.iter().map(|grant| grant.available).collect();
        assert_eq!((account.granted, available), (5_070, vec![70, 5_000]));
        test.assert_clean().await;
    });
}
