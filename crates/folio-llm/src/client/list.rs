//! The model list of an endpoint (`GET models`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::failure::Failure;
use super::openai::{self, Bounds};
use crate::model::{ModelError, TimeLimit};
use crate::options::{is_context_size, is_model_name};
use crate::stream::StreamError;

const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum length of a list, in bytes. Some endpoints describe hundreds of models.
const BODY_BYTES: usize = 4 << 20;
const MODELS_MAX: usize = 1_000;

/// A model in the list of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    pub name: String,
    /// Context size that the list states. None: it states none.
    pub context_tokens: Option<u32>,
}

/// Returns the models, sorted by name. The request is not a model call: it takes no permit and does not affect the
/// circuit breaker.
pub(super) async fn models(endpoint: &Arc<Endpoint>) -> Result<Vec<ListedModel>, ModelError> {
    let bounds = Bounds { end: Instant::now() + TIMEOUT, limit: TimeLimit::ModelList, body_bytes: BODY_BYTES };
    let answer = openai::client(endpoint, "", bounds).models().list_byot::<Box<RawValue>>().await;
    let models = answer
        .map_err(|error| openai::failure(endpoint, error))
        .and_then(|answer| parse(answer.get()).map_err(|error| Failure::invalid_answer(error, &endpoint.key)));
    models.map_err(|failure| failure.error)
}

/// Parses `{"data": [{"id": …}]}`, OpenAI's format, and also a bare list and `models` with `name`, which other
/// endpoints use. Everything else in the body is skipped without being parsed, because a small body can contain many
/// values.
fn parse(answer: &str) -> Result<Vec<ListedModel>, StreamError> {
    let malformed = || StreamError::Malformed("the model list has an unknown format".to_owned());
    let List(mut models) = if answer.trim_ascii_start().starts_with('[') {
        serde_json::from_str(answer).map_err(|_| malformed())?
    } else {
        let lists: Lists = serde_json::from_str(answer).map_err(|_| malformed())?;
        lists.data.or(lists.models).ok_or_else(malformed)?
    };
    models.sort_by(|a, b| a.name.cmp(&b.name));
    models.dedup_by(|a, b| a.name == b.name);
    Ok(models)
}

#[derive(Deserialize)]
struct Lists {
    data: Option<List>,
    models: Option<List>,
}

#[derive(Deserialize)]
struct Model {
    id: Option<String>,
    name: Option<String>,
    /// The context size has one of these names; `meta` is that of llama.cpp.
    context_length: Option<Box<RawValue>>,
    max_model_len: Option<Box<RawValue>>,
    context_window: Option<Box<RawValue>>,
    meta: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Meta {
    /// Context of the running server, which newer versions state.
    n_ctx: Option<u64>,
    n_ctx_train: Option<u64>,
}

impl Model {
    /// Returns the model, if its name is valid.
    fn into_listed(self) -> Option<ListedModel> {
        let stated = [&self.context_length, &self.max_model_len, &self.context_window];
        let sizes = stated.into_iter().flatten().map(|size| size.get().parse::<u32>().ok());
        let meta = self.meta.as_ref().and_then(|meta| serde_json::from_str::<Meta>(meta.get()).ok());
        let size = |size: Option<u64>| size.and_then(|size| u32::try_from(size).ok());
        let sizes = sizes.chain(meta.into_iter().flat_map(|meta| [size(meta.n_ctx), size(meta.n_ctx_train)]));
        let context_tokens = sizes.flatten().find(|tokens| is_context_size(*tokens));
        let name = self.id.or(self.name).filter(|name| is_model_name(name))?;
        Some(ListedModel { name, context_tokens })
    }
}

/// Models of a list, at most [`MODELS_MAX`].
struct List(Vec<ListedModel>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(list: D) -> Result<Self, D::Error> {
        list.deserialize_seq(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = List;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of models")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<List, A::Error> {
        let mut models = Vec::new();
        while models.len() < MODELS_MAX {
            let Some(model) = list.next_element::<Model>()? else { return Ok(List(models)) };
            models.extend(model.into_listed());
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(List(models))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(answer: &str) -> Result<Vec<String>, StreamError> {
        parse(answer).map(|models| models.into_iter().map(|model| model.name).collect())
    }

    #[test]
    fn the_context_size_is_read_under_every_name_and_only_if_it_is_plausible() {
        for (fields, tokens) in [
            (r#""context_length": 131072"#, Some(131_072)),
            (r#""max_model_len": 8192"#, Some(8_192)),
            (r#""context_window": 16384"#, Some(16_384)),
            (r#""meta": {"n_ctx_train": 32768, "n_params": 1543714304}"#, Some(32_768)),
            (r#""meta": {"n_ctx_train": 32768, "n_ctx": 4096}"#, Some(4_096)),
            (r#""context_length": null, "max_model_len": 8192"#, Some(8_192)),
            (r#""context_length": 0, "max_model_len": 8192"#, Some(8_192)),
            (r#""context_length": "large""#, None),
            (r#""context_length": -1"#, None),
            (r#""context_length": {"deep": [1]}"#, None),
            (r#""context_length": 999999999999"#, None),
            (r#""meta": [1]"#, None),
            (r#""meta": null"#, None),
            (r#""owned_by": "me""#, None),
        ] {
            let list = format!(r#"{{"data": [{{"id": "a", {fields}}}]}}"#);
            assert_eq!(parse(&list).unwrap(), [ListedModel { name: "a".into(), context_tokens: tokens }], "{fields}");
        }
    }

    #[test]
    fn the_names_of_a_list_are_read_in_order_and_once() {
        for list in [
            r#"{"object": "list", "data": [{"id": "b"}, {"id": "a"}, {"id": "b"}, {"id": "no name"}, {"object": 1}]}"#,
            r#"[{"id": "b"}, {"id": "a"}]"#,
            r#"{"models": [{"name": "a"}, {"name": "b"}, {"name": ""}]}"#,
        ] {
            assert_eq!(names(list).unwrap(), ["a", "b"], "{list}");
        }
        assert_eq!(names(r#"{"data": []}"#).unwrap(), Vec::<String>::new());
        for bad in ["", "{}", r#"{"data": {}}"#, "nonsense", r#"{"data": [{"id": "a"}"#] {
            assert!(names(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_first_names_of_a_long_list_are_kept() {
        let numbers = format!("[0{}]", ",0".repeat(BODY_BYTES / 2));
        assert!(names(&numbers).is_err(), "values that are no models are not read to the end");
        let long: Vec<String> =
            (0..MODELS_MAX * 3).map(|n| format!(r#"{{"id": "m{n:05}", "about": [{n}, {{}}]}}"#)).collect();
        let kept = names(&format!("[{}]", long.join(","))).unwrap();
        assert_eq!((kept.len(), kept[MODELS_MAX - 1].as_str()), (MODELS_MAX, "m00999"));
    }
}
