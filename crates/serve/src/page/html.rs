//! A folder as an HTML page, which needs no script to show, sort and page through files and to
//! upload, and offers more with one.
//!
//! Style and script are in the page itself: one request loads it, wherever a proxy has put the
//! server and whatever else the user may read. The page's [`content_security_policy`] names both by
//! their hashes and allows nothing else, so that even a mistake in escaping would run no script.
//! All links are relative, for the same proxies.
//!
//! A crawler follows all links, and some (`wget -r`) respect neither `rel=nofollow` nor wildcards in
//! robots.txt. So only entries, folders and pages have links; the archive and the sort orders have
//! the buttons of forms, which crawlers do not submit.
//!
//! Names are hostile: everything that is not from this file goes through `HtmlEscaped`.

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::display::{DisplayName, DisplaySize, DisplayUtc, GroupedDigits, HtmlEscaped};
use super::text_chunks::text_chunks;
use super::{FolderListing, HTML_LIMIT};
use crate::key::escaped_name;
use crate::store::{EntryKind, FolderEntry, ListingCursor, PageRequest, PageStart, SortKey};

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/page.js");

/// The icon of the browser tab.
const FAVICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cpath fill='%23b7791f' d='M2 6a2 2 0 0 1 2-2h5l2 2h9a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2z'/%3E%3C/svg%3E";

/// Maximum parent folders in the breadcrumbs, besides the root.
const MAX_BREADCRUMBS: usize = 16;

/// What a page shows besides its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingPageOptions {
    /// The name of the root.
    pub title: String,
    /// Whether the user may upload and delete here; without that, the page has no form or button
    /// for it.
    pub may_write: bool,
    /// Whether the page links to a tar of the folder.
    pub has_tar_link: bool,
    /// The user's name, if known.
    pub user: Option<String>,
    /// Whether the page has a login button, as the user has not logged in but could.
    pub may_log_in: bool,
}

impl Default for ListingPageOptions {
    fn default() -> Self {
        Self {
            title: "haul".to_owned(),
            may_write: false,
            has_tar_link: true,
            user: None,
            may_log_in: false,
        }
    }
}

/// The parts of a page, from top to bottom.
enum HtmlLine {
    Head,
    Row(FolderEntry),
    Tail,
}

/// The Content-Security-Policy field of every page.
#[must_use]
pub fn content_security_policy() -> &'static str {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
        format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
            hash(STYLE),
            hash(SCRIPT)
        )
    });
    &POLICY
}

/// Renders a page in chunks. Its URL must end in a slash, as its links are relative.
pub fn render(
    listing: FolderListing,
    options: ListingPageOptions,
) -> impl Iterator<Item = Bytes> + Send {
    let mut listing = listing;
    let rows = std::mem::take(&mut listing.page.entries);
    let counts = ListingCounts::count(&rows);
    let lines = std::iter::once(HtmlLine::Head).chain(rows.into_iter().map(HtmlLine::Row));
    text_chunks(lines.chain([HtmlLine::Tail]), move |out, line| {
        let page = HtmlPage {
            listing: &listing,
            options: &options,
            counts,
        };
        // Writing to a string cannot fail.
        let _ = match line {
            HtmlLine::Head => page.write_head(out),
            HtmlLine::Row(entry) => page.write_row(out, &entry),
            HtmlLine::Tail => page.write_tail(out),
        };
    })
}

/// The entries on the page.
#[derive(Debug, Clone, Copy)]
struct ListingCounts {
    folders: u64,
    files: u64,
    bytes: u64,
}

impl ListingCounts {
    fn count(entries: &[FolderEntry]) -> Self {
        let folders = entries
            .iter()
            .filter(|entry| entry.kind == EntryKind::Folder)
            .count() as u64;
        Self {
            folders,
            files: entries.len() as u64 - folders,
            bytes: entries
                .iter()
                .fold(0, |sum, entry| sum.saturating_add(entry.len)),
        }
    }

    fn entries(self) -> u64 {
        self.folders + self.files
    }
}

struct HtmlPage<'a> {
    listing: &'a FolderListing,
    options: &'a ListingPageOptions,
    counts: ListingCounts,
}

impl HtmlPage<'_> {
    fn write_head(&self, out: &mut String) -> std::fmt::Result {
        let title = HtmlEscaped(&self.options.title);
        let (parents, own) = self.segments();
        out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        out.push_str(
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
        );
        match own {
            Some(own) => writeln!(
                out,
                "{} \u{2013} {title}</title>",
                HtmlEscaped(DisplayName(own))
            )?,
            None => writeln!(out, "{title}</title>")?,
        }
        writeln!(
            out,
            "<link rel=\"icon\" href=\"{FAVICON}\">\n<style>{STYLE}</style>\n</head>"
        )?;
        writeln!(
            out,
            "<body>\n<a class=\"skip\" href=\"#list\">Skip to the list</a>\n<header>"
        )?;
        out.push_str("<div class=\"location\"><nav aria-label=\"Breadcrumbs\"><ol>");
        // The root is as many folders up as there are segments.
        let depth = parents.len() + usize::from(own.is_some());
        self.write_breadcrumbs(out, &parents, depth)?;
        out.push_str("</ol></nav>");
        if let Some(user) = &self.options.user {
            write!(
                out,
                "<p>Logged in as <bdi>{}</bdi></p>",
                HtmlEscaped(DisplayName(user.as_bytes()))
            )?;
        } else if self.options.may_log_in {
            self.write_login_form(out, depth)?;
        }
        out.push_str("</div>\n<h1><bdi>");
        match own {
            Some(own) => write!(out, "{}", HtmlEscaped(DisplayName(own)))?,
            None => write!(out, "{title}")?,
        }
        out.push_str("</bdi></h1>\n</header>\n<main>\n");
        self.write_toolbar(out)?;
        if self.options.may_write {
            out.push_str(UPLOAD_FORM);
        }
        out.push_str("<p id=\"status\" role=\"status\"></p>\n");
        self.write_table_head(out)
    }

    /// The segments of the parent folders, and the folder's own.
    fn segments(&self) -> (Vec<&[u8]>, Option<&[u8]>) {
        let mut segments: Vec<&[u8]> = self.listing.key.segments().collect();
        let own = segments.pop();
        (segments, own)
    }

    fn write_breadcrumbs(
        &self,
        out: &mut String,
        parents: &[&[u8]],
        depth: usize,
    ) -> std::fmt::Result {
        if depth == 0 {
            return Ok(());
        }
        write!(
            out,
            "<li><a href=\"{}\">{}</a></li>",
            "../".repeat(depth),
            HtmlEscaped(&self.options.title)
        )?;
        // For the deepest possible path the links alone would take megabytes.
        let skipped = parents.len().saturating_sub(MAX_BREADCRUMBS);
        if skipped > 0 {
            out.push_str("<li>\u{2026}</li>");
        }
        for (at, segment) in parents.iter().enumerate().skip(skipped) {
            let up = "../".repeat(depth - 1 - at);
            write!(
                out,
                "<li><a href=\"{up}\"><bdi>{}</bdi></a></li>",
                HtmlEscaped(DisplayName(segment))
            )?;
        }
        Ok(())
    }

    /// The login button. Its request is for the root, and names this folder.
    fn write_login_form(&self, out: &mut String, depth: usize) -> std::fmt::Result {
        let root = match depth {
            0 => "./".to_owned(),
            depth => "../".repeat(depth),
        };
        let folder = self.listing.key.escaped();
        write!(
            out,
            "<form action=\"{root}\"><button name=\"login\" value=\"{}\">Log in</button></form>",
            HtmlEscaped(&folder)
        )
    }

    /// The summary, the filter and the tar link.
    fn write_toolbar(&self, out: &mut String) -> std::fmt::Result {
        let ListingCounts {
            folders,
            files,
            bytes,
        } = self.counts;
        out.push_str("<div class=\"bar\"><p class=\"sum\">");
        if folders > 0 {
            write!(
                out,
                "{} folder{}, ",
                GroupedDigits(folders),
                plural_suffix(folders)
            )?;
        }
        write!(out, "{} file{}", GroupedDigits(files), plural_suffix(files))?;
        if files > 0 {
            write!(
                out,
                ", <span title=\"{} bytes\">{}</span>",
                GroupedDigits(bytes),
                DisplaySize(bytes)
            )?;
        }
        if self.listing.page.total > self.counts.entries() {
            out.push_str(" on this page");
        }
        out.push_str("</p>");
        out.push_str(
            "<input type=\"search\" id=\"filter\" placeholder=\"Filter (press /)\" aria-label=\"Filter the list by name\" \
             autocomplete=\"off\" spellcheck=\"false\" hidden>",
        );
        if self.options.has_tar_link {
            out.push_str(
                "<form><button class=\"tar\" name=\"format\" value=\"tar\">Download as tar</button></form>",
            );
        }
        out.push_str("</div>\n");
        Ok(())
    }

    fn write_table_head(&self, out: &mut String) -> std::fmt::Result {
        out.push_str("<div class=\"list\" id=\"list\"><table>\n<caption class=\"visually-hidden\">Files and folders</caption>\n<thead><tr>");
        for (sort, name) in [
            (SortKey::Name, "Name"),
            (SortKey::Size, "Size"),
            (
                SortKey::Modified,
                "Modified<span class=\"plain\"> (UTC)</span>",
            ),
        ] {
            let request = &self.listing.request;
            let is_current = request.sort == sort;
            out.push_str("<th scope=\"col\"");
            if is_current {
                let direction = if request.descending {
                    "descending"
                } else {
                    "ascending"
                };
                write!(out, " aria-sort=\"{direction}\"")?;
            }
            // Another click reverses the order. Users look for the largest and the latest first.
            let descending = if is_current {
                !request.descending
            } else {
                sort != SortKey::Name
            };
            write!(
                out,
                "><form><input type=\"hidden\" name=\"sort\" value=\"{}\">",
                sort_value(sort)
            )?;
            if request.limit != HTML_LIMIT {
                let limit = request.limit;
                write!(
                    out,
                    "<input type=\"hidden\" name=\"limit\" value=\"{limit}\">"
                )?;
            }
            write!(
                out,
                "<button name=\"order\" value=\"{}\">{name}</button></form></th>",
                order_value(descending)
            )?;
        }
        if self.options.may_write {
            out.push_str("<th scope=\"col\"><span class=\"visually-hidden\">Actions</span></th>");
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        if !self.listing.key.is_root() {
            out.push_str("<tr class=\"up\"><td><a href=\"../\">Parent folder</a><td><td>");
            out.push_str(if self.options.may_write {
                "<td>\n"
            } else {
                "\n"
            });
        }
        Ok(())
    }

    /// A row is short, as there may be a hundred thousand: cells are identified by their position,
    /// icons by the link's target, and the end tags of cells and rows may be omitted (HTML
    /// 13.1.2.4).
    fn write_row(&self, out: &mut String, entry: &FolderEntry) -> std::fmt::Result {
        let name = HtmlEscaped(DisplayName(&entry.name));
        let href = escaped_name(&entry.name);
        let href = HtmlEscaped(&href);
        match entry.kind {
            EntryKind::Folder => write!(
                out,
                "<tr><td><a href=\"{href}/\"><span><bdi>{name}</bdi>/</span></a><td>"
            )?,
            EntryKind::File => write!(
                out,
                "<tr><td><a href=\"{href}\"><bdi>{name}</bdi></a><td title=\"{} bytes\">{}",
                GroupedDigits(entry.len),
                DisplaySize(entry.len)
            )?,
            EntryKind::Other => write!(out, "<tr><td><span><bdi>{name}</bdi></span><td>")?,
        }
        let time = DisplayUtc(entry.modified);
        write!(out, "<td><time datetime=\"{time}\">{time:#}</time>")?;
        if self.options.may_write {
            out.push_str("<td>");
            if entry.kind != EntryKind::Other {
                write!(
                    out,
                    "<button type=\"button\" class=\"delete\" title=\"Delete\" aria-label=\"Delete {name}\"></button>"
                )?;
            }
        }
        out.push('\n');
        Ok(())
    }

    fn write_tail(&self, out: &mut String) -> std::fmt::Result {
        out.push_str("</tbody>\n</table>");
        if self.counts.entries() == 0 {
            out.push_str("<p class=\"none\">This folder is empty.</p>");
        }
        out.push_str("</div>\n");
        self.write_page_links(out)?;
        writeln!(out, "</main>\n<script>{SCRIPT}</script>\n</body>\n</html>")
    }

    /// The links to the previous and the next page.
    fn write_page_links(&self, out: &mut String) -> std::fmt::Result {
        let page = &self.listing.page;
        if page.next.is_none() && page.previous.is_none() {
            return Ok(());
        }
        let (first, last) = (page.preceding + 1, page.preceding + self.counts.entries());
        write!(
            out,
            "<nav class=\"pages\" aria-label=\"Pages\"><p>{} to {} of {}</p><span>",
            GroupedDigits(first),
            GroupedDigits(last),
            GroupedDigits(page.total)
        )?;
        let to = |start: fn(ListingCursor) -> PageStart, cursor: &ListingCursor| {
            HtmlEscaped(page_query(&PageRequest {
                start: start(cursor.clone()),
                ..self.listing.request.clone()
            }))
        };
        if let Some(previous) = &page.previous {
            let href = to(PageStart::Before, previous);
            write!(
                out,
                "<a class=\"button\" rel=\"prev\" href=\"{href}\">\u{2190} Previous</a>"
            )?;
        }
        if let Some(next) = &page.next {
            let href = to(PageStart::After, next);
            write!(
                out,
                "<a class=\"button\" rel=\"next\" href=\"{href}\">Next \u{2192}</a>"
            )?;
        }
        out.push_str("</span></nav>\n");
        Ok(())
    }
}

/// The upload form. It posts to the folder itself, whichever page of it is shown.
const UPLOAD_FORM: &str = "<form class=\"upload\" method=\"post\" enctype=\"multipart/form-data\" action=\"./\">\
    <label for=\"files\">Upload files</label><input type=\"file\" id=\"files\" name=\"file\" multiple required>\
    <button type=\"submit\" class=\"main\">Upload</button>\
    <button type=\"submit\" class=\"plain\" formaction=\"./?replace=yes\">Upload and replace</button>\
    <p class=\"script\">or drop files and folders anywhere on this page</p></form>\n<ul id=\"uploads\" aria-label=\"Uploads\" hidden></ul>\n";

/// The value of `sort` in a query.
fn sort_value(sort: SortKey) -> &'static str {
    match sort {
        SortKey::Name => "name",
        SortKey::Size => "size",
        SortKey::Modified => "modified",
    }
}

/// The value of `order` in a query.
fn order_value(descending: bool) -> &'static str {
    if descending { "desc" } else { "asc" }
}

/// The query of the link to a page. It has no order if that is the usual one, as robots.txt keeps
/// crawlers from the others.
fn page_query(request: &PageRequest) -> String {
    let mut query = match &request.start {
        PageStart::First => "?".to_owned(),
        PageStart::After(cursor) => format!("?after={cursor}"),
        PageStart::Before(cursor) => format!("?before={cursor}"),
    };
    if request.sort != SortKey::Name || request.descending {
        let (sort, order) = (sort_value(request.sort), order_value(request.descending));
        let _ = write!(query, "&sort={sort}&order={order}");
    }
    if request.limit != HTML_LIMIT {
        let _ = write!(query, "&limit={}", request.limit);
    }
    query
}

fn plural_suffix(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests;
