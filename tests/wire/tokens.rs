//! `folio token`: create, list and revoke, from the command line of an admin.

use std::time::Duration;

use folio_proto::v1;
use folio_types::Code;
use folio_types::token::Token;

use crate::client::{Client, refused};
use crate::command_line::{folio, text};
use crate::sandbox::Sandbox;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_created_on_the_command_line_works_until_it_is_revoked() {
    let sandbox = Sandbox::start("rules: []").await;
    let (server, admin) = (sandbox.url(), sandbox.token());
    let environment = [("FOLIO_SERVER", server.as_str()), ("FOLIO_TOKEN", admin.as_str())];
    let run = |arguments: &[&str]| tokio::task::block_in_place(|| folio(sandbox.folder(), arguments, &environment, ""));
    let created =
        run(&["token", "create", "nightly import", "--role", "viewer", "--scope", "definitions", "--expires-in", "1h"]);
    assert!(created.status.success(), "{}", text(&created.stderr));
    let token = text(&created.stdout).trim().to_owned();
    let id = token.parse::<Token>().expect("the command prints a token").id().to_string();
    let client = Client::connect(&server, Some(&token)).await;
    let read = async || client.tags.clone().list_tags(v1::ListTagsRequest::default()).await;
    read().await.unwrap();
    let documents = client.documents.clone().list_documents(v1::ListDocumentsRequest::default()).await;
    assert_eq!(refused(documents).reason.as_str(), "SCOPE_NOT_ALLOWED");

    let listed = text(&run(&["token", "list"]).stdout);
    let line = listed.lines().find(|line| line.starts_with(&id)).expect("the token is listed");
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[1..4], ["viewer", "false", "definitions"], "{line}");
    assert!(cells[4].starts_with("20") && line.ends_with("  nightly import"), "{line}");
    assert!(!listed.contains(token.rsplit('_').next().unwrap()), "no secret is listed");

    assert!(run(&["token", "revoke", &id]).status.success());
    folio_testkit::wait_for("the token is refused", Duration::from_secs(20), || async {
        let refusal = read().await.err().map(|status| refused::<()>(Err(status)).code);
        (refusal == Some(Code::Unauthenticated)).then_some(())
    })
    .await;
    let listed = text(&run(&["token", "list"]).stdout);
    assert!(!listed.contains(&id), "{listed}");
    let invalid = run(&["token", "revoke", "nonsense"]);
    assert!(
        !invalid.status.success() && text(&invalid.stderr).contains("is not a token id"),
        "{}",
        text(&invalid.stderr)
    );
    let wrong = text(&run(&["token", "list", "--token", "folio_wrong"]).stderr);
    assert!(wrong.contains("(INVALID_TOKEN); the token is from --token"), "{wrong}");
}
