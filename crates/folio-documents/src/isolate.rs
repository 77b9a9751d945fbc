//! The parent's side of a child: starts it, bounds its time and its output, and kills its whole group.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, Command};

use crate::options::WorkerCommand;
use crate::worker::{Job, MARKER, Task};

/// Bytes of a program's standard error that are looked at.
const SAID_BYTES: u64 = 4 * 1024;
/// Characters of it that a person is shown.
const SAID_CHARS: usize = 200;

/// Why a child gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    /// It could not be started; the file is not at fault.
    #[error("a child process could not be started: {0}")]
    Start(#[source] io::Error),
    /// It took longer than it may by the clock.
    #[error("reading it took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
    /// It was ended by a signal: the limits of processor time and memory, or a crash.
    #[error("{}", signal_reason(*.0))]
    Signal(i32),
    /// It ended with an error of its own.
    #[error("reading it failed (exit status {status}{})", if said.is_empty() { String::new() } else { format!(": {said}") })]
    Exit {
        /// The status.
        status: i32,
        /// The first line of what a program of others said about it; empty for our own.
        said: String,
    },
    /// It wrote more than it may.
    #[error("it has more text than can be kept")]
    TooMuchOutput,
}

fn signal_reason(signal: i32) -> String {
    match Signal::try_from(signal) {
        Ok(Signal::SIGXCPU | Signal::SIGKILL) => "reading it took too much processor time or memory".to_owned(),
        Ok(signal) => format!("reading it needed too much memory or crashed the reader ({signal})"),
        Err(_) => format!("reading it crashed the reader (signal {signal})"),
    }
}

/// How a child is started.
#[derive(Debug, Clone)]
pub(crate) struct Children {
    program: PathBuf,
    scratch: PathBuf,
}

impl Children {
    /// By this command; none: by this very binary.
    pub(crate) fn new(worker: Option<&WorkerCommand>, scratch: PathBuf) -> Self {
        // /proc/self/exe stays this binary also when its file is replaced.
        let own = || PathBuf::from("/proc/self/exe");
        Self { program: worker.map_or_else(own, |worker| worker.program.clone()), scratch }
    }

    /// Runs a task on a file (its standard input) and gives what it wrote: at most `max_output` bytes.
    pub(crate) async fn run(
        &self,
        task: &Task,
        input: Option<File>,
        wall: Duration,
        max_output: u64,
    ) -> Result<Vec<u8>, ChildError> {
        let is_program = matches!(task.job, Job::Program { .. });
        let task = serde_json::to_string(task).map_err(|error| ChildError::Start(error.into()))?;
        let mut child = Command::new(&self.program)
            .args([MARKER, &task])
            .env_clear()
            .envs(std::env::var_os("TESSDATA_PREFIX").map(|folder| ("TESSDATA_PREFIX", folder)))
            .env("OMP_THREAD_LIMIT", "1")
            .env("TMPDIR", &self.scratch)
            .current_dir(&self.scratch)
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::piped())
            .stderr(if is_program { Stdio::piped() } else { Stdio::null() })
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(ChildError::Start)?;
        let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
        let stdout = child.stdout.take().ok_or_else(|| ChildError::Start(io::Error::other("no pipe")))?;
        let stderr = child.stderr.take();
        let finished = tokio::time::timeout(wall, async {
            let mut output = Vec::new();
            let mut stdout = stdout.take(max_output.saturating_add(1));
            let (read, said) = tokio::join!(stdout.read_to_end(&mut output), said(stderr));
            read?;
            if output.len() as u64 > max_output {
                return Ok(Err(ChildError::TooMuchOutput));
            }
            Ok(Ok((output, child.wait().await?, said)))
        });
        let (output, status, said) = match finished.await {
            Ok(Ok(finished)) => finished?,
            Ok(Err(error)) => return Err(ChildError::Start(error)),
            Err(_) => return Err(ChildError::TimedOut(wall)),
        };
        // Reaped: its number may belong to another process from now on.
        group.0 = None;
        outcome(status, || self.reason(&said)).map(|()| output)
    }

    /// The first line that says something, without the names of our own folders.
    fn reason(&self, said: &[u8]) -> String {
        let said = String::from_utf8_lossy(said).replace(&*self.scratch.to_string_lossy(), "");
        let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        line.chars().filter(|c| !c.is_control()).take(SAID_CHARS).collect()
    }
}

/// The beginning of what a child says on its standard error; the rest is read and dropped, so that it can go on.
async fn said(stderr: Option<ChildStderr>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(stderr) = stderr {
        let mut first = stderr.take(SAID_BYTES);
        // What it says is no result: nothing depends on it.
        let _ = first.read_to_end(&mut kept).await;
        let _ = tokio::io::copy(&mut first.into_inner(), &mut tokio::io::sink()).await;
    }
    kept
}

fn outcome(status: std::process::ExitStatus, said: impl FnOnce() -> String) -> Result<(), ChildError> {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(status), _) => Err(ChildError::Exit { status, said: said() }),
        (None, signal) => Err(ChildError::Signal(signal.unwrap_or_default())),
    }
}

/// The process group of a child that was not waited for: killed when dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}
