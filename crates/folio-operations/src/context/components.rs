//! The components that operations run on.

use std::sync::Arc;

use folio_accounts::Accounts;
use folio_documents::{CleanupHandle, Uploader};
use folio_history::peer::SharedPeer;
use folio_jobs::JobControl;
use folio_knowledge::Knowledge;
use folio_llm::Models;
use folio_metering::{CreditMeter, SharedMeter};
use folio_providers::Providers;
use folio_resources::quota::Quotas;
use folio_storage::{NodeStore, SharedTurnStore, Stores};
use folio_tools::extraction;
use folio_tools::mcp::McpServers;
use folio_types::Environment;
use tokio_util::task::TaskTracker;

use crate::export_permits::RunningExports;

#[derive(Clone)]
pub struct Components {
    pub stores: Stores,
    /// Reaches the conversations of all nodes.
    pub conversations: SharedPeer,
    /// The open turns, as their owners published them.
    pub open_turns: Arc<dyn SharedTurnStore>,
    /// The membership in the store of `open_turns`. None: no other process uses the store.
    pub nodes: Option<Arc<dyn NodeStore>>,
    pub models: Arc<dyn Models>,
    /// Providers that organizations configure.
    pub providers: Providers,
    /// Calls the MCP servers of organizations.
    pub mcp: Arc<dyn McpServers>,
    /// Counts and charges model calls.
    pub meter: SharedMeter,
    /// Balances and grants.
    pub credit: CreditMeter,
    pub environment: Arc<dyn Environment>,
    /// Bounds of extractions.
    pub extraction: extraction::Options,
    /// The passages of documents and their index. None: this process has no index.
    pub knowledge: Option<Knowledge>,
    /// The jobs of all nodes.
    pub jobs: JobControl,
    pub uploader: Uploader,
    pub exports: RunningExports,
    /// Starts the clean-up after a deletion.
    pub clean_up: CleanupHandle,
    /// Passwords of users. None: the installation has no users that sign in.
    pub accounts: Option<Accounts>,
    /// The quotas of organizations that have no quotas of their own.
    pub quotas: Quotas,
    /// The tasks that outlive a dropped call; the drain waits for them.
    pub tasks: TaskTracker,
}
