//! The table of the REST routes.

use std::sync::{Arc, LazyLock};

use folio_operations::{Access, Declaration, Operation, declaration};
use http::Method;

use super::{Endpoint, resources};

/// The clients that need a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// A method of a published SDK calls the route.
    One,
    /// A method of a published SDK calls the route, for a feature that Folio may not have.
    Two,
    /// Only a later version of an SDK calls the route.
    Three,
    /// The page of DocRouter calls the route: document chat and sign-in.
    Web,
    /// No client of DocRouter calls the route.
    Own,
}

impl Level {
    /// Returns the name in docs/compatibility.md.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
            Self::Three => "3",
            Self::Web => "W",
            Self::Own => "F",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) level: Level,
    pub(crate) method: Method,
    /// A path such as `/v0/orgs/{organization_id}/tags/{tag_id}`.
    pub(crate) path: &'static str,
    /// The operation that the layers authorize. None: the route needs no token.
    pub(crate) operation: Option<&'static Declaration>,
    /// None: the route is not served and answers 501.
    pub(crate) endpoint: Option<Endpoint>,
    /// The text of a refusal for the role of the caller. `{organization_id}` in it is replaced by the organization in the path.
    /// None: the text of all routes.
    pub(crate) denial: Option<&'static str>,
}

impl Route {
    /// Sets the text of a refusal for the role of the caller.
    pub(crate) fn denied_with(self, denial: &'static str) -> Self {
        Self { denial: Some(denial), ..self }
    }
}

/// A REST route as docs/compatibility.md and the tests list it.
#[derive(Debug, Clone)]
pub struct RestRoute {
    /// `1`, `2`, `3`, `W` or `F`, as docs/compatibility.md explains.
    pub level: &'static str,
    pub method: Method,
    pub path: &'static str,
    /// The operation that the route is authorized by. None: the route is not served or needs no token.
    pub operation: Option<&'static Declaration>,
    /// False: the route answers 501.
    pub is_served: bool,
    /// True if the body is a stream.
    pub streams_body: bool,
}

pub fn rest_routes() -> impl Iterator<Item = RestRoute> {
    TABLE.routes.iter().map(|route| RestRoute {
        level: route.level.name(),
        method: route.method.clone(),
        path: route.path,
        operation: route.operation,
        is_served: route.endpoint.is_some(),
        streams_body: route.endpoint.as_ref().is_some_and(|endpoint| endpoint.streams_body),
    })
}

/// Declares a route of an operation. A handler that runs several operations names the one with the highest role; each
/// operation is authorized again when it runs.
pub(crate) fn route<O: Operation>(level: Level, endpoint: Endpoint) -> Route {
    let operation = declaration(O::DECLARATION.service.name, O::DECLARATION.name);
    declared(level, endpoint, operation)
}

/// Declares a route that requires more than its operation. `operation`: the declaration of the operation with the higher
/// role, or as one of the platform.
pub(crate) fn restricted_route(level: Level, endpoint: Endpoint, operation: &'static Declaration) -> Route {
    declared(level, endpoint, Some(operation))
}

fn declared(level: Level, endpoint: Endpoint, operation: Option<&'static Declaration>) -> Route {
    let (method, path) = (endpoint.method.clone(), endpoint.path);
    Route { level, method, path, operation, endpoint: Some(endpoint), denial: None }
}

/// The path of a route below an organization.
macro_rules! org_path {
    ($path:literal) => {
        concat!("/v0/orgs/{organization_id}", $path)
    };
}
pub(crate) use org_path;

/// All routes, and the search by path.
pub(crate) struct Table {
    pub(crate) routes: Vec<Route>,
    /// The positions of the routes of a path.
    paths: matchit::Router<Vec<usize>>,
}

pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(|| Table::new(resources().into_iter().flatten().collect()));

/// A path that a route serves.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) route: &'static Route,
    /// The organization in the path.
    pub(crate) organization: Option<Arc<str>>,
    /// The other ids in the path, in order, as they were sent.
    pub(crate) ids: Arc<[String]>,
}

/// The result of the search for a route.
#[derive(Debug, Clone)]
pub(crate) enum Lookup {
    Found(Path),
    /// The path has these other methods.
    OtherMethods(Vec<&'static str>),
    Unknown,
}

impl Lookup {
    /// Returns the operation of a served route that needs a token.
    pub(crate) fn operation(&self) -> Option<&'static Declaration> {
        match self {
            Self::Found(path) => path.route.operation,
            Self::OtherMethods(_) | Self::Unknown => None,
        }
    }

    /// Returns the organization in the path of a served route.
    pub(crate) fn organization(&self) -> Option<&str> {
        match self {
            Self::Found(path) => path.organization.as_deref(),
            Self::OtherMethods(_) | Self::Unknown => None,
        }
    }

    /// Returns the text of a refusal for the role of the caller. None: the text of all routes.
    pub(crate) fn denial(&self) -> Option<String> {
        match self {
            Self::Found(path) => {
                let organization = path.organization.as_deref().unwrap_or_default();
                path.route.denial.map(|text| text.replace("{organization_id}", organization))
            }
            Self::OtherMethods(_) | Self::Unknown => None,
        }
    }

    /// Returns true if the query of a served route may contain the token of the caller.
    pub(crate) fn reads_token_in_query(&self) -> bool {
        match self {
            Self::Found(path) => path.route.endpoint.as_ref().is_some_and(|endpoint| endpoint.token_in_query),
            Self::OtherMethods(_) | Self::Unknown => false,
        }
    }

    /// Returns true if the handler reads the body as a stream.
    pub(crate) fn streams_body(&self) -> bool {
        match self {
            Self::Found(path) => path.route.endpoint.as_ref().is_some_and(|endpoint| endpoint.streams_body),
            Self::OtherMethods(_) | Self::Unknown => false,
        }
    }
}

/// Finds the route of a path, which [`super::route_path`] returned.
pub(crate) fn lookup(method: &Method, path: &str) -> Lookup {
    TABLE.find(method, path)
}

/// Returns a path whose parameters have the same names, so that paths with different names are equal.
fn pattern(path: &str) -> String {
    let mut number = 0;
    let segments = path.split('/').map(|segment| {
        if !segment.starts_with('{') {
            return segment.to_owned();
        }
        number += 1;
        format!("{{p{number}}}")
    });
    segments.collect::<Vec<_>>().join("/")
}

impl Table {
    fn new(routes: Vec<Route>) -> Self {
        let mut patterns: Vec<(String, Vec<usize>)> = Vec::new();
        for (number, route) in routes.iter().enumerate() {
            let pattern = pattern(route.path);
            match patterns.iter_mut().find(|(known, _)| *known == pattern) {
                Some((_, numbers)) => numbers.push(number),
                None => patterns.push((pattern, vec![number])),
            }
        }
        let mut paths = matchit::Router::new();
        for (pattern, numbers) in patterns {
            if let Err(error) = paths.insert(pattern.clone(), numbers) {
                tracing::error!(%error, pattern, "a REST route is not served");
            }
        }
        Self { routes, paths }
    }

    fn find(&'static self, method: &Method, path: &str) -> Lookup {
        let found = self.paths.at(path).ok().filter(|found| found.params.iter().all(|(_, id)| !id.is_empty()));
        let Some(found) = found else { return Lookup::Unknown };
        let routes = found.value.iter().filter_map(|number| self.routes.get(*number));
        let Some(route) = routes.clone().find(|route| route.method == *method) else {
            return Lookup::OtherMethods(routes.map(|route| method_name(&route.method)).collect());
        };
        let mut ids = found.params.iter().map(|(_, id)| id.to_owned());
        let organization = if is_of_organization(route) { ids.next().map(Arc::from) } else { None };
        Lookup::Found(Path { route, organization, ids: ids.collect() })
    }
}

/// Returns true if the first parameter of a path is the organization in which the request acts, and false if it is only the
/// subject of an operation on the installation.
fn is_of_organization(route: &Route) -> bool {
    let acts_in_one = || route.operation.is_some_and(|operation| operation.access == Access::Organization);
    route.path.starts_with("/v0/orgs/") || (route.path.contains("/{organization_id}") && acts_in_one())
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "GET",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_found_by_its_method_and_path() {
        let mut seen = BTreeSet::new();
        for route in &TABLE.routes {
            let path = pattern(route.path).replace(['{', '}'], "");
            assert!(
                seen.insert((route.method.to_string(), path.clone())),
                "{} {} is declared twice",
                route.method,
                route.path
            );
            let Lookup::Found(found) = lookup(&route.method, &path) else {
                panic!("{} {} is not found", route.method, route.path);
            };
            assert!(
                std::ptr::eq(found.route, route),
                "{} {} is hidden by {}",
                route.method,
                route.path,
                found.route.path
            );
            // A route whose operation is not declared would need no token.
            assert!(route.endpoint.is_none() || route.operation.is_some(), "{} has no operation", route.path);
            let name = format!("{} {}", route.method, route.path);
            let is_selected =
                route.path.starts_with("/v0/orgs/") || name == "PUT /v0/account/organizations/{organization_id}";
            assert_eq!(found.organization.is_some(), is_selected, "{name}");
        }
    }

    #[test]
    fn a_path_with_other_methods_names_them() {
        let Lookup::OtherMethods(methods) = lookup(&Method::HEAD, "/v0/orgs/o/tags/t") else { panic!("is found") };
        assert_eq!(methods.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["GET", "PUT", "DELETE"]));
        assert!(matches!(lookup(&Method::GET, "/v0/orgs/o/nothing"), Lookup::Unknown));
    }

    #[test]
    fn a_path_cannot_leave_its_parameter() {
        let Lookup::Found(path) = lookup(&Method::GET, "/v0/orgs/o/tags/..%2F..%2Fother") else {
            panic!("is not found")
        };
        assert_eq!(path.ids.as_ref(), ["..%2F..%2Fother"]);
        for path in ["/v0/orgs/o/tags/../schemas", "/v0/orgs//tags", "/v0/orgs/o/tags/a/b"] {
            assert!(!matches!(lookup(&Method::GET, path), Lookup::Found(_)), "{path}");
        }
    }
}
