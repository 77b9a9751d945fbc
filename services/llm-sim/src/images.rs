//! Images of messages, validated as a real endpoint validates them.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Maximum number of images of a message.
const IMAGES_MAX: usize = 50;

/// Returns the digests of the images among the parts of a message, and the bytes of their URLs. The error contains the invalid part.
pub(crate) fn parse(parts: &[Value]) -> Result<(Vec<String>, usize), String> {
    let (mut digests, mut bytes) = (Vec::new(), 0);
    for (index, part) in parts.iter().enumerate() {
        match part.get("type").and_then(Value::as_str) {
            Some("text") => {}
            Some("image_url") => {
                let url = part.pointer("/image_url/url").and_then(Value::as_str).unwrap_or_default();
                bytes += url.len();
                digests.push(digest(url).map_err(|problem| format!("content[{index}].image_url.url: {problem}"))?);
            }
            other => return Err(format!("content[{index}].type: unknown type {other:?}")),
        }
    }
    if digests.len() > IMAGES_MAX {
        return Err(format!("content: more than {IMAGES_MAX} images"));
    }
    Ok((digests, bytes))
}

fn digest(url: &str) -> Result<String, &'static str> {
    let data = url.strip_prefix("data:").ok_or("must be a data URL")?;
    let (media_type, encoded) = data.split_once(";base64,").ok_or("must contain data in Base64")?;
    let begins_with: &[u8] = match media_type {
        "image/jpeg" => &[0xff, 0xd8, 0xff],
        "image/png" => b"\x89PNG",
        "image/webp" => b"RIFF",
        _ => return Err("must be a JPEG, PNG or WebP image"),
    };
    let bytes = STANDARD.decode(encoded).map_err(|_| "is no Base64")?;
    if !bytes.starts_with(begins_with) {
        return Err("is not an image of its media type");
    }
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    Ok(digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn images_are_data_urls_of_their_media_type() {
        let part = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let text = json!({"type": "text", "text": "look"});
        let parts = [text, part("data:image/jpeg;base64,/9j/AA=="), part("data:image/png;base64,iVBORw==")];
        let (found, bytes) = parse(&parts).unwrap();
        assert_eq!((found.len(), found[0].len(), bytes), (2, 64, 61));
        assert_ne!(found[0], found[1]);
        for (url, problem) in [
            ("https://a.example/a.png", "must be a data URL"),
            ("data:image/png,abc", "Base64"),
            ("data:image/gif;base64,R0lGODlh", "must be a JPEG"),
            ("data:image/png;base64,*", "no Base64"),
            ("data:image/png;base64,/9j/", "not an image of its media type"),
        ] {
            let error = parse(&[part(url)]).unwrap_err();
            assert!(error.starts_with("content[0].image_url.url: ") && error.contains(problem), "{error}");
        }
        assert!(parse(&[json!({"type": "audio"})]).unwrap_err().contains("unknown type"));
    }
}
