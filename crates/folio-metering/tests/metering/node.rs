//! A simulated node: reserves and settles model calls like the meter actor, one store operation at a time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio_credit::{Basis, Grant, GrantKind, LedgerRow, ReserveOutcome, SettlementRecord};
use folio_metering::{Draw, Effect, Escrow, Options, Wallet};
use folio_storage::CreditStore as _;
use folio_types::message::Usage;
use folio_types::{BlockId, Environment, GrantId, Incarnation, OrgId, UserId};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::steps::ScheduledStore;

#[derive(Debug, Clone)]
pub(crate) struct ReservedCall {
    pub(crate) key: String,
    pub(crate) block: BlockId,
    pub(crate) reserved: u64,
    pub(crate) cost: u64,
    /// The charge that the store returned for the settlement. None: not settled, or the outcome is unknown.
    pub(crate) settled: Option<u64>,
}

pub(crate) struct World {
    pub(crate) org: OrgId,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) reserved_calls: Mutex<Vec<ReservedCall>>,
    pub(crate) options: Options,
}

pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Node {
    world: Arc<World>,
    store: ScheduledStore,
    escrow: Escrow,
    wallet: Wallet,
    holder: Incarnation,
    random: StdRng,
    /// Calls in flight, each with its index in [`World::reserved_calls`].
    running: Vec<(usize, LedgerRow)>,
    number: u64,
}

impl Node {
    pub(crate) fn new(world: Arc<World>, store: ScheduledStore, escrow: Escrow, seed: u64) -> Self {
        let holder = Incarnation::generate(world.environment.as_ref());
        let wallet = Wallet::new(&world.options);
        let random = StdRng::seed_from_u64(seed);
        Self { world, store, escrow, wallet, holder, random, running: Vec::new(), number: 0 }
    }

    fn new_name(&mut self) -> String {
        self.number += 1;
        format!("{}.{}", self.holder, self.number)
    }

    pub(crate) async fn run(mut self, operations: usize) {
        for _ in 0..operations {
            match self.random.random_range(0..20) {
                0 => self.top_up().await,
                1 => {
                    let id = GrantId::derive(&[&self.new_name()]);
                    let amount = self.random.random_range(1..20);
                    let _ = self.escrow.withdraw(&self.world.org, &id, amount, ("withdrawn", None)).await;
                }
                2 => {
                    let now = self.world.environment.now();
                    let effects = self.wallet.tick(CALL_TIMEOUT, now);
                    self.perform(effects, 0).await;
                }
                3 => drop(self.escrow.collect(&self.world.org).await),
                4..=11 => self.call().await,
                _ => self.settle().await,
            }
        }
        while !self.running.is_empty() {
            self.settle().await;
        }
        let effects = self.wallet.retire_all();
        self.perform(effects, 0).await;
    }

    async fn top_up(&mut self) {
        let now = self.world.environment.now();
        let (id, amount) = (GrantId::derive(&[&self.new_name()]), self.random.random_range(1..16));
        let seconds = self.random.random_range(0..120);
        let expires_at = (seconds < 80).then(|| now.checked_add(Duration::from_secs(seconds)).unwrap());
        let priority = self.random.random_range(0..2);
        let grant = Grant { expires_at, priority, ..Grant::new(id, GrantKind::Admin, amount, now) };
        // Retry like a client that received no reply.
        for _ in 0..5 {
            if self.escrow.grant(&self.world.org, grant.clone()).await.is_ok() {
                return;
            }
        }
    }

    async fn call(&mut self) {
        let need = self.random.random_range(1..=8);
        let effects = self.wallet.request(self.number, need, self.world.environment.now());
        self.perform(effects, need).await;
    }

    async fn perform(&mut self, effects: Vec<Effect>, need: u64) {
        let mut effects: std::collections::VecDeque<_> = effects.into();
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Cover(_, block) => effects.extend(self.reserve(block, need).await),
                Effect::Draw { need, want } => effects.extend(self.draw(need, want).await),
                Effect::Close { block, record } => {
                    drop(self.escrow.close(&self.world.org, &block, record).await);
                }
                Effect::Refuse(..) | Effect::Fail(_) => {}
            }
        }
    }

    async fn draw(&mut self, need: u64, want: u64) -> Vec<Effect> {
        for attempt in 0..2 {
            let id = BlockId::generate(self.world.environment.as_ref());
            let draw = Draw { id, holder: self.holder.clone(), need, want, lifetime: self.world.options.block_seconds };
            let drawn = self.escrow.draw(&self.world.org, &draw).await;
            let now = self.world.environment.now();
            match drawn {
                Err(_) => return self.wallet.failed(),
                Ok(Ok(block)) => return self.wallet.drawn(&block, now),
                Ok(Err(refusal)) if attempt == 1 || refusal.in_blocks == 0 => return self.wallet.refused(refusal, now),
                Ok(Err(_)) => drop(self.escrow.reclaim(&self.world.org).await),
            }
        }
        Vec::new()
    }

    async fn reserve(&mut self, block: BlockId, need: u64) -> Vec<Effect> {
        let now = self.world.environment.now();
        let deadline = now.checked_add(CALL_TIMEOUT).unwrap();
        let row = LedgerRow { deadline, ..LedgerRow::new(&self.new_name(), UserId::derive(&["user"]), need, now) };
        match self.store.reserve(&self.world.org, &block, row.clone()).await {
            Ok(ReserveOutcome::Done) => {
                let cost = self.random.random_range(1..=need + 1);
                let mut calls = self.world.reserved_calls.lock().unwrap();
                calls.push(ReservedCall { key: row.key.clone(), block, reserved: need, cost, settled: None });
                self.running.push((calls.len() - 1, row));
                Vec::new()
            }
            Ok(ReserveOutcome::Sealed) => self.wallet.sealed(&block, need, now),
            Ok(ReserveOutcome::Exists(_)) => panic!("a key is used twice"),
            Err(_) => {
                let settled_row = row.settled_as_not_sent(now);
                let used = self.store.settle(&self.world.org, &block, settled_row).await;
                let used = used.map_or(need, |stored| stored.charge());
                self.wallet.settled(&block, need, used, now)
            }
        }
    }

    async fn settle(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.running.len());
        let (number, row) = self.running.swap_remove(at);
        let call = self.world.reserved_calls.lock().unwrap()[number].clone();
        let now = self.world.environment.now();
        let settled = SettlementRecord {
            credits: call.cost.min(call.reserved),
            usage: Usage { model_calls: 1, ..Usage::default() },
            cost_microdollars: None,
            basis: Basis::Counted,
            written_off: call.cost.saturating_sub(call.reserved),
            completed: true,
            at: now,
        };
        let settled_row = LedgerRow { settled: Some(settled), ..row };
        let stored = self.store.settle(&self.world.org, &call.block, settled_row).await;
        let used = stored.as_ref().map_or(call.reserved, LedgerRow::charge);
        self.world.reserved_calls.lock().unwrap()[number].settled = stored.ok().map(|stored| stored.charge());
        let effects = self.wallet.settled(&call.block, call.reserved, used, now);
        self.perform(effects, 0).await;
    }
}
