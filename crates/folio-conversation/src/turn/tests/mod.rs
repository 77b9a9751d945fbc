//! The machine against a store in memory: by behaviour, over random commands, and exhaustively.

mod check;
mod ends;
mod pauses;
mod properties;
mod rig;
mod rounds;
mod store;
mod takeovers;
