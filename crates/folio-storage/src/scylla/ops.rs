//! Op rows and the rows of requests, apart from the writes that make them.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{AskedRow, ClosedAs, OpKey, OpRow, OpState, Target};
use folio_types::{Digest, OrgId, Result, Timestamp};

use super::keyspace::Keyspace;
use super::session::{Sent, Strength};
use super::table::Part;
use super::{asked, retry};
use crate::planted::Bug;
use crate::traits::OpStore;
use crate::value::{decode, encode};

/// The op row that stands beside a target.
pub(crate) async fn row(
    keyspace: &Keyspace,
    org: &OrgId,
    target: &str,
    op: &str,
    strength: Strength,
) -> Result<Option<OpRow>> {
    let Keyspace { cql, tables, .. } = keyspace;
    let found = tables.aggregates.row(cql, org, target, (Part::Op, op), strength).await?;
    found.map(|bytes| decode(&bytes)).transpose()
}

/// Inserts an op row as closed unless one stands; gives the row that stands then.
pub(crate) async fn close(keyspace: &Keyspace, org: &OrgId, target: &str, row: OpRow) -> Result<OpRow> {
    let aggregates = &keyspace.tables.aggregates;
    let op = row.op.to_string();
    let value = encode(&row)?;
    for attempt in 0..retry::ATTEMPTS {
        let insert = aggregates.insert_once(org, target, (Part::Op, &op), value.clone());
        match keyspace.commit(vec![insert]).await? {
            Sent::Applied => return Ok(row),
            Sent::Refused | Sent::Unknown(_) => {
                if let Some(stands) = self::row(keyspace, org, target, &op, Strength::Serial).await? {
                    if keyspace.has(Bug::CloseOverwrites) {
                        keyspace.commit(vec![aggregates.replace(org, target, (Part::Op, &op), value)]).await?;
                        return Ok(row);
                    }
                    return Ok(stands);
                }
            }
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("an op row"))
}

/// Closes an op of a request that began something and never came back. What the request asked for is not known here.
pub(crate) async fn close_of_another(keyspace: &Keyspace, org: &OrgId, target: &str, op: OpKey) -> Result<()> {
    let closed = OpRow { op, digest: unknown_digest(), state: OpState::Aborted, at: keyspace.now() };
    close(keyspace, org, target, closed).await.map(|_| ())
}

/// Whether an op row was closed by one who did not know what was asked for: it is the answer to whatever that was.
pub(crate) fn is_closed_by_another(row: &OpRow) -> bool {
    matches!(row.state, OpState::Aborted) && row.digest == unknown_digest()
}

/// No request has it: a digest is taken of a request's content, which is never empty.
fn unknown_digest() -> Digest {
    Digest::of(b"")
}

pub(crate) struct Ops(pub(crate) Arc<Keyspace>);

#[async_trait]
impl OpStore for Ops {
    async fn row(&self, org: &OrgId, target: &Target, op: &OpKey) -> Result<Option<OpRow>> {
        row(&self.0, org, &target.to_string(), &op.to_string(), Strength::Serial).await
    }

    async fn close(
        &self,
        org: &OrgId,
        target: &Target,
        op: &OpKey,
        digest: &Digest,
        closed: ClosedAs,
        at: Timestamp,
    ) -> Result<OpRow> {
        let state = match closed {
            ClosedAs::Conflict => OpState::Conflict,
            ClosedAs::Aborted => OpState::Aborted,
        };
        let row = OpRow { op: op.clone(), digest: digest.clone(), state, at };
        close(&self.0, org, &target.to_string(), row).await
    }

    async fn asked(&self, org: &OrgId, op: &OpKey) -> Result<Option<AskedRow>> {
        asked::stands(&self.0, org, op).await
    }

    async fn ask(&self, org: &OrgId, op: &OpKey, row: AskedRow) -> Result<AskedRow> {
        asked::ask(&self.0, org, op, row).await
    }

    async fn forget_asked(&self, before: Timestamp, limit: usize) -> Result<usize> {
        asked::forget(&self.0, before, limit).await
    }
}
