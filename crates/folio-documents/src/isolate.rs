//! The parent of a child process: starts it, bounds its time and output, and kills its process group.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use folio_types::Secret;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdout, Command};

use crate::worker::{Job, MARKER, PASSWORD_VARIABLE, Task};

/// Maximum bytes of standard error that are kept.
const STDERR_BYTES: u64 = 4 * 1024;
/// Maximum length of the reason in an error, in characters.
const REASON_CHARS: usize = 200;
/// Number of killed children after which a file fails.
const KILLS_MAX: u32 = 2;
const SIGKILL: i32 = Signal::SIGKILL as i32;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    /// The child could not be started. The file is not the cause.
    #[error("a child process could not be started: {0}")]
    Start(#[source] io::Error),
    /// Children of the file were killed `KILLS_MAX` times. No further child starts for the file.
    #[error("the process that reads the file was killed {KILLS_MAX} times: the file probably needs too much memory")]
    Killed,
    #[error("reading the file took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
    /// A signal ended the child: a limit of processor time or memory, or a crash.
    #[error("{}", signal_reason(*.0))]
    Signal(i32),
    #[error("reading the file failed (exit status {status}{})", if stderr.is_empty() { String::new() } else { format!(": {stderr}") })]
    Exit {
        status: i32,
        /// First line of an external program's standard error. Empty for Folio's own child.
        stderr: String,
    },
    #[error("the file contains more text than the maximum")]
    TooMuchOutput,
}

fn signal_reason(signal: i32) -> String {
    match Signal::try_from(signal) {
        Ok(Signal::SIGXCPU | Signal::SIGKILL) => "reading the file took too much processor time or memory".to_owned(),
        Ok(signal) => format!("reading the file needed too much memory or crashed the reader ({signal})"),
        Err(_) => format!("reading the file crashed the reader (signal {signal})"),
    }
}

/// Starts the child processes for one file.
#[derive(Debug)]
pub(crate) struct ChildProcesses {
    program: PathBuf,
    scratch: PathBuf,
    /// Number of children that were killed (SIGKILL).
    kills: AtomicU32,
}

/// The files of a child. The parent opens them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Files<'a> {
    /// The standard input.
    pub(crate) input: Option<&'a Path>,
    /// A new file for the standard output. None: the parent returns the output.
    pub(crate) output: Option<&'a Path>,
    /// The password of the input. None: the file has none.
    pub(crate) password: Option<&'a Secret>,
}

impl ChildProcesses {
    /// `program`: None is this binary.
    pub(crate) fn new(program: Option<PathBuf>, scratch: PathBuf) -> Self {
        // /proc/self/exe refers to this binary even if its file is replaced.
        Self { program: program.unwrap_or_else(|| PathBuf::from("/proc/self/exe")), scratch, kills: AtomicU32::new(0) }
    }

    /// Runs a task. Returns the output, at most `max_output` bytes. Dropping the future kills the child's process group.
    ///
    /// The first child of a file that is killed (SIGKILL) is repeated: the kernel may have killed it because other
    /// processes used the memory of the container. The second one ends the file with [`ChildError::Killed`].
    pub(crate) async fn run(
        &self,
        task: &Task,
        files: Files<'_>,
        timeout: Duration,
        max_output: u64,
    ) -> Result<Vec<u8>, ChildError> {
        while self.kills.load(Ordering::Relaxed) < KILLS_MAX {
            match self.run_once(task, files, timeout, max_output).await {
                Err(error @ ChildError::Signal(SIGKILL)) => {
                    let kills = self.kills.fetch_add(1, Ordering::Relaxed) + 1;
                    tracing::warn!(%error, kills, "a child process was killed");
                }
                result => return result,
            }
        }
        Err(ChildError::Killed)
    }

    async fn run_once(
        &self,
        task: &Task,
        files: Files<'_>,
        timeout: Duration,
        max_output: u64,
    ) -> Result<Vec<u8>, ChildError> {
        let input = files.input.map(File::open).transpose().map_err(ChildError::Start)?;
        let output = files.output.map(File::create).transpose().map_err(ChildError::Start)?;
        let is_program = matches!(task.job, Job::Program { .. });
        let task = serde_json::to_string(task).map_err(|error| ChildError::Start(error.into()))?;
        let mut child = Command::new(&self.program)
            .args([MARKER, &task])
            .env_clear()
            .envs(std::env::var_os("TESSDATA_PREFIX").map(|folder| ("TESSDATA_PREFIX", folder)))
            .envs(files.password.map(|password| (PASSWORD_VARIABLE, password.reveal())))
            .env("OMP_THREAD_LIMIT", "1")
            // Without this setting, the allocator reserves one GiB of address space, which counts against the limit.
            .env("MIMALLOC_DISALLOW_ARENA_ALLOC", "1")
            .env("TMPDIR", &self.scratch)
            .env("HOME", &self.scratch)
            .current_dir(&self.scratch)
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .stdout(output.map_or_else(Stdio::piped, Stdio::from))
            .stderr(if is_program { Stdio::piped() } else { Stdio::null() })
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(ChildError::Start)?;
        let mut group = ProcessGroupGuard(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let finished = tokio::time::timeout(timeout, async {
            let (output, stderr) = tokio::join!(read_stdout(stdout, max_output.saturating_add(1)), read_stderr(stderr));
            let output = output?;
            if output.len() as u64 > max_output {
                return Ok(Err(ChildError::TooMuchOutput));
            }
            Ok(Ok((output, child.wait().await?, stderr)))
        });
        let (output, status, stderr) = match finished.await {
            Ok(Ok(finished)) => finished?,
            Ok(Err(error)) => return Err(ChildError::Start(error)),
            Err(_) => return Err(ChildError::TimedOut(timeout)),
        };
        // The child was reaped, so its process id may be reused.
        group.0 = None;
        outcome(status, || self.reason(&stderr)).map(|()| output)
    }

    /// Returns the first line that is not empty, without paths of the scratch folder.
    fn reason(&self, stderr: &[u8]) -> String {
        let stderr = String::from_utf8_lossy(stderr).replace(&*self.scratch.to_string_lossy(), "");
        let line = stderr.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        line.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect()
    }
}

/// Returns the beginning of a child's standard output. None: the output is a file.
async fn read_stdout(stdout: Option<ChildStdout>, max: u64) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    if let Some(stdout) = stdout {
        stdout.take(max).read_to_end(&mut output).await?;
    }
    Ok(output)
}

/// Returns the beginning of a child's standard error. The rest is read and dropped, so that the child does not block.
async fn read_stderr(stderr: Option<ChildStderr>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(stderr) = stderr {
        let mut first = stderr.take(STDERR_BYTES);
        // The output is only part of an error message, so a read error is ignored.
        let _ = first.read_to_end(&mut kept).await;
        let _ = tokio::io::copy(&mut first.into_inner(), &mut tokio::io::sink()).await;
    }
    kept
}

fn outcome(status: std::process::ExitStatus, stderr: impl FnOnce() -> String) -> Result<(), ChildError> {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(status), _) => Err(ChildError::Exit { status, stderr: stderr() }),
        (None, signal) => Err(ChildError::Signal(signal.unwrap_or_default())),
    }
}

/// The process group of a child that was not reaped. Dropping the guard kills the group.
struct ProcessGroupGuard(Option<Pid>);

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}
