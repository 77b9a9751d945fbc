//! Re-encryption of the stored provider keys with the newest master key: one pass at the start of the process, if the
//! settings contain older master keys.

use folio_providers::{Providers, ReencryptedKeys};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(super) struct Renewal {
    ended: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Renewal {
    pub(super) fn start(providers: Providers) -> Self {
        let ended = CancellationToken::new();
        let (token, has_older_master_keys) = (ended.clone(), providers.has_older_master_keys());
        let pass = async move {
            match providers.reencrypt_keys(&token).await {
                // The process is stopping.
                Ok(None) => {}
                Ok(Some(ReencryptedKeys { lost: 0, failed: 0 })) => {
                    tracing::info!(
                        "every API key of a provider is encrypted with the newest master key; other secrets keep theirs until \
                         they are set again"
                    );
                }
                Ok(Some(ReencryptedKeys { lost, failed })) => tracing::warn!(
                    lost,
                    failed,
                    "some stored keys are encrypted with missing master keys, or could not be re-encrypted"
                ),
                Err(error) => {
                    tracing::warn!(%error, "some stored keys were not re-encrypted with the newest master key")
                }
            }
        };
        let task = has_older_master_keys.then(|| tokio::spawn(pass));
        Self { ended, task }
    }

    /// Cancels the pass. It may end between any two keys, because each key is replaced in one write.
    pub(super) async fn stop(self) {
        self.ended.cancel();
        if let Some(task) = self.task {
            task.abort();
            // The result is a cancellation, or the end of the pass.
            let _ = task.await;
        }
    }
}
