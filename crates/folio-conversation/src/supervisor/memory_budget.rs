//! The memory budget of a node for the histories of its conversations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use folio_types::{Error, Reason, Result};
use tokio::sync::Notify;

/// Maximum wait for memory or capacity while idle conversations are evicted.
pub(crate) const MEMORY_WAIT: Duration = Duration::from_millis(300);

/// Budget in bytes of journals. Idle conversations are evicted before the budget is exhausted.
pub(crate) struct MemoryBudget {
    bytes_max: u64,
    reserved: AtomicU64,
    /// Notified when bytes are returned.
    freed: Notify,
    /// Notified when the budget is nearly exhausted.
    low_memory: Notify,
}

/// Reservation of one conversation. Dropping it returns its bytes.
pub(crate) struct BudgetReservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl MemoryBudget {
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        let (reserved, freed, low_memory) = (AtomicU64::new(0), Notify::new(), Notify::new());
        Arc::new(Self { bytes_max, reserved, freed, low_memory })
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Reserves bytes for a history. `OVERLOADED` after 300 ms without enough free memory. If nothing else is reserved,
    /// a history of any size is admitted, because the size of a thread is bounded.
    pub(crate) async fn reserve(self: &Arc<Self>, bytes: u64) -> Result<BudgetReservation> {
        let reserving = async {
            loop {
                let mut freed = std::pin::pin!(self.freed.notified());
                // Registers for notifications before it checks the budget, so that it misses no returned bytes.
                freed.as_mut().enable();
                if let Some(reservation) = self.take(bytes) {
                    return reservation;
                }
                self.low_memory.notify_one();
                freed.await;
            }
        };
        let full = |_| {
            let max = self.bytes_max;
            let message = format!("the node's memory budget of {max} bytes for histories is exhausted; retry");
            Error::exhausted(Reason::Overloaded, message).retry_after(Duration::from_secs(1))
        };
        tokio::time::timeout(MEMORY_WAIT, reserving).await.map_err(full)
    }

    fn take(self: &Arc<Self>, bytes: u64) -> Option<BudgetReservation> {
        let fits = |reserved: u64| {
            let after = reserved.saturating_add(bytes);
            (reserved == 0 || after <= self.bytes_max).then_some(after)
        };
        self.reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        self.notify_if_low();
        Some(BudgetReservation { budget: Arc::clone(self), bytes })
    }

    /// Completes when idle conversations must be evicted.
    pub(crate) async fn low_memory(&self) {
        self.low_memory.notified().await;
    }

    /// Returns the bytes to evict so that a quarter of the budget is free.
    pub(crate) fn excess(&self) -> u64 {
        self.reserved().saturating_sub(self.bytes_max - self.bytes_max / 4)
    }

    fn notify_if_low(&self) {
        if self.reserved() > self.bytes_max - self.bytes_max / 8 {
            self.low_memory.notify_one();
        }
    }
}

impl BudgetReservation {
    /// Resizes the reservation. Never refused, because the memory of a running turn is bounded.
    pub(crate) fn resize(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes > before {
            self.budget.reserved.fetch_add(bytes - before, Ordering::AcqRel);
            self.budget.notify_if_low();
        } else if bytes < before {
            self.budget.reserved.fetch_sub(before - bytes, Ordering::AcqRel);
            self.budget.freed.notify_waiters();
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for BudgetReservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn invariant_10_a_reservation_without_memory_waits_briefly_and_is_refused() {
        let budget = MemoryBudget::new(100);
        let one = budget.reserve(60).await.unwrap();
        let error = budget.reserve(41).await.err().unwrap();
        assert_eq!(error.reason, Reason::Overloaded);
        assert!(error.is_retriable());
        let (two, ()) = tokio::join!(budget.reserve(80), async {
            budget.low_memory().await;
            drop(one);
        });
        assert_eq!(two.unwrap().bytes(), 80);
        assert_eq!(budget.reserved(), 0, "a dropped reservation returns its bytes");
    }

    #[tokio::test]
    async fn a_single_history_is_admitted_regardless_of_its_size() {
        let budget = MemoryBudget::new(100);
        let large = budget.reserve(500).await.unwrap();
        assert!(budget.reserve(1).await.is_err());
        drop(large);
        assert!(budget.reserve(1).await.is_ok());
    }

    #[tokio::test]
    async fn a_growing_reservation_evicts_others_before_the_budget_is_exhausted() {
        let budget = MemoryBudget::new(1_000);
        let mut reservation = budget.reserve(100).await.unwrap();
        assert_eq!(budget.excess(), 0);
        reservation.resize(900);
        budget.low_memory().await;
        assert_eq!(budget.excess(), 150);
        reservation.resize(2_000);
        assert_eq!(budget.reserved(), 2_000, "running turns are not refused");
        reservation.resize(10);
        assert_eq!((budget.reserved(), budget.excess()), (10, 0));
    }
}
