//! Tests of the tool `hyperlink_resolver`.

use folio_resources::{LinkCollector, document_keys};
use folio_tools::{Registry, links};
use folio_types::profile::{DocumentRule, Profile, ProfileAnswer, ProfileLimits, ProfileTool, SubjectKind};
use folio_types::{DocumentId, OrgId};
use serde_json::json;

use crate::fixture::{Fixture, text};

const TOOLS: &[ProfileTool] = &[ProfileTool::runs("hyperlink_resolver")];

/// Returns a fixture whose profile has the tool.
async fn fixture() -> Fixture {
    let profile = Profile {
        name: "auditor",
        version: 1,
        documents: DocumentRule { min: 1, max: 1, media_types: &[] },
        subject: SubjectKind::Document,
        has_excerpt: false,
        instructions: "Check links.",
        guide: "",
        tools: TOOLS,
        delegates: &[],
        limits: ProfileLimits { model_calls: 10, running_time: None, credit_budget: None },
        model: None,
        answer: ProfileAnswer::Text,
        graph: &[],
        has_own_usage: false,
    };
    let tools = Registry::new([links::tool()], vec![profile]).unwrap().profile("auditor").unwrap();
    let mut test = Fixture::new().await;
    test.tools = tools;
    test
}

/// Stores the keys of a document, and its links to these targets.
pub(crate) async fn link(test: &Fixture, document: &DocumentId, targets: &[&str]) {
    let (stores, org) = (&test.context.resources.stores, &test.context.principal.org);
    let found = stores.of::<folio_resources::Document>().get(org, document).await.unwrap().unwrap();
    let mut collector = LinkCollector::default();
    targets.iter().for_each(|target| collector.add_link(1, "", target));
    let at = folio_types::Timestamp::constant(1_790_000_000, 0);
    stores.links().write_keys(org, document, &document_keys(&found)).await.unwrap();
    stores.links().write_links(org, document, collector.finish().0, at).await.unwrap();
}

#[tokio::test]
async fn a_target_is_matched_by_id_url_name_or_title_or_missing() {
    let mut test = fixture().await;
    let annex = test.add_document("Annex B.pdf", &["The annex"], &[]).await;
    let twins = [("twin.pdf", "1"), ("Twin.pdf", "2")];
    for (name, page) in twins {
        let twin = test.add_document(name, &[page], &[]).await;
        link(&test, &twin, &[]).await;
    }
    link(&test, &annex, &[]).await;
    let invoice = test.document();
    link(&test, &invoice, &["missing.pdf"]).await;
    for (target, matched_by) in [
        (annex.as_str(), "id"),
        ("annex_b.PDF", "name"),
        ("https://other.example/docs/Annex%20B.pdf", "name"),
        ("Annex B", "title"),
    ] {
        let found = test.ok("hyperlink_resolver", json!({ "target": target })).await;
        assert_eq!((text(&found["status"]), text(&found["matched_by"])), ("matched".to_owned(), matched_by.to_owned()));
        assert_eq!(found["documents"][0]["document_id"], json!(annex), "{target}");
    }
    let ambiguous = test.ok("hyperlink_resolver", json!({ "target": "twin.pdf" })).await;
    assert_eq!((&ambiguous["status"], ambiguous["documents"].as_array().unwrap().len()), (&json!("ambiguous"), 2));
    for (target, is_listed) in [("missing.pdf", true), ("https://nowhere.example", false)] {
        let missing = test.ok("hyperlink_resolver", json!({ "target": target })).await;
        assert_eq!((&missing["status"], &missing["listed_as_missing"]), (&json!("missing"), &json!(is_listed)));
    }
    let mail = test.ok("hyperlink_resolver", json!({ "target": "mailto:a@example.com" })).await;
    assert_eq!(mail["status"], "not_a_document");
    let message = test.error_of("hyperlink_resolver", json!({ "target": " " })).await;
    assert!(message.contains("target must have"), "{message}");
}

#[tokio::test]
async fn a_link_of_the_document_is_followed_within_the_depth() {
    let mut test = fixture().await;
    let [one, two, three] = ["one.pdf", "two.pdf", "three.pdf"];
    let first = test.add_document(one, &["x"], &[]).await;
    let second = test.add_document(two, &["x"], &[]).await;
    let third = test.add_document(three, &["x"], &[]).await;
    let invoice = test.document();
    for (document, targets) in
        [(&invoice, vec![one]), (&first, vec![two]), (&second, vec![three]), (&third, Vec::new())]
    {
        link(&test, document, &targets).await;
    }
    let not_linked = json!({ "target": two, "follow": true });
    let message = test.error_of("hyperlink_resolver", not_linked).await;
    assert!(message.contains("contains no such link"), "{message}");
    let followed = test.ok("hyperlink_resolver", json!({ "target": one, "follow": true })).await;
    assert_eq!(followed["followed"], json!({ "depth": 1, "from_document_id": invoice }));
    let next = json!({ "target": two, "document_id": first, "follow": true });
    assert_eq!(test.ok("hyperlink_resolver", next).await["followed"]["depth"], 2);
    let deeper = json!({ "target": three, "document_id": second, "follow": true });
    let message = test.error_of("hyperlink_resolver", deeper).await;
    assert!(message.contains("2 links away"), "{message}");
    let links = test.context.resources.stores.links();
    assert_eq!(links.followed(&test.context.principal.org, &invoice).await.unwrap().len(), 2);
    // A link that is not followed is left: nothing is recorded.
    test.ok("hyperlink_resolver", json!({ "target": three, "document_id": second })).await;
    assert_eq!(links.followed(&test.context.principal.org, &invoice).await.unwrap().len(), 2);
}

#[tokio::test]
async fn invariant_6_documents_of_another_organization_are_missing() {
    let mut test = fixture().await;
    let annex = test.add_document("annex.pdf", &["x"], &[]).await;
    link(&test, &annex, &[]).await;
    test.context.principal.org = OrgId::derive(&["other"]);
    test.context.documents.clear();
    for target in [annex.as_str(), "annex.pdf", "annex"] {
        let found = test.ok("hyperlink_resolver", json!({ "target": target })).await;
        assert_eq!((&found["status"], &found["documents"]), (&json!("missing"), &json!([])), "{target}");
    }
    let message = test.error_of("hyperlink_resolver", json!({ "target": "annex.pdf", "document_id": annex })).await;
    assert!(message.contains("does not exist"), "{message}");
}
