//! Export to an OpenTelemetry collector: the channel and resource that spans and metrics share, and metrics over OTLP.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue as Attribute, any_value};
use opentelemetry_proto::tonic::metrics::v1 as wire;
use opentelemetry_proto::tonic::resource::v1::Resource as WireResource;
use opentelemetry_sdk::Resource;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use super::Options;
use crate::metrics::{Family, Kind, Value};

/// Exports metrics to the collector. Cheap to clone.
#[derive(Clone)]
pub struct Exporter {
    channel: Channel,
    resource: Resource,
    interval: Duration,
    timeout: Duration,
    started_at: u64,
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exporter")
    }
}

pub(super) fn address(options: &Options) -> Result<Endpoint, tonic::transport::Error> {
    Endpoint::from_shared(options.endpoint.clone())
}

impl Exporter {
    pub(super) fn new(options: &Options, role: &str) -> anyhow::Result<Self> {
        let mut endpoint = address(options).context("telemetry.endpoint")?;
        endpoint = endpoint.connect_timeout(options.timeout).timeout(options.timeout);
        if let Some(file) = &options.ca {
            let pem =
                std::fs::read(file).with_context(|| format!("telemetry.ca: {} cannot be read", file.display()))?;
            let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
            endpoint = endpoint.tls_config(tls).context("telemetry.ca")?;
        }
        let instance = format!("{:032x}", rand::random::<u128>());
        let attributes = [
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance),
            KeyValue::new("folio.role", role.to_owned()),
        ];
        let resource = Resource::builder_empty().with_service_name("folio").with_attributes(attributes).build();
        let (interval, timeout) = (options.metrics_interval, options.timeout);
        Ok(Self { channel: endpoint.connect_lazy(), resource, interval, timeout, started_at: now() })
    }

    pub(super) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(super) fn resource(&self) -> Resource {
        self.resource.clone()
    }

    /// Exports the result of `metrics` every `telemetry.metrics_interval_seconds`. Runs until the future is dropped.
    /// Failures are logged and not retried, because values are cumulative.
    pub async fn run(self, metrics: impl Fn() -> Vec<Family>) {
        let mut client = MetricsServiceClient::new(self.channel.clone());
        let mut is_failing = false;
        loop {
            tokio::time::sleep(self.interval).await;
            let result = self.export(&mut client, &metrics()).await;
            match (&result, is_failing) {
                (Err(error), false) => tracing::warn!(%error, "cannot export metrics to the collector"),
                (Ok(()), true) => tracing::info!("metrics are exported to the collector again"),
                _ => {}
            }
            is_failing = result.is_err();
        }
    }

    /// Exports the final values, within `telemetry.timeout_seconds`.
    pub async fn export_final(self, metrics: &[Family]) {
        let mut client = MetricsServiceClient::new(self.channel.clone());
        if let Err(error) = self.export(&mut client, metrics).await {
            tracing::info!(%error, "cannot export the final metrics to the collector");
        }
    }

    async fn export(&self, client: &mut MetricsServiceClient<Channel>, metrics: &[Family]) -> Result<(), String> {
        let request = self.request(metrics);
        match tokio::time::timeout(self.timeout, client.export(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(status)) => Err(format!("{:?}", status.code())),
            Err(_) => Err("no response within telemetry.timeout_seconds".to_owned()),
        }
    }

    fn request(&self, metrics: &[Family]) -> ExportMetricsServiceRequest {
        let window = Window { started_at: self.started_at, now: now() };
        let scope = InstrumentationScope {
            name: "folio".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let metrics = metrics.iter().map(|family| window.metric(family)).collect();
        let attributes = self.resource.iter().map(|(key, value)| attribute(key.as_str(), value.to_string())).collect();
        let resource = WireResource { attributes, ..WireResource::default() };
        let scope_metrics = vec![wire::ScopeMetrics { scope: Some(scope), metrics, ..wire::ScopeMetrics::default() }];
        let all = wire::ResourceMetrics { resource: Some(resource), scope_metrics, ..wire::ResourceMetrics::default() };
        ExportMetricsServiceRequest { resource_metrics: vec![all] }
    }
}

/// Nanoseconds since the Unix epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn attribute(key: &str, value: String) -> Attribute {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
    Attribute { key: key.to_owned(), value, ..Attribute::default() }
}

/// The time window of cumulative values, in nanoseconds since the Unix epoch.
struct Window {
    started_at: u64,
    now: u64,
}

impl Window {
    fn metric(&self, family: &Family) -> wire::Metric {
        use wire::metric::Data;
        let data = match family.kind {
            Kind::Gauge => Data::Gauge(wire::Gauge { data_points: self.numbers(family) }),
            Kind::Counter => Data::Sum(wire::Sum {
                data_points: self.numbers(family),
                aggregation_temporality: wire::AggregationTemporality::Cumulative.into(),
                is_monotonic: true,
            }),
            Kind::Histogram => Data::Histogram(wire::Histogram {
                data_points: self.distributions(family),
                aggregation_temporality: wire::AggregationTemporality::Cumulative.into(),
            }),
        };
        let (name, unit) = (family.name.clone(), family.unit().to_owned());
        wire::Metric { name, description: family.help.to_owned(), unit, data: Some(data), ..wire::Metric::default() }
    }

    fn numbers(&self, family: &Family) -> Vec<wire::NumberDataPoint> {
        let points = family.points.iter().filter_map(|point| match &point.value {
            Value::Number(number) => Some((point, i64::try_from(*number).unwrap_or(i64::MAX))),
            Value::Distribution(_) => None,
        });
        let points = points.map(|(point, number)| wire::NumberDataPoint {
            attributes: labels(&point.labels),
            start_time_unix_nano: self.started_at,
            time_unix_nano: self.now,
            value: Some(wire::number_data_point::Value::AsInt(number)),
            ..wire::NumberDataPoint::default()
        });
        points.collect()
    }

    fn distributions(&self, family: &Family) -> Vec<wire::HistogramDataPoint> {
        let points = family.points.iter().filter_map(|point| match &point.value {
            Value::Number(_) => None,
            Value::Distribution(distribution) => Some((point, distribution)),
        });
        let points = points.map(|(point, distribution)| wire::HistogramDataPoint {
            attributes: labels(&point.labels),
            start_time_unix_nano: self.started_at,
            time_unix_nano: self.now,
            count: distribution.counts.iter().sum(),
            sum: Some(distribution.sum),
            bucket_counts: distribution.counts.clone(),
            explicit_bounds: distribution.bounds.to_vec(),
            ..wire::HistogramDataPoint::default()
        });
        points.collect()
    }
}

fn labels(labels: &[(&'static str, String)]) -> Vec<Attribute> {
    labels.iter().map(|(name, value)| attribute(name, value.clone())).collect()
}
