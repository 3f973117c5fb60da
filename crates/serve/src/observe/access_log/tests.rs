//! Lines compared with those of other servers, and with hostile input.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, UNIX_EPOCH};

use http::{Method, StatusCode, Uri};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The request in Apache's manual.
fn frank() -> AccessRecord {
    AccessRecord {
        time: UNIX_EPOCH + Duration::from_millis(971_186_136_250),
        peer: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        user: Some("frank".into()),
        method: Some(Method::GET),
        target: Uri::from_static("/apache_pb.gif"),
        version: Version::HTTP_10,
        status: StatusCode::OK,
        sent: 2326,
        received: 0,
        duration: Duration::from_micros(1_234),
        referer: Some(HeaderValue::from_static(
            "http://www.example.com/start.html",
        )),
        user_agent: Some(HeaderValue::from_static(
            "Mozilla/4.08 [en] (Win98; I ;Nav)",
        )),
        is_incomplete: false,
    }
}

fn line(format: AccessLogFormat, record: &AccessRecord) -> String {
    let mut line = Vec::new();
    format.render(record, &mut line);
    let line = String::from_utf8(line).unwrap();
    assert_eq!(line.find('\n'), Some(line.len() - 1), "{line}");
    line.trim_end().to_owned()
}

fn object(record: &AccessRecord) -> Value {
    serde_json::from_str(&line(AccessLogFormat::Json, record)).unwrap()
}

#[test]
fn lines_match_apaches_manual_exactly() {
    let common =
        r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 +0000] "GET /apache_pb.gif HTTP/1.0" 200 2326"#;
    assert_eq!(line(AccessLogFormat::Common, &frank()), common);
    let rest = r#" "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)""#;
    let combined = format!("{common}{rest}");
    assert_eq!(line(AccessLogFormat::Combined, &frank()), combined);
}

#[test]
fn json_has_all_fields() {
    let text = concat!(
        r#"{"time":"2000-10-10T13:55:36.250Z","peer":"127.0.0.1","user":"frank","method":"GET","target":"/apache_pb.gif","#,
        r#""version":"HTTP/1.0","status":200,"sent":2326,"received":0,"seconds":0.001234,"#,
        r#""referer":"http://www.example.com/start.html","user_agent":"Mozilla/4.08 [en] (Win98; I ;Nav)","cut_short":false}"#,
    );
    assert_eq!(line(AccessLogFormat::Json, &frank()), text);
}

#[test]
fn absent_fields_are_a_hyphen_or_null() {
    let record = AccessRecord {
        peer: None,
        user: None,
        method: Some(Method::DELETE),
        version: Version::HTTP_11,
        status: StatusCode::NO_CONTENT,
        sent: 0,
        referer: None,
        user_agent: None,
        is_incomplete: true,
        ..frank()
    };
    let expected =
        r#"unix: - - [10/Oct/2000:13:55:36 +0000] "DELETE /apache_pb.gif HTTP/1.1" 204 - "-" "-""#;
    assert_eq!(line(AccessLogFormat::Combined, &record), expected);
    let object = object(&record);
    for name in ["peer", "user", "referer", "user_agent"] {
        assert_eq!(object[name], Value::Null, "{name}");
    }
    assert_eq!(object["sent"], json!(0));
    assert_eq!(object["cut_short"], json!(true));
    let empty = AccessRecord {
        user: Some("".into()),
        ..frank()
    };
    assert!(line(AccessLogFormat::Common, &empty).starts_with("127.0.0.1 - \"\" ["));
}

#[test]
fn client_text_cannot_end_a_field() {
    let record = AccessRecord {
        user: Some("a b\n".into()),
        user_agent: Some(HeaderValue::from_bytes(b"a\"b\\c\td\xFF").unwrap()),
        ..frank()
    };
    let text = line(AccessLogFormat::Combined, &record);
    assert!(text.starts_with(r"127.0.0.1 - a\x20b\x0A [10/"), "{text}");
    assert!(text.ends_with(r#" "a\x22b\x5Cc\x09d\xFF""#), "{text}");
    let object = object(&record);
    assert_eq!(object["user"], json!("a b\n"));
    assert_eq!(object["user_agent"], json!("a\"b\\c\td\u{FFFD}"));
    // Control characters above ASCII, and newlines that C does not know.
    let record = AccessRecord {
        user: Some("\u{7F}\u{9B}1m\u{2028}".into()),
        ..frank()
    };
    let text = line(AccessLogFormat::Json, &record);
    assert!(text.contains(r#""user":"\u007f\u009b1m\u2028""#), "{text}");
}

#[test]
fn secrets_in_targets_and_referers_are_masked_in_every_format() {
    let record = AccessRecord {
        target: Uri::from_static(
            "/f?haul-expires=9&haul-signature=s3cret&X-Amz-Signature=s3cret&token=s3cret&a=1",
        ),
        referer: Some(
            HeaderValue::from_bytes(b"http://me:s3cret@h/\xFF?haul-signature=s3cret").unwrap(),
        ),
        ..frank()
    };
    for format in [
        AccessLogFormat::Common,
        AccessLogFormat::Combined,
        AccessLogFormat::Json,
    ] {
        let text = line(format, &record);
        let target = "/f?haul-expires=9&haul-signature=***&X-Amz-Signature=***&token=***&a=1";
        assert!(text.contains(target), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    let record = AccessRecord {
        referer: Some(HeaderValue::from_static("http://h/?a=1&sig=s3cret")),
        ..frank()
    };
    let text = line(AccessLogFormat::Combined, &record);
    assert!(text.contains("\"http://h/?a=1&sig=***\""), "{text}");
    assert_eq!(object(&record)["referer"], json!("http://h/?a=1&sig=***"));
}

#[test]
fn targets_are_logged_as_sent_and_for_http2_by_path() {
    for (target, version, expected) in [
        (
            "http://h:81/a?b=1",
            Version::HTTP_11,
            "GET http://h:81/a?b=1 HTTP/1.1",
        ),
        ("https://h/a?b=1", Version::HTTP_2, "GET /a?b=1 HTTP/2.0"),
        ("*", Version::HTTP_11, "GET * HTTP/1.1"),
        ("h:443", Version::HTTP_11, "GET h:443 HTTP/1.1"),
        (
            "/%C3%A4/me@h",
            Version::HTTP_11,
            "GET /%C3%A4/me@h HTTP/1.1",
        ),
    ] {
        let record = AccessRecord {
            target: target.parse().unwrap(),
            version,
            ..frank()
        };
        let text = line(AccessLogFormat::Common, &record);
        assert!(text.contains(&format!("\"{expected}\"")), "{text}");
    }
}

#[test]
fn mapped_ipv4_addresses_are_shown_as_ipv4() {
    for (peer, expected) in [
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::1"),
    ] {
        let record = AccessRecord {
            peer: Some(peer.parse().unwrap()),
            ..frank()
        };
        assert!(line(AccessLogFormat::Common, &record).starts_with(&format!("{expected} - ")));
        assert_eq!(object(&record)["peer"], json!(expected));
    }
}

#[test]
fn long_fields_are_masked_before_they_are_truncated() {
    let long = "\u{E4}".repeat(MAX_FIELD_BYTES);
    let record = AccessRecord {
        target: format!("/?q=//me:{}@h", "s".repeat(MAX_FIELD_BYTES))
            .parse()
            .unwrap(),
        user_agent: Some(HeaderValue::from_bytes(long.as_bytes()).unwrap()),
        ..frank()
    };
    for format in [AccessLogFormat::Combined, AccessLogFormat::Json] {
        let text = line(format, &record);
        assert!(text.contains("/?q=//***@h"), "{text}");
        assert!(text.contains("...\"") && text.len() < 5 * MAX_FIELD_BYTES);
    }
    assert!(
        object(&record)["user_agent"]
            .as_str()
            .unwrap()
            .ends_with("\u{E4}...")
    );
}

/// Any characters, with control characters among them.
fn characters() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 0..20).prop_map(String::from_iter)
}

/// Header values may hold all bytes but control characters; HTTP does not count the tab among
/// those.
fn header() -> impl Strategy<Value = Option<HeaderValue>> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        characters().prop_map(String::into_bytes),
    ];
    bytes.prop_map(|bytes| HeaderValue::from_bytes(&bytes).ok())
}

prop_compose! {
    fn any_record()(
        user in prop::option::of(characters()),
        method in "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}",
        path in prop::collection::vec(any::<u8>(), 0..40),
        referer in header(),
        user_agent in header(),
        millis in 0_u64..300_000_000_000_000,
        sent: u64,
        status in 100_u16..1000,
    ) -> AccessRecord {
        let target: Vec<u8> = b"/".iter().copied().chain(path).collect();
        AccessRecord {
            time: UNIX_EPOCH + Duration::from_millis(millis),
            user: user.map(Into::into),
            method: Some(Method::from_bytes(method.as_bytes()).unwrap()),
            target: Uri::try_from(target).unwrap_or_default(),
            status: StatusCode::from_u16(status).unwrap(),
            sent,
            referer,
            user_agent,
            ..frank()
        }
    }
}

proptest! {
    #[test]
    fn no_line_has_a_control_byte(record in any_record()) {
        for format in [AccessLogFormat::Common, AccessLogFormat::Combined, AccessLogFormat::Json] {
            let text = line(format, &record);
            prop_assert!(!text.chars().any(char::is_control), "{text}");
        }
        // Quotes are only where fields begin and end.
        let text = line(AccessLogFormat::Combined, &record);
        let expected = if record.user.as_deref() == Some("") { 8 } else { 6 };
        prop_assert_eq!(text.matches('"').count(), expected, "{}", text);
    }

    #[test]
    fn json_lines_parse_back_to_their_record(record in any_record()) {
        let object = object(&record);
        prop_assert_eq!(&object["user"], &json!(record.user.as_deref()));
        prop_assert_eq!(&object["method"], &json!(record.method.as_ref().unwrap().as_str()));
        prop_assert_eq!(&object["sent"], &json!(record.sent));
        prop_assert_eq!(&object["status"], &json!(record.status.as_u16()));
        let agent = record.user_agent.as_ref().map(|agent| String::from_utf8_lossy(agent.as_bytes()));
        prop_assert_eq!(&object["user_agent"], &json!(agent));
    }
}
