//! Every table in every format: golden files, and the same numbers in all of them.

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, UInt64Type};

use crate::common::{damaged, whole};
use paravt_reports::export::{files, write_all};
use paravt_reports::frame::Datum;
use paravt_reports::table::Table;
use paravt_reports::terminal::Detail;
use paravt_reports::{Report, terminal};
use paravt_suite::backend::Memory;
use paravt_suite::record::Record;

fn tables() -> Vec<Table> {
    let runs = [damaged(), whole("videomme", "Video-MME (w/o subtitles)", 8, 5)];
    Report::build(&runs, Some("ParaVT-8B")).unwrap().tables().unwrap()
}

fn bytes(ending: &str, table: &Table) -> Vec<u8> {
    files(table).unwrap().into_iter().find(|(other, _)| *other == ending).unwrap().1
}

fn text(ending: &str, table: &Table) -> String {
    String::from_utf8(bytes(ending, table)).unwrap()
}

#[test]
fn golden_files() {
    for table in tables() {
        for ending in ["csv", "json", "md", "tex"] {
            insta::assert_snapshot!(format!("{}.{ending}", table.name), text(ending, &table));
        }
    }
}

/// A Parquet file's bytes carry versions of their writer; what it holds is compared instead.
#[test]
fn csv_json_and_parquet_hold_the_frames_numbers_digit_for_digit() {
    for table in tables() {
        let json: Vec<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_str(&text("json", &table)).unwrap();
        let csv = bytes("csv", &table);
        let mut csv = csv::Reader::from_reader(csv.as_slice());
        let csv: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
        let bytes = bytes::Bytes::from(bytes("parquet", &table));
        let mut reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(bytes)
            .unwrap()
            .build()
            .unwrap();
        let batch = reader.next().unwrap().unwrap();
        let rows = table.rows();
        assert_eq!((json.len(), csv.len(), batch.num_rows()), (rows.len(), rows.len(), rows.len()));
        for (index, row) in rows.iter().enumerate() {
            for (position, (datum, heading)) in row.iter().zip(&table.headings).enumerate() {
                let (json, csv) = (&json[index][heading.name], &csv[index][position]);
                let column = batch.column_by_name(heading.name).unwrap();
                assert_eq!(column.is_null(index), matches!(datum, Datum::Missing));
                match datum {
                    Datum::Missing => assert!(json.is_null() && csv.is_empty()),
                    Datum::Flag(flag) => {
                        assert!(*json == *flag && csv == flag.to_string());
                        assert_eq!(column.as_boolean().value(index), *flag);
                    }
                    Datum::Text(text) => {
                        assert!(json == text && csv == text);
                        assert_eq!(column.as_string::<i32>().value(index), text);
                    }
                    Datum::Count(count) => {
                        assert!(*json == *count && csv == count.to_string());
                        assert_eq!(column.as_primitive::<UInt64Type>().value(index), *count);
                    }
                    Datum::Real(value) => {
                        assert_eq!(json.as_f64().unwrap(), *value);
                        assert_eq!(csv.parse::<f64>().unwrap(), *value);
                        assert_eq!(column.as_primitive::<Float64Type>().value(index), *value);
                    }
                }
            }
        }
    }
}

#[test]
fn markdown_and_latex_show_the_same_rounded_cells() {
    for table in tables() {
        let (markdown, latex) = (text("md", &table), text("tex", &table));
        let rows: Vec<&str> = latex.lines().filter(|line| line.ends_with("\\\\")).skip(1).collect();
        let view = table.whole();
        for (index, (line, latex)) in markdown.lines().skip(2).zip(rows).enumerate() {
            let shown: Vec<&str> = view.row(index).collect();
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let latex: Vec<&str> = latex.trim_end_matches("\\\\").split(" & ").map(str::trim).collect();
            for (position, heading) in table.headings.iter().enumerate().filter(|(_, h)| h.format.is_number())
            {
                assert_eq!(cells[position], shown[position], "{} in Markdown", heading.name);
                assert_eq!(latex[position].replace("\\textless{}", "<"), shown[position]);
            }
        }
    }
}

/// Parallel and sequential dispatch of one model differ in neither model, profile nor use of tools.
#[test]
fn runs_of_one_row_are_all_shown_in_the_published_table() {
    let run = |right| whole("videomme", "Video-MME (w/o subtitles)", 8, right);
    let mut labelled = run(2);
    labelled.manifest.label = Some("sequential".to_owned());
    let tables = Report::build(&[run(8), run(4), labelled], None).unwrap().tables().unwrap();
    let published = tables.iter().find(|table| table.name == "published").unwrap();
    let columns = published.whole().columns;
    let [models, scores, ..] = &columns[..] else { panic!("two columns") };
    let both = models.texts.iter().zip(&scores.texts).filter(|(model, _)| model.starts_with("ours"));
    let ours: Vec<[String; 2]> = both.map(|(model, score)| [model.clone(), score.clone()]).collect();
    let expected = [
        ["ours: made-up-8b, with tools (paper)", "100.0"],
        ["ours: made-up-8b, with tools (paper), 2", "50.0"],
        ["ours: sequential (paper)", "25.0"],
    ];
    assert_eq!(ours, expected.map(|row| row.map(str::to_owned)));
}

#[test]
fn memory_of_an_engine_stands_beside_its_times() {
    let run = |memory| {
        let mut run = whole("videomme", "Video-MME (w/o subtitles)", 8, 5);
        for Record { measured, .. } in &mut run.records {
            (measured.call_seconds, measured.call_retries) = (vec![0.5], vec![0]);
            measured.first_token_seconds = vec![Some(0.2)];
        }
        run.manifest.memory = memory;
        run
    };
    let runs = [run(Some(Memory { planned: 3 << 30, peak: Some(5 << 29) })), run(None)];
    let report = Report::build(&runs, None).unwrap();
    let tables = report.tables().unwrap();
    let latency = tables.iter().find(|table| table.name == "latency").unwrap();
    let csv = text("csv", latency);
    let ends: Vec<Vec<&str>> = csv.lines().map(|line| line.rsplitn(3, ',').take(2).collect()).collect();
    assert_eq!(ends, [["memory_peak_gib", "memory_planned_gib"], ["2.5", "3"], ["", ""]]);
    let shown = terminal(&report, Detail::Full).to_string();
    assert_eq!(shown.matches("memory: 3.0 GiB planned, 2.5 GiB at its peak").count(), 1, "{shown}");
}

#[test]
fn hostile_labels_do_not_break_a_table() {
    let mut run = whole("videomme", "a | b & c_d <script> \\ \"q\"\nnext, line", 2, 1);
    run.manifest.backend.model = "m|`x`".into();
    let tables = Report::build(&[run], None).unwrap().tables().unwrap();
    for table in &tables {
        let markdown = text("md", table);
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(markdown.lines().all(|line| columns(line) == table.headings.len() + 1), "{markdown}");
        assert!(!markdown.contains("<script"), "{markdown}");
        let latex = text("tex", table);
        let unescaped = |line: &str| line.replace("\\&", "").matches('&').count();
        let rows = latex.lines().filter(|line| line.ends_with("\\\\"));
        assert!(rows.map(unescaped).all(|found| found == table.headings.len() - 1), "{latex}");
    }
    let dir = tempfile::tempdir().unwrap();
    write_all(&tables, dir.path()).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), tables.len() * 5);
}

/// Names of columns in the first cells of a page's tables, by the heading above them.
fn documented(page: &str, heading: &str) -> Vec<String> {
    let section = page.split(&format!("## `{heading}`")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = cells.map(|line| line.split(" |").next().unwrap());
    names.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn every_column_of_samples_and_calls_is_documented() {
    let page = include_str!("../../../suite/docs/frames.md");
    for table in paravt_reports::tables::records(&[damaged()]) {
        let columns: Vec<&str> = table.headings.iter().map(|heading| heading.name).collect();
        assert_eq!(columns, documented(page, table.name), "{} in suite/docs/frames.md", table.name);
    }
}
