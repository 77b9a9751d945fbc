//! An owner that was stopped (SIGSTOP) while it was replaced writes nothing after it continues.

use std::time::Duration;

use folio_testkit::proxy::Mode;

use crate::routing::WRITES;
use crate::stage::{Stage, on_stage};

/// Time without Redis for a continued node, in which it may send and repeat the pending write.
const WITHOUT_REDIS: Duration = Duration::from_millis(1_500);

/// Continues a stopped node, which only later learns that it was declared dead, and waits for its new incarnation.
pub(crate) async fn resume(stage: &mut Stage, number: usize) {
    stage.node(number).redis.set(Mode::Stall);
    stage.node(number).process().resume();
    // Writes of the node in this time must have no effect.
    tokio::time::sleep(WITHOUT_REDIS).await;
    stage.node(number).redis.set(Mode::Pass);
    let node = &stage.cluster.nodes[number];
    let restarted = || std::future::ready((node.incarnations().len() > 1).then_some(()));
    folio_testkit::wait_for("a new incarnation of the node", folio_tests::harness::LIMIT, restarted).await;
}

/// Runs a turn whose owner stops before it writes the end, which another node writes first.
pub(crate) async fn late_end(stage: &mut Stage, variables: &[(&str, &str)]) {
    stage.alone(0, &[variables, &[("FOLIO_LATE_WRITE", "append")]].concat()).await;
    let stream = stage.chat(0, "hello").await;
    let turn = stream.turn();
    stage.node(0).stopped().await;
    drop(stream);
    stage.start_others(variables).await;
    stage.until_not_busy(&turn).await;
    stage.resume(&turn).await;
    resume(stage, 0).await;
}

#[test]
fn invariant_3_a_stopped_owner_that_was_replaced_cannot_write_by_a_tool() {
    on_stage(WRITES, async |stage| {
        let own = [("FOLIO_LATE_WRITE", "decision")];
        let waiting = stage.paused_at(0, "write", &own, &[]).await;
        stage.approve_until_stopped(&Stage::all_of(&waiting), 0).await;
        stage.until_not_busy(&waiting.turn_id).await;
        let client = stage.client(1).await;
        stage.resume(&waiting.turn_id).await;
        resume(stage, 0).await;
        let mut names = client.tag_names().await;
        names.sort();
        assert_eq!(names, ["write a", "write b"]);
        stage.assert_clean().await;
    });
}
