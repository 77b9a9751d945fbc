//! Extractors: the parts of a request that the handlers of REST routes take as arguments.

mod client;
mod ids;
mod json;
mod problem;
mod query;
mod signed;

pub(crate) use client::{Client, organization};
pub(crate) use ids::{Id, PathId, path_parameter};
pub(crate) use json::{Json, body_error, check_json};
pub(crate) use query::{Bounded, Query};
pub(crate) use signed::Signed;
