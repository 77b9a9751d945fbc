//! Nodes with scripted peers behind real listeners on loopback, and their clients.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod limits;
mod routing;
mod sandbox;
mod scripted;
mod takeover;
mod tls;
mod wire;
