//! Bad records: what is said of them, what is counted, and that reading goes on behind them.

use serde::{Deserialize, Serialize};

use super::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    n: i64,
}

fn counts(skipped: &SkippedRecords) -> Vec<(SkipReason, u64)> {
    skipped.by_reason().filter(|(_, n)| *n > 0).collect()
}

#[test]
fn invalid_text_names_file_line_and_byte() {
    let dir = files(&[("a.txt", b"one\ntwo\nbad \xFF text\nfour\n")]);
    let path = dir.path().join("a.txt");
    let error = said(read_all(&TextFiles::new([&path])));
    let expected = format!(
        "bad record in `{}`, line 3, byte 8: not valid UTF-8 (its byte 4). Mend it, or skip bad records with \
         OnBadRecord::Skip",
        path.display()
    );
    assert_eq!(error, expected);
    // In a split that begins in the middle of a file the line isn't known.
    let error = said(read_all(&TextFiles::new([&path]).split_size(6)));
    assert!(error.contains("a.txt`, byte 8: not valid UTF-8"), "{error}");
}

#[test]
fn skipped_text_is_counted_and_the_rest_is_read() {
    let dir = files(&[("a.txt", b"\xFF\none\n\xC3\ntwo\n\xE2\x82")]);
    let source = TextFiles::new([dir.path()]).on_bad_record(OnBadRecord::Skip);
    let skipped = source.skipped();
    assert_eq!(read_all(&source).unwrap(), ["one", "two"]);
    assert_eq!(counts(&skipped), [(SkipReason::InvalidUtf8, 3)]);
    assert_eq!(skipped.total(), 3);
}

#[test]
fn bad_json_is_located_in_its_line() {
    let dir = files(&[("a", b"{\"name\":\"x\",\"n\":1}\n\n{\"name\":\"y\",\"n\":\"2\"}\n")]);
    let error = said(read_all(&JsonLinesFiles::<Row>::new([dir.path()])));
    assert!(
        error.contains("line 3, byte 20: column 19: invalid type: string \"2\", expected i64"),
        "{error}"
    );
    for (content, says) in [
        (&b"{\"name\":\"x\"}"[..], "missing field `n`"),
        (b"{\"name\":\"x\",\"n\":1} trailing", "trailing characters"),
        (b"{\"name\":\"x\"", "EOF while parsing"),
        (b"nonsense", "expected ident"),
        (b"{\"name\":\"\xFF\",\"n\":1}", "not valid UTF-8"),
        (b"\0\0\0", "expected value"),
    ] {
        let dir = files(&[("a", content)]);
        let error = said(read_all(&JsonLinesFiles::<Row>::new([dir.path()])));
        assert!(
            error.contains(says),
            "{error} of {}",
            String::from_utf8_lossy(content)
        );
    }
}

#[test]
fn deeply_nested_json_is_an_error_and_no_overflow() {
    let dir = files(&[("a", "[".repeat(500_000).as_bytes())]);
    let error = said(read_all(&JsonLinesFiles::<serde_json::Value>::new([dir.path()])));
    assert!(error.contains("recursion limit exceeded"), "{error}");
}

#[test]
fn skipped_json_is_counted() {
    let dir = files(&[(
        "a",
        b"{\"name\":\"x\",\"n\":1}\n{}\nnull\n{\"name\":\"\xFF\",\"n\":2}\n{\"name\":\"y\",\"n\":3}",
    )]);
    let source = JsonLinesFiles::<Row>::new([dir.path()]).on_bad_record(OnBadRecord::Skip);
    let row = |name: &str, n| Row {
        name: name.to_owned(),
        n,
    };
    assert_eq!(read_all(&source).unwrap(), [row("x", 1), row("y", 3)]);
    assert_eq!(
        counts(&source.skipped()),
        [(SkipReason::InvalidUtf8, 1), (SkipReason::Malformed, 2)]
    );
}

#[test]
fn unreadable_files_fail_or_count() {
    let dir = files(&[("a", b"one\n"), ("c", b"two\n")]);
    std::os::unix::fs::symlink("nowhere", dir.path().join("b")).unwrap();
    let source = TextFiles::new([dir.path()]);
    let error = said(read_all(&source));
    let link = dir.path().join("b").display().to_string();
    assert!(
        error.starts_with(&format!("`{link}` can't be opened: No such file")),
        "{error}"
    );
    assert!(error.contains("OnBadRecord::Skip passes over"), "{error}");
    let source = source.on_bad_record(OnBadRecord::Skip);
    assert_eq!(read_all(&source).unwrap(), ["one", "two"]);
    assert_eq!(counts(&source.skipped()), [(SkipReason::UnreadableFile, 1)]);
}

#[test]
fn a_format_of_ones_own_says_what_is_bad() {
    #[derive(Clone, Default)]
    struct Numbers;

    impl LineFormat for Numbers {
        type Out = u32;

        fn parse(&self, line: Line<'_>) -> Result<Option<u32>, BadRecordReason> {
            let number = line
                .as_str()?
                .parse()
                .map_err(|e| BadRecordReason::Other(Box::new(e)))?;
            Ok((number != 0).then_some(number))
        }
    }

    let dir = files(&[("a", b"1\n0\nx\n2\n")]);
    let source = FileSource::<Numbers>::new([dir.path()]);
    assert!(said(read_all(&source)).contains("line 3, byte 4: invalid digit found in string"));
    let source = source.on_bad_record(OnBadRecord::Skip);
    assert_eq!(read_all(&source).unwrap(), [1, 2]);
    assert_eq!(counts(&source.skipped()), [(SkipReason::Malformed, 1)]);
}
