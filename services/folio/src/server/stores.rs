//! The stores of the settings: embedded in a folder, or those of a cluster.

use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use folio_blobs::{S3Options, blobs_at};
use folio_storage::{BlobStore, SharedOptions, SharedStores, Stores};
use folio_storage_cql::CqlStore;
use folio_storage_embedded::EmbeddedStore;
use folio_storage_redis::RedisOptions;
use folio_types::{Environment, Error};

use crate::settings::{BucketOptions, Settings, StorageOptions};

pub(crate) struct Opened {
    pub(crate) stores: Stores,
    /// The stores that the processes of a cluster share. In memory for a single process.
    pub(crate) shared: SharedStores,
    /// The embedded store, which must be closed last. None: the process is part of a cluster.
    pub(crate) embedded: Option<EmbeddedStore>,
}

pub(crate) async fn open(settings: &Settings, environment: &Arc<dyn Environment>) -> Result<Opened> {
    let storage = &settings.storage;
    if storage.is_shared() {
        open_cluster(settings, environment).await
    } else {
        open_embedded(settings, environment).await
    }
}

async fn open_embedded(settings: &Settings, environment: &Arc<dyn Environment>) -> Result<Opened> {
    let storage = &settings.storage;
    let folder = storage.data.clone();
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    created.with_context(|| format!("cannot create the data folder {}", folder.display()))?;
    let options = folio_storage_embedded::Options {
        environment: Arc::clone(environment),
        reserve_bytes: storage.reserve_bytes,
        ..folio_storage_embedded::Options::at(folder)
    };
    let store = tokio::task::spawn_blocking(move || EmbeddedStore::open(options)).await??;
    let mut stores = store.stores();
    if !storage.blobs.is_empty() {
        stores.blobs = blobs(storage)?;
    }
    let bounds = SharedOptions { jobs_max: settings.documents.queue, ..SharedOptions::default() };
    let shared = folio_storage_memory::shared_stores(Arc::clone(environment), bounds);
    Ok(Opened { stores, shared, embedded: Some(store) })
}

async fn open_cluster(settings: &Settings, environment: &Arc<dyn Environment>) -> Result<Opened> {
    let storage = &settings.storage;
    let shared =
        folio_storage_redis::shared_stores(redis_options(settings)).map_err(with_setting("storage.redis.url"))?;
    let blobs = blobs(storage)?;
    let options = folio_storage_cql::Options { environment: Arc::clone(environment), ..storage.cql.adapter() };
    let store = CqlStore::open(options).await.map_err(with_setting("storage.cql"))?;
    Ok(Opened { stores: store.stores(blobs), shared, embedded: None })
}

/// Adds the setting that caused an error.
pub(crate) fn with_setting(path: &'static str) -> impl FnOnce(Error) -> anyhow::Error {
    move |error| anyhow::Error::new(error).context(path)
}

pub(crate) fn redis_options(settings: &Settings) -> RedisOptions {
    let shared = SharedOptions { dead_after: settings.cluster.dead_after, ..SharedOptions::default() };
    RedisOptions { shared, ..settings.storage.redis.adapter() }
}

fn blobs(storage: &StorageOptions) -> Result<Arc<dyn BlobStore>> {
    if storage.blobs.starts_with("s3://") {
        check_keys(&storage.s3)?;
    }
    blobs_at(&storage.blobs, &bucket(&storage.s3)).map_err(with_setting("storage.blobs"))
}

fn bucket(settings: &BucketOptions) -> S3Options {
    let non_empty = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    S3Options { endpoint: non_empty(&settings.endpoint), region: non_empty(&settings.region), ..S3Options::default() }
}

/// Checks that a bucket has keys. A server other than Amazon's receives them only from the environment.
fn check_keys(settings: &BucketOptions) -> Result<()> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    anyhow::ensure!(
        settings.endpoint.is_empty() || (is_set("AWS_ACCESS_KEY_ID") && is_set("AWS_SECRET_ACCESS_KEY")),
        "storage.s3.endpoint requires keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    );
    Ok(())
}
