//! The Redis adapter on real servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod faults;
#[path = "../../../folio-storage-client/tests/certificates/identity.rs"]
mod identity;
mod network;
mod suites;
