//! Folders that take names for one which differ in the case of letters (row B10). Where no such folder can be mounted, the test is skipped.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use haul_lab::ObjectStore;

use super::harness::HaulDirectory;
use super::s3::directory;

/// A mounted file system, which ends with the value.
struct FoldingFolder(PathBuf);

impl FoldingFolder {
    fn mount(haul: &HaulDirectory) -> Option<Self> {
        let (image, folder) = (haul.path("image"), haul.path("folding"));
        std::fs::create_dir(&folder).unwrap();
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(32 << 20).unwrap();
        let is_mounted = runs(Command::new("mkntfs").arg("-qF").arg(&image))
            && runs(
                Command::new("lowntfs-3g")
                    .args(["-o", "ignore_case"])
                    .args([&image, &folder]),
            );
        if !is_mounted {
            let _ = writeln!(std::io::stderr(), "skipped: NTFS cannot be mounted here");
        }
        is_mounted.then_some(Self(folder))
    }
}

impl Drop for FoldingFolder {
    fn drop(&mut self) {
        // At once, whoever still has a file of it.
        runs(Command::new("umount").arg("-l").arg(&self.0));
    }
}

fn runs(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[tokio::test]
async fn b10_of_two_objects_with_one_name_each_run_misses_one() {
    let store = ObjectStore::start().await;
    let haul = directory(&store);
    let Some(_mounted) = FoldingFolder::mount(&haul) else {
        return;
    };
    for key in ["A.txt", "a.txt", "b/x", "B/y", "other"] {
        store.insert(&format!("p/{key}"), key.as_bytes());
    }
    haul.write(
        "list.csv",
        "url,path\ns3://bucket/p/A.txt,A.txt\ns3://bucket/p/a.txt,a.txt\ns3://bucket/p/other,other\n",
    );
    let commands: [&[&str]; 4] = [
        &["get", "-r", "s3://bucket/p/", "-d", "folding/get"],
        &[
            "get",
            "-r",
            "s3://bucket/p/",
            "-d",
            "folding/rows",
            "--manifest",
            "rows.jsonl",
        ],
        &["get", "-i", "list.csv", "-d", "folding/list"],
        &["sync", "s3://bucket/p/", "folding/sync"],
    ];
    for command in commands {
        for run in 1..=3 {
            let output = haul.run(command).await;
            assert_eq!(output.code, 1, "{command:?}, run {run}: {output:#?}");
            output.assert_stderr_has("differs only in the case or form of letters");
        }
        let folder = command
            .iter()
            .find(|word| word.starts_with("folding/"))
            .unwrap();
        let read = |name| std::fs::read_to_string(haul.path(&format!("{folder}/{name}"))).ok();
        let kept = read("A.txt").unwrap();
        // This file system shows its names in lower case, so a second sync compares the file with the other object.
        let is_either = command[0] == "sync" && kept == "a.txt";
        assert!(kept == "A.txt" || is_either, "{command:?}: {kept}");
        assert_eq!(read("other").as_deref(), Some("other"), "{command:?}");
        if !folder.ends_with("list") {
            // Folders that fold are one folder, and lose nothing.
            assert_eq!(read("b/x").as_deref(), Some("b/x"), "{command:?}");
            assert_eq!(read("b/y").as_deref(), Some("B/y"), "{command:?}");
        }
    }
}
