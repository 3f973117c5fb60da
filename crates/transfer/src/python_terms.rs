//! Messages and hints for users of the Python package: its arguments in place of the command's flags.
//!
//! Messages are written for the command. This is the one place that knows both forms, and a test finds flags that it does not know.

use std::borrow::Cow;

/// What the command says, and what the Python package says. Each is long enough to be in no name of a file.
const TERMS: &[(&str, &str)] = &[
    // Credentials.
    (
        "with -u USER, --bearer or --netrc",
        "with auth=(USER, PASSWORD) or auth=TOKEN",
    ),
    (
        "with -u USER:PASSWORD or --netrc",
        "with auth=(USER, PASSWORD)",
    ),
    (
        "in --proxy http://user:password@host:port",
        "in proxy=\"http://user:password@host:port\"",
    ),
    ("from --proxy", "from proxy="),
    ("with --profile", "with s3={\"profile\": NAME}"),
    (
        "with --no-sign-request",
        "with s3={\"no_sign_request\": True}",
    ),
    ("(--request-payer)", "(s3={\"request_payer\": True})"),
    // Names of files.
    ("-o FILE writes to a file", "get writes to a file"),
    (
        "-o FILE writes it to a file; | cat shows it anyway",
        "get writes it to a file",
    ),
    ("download it alone, with -o FILE", "give it another path"),
    ("choose another name with -o", "choose another path"),
    ("choose a shorter one with -o", "choose a shorter path"),
    ("with -o or -d", "with path or dir"),
    ("haul get -o - '", "get('"),
    (
        "' | haul get -i - downloads its files; -o FILE saves the page",
        "', \"list.jsonl\") saves a list of its files, which batch takes; with a path get saves the page",
    ),
    (
        "--overwrite replaces it, --update does so only if the origin has a newer one",
        "overwrite=True replaces it",
    ),
    (
        "only --overwrite replaces it",
        "only overwrite=True replaces it",
    ),
    ("another URL of this command has", "another call or row has"),
    // The rest.
    ("--robots-tag ignore", "robots_tag=\"ignore\""),
    (", --decode decodes it", ""),
    (
        "without --decode it is stored as sent",
        "it cannot be decoded",
    ),
    ("run the same command again", "make the same call again"),
    (
        "the same command resumes the download",
        "the same call resumes the download",
    ),
    (
        "the same command sends what is missing",
        "the same call sends what is missing",
    ),
];

/// A message with the arguments of the Python package in place of the command's flags.
#[must_use]
pub fn python_terms(text: &str) -> Cow<'_, str> {
    let mut text = match text.strip_prefix("-d ") {
        Some(rest) => Cow::Owned(format!("dir={rest}")),
        None => Cow::Borrowed(text),
    };
    for (command, python) in TERMS {
        if text.contains(command) {
            text = text.replace(command, python).into();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where messages and hints with flags are written.
    const SOURCES: &[&str] = &[
        include_str!("hint.rs"),
        include_str!("error.rs"),
        include_str!("put/error.rs"),
        include_str!("batch/existing_file.rs"),
        include_str!("get/sequential.rs"),
    ];

    /// Of other programs, and of other commands than get and put.
    const OTHERS: &[&str] = &[
        "ulimit -f",
        "haul put --abort",
        "haul serve runs without -w",
        "haul serve does with -w",
    ];

    /// The texts in quotation marks of a source, without its tests.
    fn literals(source: &str) -> Vec<String> {
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = source
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let source = lines.collect::<Vec<_>>().join("\n").replace("\\\n", "");
        source
            .split('"')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    }

    fn has_flag(text: &str) -> bool {
        let text = OTHERS
            .iter()
            .fold(text.to_owned(), |text, other| text.replace(other, ""));
        text.split([' ', '(', '\'']).any(|word| {
            let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
            letters
                .next()
                .is_some_and(|first| first == '-' || first.is_ascii_alphabetic())
        })
    }

    #[test]
    fn every_flag_of_a_message_has_a_form_in_python() {
        let texts: Vec<_> = SOURCES.iter().flat_map(|source| literals(source)).collect();
        let with_flags = texts.iter().filter(|text| has_flag(text));
        assert!(with_flags.clone().count() > 15);
        for text in with_flags {
            assert!(!has_flag(&python_terms(text)), "{text}");
        }
    }

    #[test]
    fn every_term_is_in_a_message() {
        let texts: Vec<_> = SOURCES.iter().flat_map(|source| literals(source)).collect();
        for (command, _) in TERMS
            .iter()
            .filter(|(command, _)| *command != "from --proxy")
        {
            assert!(texts.iter().any(|text| text.contains(command)), "{command}");
        }
    }

    #[test]
    fn terms_are_replaced_as_a_whole() {
        let folder = "haul get -o - 'http://h/d/?format=jsonl' | haul get -i - downloads its files; -o FILE saves the page";
        assert_eq!(
            python_terms(folder),
            "get('http://h/d/?format=jsonl', \"list.jsonl\") saves a list of its files, which batch takes; with a path get saves the page"
        );
        assert_eq!(
            python_terms("-d a/b puts the file into it"),
            "dir=a/b puts the file into it"
        );
        assert_eq!(python_terms("check the URL"), "check the URL");
    }
}
