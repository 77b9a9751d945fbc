//! Random operations on a store, each answer foretold by a simple model in memory.

use std::collections::{BTreeMap, BTreeSet};

use folio_history::thread::{Appended, Fence};
use folio_resources::{
    Document, DocumentFilter, Extraction, Prompt, PromptFilter, Resource as _, Schema, SchemaFilter, Tag, TagFilter,
};
use folio_types::op::{ClosedAs, Decided, Expected, OpKey, OpState, Target, Write};
use folio_types::page::{Order, PageRequest};
use folio_types::{
    Digest, DocumentId, ExtractionId, Incarnation, PromptId, PromptRevId, Reason, Result, SchemaId, SchemaRevId, TagId,
};

use super::context::Context;
use super::model_changes::{Change, document_change, extraction_change, prompt_change, schema_change, tag_change};
use super::threads_append::{batch, ended};
use super::{Failure, Outcome, check, same};
use folio_storage::Stores;

/// Things of each kind that are worked on at a time.
const THINGS: u64 = 4;
/// Operations after which a new thing of each kind takes the place of an old one.
const OPERATIONS_PER_THING: u64 = 50;
/// Names of each kind; each is spelt in two ways.
const NAMES: u64 = 4;

/// A thing of the model: whatever its kind.
#[derive(Debug, Clone, Default)]
struct Thing {
    version: u64,
    lives: bool,
    name: String,
    /// What its revisions (of a prompt), or it, use.
    uses: Vec<BTreeSet<String>>,
    /// Revisions of a schema or prompt.
    revisions: u32,
    /// What it says: changes by an edit.
    content: u64,
}

/// What an operation is foretold to come to.
#[derive(Debug, Clone, PartialEq)]
enum Foretold {
    Done,
    Closed(OpState),
    Moved,
    Refused(Reason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Tag,
    Schema,
    Prompt,
    Document,
    Extraction,
}

const KINDS: [Kind; 5] = [Kind::Tag, Kind::Schema, Kind::Prompt, Kind::Document, Kind::Extraction];

/// SplitMix64: enough for choosing, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

struct Model {
    things: BTreeMap<(Kind, u64), Thing>,
    ops: BTreeMap<(Kind, u64, String), (Digest, OpState)>,
    asked: BTreeMap<String, (Kind, u64, Digest)>,
    thread: (u64, u64, u64),
}

struct Run<'a> {
    context: &'a Context,
    /// The first thing of each kind that is worked on.
    base: u64,
    dice: Dice,
    model: Model,
    nonce: String,
}

/// Does `count` random operations and compares each answer, and every so often everything that can be read.
///
/// # Errors
/// Where the store does not do as the model foretells; the seed repeats it.
pub async fn random_operations(stores: Stores, nonce: &str, seed: u64, count: usize) -> Outcome {
    let context = Context::new(stores, "model", nonce);
    let model = Model { things: BTreeMap::new(), ops: BTreeMap::new(), asked: BTreeMap::new(), thread: (0, 0, 0) };
    let mut run = Run { context: &context, base: 0, dice: Dice(seed), model, nonce: nonce.to_owned() };
    let mut thread = context.new_thread(&[]);
    thread.id = folio_types::ThreadId::derive(&["model", nonce]);
    context.stores.threads.create(thread.clone()).await?;
    for number in 0..count {
        let at = |Failure(what)| Failure(format!("operation {number} of seed {seed}: {what}"));
        run.base = number as u64 / OPERATIONS_PER_THING;
        if run.dice.one_in(6) {
            run.append(&thread.id).await.map_err(at)?;
        } else {
            run.decide().await.map_err(at)?;
        }
        if number % 25 == 24 {
            run.compare().await.map_err(at)?;
        }
    }
    run.compare().await
}

impl Run<'_> {
    fn tag(&self, number: u64) -> TagId {
        TagId::derive(&["model", &self.nonce, &number.to_string()])
    }

    fn schema(&self, number: u64) -> SchemaId {
        SchemaId::derive(&["model", &self.nonce, &number.to_string()])
    }

    fn prompt(&self, number: u64) -> PromptId {
        PromptId::derive(&["model", &self.nonce, &number.to_string()])
    }

    fn document(&self, number: u64) -> DocumentId {
        DocumentId::derive(&["model", &self.nonce, &number.to_string()])
    }

    fn extraction(&self, number: u64) -> ExtractionId {
        ExtractionId::derive(&["model", &self.nonce, &number.to_string()])
    }

    fn target(&self, kind: Kind, number: u64) -> Target {
        match kind {
            Kind::Tag => Tag::target(&self.tag(number)),
            Kind::Schema => Schema::target(&self.schema(number)),
            Kind::Prompt => Prompt::target(&self.prompt(number)),
            Kind::Document => Document::target(&self.document(number)),
            Kind::Extraction => Extraction::target(&self.extraction(number)),
        }
    }

    /// One of those that are worked on.
    fn number(&mut self) -> u64 {
        self.base + self.dice.below(THINGS)
    }

    fn name(&mut self) -> String {
        let name = format!("Name {}", self.dice.below(NAMES));
        if self.dice.one_in(2) { name.to_uppercase() } else { name }
    }

    /// Random tags, and for a prompt perhaps a schema.
    fn uses(&mut self, kind: Kind) -> BTreeSet<String> {
        if !matches!(kind, Kind::Prompt | Kind::Document) || self.dice.one_in(2) {
            return BTreeSet::new();
        }
        let number = self.number();
        BTreeSet::from([self.tag(number).to_string()])
    }

    /// Mostly one that makes sense.
    fn change(&mut self, kind: Kind, thing: &Thing) -> Change {
        let chosen = if thing.version == 0 && !self.dice.one_in(5) { 0 } else { self.dice.below(10) };
        match chosen {
            0 | 1 => {
                let schema = (kind == Kind::Prompt && self.dice.one_in(2)).then(|| {
                    let number = self.number();
                    let version = 1 + u32::try_from(self.dice.below(2)).unwrap_or(0);
                    SchemaRevId::new(self.schema(number), version)
                });
                let content = self.dice.below(3);
                Change::Create { name: self.name(), uses: self.uses(kind), schema, content }
            }
            2..8 => Change::Update {
                name: if self.dice.one_in(2) { Some(self.name()) } else { None },
                uses: if self.dice.one_in(3) { Some(self.uses(kind)) } else { None },
                content: if self.dice.one_in(2) { Some(self.dice.below(3)) } else { None },
            },
            _ => Change::Delete,
        }
    }

    fn expected(&mut self, thing: &Thing) -> Expected {
        match self.dice.below(8) {
            0 => Expected::Absent,
            1 => Expected::Version(self.dice.below(6)),
            _ if thing.version == 0 => Expected::Absent,
            _ => Expected::Version(thing.version),
        }
    }

    async fn decide(&mut self) -> Outcome {
        let kind = KINDS.get(usize::try_from(self.dice.below(5)).unwrap_or(0)).copied().unwrap_or(Kind::Tag);
        let number = self.number();
        let thing = self.model.things.get(&(kind, number)).cloned().unwrap_or_default();
        let change = self.change(kind, &thing);
        let expected = self.expected(&thing);
        let op = if self.dice.one_in(5) {
            let request = format!("repeated-{}-{}", self.base, self.dice.below(3)).parse()?;
            OpKey::Request { user: self.context.user.clone(), request }
        } else {
            self.context.op()?
        };
        let digest = Digest::of(if self.dice.one_in(4) { b"other" } else { b"usual" });
        if self.dice.one_in(12) {
            return self.close(kind, number, &op, &digest).await;
        }
        let foretold = self.foretell(kind, number, &op, &digest, expected, &change);
        let answer = self.carry_out(kind, number, op.clone(), digest.clone(), expected, &change).await;
        let seen = match answer {
            Ok(Decided::Moved) => Foretold::Moved,
            Ok(Decided::Row(row)) => match row.state {
                OpState::Done(_) => Foretold::Done,
                closed => Foretold::Closed(closed),
            },
            Err(error) => Foretold::Refused(error.reason),
        };
        same!(seen, foretold, "{kind:?} {number} {thing:?}, {change:?} by {op} expecting {expected:?}");
        Ok(())
    }

    /// What the model says; changes it accordingly.
    fn foretell(
        &mut self,
        kind: Kind,
        number: u64,
        op: &OpKey,
        digest: &Digest,
        expected: Expected,
        change: &Change,
    ) -> Foretold {
        let key = (kind, number, op.to_string());
        if let Some((before, state)) = self.model.ops.get(&key) {
            return match (before == digest, state) {
                (false, _) => Foretold::Refused(Reason::RequestIdConflict),
                (true, OpState::Done(_)) => Foretold::Done,
                (true, closed) => Foretold::Closed(closed.clone()),
            };
        }
        let asked = (kind, number, digest.clone());
        if self.model.asked.get(&op.to_string()).is_some_and(|before| *before != asked) {
            return Foretold::Refused(Reason::RequestIdConflict);
        }
        let thing = self.model.things.get(&(kind, number)).cloned().unwrap_or_default();
        match expected {
            Expected::Absent if thing.version != 0 => return Foretold::Moved,
            Expected::Version(_) if thing.version == 0 => return Foretold::Refused(Reason::NotFound),
            Expected::Version(version) if version != thing.version => return Foretold::Moved,
            _ => {}
        }
        match self.changed(kind, number, thing, change) {
            Ok(thing) => {
                self.model.things.insert((kind, number), thing);
                self.model.asked.insert(op.to_string(), asked);
                // What the result holds is looked at by the suites.
                self.model.ops.insert(key, (digest.clone(), OpState::Done(folio_types::op::OpResult::Deleted)));
                Foretold::Done
            }
            Err(reason) => Foretold::Refused(reason),
        }
    }

    fn changed(&mut self, kind: Kind, number: u64, before: Thing, change: &Change) -> Result<Thing, Reason> {
        match change {
            Change::Create { name, uses, schema, content } => {
                if before.version != 0 {
                    return Err(Reason::NotFound);
                }
                self.free_name(kind, number, name)?;
                self.all_live(uses, schema.as_ref())?;
                if kind == Kind::Extraction && !self.lives(Kind::Document, number) {
                    return Err(Reason::NotFound);
                }
                let schema = schema.iter().map(|schema| schema.of.to_string());
                let uses = vec![uses.iter().cloned().chain(schema).collect()];
                Ok(Thing { version: 1, lives: true, name: name.clone(), uses, revisions: 1, content: *content })
            }
            _ if !before.lives => Err(Reason::NotFound),
            Change::Update { name, uses, content } => self.updated(kind, number, before, name, uses, content),
            Change::Delete => {
                let id = self.target(kind, number).to_string();
                let users = self.model.things.values();
                if users.filter(|user| user.lives).any(|user| user.uses.iter().any(|uses| uses.contains(&id))) {
                    return Err(Reason::InUse);
                }
                if kind == Kind::Document
                    && let Some(hung) = self.model.things.get_mut(&(Kind::Extraction, number))
                    && hung.lives
                {
                    hung.lives = false;
                    hung.version += 1;
                }
                Ok(Thing { lives: false, version: before.version + 1, ..before })
            }
        }
    }

    fn updated(
        &self,
        kind: Kind,
        number: u64,
        before: Thing,
        name: &Option<String>,
        uses: &Option<BTreeSet<String>>,
        content: &Option<u64>,
    ) -> Result<Thing, Reason> {
        let mut after = before.clone();
        if kind == Kind::Extraction {
            // Every edit is one.
            after.version += 1;
            after.content = content.unwrap_or(0);
            return Ok(after);
        }
        if let Some(name) = name {
            if *name != before.name {
                self.free_name(kind, number, name)?;
            }
            after.name.clone_from(name);
        }
        let tags_before: BTreeSet<String> = before
            .uses
            .last()
            .map(|uses| uses.iter().filter(|id| id.starts_with("tag_")).cloned().collect())
            .unwrap_or_default();
        let mut revised = false;
        if let (Some(uses), Kind::Prompt | Kind::Document) = (uses, kind) {
            self.all_live(uses, None)?;
            if *uses != tags_before {
                revised = true;
                let schema = before.uses.last().into_iter().flatten().filter(|id| id.starts_with("sch_"));
                let new: BTreeSet<String> = uses.iter().chain(schema).cloned().collect();
                if kind == Kind::Document {
                    after.uses = vec![new];
                } else {
                    after.uses.push(new);
                }
            }
        }
        if let Some(content) = content
            && *content != before.content
        {
            after.content = *content;
            revised = true;
        }
        if revised && matches!(kind, Kind::Prompt | Kind::Schema) {
            after.revisions += 1;
        }
        if revised || after.name != before.name {
            after.version += 1;
        }
        Ok(after)
    }

    fn lives(&self, kind: Kind, number: u64) -> bool {
        self.model.things.get(&(kind, number)).is_some_and(|thing| thing.lives)
    }

    fn free_name(&self, kind: Kind, number: u64, name: &str) -> Result<(), Reason> {
        if matches!(kind, Kind::Document | Kind::Extraction) {
            return Ok(());
        }
        let taken = self.model.things.iter().any(|((other, at), thing)| {
            *other == kind && *at != number && thing.lives && thing.name.to_lowercase() == name.to_lowercase()
        });
        if taken { Err(Reason::NameTaken) } else { Ok(()) }
    }

    fn all_live(&self, tags: &BTreeSet<String>, schema: Option<&SchemaRevId>) -> Result<(), Reason> {
        let tags = tags.iter().all(|id| {
            (0..self.base + THINGS).any(|number| self.tag(number).as_str() == id && self.lives(Kind::Tag, number))
        });
        let schema = schema.is_none_or(|revid| {
            (0..self.base + THINGS).any(|number| {
                let found = self.model.things.get(&(Kind::Schema, number));
                self.schema(number) == revid.of
                    && found.is_some_and(|thing| thing.lives && revid.version <= thing.revisions)
            })
        });
        if tags && schema { Ok(()) } else { Err(Reason::NotFound) }
    }

    async fn carry_out(
        &self,
        kind: Kind,
        number: u64,
        op: OpKey,
        digest: Digest,
        expected: Expected,
        change: &Change,
    ) -> Result<Decided> {
        let (stores, context) = (&self.context.stores, self.context);
        let (org, by, at) = (context.org.clone(), context.user.clone(), context.now());
        macro_rules! write {
            ($change:expr) => {
                Write { org, op, digest, by, at, expected, change: $change }
            };
        }
        match kind {
            Kind::Tag => stores.of::<Tag>().decide(&self.tag(number), write!(tag_change(change))).await,
            Kind::Schema => stores.of::<Schema>().decide(&self.schema(number), write!(schema_change(change))).await,
            Kind::Prompt => stores.of::<Prompt>().decide(&self.prompt(number), write!(prompt_change(change)?)).await,
            Kind::Document => {
                stores.of::<Document>().decide(&self.document(number), write!(document_change(change)?)).await
            }
            Kind::Extraction => {
                let change = extraction_change(change, &self.document(number), &PromptRevId::new(self.prompt(0), 1));
                stores.of::<Extraction>().decide(&self.extraction(number), write!(change)).await
            }
        }
    }

    async fn close(&mut self, kind: Kind, number: u64, op: &OpKey, digest: &Digest) -> Outcome {
        let (context, target) = (self.context, self.target(kind, number));
        let closed = if self.dice.one_in(2) { ClosedAs::Aborted } else { ClosedAs::Conflict };
        let row = context.stores.ops.close(&context.org, &target, op, digest, closed, context.now()).await?;
        let new = if closed == ClosedAs::Aborted { OpState::Aborted } else { OpState::Conflict };
        let key = (kind, number, op.to_string());
        let (digest, state) = self.model.ops.entry(key).or_insert((digest.clone(), new)).clone();
        same!(row.digest, digest, "the digest of an op that was closed");
        let alike = std::mem::discriminant(&row.state) == std::mem::discriminant(&state);
        check!(alike, "an op closed as {closed:?}: {:?} is not {state:?}", row.state);
        Ok(())
    }

    async fn append(&mut self, thread: &folio_types::ThreadId) -> Outcome {
        let (context, (epoch, version, entries)) = (self.context, self.model.thread);
        let mut fence = Fence { epoch, version };
        match self.dice.below(4) {
            0 => fence.epoch = self.dice.below(epoch + 2),
            1 => fence.version = self.dice.below(version + 2),
            _ => {}
        }
        let mut append =
            batch(context, fence, vec![ended(1, "entry"); usize::try_from(self.dice.below(3)).unwrap_or(0)]);
        let count = append.entries.len() as u64;
        let takes = self.dice.one_in(4);
        append.take = takes.then(|| (epoch + 1, Incarnation::derive(&["model"])));
        let good = fence == Fence { epoch, version };
        match context.stores.threads.append(&context.org, thread, append).await? {
            Appended::Done(header) => {
                check!(good, "an append under {fence:?} at epoch {epoch} and version {version} was taken");
                self.model.thread = (epoch + u64::from(takes), version + 1, entries + count);
                same!((header.epoch, header.version, header.entries), self.model.thread, "a header after an append");
            }
            Appended::Refused { header, .. } => {
                check!(!good, "an append under {fence:?} was refused");
                same!((header.epoch, header.version, header.entries), self.model.thread, "a header that refused");
            }
        }
        Ok(())
    }

    /// Everything that can be read.
    async fn compare(&self) -> Outcome {
        let (stores, org) = (&self.context.stores, &self.context.org);
        let all = PageRequest { size: 1000, order: Order::Name, ..PageRequest::default() };
        for kind in KINDS {
            let names = |things: Vec<String>| -> Vec<String> {
                let mut things = things;
                things.sort();
                things
            };
            let expected = self.model.things.iter().filter(|((of, _), thing)| *of == kind && thing.lives);
            let expected = expected.map(|((_, number), thing)| {
                let shown = if kind == Kind::Extraction { String::new() } else { thing.name.clone() };
                format!("{} {shown} {}", self.target(kind, *number), thing.version)
            });
            let expected = names(expected.collect());
            let found: Vec<String> = match kind {
                Kind::Tag => {
                    let page = stores.of::<Tag>().list(org, &TagFilter::default(), &all).await?;
                    page.items.iter().map(|tag| format!("{} {} {}", tag.id, tag.name, tag.version)).collect()
                }
                Kind::Schema => {
                    let page = stores.of::<Schema>().list(org, &SchemaFilter::default(), &all).await?;
                    page.items.iter().map(|one| format!("{} {} {}", one.id, one.latest.name, one.version)).collect()
                }
                Kind::Prompt => {
                    let page = stores.of::<Prompt>().list(org, &PromptFilter::default(), &all).await?;
                    page.items.iter().map(|one| format!("{} {} {}", one.id, one.latest.name, one.version)).collect()
                }
                Kind::Document => {
                    let page = stores.of::<Document>().list(org, &DocumentFilter::default(), &all).await?;
                    page.items.iter().map(|one| format!("{} {} {}", one.id, one.name, one.version)).collect()
                }
                Kind::Extraction => {
                    let mut found = Vec::new();
                    for number in 0..self.base + THINGS {
                        let page = stores
                            .of::<Extraction>()
                            .list(
                                org,
                                &folio_resources::ExtractionFilter { document: self.document(number), prompt: None },
                                &all,
                            )
                            .await?;
                        found.extend(page.items.iter().map(|one| format!("{}  {}", one.id, one.version)));
                    }
                    found
                }
            };
            same!(names(found), expected, "what lives of {kind:?}");
        }
        Ok(())
    }
}
