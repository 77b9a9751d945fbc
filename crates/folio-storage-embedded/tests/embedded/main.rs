//! Tests of the embedded store, and the suites that every adapter runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod crash;
mod engine;
mod opening;
mod suites;
