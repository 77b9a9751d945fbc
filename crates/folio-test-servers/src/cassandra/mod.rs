//! Apache Cassandra from its Maven artifacts. Replaces ScyllaDB if no container engine is available.

mod node;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

pub use self::node::Node as CassandraNode;
use self::node::{Kind, Node};
use crate::cache::{self, run_to_end};
use crate::identity::Identity;
use crate::ports;

const CACHED: &str = "cassandra-5.0.9";

/// The start tokens of each node, by the number of nodes.
const TOKENS: &[&[&str]] =
    &[&["0"], &["0", "-9223372036854775808"], &["-9223372036854775808", "-3074457345618258603", "3074457345618258602"]];

/// One to three nodes on 127.0.0.1, .2 and .3 with the same port. One node is ready six seconds after its start, three
/// nodes after half a minute.
#[derive(Debug)]
pub struct Cassandra {
    nodes: Vec<Node>,
    port: u16,
}

impl Cassandra {
    /// Starts one node that no test stops. It keeps the definitions of tables in memory, so that tables are created faster.
    pub(crate) fn start_shared() -> Result<Self> {
        let (java, jars) = (java().context("no JDK 17 was found")?, jars()?);
        let port = ports::free(3)?;
        let node = Node::start((&java, &jars), (1, "datacenter1"), port, "0", &Kind::Shared)?;
        Ok(Self { nodes: vec![node], port })
    }

    /// Starts one to three nodes of the data center `datacenter1` on free ports. Requires JDK 17; the first start
    /// downloads the jars (66 MB) with Maven.
    pub fn start(nodes: usize) -> Result<Self> {
        Self::start_in(&vec!["datacenter1"; nodes])
    }

    /// Starts one node in each of these data centers.
    pub fn start_in(datacenters: &[&str]) -> Result<Self> {
        let nodes = datacenters.len();
        let Some(tokens) = nodes.checked_sub(1).and_then(|at| TOKENS.get(at)) else {
            bail!("cannot start {nodes} nodes: expected 1 to 3");
        };
        let (java, jars) = (java().context("no JDK 17 was found")?, jars()?);
        let port = ports::free(2 + TOKENS.len() as u16)?;
        let mut cassandra = Self { nodes: Vec::new(), port };
        for ((token, datacenter), host) in tokens.iter().zip(datacenters).zip(1..) {
            cassandra.nodes.push(Node::start(
                (&java, &jars),
                (host, datacenter),
                port,
                token,
                &Kind::Durable { of: nodes },
            )?);
        }
        Ok(cassandra)
    }

    /// Starts one node that accepts only TLS, requires client certificates and uses Paxos v1. The node creates the user
    /// `cassandra` with the password `cassandra` some seconds after it is ready.
    pub fn start_secured(identity: &Identity) -> Result<Self> {
        let (java, jars) = (java().context("no JDK 17 was found")?, jars()?);
        let port = ports::free(3)?;
        let node = Node::start((&java, &jars), (1, "datacenter1"), port, "0", &Kind::Secured(identity))?;
        Ok(Self { nodes: vec![node], port })
    }

    /// Returns `HOST:PORT` of each node, separated by commas.
    pub fn addresses(&self) -> String {
        self.nodes.iter().map(Node::address).collect::<Vec<_>>().join(",")
    }

    /// All nodes have the same port.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn node(&mut self, number: usize) -> Option<&mut Node> {
        self.nodes.get_mut(number)
    }
}

pub(crate) fn is_fetched() -> bool {
    cache::has(CACHED)
}

fn jars() -> Result<PathBuf> {
    cache::get_or_create(CACHED, |folder: &Path| {
        std::fs::write(folder.join("pom.xml"), include_str!("pom.xml"))?;
        run_to_end(
            Command::new("mvn")
                .args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"])
                .arg(format!("-DoutputDirectory={}", folder.display()))
                .current_dir(folder),
        )
    })
}

/// Returns a Java of version 17, which Cassandra requires.
pub(crate) fn java() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path());
    let home = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    home.into_iter()
        .chain(installed)
        .map(|home| home.join("bin/java"))
        .chain([PathBuf::from("java")])
        .find(|java| is_17(java))
}

fn is_17(java: &Path) -> bool {
    Command::new(java)
        .arg("-version")
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stderr).contains("version \"17."))
}
