//! An owner that was stopped (SIGSTOP) while it was replaced writes nothing after it continues.

use std::time::Duration;

use folio_testkit::proxy::Mode;
use folio_tests::harness::LIMIT;

use crate::routing::WRITES;
use crate::test_cluster::{TestCluster, on_cluster};

/// Time without Redis for a continued node, in which it may send and repeat the pending write.
const WITHOUT_REDIS: Duration = Duration::from_secs(3);

/// Continues a stopped node, which only later learns that it was declared dead, and waits for its new incarnation.
pub(crate) async fn resume(test: &mut TestCluster, number: usize) {
    test.node(number).redis.set(Mode::Stall);
    test.node(number).process().resume();
    // Writes of the node in this time must have no effect.
    tokio::time::sleep(WITHOUT_REDIS).await;
    test.node(number).redis.set(Mode::Pass);
    let node = &test.cluster.nodes[number];
    let restarted = || std::future::ready((node.incarnations().len() > 1).then_some(()));
    folio_testkit::wait_for("a new incarnation of the node", LIMIT, restarted).await;
}

/// Runs a turn whose owner stops before it writes the end, which another node writes first.
pub(crate) async fn write_end_late(test: &mut TestCluster, variables: &[(&str, &str)]) {
    test.run_single_node(0, &[variables, &[("FOLIO_LATE_WRITE", "append")]].concat()).await;
    let stream = test.chat(0, "hello").await;
    let turn = stream.turn();
    test.node(0).wait_until_stopped().await;
    drop(stream);
    test.start_others(variables).await;
    test.wait_until_idle(&turn).await;
    test.resume(&turn).await;
    resume(test, 0).await;
}

#[test]
fn invariant_3_a_stopped_owner_that_was_replaced_cannot_write_by_a_tool() {
    on_cluster(WRITES, async |test| {
        let own = [("FOLIO_LATE_WRITE", "decision")];
        let waiting = test.paused_at(0, "write", &own, &[]).await;
        test.approve_until_stopped(&TestCluster::approvals_of(&waiting), 0).await;
        test.wait_until_idle(&waiting.turn_id).await;
        let client = test.client(1).await;
        test.resume(&waiting.turn_id).await;
        resume(test, 0).await;
        let mut names = client.tag_names().await;
        names.sort();
        assert_eq!(names, ["write a", "write b"]);
        test.assert_clean().await;
    });
}
