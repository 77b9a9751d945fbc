//! What every process of Folio does the same way: settings, telemetry, figures, signals.
//!
//! This crate knows no component: each owns its `Options`, and the binary composes them into one settings type that is
//! loaded here.

pub mod figures;
pub mod files;
pub mod settings;
pub mod signals;
pub mod telemetry;
