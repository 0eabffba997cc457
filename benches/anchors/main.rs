//! How often anchors are placed correctly, wrongly or not at all, compared with the Hypothesis
//! client's quote matching: on synthetic edits with known results, and on real histories.

mod dice;
mod doc;
mod edits;
mod history;
mod hypothesis;
mod place;
mod score;

use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use wiki_browser::api::topics::PlacementState;
use wiki_browser::documents::anchor::{PairMap, Placed, place};

use crate::dice::Dice;
use crate::edits::{CLASSES, Case, Corpus};
use crate::history::{History, Life};
use crate::score::{Answer, Score};

const USAGE: &str = "usage: scripts/bench anchors [--cases N] [--seed N] [--only CLASS] \
                     [--show CLASS] [--alone] REPOSITORY...";

struct Wanted {
    cases: usize,
    seed: u64,
    show: Option<String>,
    is_alone: bool,
    only: Option<String>,
    repos: Vec<PathBuf>,
}

impl Wanted {
    fn has(&self, class: &str) -> bool {
        self.only.as_ref().is_none_or(|it| class.contains(it.as_str()))
    }
}

fn main() -> Result<(), String> {
    let mut words = std::env::args().skip(1).filter(|it| it != "--bench").peekable();
    if words.next_if(|it| it == "place").is_some() {
        let seed = words.next().map_or(Ok(1), |it| it.parse());
        place::run(seed.map_err(|_| "usage: scripts/bench place [SEED]".to_owned())?);
        return Ok(());
    }
    let wanted = arguments(words)?;
    let mut texts = Vec::new();
    let mut histories = Vec::new();
    for repo in &wanted.repos {
        texts.extend(history::newest(repo)?);
        histories.extend(history::read(repo, 150)?);
    }
    let corpus = Corpus::new(&texts);
    println!("{} texts, {} histories\n", corpus.len(), histories.len());
    heading();
    for class in CLASSES.iter().filter(|it| wanted.has(it.name)) {
        let mut dice = Dice::new(wanted.seed);
        let draw = || corpus.case(class, &mut dice);
        row(class.name, cases(wanted.cases, draw), &wanted);
    }
    println!();
    for gap in [2, 10, 30] {
        for life in [Life::Same, Life::Changed, Life::Dead] {
            let name = format!("history, {gap} apart, {life:?}").to_lowercase();
            if !wanted.has(&name) {
                continue;
            }
            let mut dice = Dice::new(wanted.seed);
            let draw = || drawn(&histories, gap, life, &mut dice);
            row(&name, cases(wanted.cases, draw), &wanted);
        }
    }
    Ok(())
}

fn arguments(mut from: impl Iterator<Item = String>) -> Result<Wanted, String> {
    let mut wanted =
        Wanted { cases: 400, seed: 1, show: None, is_alone: false, only: None, repos: Vec::new() };
    while let Some(word) = from.next() {
        let mut value = || from.next().ok_or_else(|| USAGE.to_owned());
        match word.as_str() {
            "--cases" => wanted.cases = value()?.parse().map_err(|_| USAGE.to_owned())?,
            "--seed" => wanted.seed = value()?.parse().map_err(|_| USAGE.to_owned())?,
            "--show" => wanted.show = Some(value()?),
            "--only" => wanted.only = Some(value()?),
            "--alone" => wanted.is_alone = true,
            "--bench" => {}
            _ => wanted.repos.push(PathBuf::from(word)),
        }
    }
    if wanted.repos.is_empty() { Err(USAGE.to_owned()) } else { Ok(wanted) }
}

/// Draws cases until there are enough, or none can be had.
fn cases(wanted: usize, mut draw: impl FnMut() -> Option<Case>) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut seen = HashSet::new();
    let mut left = wanted * 40;
    while cases.len() < wanted && left > 0 {
        let case = draw().filter(|it| seen.insert((it.old.clone(), it.span.clone())));
        cases.extend(case);
        left -= 1;
    }
    cases
}

fn drawn(histories: &[History], gap: usize, life: Life, dice: &mut Dice) -> Option<Case> {
    let (found, case) = dice.pick(histories)?.case(gap, dice)?;
    (found == life).then_some(case)
}

fn heading() {
    let names = |words: &[&str]| -> String {
        words.iter().map(|it| format!("{it:>6}")).collect::<Vec<_>>().join(" ")
    };
    let theirs = ["right", "wrong", "lost", "false", "cost"];
    let ours = ["right", "wrong", "lost", "false", "border", "cost"];
    println!(
        "{:38} {:>5} | {:34} | {:41} | {:13} | ours, ms",
        "class", "cases", "of the Hypothesis client, %", "ours, %", "review, %"
    );
    println!(
        "{:38} {:>5} | {} | {} | {} | {}",
        "",
        "",
        names(&theirs),
        names(&ours),
        names(&["right", "wrong"]),
        names(&["p50", "p95", "max"])
    );
}

fn row(name: &str, cases: Vec<Case>, wanted: &Wanted) {
    let (mut ours, mut theirs) = (Score::default(), Score::default());
    for case in &cases {
        let start = Instant::now();
        if !wanted.is_alone {
            let found = hypothesis::find(&case.old, &case.new, &case.span);
            let answer = Answer { range: found, is_review: false };
            theirs.count(&answer, case.truth.as_ref(), start.elapsed());
        }
        let start = Instant::now();
        let map = PairMap::new(&case.old, &case.new);
        let placed = place(&map, &case.old, &case.new, case.span.clone());
        let time = start.elapsed();
        let answer = Answer {
            range: placed.range.clone().filter(|_| placed.state.is_placed()),
            is_review: placed.state == PlacementState::Rewritten,
        };
        let before = ours.clone();
        ours.count(&answer, case.truth.as_ref(), time);
        let is_shown = wanted.show.as_ref().is_some_and(|it| name.contains(it.as_str()));
        if is_shown && ours.right == before.right {
            let fault = match (ours.wrong > before.wrong, ours.lost > before.lost) {
                (true, _) => "wrong",
                (_, true) => "lost",
                _ => "false",
            };
            show(fault, case, &placed);
        }
    }
    let all = cases.len();
    if all == 0 {
        println!("{name:38} {all:>5} | no such case could be drawn");
        return;
    }
    #[allow(clippy::cast_precision_loss, reason = "counts of cases")]
    let percent = |count: usize| 100.0 * count as f64 / all as f64;
    let shares = |counts: &[usize]| -> String {
        let shown: Vec<String> = counts.iter().map(|it| format!("{:>6.1}", percent(*it))).collect();
        shown.join(" ")
    };
    let of = |score: &Score, more: &[usize]| {
        let first = [score.right, score.wrong, score.lost, score.false_anchored];
        shares(&[&first, more].concat())
    };
    println!(
        "{name:38} {all:>5} | {} | {} | {} | {:>6.2} {:>6.2} {:>6.2}",
        of(&theirs, &[theirs.cost()]),
        of(&ours, &[ours.boundary, ours.cost()]),
        shares(&[ours.review_right, ours.review_wrong]),
        ours.time(0.5),
        ours.time(0.95),
        ours.time(1.0),
    );
}

/// Prints a case that was not right.
fn show(fault: &str, case: &Case, placed: &Placed) {
    let new = |range: &Option<Range<usize>>| range.clone().map(|it| &case.new[it]);
    let truth = case.truth.as_ref().map(|it| it.inner.clone());
    println!("--- {fault}: {:?} {}", placed.state, placed.method);
    println!(" old: {:?}", &case.old[case.span.clone()]);
    println!(" truth: {:?}\n found: {:?}", new(&truth), new(&placed.range));
}
