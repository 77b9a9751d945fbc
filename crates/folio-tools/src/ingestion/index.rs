//! The tool `rag_chunk_index`. It indexes chunks that the run has generated, and no text of a model.
//!
//! | step | after a crash right after it |
//! |---|---|
//! | compute the chunks again, and compare their digest | repeated |
//! | make them the passages of the document | repeated: the passages of a document are replaced as a whole |
//! | mark the record as indexed | repeated |
//! | op row of the call | the recorded result |

use std::sync::Arc;

use async_trait::async_trait;
use folio_storage::ChunkSet;
use folio_types::op::{OpResult, Target};
use folio_types::{IngestionId, Reason};
use serde::Deserialize;
use serde_json::{Value, json};

use super::port::{ChunkOverrides, IndexCall};
use super::{of_turn, plan_write, record};
use crate::arguments::{self, required, text};
use crate::decide::recorded_result;
use crate::rules::excerpt;
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolKind, ToolOutput, WriteTool};

pub(super) fn tool() -> Tool {
    let tool = Tool::new(
        "rag_chunk_index",
        "Makes generated chunks the searchable passages of the document of this run. They replace all earlier passages of the \
         document. Call it once, last, with the chunks_id of chunk_generate. It fails if the text, a summary or the dictionary has \
         changed since. Result: indexed (the chunks_id).",
        vec![required("chunks_id", text("Id from chunk_generate of this run, such as chk_…."))],
        ToolKind::Write(Arc::new(IndexChunks)),
    );
    Tool { calls_models: true, ..tool }
}

#[derive(Deserialize)]
struct Arguments {
    chunks_id: String,
}

struct IndexChunks;

/// Returns the chunks with an id. The run must have generated them.
fn generated<'s>(sets: &'s [ChunkSet], run: &IngestionId, id: &str) -> Result<&'s ChunkSet, ToolError> {
    let of_run = sets.iter().filter(|set| set.run == *run);
    if let Some(found) = of_run.clone().find(|set| set.id == id) {
        return Ok(found);
    }
    let newest = of_run.max_by_key(|set| set.created_at);
    let known = newest.map_or_else(
        || "It has generated none: call chunk_generate first.".to_owned(),
        |set| format!("The newest chunks of this run are {}.", set.id),
    );
    Err(ToolError::ForModel(format!("chunks_id {:?} is not of this run. {known}", excerpt(id))))
}

/// Returns the error for chunks that differ from the generated ones.
fn changed() -> ToolError {
    let text = "The text, a summary or the dictionary has changed since chunk_generate, so nothing was indexed. Call chunk_generate \
                again, and index the new chunks_id.";
    ToolError::ForModel(text.to_owned())
}

#[async_trait]
impl WriteTool for IndexChunks {
    async fn plan(&self, context: &CallContext, arguments: &Value) -> Result<Plan, ToolError> {
        let Arguments { chunks_id } = arguments::parse(arguments)?;
        let (run, document) = of_turn(context).await?;
        let sets = context.resources.stores.chunk_sets().list(&document.org, &document.id).await?;
        let set = generated(&sets, &run, &chunks_id)?;
        if document.text_generation != Some(set.text_generation) {
            return Err(changed());
        }
        Ok(plan_write(&run, Value::Null))
    }

    async fn run(&self, context: &CallContext, arguments: &Value, plan: &Plan) -> Result<ToolOutput, ToolError> {
        if let Some(result) = recorded_result(context, arguments, &plan.target).await? {
            return Ok(self.output(&plan.target, result, arguments));
        }
        let Arguments { chunks_id } = arguments::parse(arguments)?;
        let (run, document) = of_turn(context).await?;
        let resources = &context.resources;
        let store = resources.stores.chunk_sets();
        let sets = store.list(&document.org, &document.id).await?;
        let set = generated(&sets, &run, &chunks_id)?;
        let (window, overlap, padding) = (Some(set.window), Some(set.overlap), Some(set.padding));
        let overrides = ChunkOverrides { window, overlap, padding };
        let chunks = resources.passages.chunks(resources, &document, overrides).await?;
        let (chunks, digest) = chunks.with_digest().await?;
        if document.text_generation != Some(set.text_generation) || digest != set.digest {
            return Err(changed());
        }
        // A call may be repeated in the same epoch; a random part keeps the keys of its model calls unique.
        let random = resources.environment.random() >> 96;
        let key = format!("{}.{}.{random:08x}", context.call, context.epoch);
        let call = IndexCall { principal: context.principal.clone(), key };
        let indexed = resources.passages.index(resources, &call, &document, chunks).await;
        indexed.map_err(|error| match error.reason {
            Reason::VersionConflict => changed(),
            _ => error.into(),
        })?;
        store.put(&document.org, &document.id, &ChunkSet { is_indexed: true, ..set.clone() }).await?;
        let result = record(context, arguments, plan, chunks_id).await?;
        Ok(self.output(&plan.target, result, arguments))
    }

    fn output(&self, _: &Target, result: OpResult, _: &Value) -> ToolOutput {
        let indexed = match result {
            OpResult::Resource { id, .. } => id,
            _ => String::new(),
        };
        ToolOutput::new(json!({ "indexed": indexed }))
    }
}

#[cfg(test)]
mod tests {
    use folio_types::{Digest, Timestamp, UnknownFields};

    use super::*;

    #[test]
    fn only_chunks_of_the_run_are_found() {
        let [run, other] = ["run", "other"].map(|name| IngestionId::derive(&[name]));
        let set = |id: &str, run: &IngestionId, second| ChunkSet {
            id: id.to_owned(),
            run: run.clone(),
            text_generation: Timestamp::UNIX_EPOCH,
            window: 200,
            overlap: 30,
            padding: 120,
            chunks: 1,
            tokens: 1,
            digest: Digest::of(b""),
            is_indexed: false,
            created_at: Timestamp::constant(second, 0),
            unknown: UnknownFields::default(),
        };
        let sets = [set("chk_a", &run, 2), set("chk_b", &run, 1), set("chk_c", &other, 3)];
        assert_eq!(generated(&sets, &run, "chk_b").unwrap().id, "chk_b");
        let error = generated(&sets, &run, "chk_c").unwrap_err().to_string();
        assert_eq!(error, "chunks_id \"chk_c\" is not of this run. The newest chunks of this run are chk_a.");
        let error = generated(&sets[2..], &run, "chk_c").unwrap_err().to_string();
        assert!(error.ends_with("call chunk_generate first."), "{error}");
    }
}
