//! Figures and tables as people read them.

use std::time::Duration;

/// Milliseconds with three decimals, for JSON.
pub(crate) fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// A duration with three digits or so: `845 µs`, `36.2 ms`, `1.78 s`.
pub(crate) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 0.9995 => format!("{s:.2} s"),
        s if s >= 0.1 => format!("{:.0} ms", s * 1e3),
        s if s >= 0.000_999_5 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

/// Bytes in decimal units: `812 B`, `7.1 KB`, `653 KB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1e3;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    let decimals = if value < 9.95 { 1 } else { 0 };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A count with its thousands apart: `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A word in the singular or with an `s`.
pub(crate) fn plural(n: u64, word: &str) -> String {
    format!("{} {word}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Least, median and greatest of some figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spread<T> {
    pub(crate) min: T,
    pub(crate) median: T,
    pub(crate) max: T,
}

/// The spread of some figures; `None` if there are none. Of an even number the median is between the middle two.
pub(crate) fn spread(figures: impl IntoIterator<Item = u64>) -> Option<Spread<u64>> {
    let mut figures: Vec<u64> = figures.into_iter().collect();
    figures.sort_unstable();
    let (min, max) = (*figures.first()?, *figures.last()?);
    let (low, high) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
    Some(Spread {
        min,
        median: low + (high - low) / 2,
        max,
    })
}

/// The same for durations.
pub(crate) fn spread_of_times(times: impl IntoIterator<Item = Duration>) -> Option<Spread<Duration>> {
    let nanos = times
        .into_iter()
        .map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
    let Spread { min, median, max } = spread(nanos)?;
    let time = Duration::from_nanos;
    Some(Spread {
        min: time(min),
        median: time(median),
        max: time(max),
    })
}

/// A table whose columns are as wide as they have to be. The first and the last column hold words and begin at the
/// left, figures in between end at the right.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(at, (cell, width))| match at {
                at if at == 0 || at + 1 == head.len() => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    std::iter::once(line(&head))
        .chain(rows.iter().map(|row| line(row)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_about_three_digits() {
        let times = [
            (0, "0 µs"),
            (845, "845 µs"),
            (1000, "1.0 ms"),
            (36_210, "36.2 ms"),
            (303_400, "303 ms"),
        ];
        for (micros, text) in times {
            assert_eq!(time(Duration::from_micros(micros)), text);
        }
        assert_eq!(time(Duration::from_millis(1780)), "1.78 s");
        assert_eq!(time(Duration::from_millis(999)), "999 ms");
        assert_eq!(time(Duration::from_millis(61_400)), "61.4 s");
        let sizes = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KB"),
            (7130, "7.1 KB"),
            (652_800, "653 KB"),
        ];
        for (bytes, text) in sizes {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size(999_700), "1.0 MB");
        assert_eq!(size(u64::MAX), "18447 PB");
        assert_eq!(
            [count(0), count(999), count(1000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [plural(1, "record"), plural(2, "record")],
            ["1 record", "2 records"]
        );
        assert_eq!(ms(Duration::from_nanos(1_234_567)), 1.235);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(spread([]), None);
        assert_eq!(
            spread([7]),
            Some(Spread {
                min: 7,
                median: 7,
                max: 7
            })
        );
        assert_eq!(
            spread([9, 1, 4, 2]),
            Some(Spread {
                min: 1,
                median: 3,
                max: 9
            })
        );
        assert_eq!(
            spread([u64::MAX, u64::MAX]),
            Some(Spread {
                min: u64::MAX,
                median: u64::MAX,
                max: u64::MAX
            })
        );
    }

    #[test]
    fn tables_are_as_wide_as_their_cells() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "10 ms", "exact"]), row(["longer", "µ", ""])];
        assert_eq!(
            table(&["name", "took", "counts"], &rows),
            ["name     took  counts", "a       10 ms  exact", "longer      µ"]
        );
    }
}
