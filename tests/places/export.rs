//! Topics as Web Annotations of the W3C.

use serde_json::{Value, json};

use crate::support::{Bench, until};

fn position(annotation: &Value) -> (usize, usize) {
    let selectors = annotation["target"]["selector"].as_array().unwrap();
    let found = selectors.iter().find(|it| it["type"] == "TextPositionSelector").unwrap();
    let of = |name: &str| usize::try_from(found[name].as_u64().unwrap()).unwrap();
    (of("start"), of("end"))
}

#[test]
fn a_topic_is_exported_as_the_standard_says() {
    let bench = Bench::new();
    bench.write("guide.md", "\u{feff}# Führung 日本\r\n\r\nDas Häuschen 🦀 steht.\r\n");
    bench.git(&["commit", "-q", "-a", "-m", "words"]);
    let server = bench.serve();
    let topic = bench.topic("guide.md", "Häuschen 🦀", "What is **this**?");
    let answer = bench.get(&format!("/api/topics/{}/annotation", topic.id));
    assert!(
        answer.head.to_lowercase().contains(
            "content-type: application/ld+json; profile=\"http://www.w3.org/ns/anno.jsonld\""
        ),
        "{}",
        answer.head
    );
    let made = answer.ok();
    assert_eq!(made, bench.json(&["topic", "export", &topic.id]));
    assert_eq!((&made["type"], &made["motivation"]), (&json!("Annotation"), &json!("commenting")));
    assert_eq!(made["body"][0]["value"], "What is **this**?");
    assert_eq!(made["creator"]["type"], "Person");
    let text: Vec<char> = bench.read("guide.md").chars().collect();
    let (start, end) = position(&made);
    assert_eq!(text[start..end].iter().collect::<String>(), "Häuschen 🦀");
    let quote = &made["target"]["selector"][0];
    assert_eq!(quote["exact"], "Häuschen 🦀");
    assert!(quote["prefix"].as_str().unwrap().ends_with("\r\n\r\nDas "));
    assert_eq!(quote["suffix"], " steht.\r\n");

    bench.topic("guide.md", "Führung", "two");
    let body = json!({"source_path": "guide.md", "global": true, "body": "all"});
    bench.post("/api/topics", body).ok();
    let page = bench.json(&["topic", "export", "--source", "guide.md"]);
    assert_eq!(page["type"], "AnnotationPage");
    let items = page["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!(items[2]["target"]["selector"], json!(null), "it is about the whole");

    // A Source that is gone: the words are told, and where they were.
    std::fs::remove_file(bench.top.join("guide.md")).unwrap();
    let gone = bench.get(&format!("/api/topics/{}/annotation", topic.id)).ok();
    assert_eq!(gone["target"]["selector"][0]["exact"], "Häuschen 🦀");
    until("the whole is refused", || {
        bench.get("/api/source/annotations?path=guide.md").refusal() == (404, "source_gone")
    });
    server.stop();
}
