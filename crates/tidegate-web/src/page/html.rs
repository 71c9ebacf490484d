//! Text, quantities and times on their way into HTML.

use std::fmt;
use std::time::Duration;

/// Text that can't be taken for markup.
pub(super) struct Text<'a>(pub(super) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            let (plain, special) = rest.split_at(at);
            f.write_str(plain)?;
            f.write_str(match special.as_bytes()[0] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                _ => "&#39;",
            })?;
            rest = &special[1..];
        }
        f.write_str(rest)
    }
}

/// Bytes in a unit that keeps the figure short.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", UNITS[unit])
    }
}

/// A duration in a unit that keeps the figure short.
pub(super) struct Span(pub(super) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.as_nanos());
        match seconds {
            0 if nanos == 0 => f.write_str("0"),
            0 if nanos < 1_000_000 => write!(f, "{:.0} µs", nanos as f64 / 1e3),
            0 => write!(f, "{:.1} ms", nanos as f64 / 1e6),
            1..60 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            60..3600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            3600..86_400 => write!(f, "{} h {} min", seconds / 3600, seconds / 60 % 60),
            _ => write!(f, "{} d {} h", seconds / 86_400, seconds / 3600 % 24),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        let text = "<b>\"Tom\" & 'Jerry'</b>, é";
        assert_eq!(
            Text(text).to_string(),
            "&lt;b&gt;&quot;Tom&quot; &amp; &#39;Jerry&#39;&lt;/b&gt;, é"
        );
        assert_eq!(Text("").to_string(), "");
    }

    #[test]
    fn quantities_are_short() {
        let bytes: Vec<String> = [0, 1023, 1024, 1_572_864, u64::MAX]
            .map(|n| Bytes(n).to_string())
            .into();
        assert_eq!(bytes, ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "16.0 EiB"]);
        let spans = [
            Duration::ZERO,
            Duration::from_nanos(1500),
            Duration::from_micros(1500),
            Duration::from_millis(1500),
            Duration::from_secs(61),
            Duration::from_secs(7260),
            Duration::from_secs(90_000),
        ];
        let spans: Vec<String> = spans.map(|span| Span(span).to_string()).into();
        assert_eq!(
            spans,
            [
                "0",
                "2 µs",
                "1.5 ms",
                "1.5 s",
                "1 min 1 s",
                "2 h 1 min",
                "1 d 1 h"
            ]
        );
    }
}
