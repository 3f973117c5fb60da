//! Keys of objects: which are meant by patterns, and where they go on a disk.
//!
//! A key is any text; a path is not. So a key becomes a path only where both mean the same (row F16), and never outside the
//! directory that the user named.

use std::path::PathBuf;

use crate::filename::has_reserved_suffix;

/// The longest name of a file, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// A pattern of keys, as shells write them: `*` is any text, also with slashes, `?` is one character, `[a-z]` is one of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPattern {
    tokens: Vec<PatternToken>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternToken {
    Character(char),
    AnyCharacter,
    AnyText,
    /// One of these ranges, or with `is_negated` none of them.
    Class {
        ranges: Vec<(char, char)>,
        is_negated: bool,
    },
}

impl KeyPattern {
    /// Parses a pattern. Every text is one: a bracket that is not closed stands for itself.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            tokens.push(match character {
                '*' if tokens.last() == Some(&PatternToken::AnyText) => continue,
                '*' => PatternToken::AnyText,
                '?' => PatternToken::AnyCharacter,
                '[' => match parse_class(rest.as_str()) {
                    Some((class, after)) => {
                        rest = after.chars();
                        class
                    }
                    None => PatternToken::Character('['),
                },
                other => PatternToken::Character(other),
            });
        }
        Self { tokens }
    }

    /// Whether the text has a character with a meaning of its own.
    #[must_use]
    pub fn is_pattern(text: &str) -> bool {
        text.contains(['*', '?', '['])
    }

    /// What every matching key begins with: a list of keys needs to have no others.
    #[must_use]
    pub fn literal_prefix(&self) -> String {
        let characters = self.tokens.iter().map_while(|token| match token {
            PatternToken::Character(character) => Some(*character),
            _ => None,
        });
        characters.collect()
    }

    /// Whether every key that begins with the folder matches: the pattern matches that and ends with any text.
    fn matches_all_below(&self, folder: &str) -> bool {
        self.tokens.last() == Some(&PatternToken::AnyText) && self.matches(folder)
    }

    /// Whether the whole key matches. Takes time proportional to the product of both lengths at most.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        let key: Vec<char> = key.chars().collect();
        let (mut token, mut at) = (0, 0);
        // Where to go on if the last `*` has to take one more character.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let is_match = match self.tokens.get(token) {
                Some(PatternToken::AnyText) => {
                    retry = Some((token + 1, at));
                    token += 1;
                    continue;
                }
                Some(one) => key.get(at).is_some_and(|character| one.matches(*character)),
                None if at == key.len() => return true,
                None => false,
            };
            if is_match {
                (token, at) = (token + 1, at + 1);
                continue;
            }
            match retry {
                Some((next, from)) if from < key.len() => {
                    retry = Some((next, from + 1));
                    (token, at) = (next, from + 1);
                }
                _ => return false,
            }
        }
    }
}

impl PatternToken {
    fn matches(&self, character: char) -> bool {
        match self {
            Self::Character(own) => *own == character,
            Self::AnyCharacter | Self::AnyText => true,
            Self::Class { ranges, is_negated } => {
                let is_in = |(first, last): &(char, char)| (*first..=*last).contains(&character);
                ranges.iter().any(is_in) != *is_negated
            }
        }
    }
}

/// Parses what follows a bracket; returns the class and the text behind it.
fn parse_class(text: &str) -> Option<(PatternToken, &str)> {
    let is_negated = text.starts_with(['!', '^']);
    let body = if is_negated { &text[1..] } else { text };
    // A bracket in the first place stands for itself.
    let first = body.chars().next()?;
    let end = body[first.len_utf8()..].find(']')? + first.len_utf8();
    let characters: Vec<char> = body[..end].chars().collect();
    let mut ranges = Vec::new();
    let mut rest = characters.as_slice();
    while let [first, others @ ..] = rest {
        rest = match others {
            ['-', last, after @ ..] => {
                ranges.push((*first, *last));
                after
            }
            _ => {
                ranges.push((*first, *first));
                others
            }
        };
    }
    Some((PatternToken::Class { ranges, is_negated }, &body[end + 1..]))
}

/// Which keys are meant: `--include` and `--exclude` in the order in which they were given, of which the last that matches counts, as
/// with `aws s3`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyFilter {
    rules: Vec<KeyRule>,
}

/// One rule of a [`KeyFilter`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRule {
    /// Keys that match are meant.
    Include(KeyPattern),
    /// Keys that match are not.
    Exclude(KeyPattern),
}

impl KeyFilter {
    /// A filter of these rules. If the first rule includes, other keys are excluded: a user who writes only `--include` wants that.
    #[must_use]
    pub fn new(rules: Vec<KeyRule>) -> Self {
        Self { rules }
    }

    /// Whether a key is meant. `key` is the part behind the prefix.
    #[must_use]
    pub fn accepts(&self, key: &str) -> bool {
        let by_default = !matches!(self.rules.first(), Some(KeyRule::Include(_)));
        self.rules
            .iter()
            .rev()
            .find_map(|rule| match rule {
                KeyRule::Include(pattern) => pattern.matches(key).then_some(true),
                KeyRule::Exclude(pattern) => pattern.matches(key).then_some(false),
            })
            .unwrap_or(by_default)
    }

    /// Whether no key below a folder is meant, which ends with a slash. False where that is not certain.
    #[must_use]
    pub fn excludes_folder(&self, folder: &str) -> bool {
        let decides = |rule: &&KeyRule| match rule {
            KeyRule::Include(_) => true,
            KeyRule::Exclude(pattern) => pattern.matches_all_below(folder),
        };
        let last = self.rules.iter().rev().find(decides);
        matches!(last, Some(KeyRule::Exclude(_)))
    }
}

/// Why a key has no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyPathError {
    /// The key ends with a slash: it stands for a folder.
    #[error("the key ends with a slash, as those of folders do")]
    Folder,
    /// The key has an empty segment.
    #[error("the key has an empty segment")]
    EmptySegment,
    /// The key has a segment `.` or `..`.
    #[error("the key has a segment . or ..")]
    DotSegment,
    /// The key has a NUL.
    #[error("the key has a NUL")]
    Nul,
    /// A segment is longer than a file name may be.
    #[error("a segment of the key is longer than a file name may be ({MAX_NAME_BYTES} bytes)")]
    TooLong,
    /// A segment is a name that haul itself uses for the file of another key.
    #[error("the key is a name that haul uses for the partial file of another key")]
    Reserved,
}

/// The relative path of a key, which is the part behind a prefix.
///
/// # Errors
/// The path would not be that of the key, or would lead elsewhere.
pub(crate) fn path_of_key(key: &str) -> Result<PathBuf, KeyPathError> {
    if key.contains('\0') {
        return Err(KeyPathError::Nul);
    }
    if key.is_empty() || key.ends_with('/') {
        return Err(KeyPathError::Folder);
    }
    for segment in key.split('/') {
        match segment {
            "" => return Err(KeyPathError::EmptySegment),
            "." | ".." => return Err(KeyPathError::DotSegment),
            long if long.len() > MAX_NAME_BYTES => return Err(KeyPathError::TooLong),
            reserved if has_reserved_suffix(reserved) => return Err(KeyPathError::Reserved),
            _ => {}
        }
    }
    Ok(PathBuf::from(key))
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, key: &str) -> bool {
        KeyPattern::parse(pattern).matches(key)
    }

    #[test]
    fn patterns_match_as_in_a_shell_but_over_slashes() {
        for (pattern, key, is_match) in [
            ("a*", "a/b/c", true),
            ("*.jpg", "x/y.jpg", true),
            ("*.jpg", "x/y.jpgx", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]x", "]x", true),
            ("[x", "[x", true),
            ("", "", true),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("2024/*/é*", "2024/01/éa", true),
        ] {
            assert_eq!(matches(pattern, key), is_match, "{pattern} {key}");
        }
        assert_eq!(KeyPattern::parse("a/b*c").literal_prefix(), "a/b");
    }

    #[test]
    fn the_last_rule_that_matches_counts() {
        let include = |text| KeyRule::Include(KeyPattern::parse(text));
        let exclude = |text| KeyRule::Exclude(KeyPattern::parse(text));
        let filter = KeyFilter::new(vec![exclude("*"), include("*.txt"), exclude("a*")]);
        assert!(filter.accepts("b.txt") && !filter.accepts("a.txt") && !filter.accepts("b.jpg"));
        let filter = KeyFilter::new(vec![include("*.txt")]);
        assert!(filter.accepts("b.txt") && !filter.accepts("b.jpg"));
        assert!(KeyFilter::default().accepts("x"));
    }

    #[test]
    fn f30_a_folder_is_excluded_where_nothing_below_it_can_be_meant() {
        let include = |text| KeyRule::Include(KeyPattern::parse(text));
        let exclude = |text| KeyRule::Exclude(KeyPattern::parse(text));
        for (rules, is_excluded) in [
            (vec![], false),
            (vec![exclude("*")], true),
            (vec![exclude("link/*")], true),
            (vec![exclude("li*")], true),
            (vec![exclude("link/")], false),
            (vec![exclude("*.txt")], false),
            (vec![exclude("link2/*")], false),
            (vec![include("*.jpg")], false),
            (vec![include("*.jpg"), exclude("link/*")], true),
            (vec![exclude("link/*"), include("*.jpg")], false),
        ] {
            let filter = KeyFilter::new(rules);
            assert_eq!(filter.excludes_folder("link/"), is_excluded, "{filter:?}");
        }
    }

    #[test]
    fn f16_keys_that_are_no_paths_say_why() {
        for (key, error) in [
            ("/", KeyPathError::Folder),
            ("a/", KeyPathError::Folder),
            ("", KeyPathError::Folder),
            ("/a", KeyPathError::EmptySegment),
            ("a//b", KeyPathError::EmptySegment),
            ("a/../b", KeyPathError::DotSegment),
            ("./b", KeyPathError::DotSegment),
            ("a\0b", KeyPathError::Nul),
            ("a/b.haul-fresh", KeyPathError::Reserved),
            ("a.Haul-Part/b", KeyPathError::Reserved),
        ] {
            assert_eq!(path_of_key(key), Err(error), "{key:?}");
        }
        let long = "x".repeat(256);
        assert_eq!(path_of_key(&long), Err(KeyPathError::TooLong));
        assert_eq!(path_of_key("a/b c").unwrap(), PathBuf::from("a/b c"));
    }

    proptest! {
        #[test]
        fn f16_no_key_leads_out_of_the_directory(key in "[a./\\\\\0 ]{0,12}") {
            if let Ok(path) = path_of_key(&key) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert_eq!(path.to_str(), Some(&*key));
            }
        }

        #[test]
        fn a_pattern_of_the_key_itself_matches_it(key in "[a-c/.]{0,10}", cut in 0_usize..10) {
            prop_assert!(matches(&key, &key));
            let cut = cut.min(key.len());
            let pattern = format!("{}*", &key[..cut]);
            prop_assert!(matches(&pattern, &key));
        }
    }
}
