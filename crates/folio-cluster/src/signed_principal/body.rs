//! The digest of the body of an RPC. The signed header of the RPC contains the digest: the sender signs the encoded
//! body, and the listener passes the digest of the received body to the verification.

use std::sync::Arc;

use bytes::Bytes;
use folio_types::{Digest, Environment, Principal};
use futures::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt as _, Full, Limited};
use tonic::body::Body;
use tonic::transport::Channel;
use tower::BoxError;
use tower::filter::{AsyncFilter, AsyncPredicate};

use super::{HEADER, PrincipalSigner};

/// Length of the gRPC frame header before the message of a request, in bytes.
const FRAME_BYTES: usize = 5;

/// A channel that signs the RPCs which contain [`UnsignedClaims`].
pub(crate) type SigningChannel = AsyncFilter<Channel, RequestSigner>;

/// The claims of an RPC that its sender adds to the extensions of the request, and that the channel signs.
#[derive(Debug, Clone)]
pub(crate) struct UnsignedClaims {
    pub(crate) principal: Option<Principal>,
    pub(crate) method: &'static str,
    pub(crate) hop: u8,
}

#[derive(Clone)]
pub(crate) struct RequestSigner {
    pub(crate) signer: PrincipalSigner,
    pub(crate) environment: Arc<dyn Environment>,
}

impl AsyncPredicate<Request<Body>> for RequestSigner {
    type Future = BoxFuture<'static, Result<Request<Body>, BoxError>>;
    type Request = Request<Body>;

    fn check(&mut self, request: Request<Body>) -> Self::Future {
        let Self { signer, environment } = self.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            if let Some(claims) = parts.extensions.remove::<UnsignedClaims>() {
                let header = signer.sign(claims, &Digest::of(&body), environment.now())?;
                parts.headers.insert(HEADER, header);
            }
            Ok(Request::from_parts(parts, whole(body)))
        })
    }
}

/// Adds the digest of the body to the extensions of a received request. Refuses a body whose message has more than `max` bytes.
#[derive(Clone)]
pub(crate) struct BodyDigest {
    pub(crate) max: usize,
}

impl AsyncPredicate<Request<Body>> for BodyDigest {
    type Future = BoxFuture<'static, Result<Request<Body>, BoxError>>;
    type Request = Request<Body>;

    fn check(&mut self, request: Request<Body>) -> Self::Future {
        let max = self.max.saturating_add(FRAME_BYTES);
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let body = Limited::new(body, max).collect().await?.to_bytes();
            parts.extensions.insert(Digest::of(&body));
            Ok(Request::from_parts(parts, whole(body)))
        })
    }
}

fn whole(body: Bytes) -> Body {
    Body::new(Full::new(body))
}
