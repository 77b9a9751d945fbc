//! Tests of the embedded store, and the suites that every adapter runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod crash;
mod engine;
mod full_disk;
mod opening;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod power_loss;
mod suites;
