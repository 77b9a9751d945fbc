//! The passages of documents and the index of a process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_index::EmbeddedIndex;
use folio_jobs::JobHints;
use folio_knowledge::{Knowledge, Tokenizers};
use folio_tools::ToolResources;
use folio_tools::images::ImageSource;
use folio_tools::ingestion::NoPassages;
use folio_tools::retrieval::NoRetriever;
use folio_tools::sections::OutlineCache;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use super::SharedComponents;
use super::cluster::Cluster;
use super::passage_index::{self, OpenIndex};
use crate::settings::Settings;

/// Beginning of the names of temporary folders of indexes.
const TEMPORARY_PREFIX: &str = "folio-index-";
/// Age of a temporary folder from which it may be removed.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);
/// Name of the folder of the index in the data folder.
const FOLDER: &str = "index";

/// The handle of this process, with its index.
pub(crate) struct OpenKnowledge {
    pub(crate) knowledge: Knowledge,
    pub(crate) index: OpenIndex,
    /// None: the index remains after the end of the process.
    _temporary: Option<TempDir>,
}

/// Opens the index of this process. In a cluster without the setting `index.folder`, the folder is temporary: the index is built
/// from the stores after each start. `cluster`: the cluster, if the process is a part of one, and the address at which its node
/// listens, if it is a node. `images`: the images of documents, if the process reads them.
pub(crate) async fn open(
    settings: &Settings,
    base: &SharedComponents,
    hints: &JobHints,
    cluster: Option<(&Cluster, Option<SocketAddr>)>,
    images: Arc<dyn ImageSource>,
) -> Result<OpenKnowledge> {
    let mut temporary = None;
    let index = passage_index::open(settings, base, cluster, || {
        let (folder, created) = folder(settings)?;
        temporary = created;
        Ok(folder)
    });
    let index = index.await.context("the index of passages cannot be opened")?;
    let resources = ToolResources {
        stores: base.stores.clone(),
        models: base.models.clone(),
        meter: base.meter.clone(),
        environment: Arc::clone(&base.environment),
        extraction: settings.extraction.clone(),
        job_limits: settings.jobs,
        job_hints: hints.queue(),
        mcp: Arc::new(base.mcp.clone()),
        passages: Arc::new(NoPassages),
        outlines: OutlineCache::default(),
        // The jobs of a node have the retriever of this index.
        retriever: Arc::new(NoRetriever),
        images,
        tasks: TaskTracker::new(),
    };
    let tokenizers = Tokenizers::read(&settings.index.tokenizers)?;
    let knowledge = Knowledge::new(resources, Arc::clone(&index.index)).with_sizes(settings.index.chunks(), tokenizers);
    let knowledge = knowledge.with_ingestion_bytes(settings.index.ingestion_bytes);
    Ok(OpenKnowledge { knowledge, index, _temporary: temporary })
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
    remove_abandoned(&parent);
    let temporary = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempdir_in(parent)?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}

/// Removes the temporary folders of processes that were killed.
fn remove_abandoned(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
        if is_temporary
            && EmbeddedIndex::is_abandoned(&entry.path(), ABANDONED_AFTER)
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, folder = %entry.path().display(), "an index of a former process cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_old_folders_of_indexes_that_no_process_uses_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let create = |name: &str, age: Duration| {
            let folder = parent.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            let lock = std::fs::File::create(folder.join("lock")).unwrap();
            lock.set_modified(SystemTime::now() - age).unwrap();
            lock
        };
        let day = Duration::from_secs(24 * 60 * 60);
        drop(create("folio-index-old", day));
        drop(create("folio-index-new", Duration::ZERO));
        drop(create("other", day));
        let used = create("folio-index-used", day);
        used.lock().unwrap();
        remove_abandoned(parent.path());
        let mut left: Vec<_> =
            std::fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["folio-index-new", "folio-index-used", "other"]);
    }
}
