//! What may be set of model providers.

use std::collections::BTreeMap;

use folio_llm::{ModelOptions, ProviderOptions, Reach, options};
use folio_types::models::{ModelSettings, Provider};
use folio_types::{Error, Reason, Result, Secret};

/// Providers of an owner.
pub(crate) const PROVIDERS_MAX: usize = 32;
/// Models of an owner's providers together: with them its settings are read at each refresh.
pub(crate) const MODELS_MAX: usize = 300;
/// Models that stand in for others.
pub(crate) const FALLBACKS_MAX: usize = 8;
/// Names in the lists of an owner's endpoints together, and their bytes.
pub(crate) const LISTED_MAX: usize = 2_000;
const LISTED_BYTES: usize = 64 * 1024;
const NAME_CHARS: usize = 64;
const URL_BYTES: usize = 500;
const KEY_BYTES: usize = 4_096;

/// The name of a provider: it stands in records and errors.
pub(crate) fn name(field: &str, name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= NAME_CHARS && name.chars().all(good) {
        return Ok(());
    }
    Err(Error::invalid_field(field, format!("must be 1 to {NAME_CHARS} characters of a-z, 0-9, -, _ and .")))
}

/// Where an endpoint is. `reach`: where an organization may point to; none: the platform, which may point anywhere.
pub(crate) fn base_url(field: &str, text: &str, reach: Option<&Reach>) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    if text.len() > URL_BYTES {
        return Err(Error::invalid_field(field, format!("is longer than {URL_BYTES} bytes")));
    }
    let url = options::check_url(text).map_err(|what| Error::invalid_field(field, what))?;
    if reach.is_some_and(|reach| !reach.allows_url(&url)) {
        return Err(Error::invalid_field(field, "leads into a network that is not public"));
    }
    Ok(())
}

pub(crate) fn api_key(field: &str, key: &Secret) -> Result<()> {
    let text = key.reveal();
    let wrong = if text.len() > KEY_BYTES {
        "is too long"
    } else if key.is_mask() {
        "is the mask of a key that is not shown, not a key"
    } else if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        "holds characters that no key has (spaces, line breaks or non-ASCII)"
    } else {
        return Ok(());
    };
    Err(Error::invalid_field(field, wrong))
}

/// The models of one provider. `below`: the platform's provider of the same name.
pub(crate) fn models(field: &str, set: &Provider, below: Option<&ProviderOptions>) -> Result<()> {
    for (name, model) in &set.models {
        let path = format!("{field}[{name}]");
        if let Some(what) = options::model_problem(name, model) {
            return Err(Error::invalid_field(path, what));
        }
        if set.is_own() {
            continue;
        }
        let Some(theirs) = below.and_then(|below| below.models.get(name)) else {
            let what =
                "is no model of the platform's provider of this name; other ones need a base URL or a key of your own";
            return Err(Error::invalid_field(path, what));
        };
        if !narrows(model, theirs) {
            let what = "the platform pays for it: only enabled, chat and prompts can be set without a base URL or a key of your own";
            return Err(Error::invalid_field(path, what));
        }
    }
    Ok(())
}

/// Whether nothing is set but what of the platform's model is offered.
fn narrows(set: &ModelOptions, theirs: &ModelOptions) -> bool {
    let ModelOptions { enabled, chat, prompts, .. } = set.clone();
    let offered = |base: &ModelOptions| ModelOptions { enabled, chat, prompts, ..base.clone() };
    *set == offered(theirs) || *set == offered(&ModelOptions::default())
}

/// As many names of an endpoint's list as have room beside the lists of the owner's other endpoints.
pub(crate) fn listed<'a>(names: &[String], others: impl Iterator<Item = &'a Provider>) -> Vec<String> {
    let (mut count, mut bytes) = lists(others);
    let fits = |name: &&String| {
        (count, bytes) = (count + 1, bytes + name.len());
        count <= LISTED_MAX && bytes <= LISTED_BYTES
    };
    names.iter().take_while(fits).cloned().collect()
}

/// How many names the lists of providers have, and how many bytes.
fn lists<'a>(providers: impl Iterator<Item = &'a Provider>) -> (usize, usize) {
    let names = providers.flat_map(|provider| &provider.available);
    names.fold((0, 0), |(count, bytes), name| (count + 1, bytes + name.len()))
}

/// All settings of an owner together.
pub(crate) fn whole(settings: &ModelSettings) -> Result<()> {
    let full = |what: &str, most: usize| {
        Error::exhausted(Reason::QuotaExceeded, format!("an organization has at most {most} {what}"))
    };
    if settings.providers.len() > PROVIDERS_MAX {
        return Err(full("model providers", PROVIDERS_MAX));
    }
    if settings.providers.values().map(|provider| provider.models.len()).sum::<usize>() > MODELS_MAX {
        return Err(full("models of its providers together", MODELS_MAX));
    }
    let (names, bytes) = lists(settings.providers.values());
    if names > LISTED_MAX || bytes > LISTED_BYTES {
        return Err(full("names in the lists of its endpoints together", LISTED_MAX));
    }
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    for (provider, set) in settings.providers.iter().filter(|(_, set)| set.enabled && set.is_own()) {
        for name in set.models.iter().filter(|(_, model)| model.enabled).map(|(name, _)| name) {
            if let Some(other) = taken.insert(name, provider) {
                let what = format!(
                    "providers {other} and {provider} both have a model {name}; rename one and give its upstream name"
                );
                return Err(Error::invalid_field("models", what).because(Reason::NameTaken));
            }
        }
    }
    Ok(())
}
