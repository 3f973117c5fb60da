//! Notes the commit that haul is built from, if it is built in its repository: reports name it.

use std::path::Path;
use std::process::Command;

fn main() {
    // Each commit and each change of the branch adds a line.
    let head = Path::new("../../.git/logs/HEAD");
    println!("cargo:rerun-if-changed=build.rs");
    if head.exists() {
        println!("cargo:rerun-if-changed={}", head.display());
    }
    let output = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output();
    let commit = output.ok().filter(|output| output.status.success());
    if let Some(commit) = commit.and_then(|output| String::from_utf8(output.stdout).ok()) {
        println!("cargo:rustc-env=HAUL_COMMIT={}", commit.trim());
    }
}
