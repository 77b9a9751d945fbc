//! Golden samples of images of messages and of descriptions of images.

use folio_resources::{ImageAnnotation, ImageDescription};
use folio_types::message::MessageImage;

use super::*;

pub(super) fn image() -> MessageImage {
    MessageImage {
        id: MessageImageId::derive(&["golden"]),
        media_type: "image/jpeg".into(),
        width: 2_048,
        height: 1_152,
        bytes: 345_678,
    }
}

pub(super) fn images() -> Vec<Sample> {
    let row = MessageImageRow {
        image: image(),
        digest: Digest::of(b"golden"),
        user: user(),
        threads: [thread_id()].into(),
        is_removed: false,
        unknown: UnknownFields::default(),
    };
    let description = ImageDescription {
        caption: "A pump with two valves.".into(),
        steps: vec!["Water enters at the left.".into()],
        entities: vec!["ACME P-7".into()],
    };
    let annotation = ImageAnnotation {
        text_generation: at(),
        page: 3,
        number: 1,
        description,
        model: "vendor/sees-1".into(),
        at: at(),
    };
    let caption = ImageDescription { caption: "A logo.".into(), ..ImageDescription::default() };
    vec![
        sample("removed", MessageImageRow { threads: BTreeSet::new(), is_removed: true, ..row.clone() }),
        sample("sent", row),
        sample("plain", ThreadImage { image: image().id }),
        sample("caption", ImageAnnotation { description: caption, ..annotation.clone() }),
        sample("plain", annotation),
    ]
}
