//! A collector that keeps what it is told over OTLP.

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

/// A span as it was told.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// Its trace, in hexadecimal digits.
    pub trace: String,
    /// Its id.
    pub id: String,
    /// The id of its parent; empty where it has none.
    pub parent: String,
    /// 1 internal, 2 server, 3 client, 5 consumer.
    pub kind: i32,
    /// Its attributes, and `folio.role` of who told it.
    pub attributes: BTreeMap<String, String>,
    /// The traces that it links to.
    pub links: Vec<String>,
    /// The attributes of its events.
    pub events: Vec<BTreeMap<String, String>>,
    /// The schema that it keeps to.
    pub schema: String,
}

impl Seen {
    /// An attribute; empty where there is none.
    pub fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// What was told.
#[derive(Default)]
struct Told {
    spans: Vec<Seen>,
    figures: BTreeSet<String>,
    /// All of it, as text.
    whole: String,
}

/// A running collector.
pub struct Collector {
    told: Arc<Mutex<Told>>,
    url: String,
    _server: JoinSet<()>,
}

impl Collector {
    /// Starts on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let told = Arc::<Mutex<Told>>::default();
        let keeps = Keeps(Arc::clone(&told));
        let serving = Server::builder()
            .add_service(TraceServiceServer::new(keeps.clone()))
            .add_service(MetricsServiceServer::new(keeps))
            .serve_with_incoming(TcpIncoming::from(listener));
        let mut server = JoinSet::new();
        server.spawn(async move { serving.await.expect("the collector serves") });
        Self { told, url, _server: server }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spans so far.
    pub fn spans(&self) -> Vec<Seen> {
        self.told().spans.clone()
    }

    /// The names of the figures so far.
    pub fn figures(&self) -> BTreeSet<String> {
        self.told().figures.clone()
    }

    /// Whether a word was told, wherever.
    pub fn knows(&self, word: &str) -> bool {
        self.told().whole.contains(word)
    }
}

#[derive(Clone)]
struct Keeps(Arc<Mutex<Told>>);

impl Keeps {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tonic::async_trait]
impl TraceService for Keeps {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let request = request.into_inner();
        let mut told = self.told();
        told.whole.push_str(&format!("{request:?}\n"));
        for part in request.resource_spans {
            let whose = part.resource.map(|resource| texts(&resource.attributes)).unwrap_or_default();
            let scopes = part.scope_spans.into_iter();
            let spans =
                scopes.flat_map(|scope| scope.spans.into_iter().map(move |span| (scope.schema_url.clone(), span)));
            for (schema, span) in spans {
                let mut attributes = texts(&span.attributes);
                attributes.extend(whose.clone());
                told.spans.push(Seen {
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
impl MetricsService for Keeps {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let request = request.into_inner();
        let mut told = self.told();
        told.whole.push_str(&format!("{request:?}\n"));
        let scopes = request.resource_metrics.into_iter().flat_map(|part| part.scope_metrics);
        told.figures.extend(scopes.flat_map(|scope| scope.metrics).map(|metric| metric.name));
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
