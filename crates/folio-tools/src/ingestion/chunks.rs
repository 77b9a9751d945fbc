//! The tool `chunk_generate`. It computes chunks and records their options, number and digest; it stores no text and indexes nothing.

use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::Document;
use folio_storage::{ChunkSet, Stores};
use folio_types::profile::CHUNK_BUILDER_PROFILE;
use folio_types::{Digest, Error, IngestionId, Result, Timestamp, UnknownFields};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::of_turn;
use super::port::{ChunkOverrides, GeneratedChunks};
use crate::arguments::{self, number, optional, whole};
use crate::tool::{CallContext, ProfileState, ReadTool, Tool, ToolError, ToolKind, ToolOutput};

/// Maximum number of different sets of chunks that a run generates.
// proto: none "the error of the tool states it"
const SETS_PER_RUN_MAX: usize = 16;
/// Digits of a digest in the id of a set.
const ID_DIGITS: usize = 24;
/// Largest sizes that the schema of the tool accepts. The options of chunks have smaller bounds, which depend on each other.
const TOKENS_MAX: u32 = 100_000;

pub(super) fn tool() -> Tool {
    let sizes = |what: &str| number(&format!("{what} Default: the setting of the server."), 0, TOKENS_MAX);
    Tool::new(
        "chunk_generate",
        "Divides the document of this run into chunks, with its summaries and dictionary entries as context, and checks their number \
         and sizes. Nothing is indexed: pass the chunks_id to rag_chunk_index. Call it after the summaries are stored, because later \
         changes make the chunks invalid. Result: chunks_id, chunks (their number), tokens (of all texts), tokens_max (of the longest \
         one), padding_cut (number of chunks whose context did not fit), window, overlap, context, counting (exact or estimated).",
        vec![
            optional("window", sizes("Maximum tokens of the text of a chunk, 32 to 8192.")),
            optional("overlap", sizes("Tokens that a chunk repeats from the one before, less than a half of window.")),
            optional("context", sizes("Maximum tokens of the context of a chunk, at most 2048; 0: no context.")),
        ],
        ToolKind::Read(Arc::new(Generate)),
    )
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(default, deserialize_with = "whole")]
    window: Option<u32>,
    #[serde(default, deserialize_with = "whole")]
    overlap: Option<u32>,
    #[serde(default, deserialize_with = "whole")]
    context: Option<u32>,
}

/// The sets of chunks that a thread has generated, the newest last. Their records and texts are not a part of the state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct GeneratedSets {
    #[serde(default)]
    chunks_ids: Vec<String>,
}

impl ProfileState for GeneratedSets {
    const PROFILE: &'static str = CHUNK_BUILDER_PROFILE;
}

struct Generate;

#[async_trait]
impl ReadTool for Generate {
    async fn run(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        let Arguments { window, overlap, context: padding } = arguments::parse(&arguments)?;
        let (run, document) = of_turn(context).await?;
        let resources = &context.resources;
        let overrides = ChunkOverrides { window, overlap, padding };
        let generated = resources.passages.chunks(resources, &document, overrides).await?;
        if generated.chunking.chunks.is_empty() {
            return Err(ToolError::ForModel("The document has no text that could become a chunk.".to_owned()));
        }
        let (generated, digest) = generated.with_digest().await?;
        let set = set_of(&run, &document, (&generated, digest), resources.environment.now())?;
        remember(&resources.stores, &document, &set).await?;
        let mut state: GeneratedSets = context.state()?;
        state.chunks_ids.retain(|id| *id != set.id);
        state.chunks_ids.push(set.id.clone());
        let surplus = state.chunks_ids.len().saturating_sub(SETS_PER_RUN_MAX);
        state.chunks_ids.drain(..surplus);
        ToolOutput::new(result(&set, &generated)).with_state(&state)
    }
}

/// Returns the record of chunks.
fn set_of(
    run: &IngestionId,
    document: &Document,
    (generated, digest): (&GeneratedChunks, Digest),
    at: Timestamp,
) -> Result<ChunkSet> {
    let no_generation = || Error::internal("a text that is ready has no generation");
    let GeneratedChunks { options, chunking } = generated;
    let text_generation = document.text_generation.ok_or_else(no_generation)?;
    let identity = json!([run, document.id, text_generation.to_string(), options, digest]);
    let id = Digest::of_json(&identity);
    Ok(ChunkSet {
        id: format!("chk_{}", id.as_str().get(..ID_DIGITS).unwrap_or_default()),
        run: run.clone(),
        text_generation,
        window: options.window,
        overlap: options.overlap,
        padding: options.padding,
        chunks: u32::try_from(chunking.chunks.len()).unwrap_or(u32::MAX),
        tokens: chunking.chunks.iter().map(|chunk| chunk.tokens).fold(0, u64::saturating_add),
        digest,
        is_indexed: false,
        created_at: at,
        unknown: UnknownFields::default(),
    })
}

/// Stores the record of chunks, unless it exists.
async fn remember(stores: &Stores, document: &Document, set: &ChunkSet) -> Result<(), ToolError> {
    let (sets, org) = (stores.chunk_sets(), &document.org);
    let of_run: Vec<ChunkSet> =
        sets.list(org, &document.id).await?.into_iter().filter(|found| found.run == set.run).collect();
    if of_run.iter().any(|found| found.id == set.id) {
        return Ok(());
    }
    if of_run.len() >= SETS_PER_RUN_MAX {
        let ids: Vec<&str> = of_run.iter().map(|found| found.id.as_str()).collect();
        let text = format!(
            "This run has generated {SETS_PER_RUN_MAX} different sets of chunks, which is the maximum. Use one of them: {}.",
            ids.join(", ")
        );
        return Err(ToolError::ForModel(text));
    }
    sets.put(org, &document.id, set).await?;
    // The clean-up of a deletion may have been earlier than the write.
    if stores.of::<Document>().get(org, &document.id).await?.is_none() {
        sets.remove_document(org, &document.id).await?;
    }
    Ok(())
}

fn result(set: &ChunkSet, generated: &GeneratedChunks) -> Value {
    let chunks = &generated.chunking.chunks;
    json!({
        "chunks_id": set.id,
        "chunks": set.chunks,
        "tokens": set.tokens,
        "tokens_max": chunks.iter().map(|chunk| chunk.tokens).max(),
        "padding_cut": chunks.iter().filter(|chunk| chunk.is_padding_cut).count(),
        "window": set.window,
        "overlap": set.overlap,
        "context": set.padding,
        "counting": generated.chunking.counting,
    })
}
