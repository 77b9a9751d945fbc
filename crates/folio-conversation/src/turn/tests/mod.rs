//! The machine against a store in memory: by behaviour, over random commands, and exhaustively.

mod ends;
mod pauses;
mod rig;
mod rounds;
mod store;
mod takeovers;
