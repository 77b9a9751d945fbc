//! Whose models are whose: what each organization sets of model providers, over what the platform has.
//!
//! An organization's catalogue is the platform's table (the settings, then what the platform's administrator stored) with
//! the organization's own providers over it. It is resolved by a pure function (`resolve`), kept for a few seconds
//! ([`Providers`] is the [`folio_llm::Models`] of a process), and its API keys stand encrypted in the store ([`Vault`]).
//!
//! It knows nothing of turns, tools or credit: who calls a model asks for its permit, as ever.

mod change;
mod check;
mod models;
mod resolve;
mod vault;

pub use change::{ProviderChange, Renewed};
pub use models::{Options, Providers};
pub use vault::{SecretsOptions, Vault};
