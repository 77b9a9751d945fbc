//! ScyllaDB from `compose.yaml`. Requires a container engine.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;

use crate::cache::run_to_end;
use crate::ports;
use crate::process::Process;
use crate::storage;

/// The limit includes a download of the image.
const READY_LIMIT: Duration = Duration::from_secs(300);

/// Returns whether a container engine responds. An installed client is not sufficient.
pub(crate) fn is_available() -> bool {
    let quiet = |arguments: &[&str]| {
        Command::new("docker")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    quiet(&["info"]) && quiet(&["compose", "version"])
}

/// The container of the service `scylla` of `compose.yaml`, under a unique project name.
#[derive(Debug)]
pub struct Scylla {
    project: String,
    port: u16,
    /// The client in the foreground. Its watcher removes the container if this process dies.
    client: Option<Process>,
    folder: TempDir,
}

impl Scylla {
    /// Starts a container on a free port and waits until it is healthy.
    pub fn start() -> Result<Self> {
        let port = ports::free(1)?;
        let folder = storage::folder("scylla")?;
        let mut server = Self { project: format!("folio-test-{port}"), port, folder, client: None };
        let command = server.compose(&["up", "--abort-on-container-exit", "scylla"]);
        let folder = server.folder.path();
        let mut client =
            Process::start_and_clean("scylla", command, folder, "docker compose down --volumes --timeout 5")?;
        client.wait_until(folder, READY_LIMIT, || server.is_healthy())?;
        server.client = Some(client);
        Ok(server)
    }

    /// Returns `HOST:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn is_healthy(&self) -> bool {
        ports::accepts(Ipv4Addr::LOCALHOST, self.port)
            && self
                .compose(&["ps", "--format", "{{.Health}}", "scylla"])
                .output()
                .is_ok_and(|output| output.stdout.trim_ascii() == b"healthy")
    }

    fn compose(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command
            .arg("compose")
            .args(arguments)
            .env("COMPOSE_FILE", root().join("compose.yaml"))
            .env("COMPOSE_PROJECT_NAME", &self.project)
            .env("FOLIO_CQL_PORT", self.port.to_string());
        command
    }
}

impl Drop for Scylla {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let _ = client.stop();
        }
        if let Err(error) = run_to_end(&mut self.compose(&["down", "--volumes", "--timeout", "5"])) {
            eprintln!("{:#}", error.context("cannot remove the ScyllaDB container"));
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map_or_else(PathBuf::new, Path::to_path_buf)
}
