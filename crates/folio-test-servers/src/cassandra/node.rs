//! A Cassandra process.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::identity::Identity;
use crate::ports;
use crate::process::Process;
use crate::storage;

/// The limit is sufficient for a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(180);

pub(super) enum Kind<'a> {
    /// A member of a cluster of this number of nodes, which may be killed.
    Durable { of: usize },
    /// A single node that is not restarted.
    Shared,
    /// A single node that accepts only TLS, requires client certificates, and uses Paxos v1, the default of Cassandra.
    Secured(&'a Identity),
}

/// Options of a node whose definitions of tables and other system tables need not survive its end.
const VOLATILE_SYSTEM: [&str; 2] =
    ["-Dcassandra.test.flush_local_schema_changes=false", "-Dcassandra.unsafesystem=true"];

#[derive(Debug)]
pub struct Node {
    /// None: the node is stopped.
    process: Option<Process>,
    folder: TempDir,
    java: PathBuf,
    jars: PathBuf,
    host: Ipv4Addr,
    port: u16,
    options: Vec<String>,
}

impl Node {
    pub(super) fn start(
        (java, jars): (&Path, &Path),
        (host, datacenter): (u8, &str),
        port: u16,
        token: &str,
        kind: &Kind<'_>,
    ) -> Result<Self> {
        let folder = storage::folder("cassandra")?;
        let host = Ipv4Addr::new(127, 0, 0, host);
        let path = folder.path().display().to_string();
        let fill = |text: &str| {
            text.replace("@FOLDER@", &path)
                .replace("@HOST@", &host.to_string())
                .replace("@PORT@", &port.to_string())
                .replace("@STORAGE_PORT@", &(port + 1).to_string())
        };
        let settings = folder.path().join("conf");
        std::fs::create_dir_all(&settings)?;
        let mut text = fill(include_str!("cassandra.yaml"));
        let is_single = !matches!(kind, Kind::Durable { of: 2.. });
        if is_single {
            text.push_str(include_str!("single.yaml"));
        }
        if matches!(kind, Kind::Shared) {
            text = text.replace("commitlog_sync: batch", "commitlog_sync: periodic\ncommitlog_sync_period: 10s");
        }
        if let Kind::Secured(identity) = kind {
            identity.write(&settings)?;
            text = text.replace("paxos_variant: v2", "paxos_variant: v1");
            text.push_str(&fill(include_str!("secured.yaml")));
        }
        std::fs::write(settings.join("cassandra.yaml"), text)?;
        std::fs::write(settings.join("logback.xml"), fill(include_str!("logback.xml")))?;
        std::fs::write(settings.join("cassandra-rackdc.properties"), format!("dc={datacenter}\nrack=rack1\n"))?;
        let mut options: Vec<_> = include_str!("jvm.options").lines().map(str::to_owned).collect();
        options.push(format!("-Dcassandra.initial_token={token}"));
        // The tests of a suite create more than 60 keyspaces of a single server, each with all tables.
        let (heap, ring) = if is_single { ("-Xmx2g", 0) } else { ("-Xmx768m", 1_000) };
        options.push(heap.to_owned());
        options.push(format!("-Dcassandra.ring_delay_ms={ring}"));
        if !is_single {
            options.push("-Dcassandra.consistent.rangemovement=false".to_owned());
        }
        if matches!(kind, Kind::Shared) {
            options.extend(VOLATILE_SYSTEM.map(str::to_owned));
        }
        let (java, jars) = (java.to_owned(), jars.to_owned());
        let mut node = Self { process: None, folder, java, jars, host, port, options };
        node.run()?;
        Ok(node)
    }

    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Kills the node (SIGKILL). Acknowledged writes are retained.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// Starts the node on the same port with the same data, and waits until it is ready. A start after a kill can stop
    /// between two steps for good while the machine is saturated, so a start that is not ready in time is repeated once.
    pub fn run(&mut self) -> Result<()> {
        self.kill();
        self.run_once().or_else(|error| {
            eprintln!("a Cassandra server is started again: {error:#}");
            self.run_once()
        })
    }

    fn run_once(&mut self) -> Result<()> {
        let folder = self.folder.path();
        let path = folder.display();
        // The JMX ports of all nodes are on the first loopback address, so each node has a port of its own.
        let [.., own] = self.host.octets();
        let mut command = Command::new(&self.java);
        command
            .args(&self.options)
            .arg(format!("-Dcassandra.storagedir={path}"))
            .arg(format!("-Dcassandra.config=file://{path}/conf/cassandra.yaml"))
            .arg(format!("-Dlogback.configurationFile={path}/conf/logback.xml"))
            .arg(format!("-Dcassandra.jmx.local.port={}", self.port + 1 + u16::from(own)))
            .arg(format!("-Djava.rmi.server.hostname={}", self.host))
            .arg("-cp")
            .arg(format!("{path}/conf:{}/*", self.jars.display()))
            .arg("org.apache.cassandra.service.CassandraDaemon");
        let mut process = Process::start("cassandra", command, folder)?;
        let (host, port) = (self.host, self.port);
        process.wait_until(folder, READY_LIMIT, || ports::accepts(host, port))?;
        self.process = Some(process);
        Ok(())
    }

    /// Suspends the node (SIGSTOP): the connections remain open and the node does not respond.
    pub fn pause(&self) -> Result<()> {
        self.process.as_ref().context("the node is stopped")?.pause()
    }

    /// Continues the node after [`Node::pause`].
    pub fn resume(&self) -> Result<()> {
        self.process.as_ref().context("the node is stopped")?.resume()
    }
}
