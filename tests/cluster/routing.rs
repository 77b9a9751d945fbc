//! Requests reach the owner of their thread from every gateway.

use std::collections::BTreeSet;

use folio_proto::v1::approve_response::Outcome;
use folio_resources::{Organization, OrganizationChange, OwnQuotas};
use folio_tests::harness::client::ask;
use folio_types::op::{Expected, Write};
use folio_types::{Environment as _, OrgId, Reason, System};

use crate::stage::{Stage, on_stage};

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
    on_stage(WRITES, async |stage| {
        let mut owners = BTreeSet::new();
        for number in 0..10 {
            let waiting = stage.chat(number % 2, &format!("write {number}")).await.pause().await;
            let thread = waiting.turn_id.split('.').next().unwrap().to_owned();
            owners.insert(stage.cluster.owner(&thread).await);
            let answer = stage.approve((number + 1) % 2, &Stage::all_of(&waiting)).await.unwrap();
            assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
            let client = stage.client(number % 2).await;
            assert_eq!(client.say(&thread, "hello").await.completed().await.text, "Hello.");
        }
        assert!(owners.len() >= 2, "all threads went to {owners:?}");
        assert_eq!(stage.client(0).await.tag_names().await.len(), 20);
        stage.assert_clean().await;
    });
}

#[test]
fn invariants_3_and_7_two_approves_at_two_gateways_at_once_have_one_effect_and_one_answer() {
    on_stage(WRITES, async |stage| {
        for number in 0..4 {
            let waiting = stage.chat(0, &format!("write {number}")).await.pause().await;
            let request = Stage::all_of(&waiting);
            let (one, two) = tokio::join!(stage.approve(0, &request), stage.approve(1, &request));
            assert_eq!(one.unwrap(), two.unwrap());
        }
        assert_eq!(stage.client(0).await.tag_names().await.len(), 8);
        stage.assert_clean().await;
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
    on_stage(script, async |stage| {
        let limits = OwnQuotas { concurrent_turns: Some(1), ..OwnQuotas::default() };
        let (key, at, limits) = ("limits".parse().unwrap(), System.now(), OrganizationChange::SetQuotas(limits));
        let write = Write::by_platform(OrgId::platform(), key, at, Expected::Version(1), limits);
        stage.stores().of::<Organization>().decide(&stage.cluster.tenants[0].org, write).await.unwrap();
        let running = stage.chat(0, "wait").await.next().await.unwrap();
        let owner = stage.cluster.owner(running.turn_id.split('.').next().unwrap()).await;
        // New threads go to the node with the fewest turns. That node runs no turn of the organization, so a count per
        // node would not refuse the chat.
        for number in 0..4 {
            let client = stage.client(number % 2).await;
            let status = client.send(ask(&stage.document, "hello")).await.map(drop).unwrap_err();
            let error = folio_proto::status::to_error(&status);
            assert_eq!((error.reason, error.details["quota"].as_str()), (Reason::QuotaExceeded, "concurrent_turns"));
        }
        // The node that takes the turn over counts it until it ends.
        stage.node(owner).kill();
        stage.until_not_busy(&running.turn_id).await;
        stage.chat(1, "hello").await.completed().await;
    });
}
