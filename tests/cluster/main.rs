//! Many processes on real stores: two gateways and three nodes, Redis, a CQL server.
//!
//! The tests take turns at one cluster ([`stage::on_stage`]), each with an organization of its own; at its end the checker
//! of the random faults judges what the test left. The binaries must be built beside this one, see `wire`.

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
