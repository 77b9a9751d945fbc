//! The task of a gRPC server, with the two phases of its shutdown.

use std::time::Duration;

use folio_cluster::Shutdown;
use tokio::task::JoinHandle;

pub(crate) struct ServerTask {
    /// The server in errors and logs, such as `the listener`.
    name: &'static str,
    shutdown: Shutdown,
    task: JoinHandle<folio_types::Result<()>>,
}

impl ServerTask {
    pub(crate) fn start<F>(name: &'static str, serve: impl FnOnce(Shutdown) -> F) -> Self
    where
        F: Future<Output = folio_types::Result<()>> + Send + 'static,
    {
        let shutdown = Shutdown::default();
        let task = tokio::spawn(serve(shutdown.clone()));
        Self { name, shutdown, task }
    }

    /// Waits for the end of the task, which is always an error.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        let name = self.name;
        match (&mut self.task).await {
            Ok(Ok(())) => anyhow::anyhow!("{name} ended"),
            Ok(Err(error)) => anyhow::Error::new(error).context(format!("{name} failed")),
            Err(error) => anyhow::Error::new(error).context(format!("{name} failed")),
        }
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
                self.shutdown.abort.cancel();
                self.task.await
            }
        };
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "{} failed during the shutdown", self.name);
        }
    }
}
