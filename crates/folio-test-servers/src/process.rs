//! A child process that ends with its parent, also when that is killed.
//!
//! A server is started by a shell that first leaves a watcher behind and then becomes the server. The watcher reads from a
//! pipe whose other end only the parent holds. When the parent dies, however and whenever it dies, the pipe ends; then the
//! watcher kills the server and removes its folder. Both are in a process group of their own, so that Ctrl-C reaches the
//! parent only. (The system's own signal for a parent's death comes already when the *thread* that started the child ends.)

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// `sh -c STARTER sh FOLDER CLEANING PROGRAM ARGUMENT…`
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

/// How long a server may take to end when it is asked to.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Bytes of a log that an error shows.
const LOG_SHOWN_BYTES: usize = 2_000;

/// A server's process. Dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    /// Its end tells the watcher that we died.
    pipe: ChildStdin,
    ended: bool,
}

impl Process {
    /// Starts it with its output in `folder/NAME.out`. The folder is removed should this process die before the server.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(name: &str, command: Command, folder: &Path) -> Result<Self> {
        Self::start_and_clean(name, command, folder, "")
    }

    /// The same, with a shell script that cleans up should this process die before the server.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_and_clean(name: &str, command: Command, folder: &Path, cleaning: &str) -> Result<Self> {
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(output_of(name, folder))
            .context("a server's output file cannot be opened")?;
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
            .with_context(|| format!("{name} cannot be started"))?;
        let pipe = child.stdin.take().context("a server has no pipe")?;
        Ok(Self { name: name.to_owned(), child, pipe, ended: false })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready`; an early end, or none within `limit`, is an error that shows the last of its output.
    ///
    /// # Errors
    /// It ended, or the time was over.
    pub fn wait_until(&mut self, folder: &Path, limit: Duration, ready: impl Fn() -> bool) -> Result<()> {
        let end = Instant::now() + limit;
        while !ready() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at its start ({status}): {}", self.name, last_output(&self.name, folder));
            }
            if Instant::now() > end {
                bail!("{} was not ready within {limit:?}: {}", self.name, last_output(&self.name, folder));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Asks it to end (SIGTERM) and waits; kills it when that takes too long.
    ///
    /// # Errors
    /// The system refuses.
    pub fn stop(mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        let end = Instant::now() + STOP_LIMIT;
        while Instant::now() < end && self.child.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end();
        Ok(())
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub fn kill(mut self) {
        self.end();
    }

    /// Stops it where it stands (SIGSTOP): its connections stay open and nothing answers.
    ///
    /// # Errors
    /// The system refuses.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets it go on after [`Process::pause`].
    ///
    /// # Errors
    /// The system refuses.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.child.id()).context("a process id is too large")?;
        kill(Pid::from_raw(id), signal).with_context(|| format!("{signal} cannot be sent to {}", self.name))
    }

    /// The watcher is told while the server's id is still its own: a child that was waited for may have given it away.
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
