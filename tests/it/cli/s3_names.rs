//! What addresses, folders and profiles on the command lines of S3 name, against a scripted store.

use haul_lab::ObjectStore;

use super::harness::{HaulDirectory, HaulOutput};
use super::s3::directory;

async fn run(dir: &HaulDirectory, args: &[&str], code: i32) -> HaulOutput {
    let output = dir.run(args).await;
    assert_eq!(output.code, code, "{args:?} {output:#?}");
    output
}

#[tokio::test]
async fn an_address_with_r_is_a_folder_and_no_beginning_of_names() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    let siblings = ["photos", "photos-2024/x", "photos.tar"];
    for key in siblings.iter().chain(&["photos/a", "photos/b/c"]) {
        store.insert(key, b"x");
    }
    for folder in ["s3://bucket/photos", "s3://bucket/photos/"] {
        let cp = run(&dir, &["cp", "-n", "-r", folder, "s3://bucket/to"], 0).await;
        let copy =
            |name| format!("would copy s3://bucket/photos/{name} to s3://bucket/to/{name}\n");
        assert_eq!(cp.stdout, copy("a") + &copy("b/c"));
        run(&dir, &["get", "-r", folder, "-d", "down"], 0).await;
        assert!(dir.path("down/b/c").exists());
        assert_eq!(std::fs::read_dir(dir.path("down")).unwrap().count(), 2);
        std::fs::remove_dir_all(dir.path("down")).unwrap();
    }
    let rm = ["rm", "-r", "s3://bucket/photos", "--max-delete", "2"];
    run(&dir, &rm, 0).await;
    assert_eq!(store.keys(), siblings);
    run(&dir, &["rm", "s3://bucket/photos*"], 0).await;
    assert_eq!(store.keys().len(), 0);
}
