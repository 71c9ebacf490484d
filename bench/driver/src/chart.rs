//! A bar chart with whiskers as SVG. By hand: plotting libraries draw numbers along both axes, and this is names
//! along one.

use std::fmt::Write;

use crate::compare::Quartiles;

/// One bar.
pub struct Bar {
    /// Beside it.
    pub label: String,
    /// Its length, and its whiskers.
    pub rate: Quartiles,
    /// Whether it is ours.
    pub ours: bool,
}

const LABELS: f64 = 190.0;
const BARS: f64 = 430.0;
const STEP: f64 = 24.0;

/// Horizontal bars under a title, as wide as their rates in millions of records per second.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let longest = bars.iter().map(|b| b.rate.high).fold(1.0, f64::max);
    let (width, height) = (LABELS + BARS + 90.0, 34.0 + STEP * bars.len() as f64);
    let mut svg = String::new();
    // Writing into a string can't fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} \
         {height}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" \
         fill=\"#ffffff\"/>\n<text x=\"8\" y=\"18\" font-weight=\"bold\">{}</text>\n",
        escaped(title)
    );
    for (i, bar) in bars.iter().enumerate() {
        let y = 30.0 + STEP * i as f64;
        let x = |rate: f64| LABELS + rate / longest * BARS;
        let (low, median, high) = (x(bar.rate.low), x(bar.rate.median), x(bar.rate.high));
        let fill = if bar.ours { "#1b6ca8" } else { "#b0b7bd" };
        let (middle, text_y) = (y + 8.0, y + 13.0);
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{text_y}\" text-anchor=\"end\">{}</text>\n<rect x=\"{LABELS}\" y=\"{y}\" \
             width=\"{:.1}\" height=\"16\" fill=\"{fill}\"/>\n<path d=\"M{low:.1} {middle}H{high:.1}\" \
             stroke=\"#222222\"/>\n<text x=\"{:.1}\" y=\"{text_y}\">{:.2} M/s</text>\n",
            LABELS - 8.0,
            escaped(&bar.label),
            median - LABELS,
            high + 6.0,
            bar.rate.median / 1e6
        );
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
