//! Golden samples of links between documents.

use folio_resources::{FollowedLink, LinkKey};

use super::*;

pub(super) fn links() -> Vec<Sample> {
    let url = LinkKey::Url("files.example/annex.pdf".to_owned());
    let keys = vec![url.clone(), LinkKey::Name("annex.pdf".to_owned())];
    let target = "https://files.example/annex.pdf".to_owned();
    let link = |anchor: &str| DocumentLink {
        page: 2,
        anchor: anchor.to_owned(),
        target: target.clone(),
        keys: keys.clone(),
        since: at(),
    };
    let key = |key| DocumentLinkKey { key };
    vec![
        sample("linked", link("the annex")),
        sample("textual", link("")),
        sample("id", key(LinkKey::Id(document_id()))),
        sample("url", key(url)),
        sample("name", key(LinkKey::Name("annex.pdf".to_owned()))),
        sample("title", key(LinkKey::Title("annex".to_owned()))),
        sample("plain", LinkedDocument { document: document_id() }),
        sample(
            "plain",
            LinkingDocument { document: document_id(), target: target.clone(), keys: keys.clone(), since: at() },
        ),
        sample("plain", MissingLinkRow { target: target.clone(), keys: keys.clone(), since: at() }),
        sample("plain", FollowedLink { document: document_id(), from: document_id(), depth: 1, at: at() }),
        sample("plain", LinkFollower { root: document_id() }),
    ]
}
