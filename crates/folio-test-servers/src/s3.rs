//! The S3 server `versitygw`, which serves a folder.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;

use crate::cache::{self, run_to_end};
use crate::ports;
use crate::process::Process;
use crate::storage;

const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";

const CACHED: &str = "versitygw-1.8.0";

const READY_LIMIT: Duration = Duration::from_secs(60);
const ACCESS_KEY: &str = "folio-test";
const SECRET_KEY: &str = "folio-test-secret";
const BUCKET: &str = "folio";

/// An S3 server with one bucket and path-style addresses.
#[derive(Debug)]
pub struct S3 {
    /// None: the server is stopped.
    process: Option<Process>,
    port: u16,
    data: PathBuf,
    folder: TempDir,
}

impl S3 {
    /// Starts a server on a free port. The first start builds the program (about a minute).
    pub fn start() -> Result<Self> {
        let folder = storage::folder("s3")?;
        let data = folder.path().join("data");
        std::fs::create_dir_all(data.join(BUCKET))?;
        let mut server = Self { process: None, port: ports::free(1)?, data, folder };
        server.run()?;
        Ok(server)
    }

    /// Returns `http://KEY:SECRET@HOST:PORT/BUCKET`.
    pub fn url(&self) -> String {
        format!("http://{ACCESS_KEY}:{SECRET_KEY}@127.0.0.1:{}/{BUCKET}", self.port)
    }

    /// Returns the data folder, in which each object is a file.
    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// Starts or restarts the server on the same port with the same data.
    pub fn run(&mut self) -> Result<()> {
        self.kill();
        let mut command = Command::new(program()?);
        command
            .args(["--quiet", "--port", &format!("127.0.0.1:{}", self.port), "posix"])
            .arg(&self.data)
            .env("ROOT_ACCESS_KEY", ACCESS_KEY)
            .env("ROOT_SECRET_KEY", SECRET_KEY);
        let mut process = Process::start("s3", command, self.folder.path())?;
        let port = self.port;
        process.wait_until(self.folder.path(), READY_LIMIT, || ports::accepts(Ipv4Addr::LOCALHOST, port))?;
        self.process = Some(process);
        Ok(())
    }
}

pub(crate) fn is_built() -> bool {
    cache::has(CACHED)
}

fn program() -> Result<PathBuf> {
    let folder = cache::get_or_create(CACHED, |folder: &Path| {
        run_to_end(Command::new("go").args(["install", MODULE]).env("GOBIN", folder).current_dir(folder))
    })?;
    Ok(folder.join("versitygw"))
}
