//! The body of an answer: it holds its call's place until its last byte, and ends at the caller's deadline.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use folio_proto::status;
use folio_types::{Code, Error, Reason};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;

/// A body with its place. What it tells of goes on when the deadline ends it.
pub(crate) struct Held {
    body: Body,
    deadline: Option<Pin<Box<Sleep>>>,
    _permit: OwnedSemaphorePermit,
}

impl Held {
    /// Holds the place for the body, until `deadline` at most.
    pub(crate) fn new(body: Body, deadline: Option<Instant>, permit: OwnedSemaphorePermit) -> Self {
        Self { body, deadline: deadline.map(|at| Box::pin(tokio::time::sleep_until(at))), _permit: permit }
    }

    /// The deadline has come: what is left of the body is dropped, and its last word is the status.
    fn late(&mut self) -> Frame<Bytes> {
        self.deadline = None;
        self.body = Body::empty();
        let error = Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, "the caller's deadline has passed");
        let mut trailers = HeaderMap::new();
        if status::from_error(error).add_header(&mut trailers).is_err() {
            trailers.clear();
            trailers.insert("grpc-status", http::HeaderValue::from(tonic::Code::DeadlineExceeded as i32));
        }
        Frame::trailers(trailers)
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Some(Ok(self.late())));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
