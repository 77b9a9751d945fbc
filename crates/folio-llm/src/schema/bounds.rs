//! Size and nesting of JSON. [`is_deeper_than`] accepts any value; the other functions require a bounded depth.

use serde_json::Value;

/// Returns true if a value has more than `limit` levels of nesting. A scalar has one level. The recursion stops at the
/// limit.
pub fn is_deeper_than(value: &Value, limit: usize) -> bool {
    let Some(below) = limit.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper_than(item, below)),
        Value::Object(members) => members.values().any(|member| is_deeper_than(member, below)),
        _ => false,
    }
}

/// Returns the number of levels of a value whose size is bounded. A scalar has one level.
pub(super) fn depth(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns an upper bound of the number of patterns in a schema whose size is bounded.
pub(super) fn patterns(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(patterns).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| {
                let own = match (name.as_str(), member) {
                    ("pattern", Value::String(_)) => 1,
                    ("patternProperties", Value::Object(by_pattern)) => by_pattern.len(),
                    _ => 0,
                };
                own + patterns(member)
            })
            .sum(),
        _ => 0,
    }
}

/// Returns the number of values at each level of a value whose size is bounded.
pub(super) fn width_by_level(value: &Value) -> Vec<u64> {
    let mut widths = Vec::new();
    count(value, 0, &mut widths);
    widths
}

fn count(value: &Value, level: usize, widths: &mut Vec<u64>) {
    match widths.get_mut(level) {
        Some(width) => *width += 1,
        None => widths.push(1),
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| count(item, level + 1, widths)),
        Value::Object(members) => members.values().for_each(|member| count(member, level + 1, widths)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn levels_are_counted_from_one() {
        assert!(!is_deeper_than(&json!(1), 1));
        assert!(is_deeper_than(&json!([1]), 1));
        assert!(!is_deeper_than(&json!([[], {"a": 1}]), 3));
        assert_eq!(depth(&json!([[], {"a": 1}])), 3);
        assert_eq!(width_by_level(&json!([[1, 2], {"a": 1}])), [1, 2, 3]);
    }
}
