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
