//! The shared stores of the single-process mode: in memory, with the same rules as the Redis adapter.

mod events;
mod jobs;
mod nodes;
mod rates;
mod slots;
mod turns;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Environment, Result, Timestamp};

use folio_storage::{SharedOptions, SharedStores, StoreHealth};

pub fn shared_stores(environment: Arc<dyn Environment>, options: SharedOptions) -> SharedStores {
    let context = Context { environment, options };
    SharedStores {
        nodes: Arc::new(nodes::MemoryNodes::new(context.clone())),
        turns: Arc::new(turns::MemoryTurns::new(context.clone())),
        events: Arc::new(events::MemoryEvents::new(context.clone())),
        jobs: Arc::new(jobs::MemoryJobs::new(context.clone())),
        rates: Arc::new(rates::MemoryRates::new(context.clone())),
        slots: Arc::new(slots::MemorySlots::new(context)),
        health: Arc::new(Health),
    }
}

#[derive(Clone)]
struct Context {
    environment: Arc<dyn Environment>,
    options: SharedOptions,
}

impl Context {
    fn now(&self) -> Timestamp {
        self.environment.now()
    }
}

/// Returns zero if `now` is not later than `earlier`.
fn since(earlier: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(earlier)).unwrap_or_default()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Health;

#[async_trait]
impl StoreHealth for Health {
    async fn check(&self) -> Result<()> {
        Ok(())
    }
}
