//! The Prometheus text format, version 0.0.4.

use std::fmt::Write as _;

use crate::base::histogram::Counted;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only increases, from 0 at the start of the server.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Values in buckets.
    Histogram,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// The growing text.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    name: &'static str,
}

impl Exposition {
    /// Starts a counter.
    pub fn counter(&mut self, name: &'static str, help: &str) {
        self.begin(name, help, Kind::Counter);
    }

    /// Starts a gauge.
    pub fn gauge(&mut self, name: &'static str, help: &str) {
        self.begin(name, help, Kind::Gauge);
    }

    /// Starts a histogram.
    pub fn histogram(&mut self, name: &'static str, help: &str) {
        self.begin(name, help, Kind::Histogram);
    }

    fn begin(&mut self, name: &'static str, help: &str, kind: Kind) {
        self.name = name;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {}", kind.as_str()));
    }

    /// Adds a value of the current metric.
    pub fn value(&mut self, labels: &[(&str, &str)], value: f64) {
        let labels = braced(labels);
        let name = self.name;
        self.line(format_args!("{name}{labels} {value}"));
    }

    /// Adds a histogram of times, recorded in microseconds and exported in seconds.
    pub fn times(&mut self, labels: &[(&str, &str)], counted: &Counted) {
        self.ranges(labels, counted, 1_000_000.0);
    }

    /// Adds a histogram of numbers.
    pub fn counts(&mut self, labels: &[(&str, &str)], counted: &Counted) {
        self.ranges(labels, counted, 1.0);
    }

    fn ranges(&mut self, labels: &[(&str, &str)], counted: &Counted, unit: f64) {
        let name = self.name;
        for (at, count) in counted.at_most.iter().enumerate() {
            let end = counted.ends.get(at).map(|end| (*end as f64 / unit).to_string());
            let end = end.unwrap_or_else(|| "+Inf".to_owned());
            let labels = braced(&[labels, &[("le", &end)]].concat());
            self.line(format_args!("{name}_bucket{labels} {count}"));
        }
        let labels = braced(labels);
        self.line(format_args!("{name}_sum{labels} {}", counted.sum as f64 / unit));
        self.line(format_args!("{name}_count{labels} {}", counted.count()));
    }

    fn line(&mut self, words: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{words}");
    }

    /// Returns the text.
    pub fn into_text(self) -> String {
        self.text
    }
}

fn braced(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> = labels
        .iter()
        .map(|(name, value)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        })
        .collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::histogram::{Histogram, MANY};

    #[test]
    fn what_is_written_can_be_read() {
        let mut out = Exposition::default();
        out.counter("a_total", "Of\nall \\ kinds.");
        out.value(&[("kind", "x\"y\\z\n")], 3.0);
        out.histogram("b", "B.");
        let histogram = Histogram::new(MANY);
        histogram.note(3);
        out.counts(&[], &histogram.counted());
        let text = out.into_text();
        assert!(text.starts_with(
            "# HELP a_total Of\\nall \\\\ kinds.\n# TYPE a_total counter\n\
             a_total{kind=\"x\\\"y\\\\z\\n\"} 3\n# HELP b B.\n# TYPE b histogram\n\
             b_bucket{le=\"1\"} 0\nb_bucket{le=\"2\"} 0\nb_bucket{le=\"4\"} 1\n"
        ));
        assert!(text.ends_with("b_bucket{le=\"+Inf\"} 1\nb_sum 3\nb_count 1\n"), "{text}");
    }
}
