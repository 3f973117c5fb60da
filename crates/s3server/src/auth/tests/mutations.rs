//! Requests that AWS's library signed are accepted, and none that differs in one byte is.

use proptest::prelude::*;

use super::*;

/// Characters of keys, of parameters and of values that clients treat differently.
const KEY: &str = "[a-zA-Z0-9 ~!'()*+,;:=@$&%#?^|\\\\\"<>\\[\\]{}`/._\u{e9}\u{1f600}-]{0,20}";

/// A segment or a value as clients encode it.
fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, UNRESERVED_KEPT).to_string()
}

const UNRESERVED_KEPT: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

prop_compose! {
    fn heads()(
        method in prop::sample::select(vec![Method::GET, Method::PUT, Method::DELETE, Method::HEAD]),
        key in KEY,
        query in prop::collection::vec(("[a-z-]{1,6}", KEY), 0..4),
        meta in "[a-z]([a-z ]{0,8}[a-z])?",
        location in prop::sample::select(vec![SignatureLocation::Headers, SignatureLocation::QueryParams]),
    ) -> TestHead {
        let path: Vec<String> = key.split('/').map(encoded).collect();
        let query: Vec<String> = query
            .iter()
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        let separator = if query.is_empty() { "" } else { "?" };
        let target = format!("/bucket/{}{separator}{}", path.join("/"), query.join("&"));
        TestHead::new(
            method,
            &target,
            &[("host", "localhost:9000"), ("x-amz-meta-a", &meta)],
        )
        .signed(signing_settings(location), SignableBody::UnsignedPayload)
    }
}

/// Whether both requests ask for the same, whatever their spelling.
fn is_same(a: &TestHead, b: &TestHead) -> bool {
    let normal = |head: &TestHead| {
        let uri: http::Uri = head.target.parse().unwrap();
        let mut query = S3Query::parse(uri.query()).ok()?;
        query.0.sort();
        Some((decode_path(uri.path()).ok()?, query))
    };
    normal(a).is_some() && normal(a) == normal(b)
}

proptest! {
    #[test]
    fn requests_that_the_library_signs_are_accepted(head in heads()) {
        prop_assert!(head.identity().is_ok(), "{:?}", head.authenticate_at(example_time()));
    }

    #[test]
    fn no_byte_of_the_target_can_be_changed(
        head in heads(),
        at in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"abYZ019-._~%&=/?+".to_vec()),
    ) {
        let mut target = head.target.clone().into_bytes();
        let at = at.index(target.len());
        target[at] = byte;
        let target = String::from_utf8(target).unwrap();
        prop_assume!(target.starts_with('/') && target.parse::<http::Uri>().is_ok());
        let changed = TestHead { target, ..head.clone() };
        match changed.authenticate_at(example_time()) {
            // Another spelling of the same request.
            Ok(S3Authentication::Signed(_)) => prop_assert!(is_same(&head, &changed), "{:?}", changed),
            // Without the parameters of its signature it is an anonymous one.
            Ok(S3Authentication::Anonymous) => prop_assert!(!changed.headers.iter().any(|(name, _)| name == "authorization")),
            Err(_) => {}
        }
    }

    #[test]
    fn no_byte_of_a_signed_field_can_be_changed(
        head in heads(),
        field in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"abYZ019-._/=;,:".to_vec()),
    ) {
        let mut changed = head.clone();
        let field = field.index(changed.headers.len());
        let value = &mut changed.headers[field].1;
        let mut bytes = value.clone().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        *value = String::from_utf8(bytes).unwrap();
        prop_assert!(changed.authenticate_at(example_time()).is_err(), "{:?}", changed);
    }

    #[test]
    fn the_method_cannot_be_changed(head in heads()) {
        let changed = TestHead { method: Method::POST, ..head };
        prop_assert!(changed.authenticate_at(example_time()).is_err());
    }
}
