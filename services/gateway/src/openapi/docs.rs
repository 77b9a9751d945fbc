//! The OpenAPI document as a page: plain HTML that folds, without a script.

use std::fmt::Write as _;

use serde_json::Value;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    details{border:1px solid #ccc;border-radius:4px;margin:.3rem 0;padding:.2rem .6rem}\
    summary{cursor:pointer}code,pre{font:13px/1.5 ui-monospace,monospace}pre{overflow:auto;background:#f5f5f5;padding:.6rem}\
    b{display:inline-block;min-width:4.5rem}";

/// Verbs in the order in which the page lists them.
const VERBS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

pub(super) fn page(document: &Value) -> String {
    let mut html = String::from("<!doctype html><html lang=en><meta charset=utf-8><title>Folio API</title><style>");
    html += STYLE;
    html += "</style><h1>Folio API</h1><p>";
    html += &escaped(document.pointer("/info/description").and_then(Value::as_str).unwrap_or_default());
    html += "</p><p>The same as OpenAPI 3.1: <a href=\"/openapi.json\">openapi.json</a></p><h2>Routes</h2>";
    for (path, item) in document.pointer("/paths").and_then(Value::as_object).into_iter().flatten() {
        for (verb, operation) in VERBS.iter().filter_map(|verb| Some((verb, item.get(*verb)?))) {
            add_operation(&mut html, verb, path, operation);
        }
    }
    html += "<h2>Schemas</h2>";
    for (name, schema) in document.pointer("/components/schemas").and_then(Value::as_object).into_iter().flatten() {
        let name = escaped(name);
        let _ =
            write!(html, "<details id=\"{name}\"><summary><code>{name}</code></summary>{}</details>", source(schema));
    }
    html + "</html>"
}

fn add_operation(html: &mut String, verb: &str, path: &str, operation: &Value) {
    let (verb, path) = (verb.to_ascii_uppercase(), escaped(path));
    let _ = write!(html, "<details><summary><b>{verb}</b> <code>{path}</code></summary>");
    let _ = write!(
        html,
        "<p>{}</p>",
        escaped(operation.pointer("/description").and_then(Value::as_str).unwrap_or_default())
    );
    for parameter in operation.pointer("/parameters").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| escaped(parameter.get(name).and_then(Value::as_str).unwrap_or_default());
        let _ = write!(html, "<p><code>{}</code> ({}) {}</p>", text("name"), text("in"), text("description"));
    }
    if let Some(content) = operation.pointer("/requestBody/content").and_then(Value::as_object) {
        content.iter().for_each(|(media_type, media)| add_media(html, "Request", media_type, media));
    }
    for (status, response) in operation.pointer("/responses").and_then(Value::as_object).into_iter().flatten() {
        let content = response.pointer("/content").and_then(Value::as_object).into_iter().flatten();
        content.for_each(|(media_type, media)| add_media(html, status, media_type, media));
    }
    *html += "</details>";
}

fn add_media(html: &mut String, title: &str, media_type: &str, media: &Value) {
    let reference =
        media.pointer("/schema/$ref").and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next());
    let schema = match reference.map(escaped) {
        Some(name) => format!("<a href=\"#{name}\"><code>{name}</code></a>"),
        None => source(media.get("schema").unwrap_or(&Value::Null)),
    };
    let _ = write!(html, "<div><b>{}</b> <code>{}</code> {schema}</div>", escaped(title), escaped(media_type));
}

fn source(schema: &Value) -> String {
    format!("<pre>{}</pre>", escaped(&format!("{schema:#}")))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_route_and_requests_nothing_from_others() {
        let document = super::super::openapi();
        let page = page(document);
        for path in document["paths"].as_object().unwrap().keys() {
            assert!(page.contains(&format!("<code>{}</code>", escaped(path))), "{path}");
        }
        for foreign in ["src=", "@import", "url(", "<script", "<link"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("id=\"folio.v1.Tag\"") && page.contains("href=\"#folio.v1.GetTagResponse\""));
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
