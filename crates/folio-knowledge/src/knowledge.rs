//! The handle of a process to passages and their index.

use std::sync::Arc;

use folio_index::PassageIndex;
use folio_storage::{PassageStore, Stores};
use folio_tools::ToolResources;

/// The passages of all organizations: the stores that contain them, and the index that finds them. One instance per process;
/// cheap to clone.
#[derive(Clone)]
pub struct Knowledge {
    pub stores: Stores,
    pub index: Arc<dyn PassageIndex>,
    /// Models, meter, clock and outlines.
    pub resources: ToolResources,
}

impl Knowledge {
    pub fn new(resources: ToolResources, index: Arc<dyn PassageIndex>) -> Self {
        Self { stores: resources.stores.clone(), index, resources }
    }

    pub fn passages(&self) -> PassageStore {
        self.stores.passages()
    }
}

impl std::fmt::Debug for Knowledge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Knowledge")
    }
}
