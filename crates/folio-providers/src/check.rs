//! Validation of a provider against the platform's provider of the same name and the address policy.

use folio_llm::{AddressPolicy, ModelOptions, ProviderOptions, options};
use folio_resources::Provider;
use folio_types::{Error, Result, Secret};

// proto: Provider.base_url "at most {} bytes"
const URL_BYTES: usize = 500;
// proto: Provider.api_key "at most {} characters"
const KEY_BYTES: usize = 4_096;

/// Validates the base URL of an endpoint. `policy`: the permitted addresses. None: the platform, whose URLs are
/// unrestricted.
pub(crate) fn base_url(field: &str, text: &str, policy: Option<&AddressPolicy>) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    if text.len() > URL_BYTES {
        return Err(Error::invalid_field(field, format!("is longer than {URL_BYTES} bytes")));
    }
    let url = options::check_url(text).map_err(|problem| Error::invalid_field(field, problem))?;
    if policy.is_some_and(|policy| !policy.allows_url(&url)) {
        return Err(Error::invalid_field(field, AddressPolicy::REQUIREMENT));
    }
    Ok(())
}

pub(crate) fn api_key(field: &str, key: &Secret) -> Result<()> {
    let text = key.reveal();
    let problem = if text.len() > KEY_BYTES {
        &format!("is longer than {KEY_BYTES} bytes")
    } else if key.is_mask() {
        "is the placeholder that output shows instead of a key"
    } else if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        "contains spaces, line breaks or non-ASCII characters"
    } else {
        return Ok(());
    };
    Err(Error::invalid_field(field, problem))
}

/// Validates the models of a provider. `platform`: the platform's provider with the same name.
pub(crate) fn models(field: &str, set: &Provider, platform: Option<&ProviderOptions>) -> Result<()> {
    for (name, model) in &set.models {
        let path = format!("{field}[{name}]");
        if let Some(problem) = options::model_problem(name, model) {
            return Err(Error::invalid_field(path, problem));
        }
        if set.is_own() {
            continue;
        }
        let Some(offered) = platform.and_then(|platform| platform.models.get(name)) else {
            let problem =
                "is not a model of the platform's provider with this name; other models need your own base URL or key";
            return Err(Error::invalid_field(path, problem));
        };
        if !only_restricts(model, offered) {
            let problem =
                "the platform pays for it: only enabled, chat and prompts can be set without your own base URL or key";
            return Err(Error::invalid_field(path, problem));
        }
    }
    Ok(())
}

/// Returns true if the settings only restrict the platform's model.
fn only_restricts(set: &ModelOptions, offered: &ModelOptions) -> bool {
    let ModelOptions { enabled, chat, prompts, .. } = set.clone();
    let restricted = |base: &ModelOptions| ModelOptions { enabled, chat, prompts, ..base.clone() };
    *set == restricted(offered) || *set == restricted(&ModelOptions::default())
}
