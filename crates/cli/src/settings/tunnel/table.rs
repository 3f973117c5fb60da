//! A table of a TOML file, read key by key. Every mistake is told with the file, the line and the key; values are not repeated by what is
//! here, since they may be passwords.
//!
//! Who reads a table asks for the keys that it knows and then for [`TomlTable::finish`], which tells of any other. What can be found wrong only
//! later is taken by [`TomlTable::said`], with its place.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::args::ValueError;
use crate::settings::{OptionSource, SettingError, Sourced};

/// How like a known key an unknown one must be to be taken for it.
const NEAR: f64 = 0.75;

/// The text of a file, for places in it.
#[derive(Debug)]
pub(super) struct TomlText<'a> {
    /// Its name.
    pub(super) path: &'a Path,
    /// What it says.
    pub(super) text: &'a str,
}

/// A table of it.
#[derive(Debug)]
pub(super) struct TomlTable<'a> {
    /// Whose it is.
    source: &'a TomlText<'a>,
    entries: &'a DeTable<'a>,
    /// Where it begins.
    place: Range<usize>,
    /// The keys that were asked for.
    known: RefCell<Vec<&'static str>>,
}

/// What a key has.
#[derive(Debug, Clone)]
pub(super) struct TomlValue<'a> {
    source: &'a TomlText<'a>,
    /// As it was written.
    key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> TomlText<'a> {
    /// A mistake at a place.
    pub(super) fn wrong(&self, place: &Range<usize>, what: impl Display) -> SettingError {
        SettingError::new(format!("{}: {what}", self.line(place)))
    }

    /// The file and the line.
    fn line(&self, place: &Range<usize>) -> String {
        let before = self.text.get(..place.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        format!("{}:{line}", self.path.display())
    }

    /// The whole file as a table.
    pub(super) fn table(&'a self, parsed: &'a Spanned<DeTable<'a>>) -> TomlTable<'a> {
        TomlTable::new(self, parsed.get_ref(), parsed.span())
    }
}

impl<'a> TomlTable<'a> {
    fn new(source: &'a TomlText<'a>, entries: &'a DeTable<'a>, place: Range<usize>) -> Self {
        Self {
            source,
            entries,
            place,
            known: RefCell::default(),
        }
    }

    /// What a key has, under the first of its names or another.
    pub(super) fn key(
        &self,
        names: &[&'static str],
    ) -> Result<Option<TomlValue<'a>>, SettingError> {
        self.known.borrow_mut().extend(names);
        let mut found = self.entries.iter().filter(|(key, _)| {
            let key: &str = key.get_ref();
            names.contains(&key)
        });
        let first = found.next();
        if let Some((key, _)) = found.next() {
            let names = names.join(" and ");
            return Err(self
                .source
                .wrong(&key.span(), format!("{names} are the same")));
        }
        Ok(first.map(|(key, value)| TomlValue {
            source: self.source,
            key: key.get_ref(),
            value,
        }))
    }

    /// What a key has, as a reader of it makes that.
    pub(super) fn read<T>(
        &self,
        names: &[&'static str],
        reader: impl FnOnce(TomlValue<'a>) -> Result<T, SettingError>,
    ) -> Result<Option<T>, SettingError> {
        self.key(names)?.map(reader).transpose()
    }

    /// The same with its place.
    pub(super) fn said<T>(
        &self,
        names: &[&'static str],
        reader: impl FnOnce(TomlValue<'a>) -> Result<T, SettingError>,
    ) -> Result<Option<Sourced<T>>, SettingError> {
        self.read(names, |value| value.said(reader))
    }

    /// All keys with what they have, whatever they are called.
    pub(super) fn all(&self) -> impl Iterator<Item = TomlValue<'a>> {
        let source = self.source;
        self.entries.iter().map(move |(key, value)| TomlValue {
            source,
            key: key.get_ref(),
            value,
        })
    }

    /// A mistake of the table as a whole.
    pub(super) fn wrong(&self, what: impl Display) -> SettingError {
        self.source.wrong(&self.place, what)
    }

    /// Tells of a key that nobody has asked for: what was meant by it, if `meant` knows, or the one that it is most like.
    pub(super) fn finish(
        &self,
        meant: fn(&str) -> Option<&'static str>,
    ) -> Result<(), SettingError> {
        let known = self.known.borrow();
        // They come in the order of their names; people read from the top.
        let unknown = self.entries.keys().filter(|key| {
            let key: &str = key.get_ref();
            !known.contains(&key)
        });
        let Some(unknown) = unknown.min_by_key(|key| key.span().start) else {
            return Ok(());
        };
        let key = unknown.get_ref();
        let shown: String = key.chars().take(60).flat_map(char::escape_debug).collect();
        let told = self
            .source
            .wrong(&unknown.span(), format!("{shown} is no key here"));
        let like = |name: &&&str| strsim::jaro_winkler(key, name);
        let nearest = known.iter().max_by(|a, b| like(a).total_cmp(&like(b)));
        let near = nearest.filter(|near| like(near) >= NEAR).copied();
        // What is said of a proxy elsewhere stands beside it here.
        let bare = key.strip_prefix("proxy-");
        let near = bare
            .and_then(|bare| known.iter().find(|name| **name == bare).copied())
            .or(near);
        Err(match (meant(key), near) {
            (Some(meant), _) => told.with_hint(meant),
            (None, Some(near)) => told.with_hint(format!("did you mean {near} ?")),
            (None, None) => {
                told.with_hint("keys are called as the flags are, without the dashes before them")
            }
        })
    }
}

impl<'a> TomlValue<'a> {
    /// The key's own name.
    pub(super) fn name(&self) -> &'a str {
        self.key
    }

    /// Its place.
    pub(super) fn by(&self) -> OptionSource {
        OptionSource::Key {
            place: Arc::from(self.source.line(&self.value.span())),
            key: Arc::from(self.key),
        }
    }

    /// What a reader makes of it, with its place.
    pub(super) fn said<T>(
        self,
        reader: impl FnOnce(Self) -> Result<T, SettingError>,
    ) -> Result<Sourced<T>, SettingError> {
        let by = self.by();
        reader(self).map(|value| Sourced { value, by })
    }

    /// A mistake in it.
    pub(super) fn wrong(&self, what: impl Display) -> SettingError {
        let key = self.key;
        self.source
            .wrong(&self.value.span(), format!("{key}: {what}"))
    }

    fn is_no(&self, what: &str) -> SettingError {
        let is = self.value.get_ref().type_str();
        self.wrong(format!("this is {}, and should be {what}", a(is)))
    }

    /// A text.
    pub(super) fn text(self) -> Result<&'a str, SettingError> {
        let text = self.value.get_ref().as_str();
        text.ok_or_else(|| self.is_no("a text in quotes"))
    }

    /// Yes or no.
    pub(super) fn flag(self) -> Result<bool, SettingError> {
        let flag = self.value.get_ref().as_bool();
        flag.ok_or_else(|| self.is_no("true or false"))
    }

    /// Several, or one alone.
    pub(super) fn each(self) -> Vec<Self> {
        match self.value.get_ref().as_array() {
            Some(array) => array
                .iter()
                .map(|value| Self {
                    value,
                    ..self.clone()
                })
                .collect(),
            None => vec![self],
        }
    }

    /// Whether it is a list.
    pub(super) fn is_list(&self) -> bool {
        self.value.get_ref().is_array()
    }

    /// A table within.
    pub(super) fn table(self) -> Result<TomlTable<'a>, SettingError> {
        match self.value.get_ref().as_table() {
            Some(entries) => Ok(TomlTable::new(self.source, entries, self.value.span())),
            None => Err(self.is_no("a table")),
        }
    }

    /// What a text or a number says, as flags are read.
    pub(super) fn parsed<T>(
        self,
        parse: impl FnOnce(&str) -> Result<T, ValueError>,
    ) -> Result<T, SettingError> {
        let text = match self.value.get_ref() {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            _ => return Err(self.is_no("a text in quotes or a number")),
        };
        parse(text).map_err(|error| {
            let told = self.wrong(&error);
            match error.hint() {
                Some(advice) => told.with_hint(advice.to_owned()),
                None => told,
            }
        })
    }

    /// A path, which is relative to the file.
    pub(super) fn path(self) -> Result<PathBuf, SettingError> {
        let text = self.clone().text()?;
        Ok(self.beside(Path::new(text)))
    }

    /// A path that is relative to the file.
    pub(super) fn beside(&self, path: &Path) -> PathBuf {
        let folder = self.source.path.parent().unwrap_or_else(|| Path::new(""));
        folder.join(path)
    }
}

/// With its article.
fn a(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'i']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {noun}")
}
