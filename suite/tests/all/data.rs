//! Annotation files as they may come: every column type, damaged files, files of another writer.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_array::types::{Float16Type, Int32Type};
use arrow_array::{
    ArrayRef, DictionaryArray, FixedSizeListArray, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, LargeStringArray, ListArray, RecordBatch, StringArray, StructArray, TimestampSecondArray,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use half::f16;
use paravt_suite::data::{DataError, PublishedRow, read_rows};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)));
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn file(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("test-00000-of-00001.parquet")
}

fn halves(values: &[f64]) -> Vec<Option<f16>> {
    values.iter().map(|&value| Some(f16::from_f64(value))).collect()
}

#[test]
fn integers_of_every_width_are_the_same_number() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("int8", Arc::new(Int8Array::from(vec![3, -1]))),
        ("int16", Arc::new(Int16Array::from(vec![3, -1]))),
        ("int32", Arc::new(Int32Array::from(vec![3, -1]))),
        ("int64", Arc::new(Int64Array::from(vec![3, -1]))),
        ("uint8", Arc::new(UInt8Array::from(vec![3, 255]))),
        ("uint16", Arc::new(UInt16Array::from(vec![3, 9]))),
        ("uint32", Arc::new(UInt32Array::from(vec![3, 9]))),
        ("uint64", Arc::new(UInt64Array::from(vec![3, 9]))),
        ("double", Arc::new(Float64Array::from(vec![3.0, 9.5]))),
    ];
    let names: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    write(&path, columns);
    let rows = read_rows(&path).unwrap();
    let cells = |row: usize| PublishedRow { file: &path, row: row.into(), value: &rows[row] };
    for name in &names {
        assert_eq!(cells(0).column::<i64>(name).unwrap(), 3, "{name}");
    }
    assert_eq!(cells(1).column::<i64>("int8").unwrap(), -1);
    assert_eq!(cells(1).column::<i64>("uint8").unwrap(), 255);
    let message = cells(1).column::<i64>("double").unwrap_err().to_string();
    assert!(message.contains("row 1, column `double`: expected an integer, found `9.5`"), "{message}");
}

#[test]
fn texts_lists_structs_and_half_floats() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    let dictionary: DictionaryArray<Int32Type> = [Some("tv"), None, Some("tv")].into_iter().collect();
    let half_lists = ListArray::from_iter_primitive::<Float16Type, _, _>(
        [[24.3, 30.4], [0.0, 1.5], [2.0, 3.0]].map(|row| Some(halves(&row))),
    );
    let pairs = FixedSizeListArray::from_iter_primitive::<Float16Type, _, _>(
        [[24.3, 30.4], [0.0, 1.5], [2.0, 3.0]].map(|row| Some(halves(&row))),
        2,
    );
    let field = |name| Arc::new(Field::new(name, arrow_schema::DataType::Utf8, true));
    let structs = StructArray::from(vec![
        (field("subject"), Arc::new(StringArray::from(vec!["Art", "Law", "Art"])) as ArrayRef),
        (field("textbook"), Arc::new(StringArray::from(vec![Some("t"), None, None])) as ArrayRef),
    ]);
    write(
        &path,
        vec![
            ("type", Arc::new(dictionary)),
            ("question", Arc::new(LargeStringArray::from(vec!["é", "b", "c"]))),
            ("timestamp", Arc::new(half_lists)),
            ("pair", Arc::new(pairs)),
            ("metadata", Arc::new(structs)),
        ],
    );
    let rows = read_rows(&path).unwrap();
    assert_eq!(
        Value::Object(rows[0].clone()),
        json!({"type": "tv", "question": "é", "timestamp": [24.296875, 30.40625], "pair": [24.296875, 30.40625],
            "metadata": {"subject": "Art", "textbook": "t"}})
    );
    assert_eq!((&rows[1]["type"], &rows[2]["type"]), (&Value::Null, &json!("tv")));
    let message = PublishedRow { file: &path, row: 1.into(), value: &rows[1] }
        .column::<String>("type")
        .unwrap_err()
        .to_string();
    assert!(message.ends_with("parquet: row 1, column `type`: the cell is null"), "{message}");
}

#[test]
fn a_column_of_an_unusable_type_is_named_by_its_type_not_called_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    write(&path, vec![("answer", Arc::new(TimestampSecondArray::from(vec![0, 1])))]);
    let rows = read_rows(&path).unwrap();
    let cells = PublishedRow { file: &path, row: 1.into(), value: &rows[1] };
    let message = cells.column::<String>("answer").unwrap_err().to_string();
    assert!(message.contains("row 1, column `answer`: expected a string"), "{message}");
    assert!(message.contains("Timestamp"), "{message}");
    let message = cells.column::<String>("anwser").unwrap_err().to_string();
    assert!(message.contains("column `anwser`: missing; the nearest is `answer`"), "{message}");
    assert!(message.contains(&*path.to_string_lossy()), "{message}");
}

/// A small file with a data page worth damaging.
fn sound(path: &Path) -> Vec<u8> {
    let words: Vec<String> = (0..200).map(|number| format!("question {number}")).collect();
    let numbers: Vec<i32> = (0..200).collect();
    write(
        path,
        vec![("question", Arc::new(StringArray::from(words))), ("n", Arc::new(Int32Array::from(numbers)))],
    );
    std::fs::read(path).unwrap()
}

#[test]
fn a_file_cut_off_anywhere_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    let bytes = sound(&path);
    for length in (0..bytes.len()).step_by(37).chain([bytes.len() - 1]) {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let error = read_rows(&path).unwrap_err();
        assert!(matches!(error, DataError::Format { .. }), "{length} bytes: {error}");
        let message = error.to_string();
        assert!(message.contains("test-00000-of-00001.parquet") && message.contains("cut off"), "{message}");
    }
}

#[test]
fn a_flipped_byte_gives_rows_or_an_error_and_never_takes_the_process_down() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    let bytes = sound(&path);
    let mut refused = 0;
    for position in (0..bytes.len()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0xff;
        std::fs::write(&path, &damaged).unwrap();
        refused += usize::from(read_rows(&path).is_err());
    }
    assert!(refused > 0);
}

#[test]
fn a_pointer_file_and_a_web_page_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    std::fs::write(&path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n").unwrap();
    assert!(read_rows(&path).unwrap_err().to_string().contains("a pointer of Git LFS"));
    std::fs::write(&path, "<html>").unwrap();
    assert!(read_rows(&path).unwrap_err().to_string().contains("a web page or XML and not parquet"));
    assert!(matches!(read_rows(&dir.path().join("none.parquet")), Err(DataError::Io { .. })));
}

fn rows_of(name: &str, content: impl AsRef<[u8]>) -> Result<Value, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    let rows = read_rows(&path).map_err(|error| error.to_string())?;
    Ok(rows.into_iter().map(Value::Object).collect())
}

#[test]
fn rows_are_read_as_lists_lines_and_cells() {
    let rows =
        json!([{"id": 1, "q": "Wer,\n \"da\"?", "o": ["a", {"b": null}]}, {"id": -2.5, "q": "é", "o": null}]);
    let lines = format!("{}\n{}\n", rows[0], rows[1]);
    for (name, content) in [
        ("a.json", rows.to_string()),
        ("a.JSON", format!("\u{feff}\r\n {rows:#}\n")),
        ("a.jsonl", rows.to_string()),
        ("a.json", lines.clone()),
        ("a.jsonl", lines.clone()),
        ("a.ndjson", format!("\u{feff}{}", lines.replace('\n', "\r\n\r\n"))),
        ("a.jsonl", lines.trim_end().to_owned()),
    ] {
        assert_eq!(rows_of(name, &content).as_ref(), Ok(&rows), "{name}: {content:?}");
    }
    let cells = json!([{"id": "1", "q": "Wer,\n \"da\"?", "o": ["a", {"b": null}]}, {"id": "-2.5", "q": "é", "o": null}]);
    let csv = "id, q ,o\n1,\"Wer,\n \"\"da\"\"?\",\"[\"\"a\"\", {\"\"b\"\": null}]\"\n\n-2.5,é,\n";
    assert_eq!(rows_of("a.csv", csv).as_ref(), Ok(&cells));
    assert_eq!(rows_of("a.csv", format!("\u{feff}{}", csv.replace('\n', "\r\n"))).unwrap()[1], cells[1]);
    assert_eq!(rows_of("a.tsv", "id\tq\to\n-2.5\té\t\n").unwrap()[0], cells[1]);
    assert_eq!(rows_of("a.csv", "id,q,o,,\n-2.5,é,,,\n").unwrap()[0], cells[1]);
    for (name, content) in
        [("a.json", "[]"), ("a.jsonl", "\n"), ("a.csv", ""), ("a.csv", "id,q\n"), ("a.json", "")]
    {
        assert_eq!(rows_of(name, content), Ok(json!([])), "{name}: {content:?}");
    }
}

#[test]
fn a_fault_in_rows_is_named_with_file_line_and_column() {
    for (name, content, words) in [
        ("a.json", "[{\"id\": 1}, {\"id\":", "a.json: expected a JSON array of objects: EOF"),
        ("a.json", "[{\"id\": 1},\n 7]", "invalid type: integer `7`, expected an object at line 2 column 2"),
        ("a.json", "[{}] []", "trailing characters at line 1 column 6"),
        (
            "a.jsonl",
            "{}\n\n{\"id\": NaN}\n",
            "a.jsonl: line 3, column 8: expected a JSON object on each line: expected value; JSON has no NaN",
        ),
        ("a.json", "[{\"id\": 1},\n {\"id\": -Infinity}]", "; JSON has no NaN and no Infinity, write null"),
        (
            "a.jsonl",
            "{}\n[1]\n",
            "line 2, column 0: expected a JSON object on each line: invalid type: sequence",
        ),
        ("a.jsonl", "{}\n{\"id\": \"ab\n{}\n", "line 2, column 10: expected a JSON object"),
        ("a.jsonl", "{} {}", "line 1, column 4: expected a JSON object on each line: trailing characters"),
        (
            "a.json",
            "{\"version\": 1,\n \"data\": [{}]}",
            "one JSON object with `data`, `version`; expected a list",
        ),
        ("a.csv", "id,q\n1,a\n\n2,b,c\n", "a.csv: line 4: 3 cells, the header has 2"),
        ("a.csv", "id,q\n1,\"a\nb\"\n2\n", "line 4: 1 cells, the header has 2"),
        ("a.csv", "id,q,id\n", "line 1: two columns have the name `id`"),
        ("a.csv", "id,q\n1,a\n2,\"b\n3,c\n", "line 3: a quote that is opened and not closed"),
        (
            "a.csv",
            "id,q\r\n1,\"a\r\n2,\"b\"\r\n",
            "line 2: a quote that is opened and closed within its cell",
        ),
        ("a.tsv", "id\tq\n1\t\"a\" she said\n", "line 2: a quote that is opened and closed within its cell"),
        (
            "a.jsonl",
            "{\"q\": 1}\n{\"id\": 1, \"id\": 2}\n",
            "line 2, column 18: expected a JSON object on each line: two",
        ),
        ("a.json", "[{\"a\": {\"id\": 1, \"id\": 2}}]", "two fields have the name `id`; rename one"),
        (
            "a.csv",
            "id;q;answer\n1;a;B\n",
            "line 1: one column, `id;q;answer`, which has ';' between its words",
        ),
        ("a.tsv", "id,q\n1,a\n", "which has ',' between its words"),
        ("a.xlsx", "PK", "expected rows as .parquet, .json, .jsonl, .ndjson, .csv or .tsv"),
        ("a.xlsx", "PK\u{3}\u{4}", "a spreadsheet or a zip archive; save the sheet as .csv"),
        ("a.csv", "PK\u{3}\u{4}", "a spreadsheet or a zip archive; save the sheet as .csv"),
        ("a.jsonl.gz", "\u{1f}", "unpack a compressed file"),
        ("a.json", "BZh91AY&SY", "compressed by bzip2; unpack it"),
        ("a.parquet", "id,q\n1,é\n", "a text and not parquet"),
        ("a.csv", "id,q,,\n1,a,,\n2,b,,c\n", "line 3: `c` stands in a column without a name"),
        ("a.jsonl", "version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
    ] {
        let message = rows_of(name, content).unwrap_err();
        assert!(message.contains(words) && message.contains(name), "{content:?}: {message}");
    }
    let latin = rows_of("a.csv", b"id\n1\n\xe9\n").unwrap_err();
    assert!(latin.contains("line 3 is not"), "{latin}");
}

#[test]
fn parquet_is_known_by_its_bytes_and_has_each_column_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.jsonl");
    let column = || Arc::new(Int32Array::from(vec![7, 8])) as ArrayRef;
    write(&path, vec![("id", column())]);
    assert_eq!(read_rows(&path).unwrap().len(), 2);
    let (id, other) = (Field::new("id", DataType::Int32, true), Field::new("q", DataType::Int32, true));
    let schema = Arc::new(Schema::new(vec![id.clone(), other, id]));
    let batch = RecordBatch::try_new(schema, vec![column(), column(), column()]).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let message = read_rows(&path).unwrap_err().to_string();
    assert!(message.ends_with("two columns have the name `id`; rename one"), "{message}");
}

#[test]
fn a_limit_is_named_as_one() {
    let long = format!("\"{}\"", "x".repeat(17 << 20));
    let many = "{}\n".repeat(250_001);
    for (name, content, words) in [
        ("a.json", format!("[{{\"q\": {long}}}]"), "one text of 17825792 bytes"),
        ("a.jsonl", format!("{{\"q\": [[{long}]]}}"), "one text of 17825792 bytes"),
        ("a.csv", format!("q\n{long}\n"), "one text of 17825792 bytes"),
        ("a.jsonl", many.clone(), "more than 250000 rows"),
        ("a.json", format!("[{}]", many.trim_end().replace('\n', ",")), "more than 250000 rows"),
    ] {
        let message = rows_of(name, content).unwrap_err();
        assert!(message.contains(&format!("{name}: too large: {words}")), "{message}");
        assert!(!message.contains("fetch it again"), "{message}");
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_are_rows_or_an_error(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
        text in "[\\[\\]{}\",:\\\\ \t\r\n0-9a-c]{0,200}",
    ) {
        for name in ["a.json", "a.jsonl", "a.csv", "a.tsv", "a.parquet", "a"] {
            let framed = [b"PAR1", bytes.as_slice(), &[9, 0, 0, 0], b"PAR1"].concat();
            for content in [&bytes, text.as_bytes(), &framed] {
                let _ = rows_of(name, content);
            }
        }
    }

    /// What Python's or pandas' writers make of texts is read back.
    #[test]
    fn texts_survive_csv(texts in proptest::collection::vec("[a-z\",;\r\n\té ]{1,12}", 1..6)) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["id", "q"]).unwrap();
        texts.iter().for_each(|text| writer.write_record(["1", text]).unwrap());
        let rows = rows_of("a.csv", writer.into_inner().unwrap()).unwrap();
        let read: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["q"].as_str().unwrap()).collect();
        proptest::prop_assert_eq!(read, texts);
    }
}

/// One short text, repeated by reference: small in the file, huge when every cell is a copy.
#[test]
fn a_parquet_dictionary_that_expands_to_gigabytes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    let text = "x".repeat(100_000);
    let column = StringArray::from_iter_values(std::iter::repeat_n(text.as_str(), 20_000));
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_compression(parquet::basic::Compression::SNAPPY)
        .set_dictionary_page_size_limit(1 << 20)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
        .build();
    let batch = RecordBatch::try_from_iter([("question", Arc::new(column) as ArrayRef)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < 1 << 20);
    let message = read_rows(&path).unwrap_err().to_string();
    assert!(message.contains("when decoded") && message.contains("test-00000"), "{message}");
}

#[test]
fn more_rows_or_bytes_than_any_published_file_are_refused_from_the_footer() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    write(&path, vec![("n", Arc::new(Int32Array::from(vec![7; 1_000_000])))]);
    let message = read_rows(&path).unwrap_err().to_string();
    assert!(message.contains("1000000 rows, at most 250000"), "{message}");
    assert!(!message.contains("fetch it again"), "{message}");
    let long = "y".repeat(1 << 20);
    let texts: Vec<String> = (0..300).map(|number| format!("{number}{long}")).collect();
    let batch = RecordBatch::try_from_iter([("q", Arc::new(StringArray::from(texts)) as ArrayRef)]).unwrap();
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_compression(parquet::basic::Compression::SNAPPY)
        .build();
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let message = read_rows(&path).unwrap_err().to_string();
    assert!(message.contains("bytes when decompressed"), "{message}");
}

/// A file without rows whose one column is a struct in a struct, so many deep: a footer of thrift's compact protocol.
fn nested(levels: usize) -> Vec<u8> {
    let mut count = levels + 2;
    let mut footer = vec![0x15, 2, 0x19, 0xfc];
    while count > 127 {
        footer.push(count as u8 | 128);
        count >>= 7;
    }
    footer.push(count as u8);
    footer.extend(b"\x48\x01r\x15\x02\x00");
    (0..levels).for_each(|_| footer.extend(b"\x35\x02\x18\x00\x15\x02\x00"));
    footer.extend(b"\x15\x02\x25\x02\x18\x01x\x00\x16\x00\x19\x0c\x00");
    let length = (footer.len() as u32).to_le_bytes();
    [b"PAR1".as_slice(), &footer, &length, b"PAR1"].concat()
}

#[test]
fn a_column_of_many_levels_is_refused_and_overflows_no_stack() {
    assert_eq!(rows_of("a.parquet", nested(10)), Ok(json!([])));
    let deep = "too large: a column of more than 64 levels";
    for (levels, words) in
        [(65, deep), (1000, deep), (30_000, deep), (400_000, "too large: a footer of 28000")]
    {
        let message = rows_of("a.parquet", nested(levels)).unwrap_err();
        assert!(message.contains(words), "{levels}: {message}");
    }
}

#[test]
fn pipes_and_devices_are_refused_before_they_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["pipe.parquet", "pipe.json"] {
        let path = dir.path().join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(read_rows(&path).unwrap_err().to_string().contains("not a regular file"));
    }
    let json = dir.path().join("endless.json");
    std::os::unix::fs::symlink("/dev/zero", &json).unwrap();
    assert!(read_rows(&json).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn paths_that_leave_the_data_folder_are_named_by_their_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir);
    let names = ["a/b.mp4", "./c.mp4", "/etc/passwd", "../secret", "a/../../b", "a/..", ""];
    write(&path, vec![("video", Arc::new(StringArray::from(names.to_vec())))]);
    let rows = read_rows(&path).unwrap();
    let relative = |row: usize| -> Result<String, DataError> {
        let row = PublishedRow { file: &path, row: row.into(), value: &rows[row] };
        let path: String = row.column("video")?;
        row.stays_inside("video", &path)?;
        Ok(path)
    };
    assert_eq!((relative(0).unwrap().as_str(), relative(1).unwrap().as_str()), ("a/b.mp4", "./c.mp4"));
    for (row, name) in names.iter().enumerate().take(6).skip(2) {
        let error = relative(row).unwrap_err();
        assert!(matches!(error, DataError::OutsideData { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(&format!("row {row}, column `video`: `{name}` leaves")), "{message}");
    }
    assert!(relative(6).unwrap_err().to_string().contains("row 6, column `video`: the cell is empty"));
}

const PYARROW: &str = r#"
import sys, numpy, pyarrow as pa, pyarrow.parquet as pq
columns = {
    "video": pa.array(["a.mp4", "b.mp4"]),
    "timestamp": pa.array([[numpy.float16(24.3), numpy.float16(30.4)], [numpy.float16(0), numpy.float16(35.7)]],
                          pa.list_(pa.float16())),
    "kind": pa.array(["x", None]).dictionary_encode(),
    "choices": pa.array([{"A": "pan", "B": ""}, {"A": "", "B": None}]),
    "options": pa.array([["A. 1", "B. 2"], []], pa.large_list(pa.string())),
}
for width in ("int16", "int32", "int64", "uint8"):
    columns[width] = pa.array([7, 0], getattr(pa, width)())
pq.write_table(pa.table(columns), sys.argv[1], compression=sys.argv[2])
"#;

#[test]
#[ignore = "needs Python: run by ci/test"]
fn files_written_by_pyarrow() {
    let python = std::env::var("PARAVT_PYTHON")
        .expect("PARAVT_PYTHON is not set: run ci/setup, then the tests through ci/test");
    let dir = tempfile::tempdir().unwrap();
    for compression in ["snappy", "zstd", "none", "gzip", "brotli", "lz4"] {
        let path = dir.path().join(format!("{compression}.parquet"));
        let output =
            Command::new(&python).args(["-c", PYARROW]).arg(&path).arg(compression).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rows = match (read_rows(&path), compression) {
            (Ok(rows), _) => rows,
            (Err(error), "brotli" | "lz4") => {
                let error = error.to_string();
                assert!(error.contains(&format!("column `video` is compressed by {compression}")), "{error}");
                assert!(error.contains("rewrite the file") && !error.contains("damaged"), "{error}");
                continue;
            }
            (Err(error), _) => panic!("{compression}: {error}"),
        };
        assert_eq!(
            Value::from(rows.into_iter().map(Value::Object).collect::<Vec<_>>()),
            json!([
                {"video": "a.mp4", "timestamp": [24.296875, 30.40625], "kind": "x",
                 "choices": {"A": "pan", "B": ""}, "options": ["A. 1", "B. 2"],
                 "int16": 7, "int32": 7, "int64": 7, "uint8": 7},
                {"video": "b.mp4", "timestamp": [0.0, 35.6875], "kind": null,
                 "choices": {"A": "", "B": null}, "options": [],
                 "int16": 0, "int32": 0, "int64": 0, "uint8": 0},
            ])
        );
    }
}
