//! Op rows, and the idempotency records of requests outside turns.

use async_trait::async_trait;
use folio_types::op::{IdempotencyRecord, OpKey, OpRow, Target};
use folio_types::{OrgId, Result, Timestamp};

use crate::value::OpDataIndexRow;

/// Op rows of every resource. A row outlives the deletion of its resource.
///
/// The data of a result is a row of its own, which is written with the op row. The methods that return an op row add the
/// data to it. An index lists the data, which the clean-up removes a day after the turn, or the request, ended.
#[async_trait]
pub trait OpStore: Send + Sync {
    /// Returns the op row. The read sees every write that was acknowledged before (SERIAL on CQL).
    async fn row(&self, org: &OrgId, target: &Target, op: &OpKey) -> Result<Option<OpRow>>;

    /// Inserts the row of a closed op ([`OpRow::closed`]) unless the op has a row; returns the row that is then stored.
    /// From then on no deciding write of this op can happen. An op whose target is no resource, such as a job, has this
    /// insertion as its deciding write: the row of such an op may state a result.
    async fn close(&self, org: &OrgId, target: &Target, row: OpRow) -> Result<OpRow>;

    /// Returns the idempotency record of an [`OpKey::Request`]; always None for a call.
    ///
    /// Every deciding write under such a key stores this record; a write that finds it with another target or digest is
    /// refused with `REQUEST_ID_CONFLICT`. The embedded store writes both in one transaction. CQL inserts the record
    /// `IF NOT EXISTS` in the request's own partition before the deciding write: the record is valid while the op row
    /// of its target exists or may still be written, and is replaced once that op is closed.
    async fn request(&self, org: &OrgId, op: &OpKey) -> Result<Option<IdempotencyRecord>>;

    /// Inserts the idempotency record of a request unless one exists; returns the record that is then stored. Used for
    /// requests without a deciding write: those that create, rename, fork or remove a thread. A caller that finds
    /// another target or digest refuses with `REQUEST_ID_CONFLICT`. A caller that finds its own continues, because it
    /// may have been stopped after this call.
    async fn record_request(&self, org: &OrgId, op: &OpKey, record: IdempotencyRecord) -> Result<IdempotencyRecord>;

    /// Removes at most `limit` idempotency records before `before`, of all organizations; returns their number. From
    /// then on only the op row of a target recognizes the request. A system index that no request reads.
    async fn forget_requests(&self, before: Timestamp, limit: usize) -> Result<usize>;

    /// Returns at most `limit` rows of the index of data whose time is at or before `before`, of all organizations. A
    /// system index that no request reads.
    async fn indexed_data(&self, before: Timestamp, limit: usize) -> Result<Vec<OpDataIndexRow>>;

    /// Removes rows of the index and the data of their op rows, whose results have null data afterwards.
    async fn remove_data(&self, rows: Vec<OpDataIndexRow>) -> Result<()>;

    /// Replaces a row of the index by one with another time.
    async fn defer_data(&self, before: OpDataIndexRow, after: OpDataIndexRow) -> Result<()>;
}
