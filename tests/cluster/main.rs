//! Tests of two gateways and three nodes on Redis and a CQL server.
//!
//! The tests share one cluster sequentially ([`stage::on_stage`]), each with its own organization. After each test the
//! checker of the random faults checks its data. The binaries must be built first, see `wire`.

mod credit;
mod drain;
mod faulty;
mod redis_away;
mod routing;
mod stage;
mod steps;
mod stopped;
mod takeover;
mod traces;
