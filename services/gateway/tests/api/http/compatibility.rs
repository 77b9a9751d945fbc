//! The table of docs/compatibility.md.

use folio_gateway::rest_routes;

const HEADER: &str = "# Compatibility with DocRouter\n\n\
    This table lists the routes of DocRouter and of Folio, with the operation that serves each route. \
    [http.md](http.md) describes the routes and the\n\
    [differences from DocRouter](http.md#differences-from-docrouter). \
    `FOLIO_WRITE_DOCS=1 cargo test -p folio-gateway compatibility` writes the table.\n\n\
    | level | meaning |\n|---|---|\n\
    | 1 | a method of a published SDK calls the route |\n\
    | 2 | a method of a published SDK calls the route, for a feature that Folio may not have |\n\
    | 3 | only a later version of an SDK calls the route |\n\
    | W | the web page of DocRouter calls the route: document chat and sign-in |\n\
    | F | a route of Folio, which no client of DocRouter calls |\n\n\
    A route with the status 501 answers with `{\"detail\": \"Not supported by this server: …\"}`.\n\n\
    | method | route | level | status | operation |\n|---|---|---|---|---|\n";

#[test]
fn the_table_of_compatibility_lists_every_route() {
    let mut routes: Vec<_> = rest_routes().collect();
    routes.sort_by_key(|route| (route.path, route.method.to_string()));
    let rows = routes.iter().map(|route| {
        let status = if route.is_served { "served" } else { "501" };
        let operation = route.operation.map(|operation| format!("`{}`", operation.name)).unwrap_or_default();
        format!("| {} | `{}` | {} | {status} | {operation} |\n", route.method, route.path, route.level)
    });
    let rows: String = rows.collect();
    let table = format!("{HEADER}{rows}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
    if std::env::var_os("FOLIO_WRITE_DOCS").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let remedy = "docs/compatibility.md differs from the routes; run the test with FOLIO_WRITE_DOCS=1";
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), table, "{remedy}");
}

#[test]
fn every_route_of_the_published_clients_is_listed() {
    let routes: Vec<_> = rest_routes().collect();
    assert!(routes.len() > 150, "{}", routes.len());
    // One route of each row of the checklist of methods.
    for (method, path) in [
        ("POST", "/v0/orgs/{organization_id}/documents"),
        ("GET", "/v0/orgs/{organization_id}/ocr/download/blocks/{document_id}"),
        ("POST", "/v0/orgs/{organization_id}/llm/run/{document_id}"),
        ("GET", "/v0/orgs/{organization_id}/llm/results/{document_id}/download"),
        ("GET", "/v0/orgs/{organization_id}/prompts/{prompt_id}/versions"),
        ("PUT", "/v0/orgs/{organization_id}/tags/{tag_id}"),
        ("GET", "/v0/account/token/organization"),
        ("PUT", "/v0/account/llm/provider/{provider_name}"),
        ("POST", "/v0/account/email/invitations/{token}/accept"),
        ("POST", "/v0/orgs/{organization_id}/payments/credits/purchase"),
        ("POST", "/v0/orgs/{organization_id}/documents/{document_id}/chat/approve"),
    ] {
        assert!(routes.iter().any(|route| route.method == method && route.path == path), "{method} {path}");
    }
}
