//! What cannot be run, written or printed.

use super::set;
use crate::cli::harness::HaulDirectory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_in_a_file_are_told_with_their_line() {
    let haul = HaulDirectory::new();
    let good = "title = \"t\"\nworkload = \"requests\"\n[factors]\nfiles = \"2 x 1k\"\n";
    for (text, message) in [
        (
            format!("{good}colour = \"red\"\n"),
            "bad.toml, line 5: the workload requests has no factor \"colour\"",
        ),
        (
            format!("{good}concurrency = [\n\"1\",\n\"many\"]\n"),
            "bad.toml, line 7: concurrency has no level \"many\"",
        ),
        (
            good.replace("requests", "dances"),
            "bad.toml, line 2: unknown variant `dances`, expected `requests` or `transfer`",
        ),
        (format!("{good}[baseline\n"), "bad.toml, line 5: "),
        (String::new(), "bad.toml, line 1: "),
    ] {
        haul.write("bad.toml", text);
        let output = haul.run(&["bench", "run", "bad.toml"]).await;
        output.assert_code(2).assert_stderr_has(message);
        output.assert_stderr_has("`haul bench show quirks` prints an example");
    }
    haul.run(&["bench", "run", "missing.toml"])
        .await
        .assert_code(2)
        .assert_stderr_has("cannot read missing.toml");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_mean_nothing_are_refused_before_anything_runs() {
    let haul = HaulDirectory::new();
    haul.write("list", "http://127.0.0.1:1/a\n\n# a comment\nno url\n");
    haul.write("empty", "# nothing\n");
    haul.write("long", "#".repeat((1 << 20) + 1));
    for (args, message) in [
        (&["quirks", "--set", "nonsense"][..], "is not FACTOR=LEVEL"),
        (&["quirks", "--set", "colour=red"], "no factor \"colour\""),
        (
            &["quirks", "--set", "protocol=gopher"],
            "no level \"gopher\"",
        ),
        (&["quirks", "--set", "files="], "no level \"\""),
        (&["all", "--set", "colour=red"], "no factor \"colour\""),
        (&["sweep", "-i", "list"], "list:4: "),
        (&["sweep", "-i", "empty"], "empty has no URL"),
        (
            &["quirks", "http://127.0.0.1:1/a", "https://127.0.0.1:1/b"],
            "several schemes",
        ),
        (&["tunnel", "--proxy", "nowhere"], "is not HOST:PORT"),
        (
            &["quirks", "--server-pid", "4194305"],
            "--server-pid 4194305: there is no such process",
        ),
        (
            &["accelerate", "--link", "kernel:100ms"],
            "--link: link has no level \"kernel:100ms\": loopback; a round trip as 20ms; ",
        ),
        (
            &["all", "--link", "kernel:1ms,1M", "--link", "kernel:1ms,1M"],
            "--link: \"kernel:1ms,1M\" is there twice",
        ),
        (
            &["quirks", "--link", "20ms", "--set", "link=1ms"],
            "--link and --set link= say the same",
        ),
        (
            &["accelerate", "--link", "20ms", "http://127.0.0.1:1/a"],
            "--link works with servers of haul",
        ),
        (
            &["tunnel", "--link", "kernel:1ms,1M", "-p", "127.0.0.1:1"],
            "a client on a kernel link cannot reach your proxy",
        ),
        (&["run", "long"], "cannot read long: it is longer than"),
        (&["quirks", "--time", "soon"], "--time"),
        (&["quirks", "ftp://127.0.0.1/a"], "ftp"),
        (&["quirks", "--cacert", "missing.pem"], "missing.pem"),
    ] {
        let output = haul.run(&[&["bench"], args].concat()).await;
        output.assert_code(2).assert_stderr_has(message);
        assert_eq!(output.stdout, "", "{args:?}");
    }
    for list in ["missing", "long"] {
        haul.run(&["bench", "sweep", "-i", list])
            .await
            .assert_code(4)
            .assert_stderr_has(&format!("cannot read {list}"));
    }
}

/// The commas of a kernel link separate levels there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kernel_link_that_is_set_as_a_level_has_a_hint() {
    let haul = HaulDirectory::new();
    haul.run(&["bench", "store", "--set", "link=kernel:1ms,1M"])
        .await
        .assert_code(2)
        .assert_stderr_has("or kernel:RTT,RATE[,LOSS], as kernel:100ms,25M")
        .assert_stderr_has("hint: give a kernel link, which has commas, with --link");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_cannot_be_written_is_noticed_before_anything_is_measured() {
    let haul = HaulDirectory::new();
    haul.write("file", "");
    // The second is there, and takes no files.
    for place in ["file/out", "/proc/self/fdinfo"] {
        let output = haul.run(&["bench", "all", "--report", place]).await;
        output
            .assert_code(4)
            .assert_stderr_has(&format!("cannot write into {place}"));
        assert!(!output.stderr.contains("accelerate"), "{output:#?}");
        assert_eq!(output.stdout, "");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_behind_standard_output_is_an_error_and_the_report_is_there() {
    let haul = HaulDirectory::new();
    let flags = set(&[
        "files=2 x 1k",
        "protocol=http",
        "concurrency=1",
        "connections=each",
    ]);
    let args = [&["bench", "quirks", "--report", "out"], &*flags].concat();
    let output = haul.run_redirected("> /dev/full", &args).await;
    output.assert_code(4).assert_stderr_has("standard output");
    super::read_run(&haul, output);
}
