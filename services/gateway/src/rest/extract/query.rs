//! Query parameters. A repeated parameter has its last value, and unknown parameters are ignored.

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use utoipa::ToSchema;

use super::problem::problem;
use crate::rest::endpoint::{Document, DocumentInput};
use crate::rest::failure::Failure;
use crate::services::Api;

/// Maximum number of parameters. Further ones are refused.
const PARAMETERS_MAX: usize = 100;

/// The query parameters of a request, as members of `T`.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Failure> {
        parse(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

impl<T: ToSchema> DocumentInput for Query<T> {
    fn document(document: &mut Document) {
        document.query::<T>();
    }
}

fn parse<T: DeserializeOwned>(query: &str) -> Result<T, Failure> {
    let mut values = BTreeMap::new();
    for (count, (name, value)) in form_urlencoded::parse(query.as_bytes()).enumerate() {
        if count >= PARAMETERS_MAX {
            return Err(Failure::bad_request(format!("The request has more than {PARAMETERS_MAX} query parameters")));
        }
        values.insert(name.into_owned(), Text(value.into_owned()));
    }
    let values = MapDeserializer::<_, QueryError>::new(values.into_iter());
    serde_path_to_error::deserialize(values)
        .map_err(|error| Failure::unprocessable(&[problem("query", error.path(), &error.inner().0)]))
}

/// The value of a parameter, which is read according to the type of its member.
struct Text(String);

#[derive(Debug)]
struct QueryError(String);

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QueryError {}

impl serde::de::Error for QueryError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl IntoDeserializer<'_, QueryError> for Text {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Reads integers in decimal form.
macro_rules! integers {
    ($($method:ident => $visit:ident: $type:ty),+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
            match self.0.parse::<$type>() {
                Ok(number) => visitor.$visit(number),
                Err(_) => Err(QueryError::custom("int_parsing: the value is not an integer in its range")),
            }
        })+
    };
}

impl<'de> Deserializer<'de> for Text {
    type Error = QueryError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let value = match self.0.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "y" | "t" => true,
            "false" | "0" | "no" | "off" | "n" | "f" => false,
            _ => return Err(QueryError::custom("bool_parsing: the value is not a boolean")),
        };
        visitor.visit_bool(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    integers!(
        deserialize_u32 => visit_u32: u32,
        deserialize_u64 => visit_u64: u64,
        deserialize_i32 => visit_i32: i32,
        deserialize_i64 => visit_i64: i64
    );

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

/// A number from `MIN` to `MAX`, by default `DEFAULT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounded<const MIN: u32, const MAX: u32, const DEFAULT: u32>(pub(crate) u32);

impl<const MIN: u32, const MAX: u32, const DEFAULT: u32> Default for Bounded<MIN, MAX, DEFAULT> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<'de, const MIN: u32, const MAX: u32, const DEFAULT: u32> Deserialize<'de> for Bounded<MIN, MAX, DEFAULT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        if number < i64::from(MIN) {
            return Err(D::Error::custom(format!("greater_than_equal: the value must be at least {MIN}")));
        }
        match u32::try_from(number) {
            Ok(number) if number <= MAX => Ok(Self(number)),
            _ => Err(D::Error::custom(format!("less_than_equal: the value must be at most {MAX}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use http_body_util::BodyExt as _;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Original,
        Pdf,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Sample {
        #[serde(default)]
        skip: Bounded<0, { u32::MAX }, 0>,
        #[serde(default)]
        limit: Bounded<1, 100, 10>,
        name: Option<String>,
        #[serde(default)]
        force: bool,
        kind: Option<Kind>,
    }

    async fn refused(query: &str) -> Value {
        let response = parse::<Sample>(query).unwrap_err().into_response();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }

    #[test]
    fn parameters_are_read_by_their_type() {
        let expected = Sample { skip: Bounded(0), limit: Bounded(10), name: None, force: false, kind: None };
        assert_eq!(parse::<Sample>("").unwrap(), expected);
        let expected = Sample {
            skip: Bounded(3),
            limit: Bounded(100),
            name: Some("a b".into()),
            force: true,
            kind: Some(Kind::Pdf),
        };
        let query = "skip=3&limit=1&limit=100&name=a+b&force=True&kind=pdf&unknown=1&tag_ids[]=x";
        assert_eq!(parse::<Sample>(query).unwrap(), expected);
        for text in ["true", "1", "YES", "on", "Y", "t"] {
            assert!(parse::<Sample>(&format!("force={text}")).unwrap().force, "{text}");
        }
    }

    #[tokio::test]
    async fn a_malformed_parameter_is_named() {
        for (query, kind, name) in [
            ("limit=0", "greater_than_equal", "limit"),
            ("limit=101", "less_than_equal", "limit"),
            ("limit=99999999999", "less_than_equal", "limit"),
            ("limit=ten", "int_parsing", "limit"),
            ("limit=", "int_parsing", "limit"),
            ("skip=-1", "greater_than_equal", "skip"),
            ("force=", "bool_parsing", "force"),
            ("force=maybe", "bool_parsing", "force"),
            ("kind=docx", "literal_error", "kind"),
        ] {
            let answer = refused(query).await;
            assert_eq!(answer["detail"][0]["type"], kind, "{query}: {answer}");
            assert_eq!(answer["detail"][0]["loc"], json!(["query", name]), "{query}");
        }
    }

    #[test]
    fn the_number_of_parameters_is_bounded() {
        let many = "a=1&".repeat(PARAMETERS_MAX);
        assert!(parse::<Sample>(&many).is_ok());
        assert!(parse::<Sample>(&format!("{many}b=2")).is_err());
    }
}
