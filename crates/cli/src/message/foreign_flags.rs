//! Flags of other programs that a command of haul does not have, with what haul has instead.

/// Flags that mean the same, and the hint for them.
type FlagHints = &'static [(&'static [&'static str], &'static str)];

/// What a user of another program gets in a command of haul for one of its flags.
pub(super) fn hint_for(command: &str, flag: &str) -> Option<&'static str> {
    let tables = TABLES
        .iter()
        .filter(|(commands, _)| commands.contains(&command));
    let mut rows = tables.flat_map(|(_, table)| *table);
    let row = rows.find(|(flags, _)| flags.contains(&flag));
    row.map(|(_, hint)| *hint)
}

/// The commands that stand for those of other programs, and the flags of these.
const TABLES: &[(&[&str], FlagHints)] = &[
    (&["get"], DOWNLOADS),
    (&["serve"], SERVERS),
    (&["put"], UPLOADS),
    (&["ls"], LISTS),
    (&["bench"], LOADS),
    (
        &["presign"],
        &[(
            &["--expires-in", "--expire"],
            "--expires TIME, as --expires 1h, sets how long the URL is valid",
        )],
    ),
    (&["get", "put", "sync", "cp"], COPIES),
    (&["get", "put", "sync", "cp", "rm"], QUIET),
    (&["get", "put", "sync", "cp", "rm", "ls", "presign"], STORES),
];

/// Flags of aws, s5cmd, rclone and s3cmd for all commands.
const STORES: FlagHints = &[
    (
        &[
            "--no-verify-ssl",
            "--no-check-certificate",
            "--no-ssl-verify",
        ],
        "-k/--insecure turns the check of certificates off",
    ),
    (
        &["--ca-bundle", "--ca-cert", "--ca-certs"],
        "--cacert FILE trusts the authorities in a PEM file",
    ),
    (
        &["--cli-read-timeout", "--timeout"],
        "--stall-timeout TIME limits a connection that receives nothing",
    ),
    (
        &["--cli-connect-timeout", "--contimeout"],
        "--connect-timeout TIME limits connecting",
    ),
    (
        &["--credentials-file"],
        "the variable AWS_SHARED_CREDENTIALS_FILE names the file with credentials",
    ),
    (
        &[
            "--access_key",
            "--secret_key",
            "--access-key",
            "--secret-key",
        ],
        "the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY contain the keys",
    ),
    (
        &["--host", "--endpoint", "--s3-endpoint"],
        "--endpoint-url URL is the store",
    ),
    (&["--debug", "--log"], "RUST_LOG=debug shows what happens"),
];

/// Flags of the same for commands that copy.
const COPIES: FlagHints = &[(
    &[
        "--numworkers",
        "--concurrency",
        "--transfers",
        "--checkers",
        "--s3-upload-concurrency",
        "--max-concurrent-requests",
    ],
    "haul finds the number of requests itself; -x N sets it",
)];

/// The same for commands that print what they do.
const QUIET: FlagHints = &[(&["--only-show-errors", "--silent"], "-q prints errors only")];

/// Flags of the same for uploads.
const UPLOADS: FlagHints = &[
    (
        &["--follow-symlinks", "--copy-links", "-L"],
        "--follow-links follows links to folders",
    ),
    (
        &["--checksum-algorithm"],
        "--checksum ALGORITHM adds one; CRC-64/NVME is always compared",
    ),
    (
        &["--multipart-chunk-size-mb", "--s3-chunk-size"],
        "--part-size SIZE is the size of parts",
    ),
    (
        &["-T", "--upload-file"],
        "the file is an argument: haul put FILE URL",
    ),
    (
        &["--mime-type", "-m"],
        "--content-type TYPE is the media type",
    ),
];

/// Flags of ab, wrk, hey and oha.
const LOADS: FlagHints = &[
    (
        &["-d", "--duration", "-z"],
        "-t TIME sets how long haul starts requests",
    ),
    (&["-R", "--qps"], "--rate N starts N requests a second"),
    (
        &["--threads", "--connections"],
        "-c N sends N requests at a time; haul uses all processors",
    ),
    (
        &["--disable-keepalive", "-disable-keepalive"],
        "--no-keep-alive opens a connection for each request",
    ),
];

/// Flags of lists.
const LISTS: FlagHints = &[
    (&["--human-readable"], "-H/--human shows sizes as 1.5 MiB"),
    (
        &["--summarize", "--total", "--show-fullpath"],
        "--summary prints the sums alone",
    ),
];

/// Flags of http.server, http-server, miniserve, dufs and caddy.
const SERVERS: FlagHints = &[
    (
        &["-p", "--port"],
        "-l 8080 listens on port 8080 of this machine, -l :8080 on every interface",
    ),
    (
        &[
            "-b",
            "--bind",
            "--host",
            "--address",
            "-a",
            "-i",
            "--interfaces",
        ],
        "-l HOST:PORT is the address; :PORT is every interface",
    ),
    (
        &["-d", "--directory", "--root", "-r"],
        "the folder is an argument: haul serve DIR",
    ),
    (
        &[
            "-u",
            "--upload",
            "--upload-files",
            "--allow-upload",
            "-A",
            "--allow-all",
            "--allow-delete",
        ],
        "-w/--writable allows uploads and deletions",
    ),
    (
        &["--tls-cert", "--ssl-cert"],
        "--cert FILE and --key FILE are for TLS; --self-signed makes a certificate",
    ),
    (
        &["--tls-key", "--ssl-key"],
        "--key FILE is the key of --cert",
    ),
];

/// Flags of curl, wget and aria2.
const DOWNLOADS: FlagHints = &[
    (
        &[
            "-O",
            "--remote-name",
            "-J",
            "--remote-header-name",
            "--content-disposition",
        ],
        "haul names the file by the response or the URL without a flag; -o FILE chooses another name",
    ),
    (
        &["--output-document", "--out"],
        "-o FILE chooses the name, and -o - is standard output",
    ),
    (
        &["-P", "--directory-prefix", "--dir", "--output-dir"],
        "-d DIR chooses the directory",
    ),
    (
        &["--create-dirs"],
        "haul creates missing directories without a flag",
    ),
    (
        &["-c", "--continue", "-C", "--continue-at"],
        "the same command resumes an interrupted download without a flag",
    ),
    (
        &["-L", "--location"],
        "haul follows redirects without a flag; --max-redirs N limits them",
    ),
    (&["--max-redirect"], "--max-redirs N limits redirects"),
    (
        &["-A", "--user-agent"],
        "-H 'User-Agent: TEXT' sets the user agent",
    ),
    (&["-e", "--referer"], "-H 'Referer: URL' sets the referrer"),
    (
        &["-b", "--cookie", "--load-cookies"],
        "-H 'Cookie: NAME=VALUE' sends a cookie",
    ),
    (
        &["-t", "--tries", "--max-tries", "--retry"],
        "--retries N limits the tries without progress in between",
    ),
    (
        &[
            "--waitretry",
            "--retry-delay",
            "--retry-wait",
            "--retry-max-time",
        ],
        "haul waits longer after each try without progress; --retries N limits them",
    ),
    (
        &["-T", "--timeout", "--read-timeout", "--cli-read-timeout"],
        "--connect-timeout TIME limits connecting, --response-timeout TIME the wait for a response, --stall-timeout TIME a silence in a body",
    ),
    (
        &[
            "-y",
            "-Y",
            "--speed-time",
            "--speed-limit",
            "--lowest-speed-limit",
        ],
        "--min-rate RATE:TIME ends a download that is slower for this time",
    ),
    (&["-m"], "--max-time TIME limits the time of each file"),
    (
        &["--no-check-certificate", "--check-certificate"],
        "-k/--insecure turns the check off; --cacert FILE trusts another authority",
    ),
    (
        &["--ca-certificate", "--capath", "--ca-directory"],
        "--cacert FILE trusts the authorities in a PEM file",
    ),
    (
        &["-E", "--certificate"],
        "--cert FILE is the client certificate, --key FILE its private key",
    ),
    (
        &["--private-key"],
        "--key FILE is the private key of --cert",
    ),
    (
        &["-s", "--split", "--max-connection-per-server"],
        "-x N sets the connections to an origin; without it haul finds their number. -q prints errors only",
    ),
    (
        &[
            "--silent",
            "-S",
            "--show-error",
            "-sS",
            "-nv",
            "--no-verbose",
        ],
        "-q prints errors only",
    ),
    (
        &[
            "-Z",
            "--parallel",
            "--parallel-max",
            "--max-concurrent-downloads",
        ],
        "haul downloads several URLs at once; -j N limits the files at a time",
    ),
    (
        &[
            "--bwlimit",
            "--max-download-limit",
            "--max-overall-download-limit",
        ],
        "--limit-rate SIZE limits the total rate",
    ),
    (
        &["-w", "--wait", "--random-wait", "--rate"],
        "--rate-per-host N limits the requests a second to each origin",
    ),
    (
        &["--min-split-size"],
        "--min-segment-size SIZE sets the smallest segment",
    ),
    (
        &["-f", "--fail", "--fail-with-body"],
        "haul never saves the page of an error; its exit code is 5 then",
    ),
    (
        &["--compressed"],
        "haul asks for no compression; --decode decodes a response that is compressed all the same",
    ),
    (
        &[
            "-N",
            "--timestamping",
            "-z",
            "--time-cond",
            "--conditional-get",
        ],
        "--update replaces a file if the origin has a newer one",
    ),
    (
        &["-nc", "--no-clobber", "--skip-existing"],
        "haul never replaces a file without --overwrite or --update",
    ),
    (
        &["--allow-overwrite", "--clobber"],
        "--overwrite replaces existing files",
    ),
    (&["--input-file"], "-i LIST reads URLs from a file"),
    (
        &["--all-proxy", "--http-proxy", "--https-proxy"],
        "--proxy URL sets the proxy for every URL",
    ),
    (
        &[
            "--http-user",
            "--http-passwd",
            "--http-password",
            "--password",
        ],
        "-u USER logs in, and haul asks for the password",
    ),
    (
        &["-np", "--no-parent"],
        "haul follows no links; -i LIST downloads the URLs of a list",
    ),
    (&["--range"], "haul downloads whole files"),
    (
        &["-I", "--head", "--spider", "-X", "--request", "--data"],
        "haul get only downloads files",
    ),
];

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::CliArgs;

    /// The flags of a command and of those below it.
    fn flags(command: &clap::Command) -> Vec<String> {
        let levels = std::iter::once(command).chain(command.get_subcommands());
        let mut own = Vec::new();
        for argument in levels.flat_map(clap::Command::get_arguments) {
            own.extend(argument.get_long().map(|long| format!("--{long}")));
            own.extend(argument.get_short().map(|short| format!("-{short}")));
        }
        own
    }

    #[test]
    fn flags_that_haul_has_are_not_in_a_table() {
        let command = CliArgs::command();
        for sub in command.get_subcommands() {
            let own = flags(sub);
            let name = sub.get_name();
            let tables = TABLES
                .iter()
                .filter(|(commands, _)| commands.contains(&name));
            let foreign = tables.flat_map(|(_, table)| *table);
            for flag in foreign.flat_map(|(flags, _)| *flags) {
                assert!(!own.iter().any(|own| own == flag), "{flag} of haul {name}");
            }
        }
    }

    #[test]
    fn no_flag_is_twice_in_a_table() {
        for (_, table) in TABLES {
            let flags = || table.iter().flat_map(|(flags, _)| *flags);
            let distinct: std::collections::HashSet<_> = flags().collect();
            assert_eq!(distinct.len(), flags().count());
        }
    }

    #[test]
    fn hints_name_only_flags_that_haul_has() {
        let command = CliArgs::command();
        for (commands, table) in TABLES {
            for name in *commands {
                let own = flags(command.find_subcommand(name).unwrap());
                let words = table
                    .iter()
                    .flat_map(|(_, hint)| hint.split([' ', '/', ',', ';', ':']));
                for word in words.filter(|word| word.starts_with('-') && *word != "-") {
                    // A short flag may have its value in the same word.
                    let name_of = if word.starts_with("--") {
                        word
                    } else {
                        &word[..2]
                    };
                    assert!(
                        own.iter().any(|own| own == name_of),
                        "{word} of haul {name}"
                    );
                }
            }
        }
    }
}
