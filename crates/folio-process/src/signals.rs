//! Signals that end a process.

use tokio_util::sync::CancellationToken;

/// SIGXFSZ on Linux.
const FILE_SIZE_SIGNAL: i32 = 25;

/// A token that is cancelled at the first SIGTERM or SIGINT. A second signal ends the process at once, with the status
/// that the shell expects (128 + signal).
pub fn shutdown_on_signal() -> std::io::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    // Owned by the process: it lives exactly as long as it.
    tokio::spawn(async move {
        let name = next(&mut terminate, &mut interrupt).await.0;
        tracing::info!(signal = name, "shutting down");
        token.cancel();
        let (name, number) = next(&mut terminate, &mut interrupt).await;
        tracing::warn!(signal = name, "second signal: ending at once");
        std::process::exit(128 + number);
    });
    Ok(shutdown)
}

/// A signal that ended what a process did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    name: &'static str,
    number: u8,
}

impl Ended {
    /// The exit status that a shell expects: 128 and the signal's number.
    pub fn status(self) -> u8 {
        128 + self.number
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ended by {}", self.name)
    }
}

impl std::error::Error for Ended {}

/// The first SIGTERM or SIGHUP from now on, for a program at a terminal: Ctrl-C (SIGINT) is the person's there.
pub fn ended_from_outside() -> std::io::Result<impl Future<Output = Ended>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => Ended { name: "SIGTERM", number: 15 },
            _ = hang_up.recv() => Ended { name: "SIGHUP", number: 1 },
        }
    })
}

/// A write over the limit of a file's size (RLIMIT_FSIZE) is an error from now on, not the end of the process.
pub fn survive_file_size_limit() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    // Once taken it stays taken, whatever becomes of the receiver.
    signal(SignalKind::from_raw(FILE_SIZE_SIGNAL)).map(drop)
}

async fn next(
    terminate: &mut tokio::signal::unix::Signal,
    interrupt: &mut tokio::signal::unix::Signal,
) -> (&'static str, i32) {
    tokio::select! {
        _ = terminate.recv() => ("SIGTERM", 15),
        _ = interrupt.recv() => ("SIGINT", 2),
    }
}
