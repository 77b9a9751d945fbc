//! Processes of a test: started on a free port, killed by id, and killed when dropped.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Maximum number of bytes of stderr that are stored for the output of a failed test.
const STDERR_BYTES_MAX: usize = 1024 * 1024;

/// A process that prints `listening on ADDRESS`. Dropping it kills the process.
pub struct Process {
    child: Child,
    address: String,
    printed: String,
    errors: Arc<Mutex<String>>,
}

/// Returns the path of a binary of the workspace. Returns an absolute path unchanged.
pub fn binary(name: &str) -> PathBuf {
    let mut folder = std::env::current_exe().expect("a test knows its program");
    folder.pop();
    if folder.ends_with("deps") {
        folder.pop();
    }
    let path = folder.join(name);
    assert!(path.is_file(), "{} is missing: run `cargo build --workspace --all-targets` first", path.display());
    path
}

/// Runs a program to its end. Writes its elapsed time to the log, also if the test passes: the test runner captures the output of
/// macros such as `println!`, and nothing that is written to stderr directly.
pub fn run_timed(command: &mut Command) -> Output {
    let started_at = Instant::now();
    let output = command.output().expect("the program starts");
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let (arguments, elapsed) = (arguments.join(" "), started_at.elapsed().as_secs_f64());
    let _ = writeln!(std::io::stderr(), "short run: {program} {arguments}: {elapsed:.1} s");
    output
}

/// Returns a command that runs in a folder with these environment variables, without those of a model endpoint, and
/// without a search for endpoints on this machine. The configuration of the user is below the folder.
pub fn command(program: impl AsRef<OsStr>, folder: &Path, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL").env("FOLIO_MODELS__LOCAL__DETECT", "false");
    // A login of the user that runs the tests has no effect.
    command.env("XDG_CONFIG_HOME", folder.join("configuration"));
    command.envs(environment.iter().copied()).current_dir(folder);
    command
}

/// Returns the resident memory of a process in bytes.
pub fn resident_bytes(id: u32) -> anyhow::Result<u64> {
    status_bytes(id, "VmRSS:")
}

/// Returns the resident memory of a process in bytes, without the mapped parts of files, such as the program itself: the
/// kernel loads and drops them as it needs.
pub fn anonymous_bytes(id: u32) -> anyhow::Result<u64> {
    status_bytes(id, "RssAnon:")
}

fn status_bytes(id: u32, name: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

/// Returns the number of open file descriptors of a process.
pub fn open_files(id: u32) -> anyhow::Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{id}/fd"))?.count())
}

impl Process {
    /// Starts a binary of the workspace in a folder and waits until it listens.
    pub fn start(name: &str, folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        match Self::try_start(name, folder, arguments, environment) {
            Ok(process) => process,
            Err(errors) => panic!("{name} ended before it listened:\n{errors}"),
        }
    }

    /// Like [`Process::start`], but returns the stderr if the process exits before it listens.
    pub fn try_start(
        name: &str,
        folder: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, String> {
        let mut child = command(binary(name), folder, environment)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let errors = collect(child.stderr.take().expect("stderr is piped"), log_of(name, child.id()));
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let mut printed = String::new();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            printed.push_str(&line);
            printed.push('\n');
            Some(line.strip_prefix("listening on ")?.to_owned())
        });
        // The rest of stdout is read, so that the process does not block.
        std::thread::spawn(move || lines.for_each(drop));
        let Some(address) = address else {
            let _ = child.wait();
            return Err(errors.lock().unwrap_or_else(PoisonError::into_inner).clone());
        };
        Ok(Self { child, address, printed, errors })
    }

    pub fn is_dead(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Returns the URL, `http://HOST:PORT`.
    pub fn url(&self) -> String {
        if self.address.contains("://") { self.address.clone() } else { format!("http://{}", self.address) }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn printed(&self) -> &str {
        &self.printed
    }

    /// Returns the text after `beginning` in the line that starts with it. The process printed the line before it
    /// listened.
    pub fn printed_after(&self, beginning: &str) -> Option<&str> {
        self.printed.lines().find_map(|line| line.strip_prefix(beginning))
    }

    /// Returns the end of the stderr.
    pub fn errors(&self) -> String {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Kills the process with SIGKILL and reaps it.
    pub fn kill(self) {
        drop(self);
    }

    /// Sends SIGTERM and waits. Returns true if the exit status is 0.
    pub fn terminate(self) -> bool {
        self.send_sigterm();
        self.wait_for_exit()
    }

    /// Like [`Process::terminate`], without blocking the runtime, because the process waits for its clients.
    pub async fn stop(self) -> bool {
        tokio::task::spawn_blocking(|| self.terminate()).await.expect("the wait does not panic")
    }

    /// Waits for the exit of a process after [`Process::send_sigterm`]. Returns true if the exit status is 0.
    pub fn wait_for_exit(mut self) -> bool {
        self.child.wait().is_ok_and(|status| status.success())
    }

    /// Sends SIGTERM without waiting.
    pub fn send_sigterm(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Suspends the process (SIGSTOP) and waits until all its threads are stopped.
    pub fn pause(&self) {
        let _ = folio_test_servers::process::suspend(self.id());
    }

    /// Continues the process (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Returns true if the process is stopped (SIGSTOP), also by itself.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"));
        let _ = kill(id, signal);
    }
}

/// Returns a file for the output in the folder `FOLIO_TEST_LOGS`.
fn log_of(name: &str, id: u32) -> Option<std::fs::File> {
    let folder = PathBuf::from(std::env::var_os("FOLIO_TEST_LOGS")?);
    let name = Path::new(name).file_name()?.to_string_lossy();
    std::fs::File::create(folder.join(format!("{name}-{id}.log"))).ok()
}

/// Reads a stream to its end in a thread, and stores its last bytes.
fn collect(mut stream: std::process::ChildStderr, mut log: Option<std::fs::File>) -> Arc<Mutex<String>> {
    let collected = Arc::new(Mutex::new(String::new()));
    let end = Arc::clone(&collected);
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if let Some(log) = &mut log {
                let _ = log.write_all(&buffer[..count]);
            }
            let mut text = end.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            let excess = text.ceil_char_boundary(text.len().saturating_sub(STDERR_BYTES_MAX));
            text.drain(..excess);
        }
    });
    collected
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
