//! Globs as curl's manual and its users write them, and malformed ones.

use super::*;
use proptest::prelude::*;

fn urls(text: &str) -> Vec<String> {
    Glob::parse(text).unwrap().urls().collect()
}

fn error(text: &str) -> (usize, GlobProblem) {
    let error = Glob::parse(text).unwrap_err();
    (error.position, error.problem)
}

#[test]
fn ranges_and_sets_as_curl_writes_them() {
    assert_eq!(urls("a[8-11]b"), ["a8b", "a9b", "a10b", "a11b"]);
    assert_eq!(urls("[08-11]"), ["08", "09", "10", "11"]);
    assert_eq!(urls("[000-1]"), ["000", "001"]);
    assert_eq!(urls("[0-2]"), ["0", "1", "2"]);
    assert_eq!(urls("[1-100:33]"), ["1", "34", "67", "100"]);
    assert_eq!(urls("[1-99:33]"), ["1", "34", "67"]);
    assert_eq!(urls("[a-z:10]"), ["a", "k", "u"]);
    assert_eq!(urls("[X-Z]"), ["X", "Y", "Z"]);
    assert_eq!(urls("[5-5]"), ["5"]);
    assert_eq!(urls("{one,two}"), ["one", "two"]);
    assert_eq!(urls("x{,s}"), ["x", "xs"]);
    assert_eq!(urls("x{s,}"), ["xs", "x"]);
    assert_eq!(urls("{alone}"), ["alone"]);
    assert_eq!(urls("{ä,ö}[1-2]"), ["ä1", "ä2", "ö1", "ö2"]);
}

#[test]
fn the_last_range_varies_fastest() {
    assert_eq!(
        urls("{a,b}/[1-2].{x,y}"),
        [
            "a/1.x", "a/1.y", "a/2.x", "a/2.y", "b/1.x", "b/1.y", "b/2.x", "b/2.y"
        ]
    );
}

#[test]
fn text_without_globs_is_left_alone() {
    for plain in [
        "http://h.test/f.iso",
        "http://[::1]/",
        "http://[::1]:8080/x",
        "http://[fe80::1%25eth0]/",
        "http://[::ffff:1.2.3.4]/",
        "http://h/?a[]=1&b[]=2",
        "back\\slash",
        "\\",
        "",
    ] {
        let glob = Glob::parse(plain).unwrap();
        assert_eq!(glob.len(), 1, "{plain}");
        assert_eq!(glob.urls().collect::<Vec<_>>(), [plain]);
    }
    assert_eq!(urls("\\[1-2\\]\\{a\\}"), ["[1-2]{a}"]);
    assert_eq!(urls("{a\\,b,\\},\\\\}"), ["a,b", "}", "\\"]);
    assert_eq!(
        urls("http://[::1]/[1-2]"),
        ["http://[::1]/1", "http://[::1]/2"]
    );
}

#[test]
fn errors_say_at_which_character() {
    use GlobProblem as P;
    for (text, at, problem) in [
        ("ab{c,d", 3, P::UnclosedSet),
        ("ä[1-2", 2, P::UnclosedRange),
        ("ab}", 3, P::UnmatchedBracket('}')),
        ("ab]", 3, P::UnmatchedBracket(']')),
        ("{a]}", 3, P::UnmatchedBracket(']')),
        ("{a,{b}}", 4, P::Nested('{')),
        ("{a,[1-2]}", 4, P::Nested('[')),
        ("x{}", 2, P::EmptySet),
        ("[x]", 3, P::MalformedRange),
        ("[1]", 3, P::MalformedRange),
        ("[1-]", 4, P::MalformedRange),
        ("[-1]", 2, P::MalformedRange),
        ("[1-2;3]", 5, P::MalformedRange),
        ("[1-2:]", 6, P::MalformedRange),
        ("[é-z]", 2, P::MalformedRange),
        ("[9-1]", 2, P::DescendingRange),
        ("[z-a]", 2, P::DescendingRange),
        ("[A-z]", 2, P::DescendingRange),
        ("[a-9]", 2, P::DescendingRange),
        ("[1-9:0]", 6, P::InvalidStep),
        ("[1-9:9]", 6, P::InvalidStep),
        ("[1-1:2]", 6, P::InvalidStep),
        ("[1-18446744073709551616]", 4, P::NumberTooLarge),
        ("[000000000000000000001-2]", 2, P::NumberTooLarge),
        ("[0-18446744073709551615]", 1, P::TooManyUrls),
        ("[1-5000000000][1-5000000000]", 1, P::TooManyUrls),
    ] {
        assert_eq!(error(text), (at, problem), "{text}");
    }
    let text = Glob::parse("http://me:s3cret@h/[9-1]").unwrap_err();
    assert_eq!(
        text.to_string(),
        "a range that does not ascend, at character 21"
    );
}

#[test]
fn billions_of_urls_cost_nothing_until_they_are_computed() {
    let glob = Glob::parse("http://h/[0-99999]/[000000-999999].jpg").unwrap();
    assert_eq!(glob.len(), 100_000_000_000);
    let last = glob.nth(glob.len() - 1).unwrap();
    assert_eq!(last, "http://h/99999/999999.jpg");
    assert_eq!(glob.nth(glob.len()), None);
    assert_eq!(glob.urls().nth(2).unwrap(), "http://h/0/000002.jpg");
    let widest = Glob::parse("[1-18446744073709551615]").unwrap();
    assert_eq!(widest.len(), u64::MAX);
    assert_eq!(widest.nth(u64::MAX - 1).unwrap(), "18446744073709551615");
}

/// A token of a glob: how it is written, and the texts that it expands to.
fn token() -> impl Strategy<Value = (String, Vec<String>)> {
    prop_oneof![
        "[a-z/.]{1,5}".prop_map(|text| (text.clone(), vec![text])),
        prop::collection::vec("[a-z]{0,3}", 2..4)
            .prop_map(|members| (format!("{{{}}}", members.join(",")), members)),
        (0_u64..50, 0_u64..9, 1_usize..5).prop_map(|(first, more, width)| {
            let last = first + more;
            let range = if width == 1 {
                format!("[{first}-{last}]")
            } else {
                format!("[0{first:0width$}-{last}]")
            };
            let digits = if width == 1 {
                0
            } else {
                format!("0{first:0width$}").len()
            };
            (
                range,
                (first..=last).map(|n| format!("{n:0digits$}")).collect(),
            )
        }),
    ]
}

proptest! {
    #[test]
    fn a_glob_is_the_product_of_its_tokens(tokens in prop::collection::vec(token(), 1..5)) {
        // A range of one member whose first digit is 0 is written `0`, which is padding to one digit: the
        // same text.
        let text: String = tokens.iter().map(|(text, _)| text.as_str()).collect();
        let mut expected = vec![String::new()];
        for (_, members) in &tokens {
            expected = expected
                .iter()
                .flat_map(|front| members.iter().map(move |member| format!("{front}{member}")))
                .collect();
        }
        let glob = Glob::parse(&text).unwrap();
        prop_assert_eq!(glob.len(), expected.len() as u64);
        prop_assert_eq!(glob.urls().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_text_panics_and_positions_are_within_the_text(text in "[\\[\\]{}a-c0-9,:%\\\\é-]{0,24}") {
        match Glob::parse(&text) {
            Ok(glob) => {
                prop_assert!(glob.len() >= 1);
                let _ = glob.nth(glob.len() - 1).unwrap();
            }
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.position)),
        }
    }

    #[test]
    fn escaped_text_stands_for_itself(text in "[\\[\\]{}a-z0-9,:-]{0,24}") {
        let escaped: String = text
            .chars()
            .flat_map(|c| "[]{}".contains(c).then_some('\\').into_iter().chain([c]))
            .collect();
        prop_assert_eq!(urls(&escaped), [text]);
    }
}
