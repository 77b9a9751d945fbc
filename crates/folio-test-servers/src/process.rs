//! A child process that ends with its parent, even if the parent is killed.
//!
//! A shell forks a watcher and then executes the server. The watcher reads from a pipe whose other end only the parent
//! has. When the parent dies for any reason, the pipe closes, and the watcher kills the server and removes its folder.
//! Watcher and server are in their own process group, so that Ctrl-C reaches only the parent. (The kernel's
//! parent-death signal is not usable, because it is sent when the *thread* that started the child ends.)

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// Suspends a child process (SIGSTOP) and waits until all its threads are stopped. Returns at once if it has ended.
pub fn suspend(id: u32) -> Result<()> {
    let id = Pid::from_raw(i32::try_from(id).context("a process id is too large")?);
    kill(id, Signal::SIGSTOP)?;
    // `kill` returns before the other threads stop. The exit status is left for `Child::wait`.
    waitid(Id::Pid(id), WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
    Ok(())
}

/// Arguments: `sh -c STARTER sh FOLDER CLEANING PROGRAM ARGUMENT…`
const STARTER: &str = r#"
folder=$1 cleaning=$2
shift 2
exec 3<&0
(
    read -r word
    [ "$word" = ended ] && exit
    kill -9 $$
    tries=0
    while kill -0 $$ && [ $tries -lt 20 ]; do sleep 0.1; tries=$((tries + 1)); done
    rm -rf -- "$folder"
    eval "$cleaning"
) <&3 3<&- >/dev/null 2>&1 &
exec "$@" </dev/null 3<&-
"#;

/// Time after which a graceful stop becomes a kill.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Maximum size of the output in an error, in bytes.
const LOG_SHOWN_BYTES: usize = 2_000;

/// A server process. Dropping the value kills the process.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    /// Pipe to the watcher. The watcher reads its end when this process dies.
    pipe: ChildStdin,
    ended: bool,
}

impl Process {
    /// Starts a process with its output in `folder/NAME.out`. If this process dies first, the folder is removed.
    pub fn start(name: &str, command: Command, folder: &Path) -> Result<Self> {
        Self::start_and_clean(name, command, folder, "")
    }

    /// Starts a process as [`Process::start`] does. If this process dies first, the shell script `cleaning` runs.
    pub fn start_and_clean(name: &str, command: Command, folder: &Path, cleaning: &str) -> Result<Self> {
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(output_of(name, folder))
            .context("cannot open a server's output file")?;
        let mut starter = Command::new("sh");
        starter
            .args(["-c", STARTER, "sh"])
            .arg(folder)
            .arg(cleaning)
            .arg(command.get_program())
            .args(command.get_args());
        for (variable, value) in command.get_envs() {
            value.map(|value| starter.env(variable, value));
        }
        let mut child = starter
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let pipe = child.stdin.take().context("a server has no pipe")?;
        Ok(Self { name: name.to_owned(), child, pipe, ended: false })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` returns true. Fails if the process ends or `limit` passes; the error contains the end of the
    /// output.
    pub fn wait_until(&mut self, folder: &Path, limit: Duration, ready: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + limit;
        while !ready() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended while it started ({status}): {}", self.name, last_output(&self.name, folder));
            }
            if Instant::now() > end {
                bail!("{} was not ready within {limit:?}: {}", self.name, last_output(&self.name, folder));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Sends SIGTERM and waits. Kills the process after a timeout.
    pub fn stop(mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        let end = Instant::now() + STOP_LIMIT;
        while Instant::now() < end && self.child.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end();
        Ok(())
    }

    /// Kills the process (SIGKILL) and reaps it.
    pub fn kill(mut self) {
        self.end();
    }

    /// Suspends the process (SIGSTOP): the connections remain open and the process does not respond.
    pub fn pause(&self) -> Result<()> {
        suspend(self.child.id()).with_context(|| format!("cannot stop {}", self.name))
    }

    /// Continues the process after [`Process::pause`].
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.child.id()).context("a process id is too large")?;
        kill(Pid::from_raw(id), signal).with_context(|| format!("cannot send {signal} to {}", self.name))
    }

    /// Notifies the watcher before the process is reaped, because its id may be reused afterwards.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            let _ = self.child.kill();
            let _ = self.pipe.write_all(b"ended\n");
            let _ = self.child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn output_of(name: &str, folder: &Path) -> std::path::PathBuf {
    folder.join(format!("{name}.out"))
}

fn last_output(name: &str, folder: &Path) -> String {
    let mut output = std::fs::read(output_of(name, folder)).unwrap_or_default();
    output.extend(std::fs::read(folder.join("logs/system.log")).unwrap_or_default());
    let from = output.len().saturating_sub(LOG_SHOWN_BYTES);
    String::from_utf8_lossy(output.get(from..).unwrap_or_default()).into_owned()
}
