//! The ingestion network: tools with which agents turn a document into passages, and the steps that jobs make without agents.
//!
//! | part | task |
//! |---|---|
//! | [`SummaryPlan`] | the parts of a document that have summaries (pure) |
//! | [`summarize()`] | summaries without an agent: mode `fast` |
//! | [`NetworkRun`] | the thread of a run of the network: mode `agentic` |
//! | `ingestion_status`, `summary_store`, `chunk_generate`, `rag_chunk_index` | the tools of the network |
//! | [`PassageIngester`] | port to the chunks and passages of documents |
//!
//! The subject of a turn names the run, and the thread of the run has one document. No argument of a tool names another
//! document, so that instructions in a document can neither read nor change another one.

mod chunks;
mod index;
mod message;
mod parts;
mod plan;
mod port;
mod run;
mod status;
mod store;
mod summarize;

use folio_resources::Document;
use folio_types::op::{Expected, OpKey, OpResult, OpRow, OpState, Target, WriteOutcome};
use folio_types::profile::{Subject, SubjectKind};
use folio_types::{Digest, IngestionId};
use serde_json::Value;

use crate::decide::into_result;
use crate::documents;
use crate::tool::{CallContext, Plan, Tool, ToolError};

pub use parts::{DocumentSummaries, SUMMARY_CHARS, document_summaries};
pub use plan::{SUMMARIZED_SECTIONS_MAX, SummaryPlan, SummaryStep};
pub use port::{ChunkOverrides, GeneratedChunks, IndexCall, NoPassages, PassageIngester};
pub use run::{NetworkEnd, NetworkJob, NetworkRun};
pub use summarize::{SUMMARY_OPERATION, SummaryReport, SummaryRun, summarize};

pub(crate) fn tools() -> Vec<Tool> {
    vec![status::tool(), store::tool(), chunks::tool(), index::tool()]
}

/// Returns the run of the turn, and its document.
async fn of_turn(context: &CallContext) -> Result<(IngestionId, Document), ToolError> {
    let Some(Subject::Ingestion(run)) = &context.subject else {
        let text = "This tool works in runs that ingest a document only. Do not call it here.";
        return Err(ToolError::ForModel(text.to_owned()));
    };
    Ok((run.clone(), documents::of_conversation(context).await?))
}

/// Plans a write of a run. The target is the run, which is no resource: the op row of the call is the deciding write.
fn plan_write(run: &IngestionId, resolved: Value) -> Plan {
    Plan { target: Target::new(SubjectKind::Ingestion.as_str(), run), expected: Expected::Absent, resolved }
}

/// Records that a write of a run succeeded, after its effect, which a repetition does not change. `id`: that of the written part.
///
/// # Errors
/// `Conflict` if another process closed the call.
async fn record(context: &CallContext, arguments: &Value, plan: &Plan, id: String) -> Result<OpResult, ToolError> {
    let state = OpState::Done(OpResult::Resource { id, name: String::new() });
    let (op, at) = (OpKey::Call(context.call.clone()), context.resources.environment.now());
    let row = OpRow { op, digest: Digest::of_json(arguments), state, at };
    let row = context.resources.stores.ops.close(&context.principal.org, &plan.target, row).await?;
    into_result(WriteOutcome::Row(row))
}
