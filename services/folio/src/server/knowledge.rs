//! The passages of documents and the index of a node.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use folio_index::EmbeddedIndex;
use folio_jobs::JobHints;
use folio_knowledge::{Knowledge, Tokenizers};
use folio_tools::ToolResources;
use folio_tools::retrieval::NoRetriever;
use folio_tools::sections::OutlineCache;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use super::SharedComponents;
use crate::settings::Settings;

/// Name of the folder of the index in the data folder.
const FOLDER: &str = "index";

/// The handle of this process, with the folder of its index.
pub(crate) struct OpenKnowledge {
    pub(crate) knowledge: Knowledge,
    /// None: the index remains after the end of the process.
    _temporary: Option<TempDir>,
}

/// Opens the index of this process. In a cluster without the setting `index.folder`, the folder is temporary: the index is built
/// from the stores after each start.
pub(crate) fn open(settings: &Settings, base: &SharedComponents, hints: &JobHints) -> Result<OpenKnowledge> {
    let (folder, temporary) = folder(settings)?;
    let index =
        EmbeddedIndex::open(folder, settings.index.embedded()).context("the index of passages cannot be opened")?;
    let resources = ToolResources {
        stores: base.stores.clone(),
        models: base.models.clone(),
        meter: base.meter.clone(),
        environment: Arc::clone(&base.environment),
        extraction: settings.extraction.clone(),
        job_limits: settings.jobs,
        job_hints: hints.queue(),
        mcp: Arc::new(base.mcp.clone()),
        outlines: OutlineCache::default(),
        // The jobs of a node have the retriever of this index.
        retriever: Arc::new(NoRetriever),
        tasks: TaskTracker::new(),
    };
    let tokenizers = Tokenizers::read(&settings.index.tokenizers)?;
    let knowledge = Knowledge::new(resources, Arc::new(index)).with_sizes(settings.index.chunks(), tokenizers);
    Ok(OpenKnowledge { knowledge, _temporary: temporary })
}

fn folder(settings: &Settings) -> Result<(PathBuf, Option<TempDir>)> {
    if let Some(folder) = &settings.index.folder {
        return Ok((folder.clone(), None));
    }
    if !settings.storage.is_shared() {
        return Ok((settings.storage.data.join(FOLDER), None));
    }
    let parent = settings.documents.scratch.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent).context("the folder of temporary files cannot be created")?;
    let temporary = tempfile::Builder::new().prefix("folio-index-").tempdir_in(parent)?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}
