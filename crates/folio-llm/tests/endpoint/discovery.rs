//! Model lists that are requested at start.

use folio_llm::{LocalEndpoint, detect_local, discover_context_sizes};

use super::raw::{RawServer, Step, send};
use super::*;

async fn discovered(options: Options) -> u32 {
    let options = discover_context_sizes(options, Arc::new(Simulated::new(seed()))).await;
    options.providers["openai"].models["scripted"].context_tokens
}

#[tokio::test]
async fn a_context_size_that_is_not_set_is_that_of_the_models_endpoint() {
    let sim = LlmSim::builder().script(Script::always("yes")).api_key(KEY).context_tokens(9_000).start().await.unwrap();
    assert_eq!(discovered(options(&sim.url())).await, 9_000);
    let mut set = options(&sim.url());
    set.providers.get_mut("openai").unwrap().models.get_mut("scripted").unwrap().context_tokens = 5_000;
    assert_eq!(discovered(set).await, 5_000);
    let mut refused = options(&sim.url());
    refused.providers.get_mut("openai").unwrap().api_key = Secret::new("another");
    assert_eq!(discovered(refused).await, 0, "an endpoint without a list is skipped");
}

fn local(product: &'static str, port: u16, context_tokens: Option<u32>) -> LocalEndpoint {
    LocalEndpoint { product, port, context_tokens }
}

#[tokio::test]
async fn endpoints_of_this_machine_are_detected_within_the_time_limit() {
    let sim = LlmSim::builder().context_tokens(9_000).start().await.unwrap();
    let html = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi";
    let (page, silent) = (RawServer::start(vec![send(html)]).await, RawServer::start(vec![Step::Hang]).await);
    // A bound socket that does not listen keeps its port from the servers of other tests.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let ports = [
        local("closed", closed.local_addr().unwrap().port(), None),
        local("page", page.address.port(), None),
        local("silent", silent.address.port(), None),
        local("sim", sim.address().port(), Some(4_096)),
    ];
    // On a busy machine the endpoint may answer too late.
    let found = folio_testkit::wait_for("the endpoint", LIMIT, async || {
        let found = detect_local(&ports, Arc::new(Simulated::new(seed())));
        let found = tokio::time::timeout(LIMIT, found).await.expect("a silent port is skipped");
        (!found.is_empty()).then_some(found)
    })
    .await;
    let [endpoint] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((endpoint.product, endpoint.base_url.as_str()), ("sim", sim.url().as_str()));
    let models: Vec<_> = endpoint.models.iter().map(|model| (model.name.as_str(), model.context_tokens)).collect();
    assert_eq!(models, [("scripted", Some(9_000))]);
    assert_eq!(endpoint.context_tokens, Some(4_096), "the size of models without a stated one");
}
