//! Exported telemetry: its content, the content that is never exported, and the independence of turns from the
//! collector.

use std::time::{Duration, Instant};

use folio_proto::v1;
use folio_tests::harness::collector::Collector;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::LIMIT;
use crate::client::ask;
use crate::sandbox::{Sandbox, Setup};

/// After a turn of two calls, the provider refuses a request and repeats its content in the error.
const FAULTS: &str = "
faults:
  - {nth: 3, fault: {status: {code: 500, body: '{\"error\": \"no: read zephyrquill\"}'}}}
  - {nth: 4, fault: {status: {code: 400, body: '{\"error\": \"no: read zephyrquill\"}'}}}
";

const SCRIPT: &str = "
rules:
  - when: {round: 2}
    answer: {text: Read.}
  - when: {user: {contains: read}}
    answer: {calls: [{name: get_ocr_text}]}
";

/// Words of a document and of a user that occur nowhere else.
const DOCUMENT_WORD: &str = "quokkaberry";
const USER_WORD: &str = "zephyrquill";

/// Maximum time until a server exits while its collector does not answer.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of servers until one of them exits in time. A busy machine may delay one.
const STOPS_MAX: usize = 3;

async fn converse(sandbox: &Sandbox) -> String {
    let client = sandbox.client().await;
    let document = client.upload("invoice.txt", format!("Total: 957 {DOCUMENT_WORD}").as_bytes()).await;
    let request = v1::ChatRequest { auto_approve: true, ..ask(&document, &format!("read {USER_WORD}")) };
    client.send(request).await.expect("the chat is accepted").completed().await;
    document
}

/// Waits until the metrics and the span of the turn are exported. The span ends after its children.
async fn turn_exported(collector: &Collector) {
    let turn = || async { collector.spans().iter().any(|span| span.name == "invoke_agent document").then_some(()) };
    folio_testkit::wait_for("the turn's span", LIMIT, turn).await;
    let metrics = || async { collector.metrics().contains("folio_model_call_seconds").then_some(()) };
    folio_testkit::wait_for("metrics", LIMIT, metrics).await;
}

#[tokio::test]
async fn content_is_exported_only_if_it_is_enabled() {
    for (captured, format) in [(false, "json"), (true, "text")] {
        let collector = Collector::start().await;
        let mut sandbox = Setup::new(format!("{FAULTS}{SCRIPT}"))
            .with("FOLIO_TELEMETRY__ENDPOINT", collector.url())
            .with("FOLIO_TELEMETRY__METRICS_INTERVAL_SECONDS", 1)
            .with("FOLIO_TELEMETRY__CAPTURE_CONTENT", captured)
            .with("FOLIO_LOG__FILTER", "folio=trace,folio_gateway=trace,folio_conversation=trace,folio_llm=trace,info")
            .with("FOLIO_LOG__FORMAT", format)
            .start()
            .await;
        let document = converse(&sandbox).await;
        let failed = sandbox.client().await.chat(&document, "read again").await.failed().await;
        let error = failed.error.unwrap_or_default().message;
        assert!(error.contains(USER_WORD), "the caller receives the provider's message: {error}");
        turn_exported(&collector).await;
        // A thread reads the log.
        let statuses = [["status=500", "status=400"], ["\"status\":500", "\"status\":400"]];
        let logged = || async {
            let log = sandbox.server().errors();
            let has_messages =
                log.contains("model call failed; retrying") && log.matches("model call failed").count() >= 2;
            let has_statuses = statuses.iter().any(|both| both.iter().all(|status| log.contains(status)));
            (has_messages && has_statuses).then_some(log)
        };
        let log = folio_testkit::wait_for("both failures of model calls in the log", LIMIT, logged).await;
        assert!(sandbox.stop().await, "the server exits with status 0");
        for word in [DOCUMENT_WORD, USER_WORD] {
            assert_eq!(collector.has_received(word), captured, "{word}");
            assert!(!log.contains(word), "{word} is in the log");
        }
        if captured {
            check_message_parts(&collector);
        }
        // The thread may have read only a part of the last line.
        let (complete, _) = log.rsplit_once('\n').expect("a line");
        let lines: Vec<_> = complete.lines().filter(|line| line.contains("answered")).collect();
        assert!(!lines.is_empty(), "{log}");
        match format {
            "json" => lines.iter().for_each(|line| check_ids(line)),
            _ => {
                assert!(lines.iter().all(|line| line.contains(" trace_id=") && line.contains(" span_id=")), "{lines:?}")
            }
        }
    }
}

/// Checks that the content of model calls is exported in the form of the semantic conventions.
fn check_message_parts(collector: &Collector) {
    let spans = collector.spans();
    let events: Vec<_> =
        spans.iter().filter(|span| span.name == "chat scripted").flat_map(|span| &span.events).collect();
    let read = |name: &str| -> Vec<Value> {
        let texts = events.iter().filter_map(|event| event.get(name));
        texts.map(|text| serde_json::from_str(text).expect("messages are JSON")).collect()
    };
    let inputs = read("gen_ai.input.messages");
    let user = |message: &Value| message["role"] == "user" && message["parts"][0]["type"] == "text";
    assert!(inputs.iter().any(|messages| messages.as_array().is_some_and(|all| all.iter().any(user))), "{inputs:?}");
    let outputs = read("gen_ai.output.messages");
    assert!(outputs.iter().any(|messages| messages[0]["parts"][0]["name"] == "get_ocr_text"), "{outputs:?}");
    assert!(outputs.iter().any(|messages| messages[0]["finish_reason"] == "stop"), "{outputs:?}");
}

/// Checks that a log line within a span has the ids of span and trace.
fn check_ids(line: &str) {
    let line: Value = serde_json::from_str(line).expect("a line is JSON");
    assert_eq!(line["trace_id"].as_str().map(str::len), Some(32), "{line}");
    assert_eq!(line["span_id"].as_str().map(str::len), Some(16), "{line}");
    assert_eq!(line["fields"]["message"], "call answered");
}

#[tokio::test]
async fn an_unavailable_or_silent_collector_delays_no_call() {
    // The listener never accepts a connection.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for endpoint in ["http://127.0.0.1:9", &silent] {
        let mut shortest = Duration::MAX;
        for _ in 0..STOPS_MAX {
            let mut sandbox = Setup::new(SCRIPT)
                .with("FOLIO_TELEMETRY__ENDPOINT", endpoint)
                .with("FOLIO_TELEMETRY__METRICS_INTERVAL_SECONDS", 1)
                .with("FOLIO_TELEMETRY__TIMEOUT_SECONDS", 1)
                .with("FOLIO_TELEMETRY__QUEUE_SPANS", 4)
                .start()
                .await;
            for _ in 0..3 {
                converse(&sandbox).await;
            }
            let start = Instant::now();
            assert!(sandbox.stop().await, "the server exits with status 0");
            shortest = shortest.min(start.elapsed());
            if shortest < STOPPED_WITHIN {
                break;
            }
        }
        assert!(shortest < STOPPED_WITHIN, "{shortest:?}");
    }
}

#[tokio::test]
async fn reading_a_document_links_to_its_upload() {
    let collector = Collector::start().await;
    let sandbox = Setup::new(SCRIPT).with("FOLIO_TELEMETRY__ENDPOINT", collector.url()).start().await;
    sandbox.with_document().await;
    let both = || async {
        let spans = collector.spans();
        let named = |name: &str| spans.iter().find(|span| span.name.ends_with(name)).cloned();
        Some((named("/UploadDocument")?, named("ingest document")?))
    };
    let (upload, reading) = folio_testkit::wait_for("both spans", LIMIT, both).await;
    assert_ne!(upload.trace, reading.trace, "reading a document is a separate trace");
    assert_eq!(reading.links, [upload.trace]);
}

#[tokio::test]
async fn each_node_of_a_turn_has_one_span_with_its_rounds() {
    let script = r#"
rules:
  - when: {system: {contains: "Step: classify"}}
    answer: {text: '{"intent_type": "calculation", "confidence": 1, "reasoning": "A sum."}'}
  - when: {system: {contains: "Step: compute"}}
    rounds:
      - calls: [{name: calculator, arguments: {expression: "1 + 1"}}]
      - text: '{"formula": "sum", "expression": "1 + 1", "result": 2, "sources": [], "confidence": 1}'
  - when: {system: {contains: "Step: update the summary"}}
    answer: {text: '{"summary": "The sum is 2."}'}
"#;
    let collector = Collector::start().await;
    let sandbox = Setup::new(script).with("FOLIO_TELEMETRY__ENDPOINT", collector.url()).start().await;
    let client = sandbox.client().await;
    let (profile, text) = ("assistant".to_owned(), "What is 1 + 1?".to_owned());
    client.send(v1::ChatRequest { profile, text, ..Default::default() }).await.unwrap().completed().await;
    let ended = || async { collector.spans().into_iter().find(|span| span.name == "invoke_agent assistant") };
    let turn = folio_testkit::wait_for("the turn's span", LIMIT, ended).await;
    let spans = collector.spans();
    let nodes = spans.iter().filter(|span| span.name.starts_with("node "));
    let rounds = |id: &str| spans.iter().filter(|span| span.name == "round" && span.parent == id).count();
    let mut found: Vec<_> = nodes.map(|node| (node.name.as_str(), node.parent == turn.id, rounds(&node.id))).collect();
    found.sort_unstable();
    let expected =
        [("node calculation_agent", true, 2), ("node classify_intent", true, 1), ("node update_memory", true, 1)];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_turn_that_continues_after_a_pause_links_to_its_first_trace() {
    let script = "
rules:
  - when: {round: 2}
    answer: {text: Tagged.}
  - when: {user: {prefix: tag}}
    answer: {calls: [{name: create_tag, arguments: {name: paid}}]}
";
    let collector = Collector::start().await;
    let sandbox = Setup::new(script).with("FOLIO_TELEMETRY__ENDPOINT", collector.url()).start().await;
    let (client, document) = sandbox.with_document().await;
    let waiting = client.chat(&document, "tag it").await.pause().await;
    client.approve_all(&waiting).await;
    let both = || async {
        let spans = collector.spans();
        let turn = |outcome: &str| spans.iter().find(|span| span.get("folio.turn.outcome") == outcome).cloned();
        Some((turn("awaiting_approval")?, turn("completed")?))
    };
    let (paused, completed) = folio_testkit::wait_for("both parts of the turn", LIMIT, both).await;
    assert_ne!(paused.trace, completed.trace, "each part belongs to the trace of its request");
    assert_eq!(completed.links, [paused.trace]);
}
