//! What the script says in channels.

use serde_json::json;

use crate::channels::agents::{agents, answers, say, wait_known};
use crate::channels::{room, said};
use crate::script::events;
use crate::support::{Bench, until, wait_for};

#[test]
fn the_script_speaks_in_a_channel_wakes_its_agents_and_does_not_answer_itself_for_ever() {
    let bench = Bench::new();
    agents(&bench, &["robbo", "paula"]);
    bench.lua(
        r#"wb.on("topic_created", function(event)
  wb.send { to = "channel:workshop-daily-1", payload = "@robbo done, next, blocked?" }
  wb.send { to = "channel:workshop-daily-1", payload = "x", reply_to = "person:ada" }
end)
wb.on("channel_message", function(event)
  if event.data.number == 2 then
    wb.send { to = "channel:" .. event.data.number, payload = "an echo" }
  end
end)
"#,
    );
    let server = bench.serve();
    wait_known(&bench, 2);
    let slug = room(&bench, "Daily", json!([{"agent": "robbo"}, {"agent": "paula"}]));
    bench.topic("guide.md", "second", "Why?");
    let told = wait_for("robbo answers", || {
        Some(said(&bench, &slug)).filter(|it| answers(it, "robbo").len() == 1)
    });
    assert_eq!(told[0], ("*".to_owned(), "@robbo done, next, blocked?".to_owned()));
    assert_eq!(answers(&told, "paula").len(), 0, "{told:?}");
    let line = bench.get(&format!("/api/channels/{slug}/messages")).ok()["items"][0].clone();
    assert_eq!(line["author"]["sort"], "script");
    let heard = bench.left("heard.robbo");
    assert!(heard.contains("[#daily] script (script):\\n@robbo done, next, blocked?"), "{heard}");
    let failures = || events(&bench, "script_failed");
    until("the one with an address for replies is refused", || failures().len() == 1);

    // A handler of what it says itself comes to an end, and says so.
    let echo = room(&bench, "Echo", json!([]));
    say(&bench, &echo, "Anybody?");
    until("the chain has ended", || failures().len() == 2);
    let texts = json!(failures()).to_string();
    assert!(
        texts.contains("led to one another") && texts.contains("address for a reply"),
        "{texts}"
    );
    assert_eq!(said(&bench, &echo).len(), 6, "the person's line and five echoes");
    server.stop();
}
