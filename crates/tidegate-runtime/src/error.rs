//! What can go wrong while a task runs, and whose fault it is.

use std::fmt;

use tidegate_types::OperatorUid;

/// What user code may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error that a restart doesn't heal: a record that will be as bad again, a changed input. User code and connectors
/// that return one end the job at once, whatever the restart strategy says (Flink: `SuppressRestartsException`).
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Permanent(pub BoxError);

impl Permanent {
    /// Marks an error.
    pub fn boxed(error: impl Into<BoxError>) -> BoxError {
        Box::new(Self(error.into()))
    }
}

/// Whether an error, or what caused it, is [`Permanent`].
pub fn is_permanent(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<Permanent>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// Calls user code outside of a task, where its panic would take more with it than one attempt.
///
/// # Errors
/// Its own, or what it panicked with.
pub fn guarded<T>(user: impl FnOnce() -> Result<T, BoxError>) -> Result<T, BoxError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(user)).unwrap_or_else(|panic| {
        let said = crate::driver::threads::panic_text(&*panic);
        Err(format!("user code panicked: {said}").into())
    })
}

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
    /// An error of user code, worth a restart unless it is [`Permanent`].
    pub fn user(uid: &OperatorUid, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        Self {
            uid: uid.clone(),
            place: String::new(),
            retryable: !is_permanent(&*source),
            source,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] BoxError);

    #[test]
    fn what_is_permanent_stays_so_under_other_errors_and_says_the_same() {
        let uid = OperatorUid::new("map");
        let plain = OpError::user(&uid, "bad record");
        let marked = OpError::user(&uid, Permanent::boxed("bad record"));
        assert_eq!(chain_of(&plain), chain_of(&marked));
        assert!(plain.retryable && !marked.retryable);
        let wrapped: BoxError = Box::new(Outer(Permanent::boxed("bad record")));
        assert!(!OpError::user(&uid, wrapped).retryable);
    }
}
