//! Requests reach the owner of their thread from every gateway.

use std::collections::BTreeSet;

use folio_resources::{Organization, OrganizationChange, OwnQuotas};
use folio_tests::harness::LIMIT;
use folio_tests::harness::client::ask;
use folio_types::op::{Expected, Write};
use folio_types::{Code, Environment as _, OrgId, Reason, System};

use crate::test_cluster::{TestCluster, assert_completed, on_cluster, thread_of};

pub(crate) const WRITES: &str = "
rules:
  - when: {user: {prefix: write}}
    rounds:
      - calls: [{name: create_tag, arguments: {name: '{{user}} a'}}, {name: create_tag, arguments: {name: '{{user}} b'}}]
      - text: Written.
  - when: {user: {prefix: twice}}
    rounds:
      - calls: [{name: create_tag, arguments: {name: '{{user}} a'}}]
      - calls: [{name: create_tag, arguments: {name: '{{user}} b'}}]
      - text: Written twice.
  - when: {user: {prefix: hello}}
    answer: {text: Hello.}
";

#[test]
fn threads_are_spread_over_the_nodes_and_any_gateway_reaches_their_owner() {
    on_cluster(WRITES, async |test| {
        let mut owners = BTreeSet::new();
        for number in 0..10 {
            let waiting = test.chat(number % 2, &format!("write {number}")).await.pause().await;
            let thread = thread_of(&waiting.turn_id).to_owned();
            owners.insert(test.cluster.owner(&thread).await);
            // The other gateway may not know an owner that has just started.
            let answer = test.approve_until_accepted((number + 1) % 2, &TestCluster::approvals_of(&waiting)).await;
            assert_completed(&answer);
            let client = test.client(number % 2).await;
            assert_eq!(client.say(&thread, "hello").await.completed().await.text, "Hello.");
        }
        assert!(owners.len() >= 2, "all threads have the owner {owners:?}");
        assert_eq!(test.client(0).await.tag_names().await.len(), 20);
        test.assert_clean().await;
    });
}

#[test]
fn invariants_3_and_7_two_approves_at_two_gateways_at_once_have_one_effect_and_one_answer() {
    on_cluster(WRITES, async |test| {
        for number in 0..4 {
            let waiting = test.chat(0, &format!("write {number}")).await.pause().await;
            let request = TestCluster::approvals_of(&waiting);
            let (one, two) =
                tokio::join!(test.approve_until_accepted(0, &request), test.approve_until_accepted(1, &request));
            assert_eq!(one, two);
        }
        assert_eq!(test.client(0).await.tag_names().await.len(), 8);
        test.assert_clean().await;
    });
}

#[test]
fn turns_of_an_organization_are_bounded_at_all_nodes_together() {
    let script = "
rules:
  - when: {user: {prefix: wait}}
    fault: {hang: {}}
  - when: {user: {prefix: hello}}
    answer: {text: Hello.}
";
    on_cluster(script, async |test| {
        let limits = OwnQuotas { concurrent_turns: Some(1), ..OwnQuotas::default() };
        let (key, at, limits) = ("limits".parse().unwrap(), System.now(), OrganizationChange::SetQuotas(limits));
        let write = Write::by_platform(OrgId::platform(), key, at, Expected::Version(2), limits);
        test.stores().of::<Organization>().decide(&test.cluster.tenants[0].org, write).await.unwrap();
        let running = test.chat(0, "wait").await.next().await.unwrap();
        let owner = test.owner(&running.turn_id).await;
        // New threads go to the node with the fewest turns. That node runs no turn of the organization, so a count per
        // node would not refuse the chat.
        for number in 0..4 {
            let client = test.client(number % 2).await;
            let error = folio_testkit::wait_for("a refused chat", LIMIT, || async {
                // Without an answer of Redis in time, a node counts its own turns only, and accepts the chat.
                let status = client.send(ask(&test.document, "hello")).await.map(drop).err()?;
                Some(folio_proto::status::to_error(&status)).filter(|error| error.code != Code::Unavailable)
            })
            .await;
            assert_eq!((error.reason, error.details["quota"].as_str()), (Reason::QuotaExceeded, "concurrent_turns"));
        }
        // The node that takes the turn over counts it until it ends.
        test.node(owner).kill();
        test.wait_until_idle(&running.turn_id).await;
        test.chat(1, "hello").await.completed().await;
    });
}
