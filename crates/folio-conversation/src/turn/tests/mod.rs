//! The machine against a store in memory: by behaviour, over random commands, and exhaustively.

mod ends;
mod limits;
mod model_check;
mod pauses;
mod policies;
mod properties;
mod refused;
mod rig;
mod rounds;
mod store;
mod takeovers;
