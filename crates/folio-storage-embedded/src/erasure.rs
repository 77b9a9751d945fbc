//! Erasing organizations: whatever lies below one is under keys that begin with it; of the system's keys, those that name it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::access::Organization;
use folio_types::token::TokenRecord;
use folio_types::{OrgId, Result, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads};
use super::value::{First, decode};
use folio_storage::ErasureStore;

/// Keys that are removed in one transaction.
const KEYS_AT_ONCE: usize = 1_000;

pub(crate) struct Erasures(pub(crate) Arc<Engine>);

#[async_trait]
impl ErasureStore for Erasures {
    async fn delete(&self, org: &OrgId, at: Timestamp) -> Result<bool> {
        let org = org.clone();
        self.0
            .write(move |transaction| {
                let key = keys::organization(&org);
                let Some(there) = transaction.read::<Organization>(Space::Records, &key)? else { return Ok(false) };
                if there.deleted_at.is_none() {
                    transaction.put(Space::Records, key, &there.tombstone(at))?;
                    transaction.remove(Space::System, keys::listed_organization(&org));
                    transaction.put(Space::System, keys::deleted_organization(&org), &First { org })?;
                }
                Ok(true)
            })
            .await
    }

    async fn deleted(&self, limit: usize) -> Result<Vec<(OrgId, Timestamp)>> {
        self.0
            .scan(move |view| {
                let listed: Vec<First> =
                    view.values(Range::prefix(Space::System, keys::deleted_organizations()), limit)?;
                let at = |First { org }: First| {
                    let there: Option<Organization> = view.read(Space::Records, &keys::organization(&org))?;
                    Ok(there.and_then(|there| there.deleted_at).map(|at| (org, at)))
                };
                listed.into_iter().map(at).filter_map(Result::transpose).collect()
            })
            .await
    }

    async fn erase(&self, orgs: &BTreeSet<OrgId>) -> Result<()> {
        for org in orgs {
            let kept = keys::organization(org);
            for space in [Space::Records, Space::Threads, Space::Text] {
                let kept = kept.clone();
                let range = Range::prefix(space, keys::all_of(org));
                self.remove(range, move |key, _| Ok(space != Space::Records || key != kept)).await?;
            }
        }
        let all = Range { space: Space::System, start: Vec::new(), end: vec![u8::MAX], reverse: false };
        let orgs = orgs.clone();
        self.remove(all, move |key, value| names_one_of(&orgs, key, value)).await
    }

    async fn forget(&self, org: &OrgId) -> Result<()> {
        let key = keys::deleted_organization(org);
        self.0
            .write(move |transaction| {
                transaction.remove(Space::System, key);
                Ok(())
            })
            .await
    }
}

impl Erasures {
    /// Removes the keys of a range that are `wanted`, some at a time.
    async fn remove<F>(&self, mut range: Range, wanted: F) -> Result<()>
    where
        F: Fn(&[u8], &[u8]) -> Result<bool> + Clone + Send + 'static,
    {
        loop {
            let (asked, wanted) = (range.clone(), wanted.clone());
            let found = self.0.scan(move |view| some_keys(view, asked, &wanted)).await?;
            let last = found.last().cloned().filter(|_| found.len() == KEYS_AT_ONCE);
            let space = range.space;
            if !found.is_empty() {
                self.0
                    .write(move |transaction| {
                        found.into_iter().for_each(|key| transaction.remove(space, key));
                        Ok(())
                    })
                    .await?;
            }
            match last {
                Some(last) => range = range.from(last),
                None => return Ok(()),
            }
        }
    }
}

fn some_keys(reads: &impl Reads, range: Range, wanted: &impl Fn(&[u8], &[u8]) -> Result<bool>) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    reads.walk(range, &mut |key, value| {
        if wanted(key, value)? {
            found.push(key.to_vec());
        }
        Ok(if found.len() < KEYS_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(found)
}

/// Whether a key of the system belongs to one of these organizations. What lists the deletion itself stays until it is forgotten.
fn names_one_of(orgs: &BTreeSet<OrgId>, key: &[u8], value: &[u8]) -> Result<bool> {
    let key = String::from_utf8_lossy(key);
    let mut parts = key.split('/');
    match parts.next() {
        Some("deleted_organization") => Ok(false),
        Some("token") => Ok(orgs.contains(&decode::<TokenRecord>(value)?.org)),
        _ => Ok(parts.any(|part| part.parse().is_ok_and(|org: OrgId| orgs.contains(&org)))),
    }
}

/// Every key with its value, as text.
#[cfg(feature = "dump")]
pub(crate) fn everything(engine: &Engine) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for space in [Space::Records, Space::Threads, Space::Text, Space::System] {
        let all = Range { space, start: Vec::new(), end: vec![u8::MAX], reverse: false };
        let mut visit = |key: &[u8], value: &[u8]| {
            found.push(format!("{} {}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)));
            Ok(ControlFlow::Continue(()))
        };
        engine.read(|view| view.walk(all, &mut visit))?;
    }
    Ok(found)
}
