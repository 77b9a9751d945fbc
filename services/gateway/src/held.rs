//! The body of an answer: it holds its call's place until its last byte, ends at the caller's deadline, and does not wait
//! for ever for a caller that does not read.
//!
//! While a caller does not read, nobody polls the body: it cannot end by itself. So all bodies under way are known to one
//! watch, which takes place and source away from those that were left unread for too long. When such a caller reads after
//! all it finds what was on its way, and then the status. What the answer tells of goes on.

use std::collections::HashMap;
use std::future::Future as _;
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
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::Status;
use tonic::body::Body;

use crate::sessions::Session;

/// What a call holds until its answer's last byte: its place, and that its token has it under way.
pub(crate) type Holding = (OwnedSemaphorePermit, Option<Session>);

/// The bodies under way: at most as many as there are places for calls.
#[derive(Default)]
pub(crate) struct Watch {
    bodies: Mutex<HashMap<u64, Arc<Source>>>,
    next: AtomicU64,
}

impl Watch {
    /// Holds the place for the body, until `deadline` at most, and no longer than the call's token is good.
    pub(crate) fn hold(self: &Arc<Self>, body: Body, deadline: Option<Instant>, holding: Holding) -> Held {
        let revoked = holding.1.as_ref().map(|session| Box::pin(session.ended().cancelled_owned()));
        let source = Arc::new(Source(Mutex::new(State { body: Some((body, holding)), unread_since: None })));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, Arc::clone(&source));
        let deadline = deadline.map(|at| Box::pin(tokio::time::sleep_until(at)));
        Held { source, deadline, revoked, ended: false, number, watch: Arc::clone(self) }
    }

    /// Ends what is left unread for longer than `limit`. Never ends itself.
    pub(crate) async fn run(self: Arc<Self>, limit: Duration) {
        loop {
            tokio::time::sleep((limit / 4).max(Duration::from_millis(10))).await;
            let bodies: Vec<_> = self.lock().values().cloned().collect();
            for source in bodies {
                // Dropped here, with no lock held.
                let ended = source.give_up(limit);
                if ended.is_some() {
                    tracing::info!("an answer was left unread for too long; its stream was ended");
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Source>>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an answer comes from, and its call's place; none: taken away.
struct Source(Mutex<State>);

struct State {
    body: Option<(Body, Holding)>,
    /// Since when something is on its way that the caller did not take; none: the caller waits.
    unread_since: Option<Instant>,
}

impl Source {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_up(&self, limit: Duration) -> Option<(Body, Holding)> {
        let mut state = self.lock();
        let unread = state.unread_since.is_some_and(|since| since.elapsed() > limit);
        if unread { state.body.take() } else { None }
    }
}

/// A body with its place. What it tells of goes on when the deadline ends it.
pub(crate) struct Held {
    source: Arc<Source>,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Ready when the token is no longer good.
    revoked: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    ended: bool,
    number: u64,
    watch: Arc<Watch>,
}

impl Held {
    /// What is left of the body is dropped, and its last word is the status.
    fn late(&mut self, message: &str) -> Frame<Bytes> {
        self.end(Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, message))
    }

    fn end(&mut self, error: Error) -> Frame<Bytes> {
        (self.deadline, self.revoked) = (None, None);
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

impl Drop for Held {
    fn drop(&mut self) {
        self.watch.lock().remove(&self.number);
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Some(Ok(self.late("the caller's deadline has passed"))));
        }
        if self.revoked.as_mut().is_some_and(|revoked| revoked.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Some(Ok(self.end(Token::refused()))));
        }
        let mut state = self.source.lock();
        let Some((body, _)) = &mut state.body else {
            drop(state);
            let message = "the answer was left unread for too long; what it is about goes on";
            return Poll::Ready(Some(Ok(self.late(message))));
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

/// How long the caller waits, from the header `grpc-timeout` (at most eight digits and a unit, as the gRPC protocol over
/// HTTP/2 has it). One that is malformed is no deadline, as with other gRPC servers.
pub(crate) fn caller_waits(headers: &HeaderMap) -> Option<Duration> {
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
    fn the_callers_deadline_is_read_as_grpc_writes_it() {
        let waits = |text: &'static str| {
            let headers = [(http::HeaderName::from_static("grpc-timeout"), http::HeaderValue::from_static(text))];
            caller_waits(&headers.into_iter().collect())
        };
        assert_eq!(waits("2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(waits("3M"), Some(Duration::from_secs(180)));
        assert_eq!(waits("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(waits("500m"), Some(Duration::from_millis(500)));
        assert_eq!(waits("7u"), Some(Duration::from_micros(7)));
        assert_eq!(waits("8n"), Some(Duration::from_nanos(8)));
        for malformed in ["", "S", "5", "-1S", "+1S", "999999999S", "5X", "1 S"] {
            assert_eq!(waits(malformed), None, "{malformed}");
        }
        assert_eq!(caller_waits(&HeaderMap::new()), None);
    }
}
