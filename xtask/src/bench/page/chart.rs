//! Charts as inline SVG: lines over a logarithmic scale, and bars with their spread.
//!
//! Colours are the page's variables, by a client's name; sizes are those of a phone, and larger screens scale them.

use std::fmt::Write as _;

use super::escaped;

const WIDTH: f64 = 340.0;

/// One client's line.
#[derive(Debug)]
pub(super) struct Line {
    /// The colour's variable.
    pub(super) class: &'static str,
    pub(super) label: String,
    /// x and y; y above zero.
    pub(super) points: Vec<(f64, f64)>,
}

/// One bar.
#[derive(Debug)]
pub(super) struct Bar {
    /// The colour's variable.
    pub(super) class: &'static str,
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    /// The value in words.
    pub(super) told: String,
}

/// The powers of ten around these values.
fn decades(values: impl Iterator<Item = f64> + Clone) -> (i32, i32) {
    let least = values.clone().fold(f64::INFINITY, f64::min).max(1e-3);
    let most = values.fold(0.0, f64::max).max(least);
    let (low, high) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    (low, high.max(low + 1))
}

/// Lines over round trips, on a scale where equal ratios are equal distances.
pub(super) fn lines(lines: &[Line]) -> String {
    const HEIGHT: f64 = 210.0;
    let (left, right, top, bottom) = (40.0, WIDTH - 12.0, 10.0, HEIGHT - 24.0);
    let points = lines.iter().flat_map(|line| line.points.iter().copied());
    let (low, high) = decades(points.clone().map(|(_, y)| y));
    let widest = points.clone().map(|(x, _)| x).fold(1.0, f64::max);
    let across = |x: f64| left + (right - left) * x / widest;
    let up = |y: f64| bottom - (bottom - top) * (y.max(1e-3).log10() - f64::from(low)) / f64::from(high - low);

    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
    for power in low..=high {
        let value = 10f64.powi(power);
        let y = up(value);
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{left} {y:.1}H{right}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            left - 5.0,
            y + 4.0
        );
    }
    let mut ticks: Vec<f64> = points.map(|(x, _)| x).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    // Two labels nearer than this would lie on each other.
    let mut last = f64::NEG_INFINITY;
    for tick in ticks {
        let x = across(tick);
        if x - last < 24.0 {
            continue;
        }
        last = x;
        let _ = write!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{tick:.0}</text>",
            HEIGHT - 8.0
        );
    }
    for line in lines {
        let colour = format!("var(--{})", line.class);
        let path: Vec<String> = line
            .points
            .iter()
            .map(|(x, y)| format!("{:.1} {:.1}", across(*x), up(*y)))
            .collect();
        let _ = write!(
            svg,
            "<path d=\"M{}\" style=\"stroke:{colour};fill:none;stroke-width:2\"/>",
            path.join("L")
        );
        for (x, y) in &line.points {
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" style=\"fill:{colour}\"><title>{}: {y:.2} MB/s at {x:.0} ms</title></circle>",
                across(*x),
                up(*y),
                escaped(&line.label)
            );
        }
    }
    svg + "</svg>"
}

/// Bars under each other, from zero, with a dashed line where `mark` is. What is longer than three times the mark is cut off, with a gap
/// that says so: one of fifty would make all others look alike.
pub(super) fn bars(bars: &[Bar], mark: Option<f64>) -> String {
    const ROW: f64 = 20.0;
    // Labels are text of 11 px: about six of it a letter.
    let longest = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * 5.6 + 8.0).min(WIDTH * 0.6);
    let right = WIDTH - 52.0;
    let height = bars.len() as f64 * ROW + 6.0;
    let most = bars.iter().map(|bar| bar.most).chain(mark).fold(1e-9, f64::max);
    let most = mark.map_or(most, |mark| most.min(3.0 * mark));
    let across = |value: f64| left + (right - left) * value.min(most) / most;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
    for (at, bar) in bars.iter().enumerate() {
        let y = at as f64 * ROW + 4.0;
        let middle = y + 6.5;
        let _ = write!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"13\" rx=\"2\" style=\"fill:var(--{})\"><title>{}: {} ({:.3} to {:.3})</title></rect>\
             <path class=\"spread\" d=\"M{:.1} {middle:.1}H{:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 5.0,
            y + 10.5,
            escaped(&bar.label),
            across(bar.value) - left,
            bar.class,
            escaped(&bar.label),
            escaped(&bar.told),
            bar.least,
            bar.most,
            across(bar.least),
            across(bar.most),
            across(bar.most) + 5.0,
            y + 10.5,
            escaped(&bar.told),
        );
        if bar.value > most {
            let x = right - 14.0;
            let _ = write!(svg, "<path class=\"cut\" d=\"M{x:.1} {:.1}l6 -17\"/>", y + 15.0);
        }
    }
    if let Some(mark) = mark {
        let x = across(mark);
        let _ = write!(svg, "<path class=\"one\" d=\"M{x:.1} 0V{height}\"/>");
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_holds_all_values() {
        assert_eq!(decades([0.5, 60.0].into_iter()), (-1, 2));
        assert_eq!(decades([10.0].into_iter()), (1, 2));
        assert_eq!(decades([0.0].into_iter()), (-3, -2));
    }

    #[test]
    fn equal_ratios_are_equal_distances() {
        let svg = lines(&[Line {
            class: "h1",
            label: "rgit h1".to_owned(),
            points: vec![(0.0, 1.0), (50.0, 10.0), (100.0, 100.0)],
        }]);
        let heights: Vec<f64> = svg
            .split("cy=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().expect("a value").parse().expect("a number"))
            .collect();
        assert!((heights[0] - 2.0 * heights[1] + heights[2]).abs() < 0.2, "{heights:?}");
        assert!(heights[0] > heights[2]);
    }

    #[test]
    fn a_bar_is_as_long_as_its_value_and_has_its_spread() {
        let bar = |value: f64| Bar {
            class: "auto",
            label: "a & b".to_owned(),
            value,
            least: value / 2.0,
            most: value * 1.5,
            told: format!("{value} s"),
        };
        let svg = bars(&[bar(2.0), bar(4.0)], Some(2.0));
        let widths: Vec<f64> = svg
            .split("width=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().expect("a value").parse().expect("a number"))
            .collect();
        assert!((widths[1] - 2.0 * widths[0]).abs() < 0.2, "{widths:?}");
        assert_eq!(svg.matches("class=\"spread\"").count(), 2);
        assert_eq!(svg.matches("class=\"one\"").count(), 1);
        assert!(svg.contains("a &amp; b"));
        assert!(!svg.contains("class=\"cut\""));
        let cut = bars(&[bar(2.0), bar(40.0)], Some(1.0));
        assert_eq!(cut.matches("class=\"cut\"").count(), 1, "{cut}");
        assert!(cut.contains("40 s"), "{cut}");
    }
}
