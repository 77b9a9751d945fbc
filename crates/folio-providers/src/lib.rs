//! Model settings of organizations, layered over those of the platform.
//!
//! The catalogue of an organization is the platform's table (the settings file with the changes of the platform
//! administrator) overlaid with the organization's own providers. A pure function (`resolve`) computes it,
//! [`Providers`] (the [`folio_llm::Models`] of a process) caches it for some seconds, and the store holds its API keys
//! encrypted ([`Vault`]).
//!
//! This crate knows nothing of turns, tools or credit. Permits for model calls belong to the caller.

mod change;
mod check;
mod models;
mod resolve;
mod vault;

pub use change::{ProviderChange, Renewed};
pub use models::{Options, Providers};
pub use vault::{SecretsOptions, Vault};
