//! A node dies at each step of ingestions in the modes `fast` and `agentic`: each document has one live generation of passages and
//! its summaries, and each model call is charged once. The checker reads the charges.

use folio_proto::v1;
use folio_proto::v1::ingestion_service_client::IngestionServiceClient;
use folio_tests::harness::client::Client;
use folio_tests::harness::ingestion::{AGENT_RULES, manual};
use folio_types::DocumentId;

use crate::job_steps::{TURN_STEPS, assert_done, die, die_and_recover, stop_nodes};
use crate::test_cluster::{TestCluster, on_cluster};

const DOCUMENTS: usize = 3;
/// Steps of the groups of a run, in which a child turn starts.
const GROUP_STEPS: [&str; 2] = ["group:after", "child:after"];

fn script() -> String {
    format!("rules:{AGENT_RULES}")
}

async fn start(client: &Client, document_ids: Vec<String>, mode: v1::IngestionMode) -> String {
    let request = v1::StartIngestionRequest { document_ids, mode: mode.into(), ..Default::default() };
    let created = IngestionServiceClient::new(client.channel.clone()).start_ingestion(request).await;
    created.expect("the ingestion is accepted").into_inner().job.expect("a job").job_id
}

/// Asserts that a document has the summaries of its sections and of itself, and passages with them as context.
async fn assert_ingested(test: &TestCluster, document: &str) {
    let (stores, org) = (test.stores(), &test.cluster.tenants[0].org);
    let id: DocumentId = document.parse().expect("an id");
    let summaries = stores.summaries().list(org, &id).await.expect("the store answers");
    let sections: Vec<Option<u32>> = summaries.iter().map(|summary| summary.section).collect();
    assert_eq!(sections, [None, Some(1), Some(2)], "the summaries of {document}");
    let head = stores.passages().head(org, &id).await.expect("the store answers").expect("passages");
    let numbers: Vec<u32> = (0..head.passages).collect();
    let passages = stores.passages().read(org, &id, head.generation, &numbers).await.expect("the store answers");
    assert_eq!(passages.len(), numbers.len(), "the live generation of {document} is complete");
    assert!(passages.iter().all(|passage| passage.padding.contains("About this part.")), "{passages:?}");
}

#[test]
fn invariant_3_a_node_may_die_at_each_step_of_a_job_that_summarizes() {
    on_cluster(&script(), async |test| {
        let client = test.client(0).await;
        let mut documents = Vec::new();
        for number in 0..DOCUMENTS {
            documents.push(client.upload(&format!("manual {number}.md"), manual().as_bytes()).await);
        }
        stop_nodes(test);
        let job = start(&client, documents.clone(), v1::IngestionMode::Fast).await;
        die_and_recover(test).await;
        assert_done(&[test.ended_job(&job).await]);
        for document in &documents {
            assert_ingested(test, document).await;
        }
        test.assert_clean().await;
    });
}

#[test]
fn invariant_3_a_node_may_die_at_each_step_of_a_run_of_the_ingestion_network() {
    on_cluster(&script(), async |test| {
        let client = test.client(0).await;
        for (number, steps) in TURN_STEPS.iter().chain([&GROUP_STEPS]).enumerate() {
            let document = client.upload(&format!("agents {number}.md"), manual().as_bytes()).await;
            stop_nodes(test);
            let job = start(&client, vec![document.clone()], v1::IngestionMode::Agentic).await;
            die(test, steps).await;
            test.start_others(&[]).await;
            assert_done(&[test.ended_job(&job).await]);
            assert_ingested(test, &document).await;
        }
        test.assert_clean().await;
    });
}
