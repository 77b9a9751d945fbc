//! A job of a killed owner continues on another node, over Redis and a CQL server.

use folio_proto::v1;
use folio_testkit::wait_for;
use folio_tests::harness::LIMIT;
use folio_types::JobId;
use v1::job_service_client::JobServiceClient;

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
        let text: String = (0..LINES)
            .map(|line| format!("Line {line} of the annual report states nothing about any total amount.\n"))
            .collect();
        let document_id = client.upload("report.txt", text.as_bytes()).await;
        let schema_revid = test.schema("total").await.schema_revid;
        let prompt = v1::Prompt {
            name: "Total".to_owned(),
            content: "Read the total.".to_owned(),
            schema_revid,
            ..Default::default()
        };
        let request = v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() };
        let prompt = client.prompts.clone().create_prompt(request).await.expect("the prompt is created").into_inner();
        let request = v1::RunExtractionRequest {
            document_id,
            prompt_revid: prompt.prompt.expect("a prompt").prompt_revid,
            ..Default::default()
        };
        let created = client.extractions.clone().run_extraction(request).await.expect("the request is accepted");
        let job = created.into_inner().job.expect("a job").job_id;

        test.cluster.sim.wait_for_waiting_request().await;
        let owner = owner(test, &job).await;
        test.node(owner).kill();
        test.cluster.sim.open_gate("g").await;
        let client = test.client(1).await;
        let ended = wait_for("the end of the job", 3 * LIMIT, || async {
            let request = v1::GetJobRequest { job_id: job.clone() };
            let found = JobServiceClient::new(client.channel.clone()).get_job(request).await.ok()?;
            found.into_inner().job.filter(|job| job.end_time.is_some())
        })
        .await;
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

/// Returns the number of the node that runs a job.
pub(crate) async fn owner(test: &TestCluster, job: &str) -> usize {
    let job: JobId = job.parse().expect("an id");
    let header = test.stores().jobs.header(&test.cluster.tenants[0].org, &job).await.expect("the store answers");
    test.cluster.node_of(&header.and_then(|header| header.owner).expect("an owner"))
}
