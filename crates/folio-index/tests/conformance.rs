//! The embedded index runs the conformance suite of the port.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_index::{EmbeddedIndex, EmbeddedOptions, PassageIndex};
use folio_index_conformance::{Fixture, suite};
use folio_testkit::wait_for;
use folio_types::Result;
use tempfile::TempDir;

struct Folder {
    root: TempDir,
    options: EmbeddedOptions,
}

#[async_trait]
impl Fixture for Folder {
    /// Opens the index. The task of an earlier value may still use the folder for a moment.
    async fn open(&self) -> Result<Arc<dyn PassageIndex>> {
        let open = || async { EmbeddedIndex::open(self.root.path().to_owned(), self.options).ok() };
        Ok(Arc::new(wait_for("the folder is unlocked", Duration::from_secs(30), open).await))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_index_conforms_to_the_port() {
    let folder = Folder { root: tempfile::tempdir().unwrap(), options: EmbeddedOptions::default() };
    suite(&folder, "first").await.unwrap();
    suite(&folder, "second").await.unwrap();
}

/// Each bound is as small as possible, writers close at once, and vectors are quantized.
#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_index_conforms_to_the_port_with_small_bounds() {
    let options = EmbeddedOptions {
        quantize_above: 0,
        readers_max: 1,
        writers_max: 1,
        searches_max: 1,
        writer_idle: Duration::from_millis(20),
        ..EmbeddedOptions::default()
    };
    suite(&Folder { root: tempfile::tempdir().unwrap(), options }, "small").await.unwrap();
}
