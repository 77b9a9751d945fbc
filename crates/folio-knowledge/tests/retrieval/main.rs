//! Tests of searches and answers over the embedded stores and the embedded index, with scripted models.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod ask;
mod fixture;
mod search;
mod tenants;
