//! Erasure of organizations: all keys that begin with the organization, and the system keys that contain it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{OrgId, Result};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads};
use folio_storage::ErasureStore;

/// Number of keys that one transaction removes.
const KEYS_AT_ONCE: usize = 1_000;

pub(crate) struct Erasures(pub(crate) Arc<Engine>);

#[async_trait]
impl ErasureStore for Erasures {
    async fn erase(&self, orgs: &BTreeSet<OrgId>) -> Result<()> {
        for org in orgs {
            for space in [Space::Records, Space::Threads, Space::Text] {
                let range = Range::prefix(space, keys::all_of(org));
                self.remove(range, |_| true).await?;
            }
        }
        let all = Range { space: Space::System, start: Vec::new(), end: vec![u8::MAX], reverse: false };
        let orgs = orgs.clone();
        self.remove(all, move |key| names_one_of(&orgs, key)).await
    }
}

impl Erasures {
    /// Removes the `wanted` keys of a range, in batches.
    async fn remove<F>(&self, mut range: Range, wanted: F) -> Result<()>
    where
        F: Fn(&[u8]) -> bool + Clone + Send + 'static,
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

fn some_keys(reads: &impl Reads, range: Range, wanted: &impl Fn(&[u8]) -> bool) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    reads.walk(range, &mut |key, _| {
        if wanted(key) {
            found.push(key.to_vec());
        }
        Ok(if found.len() < KEYS_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(found)
}

/// Returns whether a key of a system index belongs to one of these organizations.
fn names_one_of(orgs: &BTreeSet<OrgId>, key: &[u8]) -> bool {
    let key = String::from_utf8_lossy(key);
    let mut parts = key.split('/');
    let names_one = |part: &str| part.parse().is_ok_and(|org: OrgId| orgs.contains(&org));
    match parts.next() {
        // KIND/TIME/ORGANIZATION/ID: the deleted resource may be an organization, whose deletion stays listed.
        Some("deleted") => parts.nth(2).is_some_and(names_one),
        _ => parts.any(names_one),
    }
}

/// Returns every key with its value as text.
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
