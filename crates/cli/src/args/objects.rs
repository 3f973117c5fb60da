//! Flags of the commands about objects of a store: `haul ls`, `haul rm`, `haul presign`.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use haul_plan::{KeyFilter, KeyPattern, KeyRule};
use haul_s3::S3Address;
use http::Method;

use super::network::ConnectionArgs;
use super::s3::S3Args;
use super::values::{DurationArg, s3_address};

/// `haul ls`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// A bucket, a prefix, or keys with `*` and `?`; without one, the buckets are listed.
    #[arg(value_name = "s3://BUCKET/PREFIX", value_parser = s3_address)]
    pub(crate) address: Option<S3Address>,
    /// List everything below the prefix, not only what a folder would show.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Show date, size and storage class, too.
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Show sizes as 1.5 MiB; implies --long.
    #[arg(short = 'H', long)]
    pub(crate) human: bool,
    /// List uploads that were begun and neither completed nor aborted; `haul put --abort` removes them.
    #[arg(long, conflicts_with_all = ["recursive", "long", "human"])]
    pub(crate) uploads: bool,
    /// Print one JSON object for each entry.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print how many objects and bytes there are, and nothing else.
    #[arg(long, conflicts_with = "uploads")]
    pub(crate) summary: bool,
    #[command(flatten)]
    pub(crate) s3: S3Args,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// `haul rm`.
#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// Objects; with `*` and `?`, all that match; with -r, all below a prefix.
    #[arg(value_name = "s3://BUCKET/KEY", required = true, value_parser = s3_address)]
    pub(crate) addresses: Vec<S3Address>,
    /// Delete everything whose key begins with the given one.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// `*`, `?` and `[` stand for themselves.
    #[arg(short, long)]
    pub(crate) globoff: bool,
    #[command(flatten)]
    pub(crate) filter: KeyFilterArgs,
    /// Delete nothing if there are more than N objects to delete.
    #[arg(long, value_name = "N")]
    pub(crate) max_delete: Option<u64>,
    /// Show what would be deleted, and delete nothing.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object for each object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) s3: S3Args,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// `haul presign`.
#[derive(Debug, Args)]
pub(crate) struct PresignArgs {
    /// The object.
    #[arg(value_name = "s3://BUCKET/KEY", value_parser = s3_address)]
    pub(crate) address: S3Address,
    /// How long the URL is good for, at most 7 days.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) expires: DurationArg,
    /// What the URL allows: GET, PUT, HEAD or DELETE.
    #[arg(long, value_name = "METHOD", default_value = "GET", value_parser = presigned_method)]
    pub(crate) method: Method,
    #[command(flatten)]
    pub(crate) s3: S3Args,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Which keys of many are meant: `--include` and `--exclude` in the order of the command line, which a derived parser would lose.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyFilterArgs {
    pub(crate) filter: KeyFilter,
}

const INCLUDE_HELP: &str = "Only keys that match; `*` matches slashes, too. Repeatable";
const FILTER_LONG_HELP: &str = "\
Only keys that match; `*` matches slashes, too. Repeatable.

Patterns apply to what follows the prefix. Of several --include and --exclude the last one that matches counts, as with aws s3; \
but if the first one is --include, keys that match nothing are left out.";

impl Args for KeyFilterArgs {
    fn augment_args(command: Command) -> Command {
        let rule = |name: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name("PATTERN")
                .action(ArgAction::Append)
                .requires("recursive")
        };
        let include = rule("include")
            .help(INCLUDE_HELP)
            .long_help(FILTER_LONG_HELP);
        let exclude = rule("exclude").help("No keys that match. Repeatable");
        command.arg(include).arg(exclude)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KeyFilterArgs {
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

fn presigned_method(text: &str) -> Result<Method, String> {
    match text.to_ascii_uppercase().as_str() {
        "GET" => Ok(Method::GET),
        "PUT" => Ok(Method::PUT),
        "HEAD" => Ok(Method::HEAD),
        "DELETE" => Ok(Method::DELETE),
        _ => Err("it is none of GET, PUT, HEAD, DELETE".to_owned()),
    }
}
