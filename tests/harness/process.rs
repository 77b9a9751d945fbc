//! Processes of a test: started on a free port, killed by their own id, never left behind.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Bytes of a process's stderr that are kept for a failing test.
const KEPT_BYTES: usize = 1024 * 1024;

/// A process that says `listening on ADDRESS`. Dropped, it is killed.
pub struct Process {
    child: Child,
    address: String,
    said: String,
    errors: Arc<Mutex<String>>,
}

/// Where a binary of the workspace is.
pub fn binary(name: &str) -> PathBuf {
    let mut folder = std::env::current_exe().expect("a test knows its program");
    folder.pop();
    if folder.ends_with("deps") {
        folder.pop();
    }
    let path = folder.join(name);
    assert!(path.is_file(), "{} is missing: run `cargo build --workspace --bins` first", path.display());
    path
}

impl Process {
    /// Starts a binary of the workspace in a folder and waits until it listens.
    pub fn start(name: &str, folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        match Self::try_start(name, folder, arguments, environment) {
            Ok(process) => process,
            Err(errors) => panic!("{name} ended before it listened:\n{errors}"),
        }
    }

    /// The same; a process that ends before it listens gives what it wrote to stderr.
    pub fn try_start(
        name: &str,
        folder: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, String> {
        let mut child = Command::new(binary(name))
            .args(arguments)
            .env_remove("OPENAI_API_KEY")
            .env_remove("OPENAI_BASE_URL")
            .envs(environment.iter().copied())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let errors = keep(child.stderr.take().expect("stderr is piped"), log_of(name, child.id()));
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let mut said = String::new();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            said.push_str(&line);
            said.push('\n');
            Some(line.strip_prefix("listening on ")?.to_owned())
        });
        // Whatever else it says must find a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let Some(address) = address else {
            let _ = child.wait();
            return Err(errors.lock().unwrap_or_else(PoisonError::into_inner).clone());
        };
        Ok(Self { child, address, said, errors })
    }

    /// Whether it ended by itself.
    pub fn is_dead(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// `http://HOST:PORT`.
    pub fn url(&self) -> String {
        if self.address.contains("://") { self.address.clone() } else { format!("http://{}", self.address) }
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to stdout until it listened.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// The end of what it wrote to stderr.
    pub fn errors(&self) -> String {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(mut self) {
        self.end(Signal::SIGKILL);
    }

    /// SIGTERM, and waits until it is gone; whether it ended in order.
    pub fn terminate(mut self) -> bool {
        self.end(Signal::SIGTERM)
    }

    /// The same, while everything else goes on: it waits for those who are connected to it.
    pub async fn stop(self) -> bool {
        tokio::task::spawn_blocking(|| self.terminate()).await.expect("waiting does not panic")
    }

    /// Waits until it is gone, which it was asked for; whether it ended in order.
    pub fn ended(mut self) -> bool {
        self.child.wait().is_ok_and(|status| status.success())
    }

    /// SIGTERM, without waiting.
    pub fn ask_to_stop(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Stops it where it stands (SIGSTOP).
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Whether it stands still (SIGSTOP), be it by its own will.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        let _ = kill(id, signal);
    }

    fn end(&mut self, signal: Signal) -> bool {
        self.signal(signal);
        self.child.wait().is_ok_and(|status| status.success())
    }
}

/// Where all of it goes, too: a file in the folder that `FOLIO_TEST_LOGS` names.
fn log_of(name: &str, id: u32) -> Option<std::fs::File> {
    let folder = PathBuf::from(std::env::var_os("FOLIO_TEST_LOGS")?);
    std::fs::File::create(folder.join(format!("{name}-{id}.log"))).ok()
}

/// Reads a stream to its end in a thread; keeps the last of it.
fn keep(mut stream: std::process::ChildStderr, mut log: Option<std::fs::File>) -> Arc<Mutex<String>> {
    let kept = Arc::new(Mutex::new(String::new()));
    let end = Arc::clone(&kept);
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if let Some(log) = &mut log {
                let _ = log.write_all(&buffer[..count]);
            }
            let mut kept = end.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_str(&String::from_utf8_lossy(&buffer[..count]));
            let over = kept.len().saturating_sub(KEPT_BYTES);
            let over = kept.ceil_char_boundary(over);
            kept.drain(..over);
        }
    });
    kept
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- stderr of the process at {} ---\n{}", self.address, self.errors());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
