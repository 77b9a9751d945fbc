//! Failpoints, at which a test stops or kills the process. Names are `stage:before` and `stage:after` for each step of
//! the protocol.
//!
//! Stages: `accept`, `round`, `pause`, `decide`, `intent`, `outcome`, `resume`, `closing`, `end` (appends with such an
//! entry), `audit`, `model`, `read`, `plan`, `write`, `recover`, `close`. Release builds contain failpoints only with
//! the feature `failpoints`; debug builds, which tests start as processes, always contain them.

#[cfg(any(test, debug_assertions, feature = "failpoints"))]
use std::sync::Arc;

/// The action at a failpoint.
#[cfg(any(test, debug_assertions, feature = "failpoints"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The task continues.
    Pass,
    /// The task that reached the point never continues, as if the process had died there.
    Hang,
    /// The process stops (SIGSTOP) and continues from there after SIGCONT.
    Stop,
    /// The process dies.
    Abort,
}

#[cfg(any(test, debug_assertions, feature = "failpoints"))]
type Hook = Arc<dyn Fn(&str) -> Action + Send + Sync>;

/// The failpoints of a node. Default: none.
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
    /// Calls `hook` at each failpoint.
    #[cfg(any(test, debug_assertions, feature = "failpoints"))]
    pub fn new(hook: impl Fn(&str) -> Action + Send + Sync + 'static) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }

    /// Reads the failpoints from the environment variable `FOLIO_FAILPOINT`, separated by commas. `intent:after` kills
    /// the process at the point, `intent:after#2` at its second hit; `intent:after=stop` stops the process;
    /// `intent:after=hang` blocks only the task that reached the point.
    #[cfg(any(debug_assertions, feature = "failpoints"))]
    pub fn from_environment() -> Self {
        let Ok(wanted) = std::env::var("FOLIO_FAILPOINT") else { return Self::default() };
        let points: Vec<Point> = wanted.split(',').map(Point::read).collect();
        Self::new(move |name| {
            points
                .iter()
                .map(|point| point.reached(name))
                .find(|action| *action != Action::Pass)
                .unwrap_or(Action::Pass)
        })
    }

    /// Returns no failpoints: this build does not support them.
    #[cfg(not(any(debug_assertions, feature = "failpoints")))]
    pub fn from_environment() -> Self {
        Self::default()
    }

    /// Executes the action of a failpoint.
    #[cfg(any(test, debug_assertions, feature = "failpoints"))]
    pub(crate) async fn hit(&self, stage: &str, position: &str) {
        let Some(hook) = &self.hook else { return };
        let point = format!("{stage}:{position}");
        match hook(&point) {
            Action::Pass => {}
            Action::Hang => {
                tracing::error!(point, "hanging at a failpoint");
                std::future::pending().await
            }
            Action::Stop => stop_here(),
            Action::Abort => std::process::abort(),
        }
    }

    /// Does nothing in this build.
    #[cfg(not(any(test, debug_assertions, feature = "failpoints")))]
    #[expect(clippy::unused_async, reason = "the same signature as with failpoints")]
    pub(crate) async fn hit(&self, _stage: &str, _moment: &str) {}
}

/// A failpoint in `FOLIO_FAILPOINT`.
#[cfg(any(debug_assertions, feature = "failpoints"))]
struct Point {
    name: String,
    nth: usize,
    action: Action,
    seen: std::sync::atomic::AtomicUsize,
}

#[cfg(any(debug_assertions, feature = "failpoints"))]
impl Point {
    fn read(text: &str) -> Self {
        let (text, action) = match text.split_once('=') {
            Some((text, "stop")) => (text, Action::Stop),
            Some((text, "hang")) => (text, Action::Hang),
            _ => (text, Action::Abort),
        };
        let (name, nth) = text.split_once('#').unwrap_or((text, "1"));
        Self { name: name.to_owned(), nth: nth.parse().unwrap_or(1), action, seen: Default::default() }
    }

    fn reached(&self, name: &str) -> Action {
        use std::sync::atomic::Ordering;
        if name == self.name && self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.nth {
            self.action
        } else {
            Action::Pass
        }
    }
}

/// Stops this process until it receives SIGCONT.
#[cfg(any(test, debug_assertions, feature = "failpoints"))]
fn stop_here() {
    let status = std::process::Command::new("sh").args(["-c", "kill -STOP $PPID"]).status();
    if let Err(error) = status {
        tracing::error!(%error, "cannot send SIGSTOP to this process");
    }
    // The signal stops the threads of a process at different times.
    std::thread::sleep(std::time::Duration::from_millis(300));
}
