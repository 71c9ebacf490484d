//! Where the command speaks: results on standard output, everything else on standard error.
//!
//! On a terminal a line below shows what goes on; elsewhere there are plain lines only, so that a log stays readable.
//! Writing never panics: a reader that goes away ends the command quietly.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::CliError;

/// Standard output and error, with a line of progress if there is somebody to see it.
pub(crate) struct Console {
    bar: Option<ProgressBar>,
}

impl Console {
    /// The process's own.
    pub(crate) fn new() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            match ProgressStyle::with_template("{spinner} {msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Self { bar }
    }

    /// A line of the result.
    ///
    /// # Errors
    /// When nobody reads it any more.
    pub(crate) fn line(&self, text: impl fmt::Display) -> Result<(), CliError> {
        self.aside(|| {
            let mut out = io::stdout().lock();
            writeln!(out, "{text}").and_then(|()| out.flush())
        })
        .map_err(|error| CliError::of_output(&error))
    }

    /// A remark that isn't part of the result.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        // If standard error is gone there is nobody to tell that to.
        let _told = self.aside(|| writeln!(io::stderr().lock(), "{text}"));
    }

    /// What goes on at the moment, on a terminal.
    pub(crate) fn progress(&self, text: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text());
            bar.tick();
        }
    }

    /// Whether progress is shown; if not, a long run should say something now and then.
    pub(crate) fn shows_progress(&self) -> bool {
        self.bar.is_some()
    }

    /// Takes the line of progress away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            bar.reset();
        }
    }

    fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.clear();
    }
}
