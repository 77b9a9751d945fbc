//! Traces of a call across processes, and the names of exported metrics.

use std::collections::{BTreeMap, BTreeSet};

use folio_proto::v1;
use folio_tests::harness::client::ask;
use folio_tests::harness::cluster::Member;
use folio_tests::harness::collector::{Collector, Seen};
use folio_tests::harness::{LIMIT, within};
use futures::StreamExt as _;
use tonic::Request;

use crate::stage::{Stage, on_stage};

const SCRIPT: &str = "
rules:
  - when: {user: {prefix: trace}, round: 2}
    answer: {text: Traced.}
  - when: {user: {prefix: trace}}
    answer: {calls: [{name: create_tag, arguments: {name: '{{user}}'}}]}
";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// Restarts one gateway and one node with this collector.
async fn export_to(stage: &mut Stage, collector: &Collector) {
    let telling = [
        ("FOLIO_TELEMETRY__ENDPOINT", collector.url()),
        ("FOLIO_TELEMETRY__METRICS_INTERVAL_SECONDS", "1"),
        ("FOLIO_SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
    ];
    for member in stage.cluster.nodes.iter_mut().chain(&mut stage.cluster.gateways) {
        member.kill();
    }
    stage.cluster.nodes[0].start(&telling).await;
    stage.cluster.gateways[0].start(&telling).await;
}

/// Chats with a tool that writes, with the trace context of a caller.
async fn chat(stage: &Stage) {
    let chat = v1::ChatRequest { auto_approve: true, ..ask(&stage.document, "trace me") };
    let client = stage.client(0).await;
    let taken = || async {
        let mut request = Request::new(chat.clone());
        let parent = format!("00-{TRACE}-{CALLER}-01");
        request.metadata_mut().insert("traceparent", parent.parse().expect("a header"));
        let answer = within("a chat", client.conversations.clone().chat(request)).await.ok()?;
        let events: Vec<_> = within("its events", answer.into_inner().collect::<Vec<_>>()).await;
        let last = events.into_iter().last()?.ok()?.event?.kind;
        matches!(last, Some(v1::event::Kind::Completed(_))).then_some(())
    };
    folio_testkit::wait_for("a chat that is answered", LIMIT, taken).await;
}

/// Returns the only span of the trace that satisfies a condition.
fn the<'a>(spans: &'a [Seen], what: &str, holds: impl Fn(&Seen) -> bool) -> Option<&'a Seen> {
    let found: Vec<_> = spans.iter().filter(|span| span.trace == TRACE && holds(span)).collect();
    assert!(found.len() <= 1, "{what}: {found:#?}");
    found.first().copied()
}

#[test]
fn a_chat_is_one_trace_from_its_caller_to_the_stores() {
    on_stage(SCRIPT, async |stage| {
        let collector = Collector::start().await;
        export_to(stage, &collector).await;
        chat(stage).await;

        let found = || async { chain(&collector.spans()) };
        folio_testkit::wait_for("the whole trace", LIMIT, found).await;
        let metrics = || async { collector.metrics().contains("folio_turn_seconds").then_some(()) };
        folio_testkit::wait_for("metrics", LIMIT, metrics).await;

        // The collector receives no user ids and no content.
        assert!(!collector.knows("trace me"), "the message went to the collector");
        let spans = collector.spans();
        // Heartbeats and polls of queues happen continuously.
        let alone = spans.iter().find(|span| span.parent.is_empty() && !span.get("db.system.name").is_empty());
        assert!(alone.is_none(), "a trace of one store operation: {alone:#?}");
        documented(stage).await;
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
    on_stage(REFUSING, async |stage| {
        for member in stage.cluster.nodes.iter_mut().chain(&mut stage.cluster.gateways) {
            member.kill();
        }
        let json = [("FOLIO_LOG__FORMAT", "json"), ("FOLIO_LOG__FILTER", "folio_gateway=debug,info")];
        stage.cluster.nodes[0].start(&json).await;
        stage.cluster.gateways[0].start(&json).await;
        let client = stage.client(0).await;
        let same = || async {
            let answer = client.send(ask(&stage.document, "trace me")).await.ok()?;
            answer.drain().await.ok()?;
            let [gateway, node] = [&stage.cluster.gateways[0], &stage.cluster.nodes[0]].map(|member| member.errors());
            let (gateway, node) = (traces_of(&gateway, "call answered"), traces_of(&node, "model call failed"));
            (!gateway.is_empty() && !node.is_empty()).then_some((gateway, node))
        };
        let (gateway, node) = folio_testkit::wait_for("lines of a call in both logs", LIMIT, same).await;
        assert!(node.is_subset(&gateway), "gateway: {gateway:?}, node: {node:?}");
    });
}

/// Checks that the trace is complete. None: spans are missing. Panics if a span has the wrong parent.
fn chain(spans: &[Seen]) -> Option<()> {
    // The gateway forwards the RPC to a node under the same name.
    const CHAT: &str = "folio.v1.ConversationService/Chat";
    // An unreachable node is retried, so the successful call is checked.
    let answered = |span: &Seen, name: &str| span.name == name && span.get("rpc.response.status_code") == "OK";
    let gateway = the(spans, "gateway", |span| answered(span, CHAT) && span.parent == CALLER)?;
    assert_eq!((gateway.kind, gateway.get("folio.role")), (2, "gateway"));
    assert_eq!(
        gateway.schema, "https://opentelemetry.io/schemas/1.41.0",
        "the version that docs/observability.md names"
    );
    let out = the(spans, "call", |span| answered(span, CHAT) && span.kind == 3)?;
    assert_eq!((&out.parent, out.get("folio.role")), (&gateway.id, "gateway"));
    let node = the(spans, "node", |span| answered(span, CHAT) && span.kind == 2 && span.parent == out.id)?;
    assert_eq!(node.get("folio.role"), "node");
    let turn = the(spans, "turn", |span| span.name == "invoke_agent document")?;
    assert_eq!((&turn.parent, turn.get("folio.turn.outcome")), (&node.id, "completed"));
    let round = |number: &'static str| the(spans, "round", move |span| span.get("folio.round") == number);
    let (first, second) = (round("1")?, round("2")?);
    assert_eq!((&first.parent, &second.parent), (&turn.id, &turn.id));
    for round in [first, second] {
        let model = the(spans, "model", |span| span.name == "chat scripted" && span.parent == round.id)?;
        assert_eq!((model.kind, model.get("gen_ai.operation.name")), (3, "chat"));
        assert_eq!((model.get("gen_ai.provider.name"), model.get("gen_ai.request.model")), ("sim", "scripted"));
        assert!(model.attributes.contains_key("gen_ai.usage.output_tokens"), "{model:#?}");
        let finish = if round.id == first.id { "[tool_call]" } else { "[stop]" };
        assert_eq!((model.get("gen_ai.request.stream"), model.get("gen_ai.response.finish_reasons")), ("true", finish));
    }
    let tool = the(spans, "tool", |span| span.name == "execute_tool create_tag")?;
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
    let port = member.process().announced("health on ").expect("a health port");
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
async fn documented(stage: &Stage) {
    let (mut metrics, mut labels) = metrics_of(&stage.cluster.gateways[0]).await;
    let of_node = metrics_of(&stage.cluster.nodes[0]).await;
    metrics.extend(of_node.0);
    labels.extend(of_node.1);
    let text = include_str!("../../docs/observability.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `folio_")?.split_once("` | "));
    let rows = rows.map(|(name, rest)| {
        let kind = rest.split(" |").next().unwrap_or_default();
        (format!("folio_{name}"), kind.to_owned())
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), metrics, "left: docs/observability.md, right: /metrics");
    let known = "error kind le method model operation outcome provider server status system tool";
    let unknown: Vec<_> = labels.iter().filter(|label| !known.split(' ').any(|name| name == *label)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
