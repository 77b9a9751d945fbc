//! Conversions between the types of other crates and the messages of the API.

mod access;
mod error;
mod event;
mod message;
mod policy;
mod quota;
mod resource;
mod thread;
pub mod time;
mod turn;

pub use resource::text_state;

#[cfg(test)]
mod round_trip;
