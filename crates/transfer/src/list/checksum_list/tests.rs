//! Row F37: the forms of lists, as the tools write them, and which line decides.

use super::*;
use proptest::prelude::*;

/// Digests of the file "hello\n".
const SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
const MD5: &str = "b1946ac92492d2347c6235b4d2611184";
const SHA1: &str = "f572d396fae9206628714fb2ce00f72e94f2258f";
const SHA512: &str = "e7c22b994c59d9cf2b48e549b1e24666636045930d3da7c1acb299d1c3b7f931\
                      f94aae41edda2c2b207a36e10f8bcb8d45223e54878f5b316e7ce3b6bc019629";

fn find(list: impl AsRef<[u8]>, path: &str) -> Result<Vec<String>, ChecksumListError> {
    let parts: Vec<&str> = path.split('/').collect();
    let found = ChecksumList::parse(list.as_ref())?.find(&parts)?;
    let hex = |bytes: Vec<u8>| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let text = |checksum: Checksum| {
        format!(
            "{}:{}",
            checksum.algorithm,
            hex(checksum.digest.unwrap_or_default())
        )
    };
    Ok(found.into_iter().map(text).collect())
}

/// What a list has for a.bin of one directory.
fn of_file(list: impl AsRef<[u8]>) -> Vec<String> {
    find(list, "pub/a.bin").unwrap()
}

fn digest(letter: char) -> String {
    letter.to_string().repeat(64)
}

#[test]
fn f37_every_form_of_the_tools_is_read() {
    let upper = SHA256.to_uppercase();
    let colons: Vec<&str> = (0..16).map(|at| &MD5[2 * at..2 * at + 2]).collect();
    let sha256 = format!("sha256:{SHA256}");
    for list in [
        format!("{SHA256}  a.bin\n"),
        format!("{SHA256} *a.bin"),
        format!("{SHA256} a.bin"),
        format!("{SHA256}\ta.bin\n"),
        format!("{SHA256}    a.bin\n"),
        format!("{upper}  ./a.bin\r\n"),
        format!("{SHA256}  /home/build/out/a.bin\n"),
        format!("{SHA256}  out\\a.bin\n"),
        format!("{SHA256}  C:\\out\\a.bin\r\n"),
        format!("sha256:{SHA256}  a.bin\n"),
        format!("SHA256 (a.bin) = {SHA256}\n"),
        format!("SHA256(a.bin)= {SHA256}\n"),
        format!("SHA2-256(out/a.bin)= {upper}\n"),
        format!("# made by hand\n\n{SHA256}  a.bin\n; end\n"),
        format!("SHA-256 sums of this release:\n{SHA256}  a.bin\n"),
        format!(
            "SHA384 (a.bin) = {SHA512}\nSHA256 (a.bin) = {SHA256}\nHMAC-SHA256(a.bin)= {SHA512}\n"
        ),
    ] {
        assert_eq!(of_file(&list), [&*sha256], "{list:?}");
    }
    for (list, found) in [
        (
            format!("MD5(a.bin)= {}\n", colons.join(":")),
            format!("md5:{MD5}"),
        ),
        (format!("{SHA1} *a.bin\n"), format!("sha1:{SHA1}")),
        (
            format!("SHA2-512(a.bin)= {SHA512}\n"),
            format!("sha512:{SHA512}"),
        ),
        (
            format!("BLAKE3 (a.bin) = {SHA256}\n"),
            format!("blake3:{SHA256}"),
        ),
        ("crc32:deadbeef  a.bin".into(), "crc32:deadbeef".into()),
    ] {
        assert_eq!(of_file(&list), [found], "{list:?}");
    }
}

#[test]
fn f37_digests_of_gnupg_are_in_groups_over_several_lines() {
    let sha512 = "a.bin: E7C22B99 4C59D9CF 2B48E549 B1E24666 63604593 0D3DA7C1 ACB299D1 C3B7F931\n       \
                  F94AAE41 EDDA2C2B 207A36E1 0F8BCB8D 45223E54 878F5B31 6E7CE3B6 BC019629\n";
    let sha1 = "a.bin: F572 D396 FAE9 2066 2871  4FB2 CE00 F72E 94F2 258F\r\n";
    let md5 = "a.bin: B1 94 6A C9 24 92 D2 34  7C 62 35 B4 D2 61 11 84\n";
    let all = [
        format!("sha512:{SHA512}"),
        format!("sha1:{SHA1}"),
        format!("md5:{MD5}"),
    ];
    assert_eq!(of_file([sha512, sha1, md5].concat()), all);
    // With --print-mds each algorithm has its name, and there are some that haul does not know.
    let mds = "a.bin:    MD5 = B1 94 6A C9 24 92 D2 34  7C 62 35 B4 D2 61 11 84\n\
               a.bin: RMD160 = 0057 B0DC 5AAC 7C21 5A9A  458D 6C3C 85CD 2108 9AF8\n\
               a.bin: SHA256 = 5891B5B5 22D5DF08 6D0FF0B1 10FBD9D2 1BB4FC71 63AF34D0 8286A2E8\n                \
               46F6BE03\n\
               a.bin: SHA384 = 1D0F284E FE3EDEA4 B9CA3BD5 14FA134B 17EAE361 CCC7A1EE FEFF801B\n                \
               9BD6604E 01F21F6B F249EF03 0599F0C2 18F2BA8C\n";
    assert_eq!(
        of_file(mds),
        [format!("md5:{MD5}"), format!("sha256:{SHA256}")]
    );
    // Behind a long name a line ends.
    let long = "a-name-of-more-than-40-columns-0123456789.tar.gz";
    let list = format!(
        "{long}: \n  SHA1 = F572 D396 FAE9 2066 2871  4FB2 CE00 F72E 94F2 258F\n{long}: \n\
         5891B5B5 22D5DF08 6D0FF0B1 10FBD9D2 1BB4FC71 63AF34D0 8286A2E8 46F6BE03\n"
    );
    let both = [format!("sha1:{SHA1}"), format!("sha256:{SHA256}")];
    assert_eq!(find(&list, long).unwrap(), both);
}

#[test]
fn f37_the_longest_path_that_the_url_ends_with_decides() {
    let (a, b, c, d) = (digest('a'), digest('b'), digest('c'), digest('d'));
    let list = format!(
        "{a}  ./netboot/gtk/boot.gz\n{b}  ./netboot/boot.gz\n{c}  boot.gz\n{d}  ./hd-media/boot.gz\n"
    );
    for (path, right) in [
        ("dists/images/netboot/boot.gz", &b),
        ("dists/images/netboot/gtk/boot.gz", &a),
        ("dists/images/boot.gz", &c),
        ("boot.gz", &c),
        ("hd-media/boot.gz", &d),
        ("gtk/boot.gz", &c),
    ] {
        assert_eq!(
            find(&list, path).unwrap(),
            [format!("sha256:{right}")],
            "{path}"
        );
    }
    for path in ["images/boot.gz.sig", "oot.gz", "images/netboot", "made"] {
        assert_eq!(
            find(&list, path),
            Err(ChecksumListError::NotListed),
            "{path}"
        );
    }
    // No path is all of the end of the URL: the one with the most equal parts.
    let list = format!("{a}  /build/x86/f.iso\n{b}  /build/arm/f.iso\n");
    assert_eq!(
        find(&list, "pub/arm/f.iso").unwrap(),
        [format!("sha256:{b}")]
    );
}

#[test]
fn f37_different_digests_that_fit_equally_are_an_error() {
    let (a, b) = (digest('a'), digest('b'));
    let ambiguous = |lines| {
        let algorithm = DigestAlgorithm::Sha256;
        Err(ChecksumListError::Ambiguous { algorithm, lines })
    };
    let both = format!("{a}  x/f.iso\n\n{b}  y/f.iso\n");
    assert_eq!(find(&both, "pub/f.iso"), ambiguous([1, 3]));
    assert_eq!(find(&both, "y/f.iso").unwrap(), [format!("sha256:{b}")]);
    assert_eq!(find(format!("{a}  f\n{b} *f\n"), "f"), ambiguous([1, 2]));
    assert_eq!(find(format!("{a}\n{b}\n"), "f"), ambiguous([1, 2]));
    // The same digest twice, and digests of different algorithms, are no contradiction.
    let (md5, same) = (&a[..32], format!("sha256:{a}"));
    let list = format!("{a}  x/f\n{a}  y/f\n{md5}  x/f\n");
    assert_eq!(find(list, "f").unwrap(), [same, format!("md5:{md5}")]);
}

#[test]
fn f37_a_digest_without_a_name_is_that_of_the_file() {
    let sha256 = format!("sha256:{SHA256}");
    let groups = "5891B5B5 22D5DF08 6D0FF0B1 10FBD9D2 1BB4FC71 63AF34D0 8286A2E8 46F6BE03\n";
    let windows = format!("SHA256 hash of a.bin:\r\n{SHA256}\r\nCertUtil: done.\r\n");
    for list in [
        SHA256.to_owned(),
        format!(" {}\n", SHA256.to_uppercase()),
        format!("{SHA256}  -\n"),
        format!("{SHA256} *-\n"),
        format!("SHA2-256(stdin)= {SHA256}\n"),
        format!("(stdin)= {SHA256}\n"),
        format!("SHA256 (-) = {SHA256}\n"),
        format!("sha256:{SHA256}\n"),
        format!("SHA256: {SHA256}\n"),
        format!("SHA256 = {SHA256}\n"),
        groups.into(),
        windows,
    ] {
        assert_eq!(of_file(&list), [&*sha256], "{list:?}");
    }
    // Where names are, one of them has to be that of the file.
    let list = format!("{SHA256}\n{SHA256}  b.bin\n");
    assert_eq!(find(list, "a.bin"), Err(ChecksumListError::NotListed));
    assert_eq!(find("", "a.bin"), Err(ChecksumListError::NotListed));
    assert_eq!(
        find("<html>\n404: not found", "a.bin"),
        Err(ChecksumListError::NotListed)
    );
}

#[test]
fn f37_byte_order_marks_and_utf_16_are_read() {
    let line = format!("{SHA256}  ä.bin\r\n");
    let little = line.encode_utf16().flat_map(u16::to_le_bytes);
    let big = line.encode_utf16().flat_map(u16::to_be_bytes);
    for list in [
        [b"\xef\xbb\xbf", line.as_bytes()].concat(),
        b"\xff\xfe".iter().copied().chain(little).collect(),
        b"\xfe\xff".iter().copied().chain(big).collect(),
    ] {
        assert_eq!(find(list, "ä.bin").unwrap(), [format!("sha256:{SHA256}")]);
    }
    // A damaged name is that of no other line.
    let damaged = [b"\xff\xff  x\n", line.as_bytes()].concat();
    assert_eq!(
        find(damaged, "ä.bin").unwrap(),
        [format!("sha256:{SHA256}")]
    );
}

#[test]
fn f37_escaped_names_are_read_as_coreutils_writes_them() {
    let list = format!(
        "\\{SHA256}  back\\\\slash\n\\SHA256 (new\\nline) = {SHA256}\n\\{SHA256} *return\\r\n{SHA256}  we ird (x).bin\n\
         SHA1 (we ird (x).bin) = {SHA1}\n"
    );
    for name in ["back\\slash", "new\nline", "return\r"] {
        assert_eq!(
            find(&list, name).unwrap(),
            [format!("sha256:{SHA256}")],
            "{name:?}"
        );
    }
    let both = [format!("sha256:{SHA256}"), format!("sha1:{SHA1}")];
    assert_eq!(find(&list, "we ird (x).bin").unwrap(), both);
}

#[test]
fn f37_of_a_clear_signed_list_the_signed_part_counts() {
    let (a, b) = (digest('a'), digest('b'));
    let list = format!(
        "{b}  added\n-----BEGIN PGP SIGNED MESSAGE-----\r\nHash: SHA512\r\n\r\n# list\n{a}  f.iso\n- -dash: \
         5891B5B5 22D5DF08 6D0FF0B1 10FBD9D2 1BB4FC71 63AF34D0 8286A2E8 46F6BE03\n\
         -----BEGIN PGP SIGNATURE-----\n\n{b}  f.iso\n-----END PGP SIGNATURE-----\n{b}  f.iso\n"
    );
    assert_eq!(find(&list, "f.iso").unwrap(), [format!("sha256:{a}")]);
    assert_eq!(find(&list, "-dash").unwrap(), [format!("sha256:{SHA256}")]);
    assert_eq!(find(&list, "added"), Err(ChecksumListError::NotListed));
    let alone =
        format!("-----BEGIN PGP SIGNED MESSAGE-----\n\n{a}\n-----END PGP SIGNED MESSAGE-----\n");
    assert_eq!(find(alone, "f.iso").unwrap(), [format!("sha256:{a}")]);
}

#[test]
fn f37_a_list_is_bounded() {
    let large = vec![b'a'; ChecksumList::MAX_BYTES + 1];
    assert!(ChecksumList::parse(&large[1..]).is_ok());
    let error = ChecksumList::parse(&large).unwrap_err();
    assert_eq!(error.to_string(), "the list is larger than 16 MiB");
    // Groups without end are no digest.
    let endless = format!("a.bin: {}\n", " AB\n".repeat(1000));
    assert_eq!(find(endless, "a.bin"), Err(ChecksumListError::NotListed));
}

proptest! {
    #[test]
    fn f37_no_list_makes_it_panic(list: Vec<u8>, name: String) {
        let _ = find(list, &name);
    }

    #[test]
    fn f37_no_lines_make_it_panic(
        lines in proptest::collection::vec(
            proptest::sample::select(&[
                SHA256, " ", "  ", "f", ":", "\n", "= ", " (f) = ", "MD5", "SHA256", "AB CD", "\\", "*", "-",
                "-----BEGIN PGP SIGNED MESSAGE-----\n", "\n\n", "\u{feff}", "ä",
            ][..]),
            0..24,
        ),
    ) {
        let _ = find(lines.concat(), "pub/f");
    }

    #[test]
    fn f37_each_of_many_files_has_its_own_digest(
        paths in proptest::collection::btree_set("[ab]{1,2}(/[ab]{1,2}){0,3}", 1..20),
    ) {
        let listed: Vec<(String, String)> = (0_u8..)
            .zip(&paths)
            .map(|(number, path)| (path.clone(), format!("{number:02x}").repeat(32)))
            .collect();
        let list: String = listed.iter().map(|(path, hex)| format!("{hex}  ./{path}\n")).collect();
        for (path, hex) in &listed {
            // The publisher's list stands at the top of the files.
            prop_assert_eq!(find(&list, path), Ok(vec![format!("sha256:{}", hex)]));
        }
    }
}
