//! Processes under measurement, whose usage is read from `/proc`.

use std::time::Duration;

use anyhow::Result;
use folio_tests::harness::client::Client;
use folio_tests::harness::process::{Process, resident_bytes};

/// Returns the CPU time of a process since its start, user and system.
pub(crate) fn cpu(process: &Process) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id()))?;
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // Linux reports hundredths of a second to every program (USER_HZ).
    Ok(Duration::from_millis((ticks(11) + ticks(12)) * 10))
}

/// Returns the resident memory of a process in bytes.
pub(crate) fn memory(process: &Process) -> Result<u64> {
    resident_bytes(process.id())
}

/// Starts a model endpoint that plays a script, and records no requests.
pub(crate) fn start_model(folder: &std::path::Path, script: &str) -> Result<Process> {
    std::fs::write(folder.join("script.yaml"), script)?;
    let arguments = ["--listen", "127.0.0.1:0", "--record", "0", "--script", "script.yaml"];
    Ok(Process::start("llm-sim", folder, &arguments, &[]))
}

/// A `folio serve` with a temporary folder and one model endpoint.
pub(crate) struct Folio {
    pub(crate) process: Process,
    /// Token of the administrator.
    token: String,
    _folder: tempfile::TempDir,
}

impl Folio {
    /// Starts the server with further settings.
    pub(crate) fn start(model_endpoint: &str, settings: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let base_url = format!("{model_endpoint}/v1");
        let mut variables = vec![
            ("OPENAI_API_KEY", "sim"),
            ("OPENAI_BASE_URL", base_url.as_str()),
            ("FOLIO_LOG__FILTER", "error"),
            // Each turn makes one model call, also in a long thread.
            ("FOLIO_CONVERSATION__SUMMARIES", "false"),
        ];
        variables.extend(settings);
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data"];
        let process = Process::start("folio", folder.path(), &arguments, &variables);
        let token = std::fs::read_to_string(folder.path().join("data/admin.token"))?.trim().to_owned();
        Ok(Self { process, token, _folder: folder })
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.process.url(), Some(&self.token)).await
    }
}
