//! Prepares and sends statements.
//!
//! | use | consistency | repeated by the driver |
//! |---|---|---|
//! | read | QUORUM | on another server after a delay, and on time-outs and lost connections |
//! | read of the result of a condition | SERIAL | the same (`serial_read_retry.rs`) |
//! | write without a condition | QUORUM, idempotent | the same |
//! | conditional write | SERIAL, then QUORUM | never |
//! | erasure of rows that a server could bring back | ALL | by the next sweep |
//!
//! The consistencies are the local ones (LOCAL_QUORUM, LOCAL_SERIAL) if the keyspace has replicas in one data center. If it
//! has replicas in several, local conditions of two data centers would not see each other (`datacenters.rs`).
//!
//! The first three uses end within the time limit of a read or a write, repetitions included. If a server does not answer
//! within [`SPECULATION_DELAY`], the statement is also sent to another server. A server that waits 100 ms for another
//! replica of a row reads from a third one (`speculative_retry` of each table). A conditional write is sent once and ends
//! within the limit of a conditional write; its caller then reads at SERIAL on another server. Reads without a bound in
//! their statement are paged by [`PAGE_ROWS`].
//!
//! A server that does not answer a keepalive request loses its connections and gets no statement until it accepts
//! another connection: the slow statements of one tenant do not count, and one stopped server costs latency only. While
//! no server is connected, statements fail immediately. Every call passes a [`Guard`], which bounds the calls in flight.

#[cfg(feature = "dump")]
mod traces;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use folio_breaker::BreakerOptions;
use folio_types::{Environment, Error, Reason, Result, Timestamp};
use futures::{StreamExt as _, TryStreamExt as _};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::policies::retry::{DefaultRetryPolicy, FallthroughRetryPolicy, RetryPolicy};
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::response::PagingState;
use scylla::response::query_result::QueryResult;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;

use super::datacenters::{self, ConsistencyLevels};
use super::error::{failed, health, unavailable, unreadable};
use super::options::{Options, tls_context};
use super::serial_read_retry::SerialReadRetryPolicy;
use super::values::Values;
use folio_storage::{CallCounters, clock_offset};
use folio_storage_client::Guard;

/// The purpose of a statement determines its consistency, time limit and retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementKind {
    Read,
    Write,
    Conditional,
}

/// Returns the statement with the consistency ALL: it fails unless every replica answers.
pub(crate) fn on_all_replicas(mut statement: PreparedStatement) -> PreparedStatement {
    statement.set_consistency(Consistency::All);
    statement
}

/// A read that is prepared for both consistencies.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    quorum: PreparedStatement,
    serial: PreparedStatement,
}

impl Select {
    /// Returns the read with the consistency ALL in place of QUORUM.
    pub(crate) fn on_all_replicas(self) -> Self {
        Self { quorum: on_all_replicas(self.quorum), ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Sees every acknowledged write.
    Quorum,
    /// Sees every acknowledged write, and completes every conditional write in flight.
    Serial,
}

#[derive(Debug)]
pub(crate) enum ConditionalResult {
    Applied,
    Refused,
    /// The outcome is unknown; a SERIAL read determines it.
    Unknown(Error),
}

pub(crate) type Statement<'a> = (&'a PreparedStatement, Values);

/// The statements of one batch.
pub(crate) type Statements<'a> = Vec<Statement<'a>>;

/// Interval of keepalive requests on each connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(1_100);
/// Time within which a server must answer a keepalive request.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(1_250);
/// Time after which an idempotent statement is also sent to another server.
const SPECULATION_DELAY: Duration = Duration::from_millis(300);
/// The driver detects unavailable servers.
const NO_BREAKER: BreakerOptions = BreakerOptions { failures: 0, open_seconds: Duration::ZERO };

/// Maximum number of rows in a page of a response.
const PAGE_ROWS: i32 = 500;

/// Maximum number of partitions of an unconditional batch. Servers log a warning about a batch over more partitions.
const BATCH_PARTITIONS: usize = 10;
/// Maximum number of batches that one call of [`Cql::write_all`] has in flight.
const BATCHES_IN_FLIGHT: usize = 8;

/// Names of the kinds of calls in metrics.
const KINDS: &[&str] = &["read", "serial_read", "write", "conditional_write"];
const READ: usize = 0;
const SERIAL_READ: usize = 1;
const WRITE: usize = 2;
const CONDITIONAL_WRITE: usize = 3;

pub(crate) struct Cql {
    session: Session,
    /// Not set before the keyspace is selected.
    consistency: OnceLock<ConsistencyLevels>,
    options: Options,
    no_retry: Arc<dyn RetryPolicy>,
    serial_read_retry: Arc<dyn RetryPolicy>,
    guard: Guard,
    /// Trace ids of the reads. None: reads are not traced.
    #[cfg(feature = "dump")]
    traces: std::sync::Mutex<Option<Vec<scylla::value::CqlTimeuuid>>>,
}

impl Cql {
    /// Connects without selecting a keyspace.
    pub(crate) async fn connect(options: Options) -> Result<Self> {
        let profile = ExecutionProfile::builder()
            .request_timeout(Some(options.read_timeout))
            .retry_policy(Arc::new(DefaultRetryPolicy::new()))
            .speculative_execution_policy(Some(Arc::new(SimpleSpeculativeExecutionPolicy {
                max_retry_count: 1,
                retry_interval: SPECULATION_DELAY,
            })))
            .build();
        let tls = match &options.tls {
            Some(tls) => Some(tls_context(tls).await?),
            None => None,
        };
        let mut builder = SessionBuilder::new()
            .known_nodes(&options.contact_points)
            .default_execution_profile_handle(profile.into_handle())
            .connection_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .keepalive_interval(KEEPALIVE_INTERVAL)
            .keepalive_timeout(KEEPALIVE_TIMEOUT)
            // The replicas of a token are known from the keyspace, its columns are not needed.
            .keyspaces_to_fetch([&options.keyspace])
            .fetch_full_schema_metadata(false)
            .schema_agreement_timeout(options.migration_timeout)
            .tls_context(tls);
        if let Some(datacenter) = &options.datacenter {
            builder = builder.prefer_datacenter(datacenter.clone());
        }
        if let Some((user, password)) = &options.credentials {
            builder = builder.user(user, password);
        }
        let session = builder.build().await.map_err(|error| unavailable("connect", &error))?;
        let guard = Guard::new("cql", KINDS, NO_BREAKER);
        let (no_retry, serial_read_retry) = (Arc::new(FallthroughRetryPolicy::new()), Arc::new(SerialReadRetryPolicy));
        Ok(Self {
            session,
            consistency: OnceLock::new(),
            options,
            no_retry,
            serial_read_retry,
            guard,
            #[cfg(feature = "dump")]
            traces: std::sync::Mutex::default(),
        })
    }

    pub(crate) fn call_counters(&self) -> CallCounters {
        let is_open = !self.session.get_cluster_state().get_nodes_info().iter().any(|node| node.is_connected());
        CallCounters { is_open, ..self.guard.call_counters() }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) async fn use_keyspace(&self) -> Result<()> {
        let used = self.session.use_keyspace(&self.options.keyspace, false).await;
        used.map_err(|error| unavailable("use keyspace", &error))?;
        let replication = self.replication().await?;
        let state = self.session.get_cluster_state();
        let servers: BTreeSet<String> =
            state.get_nodes_info().iter().filter_map(|node| node.datacenter.clone()).collect();
        let _ = self.consistency.set(datacenters::levels(&replication, &servers, &self.options)?);
        // The driver learns the replicas of a keyspace that this process created.
        self.session.refresh_metadata().await.map_err(|error| unavailable("refresh metadata", &error))
    }

    /// Returns the replication settings of the keyspace.
    async fn replication(&self) -> Result<HashMap<String, String>> {
        let query = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
        let answer = self.session.query_unpaged(query, (&self.options.keyspace,)).await;
        let rows = rows_of::<(HashMap<String, String>,)>(answer.map_err(|error| failed(&error))?)?;
        Ok(rows.into_iter().next().map(|(replication,)| replication).unwrap_or_default())
    }

    /// Reads the clock of each connected server.
    pub(crate) async fn clock_offsets(&self, environment: &dyn Environment) -> Vec<i64> {
        let state = self.session.get_cluster_state();
        let offsets = state.get_nodes_info().iter().filter(|node| node.is_connected()).map(|node| async move {
            let mut statement =
                scylla::statement::unprepared::Statement::new("SELECT toTimestamp(now()) FROM system.local");
            let target = NodeIdentifier::Node(Arc::clone(node));
            statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(target, None)));
            let read = async {
                let answer = self.session.query_unpaged(statement, ()).await.map_err(|error| failed(&error))?;
                let row = rows_of::<(CqlTimestamp,)>(answer)?.into_iter().next();
                let milliseconds = row.map_or(0, |(CqlTimestamp(milliseconds),)| milliseconds);
                Timestamp::from_millisecond(milliseconds).map_err(|error| unreadable(&error))
            };
            clock_offset(environment, read).await
        });
        futures::future::join_all(offsets).await.into_iter().flatten().collect()
    }

    fn consistency(&self) -> ConsistencyLevels {
        self.consistency.get().copied().unwrap_or(ConsistencyLevels::LOCAL)
    }

    /// Executes a schema statement of a migration and waits for schema agreement. Every process sends its schema
    /// statements to the same server (the one with the lowest id), which executes them one after another. Concurrent
    /// statements on several servers would create tables with the same name and different ids.
    pub(crate) async fn define(&self, statement: &str) -> Result<()> {
        let mut statement = scylla::statement::unprepared::Statement::new(statement);
        let state = self.session.get_cluster_state();
        if let Some(first) = state.get_nodes_info().iter().min_by_key(|node| (!node.is_connected(), node.host_id)) {
            let first = NodeIdentifier::Node(Arc::clone(first));
            statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(first, None)));
        }
        statement.set_request_timeout(Some(self.options.migration_timeout));
        let done = self.session.query_unpaged(statement, ()).await;
        done.map(|_| ()).map_err(|error| failed(&error))
    }

    pub(crate) async fn await_schema_agreement(&self) -> Result<()> {
        let agreed = self.session.await_schema_agreement().await;
        agreed.map(drop).map_err(|error| unavailable("await agreement", &error))
    }

    /// Returns the text in the first column of the first row. None: the server refused the query as invalid or returned
    /// no row.
    pub(crate) async fn first_text(&self, query: &str) -> Result<Option<String>> {
        let mut statement = scylla::statement::unprepared::Statement::new(query);
        // The local level of the driver cannot be met if the replicas of a row are in several data centers.
        statement.set_consistency(self.consistency().quorum);
        match self.session.query_unpaged(statement, ()).await {
            Ok(answer) => Ok(rows_of::<(Option<String>,)>(answer)?.into_iter().next().and_then(|(text,)| text)),
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, _))) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    pub(crate) async fn prepare(&self, text: &str, purpose: StatementKind) -> Result<PreparedStatement> {
        let prepared = self.session.prepare(text).await;
        let mut statement = prepared.map_err(|error| {
            tracing::error!(%error, text, "a CQL statement cannot be prepared");
            Error::unavailable(Reason::StoreUnavailable, "a statement cannot be prepared")
        })?;
        statement.set_consistency(self.consistency().quorum);
        statement.set_serial_consistency(Some(self.consistency().serial));
        statement.set_is_idempotent(purpose != StatementKind::Conditional);
        statement.set_request_timeout(Some(match purpose {
            StatementKind::Read => self.options.read_timeout,
            StatementKind::Write => self.options.write_timeout,
            StatementKind::Conditional => self.options.conditional_timeout,
        }));
        if purpose == StatementKind::Conditional {
            statement.set_retry_policy(Some(Arc::clone(&self.no_retry)));
        }
        Ok(statement)
    }

    pub(crate) async fn select(&self, text: &str) -> Result<Select> {
        let mut quorum = self.prepare(text, StatementKind::Read).await?;
        quorum.set_page_size(PAGE_ROWS);
        let mut serial = quorum.clone();
        serial.set_consistency(self.consistency().serial_read);
        serial.set_retry_policy(Some(Arc::clone(&self.serial_read_retry)));
        Ok(Select { quorum, serial })
    }

    /// Reads all pages.
    pub(crate) async fn rows<R>(&self, select: &Select, consistency: Read, values: Values) -> Result<Vec<R>>
    where
        R: for<'a> DeserializeRow<'a, 'a>,
    {
        let (mut found, mut next) = (Vec::new(), Some(PagingState::start()));
        while let Some(from) = next {
            let page = self.page(select, consistency, &values, from).await?;
            found.extend(page.0);
            next = page.1;
        }
        Ok(found)
    }

    pub(crate) async fn page<R>(
        &self,
        select: &Select,
        consistency: Read,
        values: &Values,
        from: PagingState,
    ) -> Result<(Vec<R>, Option<PagingState>)>
    where
        R: for<'a> DeserializeRow<'a, 'a>,
    {
        let (statement, kind) = match consistency {
            Read::Quorum => (&select.quorum, READ),
            Read::Serial => (&select.serial, SERIAL_READ),
        };
        #[cfg(feature = "dump")]
        let statement = &self.traced(statement);
        let page = self.session.execute_single_page(statement, values, from);
        let page = self.guard.call(kind, statement.get_table_name(), self.options.read_timeout, page, health).await?;
        let (answer, next) = page.map_err(|error| failed(&error))?;
        #[cfg(feature = "dump")]
        self.lock_traces()
            .iter_mut()
            .for_each(|traces| traces.extend(answer.tracing_id().map(scylla::value::CqlTimeuuid::from)));
        let next = match next.into_paging_control_flow() {
            ControlFlow::Continue(next) => Some(next),
            ControlFlow::Break(()) => None,
        };
        Ok((rows_of::<R>(answer)?, next))
    }

    pub(crate) async fn row<R>(&self, select: &Select, consistency: Read, values: Values) -> Result<Option<R>>
    where
        R: for<'a> DeserializeRow<'a, 'a>,
    {
        Ok(self.rows(select, consistency, values).await?.into_iter().next())
    }

    /// The write must be idempotent: the driver may repeat it. The clock is checked although the write has no condition,
    /// because its values may depend on the time: with a wrong clock, a row would be put into a bucket that no scan reads.
    pub(crate) async fn write(&self, statement: &PreparedStatement, values: Values) -> Result<()> {
        self.options.environment.check_clock()?;
        let (sent, table) = (self.session.execute_unpaged(statement, values), statement.get_table_name());
        let done = self.guard.call(WRITE, table, self.options.write_timeout, sent, health).await?;
        done.map(|_| ()).map_err(|error| failed(&error))
    }

    /// Writes several rows unconditionally, in any order. Not atomic: the rows are sent in concurrent batches of at most
    /// [`BATCH_PARTITIONS`] partitions, and after an error each of them may be written or not.
    pub(crate) async fn write_all(&self, statements: Statements<'_>) -> Result<()> {
        let mut rows = Vec::with_capacity(statements.len());
        for (statement, values) in statements {
            let partition = statement.calculate_token(&values).map_err(|error| unreadable(&error))?;
            rows.push((partition, (statement, values)));
        }
        let batches = by_partitions(rows, BATCH_PARTITIONS);
        let writes: Vec<_> = batches.into_iter().map(|batch| self.write_batch(batch)).collect();
        futures::stream::iter(writes).buffer_unordered(BATCHES_IN_FLIGHT).try_collect::<()>().await
    }

    async fn write_batch(&self, statements: Statements<'_>) -> Result<()> {
        self.options.environment.check_clock()?;
        let table = table(&statements);
        let (mut batch, values) = self.batch(statements);
        batch.set_is_idempotent(true);
        let sent = self.session.batch(&batch, values);
        let done = self.guard.call(WRITE, table, self.options.write_timeout, sent, health).await?;
        done.map(|_| ()).map_err(|error| failed(&error))
    }

    /// The driver never repeats the write: see [`ConditionalResult::Unknown`].
    pub(crate) async fn conditional(&self, statement: &PreparedStatement, values: Values) -> Result<ConditionalResult> {
        self.options.environment.check_clock()?;
        let (done, table) = (self.session.execute_unpaged(statement, values), statement.get_table_name());
        let limit = self.options.conditional_timeout;
        conditional_result(self.guard.call(CONDITIONAL_WRITE, table, limit, done, health).await?)
    }

    /// Executes one atomic conditional batch in one partition. The driver never repeats the write: see
    /// [`ConditionalResult::Unknown`].
    pub(crate) async fn conditional_batch(&self, statements: Statements<'_>) -> Result<ConditionalResult> {
        self.options.environment.check_clock()?;
        let table = table(&statements);
        let (mut batch, values) = self.batch(statements);
        let limit = self.options.conditional_timeout;
        batch.set_is_idempotent(false);
        batch.set_retry_policy(Some(Arc::clone(&self.no_retry)));
        batch.set_request_timeout(Some(limit));
        let done = self.session.batch(&batch, values);
        conditional_result(self.guard.call(CONDITIONAL_WRITE, table, limit, done, health).await?)
    }

    fn batch(&self, statements: Statements<'_>) -> (Batch, Vec<Values>) {
        let mut batch = Batch::new(BatchType::Unlogged);
        let mut all = Vec::with_capacity(statements.len());
        for (statement, values) in statements {
            batch.append_statement(statement.clone());
            all.push(values);
        }
        batch.set_consistency(self.consistency().quorum);
        batch.set_serial_consistency(Some(self.consistency().serial));
        batch.set_request_timeout(Some(self.options.write_timeout));
        (batch, all)
    }
}

/// Groups rows by their partition, and the partitions into batches of at most `partitions_max`. Rows of one partition
/// are in one batch.
fn by_partitions<K: Ord, T>(rows: impl IntoIterator<Item = (K, T)>, partitions_max: usize) -> Vec<Vec<T>> {
    let mut partitions = BTreeMap::<K, Vec<T>>::new();
    for (partition, row) in rows {
        partitions.entry(partition).or_default().push(row);
    }
    let (mut partitions, mut batches) = (partitions.into_values(), Vec::new());
    loop {
        let batch: Vec<T> = partitions.by_ref().take(partitions_max).flatten().collect();
        if batch.is_empty() {
            return batches;
        }
        batches.push(batch);
    }
}

fn table<'a>(statements: &Statements<'a>) -> Option<&'a str> {
    statements.first().and_then(|(statement, _)| statement.get_table_name())
}

fn rows_of<R>(answer: QueryResult) -> Result<Vec<R>>
where
    R: for<'a> DeserializeRow<'a, 'a>,
{
    let rows = answer.into_rows_result().map_err(|error| unreadable(&error))?;
    let rows = rows.rows::<R>().map_err(|error| unreadable(&error))?;
    rows.map(|row| row.map_err(|error| unreadable(&error))).collect()
}

/// Reads `[applied]`, which every server returns as the first column. ScyllaDB returns one row for each statement of a
/// batch, all with the same value.
fn conditional_result(answer: Result<QueryResult, ExecutionError>) -> Result<ConditionalResult> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => match failed(&error) {
            mapped if mapped.reason == Reason::StoreUnavailable => return Ok(ConditionalResult::Unknown(mapped)),
            mapped => return Err(mapped),
        },
    };
    let rows = answer.into_rows_result().map_err(|error| unreadable(&error))?;
    let row = rows.rows::<scylla::value::Row>().map_err(|error| unreadable(&error))?.next();
    let row = row.ok_or_else(|| unreadable(&"a conditional write was answered without a row"))?;
    let row = row.map_err(|error| unreadable(&error))?;
    match row.columns.first() {
        Some(Some(scylla::value::CqlValue::Boolean(true))) => Ok(ConditionalResult::Applied),
        Some(Some(scylla::value::CqlValue::Boolean(false))) => Ok(ConditionalResult::Refused),
        _ => Err(unreadable(&"a conditional write was answered without [applied]")),
    }
}

#[cfg(test)]
mod tests;
