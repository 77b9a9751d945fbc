//! A server that speaks the part of Qdrant's gRPC interface that Folio uses, over the engine of Qdrant.
//!
//! No package registry has a Qdrant server. The engine of the PyPI package `qdrant-edge-py` computes scores and filters,
//! and keeps acknowledged writes when the process is killed; `server.py` is the network layer.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::identity::Identity;
use crate::ports;
use crate::process::Process;
use crate::storage;

const SCRIPT: &str = include_str!("server.py");
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Environment variable with the interpreter of Python that has the engine.
pub const QDRANT_PYTHON: &str = "FOLIO_TEST_QDRANT_PYTHON";

/// A server on a private port. Killing it loses no acknowledged write.
#[derive(Debug)]
pub struct Qdrant {
    /// None: the server is stopped.
    process: Option<Process>,
    port: u16,
    folder: TempDir,
    /// Folder of `qdrant.proto`.
    proto: PathBuf,
    api_key: String,
    /// The certificate chain and the private key. None: the server uses no TLS.
    certificate: Option<(PathBuf, PathBuf)>,
}

impl Qdrant {
    /// Starts a server for the messages of `qdrant.proto` in a folder. `api_key`: empty for a server without a key.
    pub fn start(proto: &Path, api_key: &str) -> Result<Self> {
        Self::start_with(proto, api_key, None)
    }

    /// Starts a server that accepts only TLS.
    pub fn start_secured(proto: &Path, api_key: &str, identity: &Identity) -> Result<Self> {
        Self::start_with(proto, api_key, Some(identity))
    }

    fn start_with(proto: &Path, api_key: &str, identity: Option<&Identity>) -> Result<Self> {
        let folder = storage::folder("qdrant")?;
        std::fs::create_dir_all(folder.path().join("data"))?;
        std::fs::write(folder.path().join("server.py"), SCRIPT)?;
        let certificate = match identity {
            None => None,
            Some(identity) => {
                identity.write(folder.path())?;
                Some((folder.path().join("server.pem"), folder.path().join("key.pem")))
            }
        };
        let (port, proto, api_key) = (ports::free(1)?, proto.to_owned(), api_key.to_owned());
        let mut server = Self { process: None, port, folder, proto, api_key, certificate };
        server.run()?;
        Ok(server)
    }

    /// Returns the URL, also while the server is stopped.
    pub fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// Suspends the server (SIGSTOP): the connections remain open and the server does not respond.
    pub fn pause(&self) -> Result<()> {
        self.process.as_ref().context("the server is stopped")?.pause()
    }

    /// Continues the server after [`Qdrant::pause`].
    pub fn resume(&self) -> Result<()> {
        self.process.as_ref().context("the server is stopped")?.resume()
    }

    /// Delays the requests for points that contain `text`, such as the id of an organization.
    pub fn delay(&self, text: &str, time: Duration) -> Result<()> {
        let delay = format!("{{\"text\": {text:?}, \"seconds\": {}}}", time.as_secs_f64());
        // Renamed, because the server may read the file now.
        let (path, written) = (self.folder.path().join("delay.json"), self.folder.path().join("delay.new"));
        std::fs::write(&written, delay)?;
        Ok(std::fs::rename(written, path)?)
    }

    /// Starts or restarts the server on the same port with the same data.
    pub fn run(&mut self) -> Result<()> {
        self.kill();
        let python = python();
        let remedy = "`cargo xtask test --install` installs it";
        ensure!(python.is_file(), "{} is missing: {remedy}", python.display());
        let mut command = Command::new(python);
        command.arg(self.folder.path().join("server.py")).arg(&self.proto).arg(self.folder.path().join("data"));
        command.arg(self.port.to_string()).arg(&self.api_key).env("PYTHONDONTWRITEBYTECODE", "1");
        if let Some((chain, key)) = &self.certificate {
            command.arg(chain).arg(key);
        }
        let mut process = Process::start("qdrant", command, self.folder.path())?;
        let port = self.port;
        process.wait_until(self.folder.path(), READY_LIMIT, || ports::accepts(Ipv4Addr::LOCALHOST, port))?;
        self.process = Some(process);
        Ok(())
    }
}

/// Returns the interpreter of Python with the engine, which `cargo xtask test --install` installs.
fn python() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let installed = || cache().map(|cache| cache.join("folio-tools/python/bin/python3"));
    variable(QDRANT_PYTHON).or_else(installed).unwrap_or_default()
}
