//! What is said of a panic: one line. The process belongs to the command, so the hook is its to set; the library
//! catches panics of user code and never sets one.

use std::io::Write;
use std::panic::PanicHookInfo;

/// Makes panics one line on standard error. A task that panics fails, and the job says so; a panic elsewhere is a
/// bug.
pub(crate) fn install() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        // With standard error gone there is nobody to tell.
        let _told = writeln!(std::io::stderr().lock(), "{}", line(thread.name(), info));
    }));
}

fn line(thread: Option<&str>, info: &PanicHookInfo<'_>) -> String {
    let said = info.payload_as_str().unwrap_or("(no message)").replace('\n', " ");
    let place = info
        .location()
        .map(|at| format!(" ({}:{})", at.file(), at.line()))
        .unwrap_or_default();
    match thread {
        Some("main") | None => format!("a bug in tidegate: {said}{place}. Please report this"),
        Some(name) => format!("panic in `{name}`: {said}{place}"),
    }
}
