//! Deletion of an organization: nothing of it remains in the store, in the files, or in the server's answers.

use std::path::PathBuf;

use folio_proto::v1;
use folio_proto::v1::credit_service_client::CreditServiceClient;
use folio_proto::v1::organization_service_client::OrganizationServiceClient;
use folio_proto::v1::webhook_endpoint_service_client::WebhookEndpointServiceClient;
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_testkit::pdf::{Page, document};
use folio_tests::harness::webhook_receiver::receiver;
use folio_types::{Code, OrgId};
use serde_json::json;

use crate::LIMIT;
use crate::client::{Client, refused};
use crate::command_line::files_below;
use crate::ingestion_agents::wait_until_ingested;
use crate::real_documents::{proposal, run_agent, run_batch};
use crate::sandbox::Setup;

/// A word in every resource of the organization.
const WORD: &str = "rhinoceros";

const SCRIPT: &str = r#"
rules:
  - when: {response_format: true}
    answer: {text: '{"animal": "rhinoceros"}'}
  - when: {user: {contains: Analyze this document}}
    rounds:
      - calls:
          - name: create_schema
            arguments:
              name: The rhinoceros
              response_format:
                type: json_schema
                json_schema:
                  name: animal
                  strict: true
                  schema: {type: object, properties: {animal: {type: string}}, required: [animal], additionalProperties: false}
          - name: create_prompt
            arguments: {name: The rhinoceros, content: Read the rhinoceros., schema_id: $create_schema.schema_id}
      - calls: [{name: run_extraction, arguments: {}}]
      - text: A rhinoceros.
  - when: {user: {contains: Extract the data of the document}}
    rounds:
      - calls: [{name: extract_fields, arguments: {fields: {animal: rhinoceros}, confidences: {animal: 0.75}}}]
      - calls: [{name: complete_extraction}]
      - text: A rhinoceros.
  - when: {user: {contains: Fill the missing cells}}
    rounds:
      - calls: [{name: get_table_state}]
      - calls:
          - name: extract_row
            arguments:
              document_id: '{{last.get_table_state.rows.0.document_id}}'
              cells:
                - column: Animal
                  value: rhinoceros
                  confidence: 0.75
                  citation: {page: 1, quote: All about the rhinoceros}
      - text: A rhinoceros.
  - when: {system: {contains: "Step: classify"}}
    answer: {text: '{"intent_type": "qa", "confidence": 1, "reasoning": "A rhinoceros."}'}
  - when: {system: {contains: "Step: answer the question"}}
    answer: {text: '{"question": "rhinoceros?", "answer": "A rhinoceros.", "sources": [], "confidence": 1}'}
  - when: {system: {contains: "Step: update the summary"}}
    answer: {text: '{"summary": "It is about a rhinoceros."}'}
  - when: {user: write}
    rounds:
      - calls: [{name: create_tag, arguments: {name: a rhinoceros}}]
      - text: A rhinoceros is made.
  - answer: {text: I see a rhinoceros.}
"#;

/// Creates an organization with documents, threads, a pending turn, members, and the results of unattended work.
async fn create_full_organization(admin: &Client, url: &str) -> (Client, v1::Organization) {
    let create = v1::CreateOrganizationRequest {
        organization: Some(v1::Organization { name: format!("The {WORD}"), ..Default::default() }),
        admin_name: format!("Keeper of the {WORD}"),
        request_id: "make".into(),
        ..Default::default()
    };
    let mut organizations = OrganizationServiceClient::new(admin.channel.clone());
    let created = organizations.create_organization(create).await.unwrap().into_inner();
    let organization_id = created.organization.as_ref().unwrap().organization_id.clone();
    let grant = v1::GrantCreditRequest { organization_id, credits: 5, note: WORD.into(), ..Default::default() };
    CreditServiceClient::new(admin.channel.clone()).grant_credit(grant).await.unwrap();
    let client = Client::connect(url, Some(&created.admin_token)).await;
    let uploaded = client.upload(&format!("{WORD}.txt"), format!("All about the {WORD}.").as_bytes()).await;
    let tag =
        v1::CreateTagRequest { tag: Some(v1::Tag { name: WORD.into(), ..Default::default() }), ..Default::default() };
    client.tags.clone().create_tag(tag).await.unwrap();
    // A conversation whose first messages are summarized.
    let events = client.chat(&uploaded, &format!("What of the {WORD}?")).await;
    let thread = events.thread();
    events.completed().await;
    for _ in 0..15 {
        client.say(&thread, &format!("And of another {WORD}?")).await.completed().await;
    }
    client.chat(&uploaded, "write").await.pause().await;
    let question =
        v1::ChatRequest { profile: "assistant".to_owned(), text: format!("Which {WORD}?"), ..Default::default() };
    client.send(question).await.unwrap().completed().await;
    tabulate(&client, &uploaded).await;
    work_unattended(&client).await;
    render(&client).await;
    // An ingestion in progress would write again after the erasure.
    let listed = client.documents.clone().list_documents(v1::ListDocumentsRequest::default()).await.unwrap();
    for document in listed.into_inner().documents {
        wait_until_ingested(&client, &document.document_id).await;
    }
    (client, created.organization.unwrap())
}

/// Creates a stack whose row is filled by a job, sets a cell of the row, and sends a message to the agent of the stack.
async fn tabulate(client: &Client, document: &str) {
    let stack = v1::Stack {
        name: WORD.into(),
        description: format!("A table of the {WORD}."),
        document_ids: vec![document.to_owned()],
        ..Default::default()
    };
    let mut stacks = client.stacks.clone();
    let request = v1::CreateStackRequest { stack: Some(stack), ..Default::default() };
    let stack_id = stacks.create_stack(request).await.unwrap().into_inner().stack.unwrap().stack_id;
    let column = |name: &str| v1::StackColumn {
        name: name.into(),
        r#type: v1::StackColumnType::Text.into(),
        description: format!("Not the {WORD}."),
        ..Default::default()
    };
    let columns = vec![column("Animal"), column("Home")];
    let first = v1::DefineStackColumnsRequest { stack_id: stack_id.clone(), columns, ..Default::default() };
    stacks.define_stack_columns(first).await.unwrap();
    let document_id = document.to_owned();
    let edit = v1::UpdateStackCellRequest {
        stack_id: stack_id.clone(),
        document_id: document_id.clone(),
        column: "Home".into(),
        value_json: format!("\"the {WORD}'s\""),
        ..Default::default()
    };
    stacks.update_stack_cell(edit).await.unwrap();
    let request = v1::FillStackRequest { stack_id: stack_id.clone(), ..Default::default() };
    let job_id = stacks.fill_stack(request).await.unwrap().into_inner().job.unwrap().job_id;
    let ended = folio_testkit::wait_for("the row", 3 * LIMIT, || async {
        let request = v1::GetJobRequest { job_id: job_id.clone() };
        let job = client.jobs.clone().get_job(request).await.unwrap().into_inner().job.unwrap();
        job.end_time.is_some().then_some(job)
    });
    let ended = ended.await;
    assert_eq!(ended.done_items, 1, "{ended:?}");
    let request = v1::GetStackRowRequest { stack_id: stack_id.clone(), document_id };
    let row = stacks.get_stack_row(request).await.unwrap().into_inner().row.unwrap();
    assert_eq!(row.cells[0].value_json.as_deref(), Some("\"rhinoceros\""), "{row:?}");
    assert!(row.cells[0].citation.is_some() && row.cells[1].state() == v1::StackCellState::Edited, "{row:?}");
    let request = v1::CreateStackThreadRequest { stack_id, ..Default::default() };
    let thread_id = stacks.create_stack_thread(request).await.unwrap().into_inner().thread_id;
    let message = v1::ChatRequest { thread_id, text: format!("What of the {WORD}?"), ..Default::default() };
    client.send(message).await.unwrap().completed().await;
}

/// Makes a proposal, a run of the extraction agent and a batch, whose events a webhook endpoint receives.
async fn work_unattended(client: &Client) {
    let (received, url) = receiver().await;
    let endpoint = v1::WebhookEndpoint {
        url: format!("{url}?{WORD}"),
        event_types: vec!["extraction.completed".to_owned()],
        enabled: true,
        ..Default::default()
    };
    let request = v1::CreateWebhookEndpointRequest { webhook_endpoint: Some(endpoint), ..Default::default() };
    let endpoints = WebhookEndpointServiceClient::new(client.channel.clone());
    let created = endpoints.clone().create_webhook_endpoint(request).await.unwrap().into_inner();
    let webhook_endpoint_id = created.webhook_endpoint.unwrap().webhook_endpoint_id;

    let description =
        v1::DocumentDescription { name: format!("another {WORD}.txt"), auto_create: Some(true), ..Default::default() };
    let uploaded = client.try_upload_as(description, format!("More about the {WORD}.").as_bytes()).await;
    let document = uploaded.unwrap().document_id;
    let proposed = proposal(client, &document, 3 * LIMIT).await;
    assert_eq!(proposed.state(), v1::ProposalState::Proposed, "{proposed:?}");
    let extraction = run_agent(client, &document, &proposed.prompt_revid).await.extraction.unwrap();
    assert_eq!(extraction.state(), v1::ExtractionState::Completed, "{extraction:?}");
    let items = run_batch(client, vec![document.clone()], &proposed.prompt_revid).await;
    assert_eq!(items[&document].state(), v1::JobItemState::Done, "{items:?}");
    review(client, proposed.extraction_id, extraction.extraction_id).await;

    // A delivery in progress would write again after the erasure.
    folio_testkit::wait_for("the deliveries", LIMIT, || async {
        let webhook_endpoint_id = webhook_endpoint_id.clone();
        let request = v1::ListWebhookDeliveriesRequest { webhook_endpoint_id, ..Default::default() };
        let listed = endpoints.clone().list_webhook_deliveries(request).await.unwrap().into_inner();
        let states: Vec<_> = listed.webhook_deliveries.iter().map(v1::WebhookDelivery::state).collect();
        (states == [v1::WebhookDeliveryState::Delivered; 3]).then_some(())
    })
    .await;
    assert!(received.lock().unwrap().len() >= 3, "an event for each extraction");
}

/// Requests the review of an extraction, and rejects the value of another one.
async fn review(client: &Client, requested: String, rejected: String) {
    let request = v1::RequestReviewRequest { extraction_id: requested, requested: true, ..Default::default() };
    client.extractions.clone().request_review(request).await.unwrap();
    let request = v1::ReviewExtractionFieldRequest {
        extraction_id: rejected,
        path: "animal".to_owned(),
        decision: v1::FieldDecision::Rejected.into(),
        ..Default::default()
    };
    let reviewed = client.extractions.clone().review_extraction_field(request).await.unwrap().into_inner();
    assert_eq!(reviewed.extraction.unwrap().reviews.len(), 1);
}

/// Uploads a PDF, whose words have boxes, and renders the image of its page.
async fn render(client: &Client) {
    let pdf = document(&[Page::of_lines(&[&format!("A picture of the {WORD}")])]);
    let document_id = client.upload(&format!("{WORD}.pdf"), &pdf).await;
    let request = v1::GetPageWordsRequest { document_id: document_id.clone(), page: 1 };
    let words = client.documents.clone().get_page_words(request).await.unwrap().into_inner().words;
    assert!(words.iter().any(|word| word.text == WORD && word.bounding_box.is_some()), "{words:?}");
    let request = v1::GetPageImageRequest { document_id, page: 1, ..Default::default() };
    let mut image = client.documents.clone().get_page_image(request).await.unwrap().into_inner();
    let mut bytes = 0;
    while let Some(part) = image.message().await.unwrap() {
        bytes += part.chunk.len();
    }
    assert!(bytes > 0, "the image has no bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_data_of_a_deleted_organization_remains() {
    let setup = Setup::new(SCRIPT)
        .with("FOLIO_PROVIDERS__ALLOWED_NETWORKS", json!(["127.0.0.1"]))
        .with("FOLIO_INDEX__SWEEP_INTERVAL_SECONDS", 1);
    let mut sandbox = setup.start().await;
    let admin = sandbox.client().await;
    let kept = admin.upload("kept.txt", b"All about the hippopotamus.").await;
    let mut platform = OrganizationServiceClient::new(admin.channel.clone());
    let (client, organization) = create_full_organization(&admin, &sandbox.url()).await;
    let delete = |name: &str| v1::DeleteOrganizationRequest {
        organization_id: organization.organization_id.clone(),
        name: name.to_owned(),
        ..Default::default()
    };
    assert_eq!(refused(platform.delete_organization(delete("another")).await).reason.as_str(), "INVALID_FIELD");
    let of_other =
        OrganizationServiceClient::new(client.channel.clone()).delete_organization(delete(&organization.name)).await;
    assert_eq!(refused(of_other).code, Code::PermissionDenied);

    platform.delete_organization(delete(&organization.name)).await.unwrap();
    let list = v1::ListDocumentsRequest::default();
    let refusal =
        async || client.documents.clone().list_documents(list.clone()).await.err().map(|status| status.code());
    let unauthenticated = async || (refusal().await == Some(tonic::Code::Unauthenticated)).then_some(());
    folio_testkit::wait_for("the tokens to be refused", LIMIT, unauthenticated).await;
    let (blobs, index) = (sandbox.data().join("blobs"), sandbox.data().join("index"));
    // An image does not contain the word, but its path contains the organization.
    let is_clean = |(path, bytes): &(PathBuf, Vec<u8>)| {
        !String::from_utf8_lossy(bytes).contains(WORD)
            && !path.to_string_lossy().contains(organization.organization_id.as_str())
    };
    let is_erased = async || files_below(&blobs).iter().all(is_clean).then_some(());
    folio_testkit::wait_for("the blobs to be deleted", LIMIT, is_erased).await;
    let index = index.join(&organization.organization_id);
    let is_erased = async || (!index.exists()).then_some(());
    folio_testkit::wait_for("the index to be deleted", LIMIT, is_erased).await;
    platform.delete_organization(delete("any name")).await.unwrap();
    let all = platform.list_organizations(v1::ListOrganizationsRequest::default()).await.unwrap().into_inner();
    assert_eq!(all.organizations.len(), 1, "{all:?}");
    let own = v1::DeleteOrganizationRequest {
        organization_id: all.organizations[0].organization_id.clone(),
        name: all.organizations[0].name.clone(),
        ..Default::default()
    };
    assert_eq!(refused(platform.delete_organization(own).await).code, Code::FailedPrecondition);
    admin.documents.clone().get_document(v1::GetDocumentRequest { document_id: kept }).await.unwrap();

    assert!(sandbox.stop().await, "the server exits with status 0");
    let store = EmbeddedStore::open(Options::at(sandbox.data())).unwrap();
    let rows = store.everything().unwrap();
    let with = |word: &str| rows.iter().filter(|row| row.contains(word)).collect::<Vec<_>>();
    assert!(with(WORD).is_empty(), "{:?}", with(WORD));
    // The second pass of the clean-up erases late writes (a token's last use, a sealed block).
    let left = with(&organization.organization_id);
    // The audit log of the platform's administrator names the organization by its id. The idempotency records of the
    // administrator's requests do the same for 48 hours. The platform keeps the tombstone of the organization, the op
    // rows of its creation and deletion, and the entry of the deletion.
    let (platform, id) = (OrgId::platform(), &organization.organization_id);
    let (tombstone, ops) = (format!("{platform}/organization/{id} "), format!("{platform}/op/{id}/"));
    let expected =
        [tombstone.as_str(), &ops, "deleted/organization/", "/token_use/", "/block/", "/audit/", "/idempotency/"];
    assert!(left.iter().all(|row| expected.iter().any(|part| row.contains(part))), "{left:?}");
    let has_tombstone = left.iter().any(|row| row.starts_with(&tombstone) && row.contains("tombstone"));
    assert!(has_tombstone, "the tombstone is missing: {left:?}");
    assert!(!with("hippopotamus").is_empty(), "rows of other organizations remain");
    store.close().await;
}
