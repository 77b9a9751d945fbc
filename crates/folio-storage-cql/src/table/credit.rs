//! `credit_accounts`: one partition for each organization, with the account and its version in static columns and one
//! row for each change. `credit_blocks`: one partition for each block, with a static column that seals it and one row
//! for each entry of its ledger. A row that has not ended also contains its permit.

use folio_types::{BlockId, OrgId, Result};

use crate::session::{ConditionalResult, Read, Statement};
use crate::values::{limit, values};

/// The permit of a row that has ended. No caller has this permit.
pub(crate) const ENDED: &str = "";

table! { Credit:
    // Reads from the end of the partition, where the entries of grants are. Expired entries of blocks sort before them and
    // leave tombstones.
    account: read "SELECT account FROM credit_accounts WHERE org = ? ORDER BY key DESC LIMIT 1",
    entry: read "SELECT value FROM credit_accounts WHERE org = ? AND key = ?",
    entries: read "SELECT value FROM credit_accounts WHERE org = ? AND key >= ? AND key < ? LIMIT ?",
    begin: conditional "UPDATE credit_accounts SET version = ?, account = ? WHERE org = ? IF version = null",
    change: conditional "UPDATE credit_accounts SET version = ?, account = ? WHERE org = ? IF version = ?",
    enter: conditional "INSERT INTO credit_accounts (org, key, value) VALUES (?, ?, ?) IF NOT EXISTS USING TTL ?",
    sealed: read "SELECT sealed FROM credit_blocks WHERE org = ? AND block = ? LIMIT 1",
    row: read "SELECT value FROM credit_blocks WHERE org = ? AND block = ? AND key = ?",
    rows: read "SELECT sealed, value FROM credit_blocks WHERE org = ? AND block = ?",
    unsealed: conditional "UPDATE credit_blocks SET used = true WHERE org = ? AND block = ? IF sealed = null",
    reserve: conditional "INSERT INTO credit_blocks (org, block, key, permit, value) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS",
    settle: conditional "UPDATE credit_blocks SET permit = '', value = ? \
                         WHERE org = ? AND block = ? AND key = ? IF permit = ?",
    seal: conditional "UPDATE credit_blocks SET sealed = true WHERE org = ? AND block = ? IF sealed = null",
}

impl Credit {
    pub(crate) async fn account(&self, org: &OrgId) -> Result<Option<Vec<u8>>> {
        let row: Option<(Option<Vec<u8>>,)> = self.cql.row(&self.account, Read::Serial, values![org.as_str()]).await?;
        Ok(row.and_then(|(account,)| account))
    }

    pub(crate) async fn entry(&self, org: &OrgId, key: &str) -> Result<Option<Vec<u8>>> {
        let row: Option<(Option<Vec<u8>>,)> =
            self.cql.row(&self.entry, Read::Serial, values![org.as_str(), key]).await?;
        Ok(row.and_then(|(value,)| value))
    }

    /// Returns at most `rows` entries with keys from `from` on and before `before`.
    pub(crate) async fn entries(&self, org: &OrgId, (from, before): (&str, &str), rows: usize) -> Result<Vec<Vec<u8>>> {
        let values = values![org.as_str(), from, before, limit(rows)];
        let rows: Vec<(Option<Vec<u8>>,)> = self.cql.rows(&self.entries, Read::Quorum, values).await?;
        Ok(rows.into_iter().filter_map(|(value,)| value).collect())
    }

    /// Replaces the account if its version is `expected` (0: the account does not exist).
    pub(crate) fn change(&self, org: &OrgId, expected: u64, version: u64, account: Vec<u8>) -> Statement<'_> {
        match expected {
            0 => (&self.begin, values![version, account, org.as_str()]),
            _ => (&self.change, values![version, account, org.as_str(), expected]),
        }
    }

    /// Inserts the entry of the change if no entry with its key exists. `ttl_seconds`: 0 for an entry that never
    /// expires.
    pub(crate) fn enter(&self, org: &OrgId, key: &str, value: Vec<u8>, ttl_seconds: i32) -> Statement<'_> {
        (&self.enter, values![org.as_str(), key, value, ttl_seconds])
    }

    pub(crate) async fn is_sealed(&self, org: &OrgId, block: &BlockId) -> Result<bool> {
        let values = values![org.as_str(), block.as_str()];
        let row: Option<(Option<bool>,)> = self.cql.row(&self.sealed, Read::Serial, values).await?;
        Ok(row.and_then(|(sealed,)| sealed).unwrap_or_default())
    }

    pub(crate) async fn row(&self, org: &OrgId, block: &BlockId, key: &str) -> Result<Option<Vec<u8>>> {
        let values = values![org.as_str(), block.as_str(), key];
        let row: Option<(Option<Vec<u8>>,)> = self.cql.row(&self.row, Read::Serial, values).await?;
        Ok(row.and_then(|(value,)| value))
    }

    pub(crate) async fn rows(&self, org: &OrgId, block: &BlockId) -> Result<(bool, Vec<Vec<u8>>)> {
        let values = values![org.as_str(), block.as_str()];
        let rows: Vec<(Option<bool>, Option<Vec<u8>>)> = self.cql.rows(&self.rows, Read::Serial, values).await?;
        let sealed = rows.iter().any(|(sealed, _)| sealed.unwrap_or_default());
        Ok((sealed, rows.into_iter().filter_map(|(_, value)| value).collect()))
    }

    /// A condition of a batch: the block is not sealed.
    pub(crate) fn unsealed(&self, org: &OrgId, block: &BlockId) -> Statement<'_> {
        (&self.unsealed, values![org.as_str(), block.as_str()])
    }

    /// Inserts the row only if no row with this key exists.
    pub(crate) fn reserve(
        &self,
        org: &OrgId,
        block: &BlockId,
        key: &str,
        (permit, value): (&str, Vec<u8>),
    ) -> Statement<'_> {
        (&self.reserve, values![org.as_str(), block.as_str(), key, permit, value])
    }

    /// Ends a row that this permit reserved and that has not ended.
    pub(crate) async fn settle(
        &self,
        (org, block): (&OrgId, &BlockId),
        key: &str,
        (permit, value): (&str, Vec<u8>),
    ) -> Result<ConditionalResult> {
        let values = values![value, org.as_str(), block.as_str(), key, permit];
        self.cql.conditional(&self.settle, values).await
    }

    pub(crate) async fn seal(&self, org: &OrgId, block: &BlockId) -> Result<ConditionalResult> {
        self.cql.conditional(&self.seal, values![org.as_str(), block.as_str()]).await
    }
}
