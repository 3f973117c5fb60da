//! Commands of other programs that haul does not have, with the command line that does the same.
//!
//! The answer repeats what the user typed, so that it can be run as it is. URLs lose their secrets; flags are not repeated, since a value
//! may be one.

use std::path::Path;

/// A command line of another program: what follows the name of its command.
pub(super) struct ForeignLine<'a> {
    command: &'a str,
    /// The words that are not flags. The value of a flag is among them if it is a word of its own.
    operands: Vec<&'a str>,
    is_recursive: bool,
    has_flags: bool,
}

impl<'a> ForeignLine<'a> {
    pub(super) fn new(command: &'a str, words: &'a [String]) -> Self {
        let is_flag = |word: &&str| word.starts_with('-') && *word != "-";
        let words = || words.iter().map(String::as_str);
        Self {
            command,
            operands: words().filter(|word| !is_flag(word)).collect(),
            is_recursive: words().any(|word| matches!(word, "-r" | "-R" | "--recursive")),
            has_flags: words().any(|word| is_flag(&word)),
        }
    }

    /// What to run instead; `None` for a word that is not a command anywhere.
    pub(super) fn hint(&self) -> Option<String> {
        Some(match self.command {
            "s3" => self.without_s3(),
            "mv" | "move" | "moveto" | "rename" => self.move_hint(),
            "copy" | "copyto" => match self.copy_line() {
                Some(line) => format!("to copy: {line}"),
                None => "to copy: haul put, haul get or haul cp; haul sync copies what is new".into(),
            },
            "upload" | "push" | "store" | "rcat" | "pipe" => match self.command {
                "rcat" | "pipe" => format!("to upload standard input: haul put - {}", self.or("s3://BUCKET/KEY")),
                _ => format!("to upload: haul put {}", self.or("FILE s3://BUCKET/KEY")),
            },
            "cat" => format!("to print it: haul get -o - {}", self.or("URL")),
            "download" | "fetch" | "dl" | "pull" | "curl" | "wget" | "aria2c" | "axel" => {
                format!("to download: haul get {}", self.or("URL"))
            }
            "mb" | "mkbucket" | "mkdir" => format!(
                "haul does not create buckets: aws s3 mb {}; for haul serve DIR --s3, make a folder in DIR",
                self.or("s3://BUCKET")
            ),
            "rb" | "rmbucket" | "rmdir" => format!(
                "haul does not remove buckets, only the objects in them: haul rm -r {}",
                self.or("s3://BUCKET/")
            ),
            "del" | "delete" | "deletefile" | "purge" | "unlink" => {
                format!("to delete: haul rm {}", self.or("s3://BUCKET/KEY"))
            }
            "list" | "dir" | "lsf" | "lsl" | "lsd" | "lsjson" | "la" => {
                format!("to list: haul ls {}", self.or("s3://BUCKET/PREFIX"))
            }
            "du" | "size" | "disk-usage" => {
                format!("for the sums: haul ls --summary {}", self.or("s3://BUCKET/PREFIX"))
            }
            "stat" | "head" | "info" => {
                format!("for size, time and tag: haul ls --json {}", self.or("s3://BUCKET/KEY"))
            }
            "share" | "link" | "signurl" | "sign-url" => {
                format!("for a URL without a login: haul presign {}", self.or("s3://BUCKET/KEY"))
            }
            "mirror" | "rsync" => match self.operands.as_slice() {
                [from, to] => format!("to copy what is new: haul sync {} {}", shown(from), shown(to)),
                _ => "to copy what is new: haul sync DIR s3://BUCKET/PREFIX/".into(),
            },
            "http" | "https" | "httpd" | "server" | "http-server" | "host" => {
                "to serve a folder: haul serve DIR -l 8080".into()
            }
            "proxy" | "forward" | "socks" | "ssh" | "connect" => {
                "to forward a port: haul tunnel -p PROXY 2222:HOST:22".into()
            }
            "ab" | "wrk" | "hey" | "load" => {
                format!("to measure a server: haul bench load {}", self.or("URL"))
            }
            "update" | "upgrade" | "self-update" => {
                "haul does not update itself: install the new version as you installed this one".into()
            }
            "configure" | "config" | "login" => {
                "haul reads AWS's variables and files (~/.aws); --profile and --endpoint-url choose among them".into()
            }
            _ => return None,
        })
    }

    /// `aws s3 ls` is `haul ls`.
    fn without_s3(&self) -> String {
        let (Some((command, operands)), false) = (self.operands.split_first(), self.has_flags)
        else {
            return "leave out s3: haul ls, get, put, cp, rm, sync".into();
        };
        let inner = Self {
            command,
            operands: operands.to_vec(),
            ..*self
        };
        match (inner.hint(), inner.copy_line()) {
            (_, Some(line)) if *command == "cp" => line,
            (Some(hint), _) => hint,
            (None, _) => format!("leave out s3: haul {}", shown_words(&self.operands)),
        }
    }

    fn move_hint(&self) -> String {
        let general =
            "haul does not move files: copy with haul put, get or cp, then delete the old file";
        let (Some(copy), Some((_, from))) = (self.copy_line(), self.operands.split_last()) else {
            return general.into();
        };
        let from = shown_words(from);
        let flag = if self.is_recursive { "-r " } else { "" };
        let delete = if is_object(&from) { "haul rm" } else { "rm" };
        format!("to move: {copy} && {delete} {flag}{from}")
    }

    /// The command that copies from all operands but the last to the last. `None` where none does.
    pub(super) fn copy_line(&self) -> Option<String> {
        let (to, from) = self
            .operands
            .split_last()
            .filter(|(_, from)| !from.is_empty())?;
        let flag = if self.is_recursive { "-r " } else { "" };
        let remote = |word: &&str| is_object(word) || word.contains("://");
        let sources = shown_words(from);
        match (from.iter().all(remote), remote(to)) {
            (true, true) => Some(format!("haul cp {flag}{sources} {}", shown(to))),
            (false, true) => Some(format!("haul put {flag}{sources} {}", shown(to))),
            (true, false) => {
                let is_folder = self.is_recursive
                    || from.len() > 1
                    || to.ends_with('/')
                    || Path::new(to).is_dir();
                let target = match (*to, is_folder) {
                    (".", _) => String::new(),
                    (to, true) => format!(" -d {}", shown(to)),
                    (to, false) => format!(" -o {}", shown(to)),
                };
                Some(format!("haul get {flag}{sources}{target}"))
            }
            (false, false) => None,
        }
    }

    /// What was typed, or a word in its place. A flag may have a value, which is then among the operands.
    fn or(&self, place: &str) -> String {
        if self.operands.is_empty() || self.has_flags {
            place.to_owned()
        } else {
            shown_words(&self.operands)
        }
    }
}

/// The hint for flags before the command, which aws and s5cmd take: the command line with the command in front.
pub(super) fn moved_flags_hint(
    words: &[String],
    is_command: impl Fn(&str) -> bool,
    flag: &str,
) -> String {
    let command = words.iter().position(|word| is_command(word));
    let line = command.and_then(|at| {
        let (before, after) = words.split_at(at);
        let (command, after) = after.split_first()?;
        let is_plain = |word: &&String| !word.starts_with('-');
        // Values of these flags are not secrets.
        let is_shown = |word: &String| {
            !word.starts_with('-')
                || PLAIN_FLAGS.contains(&word.split('=').next().unwrap_or_default())
        };
        let before: Vec<&str> = before
            .iter()
            .filter(|word| *word != "s3")
            .map(String::as_str)
            .collect();
        if !words[..at].iter().all(is_shown) {
            return None;
        }
        let rest = if after.iter().all(|word| is_plain(&word)) {
            shown_words(&after.iter().map(String::as_str).collect::<Vec<_>>())
        } else {
            "...".to_owned()
        };
        let line = format!("haul {command} {} {rest}", shown_words(&before));
        Some(line.trim_end().to_owned())
    });
    match line {
        Some(line) => format!("flags follow the command: {line}"),
        None => format!("flags follow the command: haul COMMAND {flag} ..."),
    }
}

/// Flags whose values may be repeated.
const PLAIN_FLAGS: [&str; 12] = [
    "--endpoint-url",
    "--region",
    "--profile",
    "--no-sign-request",
    "--request-payer",
    "--json",
    "--dry-run",
    "-n",
    "-q",
    "--quiet",
    "-k",
    "--insecure",
];

fn is_object(word: &str) -> bool {
    word.starts_with("s3://")
}

/// Words as a shell takes them.
fn shown_words(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| shown(word)).collect();
    words.join(" ")
}

/// A word without its secrets, in quotes if a shell would change it.
fn shown(word: &str) -> String {
    let word = if word.contains("://") || word.contains('@') {
        haul_net::redacted_text(word)
    } else {
        word.to_owned()
    };
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:=,%@~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (command, rest) = words.split_first().unwrap();
        ForeignLine::new(command, rest).hint().unwrap_or_default()
    }

    #[test]
    fn the_answer_can_be_run_as_it_is() {
        for (typed, answer) in [
            ("mv f s3://b/k", "to move: haul put f s3://b/k && rm f"),
            (
                "mv s3://b/k s3://c/k",
                "to move: haul cp s3://b/k s3://c/k && haul rm s3://b/k",
            ),
            (
                "mv -r s3://b/p/ /no/such",
                "to move: haul get -r s3://b/p/ -d /no/such && haul rm -r s3://b/p/",
            ),
            ("copy s3://b/k .", "to copy: haul get s3://b/k"),
            ("copy s3://b/k f", "to copy: haul get s3://b/k -o f"),
            ("copy s3://b/k dir/", "to copy: haul get s3://b/k -d dir/"),
            ("copy a b s3://b/", "to copy: haul put a b s3://b/"),
            ("copy s3://b/*.txt .", "to copy: haul get 's3://b/*.txt'"),
            ("cat s3://b/k", "to print it: haul get -o - s3://b/k"),
            (
                "curl http://me:pw@h/f?token=x",
                "to download: haul get 'http://***@h/f?token=***'",
            ),
            // A flag may be for a value that is a secret.
            ("curl -u me:pw http://h/f", "to download: haul get URL"),
            ("upload f", "to upload: haul put f"),
            ("bogus f", ""),
        ] {
            let found = hint(typed);
            assert_eq!(found, answer, "{typed}");
        }
    }

    #[test]
    fn flags_before_the_command_are_moved_behind_it() {
        let moved = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let is_command = |word: &str| ["ls", "get"].contains(&word);
            moved_flags_hint(&words, is_command, "--flag")
        };
        let prefix = "flags follow the command: ";
        for (typed, answer) in [
            (
                "--endpoint-url http://x ls s3://b",
                "haul ls --endpoint-url http://x s3://b",
            ),
            (
                "--endpoint-url=http://me:pw@x s3 ls",
                "haul ls '--endpoint-url=http://***@x'",
            ),
            ("--profile p ls -r s3://b", "haul ls --profile p ..."),
            ("-u me:pw get http://h/f", "haul COMMAND --flag ..."),
            ("--region eu", "haul COMMAND --flag ..."),
        ] {
            assert_eq!(moved(typed), format!("{prefix}{answer}"), "{typed}");
        }
    }
}
