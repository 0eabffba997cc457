//! Strange files: handled, or refused with the reason; never a wrong offset, never a crash. Each
//! row is a file that somebody could leave in a repository.

use serde_json::{Value, json};
use wiki_browser::api::topics::PlacementState;
use wiki_browser::documents::anchor::{PairMap, describe, place, place_together};

use super::{kept, shown, told, words};
use crate::support::{Bench, Topic, until};

/// Encodes a path for a query.
fn encoded(path: &str) -> String {
    path.bytes().map(|it| format!("%{it:02X}")).collect()
}

/// Texts, the words of a Topic on each, and what to put before everything else.
fn texts() -> Vec<(&'static str, String, &'static str)> {
    let many = |text: &str, count: usize| text.repeat(count);
    let headings: String = (0..10_001).map(|it| format!("# Heading {it}\n\n")).collect();
    vec![
        ("crlf.md", "# A\r\n\r\nOne line\r\nand another.\r\n".into(), "One line\r\nand another"),
        ("mixed.md", "# A\n\r\nOne\rline\r\nand another.\n\r".into(), "One\rline\r\nand"),
        ("bom.md", "\u{feff}# A\n\nAfter the mark.\n".into(), "After the mark"),
        ("separators.md", "# A\n\none\u{2028}two\u{85}three\u{b}four.\n".into(), "two\u{85}three"),
        ("cjk.md", "# 見出し\n\n日本語の文章。次の文。\n\n終わり。\n".into(), "次の文"),
        (
            "combining.md",
            "# E\u{301}\n\nCafe\u{301} a\u{30a}ngstro\u{308}m.\n".into(),
            "Cafe\u{301}",
        ),
        ("emoji.md", "# 👩‍👩‍👧‍👦\n\nA 🏳️‍🌈 flag, 👍🏽 and 🦀.\n".into(), "🏳️‍🌈 flag, 👍🏽"),
        ("rtl.md", "# שלום\n\nמילה \u{202e}abc\u{202c} אחרת.\n".into(), "\u{202e}abc\u{202c}"),
        ("zero.md", "# A\n\nze\u{200b}ro\u{feff}width.\n".into(), "ze\u{200b}ro\u{feff}width"),
        ("thai.md", "# หัวข้อ\n\nภาษาไทยไม่มีช่องว่างระหว่างคำน้ำ\n".into(), "ช่องว่างระหว่าง"),
        ("deva.md", "# शीर्षक\n\nयह हिन्दी में क्षेत्र का एक वाक्य है।\n".into(), "क्षेत्र का"),
        (
            "jamo.md",
            "# \u{1112}\u{1161}\u{11ab}\n\n\u{1107}\u{116e}\u{11ab}\u{1112}\u{1162}.\n".into(),
            "\u{116e}\u{11ab}\u{1112}",
        ),
        ("headings.md", format!("{headings}The very end.\n"), "The very end"),
        ("quotes.md", format!("{}deep down\n", many(">", 10_000)), "deep down"),
        ("lists.md", format!("{}deep down\n", many("- ", 10_000)), "deep down"),
        (
            "nested.md",
            (0..1_000).map(|it| format!("{}- n{it}\n", many(" ", it))).collect(),
            "- n999",
        ),
        ("brackets.md", format!("{}deep{}\n", many("[", 10_000), many("](x)", 10_000)), "deep"),
        ("emphasis.md", format!("{}deep{}\n", many("*_", 10_000), many("_*", 10_000)), "deep"),
        (
            "ticks.md",
            (1..2_000).map(|it| many("`", it % 97) + "x ").collect::<String>() + "end",
            "end",
        ),
        ("table.md", format!("|a|\n|-|\n{}", many("|x|\n", 5_000) + "|last|\n"), "last"),
        ("long.md", format!("{} middle {}", many("word ", 200_000), many("x", 500_000)), "middle"),
        ("footnotes.md", (0..3_000).map(|it| format!("[^{it}]: [^{it}]\n")).collect(), "[^2999]:"),
        ("html.md", format!("{}inside\n", many("<div>\n", 5_000)), "inside"),
        ("front.md", "---\na: &a [*a, *a]\n---\n\nBody.\n".into(), "Body"),
        (
            "escapes.md",
            "# \u{1b}[31mred\u{7f}\n\n\u{1b}]0;title\u{7} words\n".into(),
            "\u{7} words",
        ),
    ]
}

#[test]
fn a_topic_on_a_strange_text_follows_its_words_to_the_byte() {
    let bench = Bench::new();
    for (name, text, _) in texts() {
        bench.write(name, text);
    }
    bench.git(&["-c", "core.autocrlf=false", "add", "-A"]);
    bench.git(&["commit", "-q", "-m", "strange"]);
    let server = bench.serve();
    super::ready(&bench);
    let topics: Vec<(Topic, &str)> = texts()
        .into_iter()
        .map(|(name, _, quote)| (bench.topic(name, quote, "x"), quote))
        .collect();
    for (name, text, _) in texts() {
        let (mark, rest) = match text.strip_prefix('\u{feff}') {
            Some(rest) => ("\u{feff}", rest),
            None => ("", text.as_str()),
        };
        bench.write(name, format!("{mark}新しい段落 e\u{301}.\n\n{rest}"));
    }
    bench.git(&["-c", "core.autocrlf=false", "commit", "-q", "-a", "-m", "more"]);
    for (topic, quote) in &topics {
        told(&bench, &topic.path);
        let place = kept(&bench, topic);
        assert_eq!(place["state"], "shifted", "{}: {place}", topic.path);
        assert_eq!(words(&bench, topic, &place), *quote, "{}", topic.path);
        let route = format!("/api/topics/{}/annotation", topic.id);
        assert_eq!(bench.get(&route).ok()["target"]["selector"][0]["exact"], *quote);
    }
    let found = bench.get("/api/source?path=headings.md").ok();
    assert_eq!(found["headings"].as_array().unwrap().len(), 10_000, "they are cut");
    server.stop();
}

#[test]
fn a_file_that_is_no_text_is_refused_with_the_reason() {
    let bench = Bench::new();
    let server = bench.serve();
    super::ready(&bench);
    let topic = bench.topic("guide.md", "The first line.", "x");
    let good = bench.read("guide.md");
    let large = vec![b'x'; 50 * 1024 * 1024];
    let rows: [(&[u8], (u16, &str)); 7] = [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", (400, "not_text")),
        (b"# caf\xe9\n", (400, "not_text")),
        (b"# \xc3\x28 \xed\xa0\x80\n", (400, "not_text")),
        (b"\xff\xfe#\0 \0A\0", (400, "not_text")),
        (b"\xfe\xff\0#\0 \0A", (400, "not_text")),
        (b"# A\n\0\n", (400, "not_text")),
        (&large, (413, "too_large")),
    ];
    for (bytes, refusal) in rows {
        bench.write("guide.md", bytes);
        let shown = &bytes[..bytes.len().min(12)];
        assert_eq!(bench.get("/api/source?path=guide.md").refusal(), refusal, "{shown:?}");
        let body = json!({"source_path": "guide.md", "selection": {"quote": "A"}, "body": "x"});
        assert_eq!(bench.post("/api/topics", body).refusal(), refusal, "{shown:?}");
        let anchor = json!({"selection": {"quote": "A"}});
        let reattached = bench.post(&format!("/api/topics/{}/anchor", topic.id), anchor);
        assert_eq!(reattached.refusal(), refusal, "{shown:?}");
        // The Topic is there all the same, with its words.
        let list = bench.get("/api/topics?status=open").ok();
        assert_eq!(list["items"][0]["anchor"]["quote"], "The first line.");
    }
    let gone = |it: &Value| it["path"] == "guide.md" && it["blob"].is_null();
    until("what is too large is told as gone", || {
        super::events(&bench, "source_changed").iter().any(gone)
    });
    bench.write("guide.md", good);
    told(&bench, "guide.md");
    assert_eq!(shown(&bench, &topic)["state"], "exact");
    server.stop();
}

const NAMES: [&str; 19] = [
    "with space.md",
    " leading.md",
    "quote's.md",
    "double\"quote.md",
    "semi;colon&amp.md",
    "per%2Fcent.md",
    "plus+hash#q?.md",
    "$(touch x).md",
    "-dash.md",
    "--help.md",
    ":(glob)magic.md",
    "caf\u{e9}.md",
    "cafe\u{301}.md",
    "README.md",
    "readme.md",
    "日本/文書.md",
    "e\u{301}/x.md",
    "emoji 🦀.md",
    "a*b[c].md",
];

const PASSED_OVER: [&str; 4] = ["line\nbreak.md", "tab\there.md", "back\\slash.md", ".hidden.md"];

fn bench_of_names() -> Bench {
    let bench = Bench::new();
    for folder in ["日本", "e\u{301}"] {
        std::fs::create_dir(bench.top.join(folder)).unwrap();
    }
    for name in NAMES.iter().chain(&PASSED_OVER) {
        bench.write(name, format!("# {name:?}\n\nThe words.\n"));
    }
    bench.git(&["add", "-A"]);
    bench.git(&["commit", "-q", "-m", "names"]);
    bench
}

#[test]
fn strange_names_are_names_like_others_or_passed_over() {
    let names = NAMES;
    let bench = bench_of_names();
    let server = bench.serve();
    super::ready(&bench);
    let listed = bench.get("/api/sources?limit=100").ok();
    let listed: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(listed.len(), names.len() + 3, "{listed:?}");
    assert!(names.iter().all(|it| listed.contains(it)), "{listed:?}");
    let topics: Vec<Topic> = names.iter().map(|it| bench.topic(it, "The words.", "x")).collect();
    for topic in &topics {
        let name = &topic.path;
        let found = bench.get(&format!("/api/source?path={}", encoded(name))).ok();
        assert_eq!(found["path"], name.as_str());
        assert_eq!(found["topics"].as_array().unwrap().len(), 1, "{name}: not those of another");
        bench.write(name, format!("# {name:?}\n\nA new one.\n\nThe words.\n"));
    }
    for topic in &topics {
        let blob = bench.git(&["hash-object", "--no-filters", "--", &topic.path]);
        let place = super::kept_in(&bench, topic, &blob);
        assert_eq!((&place["state"], &place["working"]), (&json!("shifted"), &json!(1)));
    }
    bench.git(&["commit", "-q", "-a", "-m", "all of them"]);
    for topic in &topics {
        let blob = bench.git(&["hash-object", "--no-filters", "--", &topic.path]);
        until("it is a baseline", || super::kept_in(&bench, topic, &blob)["working"] == 0);
    }
    for name in PASSED_OVER {
        let answer = bench.get(&format!("/api/source?path={}", encoded(name)));
        assert_eq!(answer.status, 400, "{name:?}");
    }
    assert!(!bench.top.join("x").exists());
    server.stop();
}

/// Numbers that look random and are the same in every run.
struct Dice(usize);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

const PARTS: [&str; 23] = [
    "e\u{301}",
    "日本語",
    "🏳️‍🌈",
    "\r\n",
    "\n\n",
    "\r",
    "\u{feff}",
    "\u{2028}",
    " ",
    "word",
    "ß",
    "\t",
    "- ",
    "# ",
    "> ",
    "\u{202e}",
    "ｗｉｄｅ",
    "\u{200d}",
    "a\u{30a}\u{323}",
    "。",
    "`",
    "|",
    "\u{85}",
];

/// Returns a text and what a few changes make of it.
fn pair(dice: &mut Dice) -> (String, String) {
    let old: Vec<&str> = (0..60).map(|_| PARTS[dice.below(PARTS.len())]).collect();
    let mut new = old.clone();
    for _ in 0..dice.below(12) {
        let (at, part) = (dice.below(new.len()), PARTS[dice.below(PARTS.len())]);
        match dice.below(3) {
            0 => new.insert(at, part),
            1 => drop(new.remove(at)),
            _ => new[at] = part,
        }
    }
    (old.concat(), new.concat())
}

/// Every change of a text by pieces of every sort: what is placed is inside the text, on borders of
/// characters, and can be described.
#[test]
fn no_placement_ever_cuts_a_character() {
    let mut dice = Dice(7);
    let mut placed_count = 0;
    for _ in 0..400 {
        let (old, new) = pair(&mut dice);
        let borders: Vec<usize> = old.char_indices().map(|it| it.0).collect();
        let spans: Vec<_> = (0..20)
            .map(|_| {
                let start = dice.below(borders.len() - 1);
                borders[start]..borders[start + 1 + dice.below(borders.len() - start - 1)]
            })
            .collect();
        let map = PairMap::new(&old, &new);
        let blob = "0".repeat(40).parse().unwrap();
        for (span, placed) in spans.iter().zip(place_together(&map, &old, &new, &spans)) {
            let Some(range) = placed.range.clone() else { continue };
            let slice = new.get(range.clone());
            assert!(slice.is_some_and(|it| !it.is_empty()), "{old:?} {new:?} {span:?} {range:?}");
            if !old[span.clone()].trim().is_empty() {
                describe(&new, &blob, range).unwrap();
            }
            placed_count += 1;
        }
        // What cuts a character has no place, whatever is asked.
        for start in (0..old.len()).filter(|it| !old.is_char_boundary(*it)) {
            let cut = place(&map, &old, &new, start..old.len());
            assert_eq!(cut.state, PlacementState::Orphaned);
        }
    }
    assert!(placed_count > 4_000, "{placed_count}");
}
