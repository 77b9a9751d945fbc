//! Op rows and the rows of requests, apart from the writes that make them.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{AskedRow, ClosedAs, OpKey, OpRow, OpState, Target};
use folio_types::{Digest, OrgId, Result, Timestamp};

use super::decide::put_asked;
use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads as _};
use super::value::AskedMark;
use crate::planted::Bug;
use crate::traits::OpStore;

pub(crate) struct Ops(pub(crate) Arc<Engine>);

#[async_trait]
impl OpStore for Ops {
    async fn row(&self, org: &OrgId, target: &Target, op: &OpKey) -> Result<Option<OpRow>> {
        self.0.read(|view| view.read(Space::Records, &keys::op(org, target, op)))
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
        let key = keys::op(org, target, op);
        let state = match closed {
            ClosedAs::Conflict => OpState::Conflict,
            ClosedAs::Aborted => OpState::Aborted,
        };
        let row = OpRow { op: op.clone(), digest: digest.clone(), state, at };
        self.0
            .write(move |transaction| {
                let overwrites = transaction.plan().has(Bug::CloseOverwrites);
                match transaction.read::<OpRow>(Space::Records, &key)? {
                    Some(stands) if !overwrites => Ok(stands),
                    _ => {
                        transaction.put(Space::Records, key, &row)?;
                        Ok(row)
                    }
                }
            })
            .await
    }

    async fn asked(&self, org: &OrgId, op: &OpKey) -> Result<Option<AskedRow>> {
        self.0.read(|view| view.read(Space::Records, &keys::asked(org, op)))
    }

    async fn ask(&self, org: &OrgId, op: &OpKey, row: AskedRow) -> Result<AskedRow> {
        let (org, op) = (org.clone(), op.clone());
        self.0
            .write(move |transaction| {
                let key = keys::asked(&org, &op);
                match transaction.read::<AskedRow>(Space::Records, &key)? {
                    Some(stands) if !transaction.plan().has(Bug::AskedOverwritten) => Ok(stands),
                    _ => put_asked(transaction, &org, &op, key, &row).map(|()| row),
                }
            })
            .await
    }

    async fn forget_asked(&self, before: Timestamp, limit: usize) -> Result<usize> {
        self.0
            .write(move |transaction| {
                let marks: Vec<AskedMark> =
                    transaction.values(Range::prefix(Space::System, keys::asked_marks()), limit)?;
                let old: Vec<_> = marks.into_iter().take_while(|mark| mark.at < before).collect();
                for AskedMark { org, op, at } in &old {
                    transaction.remove(Space::Records, keys::asked(org, op));
                    transaction.remove(Space::System, keys::asked_mark(*at, org, op));
                }
                Ok(old.len())
            })
            .await
    }
}
