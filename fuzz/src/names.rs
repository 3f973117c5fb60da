//! What URLs, lists, peers and users name: files, URLs, objects.

use std::path::{Component, Path};

use haul_s3::{S3Address, parse_download_url};
use haul_transfer::{
    Glob, PathLayout, PathLayoutInput, PathTemplate, ResourceId, fuzzing,
    relative_path as relative_path_of,
};
use url::Url;

use crate::input;

/// Checks that a name is one component that no system takes for something else, and that it is safe already.
pub(crate) fn assert_safe_name(name: &str) {
    assert!(!name.is_empty() && name.len() <= 200, "{name:?}");
    assert!(
        !name.contains(|c: char| c.is_control() || "/\\:*?\"<>|".contains(c)),
        "{name:?}"
    );
    assert!(
        !name.starts_with(['.', '-']) && !name.ends_with(['.', ' ']),
        "{name:?}"
    );
    assert!(!fuzzing::has_reserved_suffix(name), "{name:?}");
    assert_eq!(fuzzing::sanitized_name(name).as_deref(), Some(name));
}

/// Checks that a path leads to a file below the directory that it is joined to.
pub(crate) fn assert_safe_path(path: &Path) {
    let components: Vec<_> = path.components().collect();
    assert!(
        !components.is_empty() && path.as_os_str().len() <= 4000,
        "{path:?}"
    );
    for component in components {
        assert!(
            matches!(component, Component::Normal(name) if name.len() <= 255),
            "{path:?}"
        );
    }
    let text = path.to_string_lossy();
    assert!(
        !text.contains(char::is_control) && !text.ends_with('/'),
        "{path:?}"
    );
    let name = path.file_name().map(|name| name.to_string_lossy());
    assert!(
        name.is_some_and(|name| !fuzzing::has_reserved_suffix(&name)),
        "{path:?}"
    );
}

/// A pattern of URLs: it has as many as it says.
pub(crate) fn glob(data: &[u8]) {
    let Ok(glob) = Glob::parse(&input::text(data)) else {
        return;
    };
    let length = glob.len();
    assert!(length >= 1 && glob.nth(length).is_none());
    assert!(glob.nth(0).is_some() && glob.nth(length - 1).is_some());
    if length <= 64 {
        assert_eq!(glob.urls().count() as u64, length);
    }
}

/// A template of paths in the first line, a URL in the second.
pub(crate) fn path_layout(data: &[u8]) {
    let (template, url) = input::first_line(data);
    let template = input::text(template).parse::<PathTemplate>();
    let Ok(url) = parse_download_url(&input::text(url)) else {
        return;
    };
    let layouts = [PathLayout::Name, PathLayout::Path, PathLayout::Hash];
    for layout in layouts
        .into_iter()
        .chain(template.map(PathLayout::Template))
    {
        let path = layout.path(PathLayoutInput {
            url: &url,
            index: u64::MAX,
            line: 1,
        });
        assert_safe_path(&path);
        // A component of which nothing is left is an underscore.
        let names = path.iter().map(|name| name.to_string_lossy());
        names
            .filter(|name| name != "_")
            .for_each(|name| assert_safe_name(&name));
    }
    for id in [ResourceId::from_url(&url), ResourceId::without_tokens(&url)] {
        assert_eq!(ResourceId::parse(&id.to_string()), Some(id));
    }
    if let Some(id) = ResourceId::parse(&input::text(data)) {
        assert_eq!(id.to_string().as_bytes(), data);
    }
}

/// A path of a list.
pub(crate) fn relative_path(data: &[u8]) {
    if let Ok(path) = relative_path_of(&input::text(data)) {
        assert_safe_path(&path);
        assert_eq!(
            relative_path_of(&path.to_string_lossy()).as_ref(),
            Ok(&path)
        );
    }
}

/// What a user names to download: an object's URL means the same object.
pub(crate) fn s3_address(data: &[u8]) {
    let text = input::text(data);
    if let Ok(address) = text.parse::<S3Address>() {
        assert_eq!(address.to_string().parse().as_ref(), Ok(&address));
        if let Ok(url) = address.to_url() {
            let again = S3Address::from_url(&url).expect("a URL of an object");
            assert_eq!(again.key, address.key);
            assert!(again.bucket.eq_ignore_ascii_case(&address.bucket));
        }
    }
    let Ok(url) = parse_download_url(&text) else {
        return;
    };
    assert!(matches!(url.scheme(), "http" | "https" | "s3"));
    if let Some(address) = S3Address::at_http_url(&url) {
        let object = address.http_url().map(|url| S3Address::at_http_url(&url));
        if let Some(again) = object {
            assert_eq!(again, Some(address), "{url}");
        }
    }
    assert_eq!(Url::parse(url.as_str()).as_ref(), Ok(&url));
}
