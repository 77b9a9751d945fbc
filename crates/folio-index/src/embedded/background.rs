//! Threads with a low priority.

use std::sync::LazyLock;

use folio_types::{Error, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// Nice value of the threads. While another thread needs the same processor, such a thread gets about 3 % of its time.
#[cfg(target_os = "linux")]
const NICE: i32 = 15;

/// Threads of the process for writes and maintenance of all indexes. Threads that they start, such as those of a merge, have the same
/// priority. A thread ends when it was idle for ten seconds.
static BACKGROUND: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_current_thread().thread_name("index-write").on_thread_start(lower_priority).build());

/// Lowers the priority of this thread, on Linux: searches and turns come first.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::warn!(%error, "the priority of a thread that writes an index cannot be lowered");
    }
}

/// Runs work that blocks on a thread with a low priority.
///
/// # Errors
/// `INTERNAL` if the process cannot start threads.
pub(super) fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    let runtime = BACKGROUND.as_ref();
    let runtime = runtime.map_err(|error| Error::internal(format!("no thread for writes can be started: {error}")))?;
    Ok(runtime.spawn_blocking(work))
}
