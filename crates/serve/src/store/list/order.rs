//! The order of a listing, and where in it a page begins.
//!
//! Folders come first in every order. Then the sort key decides; equal entries are sorted by name.
//! Names are compared as people sort them: `img 2` before `img 10`, and `a` before `B`. Names that
//! are equal in that sense (`01` and `1`) are compared byte by byte. So no two entries of a folder
//! have the same position, and a page can begin after any of them, even after one that has been
//! deleted meanwhile.
//!
//! # Cursors
//!
//! Cursors: where a page begins, as clients send it back.
//!
//! For clients it is an opaque word: base64url of a byte for the order, one for the kind, sixteen
//! for the value, and then the name. The server trusts nothing in it: the decoded rank is only
//! compared with the entries of the directory. A cursor of another order is refused, as it would
//! cut the listing somewhere in the middle.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::EntryKind;

/// What a listing is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SortKey {
    /// The name, with numbers by their value and ASCII letters regardless of case.
    #[default]
    Name,
    /// The length. Only files have one.
    Size,
    /// The modification time.
    Modified,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PageStart {
    #[default]
    First,
    After(ListingCursor),
    /// The page ends before this position.
    Before(ListingCursor),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    pub sort: SortKey,
    /// Whether the greatest come first. Folders come first in any case.
    pub descending: bool,
    /// Where the page begins.
    pub start: PageStart,
    /// Maximum entries; at least one. Memory grows with it, and with nothing else.
    pub limit: usize,
}

impl PageRequest {
    /// The first page, by name.
    #[must_use]
    pub fn first(limit: usize) -> Self {
        Self {
            sort: SortKey::Name,
            descending: false,
            start: PageStart::First,
            limit,
        }
    }

    pub(super) fn direction(&self) -> SortDirection {
        SortDirection {
            sort: self.sort,
            descending: self.descending,
        }
    }
}

/// The sort position of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SortRank {
    pub(super) kind: EntryKind,
    /// Bytes, or nanoseconds since the epoch; zero if names alone decide.
    pub(super) value: i128,
    pub(super) name: Vec<u8>,
}

impl SortRank {
    pub(super) fn new(kind: EntryKind, value: i128, name: Vec<u8>) -> Self {
        Self { kind, value, name }
    }

    fn is_folder(&self) -> bool {
        self.kind == EntryKind::Folder
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SortDirection {
    pub(super) sort: SortKey,
    pub(super) descending: bool,
}

impl SortDirection {
    pub(super) fn compare(self, a: &SortRank, b: &SortRank) -> Ordering {
        let directed = |order: Ordering| {
            if self.descending {
                order.reverse()
            } else {
                order
            }
        };
        let names = compare_names(&a.name, &b.name);
        let within = match self.sort {
            SortKey::Name => directed(names),
            // Equal entries are sorted by ascending name in either direction.
            SortKey::Size | SortKey::Modified => directed(a.value.cmp(&b.value)).then(names),
        };
        a.is_folder().cmp(&b.is_folder()).reverse().then(within)
    }
}

/// The order of names: [`compare_naturally`], and the bytes of names that are equal in that order.
pub(super) fn compare_names(a: &[u8], b: &[u8]) -> Ordering {
    compare_naturally(a, b).then_with(|| a.cmp(b))
}

/// Compares numbers by their value, however long they are, ASCII letters regardless of case, and
/// all other bytes as they are. It is a lexicographic order of bytes and numbers, in which a number
/// stands where its first digit would: so it is transitive.
fn compare_naturally(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while let (Some(&first_a), Some(&first_b)) = (a.first(), b.first()) {
        let order = if first_a.is_ascii_digit() && first_b.is_ascii_digit() {
            let (number_a, number_b);
            (number_a, a) = split_number(a);
            (number_b, b) = split_number(b);
            // Without leading zeros, the number with more digits is greater.
            let lengths = number_a.len().cmp(&number_b.len());
            lengths.then_with(|| number_a.cmp(number_b))
        } else {
            (a, b) = (&a[1..], &b[1..]);
            first_a
                .to_ascii_lowercase()
                .cmp(&first_b.to_ascii_lowercase())
        };
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// The digits at the beginning of a name, without leading zeros, and the rest of the name.
fn split_number(name: &[u8]) -> (&[u8], &[u8]) {
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let digits = name.iter().take_while(is_digit).count();
    let zeros = name[..digits].iter().take_while(|byte| **byte == b'0');
    (&name[zeros.count()..digits], &name[digits..])
}

/// Bytes before the name.
const FIXED_BYTES: usize = 18;

/// Maximum bytes of a name (`NAME_MAX`).
const MAX_NAME_BYTES: usize = 255;

/// Maximum letters of a cursor.
const MAX_CURSOR_LEN: usize = (FIXED_BYTES + MAX_NAME_BYTES).div_ceil(3) * 4;

/// A position in an order, between two entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingCursor {
    /// The order of the listing.
    sort: SortKey,
    descending: bool,
    /// The entry beside the position, whether it still exists or not.
    rank: SortRank,
}

/// The text is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this listing")]
pub struct ListingCursorError;

impl ListingCursor {
    pub(super) fn new(request: &PageRequest, rank: SortRank) -> Self {
        Self {
            sort: request.sort,
            descending: request.descending,
            rank,
        }
    }

    pub(super) fn rank(&self) -> &SortRank {
        &self.rank
    }

    /// Whether it is a position in that order.
    #[must_use]
    pub fn is_for_order(&self, sort: SortKey, descending: bool) -> bool {
        (self.sort, self.descending) == (sort, descending)
    }
}

impl fmt::Display for ListingCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sort = match self.sort {
            SortKey::Name => 0,
            SortKey::Size => 1,
            SortKey::Modified => 2,
        };
        let kind = match self.rank.kind {
            EntryKind::Folder => 0,
            EntryKind::File => 1,
            EntryKind::Other => 2,
        };
        let mut bytes = vec![sort | u8::from(self.descending) << 7, kind];
        bytes.extend_from_slice(&self.rank.value.to_be_bytes());
        bytes.extend_from_slice(&self.rank.name);
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for ListingCursor {
    type Err = ListingCursorError;

    fn from_str(text: &str) -> Result<Self, ListingCursorError> {
        if text.len() > MAX_CURSOR_LEN {
            return Err(ListingCursorError);
        }
        let bytes = BASE64_URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| ListingCursorError)?;
        let (order, rest) = bytes.split_first().ok_or(ListingCursorError)?;
        let (kind, rest) = rest.split_first().ok_or(ListingCursorError)?;
        let (value, name) = rest.split_first_chunk().ok_or(ListingCursorError)?;
        let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES;
        if !is_name || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(ListingCursorError);
        }
        let sort = match order & 0x7f {
            0 => SortKey::Name,
            1 => SortKey::Size,
            2 => SortKey::Modified,
            _ => return Err(ListingCursorError),
        };
        let kind = match kind {
            0 => EntryKind::Folder,
            1 => EntryKind::File,
            2 => EntryKind::Other,
            _ => return Err(ListingCursorError),
        };
        Ok(Self {
            sort,
            descending: order & 0x80 != 0,
            rank: SortRank::new(kind, i128::from_be_bytes(*value), name.to_vec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cursors_survive_a_round_trip(name in prop::collection::vec(1..=255_u8, 1..=255), value: i128, descending: bool) {
            prop_assume!(!name.contains(&b'/'));
            let mut request = PageRequest::first(1);
            (request.sort, request.descending) = (SortKey::Modified, descending);
            let cursor = ListingCursor::new(&request, SortRank::new(EntryKind::File, value, name));
            prop_assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));
            prop_assert!(cursor.is_for_order(SortKey::Modified, descending) && !cursor.is_for_order(SortKey::Size, descending));
        }

        #[test]
        fn other_texts_are_refused_or_survive_a_round_trip(text in "[A-Za-z0-9_=-]{0,60}") {
            if let Ok(cursor) = text.parse::<ListingCursor>() {
                prop_assert_eq!(cursor.to_string(), text);
            }
        }
    }

    /// Short names in which numbers, zeros and letters of either case meet often.
    fn arb_name() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(b"0012 9aAbB.-\xff".to_vec()), 0..8)
    }

    proptest! {
        #[test]
        fn names_have_a_total_order(a in arb_name(), b in arb_name(), c in arb_name()) {
            prop_assert_eq!(compare_names(&a, &b), compare_names(&b, &a).reverse());
            prop_assert_eq!(compare_names(&a, &b).is_eq(), a == b);
            if compare_names(&a, &b).is_le() && compare_names(&b, &c).is_le() {
                prop_assert!(compare_names(&a, &c).is_le());
            }
        }
    }

    #[test]
    fn names_are_sorted_as_people_sort_them() {
        let sorted: [&[u8]; 19] = [
            b"",
            b"-1",
            b".hidden",
            b"007",
            b"07",
            b"7",
            b"8 a",
            b"10",
            b"99999999999999999999999999999999999999998",
            b"99999999999999999999999999999999999999999",
            b"_",
            b"a",
            b"B",
            b"b",
            b"IMG 2.jpg",
            b"img 2.jpg",
            b"img 10 b.jpg",
            b"img 10.jpg",
            b"\xff",
        ];
        let mut names = sorted.to_vec();
        names.sort_by(|a, b| compare_names(b, a));
        names.sort_by(|a, b| compare_names(a, b));
        let shown = |names: &[&[u8]]| -> Vec<String> {
            let name = |name: &&[u8]| name.escape_ascii().to_string();
            names.iter().map(name).collect()
        };
        assert_eq!(shown(&names), shown(&sorted));
    }

    #[test]
    fn hostile_cursors_are_refused() {
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let with_name = |name: &[u8]| encode(&[&[0; FIXED_BYTES], name].concat());
        assert!(with_name(b"a").parse::<ListingCursor>().is_ok());
        let refused = [
            String::new(),
            "!".to_owned(),
            encode(&[0; FIXED_BYTES]),
            with_name(b"../x"),
            with_name(b"x\0"),
            with_name(&[b'x'; 256]),
            encode(&[[3].as_slice(), &[0; 17], b"a"].concat()),
            encode(&[[0, 3].as_slice(), &[0; 16], b"a"].concat()),
            "A".repeat(1 << 20),
        ];
        for text in refused {
            assert_eq!(
                text.parse::<ListingCursor>(),
                Err(ListingCursorError),
                "{text:.40}"
            );
        }
    }
}
