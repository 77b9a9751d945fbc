//! A Redis server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::identity::Identity;
use crate::ports;
use crate::process::Process;
use crate::storage;

const READY_LIMIT: Duration = Duration::from_secs(30);

/// Attempts with another port, because another process may bind a port first.
const ATTEMPTS_MAX: usize = 5;

/// A Redis server that fsyncs each write before it responds. Killing it loses no acknowledged write.
#[derive(Debug)]
pub struct Redis {
    /// None: the server is stopped.
    process: Option<Process>,
    port: u16,
    folder: TempDir,
    arguments: Vec<String>,
    /// User and password. None: the server uses neither TLS nor authentication.
    login: Option<(String, String)>,
}

impl Redis {
    pub fn start() -> Result<Self> {
        let mut last = None;
        for _ in 0..ATTEMPTS_MAX {
            match Self::start_at(ports::free(1)?, &[]) {
                Ok(redis) => return Ok(redis),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("no attempt was made")?)
    }

    /// `arguments`: further arguments of `redis-server`.
    pub(crate) fn start_at(port: u16, arguments: &[String]) -> Result<Self> {
        let folder = storage::folder("redis")?;
        let mut redis = Self { process: None, port, folder, arguments: arguments.to_vec(), login: None };
        redis.run()?;
        Ok(redis)
    }

    /// Starts a replica of this server and waits until it is synchronized.
    pub fn start_replica(&self) -> Result<Self> {
        let arguments = ["--replicaof", "127.0.0.1", &self.port.to_string()].map(str::to_owned);
        let replica = Self::start_at(ports::free(1)?, &arguments)?;
        let end = std::time::Instant::now() + READY_LIMIT;
        while !replica.command("INFO replication")?.contains("master_link_status:up") {
            anyhow::ensure!(
                std::time::Instant::now() < end,
                "a replica did not reach its server within {READY_LIMIT:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(replica)
    }

    pub fn promote(&self) -> Result<()> {
        anyhow::ensure!(self.command("REPLICAOF NO ONE")? == "+OK", "a replica was not promoted");
        Ok(())
    }

    /// Makes the server a replica of another server, so that clients cannot write to it.
    pub fn demote(&self, of: &Self) -> Result<()> {
        let answer = self.command(&format!("REPLICAOF 127.0.0.1 {}", of.port))?;
        anyhow::ensure!(answer.starts_with("+OK"), "a server was not demoted: {answer}");
        Ok(())
    }

    /// Starts a server that accepts only TLS, requires client certificates, and has one user, `folio`, with this
    /// password.
    pub fn start_secured(identity: &Identity, password: &str) -> Result<Self> {
        let folder = storage::folder("redis")?;
        let files = tempfile::Builder::new().prefix("certificates-").tempdir_in(folder.path())?.keep();
        identity.write(&files)?;
        let port = ports::free(1)?;
        let file = |name: &str| files.join(name).display().to_string();
        let mut arguments: Vec<String> = vec!["--tls-port".into(), port.to_string()];
        for (option, name) in
            [("--tls-cert-file", "server.pem"), ("--tls-key-file", "key.pem"), ("--tls-ca-cert-file", "ca.pem")]
        {
            arguments.extend([option.to_owned(), file(name)]);
        }
        arguments.extend(["--tls-auth-clients", "yes", "--user", "default", "off"].map(str::to_owned));
        let user = ["--user", "folio", "on", &format!(">{password}"), "~*", "&*", "+@all"].map(str::to_owned);
        arguments.extend(user);
        let login = Some(("folio".to_owned(), password.to_owned()));
        let mut redis = Self { process: None, port, folder, arguments, login };
        redis.run()?;
        Ok(redis)
    }

    /// Returns the URL, also while the server is stopped.
    pub fn url(&self) -> String {
        match &self.login {
            Some((user, password)) => format!("rediss://{user}:{password}@127.0.0.1:{}", self.port),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server (SIGKILL). Acknowledged writes are retained.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// Starts or restarts the server on the same port with the same data.
    pub fn run(&mut self) -> Result<()> {
        self.kill();
        let (port, secured) = (self.port, self.login.is_some());
        let plain = if secured { 0 } else { port };
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &plain.to_string(), "--bind", "127.0.0.1", "--dir"])
            .arg(self.folder.path())
            .args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""])
            .args(&self.arguments);
        let mut process = Process::start("redis", command, self.folder.path())?;
        process.wait_until(self.folder.path(), READY_LIMIT, || match secured {
            true => ports::accepts(Ipv4Addr::LOCALHOST, port),
            false => run_command(port, "PING").is_ok_and(|answer| answer == "+PONG"),
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Restarts the server without its data.
    pub fn run_emptied(&mut self) -> Result<()> {
        self.kill();
        empty(self.folder.path()).context("cannot remove the data of a Redis server")?;
        self.run()
    }

    /// Suspends the server (SIGSTOP): the connections remain open and the server does not respond.
    pub fn pause(&self) -> Result<()> {
        self.process.as_ref().context("the server is stopped")?.pause()
    }

    /// Continues the server after [`Redis::pause`].
    pub fn resume(&self) -> Result<()> {
        self.process.as_ref().context("the server is stopped")?.resume()
    }

    /// Sends a command and returns the items of its list response.
    pub fn list_command(&self, command: &str) -> Result<Vec<String>> {
        let mut answers = send(self.port, command)?;
        let count = line(&mut answers)?.strip_prefix('*').and_then(|count| count.parse::<usize>().ok());
        (0..count.context("the response is not a list")?).map(|_| item(&mut answers)).collect()
    }

    /// Sends a command and returns its response: a line, or the text of a bulk string.
    pub fn command(&self, command: &str) -> Result<String> {
        run_command(self.port, command)
    }
}

fn empty(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

pub(crate) fn run_command(port: u16, command: &str) -> Result<String> {
    item(&mut send(port, command)?)
}

fn send(port: u16, command: &str) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    Ok(BufReader::new(stream))
}

fn line(answers: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn item(answers: &mut BufReader<TcpStream>) -> Result<String> {
    let line = line(answers)?;
    let Some(length) = line.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) else { return Ok(line) };
    // The length does not include the line end.
    let mut text = vec![0; length + 2];
    answers.read_exact(&mut text)?;
    text.truncate(length);
    Ok(String::from_utf8_lossy(&text).into_owned())
}
