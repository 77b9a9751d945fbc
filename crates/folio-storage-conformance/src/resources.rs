//! Conformance suite of [`folio_storage::ResourceExecutor`] and [`folio_storage::ResourceStore`], for every kind: each
//! write is executed on the store and in memory, and all answers and reads are compared.

use std::collections::BTreeSet;

use folio_resources::{Extraction, KINDS, Kind, Prompt, Record, Resource as _, ResourceWrite, folded};
use folio_storage::ResourceUsage;
use folio_types::op::{ClosedAs, Expected, OpKey, OpResult, OpRow, Target, Write, WriteOutcome};
use folio_types::page::{Order, PageRequest};
use folio_types::{CallId, Digest, Reason, TurnId};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};

use super::context::{Context, done, row};
use super::memory::Memory;
use super::sample::{SAMPLES, Sample, Sampled, Seed, Step};
use super::{Failure, Outcome, check, deletions, extraction_lists, paging, refused, revisions, same};

/// Kinds that are tested at once, because most of their time is spent on waiting for the store.
const CONCURRENT_KINDS: usize = 4;

/// The answer of a store to a write.
type Answer = folio_types::Result<WriteOutcome>;

/// A store and the memory that it is compared with.
pub(crate) struct Run {
    pub(crate) context: Context,
    pub(crate) memory: Memory,
    /// The writes that were executed.
    done: Vec<(ResourceWrite, OpRow)>,
}

/// Runs the suites of all kinds, or that of one kind if the name of the suite is `resources/KIND`.
pub(crate) async fn suite(context: &Context) -> Outcome {
    let kinds: BTreeSet<_> = KINDS.iter().map(|kind| kind.name).collect();
    same!(SAMPLES.iter().map(|sampled| sampled.kind.name).collect::<BTreeSet<_>>(), kinds, "the kinds with samples");
    let covered = SAMPLES.iter().filter(|sampled| context.covers(sampled.kind.name));
    let runs: Vec<_> = covered.map(|sampled| check_kind(context.of_kind(sampled.kind.name), sampled)).collect();
    stream::iter(runs).buffer_unordered(CONCURRENT_KINDS).try_collect::<()>().await?;
    if context.covers(Extraction::KIND) {
        let lists = context.of_kind("extraction_lists");
        extraction_lists::over_documents(&lists).await?;
    }
    if context.covers(Prompt::KIND) {
        deletions::suite(&context.of_kind("deletions").since(deletions::SECONDS)).await?;
    }
    revisions::by_page(context).await?;
    revisions::references(context).await
}

/// The future is boxed, because the compiler cannot prove that a stream of closures is `Send`.
fn check_kind(context: Context, sampled: &'static Sampled) -> BoxFuture<'static, Outcome> {
    async move {
        let outcome = Run::new(context).kind(sampled).await;
        outcome.map_err(|Failure(what)| Failure(format!("{}: {what}", sampled.kind.name)))
    }
    .boxed()
}

/// Compares the resource that the store returns with the one in memory.
pub(crate) async fn read<R: Sample>(run: &Run, id: &str) -> Outcome {
    let (store, typed): (_, R::Id) = (run.context.stores.of::<R>(), id.parse()?);
    let found = store.get(&run.context.org, &typed).await?;
    // As text, which shows the order of members.
    same!(format!("{found:?}"), format!("{:?}", run.memory.get::<R>(id)?), "{id}");
    same!(store.get(&run.context.other(), &typed).await?, None, "{id} in another organization");
    Ok(())
}

/// Compares a page of each list with a filter of a seed.
pub(crate) async fn list<R: Sample>(run: &Run, seed: &Seed) -> Outcome {
    for filter in R::filters(seed) {
        let request = PageRequest { size: 1000, order: Order::Name, ..PageRequest::default() };
        let page = run.context.stores.of::<R>().list(&run.context.org, &filter, &request).await?;
        same!(page.total, page.items.len() as u64, "the total of a list with {filter:?}");
        same!(page.items, run.memory.list::<R>(&filter, Order::Name)?, "a list with {filter:?}");
    }
    Ok(())
}

/// Compares the lists with the filters of these seeds, page by page.
pub(crate) async fn lists<R: Sample>(run: &Run, seeds: &[Seed]) -> Outcome {
    let (store, org) = (&run.context.stores.of::<R>(), &run.context.org);
    let first = PageRequest { size: 1, ..PageRequest::default() };
    let (mut token, mut matched) = (None, BTreeSet::new());
    for seed in seeds {
        let filters = R::filters(seed);
        let all = filters.first().map(|filter| run.memory.list::<R>(filter, Order::Newest)).transpose()?;
        for (number, filter) in filters.iter().enumerate() {
            let expected = |order| run.memory.list::<R>(filter, order);
            let list = |page: PageRequest| async move { store.list(org, filter, &page).await };
            paging::walk(expected, list).await?;
            let newest = expected(Order::Newest)?;
            matched.extend((Some(newest.len()) < all.as_ref().map(Vec::len)).then_some((number, "not all")));
            matched.extend((!newest.is_empty()).then_some((number, "some")));
            same!(store.has_match(org, filter).await?, !newest.is_empty(), "whether a resource matches {filter:?}");
            same!(store.first(org, filter).await?, newest.into_iter().next(), "the newest with {filter:?}");
            if token.is_some() {
                let page = store.list(org, filter, &PageRequest { token, ..first.clone() }).await;
                refused!(page, InvalidPageToken, "the token of another filter than {filter:?}");
            }
            token = store.list(org, filter, &first).await?.next;
            same!(store.list(&run.context.other(), filter, &first).await?.total, 0, "a list of another organization");
        }
    }
    if let [_, another, ..] = seeds {
        let count = 2 * R::filters(another).len() - 1;
        same!(matched.len(), count, "some and not all resources match each filter: {matched:?}");
    }
    let ids: Vec<_> = run.memory.records.keys().rev().filter_map(|id| id.parse::<R::Id>().ok()).collect();
    let live = ids.iter().filter_map(|id| run.memory.get::<R>(&id.to_string()).transpose());
    let live = live.collect::<folio_types::Result<Vec<_>>>()?;
    same!(store.get_many(org, &ids).await?, live, "the live resources in the requested order");
    Ok(())
}

impl Run {
    pub(crate) fn new(context: Context) -> Self {
        Self { context, memory: Memory::default(), done: Vec::new() }
    }

    /// Executes a write on the store and in memory.
    pub(crate) async fn decide(&mut self, write: ResourceWrite, what: &str) -> Result<Answer, Failure> {
        let expected = self.memory.decide(&write).map_err(|error| error.reason);
        let answer = self.context.stores.resources.decide(write.clone()).await;
        same!(answer.clone().map_err(|error| error.reason), expected, "the answer to {what}");
        if let Ok(WriteOutcome::Row(row)) = &answer {
            self.done.push((write, row.clone()));
        }
        Ok(answer)
    }

    /// Compares all resources with their revisions.
    pub(crate) async fn compare_resources(&self) -> Outcome {
        for id in self.memory.records.keys() {
            let sampled = of_id(id)?;
            (sampled.read)(self, id).await?;
            let (resources, ids) = (&self.context.stores.resources, std::slice::from_ref(id));
            let versions = resources.versions(&self.context.org, sampled.kind, ids).await?;
            match self.memory.fields(id)? {
                Some(fields) => same!(versions, vec![Some(fields.version)], "the version of {id}"),
                // The clean-up deletes the children of a deleted parent.
                None if sampled.kind.has_parent => {}
                None => same!(versions, vec![None], "the version of the deleted {id}"),
            }
            let versions = resources.versions(&self.context.other(), sampled.kind, ids).await?;
            same!(versions, vec![None], "the version of {id} in another organization");
            // The revisions of a deleted resource are stored until its clean-up.
            if let Some(newest) = self.memory.fields(id)?.and_then(|fields| fields.revision) {
                let numbers: Vec<u32> = (0..=newest + 1).collect();
                let found = self.context.stores.resources.revisions(&self.context.org, id, &numbers).await?;
                let stored = |number: &u32| self.memory.revisions.get(&(id.clone(), *number)).cloned();
                same!(found, numbers.iter().map(stored).collect::<Vec<_>>(), "the revisions of {id}");
                let listed = self.context.stores.resources.revision_numbers(&self.context.org, id).await?;
                same!(listed, (1..=newest).collect::<Vec<_>>(), "the numbers of the revisions of {id}");
                let gap = numbers.iter().zip(&found).find(|(n, found)| found.is_some() != (1..=newest).contains(*n));
                check!(gap.is_none(), "the revisions of {id} have a gap: {gap:?}");
            }
        }
        Ok(())
    }

    /// Compares all op rows and idempotency records.
    pub(crate) async fn compare_ops(&self) -> Outcome {
        let (ops, org, other) = (&self.context.stores.ops, &self.context.org, self.context.other());
        for ((target, op), expected) in &self.memory.ops {
            same!(ops.row(org, target, op).await?, Some(expected.clone()), "the row of {op} with {target}");
            same!(ops.row(&other, target, op).await?, None, "the row of {op} in another organization");
        }
        for (op, expected) in &self.memory.requests {
            same!(ops.request(org, op).await?, Some(expected.clone()), "the record of {op}");
        }
        Ok(())
    }

    /// Compares and returns the resource that has a unique name.
    pub(crate) async fn named(&self, kind: &'static Kind, name: &str) -> Result<Option<String>, Failure> {
        let (resources, org) = (&self.context.stores.resources, &self.context.org);
        let mut found = resources.id_by_name(org, kind, name).await?;
        if let Some(id) = &found {
            let stored = resources.get(org, kind, std::slice::from_ref(id)).await?.pop().flatten();
            let record = stored.map(|stored| kind.read(&stored.record)).transpose()?;
            let unique_name = record.and_then(Record::live).and_then(|fields| fields.unique_name);
            found = found.filter(|_| unique_name.as_deref().map(folded) == Some(folded(name)));
        }
        same!(found, self.memory.named(kind, name)?, "the {kind:?} named {name:?}");
        Ok(found)
    }

    async fn kind(&mut self, sampled: &'static Sampled) -> Outcome {
        self.lifecycle(sampled).await?;
        if !sampled.is_single() {
            self.names(sampled).await?;
            self.references(sampled).await?;
            self.lists(sampled).await?;
            self.concurrent(sampled).await?;
            self.cleanup(sampled).await?;
        }
        self.compare_resources().await?;
        self.compare_ops().await
    }

    /// Executes writes with and without the expected version, and repeats each of them.
    async fn lifecycle(&mut self, sampled: &Sampled) -> Outcome {
        let (id, links) = (self.id(sampled), self.links(sampled, false).await?);
        let seed = |name: &str| Seed::named(name).linked(&links);
        let update = Step::Update(seed("Life").with(2));
        refused!(
            self.step(&id, Expected::Version(1), update.clone()).await?,
            NotFound,
            "an update of a missing resource"
        );
        done(self.create(&id, seed("Life")).await??)?;
        for expected in [Expected::Absent, Expected::Version(0), Expected::Version(2)] {
            same!(
                self.step(&id, expected, update.clone()).await??,
                WriteOutcome::VersionMismatch,
                "an update expecting {expected:?}"
            );
        }
        for name in ["Life", "Life", "Renamed"] {
            match self.update(&id, seed(name).with(2)).await? {
                refused if sampled.is_immutable => refused!(refused, NotFound, "an update of an immutable resource"),
                updated => drop(done(updated?)?),
            }
        }
        let version = self.memory.version(&id)?;
        if sampled.is_single() {
            refused!(self.delete(&id).await?, InUse, "the deletion of a single resource");
        } else {
            same!(done(self.delete(&id).await??)?, OpResult::Deleted, "the result of a deletion");
            for expected in [Expected::Absent, Expected::Version(1), Expected::Version(version)] {
                let late = self.step(&id, expected, update.clone()).await?;
                same!(late?, WriteOutcome::VersionMismatch, "an update of a deleted resource");
            }
            refused!(
                self.step(&id, Expected::Version(version + 1), update).await?,
                NotFound,
                "an update of a tombstone"
            );
        }
        for (mut write, first) in self.done.clone().into_iter().filter(|(write, _)| write.id == id) {
            for expected in [write.expected, Expected::Absent, Expected::Version(1)] {
                write.expected = expected;
                let again = self.decide(write.clone(), "a repeated write").await?;
                same!(row(again?)?, first, "the row of a repeated write");
            }
            write.digest = Digest::of(b"other");
            refused!(self.decide(write, "another write").await?, RequestIdConflict, "the op of another write");
        }
        (sampled.read)(self, &id).await
    }

    /// Unique names, without regard to case.
    async fn names(&mut self, sampled: &Sampled) -> Outcome {
        let (kind, links) = (sampled.kind, self.links(sampled, false).await?);
        let seed = |name: &str| Seed::named(name).linked(&links);
        let one = self.created(sampled, seed("Straße")).await?;
        if !self.is_named(&one)? {
            return Ok(());
        }
        let (other, third) = (self.created(sampled, seed("Second")).await?, self.id(sampled));
        self.created(sampled, seed("STRASSE")).await?;
        refused!(self.create(&third, seed("straße")).await?, NameTaken, "a creation with a name that differs in case");
        refused!(self.update(&other, seed("sTRAßE")).await?, NameTaken, "a renaming to a name that differs in case");
        same!(self.named(kind, "SECOND").await?, Some(other.clone()), "a name in another case");
        done(self.update(&other, seed("SECOND")).await??)?;
        done(self.update(&one, seed("First")).await??)?;
        same!(self.named(kind, "straße").await?, None, "a name that was freed");
        done(self.create(&third, seed("straße")).await??)?;
        done(self.delete(&third).await??)?;
        same!(self.named(kind, "straße").await?, None, "the name of a deleted resource");
        let again = self.created(sampled, seed("STRAßE")).await?;
        same!(self.named(kind, "straße").await?, Some(again), "the name of a deleted resource, taken again");
        Ok(())
    }

    /// References, required revisions and parents.
    async fn references(&mut self, sampled: &Sampled) -> Outcome {
        let links = self.links(sampled, false).await?;
        let seed = |links: &[String]| Seed::named("refers").linked(links);
        let id = self.created(sampled, seed(&links)).await?;
        let Some(fields) = self.memory.fields(&id)? else {
            return Err(Failure("the resource is missing in memory".to_owned()));
        };
        for needed in fields.references.iter().chain(&fields.parent) {
            let deleted = self.target(of_id(needed)?).await?;
            done(self.delete(&deleted).await??)?;
            for dead in [deleted, self.id(of_id(needed)?)] {
                let swapped = |id: &String| if id == needed { dead.clone() } else { id.clone() };
                let links: Vec<_> = links.iter().map(swapped).collect();
                let new = Seed { name: "new".to_owned(), ..seed(&links) };
                refused!(self.create(&self.id(sampled), new).await?, NotFound, "a creation that needs {dead}");
                same!(self.named(sampled.kind, "new").await?, None, "the name of a refused creation");
                if Some(needed) != fields.parent.as_ref() {
                    refused!(self.update(&id, seed(&links)).await?, NotFound, "an update that needs {dead}");
                }
            }
        }
        if !fields.named_revisions.is_empty() {
            let new = Seed { name: "new".to_owned(), revision: 7, ..seed(&links) };
            refused!(self.create(&self.id(sampled), new).await?, NotFound, "a creation that needs a missing revision");
        }
        for used in &fields.references {
            let refused = self.delete(used).await?;
            let names_user = refused.is_err_and(|error| error.reason == Reason::InUse && error.message.contains(&id));
            check!(names_user, "the deletion of {used} is not refused with the name of {id}");
        }
        if !sampled.is_immutable {
            done(self.update(&id, seed(&[]).with(2)).await??)?;
        }
        if sampled.kind.keeps_revisions {
            for used in &fields.references {
                refused!(self.delete(used).await?, InUse, "a deletion of {used}, to which an older revision refers");
            }
            done(self.delete(&id).await??)?;
        }
        for used in fields.references.iter().chain(&fields.parent) {
            done(self.delete(used).await??)?;
        }
        if fields.parent.is_some() {
            same!(self.memory.fields(&id)?, None, "the child of a deleted parent");
            (sampled.read)(self, &id).await?;
            let late = self.step(&id, Expected::Version(fields.version + 1), Step::Update(seed(&[]))).await?;
            same!(late?, WriteOutcome::VersionMismatch, "an update of the child of a deleted parent");
            (sampled.lists)(self, &[seed(&links)]).await?;
        }
        Ok(())
    }

    /// Lists by all filters, in all orders and page sizes.
    async fn lists(&mut self, sampled: &Sampled) -> Outcome {
        let (kind, one, two) = (sampled.kind, self.links(sampled, true).await?, self.links(sampled, true).await?);
        let both: Vec<_> = one.iter().chain(&two).cloned().collect();
        let mixed = one.iter().zip(&two).enumerate().map(|(at, (one, two))| if at % 2 == 0 { one } else { two });
        let mixed: Vec<_> = mixed.cloned().collect();
        for (name, links) in
            [("delta", &one), ("Alpha", &both), ("charlie", &two), ("echo", &mixed), ("Überweisung", &one)]
        {
            let seed = Seed::named(name).linked(links).with(u64::from(name != "Alpha"));
            if sampled.is_immutable {
                self.created(sampled, seed).await?;
                continue;
            }
            let id = self.created(sampled, Seed::named(&format!("old {name}")).linked(links).with(7)).await?;
            done(self.update(&id, seed).await??)?;
        }
        let unlinked = self.create(&self.id(sampled), Seed::named("Bravo")).await?;
        same!(unlinked.is_ok(), !kind.has_parent, "whether a resource without links is created");
        let deleted = self.created(sampled, Seed::named("deleted").linked(&both)).await?;
        done(self.delete(&deleted).await??)?;
        let call = CallId::new(TurnId::new(self.context.thread_id(), 1), 1, 1);
        for op in [self.context.op()?, OpKey::Call(call)] {
            self.create_under_a_closed_op(sampled, op, Seed::named("closed").linked(&both)).await?;
        }
        let seeds = [("A", &one), ("überW", &two), ("nothing", &both), ("charlie", &one)];
        let seeds = seeds.map(|(name, links)| Seed::named(name).linked(links));
        (sampled.lists)(self, &seeds).await?;
        if !kind.has_parent {
            let live = self.memory.live()?.into_iter().filter(|(id, _)| Kind::of_id(id).is_ok_and(|of| of == kind));
            let usages = live.map(|(_, fields)| ResourceUsage { count: 1, bytes: fields.row.size_bytes });
            let expected = usages.fold(ResourceUsage::default(), std::ops::Add::add);
            same!(
                self.context.stores.resources.resource_usage(&self.context.org, kind).await?,
                expected,
                "the resource usage"
            );
        }
        Ok(())
    }

    async fn create_under_a_closed_op(&mut self, sampled: &Sampled, op: OpKey, seed: Seed) -> Outcome {
        let (id, at) = (self.id(sampled), self.context.now());
        let write = Write { op, ..self.context.write(Expected::Absent, Step::Create(seed))? };
        let target = Target::new(sampled.kind.name, &id);
        let aborted = OpRow::closed(write.op.clone(), write.digest.clone(), ClosedAs::Aborted, at);
        let closed = self.context.stores.ops.close(&self.context.org, &target, aborted.clone()).await?;
        same!(closed, self.memory.close(target, aborted), "a closed op");
        let answer = self.decide((sampled.write)(&id, write)?, "a creation under a closed op").await?;
        same!(row(answer?)?, closed, "the row of a closed op");
        Ok(())
    }

    /// Exactly one of several mutually exclusive concurrent writes is executed.
    async fn concurrent(&mut self, sampled: &Sampled) -> Outcome {
        let links = if sampled.kind.has_parent { self.links(sampled, false).await? } else { Vec::new() };
        let seed = Seed::named("wanted").linked(&links);
        let id = self.id(sampled);
        let one = vec![id.clone(); 8];
        for (expected, step) in
            [(Expected::Absent, Step::Create(seed.clone())), (Expected::Version(1), Step::Update(seed.clone().with(2)))]
        {
            let happens = expected == Expected::Absent || !sampled.is_immutable;
            let happened = self.race(&one, expected, &step).await?;
            same!(
                happened,
                usize::from(happens),
                "the number of executed writes of eight concurrent writes of one resource"
            );
        }
        if self.is_named(&id)? {
            let ids: Vec<_> = (0..8).map(|_| self.id(sampled)).collect();
            let step = Step::Create(Seed { name: "also wanted".to_owned(), ..seed });
            same!(
                self.race(&ids, Expected::Absent, &step).await?,
                1,
                "the number of eight resources that got one name"
            );
        }
        Ok(())
    }

    /// Executes concurrent writes. Returns the number of executed writes, and executes these in memory.
    async fn race(&mut self, ids: &[String], expected: Expected, step: &Step) -> Result<usize, Failure> {
        let mut writes = Vec::new();
        for id in ids {
            writes.push((of_id(id)?.write)(id, self.context.write(expected, step.clone())?)?);
        }
        let answers = writes.iter().map(|write| self.context.stores.resources.decide(write.clone()));
        let answers = futures::future::join_all(answers).await;
        let mut happened = 0;
        for (write, answer) in writes.iter().zip(answers) {
            if let Ok(WriteOutcome::Row(row)) = answer {
                same!(self.memory.decide(write)?, WriteOutcome::Row(row), "the row of a concurrent write");
                happened += 1;
            }
        }
        Ok(happened)
    }

    /// Executes a step on the store and in memory, and compares the resource.
    async fn step(&mut self, id: &str, expected: Expected, step: Step) -> Result<Answer, Failure> {
        let (sampled, what) = (of_id(id)?, format!("{step:?} of {id} expecting {expected:?}"));
        let write = (sampled.write)(id, self.context.write(expected, step)?)?;
        let answer = self.decide(write, &what).await?;
        (sampled.read)(self, id).await?;
        Ok(answer)
    }

    async fn create(&mut self, id: &str, seed: Seed) -> Result<Answer, Failure> {
        self.step(id, Expected::Absent, Step::Create(seed)).await
    }

    async fn update(&mut self, id: &str, seed: Seed) -> Result<Answer, Failure> {
        let expected = Expected::Version(self.memory.version(id)?);
        self.step(id, expected, Step::Update(seed)).await
    }

    pub(crate) async fn delete(&mut self, id: &str) -> Result<Answer, Failure> {
        let expected = Expected::Version(self.memory.version(id)?);
        self.step(id, expected, Step::Delete).await
    }

    /// Creates a resource under a fresh id.
    async fn created(&mut self, sampled: &Sampled, seed: Seed) -> Result<String, Failure> {
        let id = self.id(sampled);
        done(self.create(&id, seed).await??)?;
        Ok(id)
    }

    /// Creates a resource under a fresh name, with links only if it needs a parent.
    pub(crate) async fn target(&mut self, sampled: &Sampled) -> Result<String, Failure> {
        let links = if sampled.kind.has_parent { self.links(sampled, false).await? } else { Vec::new() };
        let name = format!("target {}", self.context.fresh());
        self.created(sampled, Seed::named(&name).linked(&links)).await
    }

    /// Creates a resource of each kind that a kind may refer to. If `are_linked`, they refer to each other.
    async fn links(&mut self, sampled: &Sampled, are_linked: bool) -> Result<Vec<String>, Failure> {
        let mut links: Vec<String> = Vec::new();
        for other in SAMPLES.iter().take_while(|other| other.kind != sampled.kind).filter(|other| !other.is_single()) {
            let seed = Seed::named(&format!("link {}", self.context.fresh()));
            let is_linked = are_linked || other.kind.has_parent;
            let id = self.created(other, if is_linked { seed.linked(&links) } else { seed }).await?;
            links.push(id);
        }
        Ok(links)
    }

    fn id(&self, sampled: &Sampled) -> String {
        let parts = self.context.parts();
        (sampled.id)(&parts.each_ref().map(String::as_str))
    }

    fn is_named(&self, id: &str) -> Result<bool, Failure> {
        Ok(self.memory.fields(id)?.is_some_and(|fields| fields.unique_name.is_some()))
    }
}

fn of_id(id: &str) -> Result<&'static Sampled, Failure> {
    Sampled::of_id(id).ok_or_else(|| Failure(format!("no sample of the kind of {id}")))
}
