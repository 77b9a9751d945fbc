//! Uploads a file, lets the agent create a prompt with approvals, and extracts the data of the file.
//!
//! Usage: `FOLIO_SERVER=HOST:PORT FOLIO_TOKEN=TOKEN cargo run -p folio-client --example client_quickstart FILE`

use anyhow::{Context as _, Result};
use folio_client::v1::event::Kind;
use folio_client::{Approval, Client, Decision, v1};
use futures::TryStreamExt as _;

const MESSAGE: &str = "create a schema and a prompt for documents like this and extract";

/// Approves each call that the user of the token may approve. A real program shows the call to a person first.
async fn approve(approval: Approval) -> Decision {
    let rule = if approval.rule.is_empty() { "none" } else { &approval.rule };
    let names = approval.roles.iter().map(|role| role.as_str_name().trim_start_matches("ROLE_").to_lowercase());
    let roles = if approval.roles.is_empty() { "any".to_owned() } else { names.collect::<Vec<_>>().join(", ") };
    let excluded = if approval.is_requester_excluded { "yes" } else { "no" };
    println!("waits: {}; rule: {rule}; roles: {roles}; requester excluded: {excluded}", approval.tool);
    if approval.may_approve { Decision::Approve } else { Decision::Leave }
}

#[tokio::main]
async fn main() -> Result<()> {
    let file = std::env::args().nth(1).context("usage: client_quickstart FILE")?;
    let (server, token) = (std::env::var("FOLIO_SERVER")?, std::env::var("FOLIO_TOKEN")?);
    let client = Client::connect(&server, &token).await?;

    let bytes = tokio::fs::read(&file).await.with_context(|| format!("{file} cannot be read"))?;
    let name = std::path::Path::new(&file).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (size, description) = (bytes.len(), v1::DocumentDescription { name, ..Default::default() });
    let document = client.upload(bytes, description, move |sent| println!("sent: {sent} of {size} bytes")).await?;
    let document = client.wait_for_text(&document.document_id).await?;
    println!("read: {}, {} page(s)", document.name, document.pages);

    let document_ids = vec![document.document_id.clone()];
    let request =
        v1::ChatRequest { document_ids: document_ids.clone(), text: MESSAGE.to_owned(), ..Default::default() };
    let mut turn = client.chat(request).approving(approve);
    while let Some(event) = turn.next().await? {
        if let Some(Kind::ToolResult(result)) = event.kind {
            println!("ran: {}, {}", result.name, result.status().as_str_name());
        }
    }
    let answer = turn.completed().await?;
    println!("answer: {}", answer.text);

    let prompt_revid = answer.working_state.unwrap_or_default().prompt_revid;
    let request = v1::RunExtractionRequest {
        document_id: document.document_id,
        prompt_revid: prompt_revid.clone(),
        ..Default::default()
    };
    let extraction = client.extract(request, |_| {}).await?;
    println!("extracted: {}", extraction.original_json);

    let request = v1::RunExtractionsRequest { document_ids, prompt_revid, ..Default::default() };
    let job = client.batch(request).await?;
    let progress = |job: &v1::Job| println!("batch: {} of {} done", job.done_items, job.total_items);
    client.wait_for_job(&job.job_id, progress).await?;
    let mut items = client.list_job_items(v1::ListJobItemsRequest { job_id: job.job_id, ..Default::default() });
    while let Some(item) = items.try_next().await? {
        println!("item: {}, {}", item.subject, item.result_json);
    }

    let unknown = v1::GetDocumentRequest { document_id: "doc_unknown".to_owned() };
    if let Err(status) = client.documents().get_document(unknown).await {
        let error = folio_client::Error::from(status);
        println!("error: {:?}, {}", error.code(), error.reason_name());
    }
    Ok(())
}
