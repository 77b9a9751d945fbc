//! A job of a killed owner continues on another node, over Redis and a CQL server.

use folio_proto::v1;
use folio_types::JobId;

use crate::test_cluster::{TestCluster, on_cluster};

/// The model call for the third window waits until the gate `g` is opened.
const SCRIPT: &str = r#"
rules:
  - when: {user: {contains: ["Part 3 of"]}}
    fault: {hold: {gate: g}}
    answer: {text: '{"total": 12.5}'}
  - when: {response_format: true}
    answer: {text: '{"total": 12.5}'}
"#;

/// Lines of a text that needs more windows than a request may extract.
const LINES: usize = 22_000;

#[test]
fn invariant_5_a_long_extraction_of_a_killed_node_continues_without_a_second_charge() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let document_id = client.upload("report.txt", report(LINES).as_bytes()).await;
        let prompt_revid = test.prompt("total", Vec::new()).await.prompt_revid;
        let request = v1::RunExtractionRequest { document_id, prompt_revid, ..Default::default() };
        let created = client.extractions.clone().run_extraction(request).await.expect("the request is accepted");
        let job = created.into_inner().job.expect("a job").job_id;

        test.cluster.sim.wait_for_waiting_request().await;
        let owner = owner(test, &job).await;
        test.node(owner).kill();
        test.cluster.sim.open_gate("g").await;
        let client = test.client(1).await;
        let ended = test.ended_job(&job).await;
        assert_eq!(ended.state(), v1::JobState::Completed, "{ended:?}");
        assert_eq!((ended.items[0].state(), ended.items[0].attempts), (v1::JobItemState::Done, 2), "{ended:?}");
        let requests = test.cluster.sim.all_chat_requests().await;
        let calls = |part: &str| requests.iter().filter(|request| request.body.to_string().contains(part)).count();
        assert_eq!((calls("Part 1 of"), calls("Part 2 of"), calls("Part 3 of")), (1, 1, 2));
        assert!(calls("Part 9 of") == 1, "{} requests", requests.len());
        let list = v1::ListExtractionsRequest::default();
        let stored = client.extractions.clone().list_extractions(list).await.expect("a list").into_inner();
        assert_eq!(stored.total_size, 1);
        test.assert_clean().await;
    });
}

/// Returns a text of this number of lines.
pub(crate) fn report(lines: usize) -> String {
    let line = |line| format!("Line {line} of the annual report states nothing about any total amount.\n");
    (0..lines).map(line).collect()
}

/// Returns the number of the node that runs a job.
pub(crate) async fn owner(test: &TestCluster, job: &str) -> usize {
    let job: JobId = job.parse().expect("an id");
    let header = test.stores().jobs.header(&test.cluster.tenants[0].org, &job).await.expect("the store answers");
    test.cluster.node_of(&header.and_then(|header| header.owner).expect("an owner"))
}
