//! The manual against the command line: each flag of each command has its row, and so has each exit code and each variable.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args as _, CommandFactory as _};

use super::{CliArgs, ConnectionArgs, DownloadLimitArgs, S3Args};
use crate::exit::ExitReason;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    let path = repository().join("docs/manual").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The pages with the flags of a command.
fn pages(command: &str) -> &'static [&'static str] {
    match command {
        "get" => &["get.md", "batch.md", "s3.md"],
        "put" | "sync" | "ls" | "cp" | "rm" | "presign" => &["s3.md"],
        "serve" => &["serve.md", "s3-server.md"],
        "tunnel" => &["tunnel.md"],
        "bench" => &["bench.md"],
        "sign" => &["sign.md"],
        "demo" => &["demo.md"],
        _ => &["completions.md"],
    }
}

/// The flags that several commands share, and the page with their rows, to which the pages of the commands lead.
fn shared_flags() -> Vec<(clap::Command, &'static str)> {
    vec![
        (
            ConnectionArgs::augment_args(clap::Command::new("")),
            "get.md",
        ),
        (
            DownloadLimitArgs::augment_args(clap::Command::new("")),
            "get.md",
        ),
        (S3Args::augment_args(clap::Command::new("")), "s3.md"),
    ]
}

/// What is before the second column of each row of a table, and code in other lines.
fn rows(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter_map(|row| row.split(" | ").next())
        .collect()
}

/// The words of a row's code: `-x`, `--max-connections`.
fn words(row: &str) -> impl Iterator<Item = &str> {
    let code = row.split('`').skip(1).step_by(2);
    code.flat_map(|code| code.split([' ', '=', ',', '[']))
}

#[test]
fn each_flag_of_each_command_has_its_row() {
    let mut missing = Vec::new();
    let root = CliArgs::command();
    for command in root
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
    {
        let own = pages(command.get_name());
        let sub = command.get_subcommands();
        for level in std::iter::once(command).chain(sub) {
            for flag in level.get_arguments().filter(|flag| !flag.is_hide_set()) {
                let Some(long) = flag.get_long() else {
                    continue;
                };
                let shared = shared_flags()
                    .into_iter()
                    .filter(|(group, _)| {
                        group
                            .get_arguments()
                            .any(|other| other.get_long() == Some(long))
                    })
                    .map(|(_, page)| page);
                let texts: Vec<String> = own.iter().copied().chain(shared).map(page).collect();
                let mut all = texts.iter().flat_map(|text| rows(text));
                let short = flag.get_short().map(|short| format!("-{short}"));
                // A row may have the short name alone: the help has both.
                let names = [Some(format!("--{long}")), short.clone()];
                let has = all.any(|row| {
                    words(row).any(|word| names.iter().flatten().any(|name| name == word))
                });
                if !has {
                    let short = short.map_or_else(String::new, |short| format!("{short}, "));
                    missing.push(format!(
                        "haul {}: {short}--{long} in {}",
                        command.get_name(),
                        own.join(" or ")
                    ));
                }
            }
        }
    }
    missing.dedup();
    assert!(missing.is_empty(), "no row for:\n{}", missing.join("\n"));
}

#[test]
fn each_exit_code_and_each_class_has_its_row() {
    let text = page("exit-codes.md");
    for exit in ExitReason::ALL {
        let row = format!("| {} | `{}` | ", exit as u8, exit.name());
        assert!(text.contains(&row), "no row {row}");
    }
}

/// Variables that libraries read for haul: the AWS SDK, the colours, the standard library.
const READ_BY_LIBRARIES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_EC2_METADATA_DISABLED",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    // By the standard library, which finds the home folder.
    "HOME",
    "COLUMNS",
    "NO_COLOR",
    "TMPDIR",
];

/// Texts that look like a variable and are none, or that are for the build and the tests alone.
const NO_VARIABLES: &[&str] = &[
    "HAUL_",
    "AWS_",
    "HAUL_COMMIT",
    "HAUL_BENCH_PAGE",
    "AWS_ENDPOINT_URL_",
];

/// The names of variables between quotes in the sources of the crates, without the tests.
fn variables_in_sources() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders: Vec<PathBuf> = [
        "cli", "bench", "serve", "s3server", "service", "tunnel", "transfer", "s3", "net",
    ]
    .map(|name| repository().join("crates").join(name).join("src"))
    .into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.contains("tests") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text
                    .split("#[cfg(test)]\nmod tests {")
                    .next()
                    .unwrap_or_default();
                found.extend(
                    code.split('"')
                        .filter(|word| is_variable(word))
                        .map(str::to_owned),
                );
            }
        }
    }
    found
}

fn is_variable(word: &str) -> bool {
    let prefixes = [
        "HAUL_",
        "AWS_",
        "XDG_",
        "SSL_CERT_",
        "LISTEN_",
        "NOTIFY_",
        "RUST_LOG",
        "NO_COLOR",
    ];
    let names = [
        "HOME",
        "NETRC",
        "TERM",
        "TMPDIR",
        "COLUMNS",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
    ];
    let is_plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    names.contains(&word)
        || prefixes.iter().any(|prefix| word.starts_with(prefix)) && word.chars().all(is_plain)
}

#[test]
fn each_variable_that_haul_reads_is_in_the_manual_and_no_other() {
    let text = page("environment.md");
    let documented: BTreeSet<String> = rows(&text)
        .into_iter()
        .flat_map(words)
        .map(str::to_owned)
        .collect();
    let mut read = variables_in_sources();
    read.retain(|name| !NO_VARIABLES.contains(&name.as_str()));
    read.extend(READ_BY_LIBRARIES.iter().map(|name| (*name).to_owned()));
    assert_eq!(documented, read);
}
