//! A running program whose output a test reads.

use std::io::Read;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};

use crate::LIMIT;

/// A child process. Dropping it kills the process.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of a program. A thread reads it until the program ends.
pub(crate) struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    pub(crate) fn of(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let output = Self(Arc::clone(&bytes));
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        });
        output
    }

    /// Returns true if the program closed its output.
    pub(crate) fn is_complete(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Returns the output without control sequences.
    pub(crate) fn shown(&self) -> String {
        let raw = self.raw();
        let mut parts = raw.split('\u{1b}');
        let mut shown = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let after = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1);
            shown.push_str(&part[after..]);
        }
        shown.replace('\r', "")
    }

    /// Waits until the text was shown this many times.
    pub(crate) async fn until(&self, text: &str, times: usize) {
        self.wait(text, || (self.shown().matches(text).count() >= times).then_some(())).await;
    }

    /// Waits for a condition. After [`LIMIT`], panics with the output.
    pub(crate) async fn wait<T>(&self, subject: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        let waiting = folio_testkit::wait_for(subject, LIMIT * 2, || std::future::ready(condition()));
        let waited = tokio::time::timeout(LIMIT, waiting).await;
        waited.unwrap_or_else(|_| panic!("timed out waiting for {subject:?} in:\n{}", self.shown()))
    }
}
