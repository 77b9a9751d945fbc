//! Deterministic embeddings: words and letter trigrams of a text, hashed into a vector of length one. Texts with common
//! words have similar vectors; other vectors are nearly orthogonal.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Maximum texts of a request.
const TEXTS_MAX: usize = 2_048;

pub(crate) fn answer(body: &Value, dimensions: usize) -> Result<Value, String> {
    let model = body.get("model").and_then(Value::as_str).ok_or("model: must be a string")?;
    let requested = body.get("dimensions").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let dimensions = requested.unwrap_or(dimensions).clamp(1, 4_096);
    let texts: Vec<&str> = match body.get("input") {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => {
            items.iter().map(Value::as_str).collect::<Option<_>>().ok_or("input: must contain only strings")?
        }
        _ => return Err("input: must be a string or a list of strings".to_owned()),
    };
    if texts.is_empty() || texts.len() > TEXTS_MAX {
        return Err(format!("input: must be 1 to {TEXTS_MAX} texts"));
    }
    let tokens: usize = texts.iter().map(|text| text.len().div_ceil(4)).sum();
    let data = texts
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": embed(text, dimensions)}));
    Ok(json!({
        "object": "list", "model": model, "data": data.collect::<Vec<_>>(),
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }))
}

/// Returns the vector of a text.
pub(crate) fn embed(text: &str, dimensions: usize) -> Vec<f32> {
    let mut vector = vec![0.0_f32; dimensions];
    let lower = text.to_lowercase();
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        add(&mut vector, word, 1.0);
        let letters: Vec<char> = word.chars().collect();
        for triple in letters.windows(3) {
            add(&mut vector, &triple.iter().collect::<String>(), 0.3);
        }
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    match vector.first_mut() {
        // A text without words still needs a direction.
        Some(first) if length == 0.0 => *first = 1.0,
        _ => vector.iter_mut().for_each(|x| *x /= length),
    }
    vector
}

fn add(vector: &mut [f32], feature: &str, weight: f32) {
    let hash: [u8; 32] = Sha256::digest(feature.as_bytes()).into();
    let (position, sign) = hash.split_at(8);
    let position = position.iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    let sign = if sign.first().is_some_and(|byte| byte & 1 == 1) { -weight } else { weight };
    let slots = vector.len().max(1) as u64;
    if let Some(slot) = usize::try_from(position % slots).ok().and_then(|position| vector.get_mut(position)) {
        *slot += sign;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similarity(a: &str, b: &str) -> f32 {
        embed(a, 256).iter().zip(embed(b, 256)).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn texts_that_share_words_are_nearer() {
        assert!((similarity("Total amount due", "total amount due") - 1.0).abs() < 1e-5);
        let (shared, other) =
            (similarity("total amount due", "the amount due is"), similarity("total amount due", "red foxes jump"));
        assert!(shared > other + 0.25, "{shared} {other}");
    }

    #[test]
    fn every_vector_has_length_one() {
        for text in ["", "  ", "a", "äöü 漢字 text"] {
            let length: f32 = embed(text, 64).iter().map(|x| x * x).sum();
            assert!((length - 1.0).abs() < 1e-4, "{text:?} {length}");
        }
    }

    #[test]
    fn malformed_requests_are_refused() {
        assert!(answer(&json!({"model": "e", "input": [1]}), 8).is_err());
        assert!(answer(&json!({"model": "e", "input": []}), 8).is_err());
        assert!(answer(&json!({"input": "x"}), 8).is_err());
        assert_eq!(answer(&json!({"model": "e", "input": "x"}), 8).unwrap()["data"][0]["index"], 0);
    }
}
