//! Model settings with the embedded store and simulated model endpoints.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use folio_llm::{
    EmbeddingRequest, ModelError, ModelKind, ModelOptions, ModelReply, ModelRequest, Models as _, Progress,
    RerankRequest,
};
use folio_providers::{Options, ProviderChange, Providers, ReencryptedKeys, SecretsOptions, Vault};
use folio_resources::{
    Kind, ModelDefaults, ModelSettings, ModelSettingsChange, Organization, OrganizationChange, Provider,
};
use folio_storage::{ResourceExecutor, StoredResource, Stores};
use folio_storage_conformance::layer::{Layered, ResourceLayer};
use folio_storage_embedded::EmbeddedStore;
use folio_testkit::wait_for;
use folio_types::message::Message;
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::{Environment, Error, Etag, OrgId, Reason, RequestId, Result, Secret, System};
use llm_sim::{LlmSim, Script};
use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const KEY: &str = "sk-tenant-very-secret-0123456789";
/// 32 bytes each, in Base64.
const MASTER_KEYS: [&str; 2] =
    ["MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="];

/// An embedded store in a temporary folder.
struct Fixture {
    stores: Stores,
    store: EmbeddedStore,
    // The last field, so that the folder outlives the store.
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> anyhow::Result<Self> {
        record_model_spans()?;
        let folder = tempfile::tempdir()?;
        let store = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path()))?;
        Ok(Self { stores: store.stores(), store, folder })
    }
}

fn master(keys: &[&str]) -> SecretsOptions {
    SecretsOptions { master_keys: keys.iter().map(|key| Secret::new(key)).collect(), ..SecretsOptions::default() }
}

/// Creates the providers of a process whose platform has one endpoint with the model `hub-model`.
fn process(stores: &Stores, hub: &str, keys: &[&str], networks: &[&str]) -> anyhow::Result<Providers> {
    let mut table = folio_llm::Options::openai(Secret::new("hub-key"), Some(hub), Some("hub-model"));
    table.providers.values_mut().for_each(|provider| provider.own_keys = None);
    process_with_table(table, stores, keys, networks)
}

/// Creates the providers of a process with this platform table.
fn process_with_table(
    mut table: folio_llm::Options,
    stores: &Stores,
    keys: &[&str],
    networks: &[&str],
) -> anyhow::Result<Providers> {
    table.retries.retries = 0;
    let networks = networks.iter().map(|network| network.parse().map_err(anyhow::Error::msg));
    let options = Options {
        refresh_seconds: Duration::from_millis(50),
        allowed_networks: networks.collect::<anyhow::Result<_>>()?,
        // Does not contain the test endpoints.
        denied_networks: vec!["192.0.2.0/24".parse().map_err(anyhow::Error::msg)?],
    };
    let environment: Arc<dyn Environment> = Arc::new(System);
    Ok(Providers::new(table, &options, Vault::new(&master(keys))?, stores, environment)?)
}

fn org(name: &str) -> OrgId {
    OrgId::derive(&[name])
}

fn write(owner: &OrgId) -> Write<()> {
    Write::by_platform(owner.clone(), RequestId::generate(&System), System.now(), Expected::Absent, ())
}

fn own(url: &str, models: &[&str]) -> ProviderChange {
    let models = models.iter().map(|name| ((*name).to_owned(), ModelOptions::default())).collect();
    ProviderChange {
        base_url: Some(url.to_owned()),
        api_key: Some(Secret::new(KEY)),
        models: Some(models),
        ..ProviderChange::default()
    }
}

fn default_model(name: &str) -> ModelDefaults {
    ModelDefaults { default_model: Some(name.to_owned()), ..ModelDefaults::default() }
}

async fn complete(providers: &Providers, org: &OrgId, model: &str) -> Result<ModelReply, ModelError> {
    let request = ModelRequest::new(org.clone(), model, vec![Message::user("Hello.".to_owned())]);
    providers.complete(request).await
}

async fn names(providers: &Providers, org: &OrgId) -> Result<Vec<String>> {
    Ok(providers.catalogue(org).await?.list().iter().map(|model| model.name.clone()).collect())
}

/// Returns true if a file below the folder contains these bytes.
fn contains_bytes(folder: &Path, bytes: &[u8]) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let found = if path.is_dir() {
            contains_bytes(&path, bytes)?
        } else {
            std::fs::read(&path)?.windows(bytes.len()).any(|window| window == bytes)
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

#[tokio::test]
async fn an_organization_calls_its_own_endpoint_with_its_own_key_and_others_the_platforms() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let hub = LlmSim::builder().script(Script::always("from the hub")).api_key("hub-key").start().await?;
    let endpoint_of_organization = LlmSim::builder().script(Script::always("their own")).api_key(KEY).start().await?;
    let one = process(&test.stores, &hub.url(), &MASTER_KEYS[..1], &["127.0.0.0/8"])?;
    let two = process(&test.stores, &hub.url(), &MASTER_KEYS[..1], &["127.0.0.0/8"])?;
    let (us, them) = (org("us"), org("them"));
    assert_eq!(names(&two, &them).await?, ["hub-model"]);

    let settings = one.update(write(&them), "mine", None, own(&endpoint_of_organization.url(), &["scripted"])).await?;
    assert_eq!(settings.version, 1);
    assert_eq!(
        names(&one, &them).await?,
        ["hub-model", "scripted"],
        "the process that made the change applies it at once"
    );
    wait_for("the other process sees it", Duration::from_secs(30), async || {
        names(&two, &them).await.is_ok_and(|names| names.len() == 2).then_some(())
    })
    .await;
    for process in [&one, &two] {
        assert_eq!(complete(process, &them, "scripted").await?.text, "their own");
        assert_eq!(complete(process, &us, "hub-model").await?.text, "from the hub");
        assert_eq!(complete(process, &us, "scripted").await, Err(ModelError::NotAvailable("scripted".to_owned())));
    }
    assert_eq!(names(&one, &us).await?, ["hub-model"]);

    let found = one.discover(write(&them), "mine").await?;
    let found = found.providers.get("mine").map(|provider| provider.available.clone()).unwrap_or_default();
    assert!(!found.is_empty(), "the endpoint's own list");
    let missing = one.discover(write(&us), "mine").await.map(drop).map_err(|error| error.reason);
    assert_eq!(missing, Err(Reason::NotFound), "a provider of another organization is missing");

    let shown = format!("{:?} {:?}", one.settings(&them).await?, one.models_of(&them).await?.options());
    assert!(!shown.contains(KEY), "{shown}");
    drop((one, two));
    test.store.close().await;
    assert!(contains_bytes(test.folder.path(), b"\"base_url\"")?, "the settings are in the store");
    assert!(!contains_bytes(test.folder.path(), KEY.as_bytes())?, "the key is not in the store");
    Ok(())
}

#[tokio::test]
async fn a_url_of_an_organization_cannot_reach_the_operators_network() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let sim = LlmSim::builder().script(Script::always("inside")).start().await?;
    let providers = process(&test.stores, &sim.url(), &MASTER_KEYS[..1], &[])?;
    let them = org("them");
    assert_eq!(complete(&providers, &them, "hub-model").await?.text, "inside", "the platform may use the address");

    let refused = providers.update(write(&them), "mine", None, own(&sim.url(), &["scripted"])).await;
    assert_eq!(refused.map(drop).map_err(|error| error.reason), Err(Reason::InvalidField), "a literal address");
    let denied = process(&test.stores, &sim.url(), &MASTER_KEYS[..1], &["192.0.2.0/23"])?;
    for (url, taken) in [("http://192.0.2.7/v1", Err(Reason::InvalidField)), ("http://192.0.3.7/v1", Ok(()))] {
        let set = denied.update(write(&them), "denied", None, own(url, &["denied"])).await;
        assert_eq!(set.map(drop).map_err(|error| error.reason), taken, "{url}");
    }
    let port = sim.address().port();
    let named = own(&format!("http://localhost:{port}/v1"), &["scripted"]);
    providers.update(write(&them), "mine", None, named).await?;
    let refused = complete(&providers, &them, "scripted").await;
    assert!(
        matches!(&refused, Err(ModelError::Unreachable(what)) if what.contains("the host has no permitted address")),
        "{refused:?}"
    );
    let message = refused.map(drop).map_err(|error| error.to_string()).err().unwrap_or_default();
    assert!(!message.contains("127.0.0.1") && !message.contains("::1"), "{message}");

    let platform = OrgId::platform();
    providers.update(write(&platform), "rack", None, own(&sim.url(), &["rack-model"])).await?;
    assert_eq!(
        complete(&providers, &them, "rack-model").await?.text,
        "inside",
        "the platform administrator may use the address"
    );
    let allowed = process(&test.stores, &sim.url(), &MASTER_KEYS[..1], &["127.0.0.1", "::1"])?;
    assert_eq!(complete(&allowed, &them, "scripted").await?.text, "inside", "the network is allowed");
    Ok(())
}

thread_local! {
    /// Fields of the model call spans of this thread: of one test, because a test runs on one thread of its own.
    static MODEL_SPAN_FIELDS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Starts the recording for the whole process. A subscriber of one test would miss spans: `tracing` disables a span for
/// the whole process if a test without a subscriber reaches the span first.
fn record_model_spans() -> anyhow::Result<()> {
    static IS_RECORDING: LazyLock<bool> = LazyLock::new(|| tracing::subscriber::set_global_default(ModelSpans).is_ok());
    anyhow::ensure!(*IS_RECORDING, "the process has another subscriber");
    Ok(())
}

/// Records the fields of model call spans, which become labels of metrics.
struct ModelSpans;

impl Visit for &ModelSpans {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        MODEL_SPAN_FIELDS.with_borrow_mut(|fields| fields.push(format!("{}={value:?}", field.name())));
    }
}

impl Subscriber for ModelSpans {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.is_span() && about.name() == "model"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut &*self);
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, _event: &Event<'_>) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[tokio::test]
async fn metrics_omit_models_that_an_organization_uses_with_its_own_key() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let hub = LlmSim::builder().script(Script::always("from the hub")).start().await?;
    let process = process(&test.stores, &hub.url(), &MASTER_KEYS[..1], &[])?;
    let platform: Vec<String> =
        process.models_of(&org("them")).await?.endpoints().into_iter().map(|endpoint| endpoint.name).collect();
    let [platform] = platform.as_slice() else { anyhow::bail!("one provider: {platform:?}") };
    for name in ["us", "them"] {
        let model = format!("model-of-{name}");
        let key = Some(Secret::new(&format!("{KEY}-{name}")));
        let set = ProviderChange { base_url: None, api_key: key, ..own("", &[&model]) };
        process.update(write(&org(name)), platform, None, set).await?;
        let answer = complete(&process, &org(name), &model).await?;
        assert_eq!(answer.text, "from the hub", "the URL is the platform's");
    }
    complete(&process, &org("others"), "hub-model").await?;
    let fields = MODEL_SPAN_FIELDS.take();
    let has = |field: &str, value: &str| fields.iter().filter(|entry| **entry == format!("{field}={value:?}")).count();
    for (provider, model, count) in [("(tenants)", "(tenants)", 2), (platform.as_str(), "hub-model", 1)] {
        assert_eq!(has("gen_ai.provider.name", provider), count, "{fields:?}");
        assert_eq!(has("gen_ai.request.model", model), count, "{fields:?}");
    }
    assert!(!fields.iter().any(|entry| entry.contains("model-of-")), "{fields:?}");
    let mut names: Vec<_> = process.endpoints().into_iter().map(|endpoint| endpoint.name).collect();
    names.sort();
    assert_eq!(names, ["(tenants)", "(tenants)", platform.as_str()]);
    Ok(())
}

#[tokio::test]
async fn an_endpoint_without_key_checks_accepts_no_keys_of_organizations() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let hub = LlmSim::builder().script(Script::always("from the hub")).start().await?;
    let keyless = || folio_llm::Options::openai(Secret::default(), Some(&hub.url()), Some("hub-model"));
    let providers = process_with_table(keyless(), &test.stores, &MASTER_KEYS[..1], &[])?;
    let them = org("them");
    let free = ModelOptions { input_price: Some(0), ..ModelOptions::default() };
    let models = Some([("hub-model".to_owned(), free.clone()), ("hidden".to_owned(), free)].into());
    let with_own_key =
        ProviderChange { base_url: None, api_key: Some(Secret::new("x")), models, ..ProviderChange::default() };
    let refused = providers.update(write(&them), "openai", None, with_own_key.clone()).await;
    let refused = refused.map(drop).map_err(|error| (error.reason, error.to_string()));
    let is_refused =
        matches!(&refused, Err((Reason::InvalidField, text)) if text.contains("does not accept organization keys"));
    assert!(is_refused, "{refused:?}");

    let allows = |mut table: folio_llm::Options| {
        table.providers.values_mut().for_each(|provider| provider.own_keys = Some(true));
        process_with_table(table, &test.stores, &MASTER_KEYS[..1], &[])
    };
    let allowing = allows(keyless())?;
    allowing.update(write(&them), "openai", None, with_own_key).await?;
    assert_eq!(names(&allowing, &them).await?, ["hub-model", "hidden"], "the operator permits own keys");
    allowing.discover(write(&them), "openai").await?;
    // The key was stored before the platform forbade own keys. The platform's account, models and prices apply.
    let after = process_with_table(keyless(), &test.stores, &MASTER_KEYS[..1], &[])?;
    assert_eq!(names(&after, &them).await?, ["hub-model"]);
    let price = after.catalogue(&them).await?.get("hub-model").and_then(|model| model.options.input_price);
    assert_eq!(price, None, "the platform's price");
    let discovery = after.discover(write(&them), "openai").await.map(drop).map_err(|error| error.reason);
    assert_eq!(discovery, Err(Reason::NotFound), "the list of models is not requested either");
    let removed =
        ProviderChange { api_key: Some(Secret::default()), models: Some(BTreeMap::new()), ..ProviderChange::default() };
    after.update(write(&them), "openai", None, removed).await?;
    Ok(())
}

#[tokio::test]
async fn a_url_that_is_no_longer_permitted_affects_only_its_own_models() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let sim = LlmSim::builder().script(Script::always("inside")).start().await?;
    let them = org("them");
    let before = process(&test.stores, &sim.url(), &MASTER_KEYS[..1], &["127.0.0.1"])?;
    before.update(write(&them), "inside", None, own(&sim.url(), &["scripted"])).await?;
    before.update(write(&them), "outside", None, own("https://models.example/v1", &["far"])).await?;
    before.set_defaults(write(&them), None, default_model("scripted")).await?;
    assert_eq!(names(&before, &them).await?, ["scripted", "far", "hub-model"]);

    let after = process(&test.stores, &sim.url(), &MASTER_KEYS[..1], &[])?;
    assert_eq!(names(&after, &them).await?, ["hub-model", "far"]);
    assert_eq!(complete(&after, &them, "hub-model").await?.text, "inside");
    Ok(())
}

async fn store_endpoint_models(
    stores: &Stores,
    owner: &OrgId,
    name: &str,
    available: Vec<String>,
) -> anyhow::Result<()> {
    let settings = stores.of::<ModelSettings>().get(owner, ModelSettings::fixed_id()).await?;
    let settings = settings.ok_or_else(|| anyhow::anyhow!("no settings"))?;
    let base_url = settings.providers.get(name).map(|provider| provider.base_url.clone()).unwrap_or_default();
    let change = ModelSettingsChange::SetAvailable {
        name: name.to_owned(),
        base_url,
        available,
        context_tokens: BTreeMap::new(),
    };
    let (key, expected) = (RequestId::generate(&System), Expected::Version(settings.version));
    let write = Write::by_platform(owner.clone(), key, System.now(), expected, change);
    anyhow::ensure!(
        stores.of::<ModelSettings>().decide(ModelSettings::fixed_id(), write).await? != WriteOutcome::VersionMismatch
    );
    Ok(())
}

#[tokio::test]
async fn a_discovery_updates_the_context_sizes_of_models_whose_settings_state_none() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let sim = LlmSim::builder().script(Script::always("hello")).api_key(KEY).context_tokens(9_000).start().await?;
    let providers = process(&test.stores, &sim.url(), &MASTER_KEYS[..1], &["127.0.0.1"])?;
    let them = org("them");
    providers.update(write(&them), "mine", None, own(&sim.url(), &["scripted", "other"])).await?;
    providers.discover(write(&them), "mine").await?;
    let catalogue = providers.catalogue(&them).await?;
    let size = |name: &str| catalogue.get(name).map(|model| model.options.context_tokens);
    assert_eq!((size("scripted"), size("other")), (Some(9_000), Some(32_768)));
    let stored = providers.settings(&them).await?.providers.remove("mine").unwrap_or_default();
    assert_eq!(stored.models["scripted"].context_tokens, 0, "the settings state none");
    Ok(())
}

#[tokio::test]
async fn the_lists_of_an_owners_endpoints_are_bounded_together() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let sim = LlmSim::builder().script(Script::always("hello")).api_key(KEY).start().await?;
    let providers = process(&test.stores, &sim.url(), &MASTER_KEYS[..1], &["127.0.0.1"])?;
    let them = org("them");
    providers.update(write(&them), "far", None, own("https://models.example/v1", &["far"])).await?;
    providers.update(write(&them), "mine", None, own(&sim.url(), &["scripted"])).await?;
    for (names, has_capacity) in [(1_999, true), (2_000, false)] {
        store_endpoint_models(&test.stores, &them, "mine", Vec::new()).await?;
        store_endpoint_models(&test.stores, &them, "far", (0..names).map(|n| n.to_string()).collect()).await?;
        let kept = providers.discover(write(&them), "mine").await?.providers;
        let kept = kept.get("mine").map(|mine| mine.available.len());
        assert_eq!(kept, Some(usize::from(has_capacity)), "with {names} names of another endpoint");
    }
    Ok(())
}

#[tokio::test]
async fn without_a_master_key_only_api_keys_are_refused() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let sim = LlmSim::builder().script(Script::always("hello")).start().await?;
    let providers = process(&test.stores, &sim.url(), &[], &["127.0.0.1"])?;
    let them = org("them");
    let change = own(&sim.url(), &["scripted"]);
    let refused = providers.update(write(&them), "mine", None, change.clone()).await;
    assert_eq!(refused.map(drop).map_err(|error| error.reason), Err(Reason::SecretsUnavailable));
    providers.update(write(&them), "mine", None, ProviderChange { api_key: None, ..change }).await?;
    assert_eq!(complete(&providers, &them, "scripted").await?.text, "hello");
    Ok(())
}

/// A store that cannot read the platform's model settings.
struct UnreadablePlatform;

#[async_trait]
impl ResourceLayer for UnreadablePlatform {
    async fn get(
        &self,
        below: &dyn ResourceExecutor,
        org: &OrgId,
        kind: &'static Kind,
        ids: &[String],
    ) -> Result<Vec<Option<StoredResource>>> {
        if *org == OrgId::platform() && kind == Kind::get::<ModelSettings>() {
            return Err(Error::internal("a row that cannot be read"));
        }
        below.get(org, kind, ids).await
    }
}

#[tokio::test]
async fn every_stored_key_is_encrypted_with_a_new_master_key() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let sim = LlmSim::builder().script(Script::always("hello")).api_key(KEY).start().await?;
    let them = org("them");
    let (key, create) = ("them".parse()?, OrganizationChange::Create { name: "them".to_owned() });
    let create = Write::by_platform(OrgId::platform(), key, System.now(), Expected::Absent, create);
    test.stores.of::<Organization>().decide(&them, create).await?;
    let old = process(&test.stores, &sim.url(), &MASTER_KEYS[..1], &["127.0.0.1"])?;
    old.update(write(&them), "mine", None, own(&sim.url(), &["scripted"])).await?;
    assert!(!old.has_older_master_keys());

    let lost = process(&test.stores, &sim.url(), &MASTER_KEYS[1..], &["127.0.0.1"])?;
    let one = Some(ReencryptedKeys { lost: 1, failed: 0 });
    assert_eq!(lost.reencrypt_keys(&CancellationToken::new()).await?, one, "a key under a master key that is missing");
    assert_eq!(names(&lost, &them).await?, ["hub-model"], "its provider is left out, and not called without a key");

    let both = process(&test.stores, &sim.url(), &[MASTER_KEYS[1], MASTER_KEYS[0]], &["127.0.0.1"])?;
    assert!(both.has_older_master_keys());
    let ended = CancellationToken::new();
    ended.cancel();
    assert_eq!(both.reencrypt_keys(&ended).await?, None, "a cancelled pass returns no result");
    // An unreadable row does not affect the other owners.
    let unreadable =
        Stores { resources: Layered::over(UnreadablePlatform, &test.stores.resources), ..test.stores.clone() };
    let passed = process(&unreadable, &sim.url(), &[MASTER_KEYS[1], MASTER_KEYS[0]], &["127.0.0.1"])?;
    assert_eq!(passed.reencrypt_keys(&CancellationToken::new()).await?, Some(ReencryptedKeys { lost: 0, failed: 1 }));
    let new = process(&test.stores, &sim.url(), &MASTER_KEYS[1..], &["127.0.0.1"])?;
    assert_eq!(complete(&new, &them, "scripted").await?.text, "hello");
    Ok(())
}

#[tokio::test]
async fn changes_are_validated_and_conditional_on_the_version() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let providers = process(&test.stores, "https://hub.example/v1", &MASTER_KEYS[..1], &[])?;
    let them = org("them");
    let reason = |result: Result<ModelSettings>| result.map(drop).map_err(|error| error.reason);
    let url = "https://models.example/v1";
    providers.update(write(&them), "mine", None, own(url, &["a"])).await?;
    let late = providers.update(write(&them), "mine", Some(Etag::new(7)), ProviderChange::default()).await;
    assert_eq!(reason(late), Err(Reason::VersionConflict));
    let twice = providers.update(write(&them), "more", Some(Etag::new(1)), own(url, &["a"])).await;
    assert_eq!(reason(twice), Err(Reason::NameTaken));
    let cheap = ModelOptions { input_price: Some(0), ..ModelOptions::default() };
    let priced = ProviderChange { models: Some([("hub-model".to_owned(), cheap)].into()), ..ProviderChange::default() };
    assert_eq!(
        reason(providers.update(write(&them), "openai", Some(Etag::new(1)), priced).await),
        Err(Reason::InvalidField),
        "only the platform sets the prices of its models"
    );
    let elsewhere =
        ProviderChange { base_url: Some("https://other.example/v1".to_owned()), ..ProviderChange::default() };
    store_endpoint_models(&test.stores, &them, "mine", vec!["a".to_owned()]).await?;
    let moved = providers.update(write(&them), "mine", Some(Etag::new(2)), elsewhere).await?;
    let has_no_key_and_list = |provider: &Provider| {
        provider.key.is_none() && provider.available.is_empty() && provider.discovered_at.is_none()
    };
    assert!(moved.providers.values().all(has_no_key_and_list), "a new URL deletes the key and the list");
    let ghost = providers.set_defaults(write(&them), None, default_model("ghost")).await;
    assert_eq!(reason(ghost), Err(Reason::ModelNotAvailable));
    let fallbacks = Some(vec!["hub-model".to_owned()]);
    providers.set_defaults(write(&them), None, ModelDefaults { fallbacks, ..default_model("a") }).await?;
    assert_eq!(providers.catalogue(&them).await?.default_model(), "a");
    providers.delete(write(&them), "mine", None).await?;
    assert_eq!(reason(providers.delete(write(&them), "mine", None).await), Err(Reason::NotFound));
    assert_eq!(providers.catalogue(&them).await?.default_model(), "hub-model");
    Ok(())
}

#[tokio::test]
async fn an_organization_embeds_and_reranks_with_models_of_its_own() -> anyhow::Result<()> {
    let test = Fixture::new()?;
    let hub = LlmSim::builder().start().await?;
    let own_endpoint = LlmSim::builder().api_key(KEY).start().await?;
    let providers = process(&test.stores, &hub.url(), &MASTER_KEYS[..1], &["127.0.0.1"])?;
    let (us, them) = (org("us"), org("them"));
    let of_kind = |kind, dimensions| ModelOptions { kind, dimensions, ..ModelOptions::default() };
    let vectors = of_kind(ModelKind::Embedding, 16);
    let rates = of_kind(ModelKind::Rerank, 0);
    let models = Some([("vectors".to_owned(), vectors), ("rates".to_owned(), rates)].into());
    let set = ProviderChange { models, ..own(&own_endpoint.url(), &[]) };
    providers.update(write(&us), "mine", None, set).await?;
    let embedding = |org: &OrgId| EmbeddingRequest {
        call_id: String::new(),
        org: org.clone(),
        model: "vectors".to_owned(),
        texts: vec!["a".to_owned(), "b".to_owned()],
        progress: Progress::default(),
    };
    assert!(providers.catalogue(&us).await?.rerank_model().is_none(), "no model was chosen");
    let (embedding_model, rerank_model) = (Some("vectors".to_owned()), Some("rates".to_owned()));
    let chosen = ModelDefaults { embedding_model, rerank_model, ..ModelDefaults::default() };
    providers.set_defaults(write(&us), None, chosen.clone()).await?;
    let catalogue = providers.catalogue(&us).await?;
    let names = [catalogue.embedding_model(), catalogue.rerank_model()].map(|model| model.map(|model| &*model.name));
    assert_eq!(names, [Some("vectors"), Some("rates")]);
    assert!(catalogue.list().iter().all(|model| model.name == "hub-model"), "chats have no other model");
    let answer = providers.embed(embedding(&us)).await?;
    assert_eq!(answer.vectors.iter().map(Vec::len).collect::<Vec<_>>(), [16, 16]);
    let reranking = RerankRequest {
        call_id: String::new(),
        org: us.clone(),
        model: "rates".to_owned(),
        query: "red fox".to_owned(),
        documents: vec!["a dog".to_owned(), "the red fox".to_owned()],
        top_n: 1,
        progress: Progress::default(),
    };
    assert_eq!(providers.rerank(reranking).await?.results.iter().map(|result| result.index).collect::<Vec<_>>(), [1]);
    assert_eq!((own_endpoint.requests().len(), hub.requests().len()), (2, 0));

    assert!(providers.catalogue(&them).await?.embedding_model().is_none());
    assert_eq!(providers.embed(embedding(&them)).await, Err(ModelError::NotAvailable("vectors".to_owned())));
    let refused = providers.set_defaults(write(&them), None, chosen).await;
    anyhow::ensure!(
        refused.is_err_and(|error| error.reason == Reason::ModelNotAvailable),
        "a model of another organization"
    );
    Ok(())
}
