//! The warnings that a call logs.

use std::io::{Result, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;
use tracing::instrument::WithSubscriber as _;

/// The collected warnings and errors as text. Clones share the text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<u8>>>);

impl Warnings {
    /// Awaits a future and adds its warnings. Tasks that it spawns are not included.
    pub(crate) async fn collect<F: Future>(&self, future: F) -> F::Output {
        let writer = self.clone();
        let lines = tracing_subscriber::fmt().with_max_level(Level::WARN).with_ansi(false);
        future.with_subscriber(lines.with_writer(move || writer.clone()).finish()).await
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Warnings {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
