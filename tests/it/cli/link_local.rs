//! Link-local IPv6 addresses with a zone: in URLs, lists, targets, listeners, proxies and addresses.
//!
//! A namespace of the test's own has `fe80::1` at its loopback interface. Where the system allows no namespaces, the tests are skipped.

use std::io::Write as _;

use crate::cli::harness::HaulDirectory;

/// Runs a script in a network of its own, whose interface `lo` has the address fe80::1. In it `$haul` is the binary, and servers that the
/// script starts end with it. `None` where that is not possible.
async fn in_own_network(haul: &HaulDirectory, script: &str) -> Option<String> {
    let setup = "ip link set lo up && ip -6 address add fe80::1/64 dev lo nodad";
    let probe = haul.shell(&format!("unshare -rn sh -c '{setup}'")).await;
    if probe.code != 0 {
        let reason = probe.stderr.lines().next().unwrap_or_default().to_owned();
        let _ = writeln!(std::io::stderr(), "skipped: no network namespace: {reason}");
        return None;
    }
    let binary = env!("CARGO_BIN_EXE_haul");
    haul.write(
        "script",
        format!("set -e\n{setup}\nhaul={binary}\n{script}"),
    );
    // The processes end with the namespace's first one.
    let output = haul.shell("unshare -rnpf --kill-child sh script").await;
    output.assert_code(0);
    Some(output.stdout + &output.stderr)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_downloaded_and_uploaded_by_an_address_with_a_zone() {
    let haul = HaulDirectory::new();
    std::fs::create_dir_all(haul.path("served/folder")).unwrap();
    haul.write("served/f", "hello");
    haul.write("served/folder/g", "hello");
    haul.write(
        "list",
        "http://[fe80::1%lo]:8090/f\nhttp://[fe80::1%25lo]:8090/folder/g\n",
    );
    let script = "
        $haul serve served --writable -l '[fe80::1%lo]:8090' &
        get=\"$haul get --progress none\"
        $get -o one 'http://[fe80::1%lo]:8090/f'
        $get -o two 'http://[fe80::1%25lo]:8090/f'
        $get -o three 'http://[fe80::1%1]:8090/f'
        $get -o four --resolve 'x.test:8090:[fe80::1%lo]' http://x.test:8090/f
        # The redirect of a folder names no zone.
        $get -o five 'http://[fe80::1%lo]:8090/folder'
        $get -i list -d files --layout path --manifest manifest.csv
        $haul get -i list -d files --layout path --manifest manifest.csv
        $haul put --progress none one 'http://[fe80::1%lo]:8090/new'
        $get -o six 'http://[fe80::1%lo]:8090/new'";
    let Some(output) = in_own_network(&haul, script).await else {
        return;
    };
    // The address is printed in a form that haul takes.
    assert!(
        output.contains("listening on http://[fe80::1%25lo]:8090/"),
        "{output}"
    );
    assert!(output.contains("2 done before"), "{output}");
    assert!(haul.path("five").exists());
    for name in ["one", "two", "three", "four", "six"] {
        assert_eq!(std::fs::read(haul.path(name)).unwrap(), b"hello", "{name}");
    }
    let manifest = std::fs::read_to_string(haul.path("manifest.csv")).unwrap();
    assert!(
        manifest.contains(",http://[fe80::1%25lo]:8090/f,"),
        "{manifest}"
    );
    assert_eq!(manifest.matches("%25lo").count(), 2, "{manifest}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_listeners_and_proxies_may_have_a_zone() {
    let haul = HaulDirectory::new();
    std::fs::create_dir(haul.path("served")).unwrap();
    haul.write("served/f", "hello");
    let script = "
        $haul serve served -l '[fe80::1%lo]:8090' -q &
        $haul tunnel -p '' '[fe80::1%lo]:8091:[fe80::1%lo]:8090' --http '[fe80::1%lo]:8092' --socks '[fe80::1%lo]:8093' &
        get=\"$haul get --progress none\"
        $get -o one 'http://[fe80::1%lo]:8091/f'
        $get -o two -p 'http://[fe80::1%25lo]:8092' --retries 0 http://localhost:8094/f || true
        $get -o three -p 'socks5://[fe80::1%lo]:8091' --retries 0 http://localhost:8094/f || true
        $haul tunnel --check -p '' '0:[fe80::1%25lo]:8090'";
    let Some(output) = in_own_network(&haul, script).await else {
        return;
    };
    assert_eq!(std::fs::read(haul.path("one")).unwrap(), b"hello");
    assert!(
        output.contains("[fe80::1%1]:8091 -> [fe80::1%lo]:8090"),
        "{output}"
    );
    // Both proxies were reached: one says that the target is not, the other is none.
    assert!(output.contains("answered 502"), "{output}");
    assert!(
        output.contains("the proxy [fe80::1%lo]:8091 does not speak SOCKS5"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_without_its_zone_and_one_without_an_interface_are_explained() {
    let haul = HaulDirectory::new();
    haul.get("http://[fe80::1%nosuch0]/f", &[])
        .await
        .assert_code(2)
        .assert_stderr_has("this machine has no network interface \"nosuch0\"");
    // Not repeated: it cannot work later.
    haul.get("http://[fe80::1]:9/f", &[])
        .await
        .assert_code(5)
        .assert_stderr_has("hint: add the interface that leads to this link-local address");
}
