//! Flags of curl, wget and aria2 that `haul get` does not have, with what haul has instead.

/// What a user of another program gets in haul for one of its flags.
pub(super) fn hint_for(flag: &str) -> Option<&'static str> {
    FLAGS
        .iter()
        .find(|(flags, _)| flags.contains(&flag))
        .map(|(_, hint)| *hint)
}

/// Flags that mean the same, and the hint for them.
const FLAGS: &[(&[&str], &str)] = &[
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
        &[
            "-T",
            "--timeout",
            "--read-timeout",
            "--cli-read-timeout",
            "-y",
            "-Y",
            "--speed-time",
            "--speed-limit",
            "--lowest-speed-limit",
        ],
        "--connect-timeout TIME limits connecting, --response-timeout TIME the wait for a response, --stall-timeout TIME a silence in a body",
    ),
    (
        &["-m", "--max-time"],
        "haul has no time limit for a whole download: timeout(1) ends it, and the same command resumes it",
    ),
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
        &["--max-download-limit", "--max-overall-download-limit"],
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

    #[test]
    fn flags_that_haul_has_are_not_in_the_table_and_none_is_there_twice() {
        let command = CliArgs::command();
        let get = command.find_subcommand("get").unwrap();
        let mut own: Vec<String> = Vec::new();
        for argument in get.get_arguments() {
            own.extend(argument.get_long().map(|long| format!("--{long}")));
            own.extend(argument.get_short().map(|short| format!("-{short}")));
        }
        let mut foreign: Vec<&str> = FLAGS
            .iter()
            .flat_map(|(flags, _)| *flags)
            .copied()
            .collect();
        for flag in &foreign {
            assert!(!own.iter().any(|own| own == flag), "{flag}");
        }
        let count = foreign.len();
        foreign.sort_unstable();
        foreign.dedup();
        assert_eq!(foreign.len(), count);
    }

    #[test]
    fn hints_name_only_flags_that_haul_has() {
        let command = CliArgs::command();
        let get = command.find_subcommand("get").unwrap();
        for (_, hint) in FLAGS {
            for word in hint.split([' ', '/', ',', ';', ':']) {
                if let Some(long) = word.strip_prefix("--") {
                    assert!(
                        get.get_arguments().any(|own| own.get_long() == Some(long)),
                        "{word}"
                    );
                }
            }
        }
    }
}
