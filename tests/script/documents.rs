//! Which of its documents a job works on, and what becomes of the others.

use serde_json::json;

use crate::places::ready;
use crate::support::{Bench, until};

/// A table made elsewhere says nothing about the order of its entries.
#[test]
fn a_waiting_job_works_on_one_document_and_follows_the_names_of_all() {
    let bench = Bench::new();
    bench.engine("edit", "echo \"$path\" >> \"$OUT/done\"");
    bench.lua(
        "local inputs = { source_path = wb.input.source(), original = wb.input.source() }\n\
         wb.kind \"edit\" { about = \"A test\", engine = \"edit\", timeout = \"20s\",\n\
         inputs = inputs, lane = \"source_path\",\n\
         prompt = \"path={{source_path}}\\nfrom={{original}}\" }\n\
         local proposes = { original = wb.input.source(), source_path = wb.input.source(),\n\
         base = wb.input.blob { from = \"original\" } }\n\
         wb.kind \"base\" { about = \"A test\", engine = \"edit\", timeout = \"20s\",\n\
         inputs = proposes, prompt = \"{{source_path}} {{original}} {{base}}\" }\n",
    );
    bench.write("questions.md", "# Questions\n");
    bench.git(&["add", "questions.md"]);
    bench.git(&["commit", "-q", "-m", "questions"]);
    let server = bench.serve();
    ready(&bench);
    let wait = |kind: &str| {
        let inputs = json!({
            "source_path": "questions.md", "original": "guide.md",
            "not_before": "2099-01-01T00:00:00Z",
        });
        bench.job(kind, inputs)
    };
    let (edit, base) = (wait("edit"), wait("base"));
    assert_eq!(bench.show(&edit)["source_path"], "questions.md");
    assert_eq!(bench.show(&base)["source_path"], "guide.md", "the one whose blob is an input");
    bench.git(&["mv", "guide.md", "handbook.md"]);
    bench.git(&["commit", "-q", "-m", "a better name"]);
    until("the job goes with its second document", || {
        bench.show(&edit)["inputs"]["original"] == "handbook.md"
    });
    let shown = bench.show(&edit);
    assert_eq!(
        (&shown["source_path"], &shown["lane"]),
        (&json!("questions.md"), &json!("source_path=questions.md"))
    );
    assert_eq!(bench.show(&base)["source_path"], "handbook.md");
    server.stop();
}
