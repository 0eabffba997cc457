//! The recipes of docs/cookbook.md, verbatim: loaded without a warning, and run on the real server
//! by an agent that follows their skills.

mod messages;
mod opened;
mod recipes;
mod webhook;

use serde_json::Value;

use crate::support::Bench;

const BOOK: &str = include_str!("../../docs/cookbook.md");

/// An agent that stands in for a model: it runs the shell blocks of its skill in their order, with
/// `<Label>` replaced by the values of its prompt. What a model would write between them is written
/// by the test's own script, which is told the number of the block that comes next as `$n`.
const AGENT: &str = r#"
run=$(mktemp -d "$BASE/run.XXXXXX") && mkdir "$run/tmp" && cat > "$run/prompt" || exit
skill=$(sed -n 's/^Use the \(.*\) skill\.$/\1/p' "$run/prompt")
awk -v run="$run" -f "$BASE/fill.awk" "$run/prompt" "$BASE/wiki/skills/$skill/SKILL.md" || exit
export run tmp="$run/tmp" n=1
cp "$run/prompt" "$OUT/prompt"
while [ -e "$run/$n.sh" ]; do
  sh -eu "$BASE/thinks.sh" || exit
  sh -eu "$run/$n.sh" || exit
  n=$((n + 1))
done
[ "$n" -gt 1 ] || { echo 'the skill has no block' >&2; exit 1; }
"#;
/// Writes each shell block of a skill into a file of its own, with its labels filled in.
const FILL: &str = r#"
function fill(line, label, at, done) {
  for (label in value) {
    done = ""
    while (at = index(line, "<" label ">")) {
      done = done substr(line, 1, at - 1) value[label]
      line = substr(line, at + length(label) + 2)
    }
    line = done line
  }
  return line
}
BEGIN { value["tmp"] = run "/tmp" }
FILENAME ~ /prompt$/ {
  if (match($0, /^[A-Z][A-Za-z -]*: +/) || match($0, /^wb-agent path: +/)) {
    label = substr($0, 1, index($0, ":") - 1)
    value[label] = substr($0, RLENGTH + 1)
  }
  next
}
/^ *```sh$/ { inside = 1; blocks++; file = run "/" blocks ".sh"; next }
/^ *```$/ { inside = 0; next }
inside { print fill($0) > file }
"#;

/// One recipe: what is pasted into the script, and the files of its skill folder.
pub(super) struct Recipe {
    pub(super) title: String,
    pub(super) block: String,
    pub(super) files: Vec<(String, String)>,
}

/// Returns the recipes of the book, in their order.
pub(super) fn recipes() -> Vec<Recipe> {
    let mut recipes: Vec<Recipe> = Vec::new();
    let mut lines = BOOK.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            let (title, block) = (title.to_owned(), String::new());
            recipes.push(Recipe { title, block, files: Vec::new() });
        }
        let fence = line.len() - line.trim_start_matches('`').len();
        if fence < 3 {
            continue;
        }
        let end = "`".repeat(fence);
        let body: Vec<&str> = lines.by_ref().take_while(|it| *it != end).collect();
        let text = body.join("\n") + "\n";
        let Some(recipe) = recipes.last_mut() else { continue };
        match line[fence..].split_once(' ') {
            Some(("lua", "wiki-browser.lua")) => recipe.block += &text,
            Some((_, path)) => recipe.files.push((path.to_owned(), text)),
            None => {}
        }
    }
    recipes
}

/// Returns the recipe with this number.
fn recipe(number: usize) -> Recipe {
    let recipe = recipes().swap_remove(number - 1);
    assert!(recipe.title.starts_with(&format!("{number}. ")), "{}", recipe.title);
    recipe
}

/// A site with the engine that the book takes as given, and nothing pasted yet.
fn kitchen(thinks: &str) -> Bench {
    let bench = Bench::new();
    std::fs::write(bench.base.join("fill.awk"), FILL).unwrap();
    std::fs::write(bench.base.join("thinks.sh"), thinks).unwrap();
    bench.raw_engine("claude", AGENT);
    bench
}

/// Pastes a recipe: its block into the script, its files beside it.
fn paste(bench: &Bench, recipe: &Recipe) {
    bench.lua(&recipe.block);
    for (path, text) in &recipe.files {
        assert!(path.starts_with("skills/") || path.starts_with("agents/"), "{path}");
        std::fs::create_dir_all(bench.top.join(path).parent().unwrap()).unwrap();
        bench.write(path, text);
    }
}

/// A site on which one recipe is pasted, and what its model thinks.
fn site(number: usize, thinks: &str) -> Bench {
    let bench = kitchen(thinks);
    paste(&bench, &recipe(number));
    bench
}

/// Runs a job of a kind that succeeds, without anything left to say about it.
#[track_caller]
fn cooked(bench: &Bench, kind: &str, inputs: Value) -> Value {
    let job = bench.ended(&bench.job(kind, inputs));
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(job["warnings"], serde_json::json!([]), "{job:#}");
    job
}

/// Returns the proposal of a job, as it is shown.
#[track_caller]
fn proposal(bench: &Bench, job: &Value) -> Value {
    bench.get(&format!("/api/proposals/{}", job["proposal_id"].as_str().unwrap())).ok()
}

/// Returns the messages of a Topic.
#[track_caller]
fn messages(bench: &Bench, topic: &str) -> Vec<Value> {
    let shown = bench.get(&format!("/api/topics/{topic}")).ok();
    shown["messages"].as_array().unwrap().clone()
}
