//! The face Connect: `POST /folio.v1.SERVICE/METHOD` with a message as JSON.
//!
//! | RPC | request | response |
//! |---|---|---|
//! | unary | a JSON object | a JSON object, according to the Connect protocol |
//! | server stream | a JSON object | server-sent events: a message in each `data:`, then the event `end` or `error` |
//! | client stream | refused with 501 | |
//!
//! [`request`] translates the message below the layers, so that only an authenticated caller occupies memory.
//! [`response`] translates above the layers, so that every response passes through it. The messages between them have the
//! form of gRPC. The descriptors of the API are the only source of the translation.

mod error;
mod request;
mod response;

use http::{Request, Response};
use tonic::body::Body;
use tower::Service;

pub(crate) use error::failure;
use folio_operations::Declaration;
use folio_proto::status;
pub(crate) use response::{HEARTBEAT, UNBUFFERED, translate};

/// Runs an operation whose request is JSON. The response has the form of gRPC.
pub(crate) async fn call<S>(
    mut services: S,
    operation: &'static Declaration,
    request: Request<Body>,
) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    match request::translate(operation, request).await {
        Ok(request) => services.call(request).await,
        Err(error) => Ok(status::from_error(error).into_http()),
    }
}

/// Returns the length prefix of a gRPC message that is not compressed.
fn prefix(length: usize) -> [u8; 5] {
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [0, a, b, c, d]
}
