//! Quotas of organizations: [`KnownQuotas`] caches them, and [`Slots`] enforces a bound on concurrent work in all processes
//! together.

mod quota_cache;
mod slots;

pub use quota_cache::KnownQuotas;
pub use slots::{Slot, Slots};
