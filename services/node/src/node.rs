//! A node's life: started, serving, drained.

use std::sync::Arc;
use std::time::Duration;

use folio_conversation::{AloneOwners, Conversations, Dependencies, Failpoints, Snapshot};
use folio_llm::Models;
use folio_metering::SharedMeter;
use folio_storage::Stores;
use folio_tools::Registry;
use folio_types::{Environment, Incarnation, Result, Timestamp};

/// Settings of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Settings of its conversations.
    pub conversations: folio_conversation::Options,
}

/// What a node is built on.
#[derive(Clone)]
pub struct NodeParts {
    /// The stores.
    pub stores: Stores,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The meter that sees every model call.
    pub meter: SharedMeter,
    /// Time and randomness.
    pub environment: Arc<dyn Environment>,
}

/// A node: the conversations of this process. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    pub(crate) conversations: Conversations,
    incarnation: Incarnation,
    pub(crate) started_at: Timestamp,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("incarnation", &self.incarnation).finish_non_exhaustive()
    }
}

impl Node {
    /// Starts a node under a fresh incarnation. What an earlier life of this process left running is found and ended
    /// before it comes back.
    pub async fn start(options: Options, parts: NodeParts) -> Result<Self> {
        let incarnation = Incarnation::generate(parts.environment.as_ref());
        let started_at = parts.environment.now();
        let dependencies = Dependencies {
            stores: parts.stores,
            models: parts.models,
            meter: parts.meter,
            tools: Registry::standard()?,
            environment: parts.environment,
            incarnation: incarnation.clone(),
            owners: Arc::new(AloneOwners),
            share: None,
            failpoints: Failpoints::from_environment(),
        };
        let conversations = Conversations::start(dependencies, options.conversations).await?;
        tracing::info!(%incarnation, "node started");
        Ok(Self { conversations, incarnation, started_at })
    }

    /// This life of the node.
    pub fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }

    /// What can be seen of its conversations now.
    pub fn snapshot(&self) -> Snapshot {
        self.conversations.snapshot()
    }

    /// Refuses new work, lets running turns end until the deadline, then stops what is left: it is found and ended as
    /// failed, retriable, at the next start. Waiting turns lose nothing.
    pub async fn drain(&self, deadline: Duration) {
        self.conversations.drain(deadline).await;
        tracing::info!(incarnation = %self.incarnation, "node drained");
    }
}
