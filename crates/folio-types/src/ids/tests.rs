//! Tests of ids.

use super::*;
use crate::environment::System;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn contained_ids_have_one_spelling() {
    let thread = ThreadId::derive(&["a"]);
    let call = CallId::new(TurnId::new(thread.clone(), 12), 3, 1);
    assert_eq!(call.to_string(), format!("{thread}.12.3.1"));
    assert_eq!(call.to_string().parse::<CallId>(), Ok(call));
    let numbers = ["01", "0", "+1", "1.1.1.1"].map(|numbers| format!("{thread}.{numbers}"));
    for bad in numbers.iter().map(String::as_str).chain(["", ".", "thr_1.1"]) {
        assert!(bad.parse::<TurnId>().is_err() && bad.parse::<CallId>().is_err(), "{bad}");
    }
}

#[test]
fn a_plain_id_is_a_prefix_with_32_hexadecimal_digits() {
    let id = TagId::generate(&System);
    assert_eq!(id.as_str().len(), TagId::PREFIX.len() + 1 + HEX_DIGITS);
    assert_eq!((id.to_string(), format!("{id:?}")), (id.as_str().to_owned(), id.as_str().to_owned()));
    assert_eq!(serde_json::from_value::<TagId>(json!(id)).unwrap(), id);
    assert_eq!(id.as_str().parse(), Ok(id.clone()));
    let digits = "0123456789abcdef0123456789abcdef";
    assert!(format!("tag_{digits}").parse::<TagId>().is_ok());
    for bad in [digits.to_owned(), format!("tag{digits}"), format!("doc_{digits}"), format!("tag_{digits}0")] {
        assert!(bad.parse::<TagId>().is_err(), "{bad}");
    }
    let bad = format!("tag_{}", digits.to_uppercase());
    assert!(bad.parse::<TagId>().unwrap_err().message.contains("is not a tag id"));
    assert!(bad.parse::<UserId>().unwrap_err().message.contains("is not a user id"));
    assert!(bad.parse::<ExtractionId>().unwrap_err().message.contains("is not an extraction id"));
    assert_ne!(OrgId::platform(), OrgId::first());
    assert_eq!((OrgId::platform(), OrgId::first()), (OrgId::platform(), OrgId::first()));
}

#[test]
fn a_revision_id_contains_its_resource_and_its_version() {
    let revision = SchemaRevId::new(SchemaId::derive(&["a"]), 7);
    assert_eq!(revision.to_string(), format!("{}.7", SchemaId::derive(&["a"])));
    assert_eq!(revision.to_string().parse::<SchemaRevId>(), Ok(revision.clone()));
    assert_eq!(serde_json::from_value::<SchemaRevId>(json!(revision)).unwrap(), revision);
    for bad in ["7".to_owned(), format!("{}.0", revision.of), format!("{}.07", revision.of)] {
        assert!(bad.parse::<SchemaRevId>().is_err(), "{bad}");
    }
    let turn = TurnId::new(ThreadId::derive(&["a"]), 4);
    assert_eq!(turn.to_string().parse(), Ok(turn));
}

#[test]
fn a_request_id_has_1_to_128_visible_characters() {
    for good in ["x".to_owned(), "x".repeat(128)] {
        assert_eq!(good.parse::<RequestId>().unwrap().as_str(), good);
    }
    for bad in [String::new(), "x".repeat(129), "a b".to_owned(), "ä".to_owned()] {
        assert!(bad.parse::<RequestId>().is_err(), "{bad}");
    }
    let generated = RequestId::generate(&System);
    assert!(generated.as_str().starts_with("folio-") && generated != RequestId::generate(&System));
}

#[test]
fn derived_ids_keep_their_parts_apart() {
    assert_ne!(DocumentId::derive(&["ab", "c"]), DocumentId::derive(&["a", "bc"]));
    assert_eq!(DocumentId::derive(&["ab", "c"]), DocumentId::derive(&["ab", "c"]));
}

#[test]
fn a_digest_does_not_depend_on_member_order() {
    assert_eq!(
        Digest::of_json(&json!({"a": 1, "b": {"c": 2, "d": [1]}})),
        Digest::of_json(&json!({"b": {"d": [1], "c": 2}, "a": 1}))
    );
    assert_ne!(Digest::of_json(&json!([1, 2])), Digest::of_json(&json!([2, 1])));
    let value = json!({"b": [1, "x", [], {}], "a": null, "\"": true});
    let digest = Digest::of_json(&value);
    assert_eq!(digest, Digest::of(br#"{"\"":true,"a":null,"b":[1,"x",[],{}]}"#));
    assert_eq!(digest.as_str().parse(), Ok(digest.clone()));
    assert!(digest.as_str()[1..].parse::<Digest>().is_err());
    // The example of FIPS 180-2.
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(Digest::of(b"abc").as_str(), known);
}

proptest! {
    #[test]
    fn parsing_any_text_never_panics(text in "\\PC{0,100}") {
        let _ = text.parse::<DocumentId>();
        let _ = text.parse::<SchemaRevId>();
        let _ = text.parse::<CallId>();
        let _ = text.parse::<RequestId>();
        let _ = text.parse::<Digest>();
    }
}
