//! Workbooks and archives of every form, damaged ones and those that are small and decode to much.
#![allow(clippy::unwrap_used)]

use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use paravt_interop::import::{self, Columns, Log};
use proptest::prelude::*;
use serde_json::json;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const RELATIONS: &str = r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
    <Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/KIND" Target="TARGET"/>
    </Relationships>"#;

fn archive(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::DEFLATE);
    for (name, content) in members {
        zip.start_file(*name, options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A workbook of one sheet with these rows, shared strings and formats of cells.
fn workbook(rows: &str, strings: &str, formats: &str) -> Vec<u8> {
    let main = "xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"";
    let relations = |kind: &str, target: &str| RELATIONS.replace("KIND", kind).replace("TARGET", target);
    let sheets = "<sheets><sheet name=\"s\" sheetId=\"1\" \
        xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\" r:id=\"r1\"/></sheets>";
    archive(&[
        ("_rels/.rels", relations("officeDocument", "xl/workbook.xml").into()),
        ("xl/workbook.xml", format!("<workbook {main}>{sheets}</workbook>").into()),
        ("xl/_rels/workbook.xml.rels", relations("worksheet", "worksheets/sheet1.xml").into()),
        ("xl/sharedStrings.xml", format!("<sst {main} {strings}</sst>").into()),
        ("xl/styles.xml", format!("<styleSheet {main}>{formats}</styleSheet>").into()),
        (
            "xl/worksheets/sheet1.xml",
            format!("<worksheet {main}><sheetData>{rows}</sheetData></worksheet>").into(),
        ),
    ])
}

fn write(dir: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn read(name: &str, content: &[u8], columns: Option<&str>) -> Result<Log, String> {
    let dir = tempfile::tempdir().unwrap();
    let columns = columns.map(|columns| Columns::parse(columns).unwrap());
    import::read(&[write(dir.path(), name, content)], columns.as_ref()).map_err(|error| error.to_string())
}

/// Bytes of the deepest that the process has been in memory.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn cells_of_a_workbook_stand_below_their_names() {
    let columns = "id = \"i\"\nresponse = \"said\"\nanswer = \"gold\"";
    let named = r#"<row r="1"><c t="inlineStr"><is><t>i</t></is></c><c t="inlineStr"><is><t>note</t></is></c>
        <c t="inlineStr"><is><t>said</t></is></c><c t="inlineStr"><is><t>gold</t></is></c></row>"#;
    let strings = r#"uniqueCount="2"><si><t>one &amp; two</t></si><si><r><t>a</t></r><r><t xml:space="preserve"> b_x000D_</t></r>
        <rPh><t>x</t></rPh></si>"#;
    let formats = r#"<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>"#;
    // What openpyxl reads of the same rows: identifier, answer, gold.
    for (row, wanted) in [
        // Cells without a place, one of them empty.
        ("<row><c><v>1</v></c><c/><c><v>2</v></c><c><v>3</v></c></row>", ["1", "2", "3"]),
        (
            r#"<row r="2"><c r="A2"><v>1</v></c><c r="D2"><v>3</v></c><c r="C2"><v>2</v></c></row>"#,
            ["1", "2", "3"],
        ),
        // A place once, then the cells next to it.
        (r#"<row r="9"><c><v>1</v></c><c r="C9"><v>2</v></c><c><v>3</v></c></row>"#, ["1", "2", "3"]),
        // A cell twice: the last one counts.
        (
            r#"<row r="2"><c r="A2"><v>0</v></c><c r="A2"><v>1</v></c><c r="C2"><v>2</v></c><c r="D2"><v>3</v></c></row>"#,
            ["1", "2", "3"],
        ),
        (
            r#"<row r="2"><c r="A2" t="b"><v>1</v></c><c r="C2" t="s"><v>0</v></c><c r="D2" t="s"><v>1</v></c></row>"#,
            ["true", "one & two", "a b\r"],
        ),
        (
            r#"<row r="2"><c r="A2" t="str"><f>A1</f><v>f</v></c><c r="C2" t="e"><f>=x</f><v>#NAME?</v></c><c r="D2" s="1"><v>45000</v></c></row>"#,
            ["f", "#NAME?", "2023-03-15 00:00:00"],
        ),
        (
            r#"<row r="2"><c r="A2" t="inlineStr"><is><r><t>x</t></r><r><t>y</t></r></is></c><c r="C2"><f>1+1</f><v>2.5</v></c><c r="D2" t="str"><v/></c></row>"#,
            ["xy", "2.5", ""],
        ),
    ] {
        for rows in [format!("{named}{row}"), row.replace("<row>", "<row r=\"2\">") + named] {
            let log = read("x.xlsx", &workbook(&rows, strings, formats), Some(columns)).unwrap();
            let found = &log.rows[0];
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            assert_eq!([found.id.clone(), text(&found.response), text(&found.gold)], wanted, "{row}");
        }
    }
}

#[test]
fn a_name_that_two_columns_have_is_refused() {
    let columns = Some("id = \"q\"\nresponse = \"said\"\nanswer = \"gold\"");
    let cells =
        ["q", "gold", "said", "gold"].map(|name| format!("<c t=\"inlineStr\"><is><t>{name}</t></is></c>"));
    let rows = format!("<row>{}</row><row><c><v>1</v></c></row>", cells.concat());
    for (name, content) in [
        ("x.csv", b"q,gold,said,gold\n1,A,B,B\n".to_vec()),
        ("x.tsv", b"q\tgold\tsaid\tgold\n1\tA\tB\tB\n".to_vec()),
        ("x.xlsx", workbook(&rows, ">", "")),
    ] {
        let error = read(name, &content, columns).unwrap_err();
        assert!(error.contains("columns 2 and 4 have the same name, `gold`"), "{error}");
    }
    // Columns without a name are none.
    let log = read("x.csv", b"q,gold,said,,\n1,A,B,x,y\n", columns).unwrap();
    assert_eq!((log.rows[0].gold.as_deref(), log.rows[0].response.as_deref()), (Some("A"), Some("B")));
}

/// An archive with a header, and many entries for one member: a number with blanks behind it.
fn one_member_many_times(blanks: usize, entries: u16) -> Vec<u8> {
    let content = [b"1".to_vec(), vec![b' '; blanks]].concat();
    let header = json!({"version": 2, "eval": {"task": "t"}}).to_string();
    let whole = archive(&[("header.json", header.into()), ("samples/00000_epoch_1.json", content)]);
    let find =
        |from: usize, mark: &[u8]| from + whole[from..].windows(4).position(|four| four == mark).unwrap();
    let central = find(0, b"PK\x01\x02");
    let second = find(central + 4, b"PK\x01\x02");
    let end = find(second, b"PK\x05\x06");
    let mut bytes = whole[..second].to_vec();
    for number in 1..entries {
        let mut entry = whole[second..end].to_vec();
        entry[46 + 8..46 + 13].copy_from_slice(format!("{number:05}").as_bytes());
        bytes.extend(entry);
    }
    let mut tail = whole[end..].to_vec();
    let length = u32::try_from(bytes.len() - central).unwrap();
    tail[8..10].copy_from_slice(&entries.to_le_bytes());
    tail[10..12].copy_from_slice(&entries.to_le_bytes());
    tail[12..16].copy_from_slice(&length.to_le_bytes());
    bytes.extend(tail);
    bytes
}

#[test]
fn small_files_that_decode_to_much_are_refused() {
    let wide = "<row><c r=\"XFD2\"><v>1</v></c></row>".repeat(40_000);
    let named = "<row><c t=\"str\"><v>index</v></c><c t=\"str\"><v>prediction</v></c></row>";
    let zeros = format!("[0{}]", ",0".repeat(5 << 20)).into_bytes();
    let font = format!("<fonts><font><name val=\"{}\"/></font></fonts>", "n".repeat(100_000));
    let fonts = format!("{font}<cellXfs>{}</cellXfs>", "<xf fontId=\"0\"/>".repeat(20_000));
    let names: String =
        (0..16_000).map(|number| format!("<c t=\"inlineStr\"><is><t>n{number}</t></is></c>")).collect();
    let short = "<row><c><v>1</v></c></row>".repeat(40_000);
    let nested =
        json!({"neighbour": "n".repeat(1 << 20), "rows": vec![json!({"id": 1, "said": "A"}); 10_000]});
    for (name, content, columns, words) in [
        ("a.xlsx", workbook(&format!("{named}{wide}"), ">", ""), None, "no rows in this file"),
        ("b.xlsx", workbook(named, "uniqueCount=\"4000000000000\">", ""), None, "4000000000000 strings"),
        ("c.xlsx", workbook(named, ">", &fonts), None, "styles.xml"),
        ("d.xlsx", workbook(&format!("<row>{names}</row>{short}"), ">", ""), None, "values when decoded"),
        ("e.xlsx", archive(&[("xl/a.xml", vec![b' '; 300 << 20])]), None, "bytes when decoded"),
        ("a.eval", archive(&[("header.json", zeros.clone())]), None, "values when decoded"),
        ("b.json", zeros, None, "values when decoded"),
        ("c.eval", one_member_many_times(60 << 20, 100), None, "bytes when decoded"),
        (
            "d.csv",
            format!("a,{}\n{}", "n".repeat(1 << 20), "1,2\n".repeat(5_000)).into(),
            None,
            "bytes when decoded",
        ),
        ("e.csv", "a,b\n".repeat(250_002).into(), None, "250001 rows, at most 250000 are read"),
        (
            "f.json",
            nested.to_string().into(),
            Some("id = \"id\"\nresponse = \"said\"\nrows = \"rows\""),
            "bytes when decoded",
        ),
        (
            "h.json",
            json!({"doc_id": 0, "filtered_resps": ["A"], "input": "q ".repeat(9 << 20)}).to_string().into(),
            None,
            "row 1: a text of 18874368 bytes",
        ),
        ("g.ods", b"x".to_vec(), None, "`.ods` is not read; save it as .xlsx or .csv"),
    ] {
        let error = read(name, &content, columns).unwrap_err();
        assert!(error.contains(words), "{name}: {error}");
    }
    assert!(peak() < 3 << 30, "{} bytes", peak());
}

fn valid() -> [(&'static str, Vec<u8>); 2] {
    let rows = r#"<row r="1"><c r="A1" t="inlineStr"><is><t>index</t></is></c><c r="B1" t="s"><v>0</v></c></row>
        <row r="2"><c r="A2"><v>1</v></c><c r="B2" t="s"><v>1</v></c></row><row><c s="1"><v>2</v></c><c t="b"><v>1</v></c></row>"#;
    let strings = "uniqueCount=\"2\"><si><t>prediction</t></si><si><t>B</t></si>";
    let sample = json!({"id": 1, "epoch": 1, "input": "q", "target": "B", "output": {"completion": "B",
        "usage": {"input_tokens": 4, "output_tokens": 2}}, "scores": {"choice": {"value": "C", "answer": "B"}}});
    let header = json!({"version": 2, "eval": {"task": "t", "model": "m", "dataset": {"samples": 1}}});
    [
        ("x.xlsx", workbook(rows, strings, r#"<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>"#)),
        (
            "x.eval",
            archive(&[
                ("header.json", header.to_string().into()),
                ("samples/1_epoch_1.json", sample.to_string().into()),
            ]),
        ),
    ]
}

#[test]
fn whole_files_are_read() {
    for (name, content) in valid() {
        assert!(!read(name, &content, None).unwrap().rows.is_empty(), "{name}");
    }
}

/// A change of a file: bytes overwritten, cut out, or repeated at a place.
fn damage(content: &mut Vec<u8>, (place, kind, bytes): &(prop::sample::Index, u8, Vec<u8>)) {
    let at = place.index(content.len());
    let end = (at + bytes.len()).min(content.len());
    match kind {
        0 => content[at..end].copy_from_slice(&bytes[..end - at]),
        1 => drop(content.drain(at..end)),
        _ => drop(content.splice(at..at, bytes.iter().copied())),
    }
    if content.is_empty() {
        content.push(0);
    }
}

proptest! {
    /// The bytes of the archive, and the text of its members before they are deflated.
    #[test]
    fn damaged_files_end_in_an_error_or_rows(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0u8..3, prop::collection::vec(any::<u8>(), 1..12)), 1..6),
        member in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        for (name, mut content) in valid() {
            if whole {
                changes.iter().for_each(|change| damage(&mut content, change));
            } else {
                let mut zip = zip::ZipArchive::new(Cursor::new(&content)).unwrap();
                let names: Vec<String> = zip.file_names().flatten().map(|name| name.into_owned()).collect();
                let mut members: Vec<(&str, Vec<u8>)> = names.iter().map(|name| {
                    let mut text = Vec::new();
                    std::io::copy(&mut zip.by_name(name).unwrap(), &mut text).unwrap();
                    (name.as_str(), text)
                }).collect();
                let changed = member.index(members.len());
                changes.iter().for_each(|change| damage(&mut members[changed].1, change));
                content = archive(&members);
            }
            let _ = read(name, &content, None);
        }
    }

    #[test]
    fn arbitrary_bytes_end_in_an_error(content in prop::collection::vec(any::<u8>(), 0..2_000)) {
        for name in ["x.xlsx", "x.eval", "x.json", "x.csv", "x.parquet"] {
            let _ = read(name, &content, None);
        }
    }

    /// Rows and cells with places, kinds and styles from a few words of the format.
    #[test]
    fn sheets_of_any_structure_end_in_an_error_or_rows(words in prop::collection::vec(0usize..28, 0..60)) {
        const WORDS: [&str; 28] = [
            "<row>", "</row>", "<row r=\"2\">", "<row r=\"1000000000\"/>", "<row r=\"99999999999\">", "<c>", "</c>", "<c/>",
            "<c r=\"A1\">", "<c r=\"XFD1048576\">", "<c r=\"ZZZZZZZ1\">", "<c r=\"1\">", "<c t=\"s\">", "<c t=\"inlineStr\">",
            "<c t=\"b\">", "<c t=\"e\">", "<c t=\"d\" s=\"1\">", "<c s=\"9999999999\">", "<v>", "</v>", "1", "-1e309",
            "<is><t>", "</t></is>", "&amp;", "&#x110000;", "<![CDATA[x]]>", "#N/A",
        ];
        let rows: String = words.iter().map(|word| WORDS[*word]).collect();
        let strings = "uniqueCount=\"1\"><si><t>index</t></si>";
        let _ = read("x.xlsx", &workbook(&rows, strings, "<cellXfs><xf/><xf numFmtId=\"14\"/></cellXfs>"), None);
    }
}
