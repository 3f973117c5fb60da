//! Pages: hostile names do no harm, links lead to their targets, and a page offers only what is
//! allowed.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::*;
use crate::ObjectKey;
use crate::page::{ListQuery, ListingFormat};
use crate::store::FolderPage;

fn listing(path: &str, entries: Vec<FolderEntry>) -> FolderListing {
    FolderListing {
        key: ObjectKey::parse(path).expect("a key").key,
        request: PageRequest::first(HTML_LIMIT),
        page: FolderPage {
            total: entries.len() as u64,
            entries,
            preceding: 0,
            next: None,
            previous: None,
        },
    }
}

fn entry(name: &[u8], kind: EntryKind) -> FolderEntry {
    FolderEntry {
        name: name.to_vec(),
        kind,
        len: 1536,
        modified: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
    }
}

fn html(listing: FolderListing, options: ListingPageOptions) -> String {
    let chunks: Vec<Bytes> = render(listing, options).collect();
    String::from_utf8(chunks.concat()).expect("UTF-8")
}

fn writable() -> ListingPageOptions {
    ListingPageOptions {
        may_write: true,
        user: Some("<b>'\"&".to_owned()),
        ..ListingPageOptions::default()
    }
}

/// The page without its style, script and icons, which are constant.
fn without_assets(html: &str) -> String {
    html.replace(STYLE, "").replace(SCRIPT, "")
}

/// All tags of a page, in order, and the values of the attribute `href`, unescaped. Panics if the
/// markup is malformed.
fn tags_and_hrefs(html: &str) -> (Vec<String>, Vec<String>) {
    let (mut tags, mut hrefs) = (Vec::new(), Vec::new());
    for part in html.split('<').skip(1) {
        // No value holds a bare `>`, so the first one ends the tag.
        let (tag, text) = part.split_once('>').expect("an end of the tag");
        assert!(
            !text.contains(['>', '"', '\'']) || tag.starts_with('!'),
            "{text}"
        );
        tags.push(tag.split([' ', '\n']).next().unwrap_or_default().to_owned());
        if let Some((_, value)) = tag.split_once(" href=\"") {
            let value = value.split('"').next().expect("a quote");
            hrefs.push(
                value
                    .replace("&#39;", "'")
                    .replace("&quot;", "\"")
                    .replace("&amp;", "&"),
            );
        }
    }
    (tags, hrefs)
}

proptest! {
    #[test]
    fn d1_names_are_escaped_and_links_lead_to_their_keys(
        name in prop::collection::vec(any::<u8>(), 1..40),
        parents in prop::collection::vec(any::<u8>(), 1..20),
        is_folder: bool,
    ) {
        let Ok(folder) = ObjectKey::root().child(&parents) else { return Ok(()); };
        let Ok(key) = folder.child(&name) else { return Ok(()); };
        let kind = if is_folder { EntryKind::Folder } else { EntryKind::File };
        let page = |parents: &[u8], name: &[u8]| {
            let mut listing = listing("/", vec![entry(name, kind)]);
            listing.key = ObjectKey::root().child(parents).expect("a key");
            without_assets(&html(listing, writable()))
        };
        let (tags, hrefs) = tags_and_hrefs(&page(&parents, &name));
        let (plain_tags, plain_hrefs) = tags_and_hrefs(&page(b"x", b"y"));
        // Whatever the names are, the page has the same tags.
        prop_assert_eq!(tags, plain_tags);
        let at = plain_hrefs.iter().position(|href| href == if is_folder { "y/" } else { "y" }).expect("the link");
        let base = url::Url::parse("http://host/").expect("a URL").join(&format!("{}/", folder.escaped())).expect("a URL");
        let target = base.join(&hrefs[at]).expect("a URL");
        let path = ObjectKey::parse(target.path()).expect("a key");
        prop_assert_eq!((path.key, path.is_folder), (key, is_folder));
        prop_assert_eq!((target.host_str(), target.query(), target.fragment()), (Some("host"), None, None));
    }
}

#[test]
fn hostile_names_are_shown_harmless() {
    let names: [&[u8]; 6] = [
        b"<script>alert(1)</script>",
        b"\"onmouseover=\"alert(1)",
        b"javascript:alert(1)",
        b"&lt;b&gt;",
        "photo\u{202e}gpj.exe".as_bytes(),
        b"\xff\xfe",
    ];
    let entries = names
        .iter()
        .map(|name| entry(name, EntryKind::File))
        .collect();
    let page = without_assets(&html(listing("/", entries), writable()));
    for expected in [
        "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>",
        "href=\"%22onmouseover=%22alert(1)\"",
        "href=\"javascript%3Aalert(1)\"",
        "<bdi>&amp;lt;b&amp;gt;</bdi>",
        "<bdi>photo\\u{202e}gpj.exe</bdi>",
        "<bdi>\\xff\\xfe</bdi>",
        "href=\"%FF%FE\"",
        "<bdi>&lt;b&gt;&#39;&quot;&amp;</bdi>",
    ] {
        assert!(page.contains(expected), "{expected}\n{page}");
    }
    assert!(!page.contains('\u{202e}') && page.matches("<script>").count() == 1);
}

#[test]
fn forbidden_actions_are_not_on_the_page() {
    let entries = || vec![entry(b"f", EntryKind::File)];
    let read_only = ListingPageOptions {
        has_tar_link: false,
        ..ListingPageOptions::default()
    };
    let page = without_assets(&html(listing("/a/", entries()), read_only));
    for absent in [
        "type=\"file\"",
        "delete",
        "Actions",
        "value=\"tar\"",
        "Logged in",
    ] {
        assert!(!page.contains(absent), "{absent}");
    }
    let page = without_assets(&html(listing("/a/", entries()), writable()));
    for expected in [
        "type=\"file\"",
        "aria-label=\"Delete f\"",
        "name=\"format\" value=\"tar\"",
        "Logged in",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    // An entry that cannot be downloaded has no link.
    let page = without_assets(&html(
        listing("/", vec![entry(b"pipe", EntryKind::Other)]),
        writable(),
    ));
    assert!(
        page.contains("pipe") && !page.contains("href=\"pipe") && !page.contains("Delete pipe")
    );
}

#[test]
fn breadcrumbs_link_to_each_parent() {
    let page = without_assets(&html(
        listing("/a/b%20c/d/", Vec::new()),
        ListingPageOptions::default(),
    ));
    let crumbs = "<ol><li><a href=\"../../../\">haul</a></li><li><a href=\"../../\"><bdi>a</bdi></a></li>\
                  <li><a href=\"../\"><bdi>b c</bdi></a></li></ol>";
    assert!(page.contains(crumbs), "{page}");
    assert!(page.contains("<h1><bdi>d</bdi></h1>") && page.contains("Parent folder"));
    assert!(page.contains("This folder is empty."));
    let top = without_assets(&html(
        listing("/", Vec::new()),
        ListingPageOptions::default(),
    ));
    assert!(
        top.contains("<ol></ol>")
            && top.contains("<h1><bdi>haul</bdi></h1>")
            && !top.contains("Parent folder")
    );
}

#[test]
fn the_deepest_path_has_few_breadcrumbs() {
    let path = "/a".repeat(1999);
    let page = without_assets(&html(
        listing(&path, Vec::new()),
        ListingPageOptions::default(),
    ));
    assert_eq!(page.matches("<bdi>a</bdi>").count(), MAX_BREADCRUMBS + 1);
    let to_the_top = format!(
        "<li><a href=\"{}\">haul</a></li><li>\u{2026}</li>",
        "../".repeat(1999)
    );
    assert!(page.contains(&to_the_top) && page.len() < 20_000);
}

#[test]
fn sizes_and_times_are_exact_beneath_what_is_shown() {
    let page = html(
        listing("/", vec![entry(b"f", EntryKind::File)]),
        ListingPageOptions::default(),
    );
    assert!(page.contains("title=\"1,536 bytes\">1.5 KiB<"));
    assert!(page.contains("<time datetime=\"2023-11-14T22:13:20Z\">2023-11-14 22:13</time>"));
}

/// The queries that the forms of a page submit by GET, one for each of their buttons.
fn form_queries(html: &str) -> Vec<String> {
    let attribute = |tag: &str, name: &str| {
        let (_, value) = tag.split_once(&format!(" {name}=\""))?;
        Some(value.split('"').next().unwrap_or_default().to_owned())
    };
    let forms = html.split("<form>").skip(1);
    let query = |form: &str| {
        let (form, _) = form.split_once("</form>").expect("an end of the form");
        let pair = |tag: &str| Some((attribute(tag, "name")?, attribute(tag, "value")?));
        url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form.split('<').filter_map(pair))
            .finish()
    };
    forms.map(query).collect()
}

#[test]
fn the_forms_and_links_of_a_page_have_valid_queries() {
    let place = "AAEAAAAAAAAAAAAAAAAAAAAAYQ";
    let mut part = listing("/", vec![entry(b"f", EntryKind::File)]);
    part.request.limit = 7;
    part.page.total = 3;
    part.page.preceding = 1;
    part.page.next = place.parse().ok();
    part.page.previous = place.parse().ok();
    let page = without_assets(&html(part, ListingPageOptions::default()));
    assert!(page.contains("2 to 2 of 3") && page.contains("on this page"));
    let parse = |query: &str| ListQuery::parse(query).expect(query);

    let forms: Vec<ListQuery> = form_queries(&page)
        .iter()
        .map(|query| parse(query))
        .collect();
    assert_eq!(forms[0].format, Some(ListingFormat::Tar));
    let sorts: Vec<_> = forms[1..]
        .iter()
        .map(|query| (query.sort, query.descending, query.limit))
        .collect();
    let expected = [
        (SortKey::Name, true, Some(7)),
        (SortKey::Size, true, Some(7)),
        (SortKey::Modified, true, Some(7)),
    ];
    assert_eq!(sorts, expected);

    let (_, hrefs) = tags_and_hrefs(&page);
    let queries = hrefs.iter().filter_map(|href| href.strip_prefix('?'));
    let links: Vec<ListQuery> = queries.map(parse).collect();
    assert!(matches!(
        (&links[0].start, &links[1].start),
        (PageStart::Before(_), PageStart::After(_))
    ));
    let same_order = |query: &ListQuery| (query.sort, query.descending) == (SortKey::Name, false);
    assert!(
        links
            .iter()
            .all(|query| same_order(query) && query.limit == Some(7))
    );
    assert_eq!(links.len(), 2);
    assert_eq!(page.matches("aria-sort=\"ascending\"").count(), 1);
}

#[test]
fn the_content_security_policy_matches_the_page() {
    let page = html(listing("/", Vec::new()), writable());
    let policy = content_security_policy();
    for (open, close, directive) in [
        ("<style>", "</style>", "style-src"),
        ("<script>", "</script>", "script-src"),
    ] {
        let (_, rest) = page.split_once(open).expect("it begins");
        let (inside, _) = rest.split_once(close).expect("it ends");
        let hash = BASE64_STANDARD.encode(Sha256::digest(inside));
        assert!(
            policy.contains(&format!("{directive} 'sha256-{hash}'")),
            "{directive}"
        );
    }
    let rest = without_assets(&page);
    assert!(!rest.contains(" style=") && !rest.contains(" onclick"));
    assert!(!STYLE.contains("@import") && !STYLE.replace("url(\"data:", "").contains("url("));
    // Nothing is loaded from elsewhere: the only address, in an inline icon, is the name of an XML
    // namespace.
    assert_eq!(
        rest.matches("http://").count() + rest.matches("https://").count(),
        1
    );
}

#[test]
fn a_long_listing_is_rendered_in_chunks() {
    let entries = (0..5000).map(|number| entry(format!("{number}").as_bytes(), EntryKind::File));
    let chunks: Vec<Bytes> = render(
        listing("/", entries.collect()),
        ListingPageOptions::default(),
    )
    .collect();
    assert!(chunks.len() > 8 && chunks.iter().all(|chunk| chunk.len() < 70_000));
    assert_eq!(
        String::from_utf8(chunks.concat())
            .expect("UTF-8")
            .matches("<tr>")
            .count(),
        5001
    );
}
