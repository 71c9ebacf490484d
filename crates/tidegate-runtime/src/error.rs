//! What can go wrong while a task runs, and whose fault it is.

use std::fmt;

use tidegate_types::OperatorUid;

/// What user code may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error of one operator, with its place.
#[derive(Debug, thiserror::Error)]
#[error("operator `{uid}`{}: {source}", at(place))]
pub struct OpError {
    /// The operator.
    pub uid: OperatorUid,
    /// Where in it, e.g. a file and offset or a state's name; may be empty.
    pub place: String,
    /// Whether a restart can help. A changed type or a wrong hash doesn't heal by itself.
    pub retryable: bool,
    /// What happened.
    #[source]
    pub source: BoxError,
}

fn at(place: &str) -> impl fmt::Display + '_ {
    struct Place<'a>(&'a str);
    impl fmt::Display for Place<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            if self.0.is_empty() {
                Ok(())
            } else {
                write!(f, ", {}", self.0)
            }
        }
    }
    Place(place)
}

impl OpError {
    /// An error of user code, worth a restart.
    pub fn user(uid: &OperatorUid, source: impl Into<BoxError>) -> Self {
        Self {
            uid: uid.clone(),
            place: String::new(),
            retryable: true,
            source: source.into(),
        }
    }

    /// An error that a restart doesn't heal.
    pub fn fatal(uid: &OperatorUid, place: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self {
            uid: uid.clone(),
            place: place.into(),
            retryable: false,
            source: source.into(),
        }
    }
}

/// The error and what caused it, as one line. A cause that the text has in it already isn't said again.
pub fn chain_of(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
