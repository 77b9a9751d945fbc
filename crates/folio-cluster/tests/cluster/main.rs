//! Nodes behind real listeners on loopback, with scripted peers, and their callers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod limits;
mod routing;
mod sandbox;
mod scripted;
mod takeover;
mod tls;
mod wire;
