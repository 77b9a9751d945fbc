//! An owner that stood still (SIGSTOP) while it was replaced writes nothing when it goes on.

use std::time::Duration;

use folio_testkit::proxy::Mode;

use crate::routing::WRITES;
use crate::stage::{Stage, on_stage};

/// How long a node that goes on hears nothing of Redis: it may send what it was about to send, and send it again.
const DEAF: Duration = Duration::from_millis(1_500);

/// Lets a stopped node go on, which is told only later that it counts as gone, and waits until it has begun anew.
pub(crate) async fn go_on(stage: &mut Stage, number: usize) {
    stage.node(number).redis.set(Mode::Stall);
    stage.node(number).process().resume();
    // What it does meanwhile must change nothing.
    tokio::time::sleep(DEAF).await;
    stage.node(number).redis.set(Mode::Pass);
    let node = &stage.cluster.nodes[number];
    let anew = || std::future::ready((node.incarnations().len() > 1).then_some(()));
    folio_testkit::wait_for("a node that begins anew", folio_tests::harness::LIMIT, anew).await;
}

#[test]
fn invariant_1_a_stopped_owner_that_was_replaced_cannot_write_to_the_thread() {
    on_stage(WRITES, async |stage| {
        late_end(stage, &[]).await;
        stage.assert_clean().await;
    });
}

/// A turn whose owner stops just before it writes the end, which another node writes first.
pub(crate) async fn late_end(stage: &mut Stage, variables: &[(&str, &str)]) {
    stage.alone(0, &[variables, &[("FOLIO_LATE_WRITE", "append")]].concat()).await;
    let stream = stage.chat(0, "hello").await;
    let turn = stream.turn();
    stage.node(0).stopped().await;
    drop(stream);
    stage.start_others(variables).await;
    stage.until_not_busy(&turn).await;
    stage.resume(&turn).await;
    go_on(stage, 0).await;
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
        go_on(stage, 0).await;
        let mut names = client.tag_names().await;
        names.sort();
        assert_eq!(names, ["write a", "write b"]);
        stage.assert_clean().await;
    });
}
