//! Points where a test lets the process die: named `stage:before` and `stage:after` for each step of the protocol.
//!
//! Stages: `accept`, `round`, `pause`, `decide`, `intent`, `outcome`, `resume`, `closing`, `end` (appends that hold such an
//! entry), `model`, `read`, `plan`, `write`, `recover`, `close`. In a release build nothing of this is compiled in, unless
//! the feature `failpoints` asks for it; a debug build, which tests run as processes, has it.

#[cfg(any(test, debug_assertions, feature = "failpoints"))]
use std::sync::Arc;

/// What happens at a point.
#[cfg(any(test, debug_assertions, feature = "failpoints"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it goes on.
    Pass,
    /// Whoever came here never goes on, as if the process had died here.
    Hang,
    /// The process dies.
    Abort,
}

#[cfg(any(test, debug_assertions, feature = "failpoints"))]
type Hook = Arc<dyn Fn(&str) -> Action + Send + Sync>;

/// The points of a node; by default nothing happens at any.
#[derive(Clone, Default)]
pub struct Failpoints {
    #[cfg(any(test, debug_assertions, feature = "failpoints"))]
    hook: Option<Hook>,
}

impl std::fmt::Debug for Failpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Failpoints")
    }
}

impl Failpoints {
    /// Asks `hook` at each point that is reached.
    #[cfg(any(test, debug_assertions, feature = "failpoints"))]
    pub fn new(hook: impl Fn(&str) -> Action + Send + Sync + 'static) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }

    /// The point that the environment variable `FOLIO_FAILPOINT` names (`intent:after`) kills the process when it is
    /// reached; with a number behind (`intent:after#2`) when it is reached for that time.
    #[cfg(any(debug_assertions, feature = "failpoints"))]
    pub fn from_environment() -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let Ok(wanted) = std::env::var("FOLIO_FAILPOINT") else { return Self::default() };
        let (point, nth) = match wanted.split_once('#') {
            Some((point, nth)) => (point.to_owned(), nth.parse().unwrap_or(1)),
            None => (wanted, 1),
        };
        let seen = AtomicUsize::new(0);
        Self::new(move |name| match name == point && seen.fetch_add(1, Ordering::SeqCst) + 1 == nth {
            true => Action::Abort,
            false => Action::Pass,
        })
    }

    /// Nothing happens anywhere: this build knows no failpoints.
    #[cfg(not(any(debug_assertions, feature = "failpoints")))]
    pub fn from_environment() -> Self {
        Self::default()
    }

    /// A point is reached.
    #[cfg(any(test, debug_assertions, feature = "failpoints"))]
    pub(crate) async fn hit(&self, stage: &str, moment: &str) {
        let Some(hook) = &self.hook else { return };
        match hook(&format!("{stage}:{moment}")) {
            Action::Pass => {}
            Action::Hang => std::future::pending().await,
            Action::Abort => std::process::abort(),
        }
    }

    /// A point is reached.
    #[cfg(not(any(test, debug_assertions, feature = "failpoints")))]
    #[expect(clippy::unused_async, reason = "the same signature as with failpoints")]
    pub(crate) async fn hit(&self, _stage: &str, _moment: &str) {}
}
