//! Invariants of credit under any interleaving, on a model of the store, the embedded store and CQL; and tests of the
//! meter.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod checker;
mod closing;
mod interleaving;
mod memory;
mod meter;
mod node;
mod repeated;
mod steps;
