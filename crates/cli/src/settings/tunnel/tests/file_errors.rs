//! Errors of files name the line and the key.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::config_file::ConfigFile;
use super::*;

#[test]
fn certificates_of_one_tunnel_need_its_own_tls() {
    let fixture = SettingsFixture::new();
    let file = |top: &str, tls: &str| {
        format!(
            "proxy = \"a:1\"\n{top}\n[[tunnel]]\nlisten = \"1\"\ntarget = \"t:1\"\ninsecure = true\n{tls}\n"
        )
    };
    for (top, tls) in [
        ("", ""),
        ("", "target-tls = false"),
        ("target-tls = true", "target-tls = false"),
    ] {
        let error = fixture.error(&file(top, tls));
        assert!(error.starts_with("[DIR]/t.toml:6: insecure: there is no TLS"));
    }
    // The TLS of another tunnel is not its own.
    let other = "[[tunnel]]\nlisten = \"2\"\ntarget = \"t:1\"\ntarget-tls = true";
    assert!(fixture.resolve("", &file("", other)).is_err());
    let own = file("", "target-tls = true");
    assert!(fixture.resolve("", &own).is_ok());
    assert!(fixture.resolve("", &file("target-tls = true", "")).is_ok());
    assert!(fixture.resolve("--target-tls", &file("", "")).is_ok());
}

/// Files that are wrong in themselves.
const WRONG_FILES: &[&str] = &[
    "proxy = \n",
    "proxy \"a:1\"",
    "proxy = \"s3cret",
    "proxy = \"a:1\"\nproxy = \"b:1\"",
    "\nprosy = \"a:1\"",
    "zzz = 1",
    "socks = \"1080\"",
    "listen = \"1\"\ntarget = \"t:1\"",
    "password = \"s3cret\"",
    "max_connections = 5",
    "[[tunnel]]\nlisten = \"1\"\nhttp = true",
    "[proxies.a]\nurl = \"https://x\"\nproxy-cacert = \"y\"",
    "[proxies.a]\nurl = \"http://x\"\ncacert = \"y\"",
    "[proxies.a]\nurl = \"socks5://x\"\nheaders = [\n\"X: y\"]",
    "proxy = 5",
    "proxy = [\"a:1\", \"ftp://me:s3cret@p\"]",
    "proxy = \"http://me:s3,cret@p:1\"",
    "proxy = [\"a:1\", \"\"]",
    "proxy = []",
    "proxy = [\"a:1\", []]",
    "proxy = \"crop\"\n[proxies.corp]\nurl = \"a:1\"",
    "proxy = \"http://a:1/x\"",
    "no-proxy = [\".lan\",\n\"1.2.3.4/99\"]",
    "no-proxy = \"[::1\"",
    "direct-fallback = \"yes\"",
    "idle-timeout = \"5x\"",
    "keepalive = \"10h\"",
    "warm = -1",
    "user = \":s3cret\"",
    "user = \"a\"\nproxy-user = \"b\"",
    "headers = [\"X-A: b\", \"s3cret\"]",
    "resolve = \"nowhere\"",
    "ipv4 = true\nipv6 = true",
    "log-format = \"xml\"",
    "admin = \"::1\"",
    "max-connections = 0",
    "[[tunnel]]\ntarget = \"t:1\"",
    "[[tunnel]]\nlisten = \"1\"",
    "[[tunnel]]\nlisten = \"1\"\ntarget = \"t\"",
    "[[tunnel]]\nlisten = \"1\"\nkind = \"ftp\"",
    "[[tunnel]]\nlisten = \"1\"\nkind = \"http\"\ntarget = \"t:1\"",
    "[[tunnel]]\nlistn = \"1\"\nkind = \"http\"",
    "[tunnel]\nlisten = \"1\"\nmax-connections = 5",
    "tunnel = 5",
    "[proxies.a]\nuser = \"x:y\"",
    "[proxies.a]\nurl = \"ftp://x\"",
    "[proxies.a]\nurl = \"x:1\"\nurll = \"y\"",
    "proxies = \"x\"",
    "[proxies.a]\nurl = \"\"",
    "cacert = \"x\"\ninsecure = true",
    "[[tunnel]]\nlisten = \"1\"\nkind = \"http\"\nproxy = \"corp\"",
    "threads = 1.5",
    "",
];

/// Options with which a tunnel cannot be planned.
const WRONG_WITH_A_TUNNEL: &[&str] = &[
    "",
    "proxy = \"a:1\"\ncacert = \"nowhere.pem\"",
    "proxy = \"a:1\"\nproxy-insecure = true",
    "proxy = \"socks5://a:1\"\nheaders = \"X: y\"",
    "proxy = \"a:1\"\nheaders = \"X:\"",
    "proxy = \"https://a:1\"\nproxy-cacert = \"nowhere.pem\"",
    "proxy = \"https://a:1\"\nproxy-key = \"nowhere.pem\"",
    "proxy = \"a:1\"\npassword-file = \"nowhere\"",
    "proxy = \"a:1\"\nuser = \"me\"",
    "proxy = \"a:1\"\ntarget-tls = true\ncacert = \"t.toml\"",
    "proxy = \"a:1\"\nadmin = \"systemd\"",
    "proxy = \"a:1\"\nuser = \"me:s3cret\"\npassword-file = \"t.toml\"",
    "proxy = \"a:1\"\n\nnetrc-file = \"nowhere\"",
    "proxy = \"b\"\n[proxies.b]\nurl = \"https://b\"\ncert = \"t.toml\"",
    "proxy = \"https://b\"\nproxy-cacert = \"t.toml\"",
    "proxy = [\"a:1,b:1,c:1,d:1,e:1\", \"f:1,g:1,h:1,i:1\"]\n",
];

#[test]
fn every_error_of_a_file_names_its_line() {
    let fixture = SettingsFixture::new();
    let tunnel = "[[tunnel]]\nlisten = \"1\"\ntarget = \"t:1\"\n";
    let mut errors = Vec::new();
    for text in WRONG_FILES {
        errors.push(format!("{text}\n--> {}", fixture.error(text)));
    }
    for text in WRONG_WITH_A_TUNNEL {
        let error = fixture.error(&format!("{text}\n{tunnel}"));
        errors.push(format!("{text}\n--> {error}"));
    }
    let errors = errors.join("\n\n");
    let is_message = |line: &&str| line.starts_with("-->") || line.starts_with("hint");
    for line in errors.lines().filter(is_message) {
        assert!(!line.contains("s3cret"), "{line}");
    }
    insta::assert_snapshot!(errors);
}

#[test]
fn a_file_must_exist_have_a_limited_size_and_be_utf_8() {
    let fixture = SettingsFixture::new();
    let large = format!("# {}", "x".repeat(1 << 20));
    assert_eq!(
        fixture.error(&large),
        "--config: [DIR]/t.toml is larger than 1024 KiB"
    );
    let missing = ConfigFile::read(Path::new("/nowhere/t.toml")).unwrap_err();
    assert_eq!(missing.to_string(), "--config: cannot read /nowhere/t.toml");
    let path = fixture.0.path().join("b");
    std::fs::write(&path, b"proxy = \"\xff\"").unwrap();
    let binary = ConfigFile::read(&path).unwrap_err();
    assert!(binary.to_string().ends_with("is not UTF-8"));
}

#[test]
fn a_world_readable_file_with_a_password_is_a_warning() {
    let fixture = SettingsFixture::new();
    let tunnel = "[[tunnel]]\nlisten = \"1\"\ntarget = \"t:1\"\n";
    let warns = |text: &str, mode: u32| {
        let path = fixture.write("t.toml", "");
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        let settings = fixture.resolve("", &format!("{text}\n{tunnel}")).unwrap();
        let mut warnings = settings.warnings.iter();
        warnings.any(|warning| warning.contains("can be read by every user"))
    };
    assert!(!warns("proxy = \"a:1\"", 0o644));
    assert!(warns("proxy = \"http://me:pw@a:1\"", 0o644));
    assert!(!warns("proxy = \"http://me:pw@a:1\"", 0o640));
    assert!(warns("proxy = \"a:1\"\nuser = \"me:pw\"", 0o604));
    let named = "proxy = \"b\"\n[proxies.b]\nurl = \"a:1\"\nuser = \"me:pw\"";
    assert!(warns(named, 0o644));
    assert!(warns("proxy = \"a:1\"\nheaders = \"X-Token: t\"", 0o644));
}
