//! The handle of a process to passages and their index.

use std::sync::Arc;

use folio_index::PassageIndex;
use folio_jobs::Failpoint;
use folio_passages::ChunkOptions;
use folio_storage::value::ServingSpace;
use folio_storage::{PassageStore, Stores};
use folio_tools::ToolResources;
use folio_types::{OrgId, Result};

use crate::memory::IngestionMemory;
use crate::network::NetworkModes;
use crate::options::{Options, Tokenizers};
use crate::work_permits::WorkPermits;

/// The passages of all organizations: the stores that contain them, and the index that finds them. One instance per process;
/// clones share everything.
#[derive(Clone)]
pub struct Knowledge {
    pub stores: Stores,
    pub index: Arc<dyn PassageIndex>,
    /// Models, meter, clock and outlines.
    pub resources: ToolResources,
    /// The sizes of passages.
    pub chunks: ChunkOptions,
    pub tokenizers: Tokenizers,
    /// The agents of the modes `fast` and `agentic`. None: the process has none.
    pub network: Option<Arc<dyn NetworkModes>>,
    /// Called by an ingestion before and after it stores passages (`passages:before`, `passages:after`), and after it writes them to
    /// the index or requests a rebuild (`index:after`). None: there are no failpoints.
    failpoint: Option<Failpoint>,
    pub(crate) permits: WorkPermits,
    /// The memory of all ingestions of the process.
    pub(crate) memory: IngestionMemory,
}

impl Knowledge {
    /// Creates a handle with default sizes, estimated tokens and without agents.
    pub fn new(resources: ToolResources, index: Arc<dyn PassageIndex>) -> Self {
        Self {
            stores: resources.stores.clone(),
            index,
            resources,
            chunks: ChunkOptions::default(),
            tokenizers: Tokenizers::default(),
            network: None,
            failpoint: None,
            permits: WorkPermits::default(),
            memory: IngestionMemory::new(Options::default().ingestion_bytes),
        }
    }

    /// Returns a handle with other dependencies of tools, such as a meter that a budget pays.
    #[must_use]
    pub fn with_resources(self, resources: ToolResources) -> Self {
        Self { stores: resources.stores.clone(), resources, ..self }
    }

    #[must_use]
    pub fn with_sizes(self, chunks: ChunkOptions, tokenizers: Tokenizers) -> Self {
        Self { chunks, tokenizers, ..self }
    }

    /// Returns a handle whose ingestions use at most these bytes of memory together.
    #[must_use]
    pub fn with_ingestion_bytes(self, bytes: u64) -> Self {
        Self { memory: IngestionMemory::new(bytes), ..self }
    }

    #[must_use]
    pub fn with_network(self, network: Arc<dyn NetworkModes>) -> Self {
        Self { network: Some(network), ..self }
    }

    #[must_use]
    pub fn with_failpoint(self, failpoint: Option<Failpoint>) -> Self {
        Self { failpoint, ..self }
    }

    /// Waits at the failpoint with a name.
    pub(crate) async fn hit(&self, point: &str) {
        if let Some(failpoint) = &self.failpoint {
            failpoint(point).await;
        }
    }

    pub fn passages(&self) -> PassageStore {
        self.stores.passages()
    }

    /// Returns the model and the vector space in which searches of an organization are made. None: no passage has a vector, so
    /// that searches are lexical.
    pub async fn serving_space(&self, org: &OrgId) -> Result<Option<ServingSpace>> {
        self.passages().serving_space(org).await
    }
}

impl std::fmt::Debug for Knowledge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Knowledge").field("chunks", &self.chunks).finish_non_exhaustive()
    }
}
