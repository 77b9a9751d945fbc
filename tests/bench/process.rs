//! Processes under measurement, whose usage is read from `/proc`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// A process that prints `listening on ADDRESS` on stdout. Dropping it kills the process.
pub(crate) struct Process {
    child: Child,
    /// Listening address.
    pub(crate) address: String,
    printed: Vec<String>,
}

/// Returns a command for a binary in the folder of this one.
pub(crate) fn command(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?.with_file_name(name));
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    Ok(command)
}

impl Process {
    /// Starts a binary in the folder of this one.
    pub(crate) fn start(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self> {
        let mut child = command(name, arguments, variables)?
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{name} cannot be started"))?;
        let output = child.stdout.take().context("no output")?;
        let mut lines = BufReader::new(output).lines();
        let mut process = Self { child, address: String::new(), printed: Vec::new() };
        while process.address.is_empty() {
            let line = lines.next().with_context(|| format!("{name} ended before it listened"))??;
            match line.strip_prefix("listening on ") {
                Some(address) => process.address = address.to_owned(),
                None => process.printed.push(line),
            }
        }
        // The rest of stdout is read, so that the process does not block.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(process)
    }

    /// Returns the rest of a line that the process printed before it listened.
    pub(crate) fn printed(&self, prefix: &str) -> Result<String> {
        let idle = self.printed.iter().find_map(|line| line.strip_prefix(prefix));
        idle.map(str::to_owned).with_context(|| format!("no line starts with {prefix:?}"))
    }

    /// Kills the process (SIGKILL).
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Returns the CPU time since the start, user and system.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        // Linux reports hundredths of a second to every program (USER_HZ).
        Ok(Duration::from_millis((ticks(11) + ticks(12)) * 10))
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// A `folio serve` with a temporary folder and one model endpoint.
pub(crate) struct Folio {
    pub(crate) process: Process,
    /// Token of the administrator.
    pub(crate) token: String,
    _folder: tempfile::TempDir,
}

impl Folio {
    /// Starts the server with further settings.
    pub(crate) fn start(model_endpoint: &str, settings: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data").to_string_lossy().into_owned();
        let base_url = format!("{model_endpoint}/v1");
        let mut variables =
            vec![("OPENAI_API_KEY", "sim"), ("OPENAI_BASE_URL", base_url.as_str()), ("FOLIO_LOG__FILTER", "error")];
        variables.extend(settings);
        let process = Process::start("folio", &["serve", "--listen", "127.0.0.1:0", "--data", &data], &variables)?;
        let token = std::fs::read_to_string(folder.path().join("data/admin.token"))?.trim().to_owned();
        Ok(Self { process, token, _folder: folder })
    }
}
