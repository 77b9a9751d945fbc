//! Cancelling a turn while the model answers.

use std::time::Duration;

use folio_proto::v1;
use folio_proto::v1::usage_service_client::UsageServiceClient;
use futures::StreamExt as _;

use crate::sandbox::Setup;

const SCRIPT: &str = "
rules:
  - when: {user: amid}
    fault: {hold: {gate: g, after_chunks: 4}}
    answer: {text: one two three four five six seven eight}
";

#[tokio::test]
async fn invariant_5_a_call_whose_turn_was_cancelled_is_aborted_or_read_to_its_end_and_charged() {
    for (policy, completed, basis) in
        [("abort", false, v1::UsageBasis::Counted), ("drain", true, v1::UsageBasis::Reported)]
    {
        let sandbox = Setup::new(SCRIPT).with("FOLIO_CREDIT__ABANDONED_CALLS", policy).start().await;
        let (client, document) = sandbox.with_document().await;
        let stream = client.chat(&document, "amid").await;
        sandbox.sim.wait_for_waiting_request().await;
        assert_eq!(client.cancel(&stream.turn()).await.unwrap().status(), v1::TurnStatus::Cancelled);
        sandbox.sim.open_gate("g").await;
        let mut usages = UsageServiceClient::new(client.channel.clone());
        let entries = async || {
            let sent = usages.clone().download_usage(v1::DownloadUsageRequest::default()).await.unwrap();
            let sent: Vec<_> = sent.into_inner().map(|part| part.unwrap().entries).collect().await;
            Some(sent.concat()).filter(|entries| !entries.is_empty())
        };
        let entries = folio_testkit::wait_for("the record of the call", Duration::from_secs(20), entries).await;
        assert_eq!((entries.len(), entries[0].completed, entries[0].basis()), (1, completed, basis), "{policy}");
        assert!(entries[0].credits > 0, "{entries:?}");
        let balance = usages.get_balance(v1::GetBalanceRequest::default()).await.unwrap().into_inner();
        assert_eq!(balance.granted - balance.expired, balance.available + balance.in_blocks + balance.settled);
    }
}
