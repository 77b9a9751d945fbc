//! Pages of other origins, compression, and the headers that clients read.

use std::time::Duration;

use folio_gateway::Options;
use http::Method;
use serde_json::json;

use super::Http;
use crate::harness::{Client, Server};

const ORIGIN: &str = "https://app.example.com";

async fn with_origin() -> (Server, Client) {
    let server = Server::with(Options { cors_origins: vec![ORIGIN.to_owned()], ..Options::default() }).await;
    let client = server.member().await;
    (server, client)
}

#[tokio::test]
async fn pages_of_the_configured_origins_may_call_every_face() {
    let (server, client) = with_origin().await;
    let http = Http::new(&server, &server.stranger(None));
    let tags = format!("/v0/orgs/{}/tags", client.org);
    for path in [tags.as_str(), "/folio.v1.TagService/ListTags", "/openapi.json"] {
        let preflight = async |origin: &str| {
            let request = http.request(Method::OPTIONS, path).header("origin", origin);
            let request = request.header("access-control-request-method", "PUT");
            http.send(request.header("access-control-request-headers", "authorization,x-grpc-web,if-match")).await
        };
        let allowed = preflight(ORIGIN).await;
        assert_eq!((allowed.status.as_u16(), allowed.header("access-control-allow-origin")), (200, ORIGIN), "{path}");
        assert!(allowed.header("access-control-allow-headers").contains("x-grpc-web"), "{path}");
        assert_eq!(allowed.header("access-control-max-age"), "600");
        assert_eq!(preflight("https://evil.example.com").await.header("access-control-allow-origin"), "", "{path}");
        // A refusal has the headers as well.
        let refused = http.send(http.request(Method::POST, path).header("origin", ORIGIN)).await;
        assert!(refused.status.is_client_error(), "{path}");
        assert_eq!(refused.header("access-control-allow-origin"), ORIGIN, "{path}");
        assert!(refused.header("access-control-expose-headers").contains("grpc-status-details-bin"), "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn responses_are_compressed_and_streams_are_not() {
    let (server, client) = with_origin().await;
    let http = Http::new(&server, &client);
    let compressed = http.send(http.request(Method::GET, "/openapi.json").header("accept-encoding", "gzip")).await;
    assert_eq!(compressed.header("content-encoding"), "gzip");
    let document = client.ready_document("a.txt", "x").await.document_id;
    let request = http.request(Method::POST, "/folio.v1.DocumentService/WatchDocument");
    let stream =
        request.header("accept-encoding", "gzip").json(&json!({ "document_id": document })).send().await.unwrap();
    assert_eq!(stream.headers().get("content-encoding"), None);
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    assert_eq!(stream.headers()["x-accel-buffering"], "no");
    server.stop().await;
}

#[tokio::test]
async fn a_response_states_the_rate_limit_and_its_duration() {
    let server = Server::start().await;
    let (platform, them) =
        (server.platform_admin(&folio_types::OrgId::generate(&folio_types::System)).await, server.member().await);
    let limits = json!({"organization_id": them.org.to_string(), "own": {"requests_per_second": 1}});
    platform.call_ok("SetLimits", limits).await;
    let (http, tags) = (Http::new(&server, &them), format!("/v0/orgs/{}/tags", them.org));
    let refused = folio_testkit::wait_for("the limit counts", Duration::from_secs(20), || async {
        let answer = http.get(&tags).await;
        assert!(answer.header("server-timing").starts_with("total;dur="), "{answer:?}");
        assert_eq!(answer.header("x-request-id").len(), 32);
        (answer.status == 429).then_some(answer)
    })
    .await;
    assert_eq!(refused.header("ratelimit-policy"), "\"requests_per_second\";q=1;w=1");
    assert_eq!(refused.header("ratelimit"), "\"requests_per_second\";r=0;t=1");
    assert_eq!((refused.header("retry-after"), &refused.json()["code"]), ("1", &json!("QUOTA_EXCEEDED")));
    let connect = async || http.json(Method::POST, "/folio.v1.TagService/ListTags", &json!({})).await;
    folio_testkit::wait_for("the limit applies to every face", Duration::from_secs(20), || async {
        let answer = connect().await;
        (answer.status == 429 && answer.json()["code"] == "resource_exhausted").then_some(())
    })
    .await;
    server.stop().await;
}
