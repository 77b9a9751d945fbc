//! Faults on purpose, and crash points. Without the feature `planted-bugs` all of this is nothing at all.

#[cfg(feature = "planted-bugs")]
use folio_resources::{DecidingWrite, Record, RowWrite};
use folio_resources::{ResourceWrite, Situation, WritePlan};
#[cfg(feature = "planted-bugs")]
use folio_types::op::Expected;

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)+) => {
        /// A fault that a suite must catch.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Bug {
            $($(#[$doc])* $name,)+
        }

        #[cfg(feature = "planted-bugs")]
        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its name in `FOLIO_PLANTED_BUG`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The suites that must catch it; none: other tests show it.
            pub fn caught_by(self) -> &'static [&'static str] {
                match self {
                    Self::FirstOrganizationOverwritten | Self::MemberOverwritten => &["access"],
                    Self::AuditTwice => &["audit"],
                    Self::BlobVisibleBeforeFinish | Self::BlobTimeUnknown => &["blobs"],
                    Self::ExtractionOfDeletedDocument => &["extractions"],
                    Self::OpenTurnRowMissing | Self::OpenTurnRemovesAllEpochs => &["open_turns"],
                    Self::CloseOverwrites | Self::OpRowMissing | Self::OpRowNoCondition => &["ops"],
                    Self::RequestOnManyTargets | Self::RequestRecordOverwritten => &["ops"],
                    Self::ExpectedIgnored => &["ops", "tags", "schemas", "prompts", "documents", "extractions"],
                    Self::ReferenceUnchecked => &["prompts", "documents"],
                    Self::ReferenceIgnored => &["tags", "schemas", "prompts"],
                    Self::NameNotUnique => &["tags", "schemas", "prompts"],
                    Self::TombstoneVersionReset => &["tags", "schemas", "prompts", "documents", "extractions"],
                    Self::FenceOff | Self::RequestRowOverwritten | Self::BatchRowMissing => &["threads"],
                    Self::RemovedThreadMadeAgain | Self::BegunInTwoWrites | Self::BegunOverAnother => &["threads"],
                    Self::ErasedLogStays => &["erasure"],
                    Self::AccountVersionIgnored | Self::SealIgnored | Self::SettledAgain => &["credit"],
                    Self::ProviderVersionIgnored => &["providers"],
                    Self::FailedTransactionKept => &["prompts"],
                    Self::CommitFails => &["health"],
                    Self::AcknowledgedBeforeCommit | Self::TornTransaction => &[],
                }
            }
        }
    };
}

bugs! {
    /// Settings of models take the place of others of any version.
    ProviderVersionIgnored = "provider-version-ignored",
    /// A second organization takes the place of the first.
    FirstOrganizationOverwritten = "first-organization-overwritten",
    /// A change of a member takes the place of another one.
    MemberOverwritten = "member-overwritten",
    /// An entry of the audit log that is written again stands twice.
    AuditTwice = "audit-twice",
    /// A blob is there before its writer has finished.
    BlobVisibleBeforeFinish = "blob-visible-before-finish",
    /// The scan of the blobs does not know when one was written.
    BlobTimeUnknown = "blob-time-unknown",
    /// An extraction can be stored for a deleted document.
    ExtractionOfDeletedDocument = "extraction-of-deleted-document",
    /// An append that opens a turn leaves no row in the index of open turns.
    OpenTurnRowMissing = "open-turn-row-missing",
    /// Removing one row of an open turn removes those of later epochs.
    OpenTurnRemovesAllEpochs = "open-turn-removes-all-epochs",
    /// Closing an op writes over the row that stands.
    CloseOverwrites = "close-overwrites",
    /// No op row is written.
    OpRowMissing = "op-row-missing",
    /// The op row that stands is neither read nor kept.
    OpRowNoCondition = "op-row-no-condition",
    /// A request outside turns may change one target after the other.
    RequestOnManyTargets = "request-on-many-targets",
    /// An idempotency record is overwritten by another request.
    RequestRecordOverwritten = "request-record-overwritten",
    /// The expected version is not looked at.
    ExpectedIgnored = "expected-ignored",
    /// A prompt may refer to what does not live.
    ReferenceUnchecked = "reference-unchecked",
    /// A used schema or tag can be deleted.
    ReferenceIgnored = "reference-ignored",
    /// Two live ones may have the same name.
    NameNotUnique = "name-not-unique",
    /// Versions begin anew after a deletion.
    TombstoneVersionReset = "tombstone-version-reset",
    /// A thread that was removed can be made again.
    RemovedThreadMadeAgain = "removed-thread-made-again",
    /// A thread is made in one write and its first append in another.
    BegunInTwoWrites = "begun-in-two-writes",
    /// A thread begins although one of its id is there.
    BegunOverAnother = "begun-over-another",
    /// Neither epoch nor version is checked.
    FenceOff = "fence-off",
    /// A request id that is taken is taken over.
    RequestRowOverwritten = "request-row-overwritten",
    /// Appends leave no row of their own.
    BatchRowMissing = "batch-row-missing",
    /// Erasing an organization leaves its audit log.
    ErasedLogStays = "erased-log-stays",
    /// The version of an account is not looked at.
    AccountVersionIgnored = "account-version-ignored",
    /// A call is reserved in a block that is sealed.
    SealIgnored = "seal-ignored",
    /// A reservation that has ended can be settled again.
    SettledAgain = "settled-again",
    /// A write is acknowledged before it is committed.
    AcknowledgedBeforeCommit = "ack-before-commit",
    /// A transaction is written in two halves.
    TornTransaction = "torn-transaction",
    /// No fault of the store but one of its disk: every commit (of CQL: every plain write) fails.
    CommitFails = "commit-fails",
    /// A transaction that failed leaves what it had written so far.
    FailedTransactionKept = "failed-transaction-kept",
}

/// A fault of what nodes share, that a suite must catch: a script in which a condition is another.
#[cfg(feature = "planted-bugs")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptBug {
    /// What is wrong.
    pub name: &'static str,
    /// The suite that must catch it.
    pub caught_by: &'static str,
    /// What stands in a script.
    pub instead_of: &'static str,
    /// What stands there now.
    pub stands: &'static str,
}

#[cfg(feature = "planted-bugs")]
impl ScriptBug {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "a replaced owner appends events",
            caught_by: "events",
            instead_of: "if epoch < old or (epoch == old and owner ~= meta[2]) then",
            stands: "if false then",
        },
        Self {
            name: "events that are there are appended again",
            caught_by: "events",
            instead_of: "if following and number < following then",
            stands: "if false then",
        },
        Self {
            name: "a job is taken twice",
            caught_by: "jobs",
            instead_of: "'workers', worker, ARGV[3], cursor",
            stands: "'workers', worker, 0, cursor",
        },
        Self {
            name: "a job is added twice",
            caught_by: "jobs",
            instead_of: "if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then",
            stands: "if false then",
        },
        Self {
            name: "a node that is gone comes back",
            caught_by: "nodes",
            instead_of: "if redis.call('HEXISTS', key, 'g:' .. incarnation) == 1 then",
            stands: "redis.call('HDEL', key, 'g:' .. incarnation, 'b:' .. incarnation)\nif false then",
        },
        Self {
            name: "a silence is never too long",
            caught_by: "nodes",
            instead_of: "if not gone and silent > gone_after then",
            stands: "if false then",
        },
        Self {
            name: "a bucket is never empty",
            caught_by: "rates",
            instead_of: "if level < cost then",
            stands: "if false then",
        },
        Self {
            name: "there is always a slot",
            caught_by: "slots",
            instead_of: "redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2])",
            stands: "false",
        },
        Self {
            name: "a lease never ends",
            caught_by: "slots",
            instead_of: "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)",
            stands: "local kept = now",
        },
        Self {
            name: "what goes on is not held",
            caught_by: "slots",
            instead_of: "if at < 3 + held then",
            stands: "if false then",
        },
        Self {
            name: "a late state takes the place of a later one",
            caught_by: "turns",
            instead_of: "if old_epoch > epoch or (old_epoch == epoch and old_version > version) then",
            stands: "if false then",
        },
        Self {
            name: "a turn that waits is not listed",
            caught_by: "turns",
            instead_of: "if place ~= '' then",
            stands: "if false then",
        },
    ];
}

/// The faults of one store.
#[cfg(feature = "planted-bugs")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Plan(pub Option<Bug>);

/// The faults of one store: none.
#[cfg(not(feature = "planted-bugs"))]
#[derive(Debug, Clone, Copy, Default)]
pub struct Plan;

#[cfg(feature = "planted-bugs")]
impl Plan {
    /// The bug that `FOLIO_PLANTED_BUG` names.
    pub fn from_environment() -> Self {
        let name = std::env::var("FOLIO_PLANTED_BUG").unwrap_or_default();
        Self(Bug::ALL.iter().copied().find(|bug| bug.name() == name))
    }

    /// Returns whether this bug is planted.
    pub fn has(self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
impl Plan {
    /// Alters what was read for a write.
    pub fn alter_situation(self, write: &mut ResourceWrite, read: &mut Situation) {
        let stored = read.record.as_deref().and_then(|record| write.kind.read(record).ok());
        let any_version = self.has(Bug::ExpectedIgnored) || self.has(Bug::OpRowNoCondition);
        match stored {
            Some(Record::Live(facts)) if any_version => write.expected = Expected::Version(facts.version),
            Some(Record::Tombstone { version, .. }) if any_version => write.expected = Expected::Version(version),
            _ => {}
        }
        if self.has(Bug::OpRowNoCondition) {
            read.op_row = None;
        }
        read.is_request_taken &= !self.has(Bug::RequestOnManyTargets);
    }

    /// Alters the plan of a write.
    pub fn alter_plan(self, plan: &mut WritePlan) {
        match self.0 {
            Some(Bug::OpRowMissing) => plan.rows.retain(|row| !matches!(row, RowWrite::InsertOp(_))),
            Some(Bug::OpRowNoCondition) => {
                for row in &mut plan.rows {
                    if let RowWrite::InsertOp(op) = row {
                        *row = RowWrite::OverwriteOp(op.clone());
                    }
                }
            }
            Some(Bug::RequestOnManyTargets) => plan.request = None,
            Some(Bug::NameNotUnique) => plan.claim_name = None,
            Some(Bug::ExtractionOfDeletedDocument) => plan.add_to_parent = None,
            Some(Bug::ReferenceUnchecked) => {
                plan.add_references.clear();
                plan.require_revision = None;
            }
            _ => {}
        }
        if let DecidingWrite::Delete { to, record, if_unreferenced, .. } = &mut plan.decide {
            *if_unreferenced &= !self.has(Bug::ReferenceIgnored);
            if self.has(Bug::TombstoneVersionReset)
                && let Ok(reset) = plan.kind.tombstone(1, plan.at)
            {
                (*to, *record) = (1, reset);
            }
        }
    }
}

#[cfg(not(feature = "planted-bugs"))]
impl Plan {
    #[expect(clippy::unused_self, reason = "the shape that the planted build has")]
    pub const fn alter_situation(self, _: &mut ResourceWrite, _: &mut Situation) {}

    #[expect(clippy::unused_self, reason = "the shape that the planted build has")]
    pub const fn alter_plan(self, _: &mut WritePlan) {}

    #[expect(clippy::unused_self, reason = "the shape that the planted build has")]
    pub const fn has(self, _bug: Bug) -> bool {
        false
    }
}

/// How many crash points were passed so far.
#[cfg(feature = "planted-bugs")]
static PASSED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// How many crash points this process has passed so far.
#[cfg(feature = "planted-bugs")]
pub fn crash_points_passed() -> u64 {
    PASSED.load(std::sync::atomic::Ordering::SeqCst)
}

/// A crash point, named `stage:before` or `stage:after`: the process is gone where `FOLIO_CRASH_AT` is its number.
#[cfg(feature = "planted-bugs")]
pub fn crash_point(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering;
    static AT: OnceLock<Option<u64>> = OnceLock::new();
    let passed = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
    let at = AT.get_or_init(|| std::env::var("FOLIO_CRASH_AT").ok().and_then(|text| text.parse().ok()));
    if *at == Some(passed) {
        tracing::error!(name, passed, "crashing on purpose");
        std::process::abort();
    }
}

/// A crash point: nothing in a build that is used.
#[cfg(not(feature = "planted-bugs"))]
pub const fn crash_point(_name: &'static str) {}

/// A write with a condition that is sent late: `FOLIO_LATE_WRITE` names it (`append`, `decision`), with a number which of
/// them (`append#2`). The process stops where all is read and the batch is about to be sent, until somebody lets it go on.
#[cfg(feature = "planted-bugs")]
pub fn late(write: &str) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let wanted = std::env::var("FOLIO_LATE_WRITE").unwrap_or_default();
    let (name, nth) = wanted.split_once('#').unwrap_or((&wanted, "1"));
    if name != write || nth.parse() != Ok(SEEN.fetch_add(1, Ordering::SeqCst) + 1) {
        return;
    }
    let asked = std::process::Command::new("sh").args(["-c", "kill -STOP $PPID"]).status();
    if let Err(error) = asked {
        tracing::error!(%error, "the process cannot stop itself");
    }
    // The signal reaches the threads of a process one after the other.
    std::thread::sleep(std::time::Duration::from_millis(300));
}

/// A write that is sent late: none in a build that is used.
#[cfg(not(feature = "planted-bugs"))]
pub const fn late(_write: &str) {}
