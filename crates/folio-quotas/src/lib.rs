//! Quotas of organizations: [`QuotaCache`] caches them, and [`Slots`] bounds concurrent work in all processes together.

mod quota_cache;
mod slots;

pub use quota_cache::QuotaCache;
pub use slots::{Slot, Slots};
