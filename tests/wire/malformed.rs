//! Bytes that are not a valid frame of a message: the server answers each with a clear error and continues.

use folio_types::Code;
use tonic::Status;

use crate::sandbox::Sandbox;

#[tokio::test]
async fn bytes_that_are_no_request_are_refused() {
    let sandbox = Sandbox::start("rules: []").await;
    let client = sandbox.client().await;
    let http = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let token = sandbox.token();
    // The header of a frame that is larger than allowed, and the start of its body.
    let mut oversized = vec![0, 0x7f, 0xff, 0xff, 0xff];
    oversized.extend([0; 100]);
    let bodies = [
        ("no frame", "INVALID_FIELD", b"hello".to_vec()),
        ("oversized", "TOO_LARGE", oversized),
        ("empty", "INVALID_FIELD", Vec::new()),
    ];
    for (what, reason, body) in bodies {
        for path in ["folio.v1.TagService/GetTag", "folio.v1.ConversationService/Chat"] {
            let sent = http
                .post(format!("{}/{path}", sandbox.url()))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .bearer_auth(&token)
                .body(body.clone());
            let response = sent.send().await.unwrap_or_else(|error| panic!("{what} at {path}: {error}"));
            let status = Status::from_header_map(response.headers());
            let error = folio_proto::status::to_error(&status.expect("a status and no message"));
            assert_eq!((error.code, error.reason.as_str()), (Code::InvalidArgument, reason), "{what} at {path}");
            assert!(error.violations.is_empty(), "an unreadable message has no field violations: {error:?}");
            assert!(error.message.len() > 5 && !error.message.contains("internal"), "{what} at {path}: {error:?}");
            let bytes = response.bytes().await.unwrap_or_default();
            assert!(bytes.is_empty(), "{what} at {path}: {bytes:?}");
        }
    }
    client.tag_names().await;
}
