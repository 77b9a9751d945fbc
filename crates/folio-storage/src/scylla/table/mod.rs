//! One file for each table: its prepared statements, and nothing else knows their text.

mod access;
mod aggregates;
mod asked;
mod catalogue;
mod names;
mod system_rows;
mod text_pages;
mod threads;
mod usage;

use folio_types::Result;

pub(crate) use access::Access;
pub(crate) use aggregates::{Aggregates, Header, Part};
pub(crate) use asked::Asked;
pub(crate) use catalogue::{Catalogue, Position, SHARDS};
pub(crate) use names::{NameRow, Names};
pub(crate) use system_rows::{SystemRow, SystemRows};
pub(crate) use text_pages::TextPages;
pub(crate) use threads::{ThreadPart, ThreadRow, Threads};
pub(crate) use usage::Usages;

use super::session::Cql;

/// The statements of every table.
pub(crate) struct Tables {
    pub(crate) access: Access,
    pub(crate) aggregates: Aggregates,
    pub(crate) asked: Asked,
    pub(crate) catalogue: Catalogue,
    pub(crate) names: Names,
    pub(crate) system_rows: SystemRows,
    pub(crate) text_pages: TextPages,
    pub(crate) threads: Threads,
    pub(crate) usage: Usages,
}

impl Tables {
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        Ok(Self {
            access: Access::prepare(cql).await?,
            aggregates: Aggregates::prepare(cql).await?,
            asked: Asked::prepare(cql).await?,
            catalogue: Catalogue::prepare(cql).await?,
            names: Names::prepare(cql).await?,
            system_rows: SystemRows::prepare(cql).await?,
            text_pages: TextPages::prepare(cql).await?,
            threads: Threads::prepare(cql).await?,
            usage: Usages::prepare(cql).await?,
        })
    }
}
