//! The body of a response. It keeps the permit of its call until the last byte, ends at the caller's deadline, and ends
//! if the caller does not read for too long.
//!
//! While a caller does not read, the body is not polled and cannot end by itself. Therefore [`UnreadWatch`] has a
//! reference to every body, and drops the source and the permit of a body that is unread for too long. A caller that
//! reads later receives the buffered bytes and then the status. The work behind the response (a turn) continues.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use folio_proto::status;
use folio_types::token::Token;
use folio_types::{Code, Error, Reason};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;

use crate::call_shares::CallShare;
use crate::connections::ActiveCall;
use crate::public_calls::PublicCall;
use crate::sessions::Session;

/// The guards of a call, kept until the last byte of its response.
pub(crate) struct CallGuard {
    pub(crate) permit: CallPermit,
    /// The session of a long call.
    pub(crate) session: Option<Session>,
    pub(crate) _active: Option<ActiveCall>,
}

pub(crate) enum CallPermit {
    /// The permit of a call with a token.
    Share(#[expect(dead_code, reason = "dropping it returns the permit")] CallShare),
    /// The permit of a call without a token.
    Public(PublicCall),
}

impl CallGuard {
    /// Resolves to the error that ends the call before its response: its token is no longer valid, or a call without a
    /// token has lost its permit or has reached its lifetime.
    pub(crate) fn ended(&self) -> impl Future<Output = Error> + Send + use<> {
        let revoked = self.session.as_ref().map(Session::ended);
        let public = match &self.permit {
            CallPermit::Public(call) => Some(call.ended()),
            CallPermit::Share(_) => None,
        };
        async move {
            match (revoked, public) {
                (Some(revoked), _) => {
                    revoked.cancelled().await;
                    Token::refused()
                }
                (None, Some(public)) => public.await,
                (None, None) => std::future::pending().await,
            }
        }
    }
}

/// The bodies in progress, at most one for each permit.
#[derive(Default)]
pub(crate) struct UnreadWatch {
    bodies: Mutex<HashMap<u64, Arc<Source>>>,
    next: AtomicU64,
}

impl UnreadWatch {
    /// Wraps a body with the guards of its call. The body ends at `deadline`, or with [`CallGuard::ended`].
    pub(crate) fn guard(self: &Arc<Self>, body: Body, deadline: Option<Instant>, guard: CallGuard) -> GuardedBody {
        let end: Pin<Box<dyn Future<Output = Error> + Send>> = Box::pin(guard.ended());
        let source = Arc::new(Source(Mutex::new(State { body: Some((body, guard)), unread_since: None })));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, Arc::clone(&source));
        let deadline = deadline.map(|at| Box::pin(tokio::time::sleep_until(at)));
        GuardedBody { source, deadline, end: Some(end), ended: false, number, watch: Arc::clone(self) }
    }

    /// Periodically ends the bodies that are unread for longer than `limit`. Never returns.
    pub(crate) async fn run(self: Arc<Self>, limit: Duration) {
        loop {
            tokio::time::sleep((limit / 4).max(Duration::from_millis(10))).await;
            let bodies: Vec<_> = self.lock().values().cloned().collect();
            for source in bodies {
                // The body is dropped at the end of the iteration, when no lock is held.
                let ended = source.take_if_unread(limit);
                if ended.is_some() {
                    tracing::info!("a response was unread for too long; its stream was ended");
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Source>>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The source of a response with the guards of its call. `State::body` is None after both were dropped.
struct Source(Mutex<State>);

struct State {
    body: Option<(Body, CallGuard)>,
    /// Time of the last frame that was returned. None: the caller waits for a frame.
    unread_since: Option<Instant>,
}

impl Source {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_if_unread(&self, limit: Duration) -> Option<(Body, CallGuard)> {
        let mut state = self.lock();
        let unread = state.unread_since.is_some_and(|since| since.elapsed() > limit);
        if unread { state.body.take() } else { None }
    }
}

pub(crate) struct GuardedBody {
    source: Arc<Source>,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Resolves to the error that ends the body ([`CallGuard::ended`]).
    end: Option<Pin<Box<dyn Future<Output = Error> + Send>>>,
    ended: bool,
    number: u64,
    watch: Arc<UnreadWatch>,
}

impl GuardedBody {
    /// Drops the source and ends the body with `DEADLINE_EXCEEDED`.
    fn end_with_deadline_exceeded(&mut self, message: &str) -> Frame<Bytes> {
        self.end_with(Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, message))
    }

    fn end_with(&mut self, error: Error) -> Frame<Bytes> {
        (self.deadline, self.end) = (None, None);
        self.ended = true;
        self.source.lock().body = None;
        let mut trailers = HeaderMap::new();
        if status::from_error(error).add_header(&mut trailers).is_err() {
            trailers.clear();
            trailers.insert("grpc-status", http::HeaderValue::from(tonic::Code::Aborted as i32));
        }
        Frame::trailers(trailers)
    }
}

impl Drop for GuardedBody {
    fn drop(&mut self) {
        self.watch.lock().remove(&self.number);
    }
}

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Some(Ok(self.end_with_deadline_exceeded("the caller's deadline has passed"))));
        }
        if let Some(Poll::Ready(error)) = self.end.as_mut().map(|end| end.as_mut().poll(context)) {
            return Poll::Ready(Some(Ok(self.end_with(error))));
        }
        let mut state = self.source.lock();
        let Some((body, _)) = &mut state.body else {
            drop(state);
            let message = "the response was unread for too long; the work behind it continues";
            return Poll::Ready(Some(Ok(self.end_with_deadline_exceeded(message))));
        };
        let polled = Pin::new(body).poll_frame(context);
        state.unread_since = matches!(polled, Poll::Ready(Some(Ok(_)))).then(Instant::now);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.source.lock().body.as_ref().is_some_and(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.source.lock().body.as_ref().map_or_else(SizeHint::default, |(body, _)| body.size_hint())
    }
}

/// Returns the caller's time-out from the header `grpc-timeout`: at most eight digits and a unit. Like other gRPC
/// servers, ignores a malformed header.
pub(crate) fn caller_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3_600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeout_is_parsed_and_a_malformed_header_is_ignored() {
        let timeout = |text: &'static str| {
            let headers = [(http::HeaderName::from_static("grpc-timeout"), http::HeaderValue::from_static(text))];
            caller_timeout(&headers.into_iter().collect())
        };
        assert_eq!(timeout("2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(timeout("3M"), Some(Duration::from_secs(180)));
        assert_eq!(timeout("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(timeout("500m"), Some(Duration::from_millis(500)));
        assert_eq!(timeout("7u"), Some(Duration::from_micros(7)));
        assert_eq!(timeout("8n"), Some(Duration::from_nanos(8)));
        for malformed in ["", "S", "5", "-1S", "+1S", "999999999S", "5X", "1 S"] {
            assert_eq!(timeout(malformed), None, "{malformed}");
        }
        assert_eq!(caller_timeout(&HeaderMap::new()), None);
    }
}
