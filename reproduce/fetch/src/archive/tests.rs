use super::*;

#[test]
fn names_of_archives_and_their_parts() {
    for (file, archive) in [
        ("a.zip", Some("a.zip")),
        ("b/A.ZIP", Some("b/A.ZIP")),
        ("videos.tar", Some("videos.tar")),
        ("videos.tar.part.aa", Some("videos.tar")),
        ("videos.tar.part_be", Some("videos.tar")),
        ("videos.tar.00", Some("videos.tar")),
        ("videos.tar.ab", Some("videos.tar")),
        ("videos.zip.001", Some("videos.zip")),
        ("videos.tar.gz", None),
        ("rows.parquet", None),
        ("tar", None),
    ] {
        assert_eq!(archive_of(file), archive, "{file}");
    }
}
