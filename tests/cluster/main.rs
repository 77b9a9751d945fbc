//! Tests of two gateways and three nodes on Redis and a CQL server.
//!
//! The tests share two clusters ([`test_cluster::on_cluster`]). A cluster runs one test at a time; each test has its own
//! organization. After each test the checker of the random faults checks its data. The binaries must be built first, see
//! `wire`.

mod agent_runs;
mod clock;
mod credit;
mod drain;
mod faulty;
mod group_steps;
mod index_placement;
mod ingestion_agents;
mod ingestions;
mod job_interruptions;
mod job_steps;
mod jobs;
mod mcp_calls;
mod proposals;
mod redis_outage;
mod routing;
mod steps;
mod stopped_owner;
mod takeover;
mod test_cluster;
mod traces;
