//! Credit: every interleaving keeps its sums, on a model of a store, on the embedded one and on CQL; and the meter
//! above it.

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
