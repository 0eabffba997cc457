//! Medians, ratios, and how they are shown.

use serde_json::{Value, json};

use crate::Asked;

/// What a row is held against.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim {
    AtLeast(f64),
    AtMost(f64),
    None,
}

/// One line of the table.
#[derive(Clone, Debug)]
struct Row {
    group: &'static str,
    name: String,
    /// What the aim is about: a ratio, or a figure with a unit.
    value: f64,
    unit: &'static str,
    aim: Aim,
    /// The figures behind it.
    about: String,
}

/// All that was measured.
pub(crate) struct Report {
    rows: Vec<Row>,
    notes: Vec<String>,
    rounds: usize,
    jobs: u32,
}

impl Report {
    pub(crate) fn new(asked: &Asked) -> Report {
        Report { rows: Vec::new(), notes: Vec::new(), rounds: asked.rounds, jobs: asked.rows }
    }

    /// Adds a ratio of two sides that were measured in turns.
    pub(crate) fn ratio(
        &mut self,
        group: &'static str,
        name: impl Into<String>,
        pairs: &[(f64, f64)],
        aim: Aim,
        about: impl Fn(f64, f64) -> String,
    ) {
        let ratios: Vec<f64> = pairs.iter().map(|(ours, theirs)| ours / theirs).collect();
        let ours = median(&pairs.iter().map(|it| it.0).collect::<Vec<_>>());
        let theirs = median(&pairs.iter().map(|it| it.1).collect::<Vec<_>>());
        self.push(group, name.into(), median(&ratios), "×", aim, about(ours, theirs));
    }

    /// Adds a figure that stands for itself.
    pub(crate) fn figure(
        &mut self,
        group: &'static str,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        aim: Aim,
        about: impl Into<String>,
    ) {
        self.push(group, name.into(), value, unit, aim, about.into());
    }

    fn push(
        &mut self,
        group: &'static str,
        name: String,
        value: f64,
        unit: &'static str,
        aim: Aim,
        about: String,
    ) {
        crate::site::progress(&format!("{group}: {name}: {} ({about})", shown(value, unit)));
        self.rows.push(Row { group, name, value, unit, aim, about });
    }

    /// Adds what could not be measured, and why.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        crate::site::progress(&text);
        self.notes.push(text);
    }

    /// Returns the table, in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "Medians of {} rounds, both sides in turns; {} jobs in the large database.\n\n\
             | | measured | aim | | figures |\n|---|---|---|---|---|\n",
            self.rounds, self.jobs
        );
        for row in &self.rows {
            text += &format!(
                "| {}: {} | **{}** | {} | {} | {} |\n",
                row.group,
                row.name,
                shown(row.value, row.unit),
                row.aim_text(),
                row.verdict(),
                row.about
            );
        }
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        text
    }

    /// Returns the same as JSON.
    pub(crate) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let (at_least, at_most) = match row.aim {
                    Aim::AtLeast(it) => (Some(it), None),
                    Aim::AtMost(it) => (None, Some(it)),
                    Aim::None => (None, None),
                };
                json!({
                    "group": row.group, "name": row.name, "value": row.value, "unit": row.unit,
                    "at_least": at_least, "at_most": at_most, "is_met": row.is_met(),
                    "figures": row.about,
                })
            })
            .collect();
        json!({"rounds": self.rounds, "jobs": self.jobs, "rows": rows, "notes": self.notes})
    }
}

impl Row {
    fn is_met(&self) -> Option<bool> {
        match self.aim {
            Aim::AtLeast(it) => Some(self.value >= it),
            Aim::AtMost(it) => Some(self.value <= it),
            Aim::None => None,
        }
    }

    fn aim_text(&self) -> String {
        match self.aim {
            Aim::AtLeast(it) => format!("≥ {}", shown(it, self.unit)),
            Aim::AtMost(it) => format!("≤ {}", shown(it, self.unit)),
            Aim::None => String::new(),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.is_met() {
            Some(true) => "met",
            Some(false) => "**short**",
            None => "",
        }
    }
}

fn shown(value: f64, unit: &str) -> String {
    let number = match value.abs() {
        it if it >= 100.0 => format!("{value:.0}"),
        it if it >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    if unit == "×" { format!("{number} ×") } else { format!("{number} {unit}") }
}

/// Returns the middle value; of an even number the upper one.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// Returns the value below which so many of a hundred lie.
pub(crate) fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or(f64::NAN)
}
