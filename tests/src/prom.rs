//! Prometheus text, as far as tests read it.

/// The samples of one scrape.
pub struct Samples(Vec<(String, String, f64)>);

impl Samples {
    /// Reads the text; fails on a line that is none.
    pub fn parse(text: &str) -> Self {
        let mut samples = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let (series, value) =
                line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
            let (name, labels) = match series.split_once('{') {
                Some((name, labels)) => (name, labels.trim_end_matches('}')),
                None => (series, ""),
            };
            let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            samples.push((name.to_owned(), labels.to_owned(), value));
        }
        Self(samples)
    }

    /// The sum over the series of `name` whose labels contain all of `labels` (as `key="value"`).
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        self.0
            .iter()
            .filter(|(known, _, _)| known == name)
            .filter(|(_, found, _)| labels.iter().all(|label| found.contains(label)))
            .map(|(_, _, value)| value)
            .sum()
    }

    /// Every name, once, in order of appearance.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _, _) in &self.0 {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// The series whose name contains `part`, with labels and value.
    pub fn series(&self, part: &str) -> Vec<(&str, &str, f64)> {
        self.0
            .iter()
            .filter(|(name, _, _)| name.contains(part))
            .map(|(name, labels, value)| (name.as_str(), labels.as_str(), *value))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_over_the_labels_asked_for() {
        let text = "# HELP a b\n# TYPE a counter\na_total{x=\"1\",y=\"2\"} 3\na_total{x=\"2\"} 4\nb 1.5\n# EOF\n";
        let samples = Samples::parse(text);
        assert_eq!(samples.sum("a_total", &[]), 7.0);
        assert_eq!(samples.sum("a_total", &["x=\"1\""]), 3.0);
        assert_eq!(samples.names(), ["a_total", "b"]);
        assert_eq!(samples.series("b"), [("b", "", 1.5)]);
    }
}
