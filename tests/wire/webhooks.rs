//! Events of a real server reach an endpoint, also after the server died.

use axum::body::Bytes;
use axum::http::HeaderMap;
use folio_testkit::wait_for;
use folio_tests::harness::webhook_receiver::{Received, receiver};
use llm_sim::{Fault, FaultPlan};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::LIMIT;
use crate::client::ask;
use crate::command_line::{folio, text};
use crate::inbox::json_of;
use crate::sandbox::Setup;

const SCRIPT: &str = "
rules:
  - when: {user: tags}
    rounds:
      - calls: [{name: create_tag, arguments: {name: first}}]
      - text: Created.
  - when: {user: hello}
    answer: {text: Hello.}
";
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn setup() -> Setup {
    Setup::new(SCRIPT)
        .with("FOLIO_PROVIDERS__ALLOWED_NETWORKS", json!(["127.0.0.1"]))
        .with("FOLIO_SECRETS__MASTER_KEYS", json!([MASTER_KEY]))
}

/// Waits for an event of a type, and returns its id and its body.
async fn event(received: &Received, name: &str, secret: &str) -> (String, Value) {
    let webhook = Webhook::new(secret).unwrap();
    wait_for(name, LIMIT, || {
        let requests = received.lock().unwrap().clone();
        let found = requests.iter().find_map(|(headers, bytes)| {
            webhook.verify(bytes, headers).unwrap();
            let body: Value = serde_json::from_slice(bytes).unwrap();
            let id = headers["webhook-id"].to_str().unwrap().to_owned();
            (body["type"] == name).then_some((id, body))
        });
        std::future::ready(found)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_signed_listed_and_delivered_again() {
    let (received, url) = receiver().await;
    let sandbox = setup().start().await;
    let create = ["webhook", "create", &url, "--event", "document.ready", "--event", "turn.failed"];
    let made = json_of(&sandbox, &create, "");
    let secret = made["secret"].as_str().unwrap();
    assert_eq!(made["state"], "enabled");
    let tested = json_of(&sandbox, &["webhook", "test", &url], "");
    assert_eq!((&tested["state"], &tested["status_code"]), (&json!("delivered"), &json!(200)));
    event(&received, "webhook.test", secret).await;

    let (client, document) = sandbox.with_document().await;
    let (_, ready) = event(&received, "document.ready", secret).await;
    assert_eq!((&ready["data"]["document_id"], &ready["data"]["state"]), (&json!(document), &json!("ready")));
    let fault = Fault::Status { code: 500, retry_after: None, body: None };
    sandbox.sim.set_faults(&FaultPlan::always(fault)).await;
    let stream = client.chat(&document, "hello").await;
    let turn = stream.turn();
    stream.failed().await;
    let (id, failed) = event(&received, "turn.failed", secret).await;
    assert_eq!((&failed["data"]["turn_id"], &failed["data"]["reason"]), (&json!(turn), &json!("MODEL_FAILED")));

    let list = json_of(&sandbox, &["webhook", "deliveries", &url], "");
    let list = list.as_array().unwrap();
    let delivery = list.iter().find(|delivery| delivery["event_id"] == id).unwrap();
    assert!(list.len() >= 3, "{list:?}");
    let again = json_of(&sandbox, &["webhook", "redeliver", delivery["webhook_delivery_id"].as_str().unwrap()], "");
    assert_eq!(again["event_id"], id);
    wait_for("the repeated event", LIMIT, || {
        let with_id = |(headers, _): &&(HeaderMap, Bytes)| headers["webhook-id"] == id.as_str();
        let count = received.lock().unwrap().iter().filter(with_id).count();
        std::future::ready((count >= 2).then_some(()))
    })
    .await;

    // The attempt is recorded after the endpoint received the event.
    wait_for("the recorded attempt", LIMIT, || {
        let shown = json_of(&sandbox, &["webhook", "delivery", delivery["webhook_delivery_id"].as_str().unwrap()], "");
        let is_recorded = shown["request_head"].as_str().is_some_and(|head| head.contains("webhook-id: "));
        std::future::ready(is_recorded.then_some(()))
    })
    .await;
    for (command, state) in [("disable", "disabled"), ("enable", "enabled")] {
        assert_eq!(json_of(&sandbox, &["webhook", command, &url], "")["state"], state);
        assert_eq!(json_of(&sandbox, &["webhook", "show", &url], "")["state"], state);
    }
    json_of(&sandbox, &["webhook", "rm", &url], "");
    assert_eq!(json_of(&sandbox, &["webhook", "list"], ""), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_generated_secret_is_printed_and_only_at_the_creation() {
    let sandbox = setup().start().await;
    let url = "https://a.example/hook";
    let run = |arguments: &[&str], input: &str| {
        let arguments = [&["webhook"][..], arguments].concat();
        json_of(&sandbox, &arguments, input)
    };
    let made = run(&["add", url, "--event", "document.ready"], "");
    let generated = made["secret"].as_str().unwrap();
    assert!(generated.starts_with("whsec_"), "{generated}");
    let changed = run(&["update", url, "--event", "turn.failed", "--secret"], "typed secret\n");
    assert_eq!((&changed["event_types"], &changed["has_secret"]), (&json!(["turn.failed"]), &json!(true)));
    let id = made["webhook_endpoint_id"].as_str().unwrap();
    for output in [changed, run(&["show", id], ""), run(&["list"], "")] {
        let output = output.to_string();
        assert!(output.contains(url), "{output}");
        assert!(!output.contains(generated) && !output.contains("typed secret"), "{output}");
    }
    assert_eq!(run(&["update", url, "--unsigned"], "")["has_secret"], false);
    let unsigned = run(&["add", "https://b.example/hook", "--event", "document.ready", "--unsigned"], "");
    assert_eq!((&unsigned["has_secret"], unsigned.get("secret")), (&json!(false), None));

    let refused = |arguments: &[&str]| {
        let (server, token) = (sandbox.url(), sandbox.token());
        let variables = [("FOLIO_SERVER", server.as_str()), ("FOLIO_TOKEN", token.as_str())];
        let output = folio(sandbox.folder(), arguments, &variables, "");
        assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    };
    assert!(refused(&["webhook", "show", "https://c.example"]).contains("no webhook endpoint has the id or the URL"));
    assert!(refused(&["webhook", "update", url]).contains("nothing to change"));
    assert!(refused(&["webhook", "update", url, "--secret"]).contains("the secret is empty"));
    let server = ["mcp-server", "create", "tickets", "https://d.example/mcp", "--bearer"];
    assert!(refused(&server).contains("the token is empty"));
    let event = ["webhook", "create", "https://d.example", "--event", "ready"];
    assert!(refused(&event).contains("--event: must have names"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_delivered_although_the_server_dies_after_the_record() {
    let (received, url) = receiver().await;
    let mut sandbox = setup().with("FOLIO_FAILPOINT", "pause:after").start().await;
    let made = json_of(&sandbox, &["webhook", "create", &url, "--event", "inbox.waiting"], "");
    let secret = made["secret"].as_str().unwrap();
    let (client, document) = sandbox.with_document().await;
    // The server dies before or after it answers.
    let stream = client.send(ask(&document, "tags")).await;
    sandbox.wait_until_dead().await;
    drop(stream);
    sandbox.restart().await;
    let (_, waiting) = event(&received, "inbox.waiting", secret).await;
    assert_eq!(
        (&waiting["data"]["kind"], &waiting["data"]["state"]),
        (&json!("approval"), &json!("awaiting_approval"))
    );
}
