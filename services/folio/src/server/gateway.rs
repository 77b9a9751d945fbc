//! The gateway role: the public API.

use std::time::Duration;

use folio_gateway::{Gateway, Shutdown};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) struct RunningGateway {
    shutdown: Shutdown,
    task: JoinHandle<folio_types::Result<()>>,
}

impl RunningGateway {
    pub(crate) fn start(listener: TcpListener, gateway: Gateway) -> Self {
        let shutdown = Shutdown::default();
        let task = tokio::spawn(folio_gateway::serve(listener, gateway, shutdown.clone()));
        Self { shutdown, task }
    }

    /// Waits until the gateway fails.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        super::ended(&mut self.task, "the listener").await
    }

    pub(crate) fn begin_to_stop(&self) {
        self.shutdown.begin.cancel();
    }

    /// Waits for running calls until the limit, and aborts the others.
    pub(crate) async fn drain(mut self, limit: Duration) {
        self.begin_to_stop();
        let ended = match tokio::time::timeout(limit, &mut self.task).await {
            Ok(ended) => ended,
            Err(_) => {
                self.shutdown.cut.cancel();
                self.task.await
            }
        };
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the listener did not end in order");
        }
    }
}
