//! Traces of reads, by which tests count tombstones and coordinators.

use folio_types::Result;
use scylla::observability::tracing::TracingInfo;
use scylla::statement::prepared::PreparedStatement;

use super::Cql;

impl Cql {
    pub(super) fn lock_traces(&self) -> std::sync::MutexGuard<'_, Option<Vec<scylla::value::CqlTimeuuid>>> {
        self.traces.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn traced(&self, statement: &PreparedStatement) -> PreparedStatement {
        let mut statement = statement.clone();
        statement.set_tracing(self.lock_traces().is_some());
        statement
    }

    /// Executes a call and returns the traces of its reads. None: the server lost a trace.
    async fn traces<T>(&self, call: impl Future<Output = Result<T>>) -> Result<Option<Vec<TracingInfo>>> {
        *self.lock_traces() = Some(Vec::new());
        let done = call.await;
        let ids = self.lock_traces().take().unwrap_or_default();
        done?;
        let mut traces = Vec::new();
        for id in ids {
            let Ok(trace) = self.session.get_tracing_info(id.as_ref()).await else { return Ok(None) };
            traces.push(trace);
        }
        Ok(Some(traces))
    }

    /// Returns the number of tombstones that each read of a call reads. None: the server lost a trace.
    pub(crate) async fn tombstones<T>(&self, call: impl Future<Output = Result<T>>) -> Result<Option<Vec<u64>>> {
        let Some(traces) = self.traces(call).await? else { return Ok(None) };
        let tombstones = |trace| local_reads(trace).map(|(_, tombstones)| tombstones).reduce(u64::saturating_add);
        Ok(traces.iter().map(tombstones).collect())
    }

    /// Returns for each read of a call whether only its coordinator read rows. None: the server lost a trace.
    pub(crate) async fn coordinated_by_replica<T>(
        &self,
        call: impl Future<Output = Result<T>>,
    ) -> Result<Option<Vec<bool>>> {
        let Some(traces) = self.traces(call).await? else { return Ok(None) };
        let is_replica = |trace: &TracingInfo| {
            local_reads(trace).map(|(server, _)| server == trace.coordinator).reduce(|one, other| one && other)
        };
        Ok(traces.iter().map(is_replica).collect())
    }
}

/// Returns the servers that read rows, and the number of tombstones that each of them read, by the events
/// "Read 1 live rows and 2 tombstone cells".
fn local_reads(trace: &TracingInfo) -> impl Iterator<Item = (Option<std::net::IpAddr>, u64)> {
    trace.events.iter().filter_map(|event| {
        let (_, rest) = event.activity.as_deref()?.split_once(" live rows and ")?;
        Some((event.source, rest.split(' ').next()?.parse().ok()?))
    })
}
