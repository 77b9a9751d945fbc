//! The consistency of statements follows from the data centers in which the keyspace has replicas.

use std::collections::{BTreeSet, HashMap};

use folio_types::{Code, Error, Reason, Result};
use scylla::statement::{Consistency, SerialConsistency};

use super::options::Options;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConsistencyLevels {
    pub(crate) quorum: Consistency,
    pub(crate) serial: SerialConsistency,
    pub(crate) serial_read: Consistency,
}

impl ConsistencyLevels {
    pub(crate) const LOCAL: Self = Self {
        quorum: Consistency::LocalQuorum,
        serial: SerialConsistency::LocalSerial,
        serial_read: Consistency::LocalSerial,
    };
    pub(crate) const GLOBAL: Self =
        Self { quorum: Consistency::Quorum, serial: SerialConsistency::Serial, serial_read: Consistency::Serial };
}

/// Returns the levels for a keyspace with this replication (`system_schema.keyspaces.replication`) on servers in these
/// data centers. A strategy that names no data center, such as `SimpleStrategy`, chooses the replicas among all servers.
///
/// Errors: `STORE_UNAVAILABLE` with the code `FAILED_PRECONDITION` if the keyspace has no replicas in the data center of
/// the options, or has replicas in several data centers although the options require one.
pub(crate) fn levels(
    replication: &HashMap<String, String>,
    servers: &BTreeSet<String>,
    options: &Options,
) -> Result<ConsistencyLevels> {
    let is_datacenter =
        |(key, copies): &(&String, &String)| !["class", "replication_factor"].contains(&key.as_str()) && *copies != "0";
    let named: BTreeSet<&str> = replication.iter().filter(is_datacenter).map(|(name, _)| name.as_str()).collect();
    let datacenters: Vec<&str> =
        if named.is_empty() { servers.iter().map(String::as_str).collect() } else { named.iter().copied().collect() };
    let refused = |problem: &str| {
        let (name, all) = (&options.keyspace, datacenters.join(", "));
        let message = format!("the keyspace {name} has replicas in the data centers {all}: {problem}");
        Err(Error::new(Code::FailedPrecondition, Reason::StoreUnavailable, message))
    };
    match &options.datacenter {
        Some(own) if !named.is_empty() && !named.contains(own.as_str()) => {
            return refused(&format!("this process uses {own:?}; set storage.cql.datacenter to one of them"));
        }
        _ => {}
    }
    match datacenters.len() {
        0 | 1 => Ok(ConsistencyLevels::LOCAL),
        _ if options.single_datacenter => {
            refused("storage.cql.single_datacenter requires one, because each write would wait for the others")
        }
        _ => {
            tracing::info!(
                ?datacenters,
                "the keyspace has replicas in several data centers: writes wait for a majority of all"
            );
            Ok(ConsistencyLevels::GLOBAL)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels_of(
        replication: &[(&str, &str)],
        servers: &[&str],
        own: Option<&str>,
        single_datacenter: bool,
    ) -> Result<ConsistencyLevels> {
        let replication = replication.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let datacenter = own.map(str::to_owned);
        let servers = servers.iter().map(|name| (*name).to_owned()).collect();
        levels(&replication, &servers, &Options { datacenter, single_datacenter, ..Options::at(Vec::new()) })
    }

    #[test]
    fn several_data_centers_use_global_consistency_or_are_refused() {
        let simple = [("class", "SimpleStrategy"), ("replication_factor", "3")];
        let known: [&[&str]; 2] = [&[], &["a"]];
        for servers in known {
            assert_eq!(levels_of(&simple, servers, Some("any"), true).unwrap(), ConsistencyLevels::LOCAL);
        }
        let one = [("class", "NetworkTopologyStrategy"), ("a", "3"), ("b", "0")];
        assert_eq!(levels_of(&one, &["a", "b"], Some("a"), true).unwrap(), ConsistencyLevels::LOCAL);
        let two = [("class", "NetworkTopologyStrategy"), ("a", "3"), ("b", "1")];
        for own in [None, Some("b")] {
            assert_eq!(levels_of(&two, &["a", "b"], own, false).unwrap(), ConsistencyLevels::GLOBAL);
        }
        for (own, single) in [(Some("c"), false), (Some("a"), true)] {
            let refused = levels_of(&two, &["a", "b"], own, single).unwrap_err();
            assert!(refused.code == Code::FailedPrecondition && refused.message.contains("a, b"), "{refused}");
        }
    }

    #[test]
    fn a_strategy_without_data_centers_has_replicas_in_those_of_all_servers() {
        let simple = [("class", "org.apache.cassandra.locator.SimpleStrategy"), ("replication_factor", "3")];
        assert_eq!(levels_of(&simple, &["a", "b"], Some("a"), false).unwrap(), ConsistencyLevels::GLOBAL);
        let refused = levels_of(&simple, &["a", "b"], Some("a"), true).unwrap_err();
        assert!(refused.message.contains("a, b"), "{refused}");
    }
}
