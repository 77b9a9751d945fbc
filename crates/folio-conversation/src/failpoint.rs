//! Failpoints, at which a test stops or kills the process. A name is `STAGE:before` or `STAGE:after`.
//!
//! Stages: `accept`, `round`, `pause`, `decide`, `intent`, `outcome`, `resume`, `closing`, `end` (appends with such an
//! entry), `audit`, `model`, `read`, `plan`, `write`, `recover`, `close`. Debug builds, which tests start as processes,
//! contain failpoints. Release builds contain them only with the feature `failpoints`.
//!
//! The steps of jobs and of ingestions are further stages, which `folio-jobs` and `folio-knowledge` reach through
//! [`Failpoints::as_function`].

use std::sync::Arc;

use futures::future::BoxFuture;

/// Waits at the failpoint with a name.
pub type FailpointFunction = Arc<dyn Fn(&str) -> BoxFuture<'static, ()> + Send + Sync>;

#[cfg(any(test, debug_assertions, feature = "failpoints"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The task continues.
    Pass,
    /// The task never continues, as if the process had died at the failpoint.
    Hang,
    /// The process stops (SIGSTOP) until it receives SIGCONT.
    Stop,
    /// The process aborts.
    Abort,
}

#[cfg(any(test, debug_assertions, feature = "failpoints"))]
type Hook = Arc<dyn Fn(&str) -> Action + Send + Sync>;

/// Failpoints of a node. Default: none.
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
    /// Creates failpoints whose action `hook` chooses, given the name of the failpoint.
    #[cfg(any(test, debug_assertions, feature = "failpoints"))]
    pub fn new(hook: impl Fn(&str) -> Action + Send + Sync + 'static) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }

    /// Reads comma-separated failpoints from the environment variable `FOLIO_FAILPOINT`. `intent:after` aborts the
    /// process, `intent:after#2` at the second hit. `intent:after=stop` stops the process. `intent:after=hang` blocks
    /// the task that reaches the failpoint.
    #[cfg(any(debug_assertions, feature = "failpoints"))]
    pub fn from_environment() -> Self {
        let Ok(wanted) = std::env::var("FOLIO_FAILPOINT") else { return Self::default() };
        let points: Vec<Point> = wanted.split(',').map(Point::read).collect();
        Self::new(move |name| points.iter().find_map(|point| point.reached(name)).unwrap_or(Action::Pass))
    }

    /// Returns no failpoints, because this build does not support them.
    #[cfg(not(any(debug_assertions, feature = "failpoints")))]
    pub fn from_environment() -> Self {
        Self::default()
    }

    #[cfg(any(test, debug_assertions, feature = "failpoints"))]
    pub(crate) async fn hit(&self, stage: &str, position: &str) {
        if let Some(hook) = &self.hook {
            wait_at(hook, &format!("{stage}:{position}")).await;
        }
    }

    /// Does nothing in this build.
    #[cfg(not(any(test, debug_assertions, feature = "failpoints")))]
    #[expect(clippy::unused_async, reason = "the same signature as with failpoints")]
    pub(crate) async fn hit(&self, _stage: &str, _position: &str) {}

    /// Returns a function for another component of the node. None: there are no failpoints.
    #[cfg(any(test, debug_assertions, feature = "failpoints"))]
    pub fn as_function(&self) -> Option<FailpointFunction> {
        let hook = self.hook.clone()?;
        let function = move |point: &str| -> BoxFuture<'static, ()> {
            let (hook, point) = (Arc::clone(&hook), point.to_owned());
            Box::pin(async move { wait_at(&hook, &point).await })
        };
        Some(Arc::new(function))
    }

    /// Returns None, because this build does not support failpoints.
    #[cfg(not(any(test, debug_assertions, feature = "failpoints")))]
    pub fn as_function(&self) -> Option<FailpointFunction> {
        None
    }
}

#[cfg(any(test, debug_assertions, feature = "failpoints"))]
async fn wait_at(hook: &Hook, point: &str) {
    match hook(point) {
        Action::Pass => {}
        Action::Hang => {
            tracing::error!(point, "hanging at a failpoint");
            std::future::pending().await
        }
        Action::Stop => stop_process(),
        Action::Abort => std::process::abort(),
    }
}

#[cfg(any(debug_assertions, feature = "failpoints"))]
struct Point {
    name: String,
    nth: usize,
    action: Action,
    hits: std::sync::atomic::AtomicUsize,
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
        Self { name: name.to_owned(), nth: nth.parse().unwrap_or(1), action, hits: Default::default() }
    }

    /// None: the task continues.
    fn reached(&self, name: &str) -> Option<Action> {
        use std::sync::atomic::Ordering;
        (name == self.name && self.hits.fetch_add(1, Ordering::SeqCst) + 1 == self.nth).then_some(self.action)
    }
}

#[cfg(any(test, debug_assertions, feature = "failpoints"))]
fn stop_process() {
    let status = std::process::Command::new("sh").args(["-c", "kill -STOP $PPID"]).status();
    if let Err(error) = status {
        tracing::error!(%error, "cannot send SIGSTOP to this process");
    }
    // The kernel may stop this thread a little later, so the thread must not continue its work now.
    std::thread::sleep(std::time::Duration::from_millis(300));
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn another_component_reaches_the_same_failpoints_by_name() {
        assert!(Failpoints::default().as_function().is_none());
        let reached = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&reached);
        let failpoints = Failpoints::new(move |point| {
            seen.lock().unwrap().push(point.to_owned());
            Action::Pass
        });
        let function = failpoints.as_function().unwrap();
        function("finish:before").await;
        failpoints.hit("end", "after").await;
        assert_eq!(*reached.lock().unwrap(), ["finish:before", "end:after"]);
    }
}
