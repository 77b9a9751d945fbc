//! Who may write to a thread: its owner, and whoever may take it over.

use async_trait::async_trait;
use folio_history::thread::ThreadHeader;
use folio_types::{Error, Incarnation, Liveness, OrgId, Reason, Result, ThreadId};

use crate::shared::{Shared, draining};

/// When a thread whose owner cannot be told may be asked for again.
const ASK_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// What a node knows of the other incarnations. It is never asked about its own.
#[async_trait]
pub trait Owners: Send + Sync {
    /// How an incarnation stands, from what is known at this moment.
    fn liveness(&self, owner: &Incarnation) -> Liveness;

    /// The same after another look, where there is somebody to ask: before a thread is said to be another's, and where a
    /// draining owner cannot be asked any more.
    async fn liveness_now(&self, owner: &Incarnation) -> Liveness {
        self.liveness(owner)
    }

    /// Asks an owner that drains whether it still runs the thread.
    async fn holds(&self, owner: &Incarnation, org: &OrgId, thread: &ThreadId) -> Result<bool>;

    /// Whether this node is the one that looks after the thread while nobody owns it, so that not every node does.
    async fn placed_here(&self, org: &OrgId, thread: &ThreadId) -> bool;

    /// Comes back once an incarnation is found to be gone that was not before: its turns are to be found soon.
    async fn one_is_gone(&self);
}

/// One process alone: every other incarnation is an earlier life of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct AloneOwners;

#[async_trait]
impl Owners for AloneOwners {
    fn liveness(&self, _owner: &Incarnation) -> Liveness {
        Liveness::Dead
    }

    async fn holds(&self, _owner: &Incarnation, _org: &OrgId, _thread: &ThreadId) -> Result<bool> {
        Ok(false)
    }

    async fn placed_here(&self, _org: &OrgId, _thread: &ThreadId) -> bool {
        true
    }

    async fn one_is_gone(&self) {
        std::future::pending().await
    }
}

impl Shared {
    /// Whether a header names this very incarnation as its owner.
    pub(crate) fn owns(&self, header: &ThreadHeader) -> bool {
        header.owner.as_ref() == Some(self.incarnation())
    }

    /// Whether this node may write to a thread with this header: it owns it, or may take it over. Else `MOVED` with the
    /// owner, or `UNAVAILABLE` where nobody can tell, or where the node takes nothing new.
    pub(crate) async fn may_own(&self, header: &ThreadHeader) -> Result<()> {
        if self.owns(header) {
            return Ok(());
        }
        let held = match &header.owner {
            None => false,
            Some(owner) => self.is_held(owner, header).await?,
        };
        match &header.owner {
            Some(owner) if held => Err(Error::moved(owner)),
            _ if self.is_draining() => Err(draining()),
            _ => Ok(()),
        }
    }

    /// Whether another incarnation keeps a thread that its header says is its.
    async fn is_held(&self, owner: &Incarnation, header: &ThreadHeader) -> Result<bool> {
        let liveness = match self.owners().liveness(owner) {
            Liveness::Live => self.owners().liveness_now(owner).await,
            other => other,
        };
        match liveness {
            Liveness::Live => Ok(true),
            Liveness::Dead => Ok(false),
            Liveness::Unknown => Err(nobody_can_tell()),
            Liveness::Draining => match self.still_holds(owner, header).await {
                Some(holds) => Ok(holds),
                // It may have left meanwhile.
                None if self.owners().liveness_now(owner).await == Liveness::Dead => Ok(false),
                None => Err(nobody_can_tell()),
            },
        }
    }

    /// What a draining owner says; none where it does not answer.
    async fn still_holds(&self, owner: &Incarnation, header: &ThreadHeader) -> Option<bool> {
        let asked = self.owners().holds(owner, &header.org, &header.id);
        match tokio::time::timeout(self.options.store_timeout, asked).await {
            Ok(Ok(holds)) => Some(holds),
            Ok(Err(error)) => {
                tracing::debug!(%owner, %error, "a draining owner cannot be asked");
                None
            }
            Err(_) => None,
        }
    }

    /// Whether the sweep of this node looks after a thread: it owns it, or nobody does and it was placed here.
    pub(crate) async fn looks_after(&self, org: &OrgId, thread: &ThreadId, header: Option<&ThreadHeader>) -> bool {
        let owner = header.and_then(|header| header.owner.as_ref());
        match owner {
            _ if self.is_draining() => false,
            Some(owner) if owner == self.incarnation() => true,
            Some(owner) if self.owners().liveness(owner) != Liveness::Dead => false,
            _ => self.owners().placed_here(org, thread).await,
        }
    }
}

fn nobody_can_tell() -> Error {
    Error::unavailable(Reason::StoreUnavailable, "whether the owner of the thread lives cannot be told now")
        .retry_after(ASK_AGAIN)
}
