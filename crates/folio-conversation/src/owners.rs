//! Write access to a thread: the owner has it, and so does a node that may take over the thread.

use async_trait::async_trait;
use folio_history::thread::ThreadHeader;
use folio_types::{Error, Incarnation, Liveness, OrgId, Reason, Result, ThreadId};

use crate::shared::{Shared, draining};

/// Retry delay of a request on a thread whose owner's liveness is unknown. It adds to the time until the request takes the
/// thread over.
const RETRY_AFTER: std::time::Duration = std::time::Duration::from_millis(500);

/// Liveness of other incarnations. Never queried for this node's own incarnation.
#[async_trait]
pub trait Owners: Send + Sync {
    /// Returns the liveness of an incarnation according to the current membership view.
    fn liveness(&self, owner: &Incarnation) -> Liveness;

    /// Returns the liveness after a refresh of the membership view, if possible. Called before a request is refused
    /// because the owner is live or its liveness is unknown, and if a draining owner does not answer.
    async fn liveness_now(&self, owner: &Incarnation) -> Liveness {
        self.liveness(owner)
    }

    /// Asks a draining owner whether it has work on the thread.
    async fn is_thread_active(&self, owner: &Incarnation, org: &OrgId, thread: &ThreadId) -> Result<bool>;

    /// Returns true if placement assigns a thread without an owner to this node.
    async fn is_placed_here(&self, org: &OrgId, thread: &ThreadId) -> bool;

    /// Completes when an incarnation is newly dead, so that the sweep finds its turns soon.
    async fn wait_for_node_loss(&self);
}

/// Liveness in a single process: every other incarnation is an earlier, dead run of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct SingleProcessOwners;

#[async_trait]
impl Owners for SingleProcessOwners {
    fn liveness(&self, _owner: &Incarnation) -> Liveness {
        Liveness::Dead
    }

    async fn is_thread_active(&self, _owner: &Incarnation, _org: &OrgId, _thread: &ThreadId) -> Result<bool> {
        Ok(false)
    }

    async fn is_placed_here(&self, _org: &OrgId, _thread: &ThreadId) -> bool {
        true
    }

    async fn wait_for_node_loss(&self) {
        std::future::pending().await
    }
}

impl Shared {
    /// Returns true if the header names this incarnation as the owner.
    pub(crate) fn owns(&self, header: &ThreadHeader) -> bool {
        header.owner.as_ref() == Some(&self.dependencies.incarnation)
    }

    /// Checks that this node may write to the thread: it owns the thread or may take it over.
    ///
    /// # Errors
    /// `MOVED` with the owner, or `UNAVAILABLE` if the owner's liveness is unknown or this node drains.
    pub(crate) async fn may_own(&self, header: &ThreadHeader) -> Result<()> {
        if self.owns(header) {
            return Ok(());
        }
        let is_owned = match &header.owner {
            None => false,
            Some(owner) => self.must_stay_with_owner(owner, header).await?,
        };
        match &header.owner {
            Some(owner) if is_owned => Err(Error::moved(owner)),
            _ if self.is_draining() => Err(draining()),
            _ => Ok(()),
        }
    }

    /// Returns true if the thread must not be taken over from the owner in its header.
    async fn must_stay_with_owner(&self, owner: &Incarnation, header: &ThreadHeader) -> Result<bool> {
        let liveness = match self.dependencies.owners.liveness(owner) {
            Liveness::Live | Liveness::Unknown => self.dependencies.owners.liveness_now(owner).await,
            other => other,
        };
        match liveness {
            Liveness::Live => Ok(true),
            Liveness::Dead => Ok(false),
            Liveness::Unknown => Err(liveness_unknown()),
            Liveness::Draining => match self.is_still_active(owner, header).await {
                Some(is_active) => Ok(is_active),
                // The owner may have stopped meanwhile.
                None if self.dependencies.owners.liveness_now(owner).await == Liveness::Dead => Ok(false),
                None => Err(liveness_unknown()),
            },
        }
    }

    /// None: the owner does not answer.
    async fn is_still_active(&self, owner: &Incarnation, header: &ThreadHeader) -> Option<bool> {
        let query = self.dependencies.owners.is_thread_active(owner, &header.org, &header.id);
        self.with_store_timeout(query)
            .await
            .inspect_err(|error| tracing::debug!(%owner, %error, "a draining owner did not answer"))
            .ok()
    }

    /// Returns true if the sweep of this node handles the thread: this node owns it, or no live node does and placement
    /// assigns it to this node.
    pub(crate) async fn is_responsible_for(
        &self,
        org: &OrgId,
        thread: &ThreadId,
        header: Option<&ThreadHeader>,
    ) -> bool {
        let owner = header.and_then(|header| header.owner.as_ref());
        match owner {
            _ if self.is_draining() => false,
            Some(owner) if *owner == self.dependencies.incarnation => true,
            Some(owner) if self.dependencies.owners.liveness(owner) != Liveness::Dead => false,
            _ => self.dependencies.owners.is_placed_here(org, thread).await,
        }
    }
}

fn liveness_unknown() -> Error {
    let message = "the node that owns the thread cannot be reached and is not known to be dead; retry";
    Error::unavailable(Reason::StoreUnavailable, message).retry_after(RETRY_AFTER)
}
