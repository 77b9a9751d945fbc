//! Traces of a call across processes, and the names of exported metrics.

use std::collections::{BTreeMap, BTreeSet};

use folio_proto::v1;
use folio_tests::harness::client::ask;
use folio_tests::harness::cluster::Member;
use folio_tests::harness::collector::{Collector, Span};
use folio_tests::harness::{LIMIT, within};
use futures::StreamExt as _;
use tonic::Request;

use crate::test_cluster::{TestCluster, on_cluster};

const SCRIPT: &str = "
rules:
  - when: {user: {prefix: trace}, round: 2}
    answer: {text: Traced.}
  - when: {user: {prefix: trace}}
    answer: {calls: [{name: create_tag, arguments: {name: '{{user}}'}}]}
";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// Restarts one gateway and one node with these environment variables, and stops the others.
async fn restart_two(test: &mut TestCluster, variables: &[(&str, &str)]) {
    for member in test.cluster.nodes.iter_mut().chain(&mut test.cluster.gateways) {
        member.kill();
    }
    test.cluster.nodes[0].start(variables).await;
    test.cluster.gateways[0].start(variables).await;
}

/// Chats with a tool that writes, with the trace context of a caller that exports no spans (its sampled flag is 0).
async fn chat(test: &TestCluster) {
    let chat = v1::ChatRequest { auto_approve: true, ..ask(&test.document, "trace me") };
    let client = test.client(0).await;
    let completed = || async {
        let mut request = Request::new(chat.clone());
        let parent = format!("00-{TRACE}-{CALLER}-00");
        request.metadata_mut().insert("traceparent", parent.parse().expect("a header"));
        let answer = within("a chat", client.conversations.clone().chat(request)).await.ok()?;
        let events: Vec<_> = within("its events", answer.into_inner().collect::<Vec<_>>()).await;
        let last = events.into_iter().last()?.ok()?.event?.kind;
        matches!(last, Some(v1::event::Kind::Completed(_))).then_some(())
    };
    folio_testkit::wait_for("a completed chat", LIMIT, completed).await;
}

/// Returns the only span of the trace that satisfies a condition.
fn only_span<'a>(spans: &'a [Span], what: &str, condition: impl Fn(&Span) -> bool) -> Option<&'a Span> {
    let found: Vec<_> = spans.iter().filter(|span| span.trace == TRACE && condition(span)).collect();
    assert!(found.len() <= 1, "{what}: {found:#?}");
    found.first().copied()
}

#[test]
fn a_chat_is_one_trace_from_its_caller_to_the_stores() {
    on_cluster(SCRIPT, async |test| {
        let collector = Collector::start().await;
        let endpoint = ("FOLIO_TELEMETRY__ENDPOINT", collector.url());
        // The clients of the test count as a proxy, so that the call continues their trace.
        let proxies = ("FOLIO_GATEWAY__TRUSTED_PROXIES", r#"["127.0.0.0/8"]"#);
        restart_two(test, &[endpoint, proxies, ("FOLIO_TELEMETRY__METRICS_INTERVAL_SECONDS", "1")]).await;
        chat(test).await;

        let found = || async { chain(&collector.spans()) };
        folio_testkit::wait_for("the whole trace", LIMIT, found).await;
        let metrics = || async { collector.metrics().contains("folio_turn_seconds").then_some(()) };
        folio_testkit::wait_for("metrics", LIMIT, metrics).await;

        // The collector receives no user ids and no content.
        assert!(!collector.has_received("trace me"), "the collector received the message");
        let spans = collector.spans();
        // Heartbeats and polls of queues happen continuously.
        let root = spans.iter().find(|span| span.parent.is_empty() && !span.get("db.system.name").is_empty());
        assert!(root.is_none(), "a trace of one store operation: {root:#?}");
        documented(test).await;
    });
}

#[test]
fn the_trace_of_a_stranger_is_linked_and_does_not_decide_sampling() {
    on_cluster(SCRIPT, async |test| {
        let collector = Collector::start().await;
        restart_two(test, &[("FOLIO_TELEMETRY__ENDPOINT", collector.url())]).await;
        chat(test).await;
        let found = || async {
            let spans = collector.spans();
            let call = spans.iter().find(|span| span.kind == 2 && span.links.iter().any(|link| link == TRACE));
            call.cloned()
        };
        let call = folio_testkit::wait_for("the span of the call", LIMIT, found).await;
        assert!(call.parent.is_empty() && call.trace != TRACE, "{call:#?}");
        let joined = collector.spans().into_iter().find(|span| span.trace == TRACE);
        assert!(joined.is_none(), "{joined:#?}");
    });
}

/// Returns the trace ids of log lines with this message.
fn traces_of(log: &str, message: &str) -> BTreeSet<String> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let lines = lines.filter(|line| line["fields"]["message"] == message);
    lines.filter_map(|line| Some(line["trace_id"].as_str()?.to_owned())).collect()
}

#[test]
fn lines_of_a_call_name_one_trace_in_gateway_and_node_without_a_collector() {
    const REFUSING: &str = "
faults:
  - {fault: {status: {code: 400}}}
rules:
  - answer: {text: Never.}
";
    on_cluster(REFUSING, async |test| {
        restart_two(test, &[("FOLIO_LOG__FORMAT", "json"), ("FOLIO_LOG__FILTER", "folio_gateway=debug,info")]).await;
        let client = test.client(0).await;
        let answered = || async { client.send(ask(&test.document, "trace me")).await.ok()?.drain().await.ok() };
        folio_testkit::wait_for("an answered chat", LIMIT, answered).await;
        // The gateway writes its line after the end of the stream.
        let same = || async {
            let [gateway, node] = [&test.cluster.gateways[0], &test.cluster.nodes[0]].map(|member| member.errors());
            let (gateway, node) = (traces_of(&gateway, "call answered"), traces_of(&node, "model call failed"));
            (!node.is_empty() && node.is_subset(&gateway)).then_some(())
        };
        folio_testkit::wait_for("lines of one trace in both logs", LIMIT, same).await;
    });
}

/// Checks that the trace is complete. None: spans are missing. Panics if a span has the wrong parent.
fn chain(spans: &[Span]) -> Option<()> {
    // The gateway forwards the RPC to a node under the same name.
    const CHAT: &str = "folio.v1.ConversationService/Chat";
    // An unreachable node is retried, so the successful call is checked.
    let answered = |span: &Span, name: &str| span.name == name && span.get("rpc.response.status_code") == "OK";
    let gateway = only_span(spans, "gateway", |span| answered(span, CHAT) && span.parent == CALLER)?;
    assert_eq!((gateway.kind, gateway.get("folio.role")), (2, "gateway"));
    assert_eq!(
        gateway.schema, "https://opentelemetry.io/schemas/1.41.0",
        "the version that docs/observability.md names"
    );
    let out = only_span(spans, "call", |span| answered(span, CHAT) && span.kind == 3)?;
    assert_eq!((&out.parent, out.get("folio.role")), (&gateway.id, "gateway"));
    let node = only_span(spans, "node", |span| answered(span, CHAT) && span.kind == 2 && span.parent == out.id)?;
    assert_eq!(node.get("folio.role"), "node");
    let turn = only_span(spans, "turn", |span| span.name == "invoke_agent document")?;
    assert_eq!((&turn.parent, turn.get("folio.turn.outcome")), (&node.id, "completed"));
    let round = |number: &'static str| only_span(spans, "round", move |span| span.get("folio.round") == number);
    let (first, second) = (round("1")?, round("2")?);
    assert_eq!((&first.parent, &second.parent), (&turn.id, &turn.id));
    for round in [first, second] {
        let model = only_span(spans, "model", |span| span.name == "chat scripted" && span.parent == round.id)?;
        assert_eq!((model.kind, model.get("gen_ai.operation.name")), (3, "chat"));
        assert_eq!((model.get("gen_ai.provider.name"), model.get("gen_ai.request.model")), ("sim", "scripted"));
        assert!(model.attributes.contains_key("gen_ai.usage.output_tokens"), "{model:#?}");
        let finish = if round.id == first.id { "[tool_call]" } else { "[stop]" };
        assert_eq!((model.get("gen_ai.request.stream"), model.get("gen_ai.response.finish_reasons")), ("true", finish));
    }
    let tool = only_span(spans, "tool", |span| span.name == "execute_tool create_tag")?;
    assert_eq!((&tool.parent, tool.get("gen_ai.operation.name")), (&first.id, "execute_tool"));
    assert!(!tool.get("gen_ai.tool.call.id").is_empty(), "{tool:#?}");
    let of_tool = spans.iter().find(|span| span.parent == tool.id && span.get("db.system.name") == "cassandra")?;
    assert_eq!((of_tool.kind, &*of_tool.trace), (3, TRACE));
    // A separate task draws credit, so only the trace id of its span is checked.
    spans.iter().find(|span| span.trace == TRACE && span.get("db.collection.name") == "credit_accounts")?;
    Some(())
}

/// Returns the metrics of a process with their types, and the names of all labels.
async fn metrics_of(member: &Member) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let port = member.process().printed_after("health on ").expect("a health port");
    let page = within("metrics", async { reqwest::get(format!("http://{port}/metrics")).await?.text().await }).await;
    let page = page.expect("the metrics are served");
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let labels =
        page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('{')?.1.split_once('}'));
    let labels = labels.flat_map(|(labels, _)| labels.split("\",").filter_map(|label| label.split_once("=\"")));
    (
        types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect(),
        labels.map(|(name, _)| name.to_owned()).collect(),
    )
}

/// The metrics equal those in docs/observability.md, each of its type, and no label identifies a tenant, thread or
/// user.
async fn documented(test: &TestCluster) {
    let (mut metrics, mut labels) = metrics_of(&test.cluster.gateways[0]).await;
    let of_node = metrics_of(&test.cluster.nodes[0]).await;
    metrics.extend(of_node.0);
    labels.extend(of_node.1);
    let text = include_str!("../../docs/observability.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `folio_")?.split_once("` | "));
    let rows = rows.map(|(name, rest)| {
        let kind = rest.split(" |").next().unwrap_or_default();
        (format!("folio_{name}"), kind.to_owned())
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), metrics, "left: docs/observability.md, right: /metrics");
    let known = "error kind le method model operation outcome provider queue server status system tool";
    let unknown: Vec<_> = labels.iter().filter(|label| !known.split(' ').any(|name| name == *label)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
