//! Erasure of organizations: removes all keys that begin with the organization, and the system keys that contain it.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{OrgId, Result};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads};
use folio_storage::{ErasureStore, is_owned_by};

/// Maximum number of keys that one transaction removes.
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
        self.remove(all, move |key| is_owned_by(&orgs, &String::from_utf8_lossy(key))).await
    }
}

impl Erasures {
    async fn remove<F>(&self, mut range: Range, wanted: F) -> Result<()>
    where
        F: Fn(&[u8]) -> bool + Clone + Send + 'static,
    {
        loop {
            let (read_range, wanted) = (range.clone(), wanted.clone());
            let found = self
                .0
                .scan(move |view| view.select(read_range, KEYS_AT_ONCE, |key, _| Ok(wanted(key).then(|| key.to_vec()))))
                .await?;
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

#[cfg(feature = "dump")]
pub(crate) fn everything(engine: &Engine) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for space in [Space::Records, Space::Threads, Space::Text, Space::System] {
        let all = Range { space, start: Vec::new(), end: vec![u8::MAX], reverse: false };
        let row = |key: &[u8], value: &[u8]| {
            Ok(Some(format!("{} {}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))))
        };
        found.extend(engine.read(|view| view.select(all, usize::MAX, row))?);
    }
    Ok(found)
}
