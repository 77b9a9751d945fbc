//! A node dies at each step of a group of child turns, before and after its write.

use folio_proto::v1;
use folio_proto::v1::event::Kind;
use folio_tests::harness::LIMIT;

use crate::test_cluster::on_cluster;

/// Two tasks that make a tag each, and the answer. A repeated round requests the same tasks.
const SCRIPT: &str = "
rules:
  - when: {user: {contains: delegate}, round: 2}
    answer: {text: Delegated.}
  - when: {user: {contains: delegate}}
    answer:
      calls:
        - name: run_tasks
          arguments:
            tasks:
              - {use_tool: {tool: create_tag, arguments: {name: one}}}
              - {use_tool: {tool: create_tag, arguments: {name: two}}}
";

/// Steps of a group. After a crash at the first one the group is not recorded, and the model requests it again.
const STEPS: [&str; 6] =
    ["group:before", "group:after", "child:before", "child:created", "child:after", "notice:before"];

fn request(document: &str) -> v1::ChatRequest {
    v1::ChatRequest {
        profile: "coordinator".to_owned(),
        document_ids: vec![document.to_owned()],
        text: "delegate".to_owned(),
        auto_approve: true,
        request_id: "group".to_owned(),
        ..v1::ChatRequest::default()
    }
}

#[test]
fn a_node_may_die_before_and_after_each_step_of_a_group() {
    for step in STEPS {
        on_cluster(SCRIPT, async |test| {
            test.run_single_node(0, &[("FOLIO_FAILPOINT", step)]).await;
            let (client, document) = (test.client(0).await, test.document.clone());
            test.chat_until_dead(&request(&document), 0).await;
            test.node(1).start(&[]).await;
            let completed = folio_testkit::wait_for("a completed turn", 3 * LIMIT, || async {
                // A repetition joins the turn, or resumes it.
                let events = client.send(request(&document)).await.ok()?.drain().await.ok()?;
                let last = events.last()?;
                matches!(last.kind, Some(Kind::Completed(_))).then(|| last.turn_id.clone())
            })
            .await;
            let mut names = test.client(1).await.tag_names().await;
            names.sort();
            assert_eq!(names, ["one", "two"], "invariant 3 at {step}");
            assert_eq!(test.turn(&completed).await.status(), v1::TurnStatus::Completed);
            test.assert_clean().await;
        });
    }
}

#[test]
fn a_node_may_die_while_it_ends_the_children_of_a_cancelled_turn() {
    for step in ["closing:after", "children:before", "children:after"] {
        on_cluster(SCRIPT, async |test| {
            // The child waits for an approval while its parent is cancelled.
            test.run_single_node(0, &[("FOLIO_FAILPOINT", step)]).await;
            let (client, document) = (test.client(0).await, test.document.clone());
            let waits = v1::ChatRequest { auto_approve: false, ..request(&document) };
            let accepted = || async { client.send(waits.clone()).await.ok() };
            let mut events = folio_testkit::wait_for("an accepted chat", LIMIT, accepted).await;
            let turn = events.until("tasks_started").await.turn_id;
            test.cancel_until_dead(&turn, 0).await;
            test.node(1).start(&[]).await;
            test.wait_until_idle(&turn).await;
            assert_eq!(test.turn(&turn).await.status(), v1::TurnStatus::Cancelled, "at {step}");
            assert!(test.client(1).await.tag_names().await.is_empty(), "no call of a child ran");
            test.assert_clean().await;
        });
    }
}
