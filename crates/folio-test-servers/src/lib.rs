//! The real servers that tests run on: Redis, a CQL server, an S3 server; started, killed and restarted. For tests only.
//!
//! A server started here has private ports on loopback and a folder of its own, and ends with whoever started it, however
//! that one ends (see [`process`]). Tests that only need *a* server call [`redis_url`], [`cql`] or [`s3`]: that of the test
//! run where its variable is set, else one started for this process. Tests that break a server start their own
//! ([`Redis`], [`RedisCluster`], [`Cassandra`], [`S3`]).
//!
//! Everything here blocks, so that the test runner needs no async runtime.

mod cache;
mod cassandra;
mod docker;
mod identity;
mod needs;
mod place;
mod ports;
pub mod process;
mod redis;
mod redis_cluster;
mod run;
mod s3;

pub use cassandra::Cassandra;
pub use docker::Scylla;
pub use identity::Identity;
pub use needs::{Need, missing};
pub use redis::Redis;
pub use redis_cluster::RedisCluster;
pub use run::{CQL, REDIS, S3_SERVER, Servers, cql, redis_url, s3};
pub use s3::S3;
