//! Permits for work in progress, with a bound in total and a bound for each key (an organization), so that one tenant
//! cannot take the capacity that the others need.
//!
//! | call | when no permit is free | used for |
//! |---|---|---|
//! | [`Permits::try_acquire`] | refuses at once | administrative changes, uploads (with their bytes) |
//! | [`Permits::acquire`] | waits until a deadline; keys take turns by weight | calls of a model endpoint |
//! | [`EvictingPermits::acquire`] | takes the permit of the oldest holder | connections and calls without a valid token |
//!
//! A permit is a value. Dropping it hands it to the next waiter, so cancellation cannot leak a permit.
//!
//! The crate must not know tenants, clocks or errors of the product: the caller maps [`RefusalReason`] to its own
//! error. A bound without keys needs only `tokio::sync::Semaphore`.

mod eviction;
mod permits;
mod scheduler;

pub use eviction::{EvictablePermit, EvictingPermits};
pub use permits::{Permit, Permits};
pub use scheduler::{Amount, Bounds, RefusalReason};
