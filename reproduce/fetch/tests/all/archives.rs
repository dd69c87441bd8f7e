//! Archives that attack, are damaged, or were unpacked halfway.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::common::{ZipMember, files_below, noise, zip};
use paravt_fetch::{Archive, FetchError, Unpacked, unpack};
use tar::{EntryType, Header};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("root/into")
    }

    fn unpack(&self, name: &str, parts: &[Vec<u8>], flatten: bool) -> Result<Unpacked, FetchError> {
        let paths: Vec<PathBuf> =
            (0..parts.len()).map(|part| self.dir.path().join(format!("part{part}"))).collect();
        for (path, bytes) in paths.iter().zip(parts) {
            std::fs::write(path, bytes).unwrap();
        }
        unpack(&Archive { name, id: "1", into: &self.folder(), flatten, pictures: None }, &paths)
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        files_below(&self.folder())
    }

    /// Nothing lies beside the folder but the archive itself, and nothing in it is a link.
    fn check_contained(&self) {
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(name == "root" || name.starts_with("part"), "{name}");
        }
        let beside: Vec<_> = std::fs::read_dir(self.dir.path().join("root")).unwrap().collect();
        assert_eq!(beside.len(), 1, "{beside:?}");
        for name in self.files().keys() {
            // A name that is not UTF-8 is shown with replacements here and has no such path.
            let file = self.folder().join(name).symlink_metadata();
            assert!(file.map_or(name.contains('\u{fffd}'), |file| file.is_file()), "{name}");
            assert!(!name.contains(".paravt-"), "{name}");
        }
    }
}

fn refused(unpacked: &Unpacked) -> Vec<(&str, &str)> {
    unpacked.refused.iter().map(|refused| (refused.member.as_str(), refused.reason.as_str())).collect()
}

#[test]
fn zip_members_that_leave_the_folder_are_refused_and_the_rest_arrives() {
    let place = Place::new();
    let link = |name: &'static str, to: &'static str| ZipMember {
        mode: 0o120_777,
        ..ZipMember::new(name, to.as_bytes())
    };
    let archive = zip(&[
        ZipMember::new("good/a.txt", b"a"),
        ZipMember::new("../escaped.txt", b"x"),
        ZipMember::new("good/../../escaped.txt", b"x"),
        ZipMember::new("/absolute.txt", b"x"),
        ZipMember::new("..\\windows.txt", b"x"),
        ZipMember::new("C:\\drive.txt", b"x"),
        ZipMember::new("nul\0.txt", b"x"),
        ZipMember { mode: 0o020_644, ..ZipMember::new("device", b"") },
        link("out", "/etc/passwd"),
        link("up", "../../x"),
        link("nowhere", "good/none.txt"),
        link("good/inside", "a.txt"),
        ZipMember { flags: 1, ..ZipMember::new("encrypted.txt", b"x") },
        ZipMember::new("__MACOSX/good/._a.txt", b"x"),
        ZipMember { name: b"caf\x82.txt", ..ZipMember::new("", b"cp437") },
        ZipMember::new("good/b.txt", b"b"),
    ]);
    let unpacked = place.unpack("a.zip", &[archive], false).unwrap();
    place.check_contained();
    let names: Vec<String> = place.files().into_keys().collect();
    assert_eq!(names, ["caf\u{e9}.txt", "good/a.txt", "good/b.txt", "good/inside"]);
    assert_eq!(place.files()["good/inside"], b"a");
    assert_eq!(unpacked.members, 4);
    let found = refused(&unpacked);
    let mut members: Vec<&str> = found.iter().map(|(member, _)| *member).collect();
    members.sort_unstable();
    assert_eq!(
        members,
        [
            "../escaped.txt", "..\\windows.txt", "/absolute.txt", "C:\\drive.txt", "device", "encrypted.txt",
            "good/../../escaped.txt", "nowhere", "nul\0.txt", "out", "up"
        ]
    );
}

#[test]
fn damaged_and_swollen_zip_members_are_refused() {
    let place = Place::new();
    let zeros = vec![0; 80 << 20];
    let text = noise(5000, 1);
    let archive = zip(&[
        ZipMember { crc: Some(7), ..ZipMember::new("crc.bin", &text) },
        ZipMember { declared: Some(10), deflate: true, ..ZipMember::new("more.bin", &text) },
        ZipMember { declared: Some(6000), deflate: true, ..ZipMember::new("fewer.bin", &text) },
        ZipMember { deflate: true, ..ZipMember::new("bomb.bin", &zeros) },
        ZipMember { deflate: true, declared: Some(100), ..ZipMember::new("hidden_bomb.bin", &zeros) },
        ZipMember { deflate: true, ..ZipMember::new("good.bin", &text) },
        ZipMember::new("same.bin", b"1"),
        ZipMember::new("same.bin/below.bin", b"2"),
    ]);
    assert!(archive.len() < 1 << 20, "{} bytes would become 160 million", archive.len());
    let unpacked = place.unpack("a.zip", &[archive], false).unwrap();
    place.check_contained();
    let files = place.files();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["good.bin", "same.bin"]);
    assert!(files["good.bin"] == text);
    let reasons: BTreeMap<&str, &str> = refused(&unpacked).into_iter().collect();
    assert!(reasons["crc.bin"].contains("CRC-32"), "{reasons:?}");
    assert!(reasons["more.bin"].contains("holds more"), "{reasons:?}");
    assert!(reasons["hidden_bomb.bin"].contains("holds more"), "{reasons:?}");
    assert!(reasons["fewer.bin"].contains("holds 5000"), "{reasons:?}");
    assert!(reasons["bomb.bin"].contains("83886080"), "{reasons:?}");
    assert!(reasons.contains_key("same.bin/below.bin"), "{reasons:?}");
}

#[test]
fn a_bomb_of_many_small_members_is_refused() {
    let place = Place::new();
    let zeros = vec![0; 4 << 20];
    let names: Vec<Vec<u8>> = (0..20).map(|number| format!("zeros_{number}.bin").into_bytes()).collect();
    let bomb = |name: &'static [u8]| ZipMember { name, deflate: true, ..ZipMember::new("", &zeros) };
    let mut members: Vec<ZipMember<'_>> =
        names.into_iter().map(|name| bomb(Box::leak(name.into_boxed_slice()))).collect();
    members.push(ZipMember::new("good.bin", b"good"));
    let unpacked = place.unpack("a.zip", &[zip(&members)], false).unwrap();
    assert_eq!(place.files().keys().collect::<Vec<_>>(), ["good.bin"]);
    assert_eq!(unpacked.refused.len(), 20, "{unpacked:?}");
    // One of them alone stays below the limits.
    let unpacked = place.unpack("b.zip", &[zip(&members[..1])], false).unwrap();
    assert_eq!((unpacked.refused.len(), unpacked.members), (0, 1));
}

#[test]
fn a_link_to_a_folder_is_not_written_through() {
    let place = Place::new();
    for (name, links) in [("a.zip", "../outside"), ("b.zip", "."), ("c.zip", "/tmp")] {
        let link = ZipMember { mode: 0o120_777, ..ZipMember::new("inner", links.as_bytes()) };
        let archive =
            zip(&[link, ZipMember::new("inner/through.txt", b"x"), ZipMember::new("a\nb.txt", b"y")]);
        let unpacked = place.unpack(name, &[archive], false).unwrap();
        place.check_contained();
        assert_eq!(refused(&unpacked).len(), 1, "{unpacked:?}");
        assert_eq!(place.files()["inner/through.txt"], b"x", "a folder of its own: the link was never made");
        assert_eq!(place.files()["a\nb.txt"], b"y");
    }
}

#[test]
fn zip_members_that_share_bytes_are_refused() {
    // Two directory entries for one local file: the way to a bomb without recursion.
    let place = Place::new();
    let mut archive = zip(&[ZipMember::new("a.bin", b"12345"), ZipMember::new("b.bin", b"12345")]);
    let second = archive.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    archive[second + 42..second + 46].copy_from_slice(&[0; 4]);
    let unpacked = place.unpack("a.zip", &[archive], false).unwrap();
    assert_eq!(place.files().len(), 1);
    assert_eq!(unpacked.refused.len(), 1, "{unpacked:?}");
}

#[test]
fn of_members_with_one_name_the_first_is_taken() {
    let file = EntryType::Regular;
    let twice = zip(&[
        ZipMember::new("folder/", b""),
        ZipMember::new("ok.mp4", b"first"),
        ZipMember::new("folder/", b""),
        ZipMember::new("ok.mp4", b"second"),
        ZipMember::new("a", b"1"),
        ZipMember::new("a", b"2"),
        ZipMember::new("ok.mp4", b"third"),
        ZipMember::new("last.mp4", b"last"),
    ]);
    let taped = tar_of(&[
        tar_member(b"ok.mp4", file, "", b"first"),
        tar_member(b"ok.mp4", file, "", b"second"),
        tar_member(b"a", file, "", b"1"),
        tar_member(b"a", file, "", b"2"),
        tar_member(b"./ok.mp4", file, "", b"third"),
        tar_member(b"last.mp4", file, "", b"last"),
    ]);
    for (name, archive) in [("a.zip", twice), ("a.tar", taped)] {
        let place = Place::new();
        let unpacked = place.unpack(name, &[archive], false).unwrap();
        let files = place.files();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["a", "last.mp4", "ok.mp4"]);
        assert_eq!((&*files["ok.mp4"], &*files["a"]), (&b"first"[..], &b"1"[..]));
        let found = refused(&unpacked);
        assert_eq!((unpacked.members, found.len()), (3, 3), "{found:?}");
        assert!(found.iter().all(|(_, reason)| reason.contains("has the same name")), "{found:?}");
        assert_eq!(found[0].0, "ok.mp4", "{name}");
    }
}

/// A header of its own before the next member.
fn tar_extended(kind: EntryType, text: &[u8]) -> Vec<u8> {
    tar_member(b"extended", kind, "", text)
}

fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let record = |(key, value): &(&str, &str)| {
        let rest = format!(" {key}={value}\n");
        // Its length counts the digits of the length.
        let length =
            (rest.len() + 1..).find(|length| length.to_string().len() + rest.len() == *length).unwrap();
        format!("{length}{rest}")
    };
    records.iter().map(record).collect::<String>().into_bytes()
}

#[test]
fn sparse_members_are_refused_in_every_form() {
    let file = EntryType::Regular;
    let place = Place::new();
    let sparse = |version: &[(&str, &str)]| {
        [
            tar_extended(EntryType::XHeader, &pax(version)),
            tar_member(b"GNUSparseFile.0/v", file, "", b"1\n0\n"),
        ]
        .concat()
    };
    let archive = tar_of(&[
        sparse(&[("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.name", "one.mp4")]),
        sparse(&[("GNU.sparse.size", "9"), ("GNU.sparse.numblocks", "1"), ("path", "two.mp4")]),
        sparse(&[("SCHILY.realsize", "9"), ("path", "three.mp4")]),
        sparse(&[("comment", "line\nbreak"), ("GNU.sparse.map", "0,1"), ("path", "four.mp4")]),
        tar_extended(EntryType::XHeader, &pax(&[("mtime", "1.5"), ("path", "long/name.mp4"), ("size", "4")])),
        tar_member(b"short", file, "", b"good"),
        tar_extended(EntryType::XGlobalHeader, &pax(&[("GNU.sparse.major", "1")])),
        tar_member(b"five.mp4", file, "", b"1\n0\n"),
    ]);
    let unpacked = place.unpack("a.tar", &[archive], false).unwrap();
    let expected = ["one.mp4", "two.mp4", "three.mp4", "four.mp4", "five.mp4"];
    assert_eq!(refused(&unpacked), expected.map(|name| (name, "a sparse file")));
    assert_eq!(place.files().keys().collect::<Vec<_>>(), ["long/name.mp4"]);

    // As GNU tar writes them.
    let program = Place::new();
    let folder = program.dir.path();
    std::fs::File::create(folder.join("part0")).unwrap().set_len(1 << 22).unwrap();
    std::fs::write(folder.join("part1"), b"good").unwrap();
    for format in ["posix", "gnu"] {
        let archive = folder.join("part2");
        let mut tar = std::process::Command::new("tar");
        tar.arg(format!("--format={format}")).args(["-S", "-C"]).arg(folder).arg("-cf").arg(&archive);
        assert!(tar.args(["part0", "part1"]).status().unwrap().success());
        let archive = std::fs::read(archive).unwrap();
        let place = Place::new();
        let unpacked = place.unpack("a.tar", &[archive], false).unwrap();
        assert_eq!(refused(&unpacked), [("part0", "a sparse file")], "{format}");
        assert_eq!(place.files().keys().collect::<Vec<_>>(), ["part1"], "{format}");
    }
}

#[test]
fn extended_headers_are_not_read_beyond_what_a_name_takes() {
    let file = EntryType::Regular;
    let long = vec![b'a'; 1 << 20];
    let records = pax(&[("comment", std::str::from_utf8(&long).unwrap())]);
    for (kind, text, reason) in [
        (EntryType::GNULongName, &long, "its name is too long"),
        (EntryType::GNULongLink, &long, "the name of its target is too long"),
        (EntryType::XHeader, &records, "its extended header is too long"),
        (EntryType::XHeader, &b"no record".to_vec(), "damaged: its extended header is not one"),
        (EntryType::XHeader, &b"99999 path=x\n".to_vec(), "damaged: its extended header is not one"),
        (EntryType::XHeader, &pax(&[("size", "-1")]), "damaged: its size is not a number"),
    ] {
        let place = Place::new();
        let archive = tar_of(&[
            tar_extended(kind, text),
            tar_member(b"short", file, "", b"x"),
            tar_extended(EntryType::GNULongName, b"a/name/of/its/own.mp4\0"),
            tar_member(b"short", file, "", b"good"),
        ]);
        let unpacked = place.unpack("a.tar", &[archive], false).unwrap();
        assert_eq!(refused(&unpacked), [("short", reason)]);
        assert_eq!(place.files().keys().collect::<Vec<_>>(), ["a/name/of/its/own.mp4"]);
    }
    // One that claims more than is there.
    let mut torn = tar_of(&[tar_extended(EntryType::GNULongName, b"x")]);
    torn[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let sum: u32 =
        torn[..148].iter().chain(&torn[156..512]).map(|byte| u32::from(*byte)).sum::<u32>() + 8 * 32;
    torn[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(Place::new().unpack("a.tar", &[torn], false).unwrap().members, 0);
}

#[test]
fn zip64_and_flattened_names() {
    let place = Place::new();
    let file = std::fs::File::create(place.dir.path().join("written")).unwrap();
    let mut writer = zip::ZipWriter::new(file);
    let options = zip::write::SimpleFileOptions::default()
        .large_file(true)
        .compression_method(zip::CompressionMethod::Stored);
    for name in ["one/a.mp4", "two/b.mp4", "three/a.mp4"] {
        writer.start_file(name, options).unwrap();
        std::io::Write::write_all(&mut writer, name.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
    let bytes = std::fs::read(place.dir.path().join("written")).unwrap();
    std::fs::remove_file(place.dir.path().join("written")).unwrap();
    // In two files, as large archives are published.
    let parts = [bytes[..60].to_vec(), bytes[60..].to_vec()];
    let unpacked = place.unpack("a.zip", &parts, true).unwrap();
    place.check_contained();
    let files = place.files();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["a.mp4", "b.mp4"]);
    assert_eq!(files["a.mp4"], b"one/a.mp4");
    assert_eq!(refused(&unpacked).iter().map(|(member, _)| *member).collect::<Vec<_>>(), ["three/a.mp4"]);
}

/// Header and bytes of a member, padded; names as they are, however wrong.
fn tar_member(name: &[u8], kind: EntryType, link: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(bytes.len() as u64);
    header.set_cksum();
    let mut out = header.as_bytes().to_vec();
    out.extend(bytes);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

fn tar_of(members: &[Vec<u8>]) -> Vec<u8> {
    let mut out = members.concat();
    out.extend([0; 1024]);
    out
}

#[test]
fn tar_members_that_leave_the_folder_are_refused_and_the_rest_arrives() {
    let place = Place::new();
    let file = EntryType::Regular;
    let archive = tar_of(&[
        tar_member(b"./", EntryType::Directory, "", b""),
        tar_member(b"./videos/a.mp4", file, "", b"aaa"),
        tar_member(b"../escaped", file, "", b"x"),
        tar_member(b"/absolute", file, "", b"x"),
        tar_member(b"../folder", EntryType::Directory, "", b""),
        tar_member(b"videos/out", EntryType::Symlink, "../../../etc/passwd", b""),
        tar_member(b"videos/linked", EntryType::Symlink, "/etc", b""),
        tar_member(b"videos/linked/passwd", file, "", b"x"),
        tar_member(b"videos/hard", EntryType::Link, "/etc/passwd", b""),
        tar_member(b"videos/again", EntryType::Link, "videos/a.mp4", b""),
        tar_member(b"again", EntryType::Symlink, "videos/again", b""),
        tar_member(b"pipe", EntryType::Fifo, "", b""),
        tar_member(b"device", EntryType::Block, "", b""),
        tar_member(b"caf\xe9.mp4", file, "", b"latin"),
        tar_member(b"videos/b.mp4", file, "", &[7; 1000]),
    ]);
    let unpacked = place.unpack("a.tar", &[archive], false).unwrap();
    place.check_contained();
    let at = |name: &[u8]| {
        std::fs::read(place.folder().join(Path::new(std::ffi::OsStr::from_bytes(name)))).unwrap()
    };
    assert_eq!(at(b"videos/a.mp4"), b"aaa");
    assert_eq!(at(b"videos/again"), b"aaa");
    assert_eq!(at(b"again"), b"aaa");
    assert_eq!(at(b"caf\xe9.mp4"), b"latin");
    assert_eq!(at(b"videos/b.mp4"), [7; 1000]);
    assert_eq!(at(b"videos/linked/passwd"), b"x", "a folder of its own: the link was never made");
    let found = refused(&unpacked);
    let members: Vec<&str> = found.iter().map(|(member, _)| *member).collect();
    assert_eq!(
        members,
        [
            "../escaped", "/absolute", "../folder", "videos/out", "videos/linked", "videos/hard", "pipe",
            "device"
        ]
    );
    assert_eq!(unpacked.members, 6);
}

#[test]
fn split_tars_are_read_across_their_parts_and_a_torn_one_says_where() {
    let place = Place::new();
    let bytes = noise(40_000, 9);
    let members: Vec<Vec<u8>> = (0..5)
        .map(|index| tar_member(format!("videos/{index}.mp4").as_bytes(), EntryType::Regular, "", &bytes))
        .collect();
    let archive = tar_of(&members);
    let parts: Vec<Vec<u8>> = archive.chunks(30_001).map(<[u8]>::to_vec).collect();
    let unpacked = place.unpack("videos.tar", &parts, true).unwrap();
    assert_eq!((unpacked.members, unpacked.refused.len()), (5, 0));
    assert!(place.files().values().all(|file| *file == bytes));

    let torn = Place::new();
    let unpacked = torn.unpack("videos.tar", &parts[..parts.len() - 2], true).unwrap();
    torn.check_contained();
    assert!(unpacked.members < 5 && !unpacked.refused.is_empty(), "{unpacked:?}");
    assert!(torn.files().values().all(|file| *file == bytes), "no half file has a name");
}

#[test]
fn a_file_that_is_not_an_archive_is_an_error() {
    let place = Place::new();
    for name in ["a.zip", "a.tar"] {
        let error = place.unpack(name, &[noise(5000, 3)], false).unwrap_err();
        assert!(matches!(&error, FetchError::Archive { archive, .. } if archive == name), "{error}");
    }
    let error = place.unpack("a.rar", &[noise(5000, 3)], false).unwrap_err().to_string();
    assert!(error.contains(".zip"), "{error}");
    let truncated = zip(&[ZipMember::new("a", b"a")]);
    assert!(place.unpack("a.zip", &[truncated[..truncated.len() - 30].to_vec()], false).is_err());
}

#[test]
fn an_interrupted_unpacking_is_resumed_and_keeps_complete_members() {
    use std::os::unix::fs::MetadataExt as _;
    let bytes = noise(100_000, 4);
    let names: Vec<String> = (0..6).map(|index| format!("{index}.bin")).collect();
    let zipped = zip(&names.iter().map(|name| ZipMember::new(name, &bytes)).collect::<Vec<_>>());
    let taped = tar_of(
        &names
            .iter()
            .map(|name| tar_member(name.as_bytes(), EntryType::Regular, "", &bytes))
            .collect::<Vec<_>>(),
    );
    for (name, archive) in [("a.zip", zipped), ("a.tar", taped)] {
        let place = Place::new();
        place.unpack(name, std::slice::from_ref(&archive), false).unwrap();
        let journal = place.folder().join(".paravt-fetch").join(format!("{name}.jsonl"));
        let text = std::fs::read_to_string(&journal).unwrap();
        // As a kill leaves it: three members noted, the fourth line torn, a half file beside.
        let lines: Vec<&str> = text.lines().collect();
        std::fs::write(&journal, format!("{}\n{}", lines[..4].join("\n"), &lines[4][..9])).unwrap();
        std::fs::write(place.folder().join(".paravt-3.part"), &bytes[..500]).unwrap();
        for index in 3..6 {
            std::fs::remove_file(place.folder().join(format!("{index}.bin"))).unwrap();
        }
        std::fs::write(place.folder().join("1.bin"), b"changed").unwrap();
        let inode =
            |index: usize| std::fs::metadata(place.folder().join(format!("{index}.bin"))).unwrap().ino();
        let before = (inode(0), inode(2));
        let archive_of = |id| Archive {
            name,
            id,
            into: Box::leak(Box::new(place.folder())),
            flatten: false,
            pictures: None,
        };
        assert_eq!(archive_of("1").unpacked(), None);
        let unpacked = place.unpack(name, std::slice::from_ref(&archive), false).unwrap();
        assert_eq!((unpacked.members, unpacked.bytes), (6, 600_000), "{name}");
        assert_eq!((inode(0), inode(2)), before, "{name}: not written again");
        assert!(place.files().values().all(|file| *file == bytes), "{name}");
        place.check_contained();
        assert_eq!(archive_of("1").unpacked(), Some(unpacked));
        assert_eq!(archive_of("2").unpacked(), None, "another archive");
        std::fs::write(place.folder().join("2.bin"), b"short").unwrap();
        assert_eq!(archive_of("1").unpacked(), None, "a file was lost since");
    }
}
