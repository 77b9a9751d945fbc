//! The bound on the memory of the ingestions of a process: passages with their vectors, from the division of a text until the index
//! contains them.

use std::time::Duration;

use folio_permits::{Amount, Permit, Permits};
use folio_types::{Error, OrgId, Reason, Result};
use tokio::time::Instant;

use crate::vectors::Target;

/// Texts of a passage in memory at the same time: those of its chunk, of its row and of its entry in the index.
const TEXTS: u64 = 3;
/// Vectors of a passage in memory at the same time: the stored and the new one.
const VECTORS: u64 = 2;
/// Dimensions of a model that states none.
const DIMENSIONS: u32 = 1_536;
/// Time between two attempts to reserve memory.
const PAUSE: Duration = Duration::from_millis(200);
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The memory of the ingestions of a process. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct IngestionMemory {
    permits: Permits<OrgId>,
    /// Maximum bytes of the documents of one organization. A document that needs more counts as this number.
    organization: u64,
}

impl IngestionMemory {
    /// `total`: the maximum bytes of the documents that a process ingests at the same time, half of them of one organization.
    pub(crate) fn new(total: u64) -> Self {
        let of = |bytes| Amount { permits: usize::MAX, bytes };
        let organization = total / 2;
        Self { permits: Permits::without_queue(of(total), of(organization)), organization }
    }

    /// Reserves memory until the permit is dropped. `wait`: the maximum time for which the call waits for other ingestions.
    ///
    /// # Errors
    /// `OVERLOADED`, so that a job waits.
    pub(crate) async fn reserve(&self, org: &OrgId, bytes: u64, wait: Duration) -> Result<Permit<OrgId>> {
        let end = Instant::now() + wait;
        loop {
            if let Ok(permit) = self.permits.try_acquire(org, bytes.min(self.organization)) {
                return Ok(permit);
            }
            if Instant::now() >= end {
                let message = "the ingestions in progress use the memory of the process; repeat the request later";
                return Err(Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_AFTER));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Returns the bytes that the ingestion of passages needs. `texts`: the size of the text and the padding of each passage.
pub(crate) fn needed_bytes(texts: impl Iterator<Item = usize>, targets: &[Target]) -> u64 {
    let dimensions = |target: &Target| if target.dimensions == 0 { DIMENSIONS } else { target.dimensions };
    let dimensions: u64 = targets.iter().map(dimensions).map(u64::from).fold(0, u64::saturating_add);
    let of_vectors = dimensions.saturating_mul(4).saturating_mul(VECTORS);
    let of_passage = |text: usize| u64::try_from(text).unwrap_or(u64::MAX).saturating_mul(TEXTS);
    texts.map(of_passage).fold(0, |sum, text| sum.saturating_add(text).saturating_add(of_vectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(dimensions: u32) -> Target {
        Target { model: "m".to_owned(), space: "s".to_owned(), input_tokens: 0, dimensions }
    }

    #[test]
    fn texts_and_vectors_need_memory() {
        assert_eq!(needed_bytes([].into_iter(), &[target(8)]), 0);
        assert_eq!(needed_bytes([10, 20].into_iter(), &[]), 90);
        assert_eq!(needed_bytes([10].into_iter(), &[target(8), target(0)]), 30 + 4 * 2 * (8 + 1_536));
        assert_eq!(needed_bytes([usize::MAX, usize::MAX].into_iter(), &[target(u32::MAX)]), u64::MAX);
    }

    #[tokio::test]
    async fn an_organization_uses_a_part_of_the_memory_and_waits_for_it() {
        let (memory, org) = (IngestionMemory::new(1_000), |name: &str| OrgId::derive(&[name]));
        let reserve = |name: &str, bytes| {
            let (memory, org) = (memory.clone(), org(name));
            async move { memory.reserve(&org, bytes, Duration::ZERO).await }
        };
        let first = reserve("a", u64::MAX).await.unwrap();
        assert_eq!(reserve("a", 1).await.unwrap_err().reason, Reason::Overloaded);
        let other = reserve("b", 500).await.unwrap();
        assert!(reserve("c", 1).await.is_err(), "the process has no memory left");
        drop(other);
        let _rest = reserve("c", 1).await.unwrap();
        let waits = async { memory.reserve(&org("a"), 1, Duration::from_secs(20)).await.is_ok() };
        let (is_reserved, ()) = tokio::join!(waits, async { drop(first) });
        assert!(is_reserved);
    }
}
