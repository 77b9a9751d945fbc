//! Op rows: the record of an effect, beside what it changed; and which target a request outside turns changed.

use async_trait::async_trait;
use folio_types::op::{AskedRow, ClosedAs, OpKey, OpRow, Target};
use folio_types::{Digest, OrgId, Result, Timestamp};

/// Op rows of every aggregate. They outlive the aggregate's deletion.
#[async_trait]
pub trait OpStore: Send + Sync {
    /// The op row that stands, read so that no write answered before is missed (SERIAL on CQL).
    async fn row(&self, org: &OrgId, target: &Target, op: &OpKey) -> Result<Option<OpRow>>;

    /// Inserts the op row as closed unless one stands; gives the row that stands then. From there on no deciding write
    /// of this op can happen.
    async fn close(
        &self,
        org: &OrgId,
        target: &Target,
        op: &OpKey,
        digest: &Digest,
        closed: ClosedAs,
        at: Timestamp,
    ) -> Result<OpRow>;

    /// What the request of an [`OpKey::Request`] stands for, or none (always for a call).
    ///
    /// Every deciding write under such a key leaves this row, and one that finds the row with another target or digest is
    /// refused with `REQUEST_ID_CONFLICT`. A store of one transaction writes both at once. One of partitions (CQL) inserts
    /// it `IF NOT EXISTS` in the request's own partition before the deciding write, as names are reserved: it holds while
    /// the op row at its target stands, or may still come, and is replaced once that one is closed.
    async fn asked(&self, org: &OrgId, op: &OpKey) -> Result<Option<AskedRow>>;

    /// Inserts what a request stands for unless a row of it is there; gives the row that stands then. For requests whose
    /// deciding write is no `decide` (those that make, rename, fork or remove a thread): who finds another target or
    /// digest in the row refuses with `REQUEST_ID_CONFLICT`; who finds its own goes on, for it may have been stopped after
    /// this. On CQL one insert `IF NOT EXISTS` in the request's own partition.
    async fn ask(&self, org: &OrgId, op: &OpKey, row: AskedRow) -> Result<AskedRow>;

    /// Removes rows of requests made before `before`, of all organizations, at most `limit` at once; gives how many. From
    /// then on only the op row beside a target knows a request. A system index, read by no request.
    async fn forget_asked(&self, before: Timestamp, limit: usize) -> Result<usize>;
}
