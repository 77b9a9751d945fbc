//! Validation of model settings.

use std::collections::BTreeMap;

use folio_llm::{ModelOptions, ProviderOptions, Reach, options};
use folio_types::models::{ModelSettings, Provider};
use folio_types::{Error, Reason, Result, Secret};

/// Maximum providers of an owner.
pub(crate) const PROVIDERS_MAX: usize = 32;
/// Maximum models of an owner's providers together. Each refresh reads them all.
pub(crate) const MODELS_MAX: usize = 300;
/// Maximum fallback models.
pub(crate) const FALLBACKS_MAX: usize = 8;
/// Maximum names in the lists of an owner's endpoints together, and their size in bytes.
pub(crate) const LISTED_MAX: usize = 2_000;
const LISTED_BYTES: usize = 64 * 1024;
const NAME_CHARS: usize = 64;
const URL_BYTES: usize = 500;
const KEY_BYTES: usize = 4_096;

/// Validates the name of a provider, which records and errors contain.
pub(crate) fn name(field: &str, name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= NAME_CHARS && name.chars().all(good) {
        return Ok(());
    }
    Err(Error::invalid_field(field, format!("must be 1 to {NAME_CHARS} characters of a-z, 0-9, -, _ and .")))
}

/// Validates the base URL of an endpoint. `reach`: networks that an organization's URL may lead to. None: the platform,
/// whose URLs are unrestricted.
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
        "is the mask that replaces a key in output, not a key"
    } else if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        "contains spaces, line breaks or non-ASCII characters"
    } else {
        return Ok(());
    };
    Err(Error::invalid_field(field, wrong))
}

/// Validates the models of one provider. `below`: the platform's provider with the same name.
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
                "is not a model of the platform's provider with this name; other models need your own base URL or key";
            return Err(Error::invalid_field(path, what));
        };
        if !narrows(model, theirs) {
            let what =
                "the platform pays for it: only enabled, chat and prompts can be set without your own base URL or key";
            return Err(Error::invalid_field(path, what));
        }
    }
    Ok(())
}

/// Returns true if the settings only restrict the platform's model.
fn narrows(set: &ModelOptions, theirs: &ModelOptions) -> bool {
    let ModelOptions { enabled, chat, prompts, .. } = set.clone();
    let offered = |base: &ModelOptions| ModelOptions { enabled, chat, prompts, ..base.clone() };
    *set == offered(theirs) || *set == offered(&ModelOptions::default())
}

/// Cuts an endpoint's list of names to the space that the lists of the owner's other endpoints leave.
pub(crate) fn listed<'a>(names: &[String], others: impl Iterator<Item = &'a Provider>) -> Vec<String> {
    let (mut count, mut bytes) = lists(others);
    let fits = |name: &&String| {
        (count, bytes) = (count + 1, bytes + name.len());
        count <= LISTED_MAX && bytes <= LISTED_BYTES
    };
    names.iter().take_while(fits).cloned().collect()
}

/// Returns the number of names in the lists of providers, and their bytes.
fn lists<'a>(providers: impl Iterator<Item = &'a Provider>) -> (usize, usize) {
    let names = providers.flat_map(|provider| &provider.available);
    names.fold((0, 0), |(count, bytes), name| (count + 1, bytes + name.len()))
}

/// Validates all settings of an owner together.
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
