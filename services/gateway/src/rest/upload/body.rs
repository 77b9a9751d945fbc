//! The body of an upload within the limits of transfers.

use std::time::Duration;

use bytes::Bytes;
use folio_types::{Code, Error, Reason};
use futures::Stream;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use crate::rest::extract::body_error;
use crate::rest::failure::Failure;

/// The limits of an upload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum size of a file.
    pub(crate) file_bytes: u64,
    /// Maximum time between two chunks.
    pub(crate) idle: Duration,
    /// Maximum duration of the upload.
    pub(crate) lifetime: Duration,
}

impl Limits {
    /// Returns the maximum size of a body with files in Base64: four files of the maximum size, and their descriptions.
    pub(super) fn json_bytes(&self) -> u64 {
        self.file_bytes.saturating_mul(4).div_ceil(3).saturating_mul(4).saturating_add(super::TEXT_BYTES)
    }

    /// Returns the maximum size of a form with one file.
    pub(super) fn form_bytes(&self) -> u64 {
        self.file_bytes.saturating_add(super::TEXT_BYTES)
    }
}

/// Returns the chunks of a body, one at a time: a reader that polls until nothing is ready receives one chunk.
///
/// # Errors
/// `TOO_LARGE` beyond `max` bytes; `DEADLINE_EXCEEDED` if the body is silent for too long or takes too long.
pub(super) fn chunks(
    body: axum::body::Body,
    limits: Limits,
    max: u64,
) -> impl Stream<Item = Result<Bytes, Failure>> + Send + 'static {
    let end = Instant::now() + limits.lifetime;
    futures::stream::try_unfold((body, 0_u64), move |(mut body, received)| async move {
        loop {
            let until = end.min(Instant::now() + limits.idle);
            let frame = timeout_at(until, body.frame()).await.map_err(|_| silent())?;
            let Some(frame) = frame.transpose().map_err(body_error)? else {
                // multer takes a body that ends between its first two polls for an incomplete one.
                tokio::task::yield_now().await;
                return Ok(None);
            };
            let Ok(chunk) = frame.into_data() else { continue };
            let is_first = received == 0;
            let received = received.saturating_add(chunk.len() as u64);
            if received > max {
                return Err(too_large(max));
            }
            // Not before the first chunk: multer takes a body that becomes ready between two polls for an incomplete one.
            if !is_first {
                tokio::task::yield_now().await;
            }
            return Ok(Some((chunk, (body, received))));
        }
    })
}

fn silent() -> Failure {
    Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, "the upload was silent for too long").into()
}

pub(super) fn too_large(max: u64) -> Failure {
    Error::invalid(Reason::TooLarge, format!("the upload has more than {max} bytes")).into()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::response::IntoResponse as _;
    use futures::{StreamExt as _, TryStreamExt as _};

    use super::*;

    const LIMITS: Limits =
        Limits { file_bytes: 1_000, idle: Duration::from_millis(20), lifetime: Duration::from_secs(60) };

    fn body(count: usize) -> axum::body::Body {
        let chunks = futures::stream::iter(vec![Ok::<_, Infallible>(Bytes::from_static(&[7; 10])); count]);
        axum::body::Body::from_stream(chunks)
    }

    #[tokio::test]
    async fn a_body_ends_at_its_maximum_size() {
        let whole: Vec<Bytes> = chunks(body(3), LIMITS, 30).try_collect().await.unwrap();
        assert_eq!(whole.concat().len(), 30);
        let failed = chunks(body(3), LIMITS, 29).try_collect::<Vec<_>>().await.unwrap_err();
        assert_eq!(failed.into_response().status(), 413);
    }

    #[tokio::test]
    async fn a_silent_body_ends() {
        let silent = futures::stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"x"))]);
        let silent = axum::body::Body::from_stream(silent.chain(futures::stream::pending()));
        let failed = chunks(silent, LIMITS, 30).try_collect::<Vec<_>>().await.unwrap_err();
        assert_eq!(failed.into_response().status(), 504);
    }
}
