//! Endpoints: the handler of a route, and its description for the OpenAPI document.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use futures::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::failure::Failure;
use crate::services::Api;

/// The verb, the path and the handler of a route.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// True if the handler reads the body as a stream, within the limits of transfers. Otherwise the body is one message,
    /// whose size and time the layers bound.
    pub(crate) streams_body: bool,
    /// True if the query parameter `token` is the credential of the request, instead of a header.
    pub(crate) token_in_query: bool,
    handler: Arc<dyn Fn(Request, Api) -> BoxFuture<'static, Response> + Send + Sync>,
    pub(crate) document: fn(&mut Document),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl Endpoint {
    fn new<H, T, D>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Api> + Documented<D>,
    {
        let handler = Arc::new(move |request: Request, api: Api| {
            let response: BoxFuture<'static, Response> = Box::pin(handler.clone().call(request, api));
            response
        });
        Self {
            method,
            path,
            streams_body: false,
            token_in_query: false,
            handler,
            document: <H as Documented<D>>::document,
        }
    }

    /// Declares that the handler reads the body as a stream.
    pub(crate) fn streaming(self) -> Self {
        Self { streams_body: true, ..self }
    }

    /// Declares that the query parameter `token` is the credential of the request.
    pub(crate) fn with_token_in_query(self) -> Self {
        Self { token_in_query: true, ..self }
    }

    pub(crate) fn call(&self, request: Request, api: Api) -> BoxFuture<'static, Response> {
        (self.handler)(request, api)
    }
}

/// Declares a function that creates an endpoint with this method.
macro_rules! verb {
    ($name:ident, $method:ident) => {
        pub(crate) fn $name<H, T, D>(path: &'static str, handler: H) -> Endpoint
        where
            H: Handler<T, Api> + Documented<D>,
        {
            Endpoint::new(Method::$method, path, handler)
        }
    };
}
verb!(get, GET);
verb!(post, POST);
verb!(put, PUT);
verb!(delete, DELETE);

/// The description of one endpoint, and the schemas that it refers to.
#[derive(Default)]
pub(crate) struct Document {
    pub(crate) parameters: Vec<Value>,
    pub(crate) request_body: Option<Value>,
    /// The successful response.
    pub(crate) response: Value,
    pub(crate) response_status: u16,
    /// The component schemas, by name.
    pub(crate) schemas: BTreeMap<String, Value>,
}

impl Document {
    /// Adds the schema of a type to the components and returns a reference to it.
    pub(crate) fn reference<T: ToSchema>(&mut self) -> Value {
        let name = T::name().into_owned();
        let mut dependencies = Vec::new();
        T::schemas(&mut dependencies);
        for (name, schema) in dependencies {
            self.schemas.entry(name).or_insert_with(|| to_value(&schema));
        }
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        self.schemas.entry(name).or_insert_with(|| to_value(&T::schema()));
        reference
    }

    /// Declares the members of an object as query parameters.
    pub(crate) fn query<T: ToSchema>(&mut self) {
        let schema = to_value(&T::schema());
        let required: Vec<&str> = schema
            .pointer("/required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, schema) in schema.pointer("/properties").and_then(Value::as_object).into_iter().flatten() {
            let description = schema.get("description").cloned().unwrap_or_default();
            self.parameters.push(json!({
                "name": name,
                "in": "query",
                "required": required.contains(&name.as_str()),
                "description": description,
                "schema": schema,
            }));
        }
    }

    pub(crate) fn respond(&mut self, status: u16, description: &str, content: Value) {
        self.response_status = status;
        self.response = json!({ "description": description, "content": content });
    }
}

fn to_value<T: serde::Serialize>(schema: &T) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

/// An argument of a handler.
pub(crate) trait DocumentInput {
    fn document(document: &mut Document);
}

/// The result of a handler.
pub(crate) trait DocumentOutput {
    fn document(document: &mut Document);
}

impl<T: DocumentOutput> DocumentOutput for Result<T, Failure> {
    fn document(document: &mut Document) {
        T::document(document);
    }
}

/// A handler whose arguments and result are described. `D` is the tuple of its arguments.
pub(crate) trait Documented<D> {
    fn document(document: &mut Document);
}

macro_rules! documented {
    ($($argument:ident),+) => {
        impl<F, Response, Output, $($argument),+> Documented<($($argument,)+)> for F
        where
            F: Fn($($argument),+) -> Response,
            Response: Future<Output = Output>,
            Output: DocumentOutput,
            $($argument: DocumentInput,)+
        {
            fn document(document: &mut Document) {
                $($argument::document(document);)+
                Output::document(document);
            }
        }
    };
}
documented!(A);
documented!(A, B);
documented!(A, B, C);
documented!(A, B, C, E);
