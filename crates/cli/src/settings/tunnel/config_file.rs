//! Reads the file of `--config`.
//!
//! A key has the name of a flag, without the dashes, and accepts the same values. So a table becomes [`GivenOptions`], which the parser of the
//! command line checks; each error names the file, the line and the key.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command, ValueHint};
use haul_net::{Proxy, ProxyError};
use haul_service::listen::ListenAddress;
use haul_tunnel::ListenerKind;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::args::{
    GivenOptionError, GivenOptions, LayeredOptions, OptionSource, ProcessOptions, ProxyAlternative,
    ProxyTable, Sourced, TunnelTable, option_names,
};
use crate::settings::proxies::check_use;
use crate::settings::{SettingError, world_readable_warning};

/// The largest file: some thousand tunnels.
const MAX_SIZE: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    /// The keys at the top.
    pub(super) options: GivenOptions,
    pub(super) tunnels: Vec<ConfiguredTunnel>,
    pub(super) proxies: BTreeMap<String, NamedProxy>,
    /// A warning if it has secrets that every user of this machine can read.
    pub(super) warning: Option<String>,
}

/// A `[[tunnel]]`.
#[derive(Debug)]
pub(super) struct ConfiguredTunnel {
    pub(super) listen: Sourced<ListenAddress>,
    pub(super) kind: ListenerKind,
    /// Its other keys.
    pub(super) given: GivenOptions,
}

/// A `[proxies.NAME]`.
#[derive(Debug)]
pub(super) struct NamedProxy {
    pub(super) proxy: Proxy,
    /// Its other keys, with the names of the flags.
    pub(super) given: GivenOptions,
}

/// Alternative proxies with what the file says about them.
pub(super) type ProxyChainHop<'a> = Vec<(Proxy, Option<&'a GivenOptions>)>;

/// The text of the file, for line numbers.
struct TomlText<'a> {
    path: &'a Path,
    text: &'a str,
}

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read, or contains something that cannot be used.
    pub(super) fn read(path: &Path) -> Result<Self, SettingError> {
        let text = read_text(path)?;
        let mut file = Self::parse(path, &text)?;
        if file.has_secrets() {
            file.warning = world_readable_warning(path);
        }
        Ok(file)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, SettingError> {
        let source = TomlText { path, text };
        let document = DeTable::parse(text).map_err(|error| {
            let line = source.line(error.span().unwrap_or_default());
            SettingError::new(format!("{line}: {}", error.message()))
        })?;
        let table = document.get_ref();
        let mut file = Self {
            path: path.to_owned(),
            options: source.options::<LayeredOptions>(table, &["tunnel", "proxies"], flag_name)?,
            ..Self::default()
        };
        if let Some((key, value)) = table.get_key_value("proxies") {
            for (name, value) in source.table(key.get_ref(), value)? {
                let proxy = source.named_proxy(name.get_ref(), value)?;
                file.proxies
                    .insert(name.get_ref().clone().into_owned(), proxy);
            }
        }
        if let Some((key, value)) = table.get_key_value("tunnel") {
            let each = match value.get_ref() {
                DeValue::Array(tables) => tables.iter().collect(),
                _ => vec![value],
            };
            for value in each {
                file.tunnels.push(source.tunnel(key.get_ref(), value)?);
            }
        }
        file.options.parse::<LayeredOptions>()?;
        let tunnels = file.tunnels.iter().map(|tunnel| &tunnel.given);
        for options in std::iter::once(&file.options).chain(tunnels) {
            file.chain(options)?;
        }
        Ok(file)
    }

    /// The chain of proxies that options name; `None` if they name none.
    pub(super) fn chain(
        &self,
        options: &GivenOptions,
    ) -> Result<Option<Vec<ProxyChainHop<'_>>>, SettingError> {
        if !options.contains("proxy") {
            return Ok(None);
        }
        let steps = options.parse::<LayeredOptions>()?.tunnel.proxies.chain;
        let source = options.source("proxy");
        if steps.len() > 1 && steps.iter().any(|step| step.0.is_empty()) {
            let error = SettingError::at(&source, "there is an empty proxy in the chain");
            return Err(error.with_hint("an empty proxy alone connects to targets directly"));
        }
        let proxy = |alternative: ProxyAlternative| match alternative {
            ProxyAlternative::Proxy(proxy) => Ok((*proxy, None)),
            ProxyAlternative::Name(name) => match self.proxies.get(&name) {
                Some(named) => Ok((named.proxy.clone(), Some(&named.given))),
                None => Err(SettingError::at(&source, ProxyError::NoPort).with_hint(
                    "a name without a port must be a [proxies.NAME] in the file of --config",
                )),
            },
        };
        let steps = steps.into_iter().filter(|step| !step.0.is_empty());
        let chain = steps.map(|step| step.0.into_iter().map(proxy).collect());
        chain.collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn all_options(&self) -> impl Iterator<Item = &GivenOptions> {
        let tunnels = self.tunnels.iter().map(|tunnel| &tunnel.given);
        let proxies = self.proxies.values().map(|proxy| &proxy.given);
        std::iter::once(&self.options).chain(tunnels).chain(proxies)
    }

    /// Whether it contains passwords, or header fields, which may be tokens.
    fn has_secrets(&self) -> bool {
        let has = |options: &GivenOptions, name: &str, mark: char| {
            let mut texts = options.texts(name);
            texts.any(|text| text.to_string_lossy().contains(mark))
        };
        self.proxies
            .values()
            .any(|named| named.proxy.login.is_some())
            || self.all_options().any(|options| {
                options.contains("header")
                    || has(options, "proxy", '@')
                    || has(options, "proxy-user", ':')
            })
    }
}

fn read_text(path: &Path) -> Result<String, SettingError> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SIZE + 1).read_to_end(&mut text));
    let shown = path.display();
    read.map_err(|error| {
        SettingError::new(format!("--config: cannot read {shown}")).caused_by(error)
    })?;
    if text.len() as u64 > MAX_SIZE {
        let kibibytes = MAX_SIZE >> 10;
        let text = format!("--config: {shown} is larger than {kibibytes} KiB");
        return Err(SettingError::new(text));
    }
    String::from_utf8(text)
        .map_err(|_| SettingError::new(format!("--config: {shown} is not UTF-8")))
}

fn flag_name(key: &str) -> String {
    match key {
        "user" | "password-file" => format!("proxy-{key}"),
        "headers" => "header".to_owned(),
        _ => key.to_owned(),
    }
}

/// The flag of a key in a table about one proxy.
fn proxy_flag_name(key: &str) -> String {
    match key {
        "cacert" | "insecure" | "cert" | "key" => format!("proxy-{key}"),
        _ => flag_name(key),
    }
}

impl TomlText<'_> {
    /// The file and the line.
    fn line(&self, place: Range<usize>) -> String {
        let before = self.text.get(..place.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        format!("{}:{line}", self.path.display())
    }

    fn source(&self, key: &str, value: &Spanned<DeValue<'_>>) -> OptionSource {
        OptionSource::Key {
            line: self.line(value.span()).into(),
            key: key.into(),
        }
    }

    fn table<'v>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'v>>,
    ) -> Result<&'v DeTable<'v>, SettingError> {
        let table = value.get_ref().as_table();
        table.ok_or_else(|| self.type_error(key, value, "a table"))
    }

    fn type_error(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> SettingError {
        let found = value.get_ref().type_str();
        let text = format!("{expected} is needed, and this is of type {found}");
        SettingError::at(&self.source(key, value), text)
    }

    /// The keys of a table as options of `T`, apart from some. `flag_name` gives the flag of a key.
    fn options<T: Args>(
        &self,
        table: &DeTable<'_>,
        apart_from: &[&str],
        flag_name: fn(&str) -> String,
    ) -> Result<GivenOptions, SettingError> {
        let command = T::augment_args(Command::new("options"));
        let mut given = GivenOptions::default();
        for (key, value) in table {
            let key: &str = key.get_ref();
            if apart_from.contains(&key) {
                continue;
            }
            let name = flag_name(key);
            let mut arguments = command.get_arguments();
            let argument = arguments.find(|argument| argument.get_long() == Some(&name));
            let texts = match argument {
                Some(argument) => self.texts(argument, key, value)?,
                // The parser refuses it.
                None => Vec::new(),
            };
            let source = self.source(key, value);
            if !given.insert(&name, texts, source.clone()) {
                return Err(SettingError::at(
                    &source,
                    "another key has the same meaning",
                ));
            }
        }
        Ok(given)
    }

    /// The texts of a value, as the flag would have them.
    fn texts(
        &self,
        argument: &Arg,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<OsString>, SettingError> {
        if !argument.get_action().takes_values() {
            let flag = value
                .get_ref()
                .as_bool()
                .ok_or_else(|| self.type_error(key, value, "true or false"))?;
            return Ok(vec![flag.to_string().into()]);
        }
        let DeValue::Array(values) = value.get_ref() else {
            return Ok(vec![self.text(argument, key, value)?]);
        };
        let mut texts = Vec::new();
        for value in values {
            texts.push(match value.get_ref() {
                // Alternatives of one step in a chain of proxies.
                DeValue::Array(alternatives) if key == "proxy" => {
                    let texts = alternatives.iter().map(|alternative| {
                        let text = self.text(argument, key, alternative)?;
                        Ok(text.to_string_lossy().replace(',', "%2C"))
                    });
                    texts
                        .collect::<Result<Vec<_>, SettingError>>()?
                        .join(",")
                        .into()
                }
                _ => self.text(argument, key, value)?,
            });
        }
        if key == "proxy" && texts.iter().all(|text| text.is_empty()) {
            let error = SettingError::at(&self.source(key, value), "the list is empty");
            return Err(error.with_hint("proxy = \"\" connects to targets directly"));
        }
        // A flag that can be given only once takes several values with commas between them.
        Ok(match argument.get_action() {
            clap::ArgAction::Append => texts,
            _ => vec![texts.join(",".as_ref())],
        })
    }

    /// A text or a number. Paths are relative to the file.
    fn text(
        &self,
        argument: &Arg,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<OsString, SettingError> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            _ => return Err(self.type_error(key, value, "a text in quotes or a number")),
        };
        let folder = self.path.parent().unwrap_or_else(|| Path::new(""));
        let is_path = matches!(
            argument.get_value_hint(),
            ValueHint::AnyPath | ValueHint::FilePath
        );
        Ok(match text.strip_prefix("unix:") {
            Some(path) if matches!(key, "listen" | "admin") => {
                let mut address = OsString::from("unix:");
                address.push(folder.join(path));
                address
            }
            // Standard output.
            _ if text == "-" => text.into(),
            _ if is_path => folder.join(text).into(),
            _ => text.into(),
        })
    }

    fn tunnel(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<ConfiguredTunnel, SettingError> {
        let table = self.table(key, value)?;
        let given = self.options::<TunnelTable>(table, &[], flag_name)?;
        let parsed: TunnelTable = given.parse().map_err(|error| {
            let name = error.source.name().trim_start_matches('-').to_owned();
            let is_for_process = option_names::<ProcessOptions>().contains(&name);
            let error = SettingError::from(self.with_line(error, "[[tunnel]]", value));
            if is_for_process {
                error.with_hint("it is for all tunnels: write it above the first table of the file")
            } else {
                error
            }
        })?;
        let kind = match (parsed.target, parsed.kind) {
            (Some(target), _) => ListenerKind::Forward(target),
            (None, Some(kind)) => kind,
            (None, None) => {
                let table = self.source("[[tunnel]]", value);
                let error = SettingError::at(&table, "target is missing");
                return Err(error.with_hint(
                    "target = \"HOST:PORT\"; or kind = \"socks\" or \"http\", where clients name their targets",
                ));
            }
        };
        let own = ["listen", "target", "kind"];
        Ok(ConfiguredTunnel {
            kind,
            listen: Sourced {
                source: given.source("listen"),
                value: parsed.listen,
            },
            given: given.filtered(|name| !own.contains(&name)),
        })
    }

    fn named_proxy(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<NamedProxy, SettingError> {
        let table = self.table(key, value)?;
        let given = self.options::<ProxyTable>(table, &[], proxy_flag_name)?;
        let parsed: ProxyTable = given
            .parse()
            .map_err(|error| self.with_line(error, &format!("[proxies.{key}]"), value))?;
        let Some(proxy) = parsed.url.0 else {
            return Err(SettingError::at(&given.source("url"), "a proxy is needed"));
        };
        let given = given.filtered(|name| name != "url");
        check_use(std::slice::from_ref(&proxy), &given)?;
        Ok(NamedProxy { proxy, given })
    }

    /// The error with the table's name and line if it has no line, as if a key is missing.
    fn with_line(
        &self,
        error: GivenOptionError,
        name: &str,
        table: &Spanned<DeValue<'_>>,
    ) -> GivenOptionError {
        match error.source {
            OptionSource::Key { .. } => error,
            OptionSource::Flag(_) => GivenOptionError {
                source: self.source(name, table),
                ..error
            },
        }
    }
}
