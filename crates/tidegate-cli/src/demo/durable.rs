//! What the disk costs by itself: the yardstick beside a checkpoint's duration.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use tidegate_types::Nanos;

use crate::error::CliError;
use crate::render::spread_of_times;

/// Writes of which the median is taken.
const WRITES: usize = 11;

/// The median time of a bare durable write of so many bytes: create a file in `dir`, write it, sync it, sync the
/// directory.
pub(crate) fn median_write(dir: &Path, bytes: u64, now: &dyn Fn() -> Nanos) -> Result<Duration, CliError> {
    let payload = vec![0x5a; usize::try_from(bytes).unwrap_or(usize::MAX).min(1 << 30)];
    let times: io::Result<Vec<Duration>> = (0..WRITES)
        .map(|n| write(&dir.join(format!("bare-{n}")), dir, &payload, now))
        .collect();
    let times =
        times.map_err(|error| CliError::Failed(format!("`{}` can't be written: {error}", dir.display())))?;
    Ok(spread_of_times(times).map_or(Duration::ZERO, |spread| spread.median))
}

fn write(path: &Path, dir: &Path, payload: &[u8], now: &dyn Fn() -> Nanos) -> io::Result<Duration> {
    let from = now();
    let mut file = File::create_new(path)?;
    file.write_all(payload)?;
    file.sync_all()?;
    File::open(dir)?.sync_all()?;
    let took = now().since(from);
    std::fs::remove_file(path)?;
    Ok(took)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn it_writes_all_times_and_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + 500);
            Nanos(clock.get())
        };
        assert_eq!(
            median_write(dir.path(), 4096, &now).expect("it is writable"),
            Duration::from_nanos(500)
        );
        assert_eq!(clock.get(), 1000 * WRITES as u64);
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0);
        assert!(median_write(&dir.path().join("none"), 1, &now).is_err());
    }
}
