//! The adapters of real servers, on real servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod blobs;
#[path = "../certificates/identity.rs"]
mod identity;
mod redis;
mod redis_faults;
mod redis_network;
