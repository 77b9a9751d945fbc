//! A process whose clock is wrong writes nothing: it expires neither credit nor approvals, draws and settles no credit,
//! reports `NOT_SERVING`, and hands its threads over.

use folio_proto::v1;
use folio_tests::harness::LIMIT;
use folio_tests::harness::client::ask;
use folio_tests::harness::cluster::Member;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::routing::WRITES;
use crate::test_cluster::{TestCluster, assert_completed, on_cluster};

/// More than a month, after which the monthly allowance would expire.
const AHEAD: &str = "3456000";

#[test]
fn a_process_whose_clock_differs_from_those_of_the_stores_does_not_start() {
    on_cluster(WRITES, async |test| {
        let file = test.cluster.folder().join("ahead");
        std::fs::write(&file, AHEAD).unwrap();
        let node = test.node(0);
        node.kill();
        let errors = node.try_start(&[("FOLIO_CLOCK_OFFSET", &file.display().to_string())]).await.unwrap_err();
        assert!(errors.contains("the clock of this machine differs"), "{errors}");
    });
}

#[test]
fn invariant_5_a_node_whose_clock_jumps_expires_nothing_and_hands_its_threads_over() {
    on_cluster(WRITES, async |test| {
        let file = test.cluster.folder().join("jump");
        std::fs::write(&file, "0").unwrap();
        let clock = file.display().to_string();
        let waiting = test.paused_at(0, "write", &[("FOLIO_CLOCK_OFFSET", &clock)], &[]).await;
        std::fs::write(&file, AHEAD).unwrap();
        logged(test, "the node hands its threads over").await;
        reported(&test.cluster.nodes[0], ServingStatus::NotServing, "folio_clock_wrong 1").await;
        let answer = test.approve_until_accepted(1, &TestCluster::approvals_of(&waiting)).await;
        assert_completed(&answer);
        assert_ne!(test.owner(&waiting.turn_id).await, 0);
        let account = test.stores().credit.account(&test.cluster.tenants[0].org).await.unwrap();
        assert_eq!(account.expired, 0, "no credit expired");
        std::fs::write(&file, "0").unwrap();
        logged(test, "the clock is right again").await;
        reported(&test.cluster.nodes[0], ServingStatus::Serving, "folio_clock_wrong 0").await;
        folio_testkit::wait_for("another incarnation", LIMIT, || async {
            (test.cluster.nodes[0].incarnations().len() >= 2).then_some(())
        })
        .await;
        test.assert_clean().await;
    });
}

#[test]
fn invariant_5_a_node_whose_clock_jumps_neither_draws_nor_settles_credit() {
    let script = "
rules:
  - when: {user: {prefix: slow}}
    fault: {hold: {gate: g}}
    answer: {text: Slow.}
";
    on_cluster(script, async |test| {
        let file = test.cluster.folder().join("jump-in-a-call");
        std::fs::write(&file, "0").unwrap();
        let clock = file.display().to_string();
        test.run_single_node(0, &[("FOLIO_CLOCK_OFFSET", &clock)]).await;
        let stream = test.chat(0, "slow").await;
        let turn = stream.turn();
        test.cluster.sim.wait_for_waiting_request().await;
        let before = credit(test).await;
        std::fs::write(&file, AHEAD).unwrap();
        logged(test, "the clock is wrong").await;
        // The call ends now, and a chat of another thread would draw credit.
        test.cluster.sim.open_gate("g").await;
        let _ = stream.drain().await;
        test.client(0).await.send(ask(&test.document, "slow too")).await.map(drop).unwrap_err();
        reported(&test.cluster.nodes[0], ServingStatus::NotServing, "folio_clock_wrong 1").await;
        assert_eq!(credit(test).await, before);
        std::fs::write(&file, "0").unwrap();
        reported(&test.cluster.nodes[0], ServingStatus::Serving, "folio_clock_wrong 0").await;
        test.resume(&turn).await;
        assert_ne!(credit(test).await, before, "the call is settled");
        test.assert_clean().await;
    });
}

#[test]
fn invariant_5_a_gateway_whose_clock_jumps_neither_draws_nor_settles_credit() {
    let script = "
rules:
  - answer: {text: '{\"total\": 957}'}
";
    on_cluster(script, async |test| {
        let file = test.cluster.folder().join("jump-of-a-gateway");
        std::fs::write(&file, "0").unwrap();
        let clock = file.display().to_string();
        let gateway = &mut test.cluster.gateways[0];
        gateway.kill();
        gateway.start(&[("FOLIO_CLOCK_OFFSET", &clock)]).await;
        let (document_id, prompt_revid) = (test.document.clone(), test.prompt("total", Vec::new()).await.prompt_revid);
        let client = test.client(0).await;
        // The gateway itself extracts a short document.
        let extract = async || {
            let (document_id, prompt_revid) = (document_id.clone(), prompt_revid.clone());
            let request = v1::RunExtractionRequest { document_id, prompt_revid, ..Default::default() };
            client.extractions.clone().run_extraction(request).await
        };
        extract().await.expect("the clock is right");
        std::fs::write(&file, AHEAD).unwrap();
        reported(&test.cluster.gateways[0], ServingStatus::NotServing, "folio_clock_wrong 1").await;
        let before = credit(test).await;
        let refused = extract().await.expect_err("the clock is wrong");
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert_eq!(credit(test).await, before);
        std::fs::write(&file, "0").unwrap();
        reported(&test.cluster.gateways[0], ServingStatus::Serving, "folio_clock_wrong 0").await;
        extract().await.expect("the clock is right again");
        assert_ne!(credit(test).await, before, "the call is charged");
        test.assert_clean().await;
    });
}

/// Returns the account of the test's organization and the ledgers of its blocks, as text.
async fn credit(test: &TestCluster) -> String {
    let accounts = test.tables.accounts().await.expect("the tables are read");
    let own = accounts.into_iter().find(|account| account.org == test.cluster.tenants[0].org);
    format!("{:?}", own.expect("an account"))
}

/// Waits until the health service of the process reports a status and its metrics contain a line.
async fn reported(member: &Member, status: ServingStatus, line: &str) {
    let port = format!("http://{}", member.process().printed_after("health on ").expect("a health port"));
    let channel = Endpoint::from_shared(port.clone()).expect("an address").connect_lazy();
    folio_testkit::wait_for(&format!("{status:?} and {line}"), LIMIT, || async {
        let health = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.ok()?;
        let page = reqwest::get(format!("{port}/metrics")).await.ok()?.text().await.ok()?;
        (health.into_inner().status() == status && page.lines().any(|one| one == line)).then_some(())
    })
    .await;
}

async fn logged(test: &TestCluster, text: &str) {
    folio_testkit::wait_for(text, LIMIT, || async { test.cluster.nodes[0].errors().contains(text).then_some(()) })
        .await;
}
