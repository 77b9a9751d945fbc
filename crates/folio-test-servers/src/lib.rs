//! Real servers for tests: Redis, a CQL server, an S3 server and the engine of Qdrant, which tests start, kill and
//! restart. For tests only.
//!
//! A server has private ports on loopback and a temporary folder, and ends with the process that started it (see
//! [`process`]). [`redis_url`], [`cql`] and [`s3`] return the server in the environment variable of the test run, or
//! start a server for this process. Tests that break a server start their own ([`Redis`], [`RedisCluster`],
//! [`Cassandra`], [`S3`], [`Qdrant`]).
//!
//! All functions block, so the test runner needs no async runtime.

mod cache;
mod cassandra;
mod docker;
mod identity;
mod ports;
pub mod process;
mod programs;
mod qdrant;
mod redis;
mod redis_cluster;
mod run;
mod s3;
mod storage;

pub use cassandra::{Cassandra, CassandraNode};
pub use docker::Scylla;
pub use identity::Identity;
pub use programs::{MissingProgram, missing_programs};
pub use qdrant::{QDRANT_PYTHON, Qdrant};
pub use redis::Redis;
pub use redis_cluster::RedisCluster;
pub use run::{CQL, REDIS, S3_SERVER, Servers, cql, redis_url, s3};
pub use s3::S3;
