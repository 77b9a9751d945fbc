//! The stores that settings name.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use folio_storage::Stores;
use folio_storage::embedded::{self, EmbeddedStore};
use folio_storage::object::{S3Options, blobs_at};

use crate::settings::{BucketOptions, StorageOptions};

/// Opens them.
pub(crate) async fn open(settings: &StorageOptions) -> Result<(EmbeddedStore, Stores)> {
    let folder = settings.data.clone();
    private_folder(&folder).with_context(|| format!("the data folder {} cannot be made", folder.display()))?;
    let store = tokio::task::spawn_blocking(move || EmbeddedStore::open(embedded::Options::at(folder))).await??;
    let mut stores = store.stores();
    if !settings.blobs.is_empty() {
        if settings.blobs.starts_with("s3://") {
            has_keys(&settings.s3)?;
        }
        stores.blobs = blobs_at(&settings.blobs, &bucket(&settings.s3)).context("storage.blobs")?;
    }
    Ok((store, stores))
}

fn bucket(settings: &BucketOptions) -> S3Options {
    let named = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    S3Options { endpoint: named(&settings.endpoint), region: named(&settings.region), ..S3Options::default() }
}

/// Amazon gives a machine or a pod its keys by many ways; another server has only those of the environment.
fn has_keys(settings: &BucketOptions) -> Result<()> {
    let given = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    anyhow::ensure!(
        settings.endpoint.is_empty() || (given("AWS_ACCESS_KEY_ID") && given("AWS_SECRET_ACCESS_KEY")),
        "storage.s3.endpoint needs keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    );
    Ok(())
}

/// Makes the data folder for its owner alone, unless it is there.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
