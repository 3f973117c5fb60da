//! Layouts: the paths of URLs of all kinds, and that none of them leads out of the directory.

use std::path::{Component, Path};

use super::*;
use crate::filename::has_reserved_suffix;
use proptest::prelude::*;

const INDEX: u64 = 7;
const LINE: u64 = 12;

fn path_of(layout: &PathLayout, url: &str) -> String {
    let url = Url::parse(url).unwrap();
    let input = PathLayoutInput {
        url: &url,
        index: INDEX,
        line: LINE,
    };
    layout.path(input).to_str().unwrap().replace('\\', "/")
}

fn template(text: &str) -> PathLayout {
    PathLayout::Template(text.parse().unwrap())
}

#[test]
fn name_layout_uses_the_names_of_single_downloads() {
    assert_eq!(
        path_of(&PathLayout::Name, "http://h.test/a/b.jpg?x#y"),
        "b.jpg"
    );
    assert_eq!(path_of(&PathLayout::Name, "http://h.test/"), "index.html");
    assert_eq!(PathLayout::default(), PathLayout::Name);
}

#[test]
fn path_layout_uses_host_and_path() {
    for (url, path) in [
        ("http://h.test/a/b.jpg", "h.test/a/b.jpg"),
        ("http://H.test:80/a%20b/c.jpg#x", "h.test/a b/c.jpg"),
        ("http://me:s3cret@h.test:8080/f", "h.test+8080/f"),
        ("https://h.test:443/f", "h.test/f"),
        ("http://h.test/", "h.test/index.html"),
        ("http://h.test/a/", "h.test/a/index.html"),
        ("http://h.test//a///b", "h.test/a/b"),
        ("http://[::1]:81/f", "[__1]+81/f"),
        ("http://h.test/a%2f..%2fb/%2e%2e%2ff", "h.test/a_.._b/_._f"),
        ("http://h.test/..%2f/%5c/x", "h.test/_/_/x"),
        ("http://h.test/con/.git/-rf", "h.test/_con/_git/_-rf"),
        (
            "http://h.test/a.haul-part/f.haul-part",
            "h.test/a_haul-part/f_haul-part",
        ),
    ] {
        assert_eq!(path_of(&PathLayout::Path, url), path, "{url}");
    }
}

#[test]
fn path_layout_keeps_queries_without_secrets_in_names() {
    let path_of = |url: &str| path_of(&PathLayout::Path, url);
    assert_eq!(path_of("http://h.test/f.php?id=1"), "h.test/f.php_id=1");
    assert_eq!(
        path_of("http://h.test/f.php?id=2&x=%2f.."),
        "h.test/f.php_id=2&x=_"
    );
    assert_eq!(path_of("http://h.test/?id=1"), "h.test/index.html_id=1");
    assert_eq!(path_of("http://h.test/f?"), "h.test/f");
    for secret in ["token", "X-Amz-Signature", "%6bey", "API_Key", "pwd", "sid"] {
        let path = path_of(&format!("http://h.test/f?{secret}=s3cret"));
        assert!(path.starts_with("h.test/f_") && path.len() == 25, "{path}");
        assert!(!path.contains("s3cret"), "{path}");
    }
    let long = |end: &str| {
        path_of(&format!(
            "http://h.test/{}?q={}{end}",
            "n".repeat(300),
            "x".repeat(300)
        ))
    };
    assert_ne!(long("1"), long("2"));
    assert_ne!(
        path_of("http://h.test/f?token=1"),
        path_of("http://h.test/f?token=2")
    );
    let cut = |end: &str| path_of(&format!("http://h.test/{}?id={end}", "n".repeat(300)));
    assert_ne!(cut("1"), cut("2"));
}

#[test]
fn path_layout_replaces_deep_and_long_directories_by_a_digest() {
    let url =
        |parts: usize, part: &str| format!("http://h.test/{}f", format!("{part}/").repeat(parts));
    assert_eq!(
        path_of(&PathLayout::Path, &url(48, "d")).split('/').count(),
        50
    );
    for long in [url(49, "d"), url(2000, "d"), url(10, &"d".repeat(199))] {
        let path = path_of(&PathLayout::Path, &long);
        let parts: Vec<&str> = path.split('/').collect();
        assert!(
            matches!(parts[..], ["h.test", hash, "f"] if hash.len() == 64),
            "{path}"
        );
    }
    assert_ne!(
        path_of(&PathLayout::Path, &url(49, "d")),
        path_of(&PathLayout::Path, &url(50, "d"))
    );
}

#[test]
fn hash_layout_leaves_out_login_and_fragment() {
    // printf 'http://h.test/f' | sha256sum
    let path = path_of(&PathLayout::Hash, "http://me:s3cret@h.test/f#x");
    let hash = "361e9b55671c39b66eb362c621828ba834dad335826676c8a702f5e139b894da";
    assert_eq!(path, format!("{}/{}/{hash}", &hash[..2], &hash[2..4]));
}

#[test]
fn template_layout_fills_in_its_fields() {
    let url = "http://me:pw@h.test:81/a/b%20c/d.tar.gz?x=1";
    let hash = path_of(&PathLayout::Hash, url)[6..].to_owned();
    for (text, path) in [
        ("{index}", "7"),
        ("{index:06}.{ext}", "000007.gz"),
        ("{index:6}-{line:3}", "000007-012"),
        ("{host}/{dir}/{name}", "h.test+81/a/b c/d.tar.gz"),
        ("{stem}_{line}.{ext}", "d.tar_12.gz"),
        ("x{{{line}}}", "x{12}"),
        ("{hash}", hash.as_str()),
        ("./a//{name}", "a/d.tar.gz"),
        ("same", "same"),
        (".a/-b", "_a/_-b"),
    ] {
        assert_eq!(path_of(&template(text), url), path, "{text}");
    }
    let bare = "http://h.test/";
    assert_eq!(
        path_of(&template("{host}/{dir}/{stem}.{ext}"), bare),
        "h.test/index.html"
    );
    assert_eq!(
        path_of(&template("{dir}/{ext}"), "http://h.test/f"),
        "index.html"
    );
    assert_eq!(
        path_of(&template("{name}.haul-part"), bare),
        "index.html_haul-part"
    );
}

#[test]
fn errors_in_templates_say_at_which_character() {
    use PathTemplateProblem as P;
    for (text, at, problem) in [
        ("", 1, P::Empty),
        ("ä{index", 2, P::UnclosedBrace),
        ("a}b", 2, P::UnmatchedBrace),
        ("a{}", 2, P::UnknownField(String::new())),
        ("é/{nam}", 3, P::UnknownField("nam".into())),
        ("{index:}", 1, P::InvalidWidth),
        ("{index:+3}", 1, P::InvalidWidth),
        ("{index:21}", 1, P::InvalidWidth),
        ("{line:x}", 1, P::InvalidWidth),
        ("{name:3}", 1, P::InvalidWidth),
        ("/a/{name}", 1, P::OutsideDirectory),
        ("é/../{name}", 3, P::OutsideDirectory),
        ("é\0", 2, P::OutsideDirectory),
        ("{name}/", 7, P::Directory),
    ] {
        let error = text.parse::<PathTemplate>().unwrap_err();
        assert_eq!((error.position, error.problem), (at, problem), "{text}");
    }
    assert!("x".repeat(1025).parse::<PathTemplate>().is_err());
    let error = "{nam}".parse::<PathTemplate>().unwrap_err().to_string();
    assert!(
        error.starts_with("{nam} is not one of {index}, {line}")
            && error.ends_with("at character 1")
    );
    assert!(
        "{".parse::<PathTemplate>()
            .unwrap_err()
            .to_string()
            .contains("written '{{'")
    );
}

/// Asserts that a path stays in its directory and that every system takes each component.
pub(super) fn assert_safe(path: &Path) -> Result<(), TestCaseError> {
    for component in path.components() {
        let Component::Normal(name) = component else {
            return Err(TestCaseError::fail(format!("{path:?}")));
        };
        let name = name.to_str().unwrap();
        prop_assert!(!name.is_empty() && name.len() <= 255, "{}", name.len());
        prop_assert!(
            !name.contains(|c: char| c.is_control() || "/\\:*?\"<>|".contains(c)),
            "{name:?}"
        );
        prop_assert!(
            !name.starts_with(['.', '-', ' ']) && !name.ends_with(['.', ' ']),
            "{name:?}"
        );
        prop_assert!(!has_reserved_suffix(name), "{name:?}");
    }
    prop_assert!(path.components().count() >= 1);
    Ok(())
}

/// URLs that try to lead out.
pub(super) fn hostile_url() -> impl Strategy<Value = Url> {
    let piece = prop_oneof![
        Just("/".to_owned()),
        Just("%2f".to_owned()),
        Just("..".to_owned()),
        Just("%2e%2e".to_owned()),
        Just("%00".to_owned()),
        Just("%5c".to_owned()),
        Just("?".to_owned()),
        Just("&key=1".to_owned()),
        Just(".haul-part".to_owned()),
        Just("n".repeat(210)),
        Just("con".to_owned()),
        "[a-cA-C.%é -]{1,3}",
    ];
    prop::collection::vec(piece, 0..12).prop_filter_map("no URL", |pieces| {
        Url::parse(&format!("http://h.test/{}", pieces.concat())).ok()
    })
}

proptest! {
    #[test]
    fn no_url_leads_out_of_the_directory(url in hostile_url(), which in 0_usize..6) {
        let layouts = [
            PathLayout::Name,
            PathLayout::Path,
            PathLayout::Hash,
            template("{host}/{dir}/{name}"),
            template("{dir}{stem}/..{ext}/{ext}{name}{name}"),
            template("a/{ext}"),
        ];
        let input = PathLayoutInput { url: &url, index: 1, line: 1 };
        let path = layouts[which].path(input);
        assert_safe(&path)?;
        prop_assert_eq!(&path, &layouts[which].path(input));
    }

    #[test]
    fn no_template_panics_or_leads_out(text in "[{}a-z./\\\\:0é ]{0,16}|(\\{(index|dir|ext|name)(:[0-9]{0,3})?\\}|[./]){0,5}", url in hostile_url()) {
        match text.parse::<PathTemplate>() {
            Ok(template) => assert_safe(&PathLayout::Template(template).path(PathLayoutInput { url: &url, index: 1, line: 2 }))?,
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.position)),
        }
    }
}
