//! Log lines on stderr, as text or JSON, with the id of the current trace. They contain no secret and no document text.

use std::fmt::{self, Write as _};

use folio_types::Timestamp;
use opentelemetry::trace::TraceContextExt as _;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{self, FormatEvent, FormatFields, Json, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    Text,
    /// One JSON object per line.
    Json,
}

pub(super) fn layer<S>(format: Format) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    match format {
        Format::Text => lines.fmt_fields(TextFields).event_format(TextLine).boxed(),
        Format::Json => {
            lines.fmt_fields(JsonFields::new()).event_format(JsonLine(format::Format::default().json())).boxed()
        }
    }
}

/// Returns the current trace id and span id, even if the log filter excludes the span.
fn ids() -> Option<(String, String)> {
    let context = tracing::dispatcher::get_default(|dispatch| {
        let (current, registry) = (dispatch.current_span(), dispatch.downcast_ref::<Registry>()?);
        // The innermost span may be below the level of exported spans.
        let mut spans = registry.span(current.id()?)?.scope();
        spans.find_map(|span| tracing_opentelemetry::get_otel_context(&span.id(), dispatch))
    })?;
    let context = context.span().span_context().clone();
    context.is_valid().then(|| (context.trace_id().to_string(), context.span_id().to_string()))
}

/// Formats an event as one line: time, level, spans, target, message, fields, trace id, span id.
struct TextLine;

impl<S, N> FormatEvent<S, N> for TextLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        write!(out, "{:.6} {:>5} ", Timestamp::now(), metadata.level())?;
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            write!(out, "{}", span.name())?;
            let extensions = span.extensions();
            if let Some(fields) = extensions.get::<FormattedFields<N>>().filter(|fields| !fields.is_empty()) {
                write!(out, "{{{fields}}}")?;
            }
            out.write_char(':')?;
        }
        write!(out, " {}: ", metadata.target())?;
        context.format_fields(out.by_ref(), event)?;
        if let Some((trace, span)) = ids() {
            write!(out, " trace_id={trace} span_id={span}")?;
        }
        writeln!(out)
    }
}

/// Formats an event as `tracing-subscriber`'s JSON object, with the trace id and span id first.
struct JsonLine(format::Format<Json>);

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Some((trace, span)) = ids() else { return self.0.format_event(context, out, event) };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        write!(out, "{{\"trace_id\":\"{trace}\",\"span_id\":\"{span}\",{}", line.strip_prefix('{').unwrap_or(&line))
    }
}

/// Formats fields as text on one line, without the fields that are only for traces (`otel.…`).
struct TextFields;

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(&self, out: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = Line { out, has_field: false, written: Ok(()) };
        fields.record(&mut line);
        line.written
    }
}

struct Line<'writer> {
    out: Writer<'writer>,
    has_field: bool,
    written: fmt::Result,
}

impl Line<'_> {
    fn write(&mut self, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
        if std::mem::replace(&mut self.has_field, true) {
            self.out.write_char(' ')?;
        }
        if field.name() != "message" {
            write!(self.out, "{}=", field.name())?;
        }
        write!(OneLine(&mut self.out), "{value:?}")
    }
}

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !field.name().starts_with("otel.") && self.written.is_ok() {
            self.written = self.write(field, value);
        }
    }
}

/// A writer that escapes control characters, so that untrusted text can neither start a line nor control a terminal.
struct OneLine<'a, W>(&'a mut W);

impl<W: fmt::Write> fmt::Write for OneLine<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(char::is_control) {
            let (plain, from) = rest.split_at(at);
            let mut characters = from.chars();
            self.0.write_str(plain)?;
            characters.next().map_or(Ok(()), |control| write!(self.0, "{}", control.escape_default()))?;
            rest = characters.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_start_a_line_or_control_a_terminal() {
        let mut line = String::new();
        OneLine(&mut line).write_str("a\nINFO forged\u{1b}[31m").unwrap();
        assert_eq!(line, "a\\nINFO forged\\u{1b}[31m");
    }
}
