//! The query of a folder: the format of the response and the page of entries.
//!
//! The parameters of this server are parsed strictly: an invalid value gets a 400 with the reason,
//! as a listing in another order than the requested one is worse than none. Unknown parameters are
//! ignored; they belong to signatures, or mean nothing.

use std::fmt;

use url::form_urlencoded;

use crate::store::{ListingCursor, PageRequest, PageStart, SortKey};

/// Entries of an HTML page: it has some 500 KB then, which a phone renders at once.
pub const HTML_LIMIT: usize = 2000;

/// Entries of a JSON page.
pub const JSON_LIMIT: usize = 10_000;

/// Maximum of the `limit` parameter. A name has at most 255 bytes, and two pages of names are held
/// while one is selected: 60 MB at worst.
pub const MAX_LIMIT: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListingFormat {
    Html,
    /// One JSON object with a page of entries.
    Json,
    /// A JSON object on each line, for all entries, unsorted.
    JsonLines,
    /// A tar archive of all files in it and below it.
    Tar,
}

impl ListingFormat {
    /// All formats. If a client prefers two equally, it gets the first.
    const ALL: [Self; 4] = [Self::Html, Self::Json, Self::JsonLines, Self::Tar];

    /// The media type, with parameters.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
            Self::JsonLines => "application/x-ndjson",
            Self::Tar => "application/x-tar",
        }
    }

    /// Chooses the format: the one in the query, otherwise the one that the Accept fields prefer
    /// (RFC 9110 12.5.1).
    ///
    /// Of equals, a type that was named beats one that a wildcard covers, so `application/json,
    /// */*` gets JSON. A client that accepts none of them gets the page, as the RFC allows.
    /// Wildcards do not cover the formats that read the whole folder.
    #[must_use]
    pub fn negotiate<'a>(
        requested: Option<Self>,
        accept: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        if let Some(requested) = requested {
            return requested;
        }
        let accept = accept.into_iter().flat_map(|value| value.split(','));
        let ranges: Vec<_> = accept.take(64).filter_map(media_range).collect();
        let mut best = (Self::Html, (0, 0));
        for format in Self::ALL {
            let preference = format.preference(&ranges);
            if preference.0 > 0 && preference > best.1 {
                best = (format, preference);
            }
        }
        best.0
    }

    /// The client's weight for this format, in thousandths, and the precision of the range that
    /// states it. The most precise range counts, even if its weight is 0.
    fn preference(self, ranges: &[(&str, u16)]) -> (u16, u8) {
        let essence = self.content_type().split(';').next().unwrap_or_default();
        let main = essence.split('/').next().unwrap_or_default();
        let is_light = matches!(self, Self::Html | Self::Json);
        let exactness = |range: &str| match range.split_once('/') {
            _ if range.eq_ignore_ascii_case(essence) => 3,
            Some((of, "*")) if is_light && of.eq_ignore_ascii_case(main) => 2,
            Some(("*", "*")) if is_light => 1,
            _ => 0,
        };
        let matching = ranges.iter().map(|(range, q)| (exactness(range), *q));
        let (exactness, q) = matching
            .filter(|(exactness, _)| *exactness > 0)
            .max()
            .unwrap_or((0, 0));
        (q, exactness)
    }
}

/// A media range without its parameters, and its weight in thousandths.
fn media_range(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().filter(|range| range.contains('/'))?;
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let Some(weight) = weight else {
        return Some((range, 1000));
    };
    let (whole, rest) = weight.split_once('.').unwrap_or((weight, ""));
    let is_weight = rest.len() <= 3 && rest.bytes().all(|byte| byte.is_ascii_digit());
    let rest: u16 = format!("{rest:0<3}").parse().ok().filter(|_| is_weight)?;
    match (whole, rest) {
        ("0", rest) => Some((range, rest)),
        ("1", 0) => Some((range, 1000)),
        _ => None,
    }
}

/// The parsed query of a folder's URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery {
    /// `format`: html, json, jsonl or tar.
    pub format: Option<ListingFormat>,
    /// `sort`: name, size or modified.
    pub sort: SortKey,
    /// `order`: asc or desc.
    pub descending: bool,
    /// `after` or `before`: a cursor.
    pub start: PageStart,
    /// `limit`: entries on a page, from 1 to [`MAX_LIMIT`].
    pub limit: Option<usize>,
}

/// Why a query is invalid. The text is the body of a 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ListQueryError {
    /// Unknown format.
    #[error("format is html, json, jsonl or tar")]
    Format,
    /// Unknown sort key.
    #[error("sort is name, size or modified")]
    Sort,
    /// Unknown direction.
    #[error("order is asc or desc")]
    Order,
    /// Not a number, or out of range.
    #[error("limit is a number from 1 to {MAX_LIMIT}")]
    Limit,
    /// Not a cursor of this server.
    #[error("{0} is not a cursor of this server")]
    Cursor(ListQueryParameter),
    #[error(
        "{0} is a cursor of another order: use it with the sort and order of the listing that it came from"
    )]
    OtherOrder(ListQueryParameter),
    /// Both cursors are given.
    #[error("after and before cannot be combined")]
    BothEnds,
    /// A parameter is given twice.
    #[error("{0} is given twice")]
    Duplicate(ListQueryParameter),
    /// A page is requested in a format without pages.
    #[error("{0} cannot be combined with format jsonl or tar, which contain all entries, unsorted")]
    Unpaged(ListQueryParameter),
}

/// The known parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListQueryParameter {
    Format,
    Sort,
    Order,
    After,
    Before,
    Limit,
}

impl ListQueryParameter {
    const ALL: [Self; 6] = [
        Self::Format,
        Self::Sort,
        Self::Order,
        Self::After,
        Self::Before,
        Self::Limit,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Sort => "sort",
            Self::Order => "order",
            Self::After => "after",
            Self::Before => "before",
            Self::Limit => "limit",
        }
    }
}

impl fmt::Display for ListQueryParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ListQuery {
    /// Parses the query of a URL, without its question mark.
    pub fn parse(query: &str) -> Result<Self, ListQueryError> {
        let mut parsed = Self::default();
        let mut parameters: Vec<ListQueryParameter> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let known = ListQueryParameter::ALL
                .into_iter()
                .find(|known| known.name() == name);
            let Some(parameter) = known else {
                continue;
            };
            if parameters.contains(&parameter) {
                return Err(ListQueryError::Duplicate(parameter));
            }
            parameters.push(parameter);
            parsed.set(parameter, &value)?;
        }
        parsed.check(&parameters)?;
        Ok(parsed)
    }

    #[must_use]
    pub fn page_request(&self, default_limit: usize) -> PageRequest {
        PageRequest {
            sort: self.sort,
            descending: self.descending,
            start: self.start.clone(),
            limit: self.limit.unwrap_or(default_limit),
        }
    }

    fn set(&mut self, parameter: ListQueryParameter, value: &str) -> Result<(), ListQueryError> {
        let place = |value: &str| {
            value
                .parse::<ListingCursor>()
                .map_err(|_| ListQueryError::Cursor(parameter))
        };
        match parameter {
            ListQueryParameter::Format => {
                self.format = Some(match value {
                    "html" => ListingFormat::Html,
                    "json" => ListingFormat::Json,
                    "jsonl" => ListingFormat::JsonLines,
                    "tar" => ListingFormat::Tar,
                    _ => return Err(ListQueryError::Format),
                });
            }
            ListQueryParameter::Sort => {
                self.sort = match value {
                    "name" => SortKey::Name,
                    "size" => SortKey::Size,
                    "modified" => SortKey::Modified,
                    _ => return Err(ListQueryError::Sort),
                };
            }
            ListQueryParameter::Order => {
                self.descending = match value {
                    "asc" => false,
                    "desc" => true,
                    _ => return Err(ListQueryError::Order),
                };
            }
            ListQueryParameter::After => self.start = PageStart::After(place(value)?),
            ListQueryParameter::Before => self.start = PageStart::Before(place(value)?),
            ListQueryParameter::Limit => {
                let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                let limit = value.parse().ok().filter(|_| is_number);
                let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
                self.limit = Some(limit.ok_or(ListQueryError::Limit)?);
            }
        }
        Ok(())
    }

    /// Checks that the parameters agree.
    fn check(&self, parameters: &[ListQueryParameter]) -> Result<(), ListQueryError> {
        if parameters.contains(&ListQueryParameter::After)
            && parameters.contains(&ListQueryParameter::Before)
        {
            return Err(ListQueryError::BothEnds);
        }
        let paged = parameters
            .iter()
            .find(|parameter| **parameter != ListQueryParameter::Format);
        let is_whole = matches!(
            self.format,
            Some(ListingFormat::JsonLines | ListingFormat::Tar)
        );
        if let Some(parameter) = paged.filter(|_| is_whole) {
            return Err(ListQueryError::Unpaged(*parameter));
        }
        let (cursor, parameter) = match &self.start {
            PageStart::First => return Ok(()),
            PageStart::After(cursor) => (cursor, ListQueryParameter::After),
            PageStart::Before(cursor) => (cursor, ListQueryParameter::Before),
        };
        if cursor.is_for_order(self.sort, self.descending) {
            Ok(())
        } else {
            Err(ListQueryError::OtherOrder(parameter))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_preferred_format_is_served() {
        use ListingFormat::{Html, Json, JsonLines, Tar};
        let firefox = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let cases: [(&[&str], ListingFormat); 17] = [
            (&[], Html),
            (&[""], Html),
            (&["*/*"], Html),
            (&[firefox], Html),
            (&["application/json"], Json),
            (&["Application/JSON; charset=utf-8"], Json),
            (&["application/json, text/plain, */*"], Json),
            (&["application/*"], Json),
            (&["text/html;q=0.5, application/json;q=0.6"], Json),
            (&["text/html;q=0.5", "application/json;q=0.4"], Html),
            (&["text/html, application/json"], Html),
            (&["text/html;q=0, */*"], Json),
            (&["application/json;q=0, image/png"], Html),
            (&["application/json;q=7"], Html),
            (&["application/x-ndjson"], JsonLines),
            (&["application/x-tar, */*;q=0.1"], Tar),
            (&["application/*;q=0.9, text/*;q=0.2"], Json),
        ];
        for (accept, format) in cases {
            assert_eq!(
                ListingFormat::negotiate(None, accept.iter().copied()),
                format,
                "{accept:?}"
            );
        }
        assert_eq!(
            ListingFormat::negotiate(Some(Tar), ["application/json"]),
            Tar
        );
    }

    #[test]
    fn queries_are_read_strictly() {
        let none = ListQuery::default();
        assert_eq!(ListQuery::parse(""), Ok(none.clone()));
        assert_eq!(ListQuery::parse("expires=1&signature=x&x"), Ok(none));
        let parsed = ListQuery::parse("format=json&sort=size&order=desc&limit=7").expect("a query");
        assert_eq!(
            (parsed.format, parsed.sort, parsed.descending),
            (Some(ListingFormat::Json), SortKey::Size, true)
        );
        assert_eq!(
            (
                parsed.page_request(3).limit,
                ListQuery::default().page_request(3).limit
            ),
            (7, 3)
        );
        let refused = [
            ("format=xml", ListQueryError::Format),
            ("format=", ListQueryError::Format),
            ("sort=Name", ListQueryError::Sort),
            ("order=down", ListQueryError::Order),
            ("limit=0", ListQueryError::Limit),
            ("limit=+5", ListQueryError::Limit),
            ("limit=%2B5", ListQueryError::Limit),
            ("limit=100001", ListQueryError::Limit),
            ("limit=99999999999999999999", ListQueryError::Limit),
            ("limit=", ListQueryError::Limit),
            ("after=!", ListQueryError::Cursor(ListQueryParameter::After)),
            (
                "before=..%2F",
                ListQueryError::Cursor(ListQueryParameter::Before),
            ),
            (
                "sort=name&sort=name",
                ListQueryError::Duplicate(ListQueryParameter::Sort),
            ),
            (
                "format=tar&limit=3",
                ListQueryError::Unpaged(ListQueryParameter::Limit),
            ),
        ];
        for (query, why) in refused {
            assert_eq!(ListQuery::parse(query), Err(why), "{query}");
        }
    }

    #[test]
    fn cursors_are_bound_to_their_order() {
        // A cursor by ascending name: after a file called `a`.
        let place = "AAEAAAAAAAAAAAAAAAAAAAAAYQ";
        let parse = |query: String| ListQuery::parse(&query);
        let parsed = parse(format!("after={place}")).expect("a query");
        assert!(matches!(parsed.start, PageStart::After(cursor) if cursor.to_string() == place));
        let other = Err(ListQueryError::OtherOrder(ListQueryParameter::After));
        assert_eq!(parse(format!("after={place}&order=desc")), other);
        assert_eq!(parse(format!("sort=size&after={place}")), other);
        let both = parse(format!("after={place}&before={place}"));
        assert_eq!(both, Err(ListQueryError::BothEnds));
    }

    proptest! {
        #[test]
        fn no_query_panics(query in "(format|sort|order|after|before|limit|=|&|%|[a-z0-9+;]){0,20}", accept in "(text/html|\\*|/|;|q=|[01.]|,|application/json){0,12}") {
            let _ = ListQuery::parse(&query);
            let _ = ListingFormat::negotiate(None, [accept.as_str()]);
        }
    }
}
