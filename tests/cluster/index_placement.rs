//! The index of an organization is on one node. After the node died, another one builds the index from the stores, and searches
//! name the gap until then.

use folio_proto::v1;
use folio_proto::v1::retrieval_service_client::RetrievalServiceClient;
use folio_testkit::wait_for;
use folio_tests::harness::LIMIT;
use tonic::Status;

use crate::ingestions::start_ingestion;
use crate::job_steps::assert_done;
use crate::test_cluster::{TestCluster, on_cluster};

const SCRIPT: &str = "rules: []";
const DOCUMENTS: usize = 5;

async fn search(test: &TestCluster, gateway: usize) -> Result<v1::SearchResponse, Status> {
    let request = v1::SearchRequest { query: "pump".to_owned(), limit: 50, ..Default::default() };
    let client = test.client(gateway).await;
    RetrievalServiceClient::new(client.channel.clone()).search(request).await.map(tonic::Response::into_inner)
}

fn is_complete(answer: &v1::SearchResponse) -> bool {
    answer.lexical.as_ref().is_some_and(|part| part.used && part.gaps.is_empty())
}

/// Searches at each gateway until no gap is named, and asserts that these documents are found. An answer without a gap and
/// without a document is an error.
async fn assert_found(test: &TestCluster, documents: &[String]) {
    for gateway in [0, 1] {
        let complete = || async { search(test, gateway).await.ok().filter(is_complete) };
        let answer = wait_for("an answer without a gap", 3 * LIMIT, complete).await;
        let mut found: Vec<String> = answer.passages.into_iter().map(|passage| passage.document_id).collect();
        found.sort();
        assert_eq!(found, documents, "at the gateway {gateway}");
    }
}

/// Returns the number of the node that is recorded as the holder of the complete index.
async fn holder(test: &TestCluster) -> usize {
    let org = &test.cluster.tenants[0].org;
    let complete = || async {
        let holder = test.stores().index_holders().holder(org).await.expect("the store answers");
        holder.filter(|holder| holder.is_complete)
    };
    let holder = wait_for("a node with the complete index", LIMIT, complete).await;
    let address_of = |number: usize| test.cluster.nodes[number].listener_proxy.address();
    (0..test.cluster.nodes.len()).find(|number| address_of(*number) == holder.address).expect("the address of a node")
}

#[test]
fn another_node_builds_the_index_of_a_dead_one() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let mut documents = Vec::new();
        for number in 0..DOCUMENTS {
            let text = format!("# Report {number}\n\nThe pump {number} delivers water.\n");
            documents.push(client.upload(&format!("report-{number}.md"), text.as_bytes()).await);
        }
        documents.sort();
        let job = start_ingestion(&client, documents.clone()).await;
        assert_done(&[test.ended_job(&job).await]);
        assert_found(test, &documents).await;

        let first = holder(test).await;
        test.node(first).kill();
        assert_found(test, &documents).await;
        assert_ne!(holder(test).await, first, "the index is on a node that runs");

        // The node returns with an empty folder, and has the best score for the organization again.
        test.cluster.restore().await;
        wait_for("the index on the returned node", 3 * LIMIT, || async {
            let org = &test.cluster.tenants[0].org;
            let recorded = test.stores().index_holders().holder(org).await.ok()??;
            let address = test.cluster.nodes[first].listener_proxy.address();
            (recorded.is_complete && recorded.address == address).then_some(())
        })
        .await;
        assert_found(test, &documents).await;
        test.assert_clean().await;
    });
}
