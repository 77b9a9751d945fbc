//! Settings, telemetry, metrics and signals of a Folio process.
//!
//! This crate must not know any component. Each component owns its `Options`; the binary composes them into one
//! settings type and loads it with [`settings::load`].

pub mod clock;
pub mod files;
pub mod memory;
pub mod metrics;
pub mod settings;
pub mod signals;
pub mod telemetry;
