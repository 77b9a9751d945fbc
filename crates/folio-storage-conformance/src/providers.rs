//! [`folio_storage::ProviderStore`].

use folio_types::models::{ModelSettings, Provider, SealedKey};

use super::context::Context;
use super::{Outcome, check, same};

/// Changes that are tried at the same moment.
const AT_ONCE: u64 = 4;

pub(crate) async fn suite(context: &Context) -> Outcome {
    let store = &context.stores.providers;
    same!(store.settings(&context.org).await?, None, "settings before there are any");
    let key = SealedKey { master: "m1".to_owned(), sealed: "AAAA".to_owned() };
    let provider = Provider { base_url: "https://models.example/v1".to_owned(), key: Some(key), ..Provider::default() };
    let first =
        ModelSettings { version: 1, providers: [("own".to_owned(), provider)].into(), ..ModelSettings::default() };
    let early = ModelSettings { version: 2, ..first.clone() };
    check!(!store.change(&context.org, early.clone()).await?, "a second version where there is no first one");
    check!(store.change(&context.org, first.clone()).await?, "the first version");
    same!(store.settings(&context.org).await?, Some(first.clone()), "settings read back");
    let other = ModelSettings { default_model: "other".to_owned(), ..first.clone() };
    check!(!store.change(&context.org, other).await?, "another first version");
    same!(store.settings(&context.org).await?, Some(first.clone()), "settings after a change that was refused");
    same!(store.settings(&context.other()).await?, None, "settings of another organization");
    check!(store.change(&context.org, early).await?, "a change on the version that is there");

    let changes = (0..AT_ONCE).map(|n| {
        let new = ModelSettings { version: 3, default_model: format!("model-{n}"), ..first.clone() };
        async move { Ok::<_, super::Failure>((store.change(&context.org, new.clone()).await?, new)) }
    });
    let done = futures::future::try_join_all(changes).await?;
    let stands: Vec<_> = done.into_iter().filter(|(stands, _)| *stands).map(|(_, new)| new).collect();
    same!(stands.len(), 1, "changes of one version that stand");
    same!(store.settings(&context.org).await?, stands.first().cloned(), "settings after changes at the same moment");
    Ok(())
}
