//! CSV: what is a record, what it becomes, and what is bad.

use serde::{Deserialize, Serialize};

use super::super::csv::CsvCursor;
use super::super::format::{Cursor, Step};
use super::super::input::Input;
use super::splits::{Trickle, split_of};
use super::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    n: i64,
}

fn row(name: &str, n: i64) -> Row {
    Row {
        name: name.to_owned(),
        n,
    }
}

fn rows(content: &[u8]) -> Result<Vec<Row>, BoxError> {
    let dir = files(&[("a.csv", content)]);
    read_all(&CsvFiles::<Row>::new([dir.path()]))
}

#[test]
fn quotes_line_ends_and_headers_in_any_order() {
    let content =
        b"\xEF\xBB\xBFn,name\r\n1,plain\r\n2,\"quo\"\"ted\"\r\n3,\"two\nlines, one\r\nfield\"\r\n\r\n4,last";
    let expected = [
        row("plain", 1),
        row("quo\"ted", 2),
        row("two\nlines, one\r\nfield", 3),
        row("last", 4),
    ];
    assert_eq!(rows(content).unwrap(), expected);
}

#[test]
fn delimiters_quotes_comments_and_no_header() {
    let dir = files(&[("a.csv", b"# made by hand\n'a;b';1\n#x;9\nc;2\n# the end")]);
    let source = CsvFiles::<Row>::new([dir.path()])
        .delimiter(b';')
        .quote(b'\'')
        .comment(b'#')
        .header(false);
    assert_eq!(read_all(&source).unwrap(), [row("a;b", 1), row("c", 2)]);
}

#[test]
fn a_file_is_one_split_whatever_the_split_size() {
    let dir = files(&[("a.csv", b"name,n\na,1\nb,2\n"), ("b.csv", b"name,n\nc,3\n")]);
    let source = CsvFiles::<Row>::new([dir.path()]).split_size(3);
    assert_eq!(splits(&mut source.enumerator(None).unwrap()).len(), 2);
    assert_eq!(
        read_all(&source).unwrap(),
        [row("a", 1), row("b", 2), row("c", 3)]
    );
}

#[test]
fn files_with_nothing_in_them() {
    for content in [&b""[..], b"name,n", b"name,n\n", b"\n\r\n", b"\xEF\xBB\xBF"] {
        assert_eq!(rows(content).unwrap(), [], "{content:?}");
    }
}

#[test]
fn what_is_bad_and_where() {
    for (content, says) in [
        (&b"name,n\na,1\nb\n"[..], "line 3, byte 11: 1 fields instead of 2"),
        (
            b"name,n\na,1\n\nb,2,3\n",
            "line 4, byte 12: 3 fields instead of 2",
        ),
        (
            b"name,n\na,x\n",
            "line 2, byte 7: CSV deserialize error: field 1: invalid digit found in string",
        ),
        (b"name,m\na,1\n", "missing field `n`"),
        (
            b"name,n\n\xFF\xFE,1\n",
            "line 2, byte 7: not valid UTF-8 (its byte 0)",
        ),
        (
            b"name,n\na,1\n\"b,2\nc,3\n",
            "line 3, byte 11: a quote is opened and never closed",
        ),
        (
            b"name,n\na,\"1",
            "line 2, byte 7: a quote is opened and never closed",
        ),
        (
            b"\"name,n\na,1\n",
            "line 1, byte 0: a quote is opened and never closed",
        ),
    ] {
        let error = said(rows(content));
        assert!(
            error.contains(says),
            "{error} of {}",
            String::from_utf8_lossy(content)
        );
    }
}

#[test]
fn skipping_goes_on_behind_each() {
    let content = b"name,n\na,1\nb\nc,x\n\xFF,1\nd,4,5\ne,5\n\"open,6\n";
    let dir = files(&[
        ("a.csv", content),
        ("b.csv", b"\"bad header\n"),
        ("c.csv", b"name,n\nf,6\n"),
    ]);
    let source = CsvFiles::<Row>::new([dir.path()]).on_bad_record(OnBadRecord::Skip);
    assert_eq!(
        read_all(&source).unwrap(),
        [row("a", 1), row("e", 5), row("f", 6)]
    );
    let skipped = source.skipped();
    assert_eq!(
        (
            skipped.count(SkipReason::Malformed),
            skipped.count(SkipReason::InvalidUtf8)
        ),
        (5, 1)
    );
}

#[test]
fn flexible_records() {
    let dir = files(&[("a.csv", b"a,b\nc\nd,e,f\n")]);
    let source = CsvFiles::<Vec<String>>::new([dir.path()])
        .header(false)
        .flexible(true);
    assert_eq!(
        read_all(&source).unwrap(),
        [vec!["a", "b"], vec!["c"], vec!["d", "e", "f"]]
    );
}

#[test]
fn the_same_with_a_few_bytes_at_a_time() {
    let content = b"\xEF\xBB\xBFone,\"two\r\n\"\"2\"\"\"\r\n#c\r\n\r\n,\r\n\"\",x\r\nlast,\"\"".to_vec();
    let read = |step: usize| {
        let split = split_of(&content, 0, content.len() as u64);
        let file = Trickle {
            bytes: content.clone(),
            at: 0,
            step,
        };
        let input = Input::new(Box::new(file), &split, 0);
        let dir = tempfile::tempdir().unwrap();
        let mut format = None;
        let _source = CsvFiles::<(String, String)>::new([dir.path()])
            .header(false)
            .comment(b'#')
            .map_format(|f| format.insert(f).clone());
        let mut cursor = CsvCursor::new(&format.unwrap(), input, 1000);
        let mut found = Vec::new();
        loop {
            match cursor.step().unwrap() {
                Step::Record(record) => found.push(record),
                Step::Nothing | Step::Working => {}
                Step::Bad(bad) => panic!("{bad}"),
                Step::End => return (found, cursor.position()),
            }
        }
    };
    let whole = read(1000);
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let expected = [
        pair("one", "two\r\n\"2\""),
        pair("", ""),
        pair("", "x"),
        pair("last", ""),
    ];
    assert_eq!(whole.0, expected);
    for step in 1..20 {
        assert_eq!(read(step), whole, "{step} bytes at a time");
    }
}
