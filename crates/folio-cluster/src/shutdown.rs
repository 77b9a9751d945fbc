//! How a server ends, and what its calls survive: the same for the listener of a gateway and of a node.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use folio_types::{Error, Reason, Result};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

/// How long a cut may take to reach every call.
const CUT_TAKES: Duration = Duration::from_secs(2);

/// How a server is told to end. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// From here on no new connection is taken, and health says so; calls under way go on.
    pub begin: CancellationToken,
    /// From here on what is left is answered `DRAINING`.
    pub cut: CancellationToken,
}

impl Shutdown {
    /// Runs a server, which ends by itself once `begin` was told and its calls have ended, through both phases. `begun` is
    /// done at the first.
    ///
    /// # Errors
    /// The server failed by itself.
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
            () = self.cut.cancelled() => tracing::info!("the drain is over; what is left is cut"),
        }
        tokio::time::timeout(CUT_TAKES, &mut server).await.unwrap_or(Ok(()))
    }
}

fn failed(error: tonic::transport::Error) -> Error {
    Error::internal(format!("the server failed: {error:?}"))
}

/// The answer to whatever comes, or is left, when the server stops.
pub fn draining() -> Error {
    Error::unavailable(Reason::Draining, "the server is shutting down").retry_after(Duration::from_secs(1))
}

/// A call whose panic costs itself only; without this it would end every call of its connection.
///
/// # Errors
/// It panicked.
pub async fn survive<T>(call: impl Future<Output = T>) -> Result<T> {
    AssertUnwindSafe(call).catch_unwind().await.map_err(|panic| broken(panic.as_ref()))
}

fn broken(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Error::internal(format!("a call panicked: {}", text.unwrap_or("without a message")))
}
