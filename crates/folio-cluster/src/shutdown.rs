//! Shutdown of a server and panic isolation of its RPCs, for the listeners of gateways and nodes.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use folio_types::{Error, Reason, Result};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

/// Time limit for ending the remaining RPCs.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The shutdown signals of a server. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// When cancelled, the server accepts no new connection, and health reports the shutdown. RPCs in flight continue.
    pub begin: CancellationToken,
    /// When cancelled, the remaining RPCs fail with `DRAINING`.
    pub abort: CancellationToken,
}

impl Shutdown {
    /// Runs a server until it ends, through both phases of the shutdown. After `begin`, the server must return once its
    /// RPCs have ended. After `abort`, the server is dropped without an error if it does not end within 2 s.
    /// `begun` runs at the start of the first phase.
    ///
    /// # Errors
    /// The server failed.
    pub async fn run(
        &self,
        server: impl Future<Output = Result<(), tonic::transport::Error>>,
        begun: impl Future<Output = ()>,
    ) -> Result<()> {
        let server = server.map(|ended| ended.map_err(failed));
        tokio::pin!(server);
        tokio::select! {
            ended = &mut server => return ended,
            () = self.begin.cancelled() => begun.await,
        }
        tokio::select! {
            ended = &mut server => return ended,
            () = self.abort.cancelled() => tracing::info!("the drain deadline passed; aborting the remaining RPCs"),
        }
        tokio::time::timeout(ABORT_TIMEOUT, &mut server).await.unwrap_or(Ok(()))
    }
}

fn failed(error: tonic::transport::Error) -> Error {
    Error::internal(format!("the server failed: {error:?}"))
}

/// Returns the error of an RPC that arrives or is aborted during the shutdown.
pub fn draining() -> Error {
    Error::unavailable(Reason::Draining, "the server is shutting down").retry_after(Duration::from_secs(1))
}

/// Runs an RPC so that a panic fails only this RPC, instead of every RPC of its connection.
pub fn catch_panic<T>(call: impl Future<Output = T>) -> impl Future<Output = Result<T>> {
    let ended = AssertUnwindSafe(call).catch_unwind();
    ended.map(|ended| ended.map_err(|panic| panicked(panic.as_ref())))
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Error::internal(format!("an RPC panicked: {}", text.unwrap_or("no message")))
}
