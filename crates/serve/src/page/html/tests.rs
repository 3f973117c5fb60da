//! Pages: nothing hostile gets through, links lead where they say, and what is not allowed is not there.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::*;
use crate::ObjectKey;
use crate::page::ListQuery;
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
    let pieces: Vec<Bytes> = render(listing, options).collect();
    String::from_utf8(pieces.concat()).expect("UTF-8")
}

fn writable() -> ListingPageOptions {
    ListingPageOptions {
        may_write: true,
        user: Some("<b>'\"&".to_owned()),
        ..ListingPageOptions::default()
    }
}

/// The page without its style, script and icons, which are ours.
fn without_assets(html: &str) -> String {
    html.replace(STYLE, "").replace(SCRIPT, "")
}

/// All tags of a page, in order, and the values of the attribute `href`, unescaped. Panics where the markup is not well made.
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
    fn d1_no_name_is_markup_and_every_link_leads_to_its_key(
        name in prop::collection::vec(any::<u8>(), 1..40),
        above in prop::collection::vec(any::<u8>(), 1..20),
        is_folder: bool,
    ) {
        let Ok(folder) = ObjectKey::root().child(&above) else { return Ok(()); };
        let Ok(key) = folder.child(&name) else { return Ok(()); };
        let kind = if is_folder { EntryKind::Folder } else { EntryKind::File };
        let page = |above: &[u8], name: &[u8]| {
            let mut listing = listing("/", vec![entry(name, kind)]);
            listing.key = ObjectKey::root().child(above).expect("a key");
            without_assets(&html(listing, writable()))
        };
        let (tags, hrefs) = tags_and_hrefs(&page(&above, &name));
        let (plain_tags, plain_hrefs) = tags_and_hrefs(&page(b"x", b"y"));
        // Whatever the names are, the page has the same tags.
        prop_assert_eq!(tags, plain_tags);
        let at = plain_hrefs.iter().position(|href| href == if is_folder { "y/" } else { "y" }).expect("the link");
        let base = url::Url::parse("http://host/").expect("a URL").join(&format!("{}/", folder.escaped())).expect("a URL");
        let target = base.join(&hrefs[at]).expect("a URL");
        let named = ObjectKey::parse(target.path()).expect("a key");
        prop_assert_eq!((named.key, named.is_folder), (key, is_folder));
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
    for there in [
        "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;</bdi>",
        "href=\"%22onmouseover=%22alert(1)\"",
        "href=\"javascript%3Aalert(1)\"",
        "<bdi>&amp;lt;b&amp;gt;</bdi>",
        "<bdi>photo\\u{202e}gpj.exe</bdi>",
        "<bdi>\\xff\\xfe</bdi>",
        "href=\"%FF%FE\"",
        "<bdi>&lt;b&gt;&#39;&quot;&amp;</bdi>",
    ] {
        assert!(page.contains(there), "{there}\n{page}");
    }
    assert!(!page.contains('\u{202e}') && page.matches("<script>").count() == 1);
}

#[test]
fn what_is_not_allowed_is_not_on_the_page() {
    let entries = || vec![entry(b"f", EntryKind::File)];
    let read_only = ListingPageOptions {
        has_tar_link: false,
        ..ListingPageOptions::default()
    };
    let page = without_assets(&html(listing("/a/", entries()), read_only));
    for absent in ["<form", "delete", "Actions", "format=tar", "Signed in"] {
        assert!(!page.contains(absent), "{absent}");
    }
    let page = without_assets(&html(listing("/a/", entries()), writable()));
    for there in [
        "<form",
        "aria-label=\"Delete f\"",
        "format=tar",
        "Signed in",
    ] {
        assert!(page.contains(there), "{there}");
    }
    // What cannot be had is not linked to.
    let page = without_assets(&html(
        listing("/", vec![entry(b"pipe", EntryKind::Other)]),
        writable(),
    ));
    assert!(
        page.contains("pipe") && !page.contains("href=\"pipe") && !page.contains("Delete pipe")
    );
}

#[test]
fn breadcrumbs_lead_up_one_by_one() {
    let page = without_assets(&html(
        listing("/a/b%20c/d/", Vec::new()),
        ListingPageOptions::default(),
    ));
    let crumbs = "<ol><li><a href=\"../../../\">haul</a></li><li><a href=\"../../\"><bdi>a</bdi></a></li>\
                  <li><a href=\"../\"><bdi>b c</bdi></a></li></ol>";
    assert!(page.contains(crumbs), "{page}");
    assert!(page.contains("<h1><bdi>d</bdi></h1>") && page.contains("Parent folder"));
    assert!(page.contains("Nothing is in this folder."));
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
fn the_deepest_path_has_a_short_trail() {
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

#[test]
fn the_links_of_a_page_are_queries_that_we_read() {
    let place = "AAEAAAAAAAAAAAAAAAAAAAAAYQ";
    let mut part = listing("/", vec![entry(b"f", EntryKind::File)]);
    part.request.limit = 7;
    part.page.total = 3;
    part.page.preceding = 1;
    part.page.next = place.parse().ok();
    part.page.previous = place.parse().ok();
    let page = without_assets(&html(part, ListingPageOptions::default()));
    assert!(page.contains("2 to 2 of 3") && page.contains("on this page"));
    let (_, hrefs) = tags_and_hrefs(&page);
    let queries = hrefs.iter().filter_map(|href| href.strip_prefix('?'));
    let read: Vec<ListQuery> = queries
        .map(|query| ListQuery::parse(query).expect(query))
        .collect();
    assert_eq!(read.len(), 6);
    let sorts: Vec<_> = read
        .iter()
        .map(|query| (query.sort, query.descending))
        .collect();
    // The tar, the three columns, the two pages.
    let expected = [
        (SortKey::Name, false),
        (SortKey::Name, true),
        (SortKey::Size, true),
        (SortKey::Modified, true),
        (SortKey::Name, false),
        (SortKey::Name, false),
    ];
    assert_eq!(sorts, expected);
    assert!(matches!(
        (&read[4].start, &read[5].start),
        (PageStart::Before(_), PageStart::After(_))
    ));
    assert!(read[1..].iter().all(|query| query.limit == Some(7)));
    assert_eq!(page.matches("aria-sort=\"ascending\"").count(), 1);
}

#[test]
fn the_policy_fits_the_page() {
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
    // Nothing is fetched from elsewhere: the one address, of an icon in the page itself, is a vocabulary's name.
    assert_eq!(
        rest.matches("http://").count() + rest.matches("https://").count(),
        1
    );
}

#[test]
fn a_long_list_comes_in_pieces() {
    let entries = (0..5000).map(|number| entry(format!("{number}").as_bytes(), EntryKind::File));
    let pieces: Vec<Bytes> = render(
        listing("/", entries.collect()),
        ListingPageOptions::default(),
    )
    .collect();
    assert!(pieces.len() > 8 && pieces.iter().all(|piece| piece.len() < 70_000));
    assert_eq!(
        String::from_utf8(pieces.concat())
            .expect("UTF-8")
            .matches("<tr>")
            .count(),
        5001
    );
}
