//! Crash points: points at which the process can abort, before and after each call of a storage trait.
//!
//! An abort keeps what the process has written to its files. The states that it can leave on disk are therefore those
//! between two calls, and those inside the commit of the journal, which a test shows by truncating the journal
//! at any byte.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use folio_storage::{BlobStore, BlobWriter, Stores};
use folio_types::{BlobKey, Result};

use crate::layer::{BlobLayer, Layered};

/// The layer with a crash point before and after each call.
pub(crate) struct CrashPoints;

static PASSED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of crash points that this process has passed.
pub fn crash_points_passed() -> u64 {
    PASSED.load(Ordering::SeqCst)
}

/// Aborts the process if `FOLIO_CRASH_AT` is the number of this crash point (from 1).
pub(crate) fn point(name: &'static str) {
    static AT: OnceLock<Option<u64>> = OnceLock::new();
    let passed = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
    let at = AT.get_or_init(|| std::env::var("FOLIO_CRASH_AT").ok().and_then(|text| text.parse().ok()));
    if *at == Some(passed) {
        eprintln!("the process aborts at crash point {passed}, {name}");
        std::process::abort();
    }
}

/// Returns these stores with crash points around each call that reads or writes rows or blobs.
#[must_use]
pub fn with_crash_points(stores: &Stores) -> Stores {
    Stores {
        audit: Layered::over(CrashPoints, &stores.audit),
        blobs: Layered::over(CrashPoints, &stores.blobs),
        credit: Layered::over(CrashPoints, &stores.credit),
        jobs: Layered::over(CrashPoints, &stores.jobs),
        open_turns: Layered::over(CrashPoints, &stores.open_turns),
        ops: Layered::over(CrashPoints, &stores.ops),
        resources: Layered::over(CrashPoints, &stores.resources),
        rows: Layered::over(CrashPoints, &stores.rows),
        texts: Layered::over(CrashPoints, &stores.texts),
        threads: Layered::over(CrashPoints, &stores.threads),
        usage: Layered::over(CrashPoints, &stores.usage),
        ..stores.clone()
    }
}

#[async_trait]
impl BlobLayer for CrashPoints {
    async fn create(&self, below: &Arc<dyn BlobStore>, key: &BlobKey) -> Result<Box<dyn BlobWriter>> {
        let writer = below.create(key).await?;
        point("blob-create:after");
        Ok(Box::new(Writer(writer)))
    }
}

struct Writer(Box<dyn BlobWriter>);

#[async_trait]
impl BlobWriter for Writer {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.0.write(chunk).await?;
        point("blob-write:after");
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<()> {
        point("blob-finish:before");
        self.0.finish().await?;
        point("blob-finish:after");
        Ok(())
    }
}
