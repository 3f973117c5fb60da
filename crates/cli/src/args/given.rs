//! Options as they were given, by flags or by a table of a configuration file, before they are parsed.
//!
//! A key of a file has the name of a flag and accepts the same values. So both are kept in the same form: the name, the texts, and the source
//! for error messages. [`GivenOptions::merge`] puts one layer over another, and [`GivenOptions::parse`] lets the parser of the command line make
//! typed options of the result, with defaults. An option is declared once, in a struct of flags.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::parse_problem::ParseProblem;

/// Where an option was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OptionSource {
    /// A flag, with its dashes.
    Flag(Arc<str>),
    /// A key of a configuration file.
    Key {
        /// The file and the line.
        line: Arc<str>,
        key: Arc<str>,
    },
}

/// A value with its source.
#[derive(Debug, Clone)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: OptionSource,
}

/// The options that a command line or a table gives, by the long names of their flags.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct GivenOptions(BTreeMap<String, GivenOption>);

/// One option. Options with the same texts are equal, whatever their sources.
#[derive(Clone)]
struct GivenOption {
    /// A flag without a value has `true` or `false`.
    texts: Vec<OsString>,
    source: OptionSource,
}

/// The flags of `T` as [`GivenOptions`].
#[derive(Debug, Clone)]
pub(crate) struct GivenFlags<T> {
    pub(crate) options: GivenOptions,
    flags: PhantomData<T>,
}

/// A given option that cannot be parsed.
#[derive(Debug)]
pub(crate) struct GivenOptionError {
    pub(crate) source: OptionSource,
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
}

impl OptionSource {
    /// A flag with this long name.
    pub(crate) fn flag(name: &str) -> Self {
        Self::Flag(format!("--{name}").into())
    }

    /// Whether it is a key of a file.
    pub(crate) fn is_key(&self) -> bool {
        matches!(self, Self::Key { .. })
    }

    /// The flag or the key alone.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Flag(flag) => flag,
            Self::Key { key, .. } => key,
        }
    }

    /// The file and the line, for messages that name no key; nothing for a flag.
    pub(crate) fn line_prefix(&self) -> String {
        match self {
            Self::Flag(_) => String::new(),
            Self::Key { line, .. } => format!("{line}: "),
        }
    }
}

impl fmt::Display for OptionSource {
    /// `--proxy-cacert`, `tunnel.toml:5: proxy-cacert`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.line_prefix(), self.name())
    }
}

impl GivenOptions {
    /// Adds an option. Returns whether it is the first with this name.
    pub(crate) fn insert(
        &mut self,
        name: &str,
        texts: Vec<OsString>,
        source: OptionSource,
    ) -> bool {
        let option = GivenOption { texts, source };
        self.0.insert(name.to_owned(), option).is_none()
    }

    /// Whether an option is given.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The texts of an option.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = &OsStr> {
        let option = self.0.get(name);
        option
            .into_iter()
            .flat_map(|option| option.texts.iter().map(OsString::as_os_str))
    }

    /// Where an option is given.
    pub(crate) fn source(&self, name: &str) -> OptionSource {
        let option = self.0.get(name);
        option.map_or_else(|| OptionSource::flag(name), |option| option.source.clone())
    }

    /// Where the first of these options is given, if one is.
    pub(crate) fn first_source(&self, names: &[&str]) -> Option<OptionSource> {
        let mut given = names.iter().filter_map(|name| self.0.get(*name));
        given.next().map(|option| option.source.clone())
    }

    /// The options with names that pass.
    pub(crate) fn filtered(&self, is_included: impl Fn(&str) -> bool) -> Self {
        let included = self.0.iter().filter(|(name, _)| is_included(name));
        Self(
            included
                .map(|(name, option)| (name.clone(), option.clone()))
                .collect(),
        )
    }

    /// The names of options that differ.
    pub(crate) fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let names = self.0.keys().chain(other.0.keys());
        let mut differ: Vec<&str> = names
            .filter(|name| self.0.get(*name) != other.0.get(*name))
            .map(String::as_str)
            .collect();
        differ.sort_unstable();
        differ.dedup();
        differ
    }

    /// Puts layers over each other, the first on top. Options of a group come from one layer: the first that gives any of them.
    pub(crate) fn merge(layers: &[&Self], groups: &[&[&str]]) -> Self {
        let mut merged = Self::default();
        for (depth, layer) in layers.iter().enumerate() {
            for (name, option) in &layer.0 {
                let group = groups.iter().find(|group| group.contains(&name.as_str()));
                let is_given_above = layers[..depth].iter().any(|above| match group {
                    Some(group) => group.iter().any(|name| above.contains(name)),
                    None => above.contains(name),
                });
                if !is_given_above {
                    merged.0.insert(name.clone(), option.clone());
                }
            }
        }
        merged
    }

    /// Makes typed options, with defaults for those not given.
    ///
    /// # Errors
    /// A value that cannot be used, options that exclude each other, or a name that `T` does not have.
    pub(crate) fn parse<T: Args>(&self) -> Result<T, GivenOptionError> {
        let command = T::augment_args(
            Command::new("options")
                .no_binary_name(true)
                .disable_help_flag(true),
        );
        let takes_value = |name: &str| {
            let mut arguments = command.get_arguments();
            arguments.any(|argument| {
                argument.get_long() == Some(name) && argument.get_action().takes_values()
            })
        };
        let mut words = Vec::new();
        for (name, option) in &self.0 {
            let flag = OsString::from(format!("--{name}"));
            if takes_value(name) {
                words.extend(option.texts.iter().map(|text| {
                    let mut word = flag.clone();
                    word.push("=");
                    word.push(text);
                    word
                }));
            } else if option.texts.first().is_none_or(|text| text != "false") {
                words.push(flag);
            }
        }
        let matches = command.try_get_matches_from(words);
        let parsed = matches.and_then(|matches| T::from_arg_matches(&matches));
        parsed.map_err(|error| {
            let ParseProblem {
                arguments,
                text,
                hint,
            } = ParseProblem::new(&error);
            let name = arguments
                .first()
                .map_or("", |name| name.trim_start_matches('-'));
            GivenOptionError {
                source: self.source(name),
                text,
                hint,
            }
        })
    }
}

impl fmt::Debug for GivenOptions {
    /// Texts may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl PartialEq for GivenOption {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl<T: Args> Args for GivenFlags<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: Args> FromArgMatches for GivenFlags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = GivenOptions::default();
        for argument in T::augment_args(Command::new("options")).get_arguments() {
            let id = argument.get_id().as_str();
            let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
            if let Some(name) = argument.get_long().filter(|_| is_given) {
                let texts = matches
                    .get_raw(id)
                    .into_iter()
                    .flatten()
                    .map(OsStr::to_owned)
                    .collect();
                options.insert(name, texts, OptionSource::flag(name));
            }
        }
        Ok(Self {
            options,
            flags: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The names of the options of `T`.
pub(crate) fn option_names<T: Args>() -> Vec<String> {
    let command = T::augment_args(Command::new("options"));
    let names = command.get_arguments().filter_map(clap::Arg::get_long);
    names.map(str::to_owned).collect()
}
