//! Responses whose bodies are streamed, so that memory contains only chunks: texts, files, and JSON with large members.

use std::convert::Infallible;
use std::marker::PhantomData;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use folio_types::Result;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use http::header::{ACCEPT_ENCODING, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use serde_json::{Value, json};
use tonic::Status;
use tower::{Layer as _, Service as _};
use tower_http::compression::CompressionLayer;
use utoipa::ToSchema;

use super::endpoint::{Document, DocumentOutput};
use super::extract::{Client, Json};

/// A streamed response. `K` describes its content.
pub(crate) struct Streamed<K> {
    headers: HeaderMap,
    chunks: BoxStream<'static, Result<Bytes, Status>>,
    kind: PhantomData<fn() -> K>,
}

/// The content of a streamed response, for the OpenAPI document.
pub(crate) trait Streamable {
    /// The media types with their schemas.
    fn content(document: &mut Document) -> Value;
}

impl<T: ToSchema> Streamable for Json<T> {
    fn content(document: &mut Document) -> Value {
        json!({ "application/json": { "schema": document.reference::<T>() } })
    }
}

/// A file of any type.
pub(crate) enum File {}

impl Streamable for File {
    fn content(_: &mut Document) -> Value {
        json!({ "*/*": { "schema": { "type": "string", "format": "binary" } } })
    }
}

/// Declares a kind of text.
macro_rules! text {
    ($($name:ident: $media_type:literal),+) => {
        $(pub(crate) enum $name {}

        impl $name {
            pub(crate) const MEDIA_TYPE: &str = concat!($media_type, "; charset=utf-8");
        }

        impl Streamable for $name {
            fn content(_: &mut Document) -> Value {
                json!({ $media_type: { "schema": { "type": "string" } } })
            }
        })+
    };
}
text!(PlainText: "text/plain", Markdown: "text/markdown", Html: "text/html");

impl<K> Streamed<K> {
    /// The limits of transfers bound the stream. An error after the first byte resets the connection or the stream of HTTP/2.
    pub(crate) fn new(
        client: &Client,
        media_type: &str,
        chunks: impl Stream<Item = Result<Bytes>> + Send + 'static,
    ) -> Self {
        let response = Self { headers: HeaderMap::new(), chunks: client.api().transfer(chunks), kind: PhantomData };
        response.header(CONTENT_TYPE, media_type)
    }

    /// Adds a header. A value that no header may have is left out.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Declares the response as a file that a browser stores under this name.
    pub(crate) fn attachment(self, name: &str) -> Self {
        self.header(CONTENT_DISPOSITION, &disposition(name))
    }

    /// Compresses the response with gzip, whatever the request accepts.
    pub(crate) async fn gzipped(self) -> Self {
        let Self { headers, chunks, kind } = self;
        let mut whole = Some(Response::new(Body::from_stream(chunks)));
        let source = tower::service_fn(move |_: Request<Body>| {
            std::future::ready(Ok::<_, Infallible>(whole.take().unwrap_or_default()))
        });
        let mut request = Request::new(Body::empty());
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let Ok(compressed) = CompressionLayer::new().layer(source).call(request).await;
        let encoding = compressed.headers().get(CONTENT_ENCODING).cloned();
        let chunks = Body::new(compressed.into_body()).into_data_stream();
        let chunks = chunks.map_err(|error| Status::from_error(error.into_inner())).boxed();
        let mut response = Self { headers, chunks, kind };
        response.headers.extend(encoding.map(|encoding| (CONTENT_ENCODING, encoding)));
        response
    }
}

impl<K> IntoResponse for Streamed<K> {
    fn into_response(self) -> Response {
        (self.headers, Body::from_stream(self.chunks)).into_response()
    }
}

impl<K: Streamable> DocumentOutput for Streamed<K> {
    fn document(document: &mut Document) {
        let content = K::content(document);
        document.respond(200, "The result.", content);
    }
}

/// Returns the value of `Content-Disposition` (RFC 6266): the name in ASCII, and encoded as RFC 8187 states. The name contains no
/// separators of paths, because a client may store the file under it.
fn disposition(name: &str) -> String {
    let name = name.replace(['/', '\\'], "_");
    let is_plain = |c: char| matches!(c, ' '..='~') && !matches!(c, '"' | '%');
    let ascii: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let encoded: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    let encoded = encoded.replace('+', "%20").replace('*', "%2A");
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}

/// Encodes a stream of bytes in Base64, with padding at its end.
pub(crate) fn base64(mut chunks: BoxStream<'static, Result<Bytes>>) -> impl Stream<Item = Result<Bytes>> + Send {
    async_stream::try_stream! {
        let mut rest: Vec<u8> = Vec::new();
        while let Some(chunk) = chunks.try_next().await? {
            rest.extend_from_slice(&chunk);
            let incomplete = rest.split_off(rest.len() / 3 * 3);
            yield Bytes::from(STANDARD.encode(&rest));
            rest = incomplete;
        }
        yield Bytes::from(STANDARD.encode(&rest));
    }
}

/// Writes a JSON array in parts: the elements of each part follow those of the part before.
#[derive(Debug, Default)]
pub(crate) struct ArrayWriter {
    has_elements: bool,
}

impl ArrayWriter {
    /// Returns the elements with the commas between them, without the brackets of the array.
    pub(crate) fn elements<T: serde::Serialize>(&mut self, elements: &[T]) -> Result<Bytes> {
        let mut text = Vec::new();
        for element in elements {
            if std::mem::replace(&mut self.has_elements, true) {
                text.push(b',');
            }
            text.extend(to_json(element)?);
        }
        Ok(Bytes::from(text))
    }
}

/// Serializes a value of a response.
pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    let failed = |error| folio_types::Error::internal(format!("a response cannot be serialized: {error}"));
    serde_json::to_vec(value).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_cannot_end_its_header() {
        for (name, expected) in [
            ("a.txt", "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt"),
            ("a b*.txt", "attachment; filename=\"a b*.txt\"; filename*=UTF-8''a%20b%2A.txt"),
            ("Übung 1+2.pdf", "attachment; filename=\"_bung 1+2.pdf\"; filename*=UTF-8''%C3%9Cbung%201%2B2.pdf"),
            ("\"\\\r\nX: y%", "attachment; filename=\"____X: y_\"; filename*=UTF-8''%22_%0D%0AX%3A%20y%25"),
            ("../..\\a.txt", "attachment; filename=\".._.._a.txt\"; filename*=UTF-8''.._.._a.txt"),
        ] {
            assert_eq!(disposition(name), expected);
            assert!(HeaderValue::from_str(&disposition(name)).is_ok());
        }
    }

    #[tokio::test]
    async fn base64_of_chunks_is_that_of_their_whole() {
        for sizes in [&[][..], &[1], &[3, 3], &[1, 1, 1, 1], &[2, 5, 0, 7], &[100, 1_000]] {
            let chunks: Vec<Bytes> = sizes.iter().map(|size| Bytes::from(vec![b'x'; *size])).collect();
            let whole = STANDARD.encode(chunks.concat());
            let encoded = base64(futures::stream::iter(chunks).map(Ok).boxed());
            let encoded: Vec<Bytes> = encoded.try_collect().await.unwrap();
            assert_eq!(encoded.concat(), whole.as_bytes(), "{sizes:?}");
        }
    }

    #[test]
    fn an_array_is_written_in_parts() {
        let mut array = ArrayWriter::default();
        let parts = [&[][..], &[1, 2], &[], &[3]].map(|part: &[u8]| array.elements(part).unwrap());
        assert_eq!(parts.concat(), b"1,2,3");
    }
}
