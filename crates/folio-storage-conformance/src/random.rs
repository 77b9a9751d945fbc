//! Random operations on resources of all kinds and on a thread. The resources are compared with those in memory.

use folio_history::thread::{Appended, Fence};
use folio_resources::KINDS;
use folio_storage::Stores;
use folio_types::op::{ClosedAs, Expected, OpKey, OpRow, Target, Write};
use folio_types::{Digest, Incarnation, ThreadId};

use super::context::Context;
use super::resources::Run;
use super::sample::{SAMPLES, Sampled, Seed, Step};
use super::threads_append::{batch, ended};
use super::{Failure, Outcome, check, same};

/// Start of the clock. It is later than in all suites that remove rows of all organizations by time.
const SECONDS: i64 = 1_800_000_000;
/// Number of resources of each kind that are in use at the same time.
const RESOURCES: u64 = 4;
/// Number of operations after which a new resource of each kind replaces an old one.
const OPERATIONS_PER_RESOURCE: u64 = 15 * SAMPLES.len() as u64;
/// Number of names of each kind; each name has two spellings.
const NAMES: u64 = 4;

/// SplitMix64: the same numbers on every machine.
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

    fn small(&mut self, bound: u64) -> u32 {
        u32::try_from(self.below(bound)).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.small(items.len() as u64) as usize)
    }
}

struct Random {
    run: Run,
    /// The first resource of each kind that is in use.
    base: u64,
    dice: Dice,
    nonce: String,
    /// Epoch, version and number of entries of the thread.
    thread: (u64, u64, u64),
}

/// Executes `count` random operations. Compares each answer, and periodically all readable data. A failure names the
/// operation and the seed, which repeats it.
pub async fn random_operations(stores: Stores, nonce: &str, seed: u64, count: usize) -> Outcome {
    let run = Run::new(Context::new(stores, "random", nonce).since(SECONDS));
    let mut random = Random { run, base: 0, dice: Dice(seed), nonce: nonce.to_owned(), thread: (0, 0, 0) };
    let mut thread = random.run.context.new_thread(&[]);
    thread.id = ThreadId::derive(&["random", nonce]);
    random.run.context.stores.threads.create(thread.clone()).await?;
    for number in 0..count {
        let at = |Failure(what)| Failure(format!("operation {number} of seed {seed}: {what}"));
        random.base = number as u64 / OPERATIONS_PER_RESOURCE;
        match random.dice.below(72) {
            0..12 => random.append(&thread.id).await.map_err(at)?,
            12..17 => random.close().await.map_err(at)?,
            _ => random.decide().await.map_err(at)?,
        }
        if number % 50 == 49 {
            random.compare().await.map_err(at)?;
        }
    }
    random.compare().await?;
    random.run.compare_ops().await
}

impl Random {
    fn id(&self, sampled: &Sampled, number: u64) -> String {
        (sampled.id)(&["random", &self.nonce, &number.to_string()])
    }

    /// Returns the samples of any kind, and the id of one that is in use.
    fn target(&mut self) -> Result<(&'static Sampled, String), Failure> {
        let sampled = self.dice.pick(SAMPLES).ok_or_else(|| Failure("no samples".to_owned()))?;
        let number = self.base + self.dice.below(RESOURCES);
        Ok((sampled, self.id(sampled, number)))
    }

    fn name(&mut self) -> String {
        let name = format!("Name {}", self.dice.below(NAMES));
        if self.dice.one_in(2) { name.to_uppercase() } else { name }
    }

    /// Most links are to resources that exist, so that most writes with links succeed.
    fn seed(&mut self) -> Result<Seed, Failure> {
        let mut links = Vec::new();
        for sampled in SAMPLES {
            let number = self.base + self.dice.below(RESOURCES);
            let id = self.id(sampled, number);
            let is_linked = if self.run.memory.is_live(&id)? { !self.dice.one_in(3) } else { self.dice.one_in(20) };
            links.extend(is_linked.then_some(id));
        }
        let revision = 1 + u32::from(self.dice.one_in(4));
        Ok(Seed { name: self.name(), content: self.dice.below(3), links, revision })
    }

    fn step(&mut self, version: u64) -> Result<Step, Failure> {
        Ok(match self.dice.below(10) {
            _ if version == 0 && !self.dice.one_in(5) => Step::Create(self.seed()?),
            0 | 1 => Step::Create(self.seed()?),
            2..7 => Step::Update(self.seed()?),
            _ => Step::Delete,
        })
    }

    fn expected(&mut self, version: u64) -> Expected {
        match self.dice.below(8) {
            0 => Expected::Absent,
            1 => Expected::Version(self.dice.below(6)),
            _ if version == 0 => Expected::Absent,
            _ => Expected::Version(version),
        }
    }

    fn op(&mut self) -> Result<(OpKey, Digest), Failure> {
        let digest = Digest::of(if self.dice.one_in(4) { b"other" } else { b"usual" });
        if !self.dice.one_in(5) {
            return Ok((self.run.context.op()?, digest));
        }
        let request = format!("repeated-{}-{}", self.base, self.dice.below(3)).parse()?;
        Ok((OpKey::Request { user: self.run.context.user.clone(), request }, digest))
    }

    async fn decide(&mut self) -> Outcome {
        let (sampled, id) = self.target()?;
        let version = self.run.memory.version(&id)?;
        let (change, expected, (op, digest)) = (self.step(version)?, self.expected(version), self.op()?);
        let what = format!("{change:?} of {id} at {version} by {op} expecting {expected:?}");
        let context = &self.run.context;
        let (org, by, at) = (context.org.clone(), context.user.clone(), context.now());
        let write = (sampled.write)(&id, Write { org, op, digest, by, at, expected, change })?;
        self.run.decide(write, &what).await.map(drop)
    }

    async fn close(&mut self) -> Outcome {
        let ((sampled, id), (op, digest)) = (self.target()?, self.op()?);
        let (context, target) = (&self.run.context, Target::new(sampled.kind.name, &id));
        let closed = if self.dice.one_in(2) { ClosedAs::Aborted } else { ClosedAs::Conflict };
        let row = OpRow::closed(op, digest, closed, context.now());
        let stored = context.stores.ops.close(&context.org, &target, row.clone()).await?;
        same!(stored, self.run.memory.close(target, row), "an op closed as {closed:?}");
        Ok(())
    }

    async fn append(&mut self, thread: &ThreadId) -> Outcome {
        let (context, (epoch, version, entries)) = (&self.run.context, self.thread);
        let mut fence = Fence { epoch, version };
        match self.dice.below(4) {
            0 => fence.epoch = self.dice.below(epoch + 2),
            1 => fence.version = self.dice.below(version + 2),
            _ => {}
        }
        let mut append = batch(context, fence, vec![ended(1, "entry"); self.dice.small(3) as usize]);
        let count = append.entries.len() as u64;
        let takes = self.dice.one_in(4);
        append.new_owner = takes.then(|| (epoch + 1, Incarnation::derive(&["random"])));
        let is_current = fence == Fence { epoch, version };
        let (is_done, header) = match context.stores.threads.append(&context.org, thread, append).await? {
            Appended::Done(header) => (true, header),
            Appended::Refused { header, .. } => (false, header),
        };
        check!(is_done == is_current, "an append under {fence:?} at epoch {epoch} and version {version}: {is_done}");
        if is_done {
            self.thread = (epoch + u64::from(takes), version + 1, entries + count);
        }
        same!((header.epoch, header.version, header.entries), self.thread, "a header after an append");
        Ok(())
    }

    async fn compare(&mut self) -> Outcome {
        self.run.compare_resources().await?;
        for kind in KINDS {
            for number in 0..NAMES {
                self.run.named(kind, &format!("name {number}")).await?;
            }
        }
        for number in self.base..self.base + RESOURCES {
            let links: Vec<_> = SAMPLES.iter().map(|sampled| self.id(sampled, number)).collect();
            let seed = self.seed()?.linked(&links);
            for sampled in SAMPLES {
                (sampled.list)(&self.run, &seed).await?;
            }
        }
        Ok(())
    }
}
