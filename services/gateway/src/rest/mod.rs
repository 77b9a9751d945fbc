//! The REST face: the routes that the clients of DocRouter call, on the operations of Folio.
//!
//! A resource is a module with `routes()`. A route names its level, its operation and its endpoint: the verb, the path and
//! the handler. The layers take role, scope, class and quota from the declaration of the operation. The types of the
//! arguments and of the result of a handler are the source of the OpenAPI document.
//!
//! [`unserved`] lists the routes of DocRouter that this server does not have; they answer 501.

mod access_tokens;
mod assistant;
mod chat;
mod collections;
mod completions;
mod dictionary;
mod dictionary_questions;
mod document_query;
mod documents;
mod endpoint;
mod events;
mod extract;
mod failure;
mod grid;
mod ingestions;
mod links;
mod list;
mod llm_run;
mod message_images;
mod models;
mod ocr;
mod ocr_blocks;
mod organizations;
mod payments;
mod prompts;
mod providers;
mod reply;
mod results;
mod retrieval;
mod routes;
mod schemas;
mod sign_in;
mod stack_tables;
mod stack_watch;
mod stacks;
mod streamed;
mod structure;
mod tags;
mod tool_uses;
mod turn_events;
mod turns;
mod unserved;
mod upload;
mod uploads;
mod users;

use axum::response::{IntoResponse as _, Response};
use http::Request;
use http::header::ALLOW;
use tonic::body::Body;

pub(crate) use endpoint::{Document, Endpoint};
pub(crate) use extract::path_parameter;
pub(crate) use failure::{Failure, Presented};
pub(crate) use routes::{Lookup, Route, TABLE, lookup};
pub use routes::{RestRoute, rest_routes};
pub(crate) use upload::{Limits as UploadLimits, Spools};

use crate::services::Api;

/// The resources with their routes.
fn resources() -> Vec<Vec<Route>> {
    vec![
        uploads::routes(),
        documents::routes(),
        ocr::routes(),
        results::routes(),
        tags::routes(),
        dictionary::routes(),
        dictionary_questions::routes(),
        links::routes(),
        structure::routes(),
        collections::routes(),
        ingestions::routes(),
        retrieval::routes(),
        stacks::routes(),
        stack_tables::routes(),
        stack_watch::routes(),
        assistant::routes(),
        tool_uses::routes(),
        turns::routes(),
        schemas::routes(),
        prompts::routes(),
        models::routes(),
        providers::routes(),
        payments::routes(),
        llm_run::routes(),
        completions::routes(),
        chat::routes(),
        message_images::routes(),
        access_tokens::routes(),
        organizations::routes(),
        users::routes(),
        sign_in::routes(),
        unserved::routes(),
    ]
}

/// Returns the path of a REST route without the prefix of the settings, without repeated slashes at its start and without a
/// slash at its end. None: the path does not belong to REST.
pub(crate) fn route_path(path: &str, prefix: &str) -> Option<String> {
    let rest = path.trim_start_matches('/');
    let prefix = prefix.trim_matches('/');
    let rest = match rest.strip_prefix(prefix).filter(|rest| !prefix.is_empty() && rest.starts_with('/')) {
        Some(rest) => rest.trim_start_matches('/'),
        None => rest,
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    (rest == "v0" || rest.starts_with("v0/")).then(|| format!("/{rest}"))
}

/// Runs the handler of a route for an admitted request.
pub(crate) async fn respond(lookup: Lookup, api: Api, request: Request<Body>) -> Response {
    match lookup {
        Lookup::Found(path) => match &path.route.endpoint {
            Some(endpoint) => {
                let mut request = request.map(axum::body::Body::new);
                request.extensions_mut().insert(path.clone());
                endpoint.call(request, api).await
            }
            None => unserved::answer(path.route),
        },
        Lookup::OtherMethods(methods) => {
            let mut response = Failure::method_not_allowed().into_response();
            if let Ok(value) = methods.join(", ").parse() {
                response.headers_mut().insert(ALLOW, value);
            }
            response
        }
        Lookup::Unknown => Failure::no_such_route().into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_with_and_without_the_prefix_and_extra_slashes() {
        for path in [
            "/v0/orgs/a/tags",
            "//v0/orgs/a/tags",
            "/v0/orgs/a/tags/",
            "/fastapi/v0/orgs/a/tags",
            "/fastapi//v0/orgs/a/tags",
        ] {
            assert_eq!(route_path(path, "/fastapi").as_deref(), Some("/v0/orgs/a/tags"), "{path}");
        }
        assert_eq!(route_path("/fastapi/v0/a", ""), None);
        for other in ["/", "/docs", "/v01/orgs", "/fastapi", "/fastapiv0/orgs", "/folio.v1.TagService/GetTag"] {
            assert_eq!(route_path(other, "/fastapi"), None, "{other}");
        }
    }
}
