//! Conformance suite of [`folio_storage::LinkStore`].

use folio_resources::{FollowedLink, FoundLink, LinkCollector, LinkKey, target_keys};
use folio_types::DocumentId;

use super::context::Context;
use super::{Outcome, refused, same};

fn links(targets: &[&str]) -> Vec<FoundLink> {
    let mut collector = LinkCollector::default();
    for (page, target) in (1..).zip(targets) {
        collector.add_link(page, "", target);
    }
    collector.finish().0
}

pub(crate) async fn suite(context: &Context) -> Outcome {
    resolution(context).await?;
    following(context).await
}

/// A missing target is found when its document arrives, and is missing again when the document is removed.
async fn resolution(context: &Context) -> Outcome {
    let (store, org) = (context.stores.links(), &context.org);
    let [one, two, annex] = ["one", "two", "annex"].map(|name| DocumentId::derive(&[name, org.as_str()]));
    let name = LinkKey::Name("annex.pdf".to_owned());
    let first = context.now();
    let later = first + std::time::Duration::from_secs(1);
    let missing = async || {
        let rows = store.missing(org, None, 9).await?;
        Ok::<_, super::Failure>(rows.into_iter().map(|(_, row)| (row.target, row.since)).collect::<Vec<_>>())
    };
    store.write_links(org, &one, links(&["annex.pdf", "other.pdf"]), first).await?;
    store.write_links(org, &two, links(&["Annex.pdf", "https://example.com/annex.pdf"]), later).await?;
    let url = ("https://example.com/annex.pdf".to_owned(), later);
    let mut found = missing().await?;
    same!(found.pop(), Some(url.clone()), "the newest missing target is the last one");
    found.sort();
    let expected = vec![("annex.pdf".to_owned(), first), ("other.pdf".to_owned(), first)];
    same!(found, expected, "missing targets, each with the oldest reference");
    same!(store.missing(&context.other(), None, 9).await?.len(), 0, "missing targets of another organization");

    // Two writes of the same keys have the effect of one.
    for _ in 0..2 {
        store.write_keys(org, &annex, &[LinkKey::Id(annex.clone()), name.clone()]).await?;
        same!(
            missing().await?,
            vec![("other.pdf".to_owned(), first)],
            "missing targets after the arrival of a document"
        );
    }
    let matched = store.find(org, &target_keys("https://example.com/annex.pdf")).await?;
    same!(matched.map(|found| (found.key, found.documents)), Some((name.clone(), vec![annex.clone()])), "a match");
    same!(store.find(&context.other(), &target_keys("annex.pdf")).await?, None, "a match of another organization");
    let references = store.references(org, &name, None, 9).await?;
    let documents: Vec<_> = references.into_iter().map(|(_, reference)| reference.document).collect();
    same!(documents, vec![one.clone(), two.clone(), two.clone()], "the references to a document, the oldest first");

    // A repeated write keeps the time of the first reference, and a target that the text lost is removed.
    store.write_links(org, &one, links(&["annex.pdf"]), later).await?;
    let kept = store.links(org, &one).await?;
    same!(
        kept.iter().map(|link| (link.target.as_str(), link.since)).collect::<Vec<_>>(),
        vec![("annex.pdf", first)],
        "links"
    );
    same!(missing().await?.len(), 0, "missing targets after the removal of the last reference");

    store.write_keys(org, &annex, &[LinkKey::Id(annex.clone())]).await?;
    same!(
        missing().await?,
        vec![("annex.pdf".to_owned(), first), url.clone()],
        "missing targets of a renamed document"
    );
    store.write_keys(org, &annex, &[LinkKey::Id(annex.clone()), name.clone()]).await?;
    for _ in 0..2 {
        store.remove_document(org, &annex).await?;
        same!(missing().await?, vec![("annex.pdf".to_owned(), first), url.clone()], "missing targets after a deletion");
    }
    store.remove_document(org, &one).await?;
    let mut found = missing().await?;
    found.sort();
    same!(found, vec![("Annex.pdf".to_owned(), later), url], "the next reference to a target");
    store.remove_document(org, &two).await?;
    same!(missing().await?.len(), 0, "missing targets without a reference");
    same!(store.references(org, &name, None, 9).await?.len(), 0, "references of removed documents");
    Ok(())
}

/// Followed documents are recorded with their root, and removed with either of both.
async fn following(context: &Context) -> Outcome {
    let (store, org, at) = (context.stores.links(), &context.org, context.now());
    let [root, a, b, c] = ["root", "a", "b", "c"].map(|name| DocumentId::derive(&[name, org.as_str()]));
    store.follow(org, (&root, &root), &a, at).await?;
    store.follow(org, (&root, &a), &b, at).await?;
    refused!(store.follow(org, (&root, &b), &c, at).await, LimitReached, "a link beyond the depth");
    let again = store.follow(org, (&root, &root), &b, at).await?;
    same!(
        again,
        FollowedLink { document: b.clone(), from: a.clone(), depth: 2, at },
        "a document that was followed before"
    );
    same!(store.followed(org, &root).await?.len(), 2, "followed documents");
    same!(store.followed(&context.other(), &root).await?.len(), 0, "followed documents of another organization");
    store.remove_document(org, &b).await?;
    same!(store.followed(org, &root).await?.len(), 1, "followed documents after the removal of one");
    store.remove_document(org, &root).await?;
    same!(store.followed(org, &root).await?.len(), 0, "followed documents of a removed document");
    Ok(())
}
