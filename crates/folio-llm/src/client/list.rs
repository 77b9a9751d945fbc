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
use crate::options::is_model_name;
use crate::stream::StreamError;

const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum length of a list, in bytes. Some endpoints describe hundreds of models.
const BODY_BYTES: usize = 4 << 20;
const MODELS_MAX: usize = 1_000;

/// Returns the names of the models, sorted. The request is not a model call: it takes no permit and does not affect the
/// circuit breaker.
pub(super) async fn models(endpoint: &Arc<Endpoint>) -> Result<Vec<String>, ModelError> {
    let bounds = Bounds { end: Instant::now() + TIMEOUT, limit: TimeLimit::ModelList, body_bytes: BODY_BYTES };
    let answer = openai::client(endpoint, "", bounds).models().list_byot::<Box<RawValue>>().await;
    let names = answer
        .map_err(|error| openai::failure(endpoint, error))
        .and_then(|answer| names(answer.get()).map_err(|error| Failure::invalid_answer(error, &endpoint.key)));
    names.map_err(|failure| failure.error)
}

/// Parses `{"data": [{"id": …}]}`, OpenAI's format, and also a bare list and `models` with `name`, which other
/// endpoints use. Everything else in the body is skipped without being stored, because a small body can contain many
/// values.
fn names(answer: &str) -> Result<Vec<String>, StreamError> {
    let malformed = || StreamError::Malformed("the model list has an unknown format".to_owned());
    let Names(mut names) = if answer.trim_ascii_start().starts_with('[') {
        serde_json::from_str(answer).map_err(|_| malformed())?
    } else {
        let lists: Lists = serde_json::from_str(answer).map_err(|_| malformed())?;
        lists.data.or(lists.models).ok_or_else(malformed)?
    };
    names.sort();
    names.dedup();
    Ok(names)
}

#[derive(Deserialize)]
struct Lists {
    data: Option<Names>,
    models: Option<Names>,
}

#[derive(Deserialize)]
struct Model {
    id: Option<String>,
    name: Option<String>,
}

impl Model {
    /// Returns the name of the model, if it is valid.
    fn into_name(self) -> Option<String> {
        self.id.or(self.name).filter(|name| is_model_name(name))
    }
}

/// Names of a list, at most [`MODELS_MAX`].
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(list: D) -> Result<Self, D::Error> {
        list.deserialize_seq(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Names;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of models")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
        let mut names = Vec::new();
        while names.len() < MODELS_MAX {
            let Some(model) = list.next_element::<Model>()? else { return Ok(Names(names)) };
            names.extend(model.into_name());
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Names(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
