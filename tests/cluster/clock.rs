//! A process whose clock is wrong writes nothing: it expires neither credit nor approvals, and hands its threads over.

use folio_tests::harness::LIMIT;

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
        let answer = test.approve_until_accepted(1, &TestCluster::approvals_of(&waiting)).await;
        assert_completed(&answer);
        assert_ne!(test.owner(&waiting.turn_id).await, 0);
        let account = test.stores().credit.account(&test.cluster.tenants[0].org).await.unwrap();
        assert_eq!(account.expired, 0, "no credit expired");
        std::fs::write(&file, "0").unwrap();
        logged(test, "the clock is right again").await;
        folio_testkit::wait_for("another incarnation", LIMIT, || async {
            (test.cluster.nodes[0].incarnations().len() >= 2).then_some(())
        })
        .await;
        test.assert_clean().await;
    });
}

async fn logged(test: &TestCluster, text: &str) {
    folio_testkit::wait_for(text, LIMIT, || async { test.cluster.nodes[0].errors().contains(text).then_some(()) })
        .await;
}
