//! Checks for the programs that the servers require.

use std::process::{Command, Stdio};

use crate::run::{CQL, REDIS, S3_SERVER, is_set};
use crate::{cassandra, docker, s3};

/// A program that is required and not installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingProgram {
    pub program: &'static str,
    pub purpose: &'static str,
    /// Debian package of the program.
    pub package: &'static str,
}

/// Returns the missing programs for the servers that no environment variable provides.
pub fn missing_programs() -> Vec<MissingProgram> {
    let mut missing = Vec::new();
    let mut need = |is_installed: bool, program, purpose, package| {
        if !is_installed {
            missing.push(MissingProgram { program, purpose, package });
        }
    };
    if !is_set(REDIS) {
        need(runs("redis-server", "--version"), "redis-server", "the Redis of the tests", "redis-server");
        need(runs("redis-cli", "--version"), "redis-cli", "the Redis Cluster of the tests", "redis-tools");
    }
    if !is_set(CQL) && !docker::is_available() {
        need(cassandra::java().is_some(), "java (17)", "the CQL server of the tests", "openjdk-17-jre-headless");
        need(cassandra::is_fetched() || runs("mvn", "--version"), "mvn", "fetching the CQL server", "maven");
    }
    if !is_set(S3_SERVER) {
        need(s3::is_built() || runs("go", "version"), "go", "building the S3 server of the tests", "golang-go");
    }
    missing
}

fn runs(program: &str, argument: &str) -> bool {
    Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
