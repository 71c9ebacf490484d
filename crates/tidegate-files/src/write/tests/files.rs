//! What stands in files: cuts, rolling, formats, and what is left of a writer that goes.

use serde::{Deserialize, Serialize};
use tidegate_runtime::source::{NextSplit, Source};

use super::super::staging::BUFFER_BYTES;
use super::*;

fn settled<E: Encoder<String>>(sink: &FileSink<E>) -> AnyCommitter {
    let mut committer = committer(sink, cx(0));
    committer.settle(Vec::new()).unwrap();
    committer
}

#[test]
fn a_cut_divides_records_between_files() {
    let dir = tempfile::tempdir().unwrap();
    let sink = FileSink::text(dir.path());
    let mut committer = settled(&sink);
    let mut writer = writer(&sink, cx(3));
    write(&mut writer, lines(&["a", "b"]));
    let first = writer.prepare(CheckpointId(5)).unwrap().unwrap();
    // Written after the cut, before what was cut is prepared.
    write(&mut writer, lines(&["c"]));
    let second = writer.prepare(CheckpointId(6)).unwrap().unwrap();
    let (second, first) = (second().unwrap(), first().unwrap());
    committer
        .commit([first.clone(), second.clone()].concat())
        .unwrap();
    assert_eq!(read(dir.path().join(&first[0].name)), "a\nb\n");
    assert_eq!(read(dir.path().join(&second[0].name)), "c\n");
    assert!(first[0].name.ends_with("-3-0-5-0.txt") && second[0].name.ends_with("-3-0-6-0.txt"));
}

#[test]
fn nothing_written_is_nothing_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let sink = FileSink::with(dir.path(), "bin", |record: &Vec<u8>, out: &mut Vec<u8>| {
        out.extend(record);
        Ok(())
    });
    let mut writer = writer(&sink, cx(0));
    assert!(writer.prepare(CheckpointId(1)).unwrap().is_none());
    write(&mut writer, [vec![], vec![]]);
    assert!(
        writer.prepare(CheckpointId(2)).unwrap().is_none(),
        "records of no bytes make no file"
    );
    write(&mut writer, [vec![7]]);
    let files = prepare(&mut writer, 3).unwrap();
    assert_eq!((files.len(), files[0].bytes), (1, 1));
    assert!(writer.prepare(CheckpointId(4)).unwrap().is_none());
    assert_eq!(names(dir.path()), [files[0].staging.clone()]);
}

#[test]
fn files_larger_than_the_buffer_have_their_checksum() {
    let dir = tempfile::tempdir().unwrap();
    let sink = FileSink::text(dir.path());
    let mut committer = settled(&sink);
    let mut writer = writer(&sink, cx(0));
    let records: Vec<String> = (0..200_000).map(|n| format!("record {n}")).collect();
    write(&mut writer, records.clone());
    assert!(names(dir.path()).len() == 1, "it is written while records come");
    let files = prepare(&mut writer, 1).unwrap();
    assert!(files[0].bytes > 8 * BUFFER_BYTES as u64);
    committer.commit(files.clone()).unwrap();
    // Read back and compared with length and checksum.
    self::committer(&sink, restored(0, 1)).settle(files).unwrap();
    assert!(visible(dir.path()).concat().lines().eq(records.iter()));
}

#[test]
fn rolling_makes_several_files_in_order_and_divides_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let sink = FileSink::text(dir.path()).roll_at(100);
    let mut committer = settled(&sink);
    let mut writer = writer(&sink, cx(0));
    let records: Vec<String> = (0..1000).map(|n| format!("record {n}")).collect();
    let mut all = Vec::new();
    for (id, part) in records.chunks(400).enumerate() {
        write(&mut writer, part.to_vec());
        all.extend(prepare(&mut writer, id as u64 + 1).unwrap());
    }
    committer.commit(all.clone()).unwrap();
    assert!(all.len() > 90, "{} files", all.len());
    assert!(all.iter().all(|file| file.bytes <= 100 + 11));
    let content: String = all.iter().map(|file| read(dir.path().join(&file.name))).collect();
    assert!(content.lines().eq(records.iter()));
    assert_eq!(hidden(dir.path()), Vec::<String>::new());
    assert!(all[1].name.ends_with("-1-1.txt") && all.last().unwrap().name.contains("-0-0-3-"));
}

#[test]
fn what_wasnt_prepared_goes_with_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let sink = FileSink::text(dir.path()).roll_at(BUFFER_BYTES as u64);
    let big = || std::iter::repeat_n("x".repeat(1000), 1000);
    let mut closed = writer(&sink, cx(0));
    write(&mut closed, big());
    assert!(names(dir.path()).len() > 2);
    closed.close();
    assert_eq!(names(dir.path()), Vec::<String>::new());
    let mut dropped = writer(&sink, cx(1));
    write(&mut dropped, big());
    drop(dropped);
    let mut never_run = writer(&sink, cx(2));
    write(&mut never_run, big());
    drop(never_run.prepare(CheckpointId(1)).unwrap().unwrap());
    assert_eq!(names(dir.path()), Vec::<String>::new());
    let mut prepared = writer(&sink, cx(3));
    write(&mut prepared, big());
    let files = prepare(&mut prepared, 1).unwrap();
    prepared.close();
    drop(prepared);
    assert_eq!(
        names(dir.path()).len(),
        files.len(),
        "prepared files are the committer's"
    );
}

#[test]
fn an_encoder_that_refuses_a_record() {
    let dir = tempfile::tempdir().unwrap();
    let sink = FileSink::with(dir.path(), "bin", |record: &String, out: &mut Vec<u8>| {
        out.extend(record.as_bytes());
        if record == "bad" {
            Err("I don't like it".into())
        } else {
            Ok(())
        }
    });
    let mut writer = writer(&sink, cx(0));
    write(&mut writer, lines(&["good"]));
    assert_eq!(
        said(writer.write("bad".into(), None)),
        "a record can't be written: I don't like it"
    );
    assert_eq!(
        prepare(&mut writer, 1).unwrap()[0].bytes,
        4,
        "half a record isn't written"
    );
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    n: Option<i64>,
}

fn rows() -> Vec<Row> {
    let row = |name: &str, n| Row {
        name: name.to_owned(),
        n,
    };
    vec![
        row("plain", Some(1)),
        row("with, \"all\"\r\nof it", None),
        row("", Some(-3)),
    ]
}

/// Writes with a sink, two checkpoints of one file each, and reads with a source.
fn there_and_back<E: Encoder<Row>, F: crate::Format<Out = Row> + Default>(
    sink: impl Fn(&Path) -> FileSink<E>,
) -> (Vec<String>, Vec<Row>) {
    let dir = tempfile::tempdir().unwrap();
    let sink = sink(dir.path());
    let mut writer: Writer<Row> = writer(&sink, cx(0));
    let mut committer = Sink::<Row>::committer(&sink, cx(0)).unwrap().unwrap();
    for id in 1..3 {
        write(&mut writer, rows());
        committer.commit(prepare(&mut writer, id).unwrap()).unwrap();
    }
    let source = crate::FileSource::<F>::new([dir.path()]);
    let mut enumerator = source.enumerator(None).unwrap();
    let mut reader = crate::read::tests::reader(&source);
    let mut back = Vec::new();
    while let NextSplit::Split(split) = enumerator.next_split(SubtaskIndex(0)).unwrap() {
        reader.add_split(split).unwrap();
        back.extend(crate::read::tests::drain(&mut reader, 10).unwrap());
    }
    (visible(dir.path()), back)
}

#[test]
fn csv_has_its_header_in_each_file_and_is_read_back() {
    let (files, back) = there_and_back::<_, crate::Csv<Row>>(|dir| FileSink::csv(dir));
    assert_eq!(back, [rows(), rows()].concat());
    assert_eq!(files[0], files[1]);
    assert_eq!(
        files[0],
        "name,n\nplain,1\n\"with, \"\"all\"\"\r\nof it\",\n,-3\n"
    );
    let dir = tempfile::tempdir().unwrap();
    let bare = FileSink::new(
        dir.path(),
        "csv",
        CsvEncoder::default().delimiter(b';').header(false),
    );
    let mut writer = writer(&bare, cx(0));
    write(&mut writer, [(1, "a;b"), (2, "c")]);
    let file = prepare(&mut writer, 1).unwrap().remove(0);
    assert_eq!(read(dir.path().join(file.staging)), "1;\"a;b\"\n2;c\n");
}

#[test]
fn json_lines_are_read_back() {
    let (files, back) = there_and_back::<_, crate::JsonLines<Row>>(|dir| FileSink::json_lines(dir));
    assert_eq!(back, [rows(), rows()].concat());
    assert_eq!(files[0].lines().next(), Some("{\"name\":\"plain\",\"n\":1}"));
}

#[test]
fn options_that_make_no_sense() {
    let refused = |sink: FileSink<TextEncoder>| said(Sink::<String>::writer(&sink, cx(0)).map(|_| ()));
    let sink = || FileSink::text("out");
    for bad in ["", ".part", "a/b", ".."] {
        assert!(
            refused(sink().prefix(bad)).starts_with("prefix: must be the beginning"),
            "{bad}"
        );
    }
    assert!(refused(sink().extension("a/b")).starts_with("extension: must be the end"));
    assert!(refused(sink().prefix("x".repeat(126))).starts_with("prefix and extension: are longer"));
    assert!(refused(sink().roll_at(0)).starts_with("roll_at: must be at least one byte"));
    let committer = Sink::<String>::committer(&sink().roll_at(0), cx(0)).map(|_| ());
    assert!(said(committer).starts_with("roll_at"));
}
