//! Signals that end a process.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The number of SIGXFSZ on Linux.
const FILE_SIZE_SIGNAL: i32 = 25;

/// Returns a token that the first SIGTERM or SIGINT cancels. A second signal ends the process immediately with the exit
/// status that a shell expects (128 + signal number).
pub fn shutdown_on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    // The task runs until the process ends.
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => StopSignal { name: "SIGTERM", number: 15 },
                _ = interrupt.recv() => StopSignal { name: "SIGINT", number: 2 },
            }
        };
        let first = next().await;
        tracing::info!(signal = first.name, "shutting down");
        token.cancel();
        let second = next().await;
        tracing::warn!(signal = second.name, "second signal: ending immediately");
        std::process::exit(second.status().into());
    });
    Ok(shutdown)
}

/// The signal that ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopSignal {
    name: &'static str,
    number: u8,
}

impl StopSignal {
    /// Returns the exit status that a shell expects: 128 + signal number.
    pub fn status(self) -> u8 {
        128 + self.number
    }
}

impl std::fmt::Display for StopSignal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ended by {}", self.name)
    }
}

impl std::error::Error for StopSignal {}

/// Returns a future that resolves at the first SIGTERM or SIGHUP. It is for interactive commands, which handle Ctrl-C
/// (SIGINT) themselves.
pub fn termination() -> std::io::Result<impl Future<Output = StopSignal>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => StopSignal { name: "SIGTERM", number: 15 },
            _ = hang_up.recv() => StopSignal { name: "SIGHUP", number: 1 },
        }
    })
}

/// Installs a handler so that a write beyond the file size limit (RLIMIT_FSIZE) fails. By default, SIGXFSZ ends the
/// process.
pub fn survive_file_size_limit() -> std::io::Result<()> {
    // The handler stays installed after the receiver is dropped.
    signal(SignalKind::from_raw(FILE_SIZE_SIGNAL)).map(drop)
}
