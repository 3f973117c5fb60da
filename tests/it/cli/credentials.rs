//! Credentials go to the origin they are for, and are seen nowhere.

use haul_lab::{Origin, OriginResource, RequestMatcher, faults};

use crate::cli::harness::{HaulDirectory, content, start_origin};

/// `me:s3cret`, as Basic sends it.
const BASIC: &str = "Basic bWU6czNjcmV0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_login_method() {
    let haul = HaulDirectory::new();
    let token = format!("@{}", haul.write("token", "t0ken\n"));
    haul.write(".netrc", "machine 127.0.0.1 login me password s3cret\n");
    let netrc = haul.write("other-netrc", "default login me password s3cret\n");
    for (flags, expected) in [
        (&["-u", "me:s3cret"][..], BASIC),
        (&["--netrc"], BASIC),
        (&["--netrc-file", &netrc], BASIC),
        (&["--bearer", "t0ken"], "Bearer t0ken"),
        (&["--bearer", &token], "Bearer t0ken"),
        (&["-H", "Authorization: Bearer t0ken"], "Bearer t0ken"),
    ] {
        let origin = start_origin(OriginResource::new(content())).await;
        haul.get(&origin.url("/f.bin"), &[flags, &["--overwrite"]].concat())
            .await
            .assert_code(0);
        assert_eq!(
            origin.requests()[0].header("authorization"),
            Some(expected),
            "{flags:?}"
        );
    }
    let origin = start_origin(OriginResource::new(content())).await;
    let url = origin.url("/f.bin").replace("http://", "http://me:s3cret@");
    haul.get(&url, &["--overwrite"]).await.assert_code(0);
    assert_eq!(origin.requests()[0].header("authorization"), Some(BASIC));
    haul.get(&origin.url("/f.bin"), &["--overwrite"])
        .await
        .assert_code(0);
    assert_eq!(
        origin.requests().last().unwrap().header("authorization"),
        None,
        "a .netrc nobody request for was used"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_in_the_url_gets_the_password_known_for_that_user() {
    let haul = HaulDirectory::new();
    let others = "machine 127.0.0.1 login other password wrong\n";
    let mine = "machine 127.0.0.1 login m%e password \"s3%20:@/cret\"\n";
    let netrc = haul.write("netrc", format!("{others}{mine}"));
    // `m%e:s3%20:@/cret` and, where no password is known, `m%e:`.
    let (whole, empty) = ("Basic bSVlOnMzJTIwOkAvY3JldA==", "Basic bSVlOg==");
    for (flags, expected) in [
        (&["--netrc-file", &*netrc][..], whole),
        (&["-u", "m%e:s3%20:@/cret"], whole),
        (&["-u", "other:wrong"], empty),
        (&[], empty),
    ] {
        let origin = start_origin(OriginResource::new(content())).await;
        let url = origin.url("/f.bin").replace("http://", "http://m%25e@");
        // Without a terminal to ask on.
        let line = [
            &[
                "setsid",
                "-w",
                env!("CARGO_BIN_EXE_haul"),
                "get",
                &url,
                "--overwrite",
            ],
            flags,
        ]
        .concat()
        .join("' '");
        haul.shell(&format!("'{line}'")).await.assert_code(0);
        assert_eq!(
            origin.requests()[0].header("authorization"),
            Some(expected),
            "{flags:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_credentials_follow_a_redirect_to_another_origin() {
    let target = start_origin(OriginResource::new(content())).await;
    let away = faults::status_with_header(302, "Location", target.url("/f.bin"));
    let origin =
        start_origin(OriginResource::new(content()).rule(RequestMatcher::always(), away)).await;
    for flags in [
        &["-u", "me:s3cret"][..],
        &["--bearer", "t0ken"],
        &["-H", "Cookie: s3cret"],
    ] {
        let haul = HaulDirectory::new();
        haul.get(&origin.url("/f.bin"), flags).await.assert_code(0);
        haul.assert_file("f.bin", &content());
    }
    for request in target.requests() {
        assert_eq!(
            (request.header("authorization"), request.header("cookie")),
            (None, None)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_never_shown() {
    let realm = faults::status_with_header(401, "WWW-Authenticate", "Basic realm=\"vault\"".into());
    let builder = Origin::builder().resource(
        "/locked",
        OriginResource::new(content()).rule(RequestMatcher::always(), realm),
    );
    let origin = builder
        .resource("/f.bin", OriginResource::new(content()))
        .start()
        .await;
    let haul = HaulDirectory::new().with_variable("RUST_LOG", "trace");
    for path in ["/locked", "/f.bin", "/missing"] {
        let url = origin.url(path).replace("http://", "http://me:s3cret@");
        let url = format!("{url}?token=s3cret&a=1&X-Amz-Signature=s3cret#key=s3cret");
        for flags in [
            &["-u", "me:s3cret"][..],
            &["-H", "X-Key: s3cret"],
            &["--bearer", "s3cret"],
            &["-H", "Authorization s3cret"],
            &["--proxy", "ftp://me:s3cret@p.test"],
            &["--bearer", "s3cret s3cret"],
        ] {
            for more in [
                &["-v"][..],
                &["--json"],
                &["--progress", "json"],
                &[
                    "-v",
                    "--progress",
                    "plain",
                    "http://127.0.0.1:1/f?sig=s3cret",
                ],
            ] {
                let output = haul
                    .get(&url, &[flags, more, &["--overwrite"]].concat())
                    .await;
                let all = format!("{}{}", output.stdout, output.stderr);
                assert!(
                    !all.contains("s3cret") && !all.contains("czNjcmV0"),
                    "{all}"
                );
            }
        }
    }
}
