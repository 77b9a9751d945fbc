//! An HTTP listener that is separate from the public API.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) struct HttpPort {
    pub(crate) address: SocketAddr,
    server: JoinSet<()>,
    end: CancellationToken,
    /// Time limit for responses in progress at the stop.
    stop_timeout: Duration,
}

impl HttpPort {
    /// Starts a server on the listener. `serve` returns the future of the server, which ends after the token is
    /// cancelled. `purpose` is used in logs and errors.
    pub(crate) fn start<F, E>(
        purpose: &'static str,
        listener: TcpListener,
        stop_timeout: Duration,
        serve: impl FnOnce(TcpListener, CancellationToken) -> F,
    ) -> Result<Self>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Debug + Send,
    {
        let address = listener.local_addr().with_context(|| format!("the port for {purpose} has no address"))?;
        let (mut server, end) = (JoinSet::new(), CancellationToken::new());
        let serving = serve(listener, end.clone());
        server.spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(?error, "the port for {purpose} failed");
            }
        });
        tracing::info!(%address, "listening for {purpose}");
        Ok(Self { address, server, end, stop_timeout })
    }

    pub(crate) async fn stop(mut self) {
        self.end.cancel();
        let _ = tokio::time::timeout(self.stop_timeout, self.server.join_next()).await;
    }
}
