//! The parent's side of a child: starts it, bounds its time and its output, and kills its whole group.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::options::WorkerCommand;
use crate::worker::{MARKER, Task};

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
    #[error("reading it failed (exit status {0})")]
    Exit(i32),
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
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(ChildError::Start)?;
        let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
        let stdout = child.stdout.take().ok_or_else(|| ChildError::Start(io::Error::other("no pipe")))?;
        let finished = tokio::time::timeout(wall, async {
            let mut output = Vec::new();
            stdout.take(max_output.saturating_add(1)).read_to_end(&mut output).await?;
            if output.len() as u64 > max_output {
                return Ok(Err(ChildError::TooMuchOutput));
            }
            Ok(Ok((output, child.wait().await?)))
        });
        let (output, status) = match finished.await {
            Ok(Ok(finished)) => finished?,
            Ok(Err(error)) => return Err(ChildError::Start(error)),
            Err(_) => return Err(ChildError::TimedOut(wall)),
        };
        // Reaped: its number may belong to another process from now on.
        group.0 = None;
        outcome(status).map(|()| output)
    }
}

fn outcome(status: std::process::ExitStatus) -> Result<(), ChildError> {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(ChildError::Exit(code)),
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
