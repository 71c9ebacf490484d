//! The two signals that ask a command to end.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) name: &'static str,
    pub(crate) number: u8,
}

/// SIGTERM and SIGINT, from now on delivered here.
pub(crate) struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    /// Takes both over. To be called on a runtime.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn take_over() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Came {
        poll_fn(|cx| {
            if self.term.poll_recv(cx).is_ready() {
                return Poll::Ready(Came {
                    name: "SIGTERM",
                    number: 15,
                });
            }
            if self.int.poll_recv(cx).is_ready() {
                return Poll::Ready(Came {
                    name: "SIGINT",
                    number: 2,
                });
            }
            Poll::Pending
        })
        .await
    }
}
