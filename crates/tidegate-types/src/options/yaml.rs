//! Reads a configuration file's YAML as a list of dotted keys with their texts and lines.
//!
//! Nested and flat forms mix freely: `execution: {checkpointing.interval: 10 s}` is one key. Scalars are taken
//! as they are written (`off` stays `off`, `1_000` stays `1_000`): their type is the option's, not YAML's guess.
//! Does not own which keys there are. Reads events, builds no tree, follows no aliases, so a small file can't
//! grow large.

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, Span};

use super::error::{OptionError, Origin, shortened};

/// Longest file that is read, in bytes; real ones have a few kilobytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// Deepest nesting; keys have at most half a dozen parts.
const MAX_DEPTH: usize = 32;

/// One key of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The dotted key.
    pub key: String,
    /// The scalar as written, quotes and escapes resolved.
    pub text: String,
    /// Line of the key, from 1.
    pub line: usize,
}

/// Reads a whole file. What is wrong with single keys goes into `problems` and the rest is still read; what is
/// wrong with the YAML ends it.
pub(super) fn read(file: &str, text: &str, problems: &mut Vec<OptionError>) -> Vec<Entry> {
    let mut reader = Reader {
        file,
        problems,
        path: Vec::new(),
        pending: None,
        skipping: 0,
        entries: Vec::new(),
    };
    if text.len() > MAX_FILE_BYTES {
        let problem = format!("the file has {} bytes, more than {MAX_FILE_BYTES}", text.len());
        reader.refuse((1, 1), problem);
        return reader.entries;
    }
    let mut options = Options::default();
    options.emit_comments = false;
    options.block_nesting_limit = MAX_DEPTH;
    options.flow_nesting_limit = MAX_DEPTH;
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((Event::DocumentStart(..), span)) => {
                documents += 1;
                if documents > 1 {
                    Err((
                        position(&span),
                        "a second document begins; a configuration file has one".to_owned(),
                    ))
                } else {
                    Ok(())
                }
            }
            Ok((event, span)) => reader.event(event, &span),
            Err(error) => {
                let mark = error.marker();
                Err(((mark.line(), mark.col() + 1), in_words(error.kind())))
            }
        };
        if let Err((at, problem)) = step {
            reader.refuse(at, problem);
            break;
        }
    }
    reader.entries
}

/// What is wrong with the YAML: the parser's words, or ours where those say nothing of what to do.
fn in_words(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::RecursionLimitExceeded => format!("nested deeper than {MAX_DEPTH} levels"),
        ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation => {
            "a tab where YAML wants spaces".to_owned()
        }
        ErrorKind::UnexpectedCharacter { character } => {
            format!("the character `{}` can't stand here", character.escape_default())
        }
        kind => match kind.to_string() {
            said if said.is_empty() => "this isn't YAML".to_owned(),
            said => said,
        },
    }
}

/// Line and column, both from 1.
type Position = (usize, usize);

fn position(span: &Span) -> Position {
    (span.start.line(), span.start.col() + 1)
}

struct Reader<'a> {
    file: &'a str,
    problems: &'a mut Vec<OptionError>,
    /// The keys of the mappings that are open; the outermost has none.
    path: Vec<Option<String>>,
    /// A key whose value comes next, with its line.
    pending: Option<(String, usize)>,
    /// How many collections of a refused value are open.
    skipping: usize,
    entries: Vec<Entry>,
}

impl Reader<'_> {
    fn refuse(&mut self, (line, column): Position, problem: String) {
        self.problems.push(OptionError::Yaml {
            file: self.file.to_owned(),
            line,
            column,
            problem,
        });
    }

    fn origin(&self, line: usize) -> Origin {
        Origin::File {
            name: self.file.to_owned(),
            line,
        }
    }

    /// The dotted key of `last` inside the open mappings.
    fn dotted(&self, last: &str) -> String {
        let parts = self.path.iter().flatten().map(String::as_str).chain([last]);
        parts.collect::<Vec<_>>().join(".")
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), (Position, String)> {
        if self.skipping > 0 {
            match event {
                Event::SequenceStart(..) | Event::MappingStart(..) => self.skipping += 1,
                Event::SequenceEnd | Event::MappingEnd => self.skipping -= 1,
                _ => {}
            }
            return Ok(());
        }
        match event {
            Event::Scalar(text, style, ..) => self.scalar(&text, style, span),
            Event::MappingStart(..) => {
                if !self.path.is_empty() && self.pending.is_none() {
                    return Err((position(span), "a key can't be a mapping".to_owned()));
                }
                self.path.push(self.pending.take().map(|(key, _)| key));
                Ok(())
            }
            Event::MappingEnd => {
                self.path.pop();
                Ok(())
            }
            Event::SequenceStart(..) => match self.pending.take() {
                Some((key, line)) => {
                    let (key, origin) = (shortened(&self.dotted(&key)), self.origin(line));
                    self.problems.push(OptionError::List { key, origin });
                    self.skipping = 1;
                    Ok(())
                }
                None => Err((
                    position(span),
                    "expected `key: value` lines, found a list".to_owned(),
                )),
            },
            Event::Alias(..) | Event::UnresolvedAlias(..) => Err((
                position(span),
                "aliases (`*name`) aren't read; write the value out".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: &Span) -> Result<(), (Position, String)> {
        let empty = style == ScalarStyle::Plain && matches!(text, "" | "~" | "null");
        match self.pending.take() {
            Some((key, line)) => {
                let key = self.dotted(&key);
                if empty {
                    let (key, origin) = (shortened(&key), self.origin(line));
                    self.problems.push(OptionError::NoValue { key, origin });
                } else {
                    self.entries.push(Entry {
                        key,
                        text: text.to_owned(),
                        line,
                    });
                }
                Ok(())
            }
            None if !self.path.is_empty() => {
                self.pending = Some((text.to_owned(), span.start.line()));
                Ok(())
            }
            // A document of comments only is an empty scalar.
            None if empty => Ok(()),
            None => Err((position(span), "expected `key: value` lines".to_owned())),
        }
    }
}
