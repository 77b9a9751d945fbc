//! Model settings of organizations.
//!
//! The catalogue of an organization is the platform's table (the settings file with the changes of the platform
//! administrator) overlaid with the organization's own providers. A pure function (`resolve`) computes it, and
//! [`Providers`] (the [`folio_llm::Models`] of a process) caches it for some seconds. [`Vault`] encrypts stored API
//! keys.
//!
//! This crate must not know turns, tools or credit. The caller acquires permits for model calls.

mod change;
mod check;
mod models;
mod resolve;
mod vault;

pub use change::{ProviderChange, ReencryptedKeys};
pub use models::{Options, Providers};
pub use vault::{SecretsOptions, Vault};
