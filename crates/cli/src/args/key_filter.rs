//! `--include` and `--exclude`.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use haul_transfer::bucket::{KeyFilter, KeyPattern, KeyRule};

/// Which keys of many are meant: `--include` and `--exclude` in the order of the command line, which a derived parser would lose.
///
/// With `HAS_RECURSIVE`, the command has a flag for folders, which the filter needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyFilterArgs<const HAS_RECURSIVE: bool = true> {
    pub(crate) filter: KeyFilter,
}

const INCLUDE_HELP: &str = "Use only keys that match; `*` matches slashes, too. Repeatable";
const FILTER_LONG_HELP: &str = "\
Use only keys that match; `*` matches slashes, too. Repeatable.

Patterns apply to the part of a key after the prefix. If several match, the last one on the command line counts, as with aws s3. If the \
first one is --include, haul leaves out keys that match no pattern.";

impl<const HAS_RECURSIVE: bool> Args for KeyFilterArgs<HAS_RECURSIVE> {
    fn augment_args(command: Command) -> Command {
        let rule = |name: &'static str| {
            let arg = Arg::new(name)
                .long(name)
                .value_name("PATTERN")
                .action(ArgAction::Append);
            if HAS_RECURSIVE {
                arg.requires("recursive")
            } else {
                arg
            }
        };
        let include = rule("include")
            .help(INCLUDE_HELP)
            .long_help(FILTER_LONG_HELP);
        let exclude = rule("exclude").help("Leave out keys that match. Repeatable");
        command.arg(include).arg(exclude)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const HAS_RECURSIVE: bool> FromArgMatches for KeyFilterArgs<HAS_RECURSIVE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let rules_of = |name: &str, rule: fn(KeyPattern) -> KeyRule| {
            let indices = matches.indices_of(name).into_iter().flatten();
            let texts = matches.get_many::<String>(name).into_iter().flatten();
            indices
                .zip(texts.map(move |text| rule(KeyPattern::parse(text))))
                .collect::<Vec<_>>()
        };
        let mut rules = rules_of("include", KeyRule::Include);
        rules.extend(rules_of("exclude", KeyRule::Exclude));
        rules.sort_by_key(|(index, _)| *index);
        let rules = rules.into_iter().map(|(_, rule)| rule).collect();
        Ok(Self {
            filter: KeyFilter::new(rules),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
