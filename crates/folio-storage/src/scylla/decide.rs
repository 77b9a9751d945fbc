//! The deciding write, in the steps of the protocol.
//!
//! | step | where | why it may be repeated |
//! |---|---|---|
//! | read the target and the op row; judge | the target's partition | reads |
//! | the request's row | its own partition, `IF NOT EXISTS` | the same row again is no change |
//! | the name | its own partition, `IF NOT EXISTS`, or `IF` the dead one that was read | the same reservation again is no change |
//! | references | the used one's partition, with its count | the same entry again is no change |
//! | what hangs on a document | the document's partition, `IF` it lives | the same row again is no change |
//! | new rows of the catalogue | its partitions, plain | derived |
//! | **the change with its op row** | the target's partition, `IF version`, op row `IF NOT EXISTS` | the op row |
//! | old rows of the catalogue, old name, old references | as above | only what is dead is removed |
//!
//! A refused or unknown deciding write is looked at with SERIAL reads and judged anew; so is, before it is answered,
//! everything but a write that may be sent. What a write that is lost leaves behind is dead, or open until its op is
//! closed: see [`super::names`], [`super::references`] and [`super::asked`].

use std::collections::BTreeSet;

use folio_types::op::{Decided, Expected, OpResult, OpRow, OpState, Target, Write};
use folio_types::{Error, Reason, Result, SchemaRevId};

use super::aggregate::{Aggregate, Loaded, gone, load};
use super::catalogue::{self, Listed};
use super::keyspace::Keyspace;
use super::session::{Sent, Statements, Strength};
use super::table::Part;
use super::values::micros;
use super::{asked, hanging, names, ops, references, retry, schemas};
use crate::naming::folded;
use crate::planted::Bug;
use crate::value::{Record, Stored, encode};

/// What a change comes to.
pub(crate) struct Plan<T> {
    /// The aggregate from now on; none: its tombstone.
    pub(crate) after: Option<T>,
    /// The result of the op.
    pub(crate) result: OpResult,
}

/// Attempts whose outcome nobody told, after which the caller is told that it is unknown.
const UNKNOWN: u32 = 3;

/// What an attempt came to.
enum Step {
    Written(OpRow),
    Moved,
    Again(Option<Error>),
}

/// Runs one deciding write. `plan` says what becomes of the live aggregate, or of nothing.
pub(crate) async fn decide<T, C>(
    keyspace: &Keyspace,
    target: &Target,
    write: &Write<C>,
    plan: impl Fn(Option<T>) -> Result<Plan<T>> + Send + Sync,
) -> Result<Decided>
where
    T: Aggregate,
    C: Send + Sync,
    Record<T>: Stored,
{
    let mut attempt = Attempt { keyspace, target, write, placed: None };
    let decided = attempt.run(&plan).await;
    if let Some(placed) = &attempt.placed {
        // Another write took the place of this one, or nobody knows: its rows may lead nowhere.
        let mended = catalogue::mend::<T>(keyspace, &write.org, placed).await;
        if let Err(error) = mended {
            tracing::warn!(%error, %target, "rows of a list are left to be mended");
        }
    }
    decided
}

struct Attempt<'a, C> {
    keyspace: &'a Keyspace,
    target: &'a Target,
    write: &'a Write<C>,
    /// What was entered in the catalogue for a write that did not happen so far.
    placed: Option<Listed>,
}

impl<C: Send + Sync> Attempt<'_, C> {
    async fn run<T>(&mut self, plan: &(impl Fn(Option<T>) -> Result<Plan<T>> + Send + Sync)) -> Result<Decided>
    where
        T: Aggregate,
        Record<T>: Stored,
    {
        let (mut strength, mut unknown, mut attempts) = (Strength::Quorum, 0, 0);
        loop {
            let step = self.step(plan, strength).await;
            match (step, strength) {
                (Ok(Step::Written(row)), _) => return Ok(Decided::Row(row)),
                (Ok(Step::Moved), Strength::Serial) => return Ok(Decided::Moved),
                (Err(error), Strength::Serial) => return Err(error),
                (Err(error), _) if error.reason == Reason::StoreUnavailable => return Err(error),
                (Ok(Step::Moved) | Err(_), Strength::Quorum) => {}
                (Ok(Step::Again(error)), _) => {
                    attempts += 1;
                    if let Some(error) = error {
                        unknown += 1;
                        if unknown >= UNKNOWN {
                            return Err(error);
                        }
                    }
                    if attempts >= retry::ATTEMPTS {
                        return Err(retry::contended("the target"));
                    }
                    retry::pause(attempts, self.keyspace.random()).await;
                }
            }
            strength = Strength::Serial;
        }
    }

    async fn step<T>(
        &mut self,
        plan: &(impl Fn(Option<T>) -> Result<Plan<T>> + Send + Sync),
        strength: Strength,
    ) -> Result<Step>
    where
        T: Aggregate,
        Record<T>: Stored,
    {
        let (keyspace, write) = (self.keyspace, self.write);
        let (id, op) = (self.target.to_string(), write.op.to_string());
        // In this order: an op row that is not there now was not there when the version was read.
        let Loaded { header, record } = load::<T>(keyspace, &write.org, &id, strength).await?;
        let row = match keyspace.has(Bug::OpRowNoCondition) {
            true => None,
            false => ops::row(keyspace, &write.org, &id, &op, strength).await?,
        };
        if let Some(row) = row {
            return if row.digest == write.digest || ops::is_closed_by_another(&row) {
                Ok(Step::Written(row))
            } else {
                Err(asked::other_request(&write.op))
            };
        }
        asked::check(keyspace, self.target, write).await?;
        let any = keyspace.has(Bug::ExpectedIgnored) || keyspace.has(Bug::OpRowNoCondition);
        match (write.expected, header.version) {
            (Expected::Absent, None) => {}
            (_, Some(_)) if any => {}
            (Expected::Version(expected), Some(version)) if expected == version => {}
            (Expected::Version(_), None) => return Err(gone(self.target)),
            _ => return Ok(Step::Moved),
        }
        let before = match record {
            Some(Record::Gone { .. }) => return Err(gone(self.target)),
            Some(Record::Live(before)) => Some(before),
            None => None,
        };
        let Plan { after, result } = plan(before.clone())?;
        let change = Change { id, op, before, after, created_at: header.created_at };
        self.check(&change, header.uses).await?;
        self.reserve(&change).await?;
        let row =
            OpRow { op: write.op.clone(), digest: write.digest.clone(), state: OpState::Done(result), at: write.at };
        let revisions = change.revisions(keyspace, write).await?;
        let statements = change.statements(keyspace, write, &row, &revisions)?;
        crate::planted::late("decision");
        match keyspace.commit(statements).await? {
            Sent::Applied => {
                self.placed = None;
                if let Err(error) = self.settle(&change, &revisions).await {
                    tracing::warn!(%error, target = %self.target, "what a write left behind is left to be mended");
                }
                Ok(Step::Written(row))
            }
            Sent::Refused => Ok(Step::Again(None)),
            Sent::Unknown(error) => Ok(Step::Again(Some(error))),
        }
    }

    /// Refuses what can be refused by reading, before anything is reserved.
    async fn check<T>(&self, change: &Change<T>, uses: u64) -> Result<()>
    where
        T: Aggregate,
        Record<T>: Stored,
    {
        let (keyspace, org) = (self.keyspace, &self.write.org);
        if let Some(name) = change.name_to_claim() {
            names::check(keyspace, org, (T::KIND, name), &change.id, &self.write.op).await?;
        }
        for used in change.uses_to_add(keyspace) {
            references::check(keyspace, org, &used).await?;
        }
        if let Some(schema) = change.schema_to_find() {
            let found = schemas::revision(keyspace, org, schema).await?;
            found.ok_or_else(|| Error::not_found("schema revision", schema))?;
        }
        if let Some(document) = change.document_to_hang_on(keyspace) {
            hanging::check(keyspace, org, document).await?;
        }
        if change.after.is_none() && uses > 0 && !keyspace.has(Bug::ReferenceIgnored) {
            references::refuse_if_used(keyspace, org, T::KIND.word(), &change.id, uses).await?;
        }
        Ok(())
    }

    /// Writes what stands before the deciding write.
    async fn reserve<T>(&mut self, change: &Change<T>) -> Result<()>
    where
        T: Aggregate,
        Record<T>: Stored,
    {
        let (keyspace, org, op) = (self.keyspace, &self.write.org, &self.write.op);
        asked::enter(keyspace, self.target, self.write).await?;
        if let Some(name) = change.name_to_claim() {
            names::claim(keyspace, org, (T::KIND, name), &change.id, op).await?;
        }
        for used in change.uses_to_add(keyspace) {
            references::add(keyspace, org, &used, &change.id, &change.op).await?;
        }
        if let Some(document) = change.document_to_hang_on(keyspace) {
            hanging::enter(keyspace, org, document, (Part::Extraction, &change.id)).await?;
        }
        if let Some(after) = change.listed_after(self.write) {
            let before = change.listed_before();
            self.placed = Some(after.clone());
            catalogue::enter(keyspace, org, T::KIND, before.as_ref(), &after).await?;
        }
        Ok(())
    }

    /// Removes what the deciding write made dead.
    async fn settle<T>(&self, change: &Change<T>, revisions: &[(String, Vec<u8>)]) -> Result<()>
    where
        T: Aggregate,
        Record<T>: Stored,
    {
        let (keyspace, org) = (self.keyspace, &self.write.org);
        if let Some(before) = change.listed_before() {
            let version = change.version_after();
            let after = change.listed_after(self.write);
            catalogue::settle(keyspace, org, T::KIND, &before, after.as_ref(), version).await?;
        }
        if let Some(name) = change.name_to_free() {
            names::free(keyspace, org, (T::KIND, name), &change.id).await?;
        }
        for used in change.uses_to_remove(keyspace, revisions)? {
            references::remove_dead(keyspace, org, &used, &change.id).await?;
        }
        Ok(())
    }
}

/// What a write changes, and with it what is written around.
struct Change<T> {
    id: String,
    op: String,
    before: Option<T>,
    after: Option<T>,
    created_at: i64,
}

impl<T> Change<T>
where
    T: Aggregate,
    Record<T>: Stored,
{
    fn version_after(&self) -> u64 {
        match (&self.before, &self.after) {
            (_, Some(after)) => after.version(),
            (Some(before), None) => before.version() + 1,
            (None, None) => 1,
        }
    }

    fn names(&self) -> (Option<&str>, Option<&str>) {
        (self.before.as_ref().and_then(T::name), self.after.as_ref().and_then(T::name))
    }

    fn name_to_claim(&self) -> Option<&str> {
        let (before, after) = self.names();
        after.filter(|after| before.is_none_or(|before| folded(before) != folded(after)))
    }

    fn name_to_free(&self) -> Option<&str> {
        let (before, after) = self.names();
        before.filter(|before| after.is_none_or(|after| folded(before) != folded(after)))
    }

    fn uses_to_add(&self, keyspace: &Keyspace) -> BTreeSet<String> {
        if keyspace.has(Bug::ReferenceUnchecked) {
            return BTreeSet::new();
        }
        let before = self.before.as_ref().map(T::uses).unwrap_or_default();
        let after = self.after.as_ref().map(T::uses).unwrap_or_default();
        after.difference(&before).cloned().collect()
    }

    /// What a kept revision refers to stays used.
    fn uses_to_remove(&self, keyspace: &Keyspace, revisions: &[(String, Vec<u8>)]) -> Result<BTreeSet<String>> {
        let Some(before) = &self.before else { return Ok(BTreeSet::new()) };
        let mut used = before.uses();
        match &self.after {
            Some(_) if T::KEEPS_REVISIONS && !keyspace.has(Bug::OldRevisionForgotten) => return Ok(BTreeSet::new()),
            Some(after) => used.retain(|id| !after.uses().contains(id)),
            None => {
                for (_, stored) in revisions {
                    used.append(&mut T::revision_uses(stored)?);
                }
            }
        }
        Ok(used)
    }

    fn schema_to_find(&self) -> Option<&SchemaRevId> {
        let before = self.before.as_ref().and_then(T::schema);
        self.after.as_ref().and_then(T::schema).filter(|schema| Some(*schema) != before)
    }

    fn document_to_hang_on(&self, keyspace: &Keyspace) -> Option<&folio_types::DocumentId> {
        match (&self.before, &self.after) {
            _ if keyspace.has(Bug::ExtractionOfDeletedDocument) => None,
            (None, Some(after)) => after.document(),
            _ => None,
        }
    }

    fn listed_before(&self) -> Option<Listed> {
        let before = self.before.as_ref()?;
        Some(Listed { row: before.listed(), at: self.created_at, version: before.version() })
    }

    fn listed_after(&self, write: &Write<impl Sized>) -> Option<Listed> {
        let after = self.after.as_ref()?;
        let at = if self.before.is_some() { self.created_at } else { micros(write.at) };
        Some(Listed { row: after.listed(), at, version: after.version() })
    }

    /// The stored revisions that go with the aggregate.
    async fn revisions(&self, keyspace: &Keyspace, write: &Write<impl Sized>) -> Result<Vec<(String, Vec<u8>)>> {
        if self.after.is_some() || !T::KEEPS_REVISIONS {
            return Ok(Vec::new());
        }
        let aggregates = &keyspace.tables.aggregates;
        aggregates.rows(&keyspace.cql, &write.org, &self.id, (Part::Revision, ""), usize::MAX).await
    }

    /// The deciding write: one batch in one partition.
    fn statements<'a>(
        &self,
        keyspace: &'a Keyspace,
        write: &Write<impl Sized>,
        row: &OpRow,
        revisions: &[(String, Vec<u8>)],
    ) -> Result<Statements<'a>> {
        let (aggregates, org, id) = (&keyspace.tables.aggregates, &write.org, self.id.as_str());
        let mut statements = Vec::new();
        match (&self.before, &self.after) {
            (None, Some(after)) => {
                let record = encode(&Record::Live(after.clone()))?;
                statements.push(aggregates.create(org, id, record, micros(write.at)));
            }
            (Some(before), Some(after)) => {
                let record = encode(&Record::Live(after.clone()))?;
                let versions = (before.version(), after.version());
                statements.push(aggregates.change(org, id, versions, (true, record), false));
            }
            (Some(before), None) => {
                let version = if keyspace.has(Bug::TombstoneVersionReset) { 1 } else { before.version() + 1 };
                let record = encode(&Record::<T>::Gone { version, at: write.at })?;
                let unused = matches!(T::KIND, crate::naming::Kind::Tag | crate::naming::Kind::Schema)
                    && !keyspace.has(Bug::ReferenceIgnored);
                statements.push(aggregates.change(org, id, (before.version(), version), (false, record), unused));
            }
            (None, None) => return Err(Error::internal("a change of nothing")),
        }
        if keyspace.has(Bug::OpRowNoCondition) {
            statements.push(aggregates.insert(org, id, (Part::Op, &self.op), encode(row)?));
        } else if !keyspace.has(Bug::OpRowMissing) {
            statements.push(aggregates.insert_once(org, id, (Part::Op, &self.op), encode(row)?));
        }
        let number = |of: &Option<T>| of.as_ref().map(T::revision).transpose().map(Option::flatten);
        if let Some((after, stored)) = number(&self.after)?
            && number(&self.before)?.is_none_or(|(before, _)| before < after)
        {
            statements.push(aggregates.insert(org, id, (Part::Revision, &revision_key(after)), stored));
        }
        for (key, _) in revisions {
            statements.push(aggregates.remove(org, id, (Part::Revision, key)));
        }
        Ok(statements)
    }
}

/// The key of a revision's row.
pub(crate) fn revision_key(number: u32) -> String {
    format!("{number:010}")
}
