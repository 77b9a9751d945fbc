//! Health checks write a probe row.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Environment, Result};

use super::keyspace::Keyspace;
use super::table::SystemRow;
use folio_storage::value::{Empty, encode};
use folio_storage::{CallCounters, StoreHealth};

const PROBE_TTL: Duration = Duration::from_secs(3_600);

pub(crate) struct Health(pub(crate) Arc<Keyspace>);

#[async_trait]
impl StoreHealth for Health {
    async fn check(&self) -> Result<()> {
        self.0.cql.options().environment.check_clock()?;
        let until = self.0.now() + PROBE_TTL;
        let row = SystemRow { at: 0, key: "probe".to_owned(), value: encode(&Empty)? };
        self.0.tables.system_rows.put_until("probe", row, until).await
    }

    async fn clock_offsets(&self, environment: &dyn Environment) -> Vec<i64> {
        self.0.cql.clock_offsets(environment).await
    }

    fn call_counters(&self) -> Option<CallCounters> {
        Some(self.0.cql.call_counters())
    }
}
