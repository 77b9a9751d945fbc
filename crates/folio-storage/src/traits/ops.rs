//! Op rows: the record of an effect, beside what it changed.

use async_trait::async_trait;
use folio_types::op::{ClosedAs, OpKey, OpRow, Target};
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
}
