//! Proposes the accepted prompt of a similar document: one extraction, without the agent.

use folio_history::job::{ItemRun, Steps};
use folio_resources::{Extraction, ExtractionChange, ProposalOutcome, ProposedResources, Resource as _};
use folio_types::op::{Expected, OpKey, OpState, Write, WriteOutcome};
use folio_types::{Digest, Error, ExtractionId, Principal, RequestId, Result};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::AutoCreateRun;
use super::run::store;
use crate::extraction::{self, Request, SimilarPrompt};
use crate::tool::ToolResources;

/// Runs the prompt on the document and stores the proposal. Returns the outcome of the item. An attempt finds the extraction of
/// an earlier attempt, and then calls no model. `item`: the attempt, and the receiver of its progress.
///
/// # Errors
/// Those of [`extraction::run`]; `VERSION_CONFLICT` if another process closed a write.
pub async fn propose_similar(
    resources: &ToolResources,
    principal: &Principal,
    (item, steps): (&ItemRun, watch::Sender<Option<Steps>>),
    run: &AutoCreateRun,
    similar: SimilarPrompt,
) -> Result<Value> {
    let (org, extractions) = (&principal.org, resources.stores.of::<Extraction>());
    let id = ExtractionId::derive(&[org.as_str(), run.proposal.as_str()]);
    let request: RequestId = format!("auto-create-extract-{}", run.proposal).parse()?;
    let op = OpKey::Request { user: principal.user.clone(), request: request.clone() };
    if resources.stores.ops.row(org, &Extraction::target(&id), &op).await?.is_none() {
        let request = Request {
            principal: principal.clone(),
            document: run.document.clone(),
            prompt: similar.prompt.revid.clone(),
            model: None,
            fallback_model: None,
            key: item.ledger_key(1),
            run: Some(request.as_str().to_owned()),
            steps: Some(steps),
        };
        let extracted = extraction::run(resources, request).await?.extraction;
        let write = Write {
            org: org.clone(),
            op,
            // Attempts may run different revisions, of which the first result is stored.
            digest: Digest::of_json(&json!({ "extraction": id })),
            by: principal.user.clone(),
            at: resources.environment.now(),
            expected: Expected::Absent,
            change: ExtractionChange::Create(Box::new(extracted)),
        };
        if let WriteOutcome::Row(row) = extractions.decide(&id, write).await?
            && !matches!(row.state, OpState::Done(_))
        {
            let message = "another process closed the write of the extraction";
            return Err(Error::version_conflict(message));
        }
    }
    let found = extractions.get(org, &id).await?.ok_or_else(|| Error::not_found("extraction", &id))?;
    let proposed = ProposedResources {
        schema: found.schema,
        is_schema_reused: true,
        prompt: found.prompt,
        extraction: found.id,
        document_type: similar.document_type,
        similar: Some(similar.similar),
    };
    store(resources, principal, run, ProposalOutcome::Proposed(proposed), None).await
}
