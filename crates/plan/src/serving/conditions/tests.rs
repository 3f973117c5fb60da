//! Conditions of requests, each in every precedence, and compared with a model.

use std::time::{Duration, UNIX_EPOCH};

use super::ConditionOutcome::{NotModified, PreconditionFailed, Proceed};
use super::*;
use http::HeaderValue;
use proptest::prelude::*;

/// When the file was changed, as Last-Modified has it; the file system has a fraction, too.
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn modified() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(784_111_777_900)
}

fn conditions(pairs: &[(&'static str, &str)]) -> RequestConditions {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        headers.append(HeaderName::from_static(name), value);
    }
    RequestConditions::parse(&headers)
}

fn tag(text: &str) -> EntityTag {
    text.parse().unwrap()
}

/// The outcome of a read and of a write, where the file has the tag `"now"`.
fn outcomes(pairs: &[(&'static str, &str)]) -> [ConditionOutcome; 2] {
    let etag = tag("\"now\"");
    let current = CurrentRepresentation {
        etag: Some(&etag),
        last_modified: Some(modified()),
    };
    let conditions = conditions(pairs);
    [
        conditions.evaluate_read(current),
        conditions.evaluate_write(Some(current)),
    ]
}

#[test]
fn d8_without_conditions_every_request_proceeds() {
    let none = conditions(&[("host", "a"), ("range", "bytes=0-")]);
    assert!(none.is_empty());
    assert_eq!(
        none.evaluate_read(CurrentRepresentation::default()),
        Proceed
    );
    assert_eq!(none.evaluate_write(None), Proceed);
    assert!(none.range_applies(CurrentRepresentation::default(), UNIX_EPOCH));
    assert!(!conditions(&[("if-range", "x")]).is_empty());
}

#[test]
fn d8_if_none_match_compares_weakly_and_takes_lists() {
    for value in [
        "\"now\"",
        "W/\"now\"",
        "*",
        " * ",
        "\"a\", \"now\"",
        "\"a\",,W/\"now\",",
        "\"a,b\", \"now\"",
        // A reader skips malformed members.
        "junk, \"now\"",
    ] {
        assert_eq!(
            outcomes(&[("if-none-match", value)]),
            [NotModified, PreconditionFailed],
            "{value}"
        );
    }
    for value in ["\"a\"", "\"\"", "\"a\", W/\"b\"", "\"a,now\"", ""] {
        assert_eq!(
            outcomes(&[("if-none-match", value)]),
            [Proceed, Proceed],
            "{value}"
        );
    }
    let lines = [("if-none-match", "\"a\""), ("if-none-match", "\"now\"")];
    assert_eq!(outcomes(&lines), [NotModified, PreconditionFailed]);
}

#[test]
fn d8_if_match_compares_strongly() {
    for (value, outcome) in [
        ("\"now\"", Proceed),
        ("*", Proceed),
        ("\"a\", \"now\"", Proceed),
        ("W/\"now\"", PreconditionFailed),
        ("\"a\"", PreconditionFailed),
        ("", PreconditionFailed),
        ("now", PreconditionFailed),
        ("\"now", PreconditionFailed),
        // One member is malformed: what it was to hold back is not known.
        ("\"now\", junk", PreconditionFailed),
        ("\"now\", *", PreconditionFailed),
    ] {
        assert_eq!(outcomes(&[("if-match", value)]), [outcome; 2], "{value}");
    }
    let weak = tag("W/\"now\"");
    let current = CurrentRepresentation {
        etag: Some(&weak),
        last_modified: None,
    };
    assert_eq!(
        conditions(&[("if-match", "W/\"now\"")]).evaluate_read(current),
        PreconditionFailed
    );
    let untagged = CurrentRepresentation::default();
    assert_eq!(
        conditions(&[("if-match", "*")]).evaluate_read(untagged),
        Proceed
    );
    assert_eq!(
        conditions(&[("if-match", "\"a\"")]).evaluate_read(untagged),
        PreconditionFailed
    );
}

#[test]
fn d8_dates_compare_at_whole_seconds() {
    for (date, since, unmodified) in [
        (EARLIER, Proceed, PreconditionFailed),
        (DATE, NotModified, Proceed),
        (LATER, NotModified, Proceed),
        // The two obsolete date formats.
        ("Sunday, 06-Nov-94 08:49:37 GMT", NotModified, Proceed),
        ("Sun Nov  6 08:49:37 1994", NotModified, Proceed),
    ] {
        assert_eq!(
            outcomes(&[("if-modified-since", date)]),
            [since, Proceed],
            "{date}"
        );
        assert_eq!(
            outcomes(&[("if-unmodified-since", date)]),
            [unmodified; 2],
            "{date}"
        );
    }
}

#[test]
fn d8_malformed_and_repeated_dates_are_ignored() {
    for date in [
        "",
        "yesterday",
        "784111777",
        "Sun, 06 Nov 1994 25:49:37 GMT",
    ] {
        assert_eq!(
            outcomes(&[("if-modified-since", date)]),
            [Proceed; 2],
            "{date}"
        );
        assert_eq!(
            outcomes(&[("if-unmodified-since", date)]),
            [Proceed; 2],
            "{date}"
        );
    }
    for name in ["if-modified-since", "if-unmodified-since"] {
        let (late, early) = ((name, LATER), (name, EARLIER));
        assert_eq!(outcomes(&[late, early]), [Proceed; 2], "{name}");
        assert_eq!(outcomes(&[early, late]), [Proceed; 2], "{name}");
        // A file without a date has none to compare.
        let undated = conditions(&[(name, DATE)]);
        assert_eq!(
            undated.evaluate_read(CurrentRepresentation::default()),
            Proceed,
            "{name}"
        );
    }
}

#[test]
fn d8_tags_override_dates() {
    let no_match = ("if-none-match", "\"a\"");
    assert_eq!(
        outcomes(&[no_match, ("if-modified-since", LATER)]),
        [Proceed; 2]
    );
    let unreadable = ("if-none-match", "junk");
    assert_eq!(
        outcomes(&[unreadable, ("if-modified-since", LATER)]),
        [Proceed, PreconditionFailed]
    );
    let matched = ("if-match", "\"now\"");
    assert_eq!(
        outcomes(&[matched, ("if-unmodified-since", EARLIER)]),
        [Proceed; 2]
    );
    assert_eq!(
        outcomes(&[matched, ("if-none-match", "\"now\"")]),
        [NotModified, PreconditionFailed]
    );
    assert_eq!(
        outcomes(&[
            ("if-unmodified-since", EARLIER),
            ("if-none-match", "\"now\"")
        ]),
        [PreconditionFailed; 2]
    );
    assert_eq!(
        outcomes(&[("if-match", "\"a\""), ("if-none-match", "\"now\"")]),
        [PreconditionFailed; 2]
    );
}

#[test]
fn d5_writes_of_keys_that_do_not_exist() {
    let write = |name, value| conditions(&[(name, value)]).evaluate_write(None);
    assert_eq!(write("if-none-match", "*"), Proceed);
    assert_eq!(write("if-none-match", "\"a\""), Proceed);
    assert_eq!(write("if-match", "*"), PreconditionFailed);
    assert_eq!(write("if-match", "\"a\""), PreconditionFailed);
    assert_eq!(write("if-unmodified-since", EARLIER), Proceed);
}

#[test]
fn d5_if_none_match_star_never_replaces() {
    for value in ["*", "\"a\", *", "now", "\"a\", junk"] {
        assert_eq!(
            outcomes(&[("if-none-match", value)])[1],
            PreconditionFailed,
            "{value}"
        );
    }
    // The file exists, with or without a tag.
    let create = conditions(&[("if-none-match", "*")]);
    assert_eq!(
        create.evaluate_write(Some(CurrentRepresentation::default())),
        PreconditionFailed
    );
}

/// Whether a Range with this If-Range is obeyed, this long after the file was changed.
fn applies(values: &[&str], etag: &str, age: Duration) -> bool {
    let etag = tag(etag);
    let current = CurrentRepresentation {
        etag: Some(&etag),
        last_modified: Some(modified()),
    };
    let pairs: Vec<_> = values.iter().map(|value| ("if-range", *value)).collect();
    conditions(&pairs).range_applies(current, modified() + age)
}

#[test]
fn d8_if_range_compares_strongly() {
    let hour = Duration::from_secs(3600);
    assert!(applies(&["\"now\""], "\"now\"", Duration::ZERO));
    for value in ["\"a\"", "W/\"now\"", "now", "\"now", "*", ""] {
        assert!(!applies(&[value], "\"now\"", hour), "{value}");
    }
    assert!(!applies(&["W/\"now\""], "W/\"now\"", hour));
    assert!(!applies(&["\"now\""], "W/\"now\"", hour));
    assert!(!applies(&["\"now\"", "\"now\""], "\"now\"", hour));
    assert!(
        !conditions(&[("if-range", "\"now\"")])
            .range_applies(CurrentRepresentation::default(), modified())
    );
}

#[test]
fn d8_a_date_in_if_range_must_be_equal_and_old_enough() {
    let minute = Duration::from_secs(60);
    assert!(applies(&[DATE], "\"now\"", minute));
    assert!(!applies(&[EARLIER], "\"now\"", minute));
    assert!(!applies(&[LATER], "\"now\"", minute));
    assert!(!applies(
        &[DATE],
        "\"now\"",
        minute - Duration::from_nanos(1)
    ));
    // A file dated in the future.
    let current = CurrentRepresentation {
        etag: None,
        last_modified: Some(modified()),
    };
    assert!(!conditions(&[("if-range", DATE)]).range_applies(current, UNIX_EPOCH));
}

/// A request of the model: tags and seconds, not their texts.
#[derive(Debug, Clone)]
struct ModelRequest {
    if_match: Option<ModelTagList>,
    if_none_match: Option<ModelTagList>,
    modified_since: Option<u64>,
    unmodified_since: Option<u64>,
}

#[derive(Debug, Clone)]
enum ModelTagList {
    Star,
    Tags(Vec<(bool, u8)>),
}

impl ModelTagList {
    fn text(&self) -> String {
        match self {
            Self::Star => "*".into(),
            Self::Tags(tags) => {
                let tags: Vec<_> = tags.iter().map(|tag| tag_text(*tag)).collect();
                tags.join(", ")
            }
        }
    }

    fn contains(
        &self,
        current: &ModelRepresentation,
        same: impl Fn((bool, u8), (bool, u8)) -> bool,
    ) -> bool {
        match (self, current) {
            (_, None) => false,
            (Self::Star, Some(_)) => true,
            (Self::Tags(tags), Some((etag, _))) => {
                etag.is_some_and(|etag| tags.iter().any(|tag| same(*tag, etag)))
            }
        }
    }
}

/// The model's current representation: a tag (weak or not, and which), and a second.
type ModelRepresentation = Option<(Option<(bool, u8)>, Option<u64>)>;

fn tag_text((weak, name): (bool, u8)) -> String {
    format!("{}\"{name},\"", if weak { "W/" } else { "" })
}

fn any_list() -> impl Strategy<Value = ModelTagList> {
    prop_oneof![
        Just(ModelTagList::Star),
        prop::collection::vec((any::<bool>(), 0u8..3), 0..4).prop_map(ModelTagList::Tags)
    ]
}

fn any_request() -> impl Strategy<Value = ModelRequest> {
    let second = || prop::option::of(1000u64..1004);
    let lists = (prop::option::of(any_list()), prop::option::of(any_list()));
    (lists, second(), second()).prop_map(
        |((if_match, if_none_match), modified_since, unmodified_since)| ModelRequest {
            if_match,
            if_none_match,
            modified_since,
            unmodified_since,
        },
    )
}

impl ModelRequest {
    fn headers(&self) -> HeaderMap {
        let date = |second: Option<u64>| {
            second.map(|second| httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second)))
        };
        let fields = [
            (IF_MATCH, self.if_match.as_ref().map(ModelTagList::text)),
            (
                IF_NONE_MATCH,
                self.if_none_match.as_ref().map(ModelTagList::text),
            ),
            (IF_MODIFIED_SINCE, date(self.modified_since)),
            (IF_UNMODIFIED_SINCE, date(self.unmodified_since)),
        ];
        fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, HeaderValue::from_str(&value?).unwrap())))
            .collect()
    }

    /// 13.2.2, step by step in its own words.
    fn model(&self, current: &ModelRepresentation, is_read: bool) -> ConditionOutcome {
        let modified = current.and_then(|(_, modified)| modified);
        let strong = |a: (bool, u8), b: (bool, u8)| !a.0 && !b.0 && a.1 == b.1;
        let weak = |a: (bool, u8), b: (bool, u8)| a.1 == b.1;
        // 1, 2
        let holds = match (&self.if_match, self.unmodified_since, modified) {
            (Some(list), _, _) => list.contains(current, strong),
            (None, Some(date), Some(modified)) => modified <= date,
            _ => true,
        };
        if !holds {
            return PreconditionFailed;
        }
        // 3, 4
        match (&self.if_none_match, self.modified_since, modified) {
            (Some(list), _, _) if list.contains(current, weak) && is_read => NotModified,
            (Some(list), _, _) if list.contains(current, weak) => PreconditionFailed,
            (None, Some(date), Some(modified)) if is_read && modified <= date => NotModified,
            _ => Proceed,
        }
    }
}

proptest! {
    #[test]
    fn d8_every_precedence_is_that_of_the_rfc(
        request in any_request(),
        model_current in prop::option::of((prop::option::of((any::<bool>(), 0u8..3)), prop::option::of(1000u64..1004))),
        fraction in 0u64..1000,
    ) {
        let conditions = RequestConditions::parse(&request.headers());
        let etag = model_current.and_then(|(etag, _)| etag).map(|etag| tag(&tag_text(etag)));
        let current = model_current.map(|(_, second)| CurrentRepresentation {
            etag: etag.as_ref(),
            last_modified: second.map(|second| UNIX_EPOCH + Duration::from_millis(second * 1000 + fraction)),
        });
        prop_assert_eq!(conditions.evaluate_write(current), request.model(&model_current, false));
        if let Some(current) = current {
            prop_assert_eq!(conditions.evaluate_read(current), request.model(&model_current, true));
        }
    }

    #[test]
    fn d8_no_value_panics_and_no_malformed_one_lets_a_write_through(value: Vec<u8>, which in 0usize..5) {
        let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
        let name = [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE][which].clone();
        let conditions = RequestConditions::parse(&std::iter::once((name.clone(), value.clone())).collect());
        let etag = tag("\"a-tag-that-nobody-guesses\"");
        let current = CurrentRepresentation { etag: Some(&etag), last_modified: None };
        let _ = conditions.evaluate_read(current);
        let tag_text = conditions.evaluate_write(Some(current));
        let text = value.as_bytes().trim_ascii();
        // Without quotes there is no tag in it, and what is not blank then is a star or junk.
        let is_junk = !text.contains(&b'"') && text.iter().any(|byte| !b" \t,".contains(byte));
        if name == IF_MATCH {
            prop_assert_eq!(tag_text == Proceed, text == b"*");
        } else if name == IF_NONE_MATCH && is_junk {
            prop_assert_eq!(tag_text, PreconditionFailed);
        }
        prop_assert_eq!(conditions.range_applies(current, UNIX_EPOCH), name != IF_RANGE);
    }
}
