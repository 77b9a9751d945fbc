//! A collector that stores received OTLP data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

#[derive(Debug, Clone)]
pub struct Span {
    pub name: String,
    pub trace: String,
    pub id: String,
    /// Id of the parent span. Empty: none.
    pub parent: String,
    /// Kind: 1 internal, 2 server, 3 client, 5 consumer.
    pub kind: i32,
    /// Attributes, including `folio.role` of the sender's resource.
    pub attributes: BTreeMap<String, String>,
    pub links: Vec<String>,
    pub events: Vec<BTreeMap<String, String>>,
    pub schema: String,
}

impl Span {
    /// Returns an attribute. Empty: there is none.
    pub fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    metrics: BTreeSet<String>,
    /// All data as text.
    text: String,
}

pub struct Collector {
    received: Arc<Mutex<Received>>,
    url: String,
    _server: JoinSet<()>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received = Arc::<Mutex<Received>>::default();
        let receiver = Receiver(Arc::clone(&received));
        let serving = Server::builder()
            .add_service(TraceServiceServer::new(receiver.clone()))
            .add_service(MetricsServiceServer::new(receiver))
            .serve_with_incoming(TcpIncoming::from(listener));
        let mut server = JoinSet::new();
        server.spawn(async move { serving.await.expect("the collector serves") });
        Self { received, url, _server: server }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn spans(&self) -> Vec<Span> {
        self.received().spans.clone()
    }

    pub fn metrics(&self) -> BTreeSet<String> {
        self.received().metrics.clone()
    }

    /// Returns true if received data contains this word.
    pub fn has_received(&self, word: &str) -> bool {
        self.received().text.contains(word)
    }
}

#[derive(Clone)]
struct Receiver(Arc<Mutex<Received>>);

impl Receiver {
    fn received(&self) -> MutexGuard<'_, Received> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let request = request.into_inner();
        let mut received = self.received();
        received.text.push_str(&format!("{request:?}\n"));
        for part in request.resource_spans {
            let resource = part.resource.map(|resource| texts(&resource.attributes)).unwrap_or_default();
            let scopes = part.scope_spans.into_iter();
            let spans =
                scopes.flat_map(|scope| scope.spans.into_iter().map(move |span| (scope.schema_url.clone(), span)));
            for (schema, span) in spans {
                let mut attributes = texts(&span.attributes);
                attributes.extend(resource.clone());
                received.spans.push(Span {
                    name: span.name,
                    trace: hex(&span.trace_id),
                    id: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    kind: span.kind,
                    attributes,
                    links: span.links.iter().map(|link| hex(&link.trace_id)).collect(),
                    events: span.events.iter().map(|event| texts(&event.attributes)).collect(),
                    schema,
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Receiver {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let request = request.into_inner();
        let mut received = self.received();
        received.text.push_str(&format!("{request:?}\n"));
        let scopes = request.resource_metrics.into_iter().flat_map(|part| part.scope_metrics);
        received.metrics.extend(scopes.flat_map(|scope| scope.metrics).map(|metric| metric.name));
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute.value.as_ref()))).collect()
}

fn text(value: Option<&AnyValue>) -> String {
    use any_value::Value;
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(truth)) => truth.to_string(),
        Some(Value::ArrayValue(list)) => {
            let items: Vec<_> = list.values.iter().map(|value| text(Some(value))).collect();
            format!("[{}]", items.join(", "))
        }
        other => format!("{other:?}"),
    }
}
