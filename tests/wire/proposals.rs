//! `folio proposals`, and proposals in `folio inbox`. The offline model makes the proposals.

use folio_testkit::wait_for;
use folio_tests::harness::settings::INVOICE;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::command_line::{folio, text};
use crate::process::Process;

#[tokio::test]
async fn proposals_wait_in_the_inbox_until_they_are_decided() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Without a model endpoint, the offline model answers.
    let server = Process::start("folio", folder, &["serve", "--listen", "127.0.0.1:0", "--data", "data"], &[]);
    let (url, token) = (server.url(), std::fs::read_to_string(folder.join("data/admin.token")).unwrap());
    let variables = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", token.trim())];
    let run = |arguments: &[&str]| folio(folder, &[arguments, &["--output", "json"]].concat(), &variables, "");
    let json_of = |arguments: &[&str]| -> Value {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // The documents have one type, so that the second run has to choose other names.
    for (file, number) in [("first.txt", "A-17"), ("second.txt", "A-18"), ("third.txt", "A-19")] {
        std::fs::write(folder.join(file), INVOICE.replace("A-17", number)).unwrap();
    }
    let add = |files: &[&str]| json_of(&[&["document", "add", "--auto-create", "on"][..], files].concat());
    let proposals = async |count: usize| {
        let found = wait_for("the proposals", 2 * LIMIT, || {
            let listed = json_of(&["proposals", "list"]);
            std::future::ready((listed.as_array().unwrap().len() == count).then_some(listed))
        });
        found.await
    };
    add(&["first.txt", "second.txt"]);
    let listed = proposals(2).await;
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["proposal_id"].as_str().unwrap()).collect();
    assert!(listed.as_array().unwrap().iter().all(|one| one["state"] == "proposed"), "{listed}");

    let waiting = || json_of(&["inbox", "--kind", "proposal"]);
    let items = waiting();
    let mut found: Vec<&str> = items.as_array().unwrap().iter().map(|item| item["item_id"].as_str().unwrap()).collect();
    found.sort_unstable();
    let mut expected = ids.clone();
    expected.sort_unstable();
    assert_eq!(found, expected, "{items}");
    let oldest = listed.as_array().unwrap().iter().find(|one| one["proposal_id"] == items[0]["item_id"]).unwrap();
    let subject = format!("proposed for {}", oldest["document_type"].as_str().unwrap());
    assert_eq!((&items[0]["kind"], &items[0]["subject"]), (&json!("proposal"), &json!(subject)));

    let shown = json_of(&["proposals", "show", ids[0]]);
    let extraction = json_of(&["extraction", "show", shown["extraction_id"].as_str().unwrap()]);
    assert_eq!(extraction["data"]["total"], 957.0, "{extraction}");
    let thread = json_of(&["proposals", "refine", ids[0]]);
    assert!(thread["thread_id"].as_str().is_some_and(|id| id.starts_with("thr_")), "{thread}");
    let accepted = json_of(&["proposals", "accept", ids[0], "--tag", "invoices"]);
    assert_eq!(accepted["state"], "accepted");
    assert_eq!(accepted["tag_id"], json_of(&["tag", "list"])[0]["tag_id"]);
    assert_eq!(json_of(&["proposals", "reject", ids[1]])["state"], "rejected");
    assert_eq!(waiting(), json!([]));
    assert_eq!(json_of(&["prompt", "list"]).as_array().unwrap().len(), 1, "the rejected prompt is deleted");
    assert_eq!(json_of(&["proposals", "list", "--state", "accepted"])[0]["proposal_id"], ids[0]);
    let decided = run(&["proposals", "accept", ids[1]]);
    assert!(!decided.status.success() && text(&decided.stderr).contains("PROPOSAL_DECIDED"));

    add(&["third.txt"]);
    let similar = proposals(3).await[0].clone();
    assert_eq!((&similar["state"], &similar["similar_proposal_id"]), (&json!("proposed"), &json!(ids[0])), "{similar}");
    assert_eq!(waiting()[0]["item_id"], similar["proposal_id"]);
    assert!(server.terminate());
}
