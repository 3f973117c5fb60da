//! Password prompts on a terminal: typed characters are not shown, and however a prompt ends, the terminal is restored.

use std::process::Stdio;

use haul_lab::{OriginResource, within};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::cli::harness::{HaulDirectory, LIMIT, content, start_origin};

/// `me:s3cret`, as Basic sends it.
const BASIC: &str = "Basic bWU6czNjcmV0";

const QUESTION: &str = "Password for me: ";

/// A line of the shell's on a terminal of its own, that of script(1).
struct Terminal {
    script: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    shown: Vec<u8>,
}

impl Terminal {
    fn start(haul: &HaulDirectory, line: &str) -> Self {
        let mut command = haul.terminal_command(line);
        let mut script = command.stdin(Stdio::piped()).spawn().unwrap();
        Self {
            keyboard: script.stdin.take().unwrap(),
            screen: script.stdout.take().unwrap(),
            script,
            shown: Vec::new(),
        }
    }

    async fn prompt_of(&mut self) {
        self.wait_for_prompt(QUESTION).await;
    }

    /// Reads until the screen ends with this, and what is typed is no longer shown.
    async fn wait_for_prompt(&mut self, question: &str) {
        let shown = async {
            while !self.shown.ends_with(question.as_bytes()) {
                let read = self.screen.read_buf(&mut self.shown).await.unwrap();
                assert!(read > 0, "{}", String::from_utf8_lossy(&self.shown));
            }
            while self.echoes() {
                tokio::task::yield_now().await;
            }
        };
        within(LIMIT, shown).await;
    }

    /// Whether it shows what is typed.
    fn echoes(&self) -> bool {
        let shell = child(self.script.id().unwrap());
        let terminal = std::fs::File::open(format!("/proc/{shell}/fd/0")).unwrap();
        let settings = rustix::termios::tcgetattr(terminal).unwrap();
        settings
            .local_modes
            .contains(rustix::termios::LocalModes::ECHO)
    }

    async fn type_text(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).await.unwrap();
    }

    /// What was on the screen by the time everything ended.
    async fn end(mut self) -> String {
        let rest = async {
            self.screen.read_to_end(&mut self.shown).await.unwrap();
            self.script.wait().await.unwrap()
        };
        within(LIMIT, rest).await;
        String::from_utf8_lossy(&self.shown).into_owned()
    }
}

/// The only child of a process.
fn child(of: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
    let child = children.split_whitespace().next().unwrap();
    child.parse().unwrap()
}

/// A shell command that prompts, then prints the exit code and the settings of the terminal.
fn line(url: &str, before: &str, after: &str) -> String {
    let haul = env!("CARGO_BIN_EXE_haul");
    format!("{before} {haul} get -q --overwrite -u me {url}; {after} echo code $?; stty -a")
}

#[track_caller]
fn assert_restored(shown: &str, code: i32) {
    assert!(shown.contains(&format!("code {code}")), "{shown}");
    for setting in [" echo ", " icanon ", " isig ", "quit = ^\\"] {
        assert!(
            shown.replace(['\r', '\n'], " ").contains(setting),
            "{setting}: {shown}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_password_is_prompted_for_and_not_shown() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let mut terminal = Terminal::start(&haul, &line(&origin.url("/f.bin"), "", ""));
    terminal.prompt_of().await;
    // Lines are edited as everywhere: a rubbed out letter is none of the password.
    terminal.type_text("s3crex\x7ft\n").await;
    let shown = terminal.end().await;
    assert_restored(&shown, 0);
    assert_eq!(origin.requests()[0].header("authorization"), Some(BASIC));
    assert!(!shown.contains("s3cre"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_password_of_a_user_in_a_url_is_prompted_for_once() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let urls = ["/f.bin", "/f.bin?2", "/missing"]
        .map(|path| origin.url(path))
        .join(" ")
        .replace("http://", "http://me@");
    let line = format!("{} get -d d {urls}", env!("CARGO_BIN_EXE_haul"));
    let mut terminal = Terminal::start(&haul, &line);
    terminal
        .wait_for_prompt(&format!("Password for me at {}: ", origin.address()))
        .await;
    terminal.type_text("s3cret\n").await;
    let shown = terminal.end().await;
    assert_eq!(shown.matches("Password for").count(), 1, "{shown}");
    let requests = origin.requests();
    assert!(requests.len() >= 3, "{shown}");
    for request in requests {
        assert_eq!(request.header("authorization"), Some(BASIC), "{shown}");
    }
}

/// Standard input carries the tunnel's bytes, so the prompt reads from the terminal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_password_of_a_tunnels_proxy_is_prompted_for() {
    let target = start_origin(OriginResource::new(content())).await;
    let required_login = haul_lab::faults::RequiredLogin::basic("me", "s3cret");
    let proxy = haul_lab::HttpProxy::builder()
        .route("files.test:80", target.address())
        .require_login(required_login)
        .start()
        .await;
    let haul = HaulDirectory::new();
    let line = format!(
        "printf 'HEAD /f.bin HTTP/1.1\\r\\nHost: files.test\\r\\nConnection: close\\r\\n\\r\\n' | {} tunnel -p {} -U me --stdio files.test:80; echo code $?",
        env!("CARGO_BIN_EXE_haul"),
        proxy.address()
    );
    let mut terminal = Terminal::start(&haul, &line);
    terminal
        .wait_for_prompt(&format!("Password for me at {}: ", proxy.address()))
        .await;
    terminal.type_text("s3cret\n").await;
    let shown = terminal.end().await;
    assert!(
        shown.contains("HTTP/1.1 200") && shown.contains("code 0"),
        "{shown}"
    );
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_prompts_once_for_the_password_of_its_proxy() {
    let origin = start_origin(OriginResource::new(content())).await;
    let required = haul_lab::faults::RequiredLogin::basic("me", "s3cret");
    let proxy = haul_lab::HttpProxy::builder()
        .require_login(required)
        .start()
        .await;
    let (haul, at) = (env!("CARGO_BIN_EXE_haul"), proxy.address());
    let urls = format!("{} {}", origin.url("/f.bin"), origin.url("/f.bin?2"));
    for flags in [format!("-p {at} -U me"), format!("-p http://me@{at}")] {
        let directory = HaulDirectory::new();
        let line = format!(
            "{haul} get {flags} -o a {}; echo code $?",
            origin.url("/f.bin")
        );
        let mut terminal = Terminal::start(&directory, &line);
        terminal
            .wait_for_prompt(&format!("Password for me at {at}: "))
            .await;
        terminal.type_text("s3cret\n").await;
        let shown = terminal.end().await;
        assert!(shown.contains("code 0"), "{shown}");
        assert_eq!(shown.matches("Password for").count(), 1, "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    // No prompt for a proxy of the environment that no URL uses.
    let directory = HaulDirectory::new();
    let line = format!(
        "http_proxy=http://me@{at} no_proxy=127.0.0.1 {haul} get -d d {urls}; echo code $?"
    );
    let shown = Terminal::start(&directory, &line).end().await;
    assert!(!shown.contains("Password for"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_at_a_prompt_restore_the_terminal_and_end_with_130() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let line = line(&origin.url("/f.bin"), "trap : INT;", "");
    let mut terminal = Terminal::start(&haul, &line);
    terminal.prompt_of().await;
    terminal.type_text("s3\x03").await;
    let shown = terminal.end().await;
    assert_restored(&shown, 130);
    assert!(
        shown.contains(&format!("{QUESTION}\r\nhaul: ")),
        "a line of its own: {shown}"
    );
    for signal in [Signal::TERM, Signal::HUP] {
        let mut terminal = Terminal::start(&haul, &line);
        terminal.prompt_of().await;
        let asking = child(child(terminal.script.id().unwrap()));
        let asking = Pid::from_raw(i32::try_from(asking).unwrap()).unwrap();
        kill_process(asking, signal).unwrap();
        assert_restored(&terminal.end().await, 130);
    }
    assert!(origin.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_input_is_no_password() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    let mut terminal = Terminal::start(&haul, &line(&origin.url("/f.bin"), "", ""));
    terminal.prompt_of().await;
    terminal.type_text("\x04").await;
    let shown = terminal.end().await;
    assert_restored(&shown, 2);
    assert!(
        shown.contains("\r\nhaul: ") && shown.contains("no password was given for me"),
        "{shown}"
    );
    assert!(origin.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_was_stopped_is_shown_again() {
    let origin = start_origin(OriginResource::new(content())).await;
    let haul = HaulDirectory::new();
    // A shell with jobs; as an interactive one, it puts the terminal right in between.
    let line = line(
        &origin.url("/f.bin"),
        "set -m;",
        "stty sane; echo between; fg;",
    );
    let mut terminal = Terminal::start(&haul, &line);
    terminal.prompt_of().await;
    // What ends other programs is a letter like any other here.
    terminal.type_text("\x1c\x15s3\x1a").await;
    terminal.shown.clear();
    terminal.prompt_of().await;
    terminal.type_text("s3cret\n").await;
    let shown = terminal.end().await;
    assert_restored(&shown, 0);
    assert!(shown.contains("between"), "{shown}");
    assert_eq!(origin.requests()[0].header("authorization"), Some(BASIC));
}
