//! Nodes behind real listeners on loopback, with peers that play what a test says; and their callers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod limits;
mod members;
mod routing;
mod sandbox;
mod scripted;
mod takeover;
mod tls;
mod wire;
