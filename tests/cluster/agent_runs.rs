//! A node dies at each step of runs of the extraction agent, before and after its write: each extraction is completed once, with one
//! charge for each model call, and no orphan. The checker reads the charges and finds orphans.

use folio_proto::v1;
use folio_tests::harness::settings::INVOICE;

use crate::job_steps::{TURN_STEPS, assert_done, die, die_and_recover, run_batch, stop_nodes};
use crate::test_cluster::{TestCluster, on_cluster};

const SCRIPT: &str = "
rules:
  - when: {user: {contains: Extract the data of the document}}
    rounds:
      - calls: [{name: get_document_text}]
      - calls: [{name: extract_fields, arguments: {fields: {total: 957}, confidences: {total: 0.75}}}]
      - calls: [{name: complete_extraction}]
      - text: The total is 957.
";

/// Creates a prompt that the agent runs. Returns its revision.
async fn agent_prompt(test: &TestCluster) -> String {
    let prompt = v1::Prompt {
        name: "total".to_owned(),
        content: "Read the total.".to_owned(),
        schema_revid: test.schema("total").await.schema_revid,
        agent: true,
        ..Default::default()
    };
    let request = v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() };
    let created = test.client(0).await.prompts.create_prompt(request).await.expect("the prompt is created");
    created.into_inner().prompt.expect("a prompt").prompt_revid
}

/// Asserts that the agent completed one extraction of each of these documents, and that there are no others.
async fn assert_extracted(test: &TestCluster, documents: &[String]) {
    let request = v1::ListExtractionsRequest::default();
    let listed = test.client(1).await.extractions.list_extractions(request).await.expect("a list").into_inner();
    let mut found = Vec::new();
    for extraction in listed.extractions {
        let result = (extraction.state(), extraction.original_json.as_str());
        assert_eq!(result, (v1::ExtractionState::Completed, r#"{"total":957}"#), "{extraction:?}");
        found.push(extraction.document_id);
    }
    found.sort();
    let mut documents = documents.to_vec();
    documents.sort();
    assert_eq!(found, documents);
}

#[test]
fn invariant_3_a_node_may_die_at_each_step_of_the_job_of_a_run_of_the_agent() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let prompt_revid = agent_prompt(test).await;
        stop_nodes(test);
        let request =
            v1::RunExtractionRequest { document_id: test.document.clone(), prompt_revid, ..Default::default() };
        let created = client.extractions.clone().run_extraction(request).await.expect("the run is accepted");
        let job = created.into_inner().job.expect("a job");
        assert_eq!(job.kind, "extraction_agent");
        die_and_recover(test).await;
        assert_done(&[test.ended_job(&job.job_id).await]);
        assert_extracted(test, std::slice::from_ref(&test.document)).await;
        test.assert_clean().await;
    });
}

#[test]
fn invariant_3_a_node_may_die_at_each_step_of_the_turn_of_an_item_that_the_agent_runs() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let prompt_revid = agent_prompt(test).await;
        let mut documents = Vec::new();
        for (number, steps) in TURN_STEPS.iter().enumerate() {
            let document = client.upload(&format!("{number}.txt"), INVOICE.as_bytes()).await;
            stop_nodes(test);
            let job = run_batch(&client, vec![document.clone()], prompt_revid.clone()).await;
            die(test, steps).await;
            test.start_others(&[]).await;
            assert_done(&[test.ended_job(&job).await]);
            documents.push(document);
        }
        assert_extracted(test, &documents).await;
        test.assert_clean().await;
    });
}
