//! What is wrong with a file, told with its line and its key.

use super::*;

#[test]
fn certificates_of_one_tunnel_want_tls_there() {
    let place = SettingsFixture::new();
    let of = |top: &str, tls: &str| {
        format!(
            "proxy = \"a:1\"\n{top}\n[[tunnel]]\nlisten = \"1\"\ntarget = \"t:1\"\ninsecure = true\n{tls}\n"
        )
    };
    for (top, tls) in [("", ""), ("", "target-tls = false")] {
        let told = place.wrong(&of(top, tls));
        assert!(told.starts_with("[DIR]/t.toml:6: insecure: there is no TLS"));
    }
    let told = place.wrong(&of("target-tls = true", "target-tls = false"));
    assert!(told.starts_with("[DIR]/t.toml:6: insecure: there is no TLS"));
    // Another tunnel's TLS is none of its own.
    let other = "[[tunnel]]\nlisten = \"2\"\ntarget = \"t:1\"\ntarget-tls = true";
    assert!(place.resolve("", &of("", other)).is_err());
    assert!(place.resolve("", &of("", "target-tls = true")).is_ok());
    assert!(place.resolve("", &of("target-tls = true", "")).is_ok());
    assert!(place.resolve("--target-tls", &of("", "")).is_ok());
}

/// Files that cannot be read as they stand.
const MISTAKES: &[&str] = &[
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
    "",
];

/// Files from which there is no way, beside a tunnel.
const WAYS: &[&str] = &[
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
    "proxy = \"a:1\"\n[[tunnel]]\nlisten = \"127.0.0.1:1\"\nkind = \"http\"",
    "proxy = \"a:1\"\n[[tunnel]]\nlisten = \"*:1\"\nkind = \"http\"",
    "proxy = \"a:1,b:1,c:1,d:1,e:1\"\n",
    "proxy = [\"a:1,b:1,c:1,d:1,e:1\", \"f:1,g:1,h:1,i:1\"]\n",
];

#[test]
fn every_mistake_in_a_file_is_told_with_its_line() {
    let place = SettingsFixture::new();
    let tunnel = "[[tunnel]]\nlisten = \"1\"\ntarget = \"t:1\"\n";
    let of = |text: &str| place.wrong(text);
    let mut told = Vec::new();
    for text in MISTAKES {
        told.push(format!("{text}\n--> {}", of(text)));
    }
    for text in WAYS {
        match place.resolve("", &format!("{text}\n{tunnel}")) {
            Ok(_) => told.push(format!("{text}\n--> it is taken")),
            Err(_) => told.push(format!("{text}\n--> {}", of(&format!("{text}\n{tunnel}")))),
        }
    }
    let told = told.join("\n\n");
    for answer in told
        .lines()
        .filter(|line| line.starts_with("-->") || line.starts_with("hint"))
    {
        assert!(!answer.contains("s3cret"), "{answer}");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_file_has_a_limit_and_must_be_there() {
    let place = SettingsFixture::new();
    let large = format!("# {}", "x".repeat(1 << 20));
    assert_eq!(
        place.wrong(&large),
        "--config: [DIR]/t.toml is larger than 1024 KiB"
    );
    let missing = TunnelConfigFile::read(Path::new("/nowhere/t.toml")).unwrap_err();
    assert_eq!(missing.to_string(), "--config: cannot read /nowhere/t.toml");
    std::fs::write(place.0.path().join("b"), b"proxy = \"\xff\"").unwrap();
    let binary = TunnelConfigFile::read(&place.0.path().join("b")).unwrap_err();
    assert!(binary.to_string().ends_with("is not UTF-8"));
}

#[test]
fn a_file_with_a_password_that_all_can_read_is_told_of() {
    use std::os::unix::fs::PermissionsExt;
    let place = SettingsFixture::new();
    let tunnel = "[[tunnel]]\nlisten = \"1\"\ntarget = \"t:1\"\n";
    let warned = |text: &str, mode: u32| {
        let path = place.write("t.toml", "");
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        let settings = place.resolve("", &format!("{text}\n{tunnel}")).unwrap();
        settings
            .warnings
            .iter()
            .any(|warning| warning.contains("can be read by every user"))
    };
    assert!(!warned("proxy = \"a:1\"", 0o644));
    assert!(warned("proxy = \"http://me:pw@a:1\"", 0o644));
    assert!(!warned("proxy = \"http://me:pw@a:1\"", 0o640));
    assert!(warned("proxy = \"a:1\"\nuser = \"me:pw\"", 0o604));
    assert!(warned(
        "proxy = \"b\"\n[proxies.b]\nurl = \"a:1\"\nuser = \"me:pw\"",
        0o644
    ));
    assert!(warned("proxy = \"a:1\"\nheaders = \"X-Token: t\"", 0o644));
}
