//! Requests that are refused, each with S3's code.

use super::*;

fn signed_get(target: &str) -> TestHead {
    let head = TestHead::new(Method::GET, target, &[("host", "localhost:9000")]);
    let settings = signing_settings(SignatureLocation::Headers);
    head.signed(settings, SignableBody::UnsignedPayload)
}

fn presigned_get(target: &str) -> TestHead {
    let head = TestHead::new(Method::GET, target, &[("host", "localhost:9000")]);
    let settings = signing_settings(SignatureLocation::QueryParams);
    head.signed(settings, SignableBody::UnsignedPayload)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A parameter of a presigned URL set to another value.
fn with_parameter(head: &TestHead, name: &str, value: &str) -> TestHead {
    let (path, query) = head.target.split_once('?').unwrap();
    let parameters = query.split('&').map(|parameter| {
        let (known, old) = parameter.split_once('=').unwrap();
        format!("{known}={}", if known == name { value } else { old })
    });
    let query: Vec<String> = parameters.collect();
    TestHead {
        target: format!("{path}?{}", query.join("&")),
        ..head.clone()
    }
}

#[test]
fn the_clock_may_be_off_by_a_quarter_of_an_hour() {
    let head = signed_get("/b/k");
    let now = example_time();
    for (at, is_right) in [
        (now + seconds(900), true),
        (now + seconds(901), false),
        (now - seconds(900), true),
        (now - seconds(901), false),
    ] {
        let expected = (!is_right).then_some(S3ErrorCode::RequestTimeTooSkewed);
        assert_eq!(head.identity_at(at).err(), expected, "{at:?}");
    }
    let failure = head.authenticate_at(now + seconds(901)).unwrap_err();
    let element = ("ServerTime", "2013-05-24T00:15:01Z".to_owned());
    assert!(failure.elements.contains(&element), "{failure:?}");
}

#[test]
fn g13_presigned_urls_begin_and_expire() {
    let head = presigned_get("/b/k");
    let now = example_time();
    for (at, is_right) in [
        (now, true),
        (now + seconds(3600), true),
        (now + seconds(3601), false),
        (now - seconds(900), true),
        (now - seconds(901), false),
    ] {
        let expected = (!is_right).then_some(S3ErrorCode::AccessDenied);
        assert_eq!(head.identity_at(at).err(), expected, "{at:?}");
    }
    let expired = head.authenticate_at(now + seconds(3601)).unwrap_err();
    assert_eq!(expired.message(), "Request has expired");
}

#[test]
fn g13_a_presigned_url_needs_all_of_its_parameters() {
    let head = presigned_get("/b/k");
    assert!(head.identity().is_ok());
    let malformed = Some(S3ErrorCode::AuthorizationQueryParametersError);
    for (name, value) in [
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA1"),
        ("X-Amz-Credential", "AK"),
        ("X-Amz-Date", "20130524"),
        ("X-Amz-Date", "20130525T000000Z"),
        ("X-Amz-Expires", "604801"),
        ("X-Amz-Expires", "-1"),
        ("X-Amz-Expires", "x"),
    ] {
        let wrong = with_parameter(&head, name, value);
        assert_eq!(wrong.identity().err(), malformed, "{name}={value}");
    }
    for name in [
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-SignedHeaders",
        "X-Amz-Signature",
    ] {
        let renamed = head.target.replace(name, "other");
        let wrong = TestHead {
            target: renamed,
            ..head.clone()
        };
        assert_eq!(wrong.identity().err(), malformed, "without {name}");
        let twice = format!("{}&{name}=x", head.target);
        let wrong = TestHead {
            target: twice,
            ..head.clone()
        };
        assert_eq!(wrong.identity().err(), malformed, "{name} twice");
    }
}

#[test]
fn g13_another_region_is_refused_with_the_right_one() {
    let presigned = presigned_get("/b/k");
    let target = presigned.target.replace("us-east-1", "eu-west-1");
    let presigned = TestHead {
        target,
        ..presigned
    };
    let signed = signed_get("/b/k");
    let field = signed.header_map()["authorization"]
        .to_str()
        .unwrap()
        .to_owned();
    let signed = signed.with("authorization", &field.replace("us-east-1", "eu-west-1"));
    for (head, code) in [
        (presigned, S3ErrorCode::AuthorizationQueryParametersError),
        (signed, S3ErrorCode::AuthorizationHeaderMalformed),
    ] {
        let failure = head.authenticate_at(example_time()).unwrap_err();
        assert_eq!(failure.code, code);
        let region = ("Region", "us-east-1".to_owned());
        assert!(failure.elements.contains(&region), "{failure:?}");
    }
}

#[test]
fn g13_amazon_fields_that_are_not_signed_are_refused() {
    for head in [signed_get("/b/k"), presigned_get("/b/k")] {
        let added = head.clone().with("x-amz-acl", "public-read");
        let failure = added.authenticate_at(example_time()).unwrap_err();
        assert_eq!(failure.code, S3ErrorCode::AccessDenied);
        let names = ("HeadersNotSigned", "x-amz-acl".to_owned());
        assert!(failure.elements.contains(&names), "{failure:?}");
        // Others may be added on the way.
        assert!(head.with("x-amzn-trace-id", "1").identity().is_ok());
    }
}

#[test]
fn the_host_must_be_signed() {
    let head = signed_get("/b/k");
    let field = head.header_map()["authorization"]
        .to_str()
        .unwrap()
        .to_owned();
    let unsigned = head.with("authorization", &field.replace("host;", ""));
    assert_eq!(unsigned.identity().err(), Some(S3ErrorCode::AccessDenied));
}

#[test]
fn g16_requests_without_a_usable_signature() {
    let now = example_time();
    let anonymous = TestHead::new(Method::GET, "/b/k?list-type=2", &[("host", "h")]);
    let found = anonymous.authenticate_at(now);
    assert!(matches!(found, Ok(S3Authentication::Anonymous)));
    let version_2 = anonymous.clone().with("authorization", "AWS AK:abc=");
    assert_eq!(version_2.identity().err(), Some(S3ErrorCode::AccessDenied));
    let malformed = anonymous.clone().with("authorization", "AWS abc");
    assert_eq!(
        malformed.identity().err(),
        Some(S3ErrorCode::InvalidArgument)
    );
    let empty = anonymous.with("authorization", " ").authenticate_at(now);
    assert!(matches!(empty, Ok(S3Authentication::Anonymous)));
    let target = "/b/k?AWSAccessKeyId=AK&Expires=1&Signature=abc%3D";
    let version_2 = TestHead::new(Method::GET, target, &[("host", "h")]);
    assert_eq!(version_2.identity().err(), Some(S3ErrorCode::AccessDenied));
    let form = TestHead::new(
        Method::POST,
        "/b",
        &[("content-type", "multipart/form-data; boundary=x")],
    );
    assert_eq!(form.identity().err(), Some(S3ErrorCode::NotImplemented));
}

#[test]
fn requests_that_speak_s3_are_told_from_others() {
    let is_signed = |head: &TestHead| {
        let query = head.target.split_once('?').map(|(_, query)| query);
        S3Authenticator::is_signed(&head.header_map(), query)
    };
    assert!(is_signed(&signed_get("/b/k")));
    assert!(is_signed(&presigned_get("/b/k")));
    let plain = TestHead::new(Method::GET, "/b/k?AWS&x=X-Amz-Signature", &[]);
    assert!(!is_signed(&plain));
    assert!(!is_signed(
        &plain.clone().with("authorization", "Basic abc")
    ));
    assert!(is_signed(&plain.with("authorization", "AWS AK:abc=")));
    let version_2 = TestHead::new(Method::GET, "/b/k?AWSAccessKeyId=AK", &[]);
    assert!(is_signed(&version_2));
}

#[test]
fn other_refusals_have_their_codes() {
    let head = signed_get("/b/k");
    let field = head.header_map()["authorization"]
        .to_str()
        .unwrap()
        .to_owned();
    let both = TestHead {
        target: presigned_get("/b/k").target,
        ..head.clone()
    };
    for (head, code) in [
        (both, S3ErrorCode::InvalidArgument),
        (
            head.clone().without("x-amz-content-sha256"),
            S3ErrorCode::InvalidRequest,
        ),
        (
            head.clone().with("x-amz-content-sha256", "abc"),
            S3ErrorCode::InvalidArgument,
        ),
        (
            head.clone().without("x-amz-date"),
            S3ErrorCode::AccessDenied,
        ),
        (
            head.clone().with("x-amz-date", "yesterday"),
            S3ErrorCode::AccessDenied,
        ),
        (
            head.clone().with("x-amz-date", "20130523T235959Z"),
            S3ErrorCode::AuthorizationHeaderMalformed,
        ),
        (
            head.clone().with("x-amz-security-token", "t"),
            S3ErrorCode::InvalidToken,
        ),
        (
            head.with("authorization", &field.replace(ACCESS_KEY, "AKIDOTHER")),
            S3ErrorCode::InvalidAccessKeyId,
        ),
    ] {
        assert_eq!(head.identity().err(), Some(code), "{head:?}");
    }
    let token = format!("{}&X-Amz-Security-Token=t", presigned_get("/b/k").target);
    let head = TestHead::new(Method::GET, &token, &[("host", "localhost:9000")]);
    assert_eq!(head.identity().err(), Some(S3ErrorCode::InvalidToken));
}

#[test]
fn a_wrong_signature_is_explained_without_a_secret() {
    let head = TestHead {
        target: "/b/other".to_owned(),
        ..signed_get("/b/k")
    };
    let failure = head.authenticate_at(example_time()).unwrap_err();
    assert_eq!(failure.code, S3ErrorCode::SignatureDoesNotMatch);
    let names: Vec<&str> = failure.elements.iter().map(|(name, _)| *name).collect();
    let expected = [
        "AWSAccessKeyId",
        "StringToSign",
        "SignatureProvided",
        "CanonicalRequest",
    ];
    assert_eq!(names, expected);
    assert!(!format!("{failure:?}").contains(SECRET));
    assert!(!format!("{:?}", authenticator()).contains(SECRET));
}
