//! `kill -9` during a run of the extraction agent, and a restart on the same data: the job continues the run.

use folio_proto::v1;
use folio_testkit::wait_for;

use crate::LIMIT;
use crate::sandbox::Sandbox;

/// The gate `g` holds the third request of the run until it is opened.
const SCRIPT: &str = "
rules:
  - when: {user: {contains: Extract the data}, round: 3}
    fault: {hold: {gate: g}}
    answer: {calls: [{name: complete_extraction}]}
  - when: {user: {contains: Extract the data}}
    rounds:
      - calls: [{name: get_document_text}]
      - calls: [{name: extract_fields, arguments: {fields: {total: 957}, confidences: {total: 0.75}}}]
      - text: This answer is replaced by the first rule.
      - text: The total is 957.
";

#[tokio::test]
async fn invariant_3_a_job_continues_a_run_of_the_agent_after_a_kill_and_repeats_no_step() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, document_id) = sandbox.with_document().await;
    let prompt =
        v1::Prompt { name: "Total".to_owned(), content: "Read the total.".to_owned(), ..v1::Prompt::default() };
    let request = v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() };
    let prompt = client.prompts.clone().create_prompt(request).await.unwrap().into_inner().prompt.unwrap();
    let request = v1::StartExtractionRequest {
        document_id,
        prompt_revid: prompt.prompt_revid,
        request_id: "agent".to_owned(),
        ..Default::default()
    };
    let mut events = client.extractions.clone().start_extraction(request.clone()).await.unwrap().into_inner();
    let started = events.message().await.unwrap().unwrap().event.unwrap().event.unwrap();
    let v1::agent_event::Event::Started(v1::AgentStarted { extraction_id, .. }) = started else {
        panic!("{started:?}")
    };
    sandbox.sim.wait_for_waiting_request().await;
    sandbox.kill();
    drop(events);
    sandbox.sim.open_gate("g").await;

    let client = sandbox.restart().await;
    let get = async || {
        let request = v1::GetExtractionRequest { extraction_id: extraction_id.clone() };
        client.extractions.clone().get_extraction(request).await.unwrap().into_inner().extraction.unwrap()
    };
    assert_eq!(get().await.original_json, r#"{"total":957}"#, "the step before the kill is stored");
    let completed = wait_for("the extraction is completed", LIMIT, || async {
        Some(get().await).filter(|found| found.state() == v1::ExtractionState::Completed)
    })
    .await;
    assert_eq!(completed.original_json, r#"{"total":957}"#);
    assert_eq!(completed.etag, "v3", "each step is stored once");

    // A repeated request streams the same run.
    let mut events = client.extractions.clone().start_extraction(request).await.unwrap().into_inner();
    let mut last = None;
    while let Some(event) = events.message().await.unwrap() {
        last = event.event.unwrap().event;
    }
    let Some(v1::agent_event::Event::Complete(result)) = last else { panic!("{last:?}") };
    assert_eq!(result.extraction.unwrap().extraction_id, extraction_id);
}
