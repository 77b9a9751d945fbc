//! The resources of one organization in memory: the pure rules of `folio-resources`, applied to a map of records. The
//! suites compare every store with it.

use std::collections::BTreeMap;

use folio_resources::{
    Cleanup, Condition, DecidingWrite, IndexedFields, Kind, NewName, Record, Resource, ResourceWrite, RevisionNames,
    RowWrite, StoredRevision, StoredState, WriteDecision, WritePlan, decide, decode_value, folded,
};
use folio_types::op::{IdempotencyRecord, OpKey, OpRow, Target, WriteOutcome};
use folio_types::page::Order;
use folio_types::{Error, Reason, Result, Timestamp};

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) records: BTreeMap<String, Vec<u8>>,
    pub(crate) revisions: BTreeMap<(String, u32), Vec<u8>>,
    /// Names by the revision. In memory, a name counts as long as the revision.
    names: BTreeMap<(String, u32), RevisionNames>,
    pub(crate) ops: BTreeMap<(Target, OpKey), OpRow>,
    pub(crate) requests: BTreeMap<OpKey, IdempotencyRecord>,
}

impl Memory {
    /// Evaluates a write and executes its plan.
    pub(crate) fn decide(&mut self, write: &ResourceWrite) -> Result<WriteOutcome> {
        let target = write.target();
        let is_taken = |found: &IdempotencyRecord| found.target != target || found.digest != write.digest;
        let state = StoredState {
            record: self.records.get(&write.id).cloned(),
            is_request_id_used: self.requests.get(&write.op).is_some_and(is_taken),
            op_row: self.ops.get(&(target, write.op.clone())).cloned(),
            revisions: match write.reads_revisions(self.record(&write.id)?.as_ref()) {
                true => self.stored_revisions(&write.id),
                false => Vec::new(),
            },
        };
        match decide(write, &state)? {
            WriteDecision::Recorded(row) => Ok(WriteOutcome::Row(*row)),
            WriteDecision::VersionMismatch => Ok(WriteOutcome::VersionMismatch),
            WriteDecision::Write(plan) => {
                self.check(&plan)?;
                self.execute(*plan).map(WriteOutcome::Row)
            }
        }
    }

    /// Closes an op.
    pub(crate) fn close(&mut self, target: Target, row: OpRow) -> OpRow {
        self.ops.entry((target, row.op.clone())).or_insert(row).clone()
    }

    /// Removes the content from the op rows of a target.
    pub(crate) fn remove_content(&mut self, target: &Target) {
        for (_, row) in self.ops.iter_mut().filter(|((of, _), _)| of == target) {
            row.remove_content();
        }
    }

    /// Returns the indexed fields of a live resource.
    pub(crate) fn fields(&self, id: &str) -> Result<Option<IndexedFields>> {
        Ok(self.record(id)?.and_then(Record::live))
    }

    /// Returns the version of a resource, also of a deleted one; 0 if it never existed.
    pub(crate) fn version(&self, id: &str) -> Result<u64> {
        Ok(self.record(id)?.map_or(0, |record| match record {
            Record::Live(fields) => fields.version,
            Record::Tombstone { version, .. } => version,
        }))
    }

    pub(crate) fn is_live(&self, id: &str) -> Result<bool> {
        Ok(matches!(self.record(id)?, Some(Record::Live(_))))
    }

    /// Returns a live resource.
    pub(crate) fn get<R: Resource>(&self, id: &str) -> Result<Option<R>> {
        let bytes = self.records.get(id).filter(|_| Kind::of_id(id).is_ok_and(|kind| kind == Kind::get::<R>()));
        let record = bytes.map(|bytes| decode_value(R::KIND, R::FORMAT, bytes, R::read_format)).transpose()?;
        Ok(record.and_then(Record::live))
    }

    /// Returns the indexed fields of all live resources, by id.
    pub(crate) fn live(&self) -> Result<BTreeMap<&str, IndexedFields>> {
        let mut live = BTreeMap::new();
        for id in self.records.keys() {
            live.extend(self.fields(id)?.map(|fields| (id.as_str(), fields)));
        }
        Ok(live)
    }

    /// Returns the id of the live resource of a kind whose unique name equals `name`, ignoring case.
    pub(crate) fn named(&self, kind: &Kind, name: &str) -> Result<Option<String>> {
        let is_name = |fields: &IndexedFields| fields.unique_name.as_deref().map(folded) == Some(folded(name));
        let live = self.live()?.into_iter().filter(|(id, _)| Kind::of_id(id).is_ok_and(|of| of == kind));
        Ok(live.into_iter().find(|(_, fields)| is_name(fields)).map(|(id, _)| id.to_owned()))
    }

    /// Returns the resources that a filter matches, in this order.
    pub(crate) fn list<R: Resource>(&self, filter: &R::Filter, order: Order) -> Result<Vec<R>> {
        let parent = R::parent_in(filter);
        let live = self.live()?;
        if parent.as_ref().is_some_and(|parent| !live.contains_key(parent.as_str())) {
            return Ok(Vec::new());
        }
        let resolve = |condition| match condition {
            Condition::SharedTerm { with, field } => {
                let terms = live.get(with.as_str()).map(|fields| fields.row.terms.clone());
                Condition::shared(field, &terms.unwrap_or_default())
            }
            Condition::RefersTo(referenced) => {
                let found = live.iter().filter(|(_, fields)| fields.references.contains(&referenced));
                Condition::AnyId(found.map(|(id, _)| (*id).to_owned()).collect())
            }
            other => other,
        };
        let conditions: Vec<_> = R::conditions(filter).into_iter().map(resolve).collect();
        let by_name = matches!(order, Order::Name | Order::NameDescending);
        let mut found = BTreeMap::new();
        for (id, fields) in &live {
            if (parent.is_none() || fields.row.parent == parent)
                && fields.row.matches(&conditions)
                && let Some(resource) = self.get::<R>(id)?
            {
                let name = if by_name { folded(&fields.row.name) } else { String::new() };
                found.insert((name, fields.created_at, (*id).to_owned()), resource);
            }
        }
        let mut found: Vec<R> = found.into_values().collect();
        if matches!(order, Order::Newest | Order::NameDescending) {
            found.reverse();
        }
        Ok(found)
    }

    fn record(&self, id: &str) -> Result<Option<Record<IndexedFields>>> {
        let kind = Kind::of_id(id)?;
        self.records.get(id).map(|bytes| kind.read(bytes)).transpose()
    }

    fn stored_revisions(&self, id: &str) -> Vec<StoredRevision> {
        let rows = self.names.iter().filter(|((of, _), _)| of == id);
        let stored = rows.map(|((_, number), names)| StoredRevision { number: *number, is_named: names.is_named() });
        stored.collect()
    }

    fn revisions_of(&self, id: &str) -> impl Iterator<Item = &Vec<u8>> {
        self.revisions.iter().filter(move |((of, _), _)| of == id).map(|(_, stored)| stored)
    }

    /// Refuses a plan whose preconditions do not hold.
    fn check(&self, plan: &WritePlan) -> Result<()> {
        let live = self.live()?;
        let refused = |reason| Err(Error::precondition(reason, "refused in memory"));
        if let Some(name) = &plan.reserve_name
            && self.named(plan.kind, name)?.is_some_and(|id| id != plan.id)
        {
            return refused(Reason::NameTaken);
        }
        if plan.add_references.iter().chain(&plan.add_to_parent).any(|id| !live.contains_key(id.as_str())) {
            return refused(Reason::NotFound);
        }
        let is_stored = |name: &NewName| {
            live.contains_key(name.of.as_str()) && self.revisions.contains_key(&(name.of.clone(), name.number))
        };
        if !plan.name_revisions.iter().all(is_stored) {
            return refused(Reason::NotFound);
        }
        if let DecidingWrite::Delete { if_unreferenced: true, .. } = &plan.deciding_write {
            for (id, fields) in &live {
                let mut references = fields.references.clone();
                for stored in self.revisions_of(id) {
                    references.append(&mut Kind::of_id(id)?.revision_references(stored)?);
                }
                if references.contains(&plan.id) {
                    return refused(Reason::InUse);
                }
            }
        }
        Ok(())
    }

    fn execute(&mut self, plan: WritePlan) -> Result<OpRow> {
        let record = match plan.deciding_write {
            DecidingWrite::Create { record } | DecidingWrite::Update { record, .. } => record,
            DecidingWrite::Delete { record, .. } => {
                if plan.kind.cleanup == Cleanup::Dependents {
                    self.delete_children(&plan.id, plan.at)?;
                }
                self.revisions.retain(|(of, _), _| *of != plan.id);
                self.names.retain(|(of, _), _| *of != plan.id);
                record
            }
        };
        for NewName { of, number, name } in plan.name_revisions {
            self.names.entry((of, number)).or_default().add(name);
        }
        for row in plan.rows {
            match row {
                // The op row with its data.
                RowWrite::InsertOp(row) => {
                    self.ops.insert((Target::new(plan.kind.name, &plan.id), row.op), plan.answer.clone());
                }
                RowWrite::PutData { .. } => {}
                RowWrite::PutRevision { number, stored, names } => {
                    self.revisions.insert((plan.id.clone(), number), stored);
                    self.names.insert((plan.id.clone(), number), names);
                }
                RowWrite::RemoveRevision(number) => {
                    self.revisions.remove(&(plan.id.clone(), number));
                    self.names.remove(&(plan.id.clone(), number));
                }
            }
        }
        self.requests.extend(plan.request.map(|request| (plan.op, request)));
        self.records.insert(plan.id, record);
        Ok(plan.answer)
    }

    fn delete_children(&mut self, parent: &str, at: Timestamp) -> Result<()> {
        let mut tombstones = Vec::new();
        for (id, fields) in self.live()? {
            if fields.parent.as_deref() == Some(parent) {
                tombstones.push((id.to_owned(), Kind::of_id(id)?.tombstone(fields.version + 1, at)?));
            }
        }
        self.records.extend(tombstones);
        Ok(())
    }
}
