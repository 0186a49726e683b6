//! Each format is read by the program that installs it, and the same contents give the same bytes.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;

/// A binary that can be packaged: it only has to look like one.
fn contents() -> Contents {
    let mut binary = b"\x7fELF\x02\x01".to_vec();
    binary.resize(18, 0);
    binary.extend(62_u16.to_le_bytes());
    binary.extend(b"\0GLIBC_2.34\0");
    let file = |name: &str, text: &str| BTreeMap::from([(name.to_owned(), text.as_bytes().to_vec())]);
    let mut units = file("houston-serve.service", "[Service]\n");
    units.extend(file("houston.env", "# DATABASE_URL=\n"));
    Contents {
        version: "1.2.3".to_owned(),
        machine: elf::machine(&binary).unwrap(),
        glibc: elf::glibc(&binary).unwrap(),
        binary,
        licence: b"MIT".to_vec(),
        man: file("houston-dev.1", ".TH houston-dev 1"),
        completions: BTreeMap::from([("bash", b"complete".to_vec())]),
        units,
    }
}

fn built(compression: Compression) -> (tempfile::TempDir, Vec<Built>) {
    let folder = tempfile::tempdir().unwrap();
    let built = write(&contents(), Kind::value_variants(), compression, folder.path()).unwrap();
    (folder, built)
}

/// What a program of Debian's package `dpkg` or `tar` prints about a package; `None` if it is missing and may be.
fn reads(program: &str, arguments: &[&str], package: &Path) -> Option<String> {
    if programs::find(program).is_none() {
        let may_be = std::env::var_os("XTASK_SKIP_MISSING").is_some();
        assert!(may_be, "{program} is missing: install the package dpkg or tar, or use --skip-missing");
        println!("SKIPPED: {program} is missing");
        return None;
    }
    let mut command = Command::new(program);
    Some(child::output(command.args(arguments).arg(package).env("TZ", "UTC")).unwrap())
}

#[test]
fn same_contents_give_the_same_bytes() {
    let sums = |compression| {
        let (folder, _) = built(compression);
        std::fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap()
    };
    let (best, stored) = (sums(Compression::best()), sums(Compression::none()));
    assert_eq!(best, sums(Compression::best()));
    assert_ne!(best, stored);
    let names: Vec<&str> =
        best.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name).collect();
    assert_eq!(
        names,
        [
            "houston-1.2.3-x86_64-linux.tar.gz",
            "houston_1.2.3_amd64.deb",
            "houston-1.2.3-py3-none-manylinux_2_34_x86_64.whl",
            "houston-1.2.3-linux-x64.tgz"
        ]
    );
}

#[test]
fn names_have_the_version_as_their_format_writes_it() {
    let contents = Contents { version: "1.2.0-rc.1".to_owned(), ..contents() };
    let names = [
        tarball::name(&contents),
        deb::name(&contents),
        wheel::name(&contents).unwrap(),
        npm::name(&contents),
    ];
    assert_eq!(
        names,
        [
            "houston-1.2.0-rc.1-x86_64-linux.tar.gz",
            "houston_1.2.0~rc.1_amd64.deb",
            "houston-1.2.0rc1-py3-none-manylinux_2_34_x86_64.whl",
            "houston-1.2.0-rc.1-linux-x64.tgz"
        ]
    );
    for (name, kind) in names.iter().zip(Kind::value_variants()) {
        assert!(name.contains(&kind.version("1.2.0-rc.1").unwrap()), "{name}");
    }
}

#[test]
fn tarballs_are_read_by_tar() {
    let (_folder, built) = built(Compression::best());
    for (package, paths) in [
        (
            &built[0],
            ["bin/houston", "share/man/man1/houston-dev.1", "share/bash-completion/completions/houston"],
        ),
        (&built[3], ["bin/houston", "package.json", "LICENSE"]),
    ] {
        let listed = reads("tar", &["--list", "--verbose", "--file"], &package.path).unwrap();
        for path in paths {
            let line = listed.lines().find(|line| line.ends_with(&format!("/{path}")));
            let line = line.unwrap_or_else(|| panic!("{path} is missing: {listed}"));
            let mode = if path == "bin/houston" { "-rwxr-xr-x" } else { "-rw-r--r--" };
            assert!(
                line.starts_with(mode) && line.contains("root/root") && line.contains("1980-01-01"),
                "{line}"
            );
        }
    }
}

#[test]
fn debs_are_read_by_dpkg() {
    let (_folder, built) = built(Compression::best());
    let Some(info) = reads("dpkg-deb", &["--info"], &built[1].path) else { return };
    for wanted in
        ["Version: 1.2.3", "Architecture: amd64", "Depends: libc6 (>= 2.34)", " deployments: every step"]
    {
        assert!(info.contains(wanted), "{wanted}: {info}");
    }
    let listed = reads("dpkg-deb", &["--contents"], &built[1].path).unwrap();
    for wanted in ["./usr/bin/houston", "./usr/lib/systemd/system/houston-serve.service", "./usr/share/doc/"]
    {
        assert!(listed.contains(wanted), "{wanted}: {listed}");
    }
    let settings = listed.lines().find(|line| line.ends_with("./etc/houston/houston.env")).unwrap();
    assert!(settings.starts_with("-rw------- root/root"), "only root reads passwords: {settings}");
    let kept = reads("dpkg-deb", &["--ctrl-tarfile"], &built[1].path).unwrap();
    assert!(kept.contains("/etc/houston/houston.env"), "an upgrade keeps the settings");
}

#[test]
fn wheels_record_each_file_with_its_hash() {
    let (_folder, built) = built(Compression::best());
    let mut wheel = zip::ZipArchive::new(std::fs::File::open(&built[2].path).unwrap()).unwrap();
    let mut files = BTreeMap::new();
    for nth in 0..wheel.len() {
        let mut file = wheel.by_index(nth).unwrap();
        let mut bytes = Vec::new();
        std::io::copy(&mut file, &mut bytes).unwrap();
        let name = file.name().unwrap().into_owned();
        files.insert(name, (bytes, file.unix_mode()));
    }
    let (binary, mode) = &files["houston-1.2.3.data/scripts/houston"];
    assert_eq!((binary, mode.map(|mode| mode & 0o777)), (&contents().binary, Some(0o755)));
    let record = String::from_utf8(files["houston-1.2.3.dist-info/RECORD"].0.clone()).unwrap();
    let mut recorded: Vec<&str> = record.lines().filter_map(|line| line.split(',').next()).collect();
    recorded.sort_unstable();
    assert_eq!(recorded, files.keys().collect::<Vec<_>>(), "each file is in RECORD");
    // Of the text `MIT`.
    let licence = "licenses/LICENSE,sha256=5dz_6Da27IpY5JJBm1UOZfuMvcMIUDl55drLM6x-o7c,3";
    assert!(record.contains(licence), "{record}");
}

#[test]
fn npm_refuses_other_machines() {
    let (_folder, built) = built(Compression::best());
    let manifest =
        reads("tar", &["--to-stdout", "--extract", "package/package.json", "--file"], &built[3].path);
    let manifest: serde_json::Value = serde_json::from_str(&manifest.unwrap()).unwrap();
    assert_eq!((&manifest["os"][0], &manifest["cpu"][0]), (&"linux".into(), &"x64".into()));
    assert_eq!(manifest["bin"]["houston"], "bin/houston");
}
