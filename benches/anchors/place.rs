//! How long it takes to place many Topics of one long, heavily changed document: the comparison of
//! both texts, all placements, and the new baselines.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use wiki_browser::base::TopicId;
use wiki_browser::documents::anchor::Portrait;
use wiki_browser::documents::topics::placement::{TopicOrigin, place_all};

use crate::dice::Dice;

/// Rounds of each row.
const ROUNDS: usize = 30;
/// Topics of the document.
const TOPICS: usize = 200;
/// Words from which texts are made, beside numbered ones: few are frequent, many are rare.
const COMMON: &[&str] = &[
    "the", "of", "and", "to", "a", "in", "is", "that", "for", "it", "with", "as", "on", "be",
    "this", "water", "level", "station", "when", "which", "reading", "must", "not", "by", "from",
];

/// Prints the table.
pub(crate) fn run(seed: u64) {
    println!("{TOPICS} Topics of one document, {ROUNDS} rounds of different texts\n");
    println!(
        "| document | change | p50 ms | p95 ms | max ms | placed |\n|---|---|---|---|---|---|"
    );
    for kilobytes in [100, 400, 1_000] {
        for (name, percent) in [("a tenth of it", 10), ("heavy", 40), ("almost all of it", 80)] {
            let mut dice = Dice::new(seed);
            row(kilobytes, name, percent, &mut dice);
        }
    }
}

fn row(kilobytes: usize, name: &str, percent: usize, dice: &mut Dice) {
    let mut times = Vec::new();
    let mut placed = 0;
    for _ in 0..ROUNDS {
        let old = document(kilobytes * 1_000, dice);
        let new = rewritten(&old, percent, dice).join("\n\n");
        let old = old.join("\n\n");
        let topics: Vec<TopicOrigin> = (0..TOPICS).map(|it| origin(it, &old, dice)).collect();
        let (took, count) = measure(&topics, &old, &new);
        times.push(took);
        placed += count;
    }
    times.sort_unstable();
    let ms = |at: usize| times[at.min(times.len() - 1)].as_secs_f64() * 1_000.0;
    let share = placed * 100 / (ROUNDS * TOPICS);
    println!(
        "| {kilobytes} KB | {name} | {:.1} | {:.1} | {:.1} | {share} % |",
        ms(ROUNDS / 2),
        ms(ROUNDS * 95 / 100),
        ms(ROUNDS)
    );
}

/// Does what the server does when it notices a commit; returns how many have a place.
fn measure(topics: &[TopicOrigin], old: &str, new: &str) -> (Duration, usize) {
    let blob = "0".repeat(40).parse().expect("forty zeroes are an id");
    let begun = Instant::now();
    let placed = place_all(topics, old, new);
    let portrait = Portrait::of(new, &blob);
    let ranges = placed.iter().filter(|(_, it)| it.state.is_placed());
    let described = ranges.filter_map(|(_, it)| portrait.anchor(it.range.clone()?).ok()).count();
    (begun.elapsed(), described)
}

fn origin(number: usize, text: &str, dice: &mut Dice) -> TopicOrigin {
    let id: TopicId = format!("00000000-0000-7000-8000-{number:012}").parse().expect("an id");
    TopicOrigin { id, span: span(text, dice) }
}

/// Returns a passage of 20 to 300 bytes that begins and ends with a word.
fn span(text: &str, dice: &mut Dice) -> Range<usize> {
    loop {
        let start = dice.below(text.len() - 400);
        let end = start + 20 + dice.below(280);
        let at = |from: usize| text[from..].find(' ').map(|it| from + it);
        if let (Some(start), Some(end)) = (at(start), at(end))
            && start + 1 < end
        {
            return start + 1..end;
        }
    }
}

/// Returns the blocks of a document.
fn document(bytes: usize, dice: &mut Dice) -> Vec<String> {
    let (mut blocks, mut length) = (Vec::new(), 0);
    while length < bytes {
        let block = match dice.below(8) {
            0 => format!("## {}", words(2 + dice.below(5), dice)),
            1 => (0..3 + dice.below(5))
                .map(|_| format!("- {}", words(4 + dice.below(12), dice)))
                .collect::<Vec<_>>()
                .join("\n"),
            _ => words(30 + dice.below(90), dice),
        };
        length += block.len() + 2;
        blocks.push(block);
    }
    blocks
}

fn words(count: usize, dice: &mut Dice) -> String {
    (0..count).fold(String::new(), |mut text, place| {
        let end = if place > 0 && dice.hits(8) { ". " } else { " " };
        text.push_str(if place == 0 { "" } else { end });
        text.push_str(&word(dice));
        text
    })
}

fn word(dice: &mut Dice) -> String {
    if dice.hits(45) {
        return dice.pick(COMMON).map_or_else(String::new, |it| (*it).to_owned());
    }
    let mut word = String::new();
    let rarest = 1 + dice.below(6_000);
    // Writing to a String cannot fail.
    let _ = write!(word, "w{}", dice.below(rarest));
    word
}

/// Returns a document of which so many percent of the words are replaced, a fifth of the blocks go
/// elsewhere, some are deleted, and others come.
fn rewritten(old: &[String], percent: usize, dice: &mut Dice) -> Vec<String> {
    let mut new: Vec<String> = Vec::new();
    let mut moved: Vec<String> = Vec::new();
    for block in old {
        if dice.hits(percent / 5) {
            continue;
        }
        let parts = block.split(' ').map(|it| {
            let is_word = it.chars().all(char::is_alphanumeric);
            if is_word && dice.hits(percent) { word(dice) } else { it.to_owned() }
        });
        let block = parts.collect::<Vec<_>>().join(" ");
        if dice.hits(percent / 2) {
            moved.push(block)
        } else {
            new.push(block)
        }
        if dice.hits(percent / 5) {
            new.push(words(40, dice));
        }
    }
    for block in moved {
        new.insert(dice.below(new.len() + 1), block);
    }
    new
}
