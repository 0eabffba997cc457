//! The settings file that makes a program in a terminal call our hooks.

use serde_json::{Value, json};

/// The events that we hook, by the program's names.
const EVENTS: [&str; 9] = [
    "SessionStart",
    "UserPromptSubmit",
    "PermissionRequest",
    "Notification",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "SessionEnd",
];
/// How long the program waits for one of our hooks, in seconds.
const HOOK_SECONDS: u32 = 10;

/// Returns the settings that make a program call our hooks. Without `disableAllHooks`, a person's
/// own settings could switch these off, too.
pub(in crate::jobs) fn settings(wb_agent: &str) -> Vec<u8> {
    let quoted = format!("'{}'", wb_agent.replace('\'', "'\\''"));
    let hook = |event: &str| {
        json!([{"hooks": [
            {"type": "command", "command": format!("{quoted} hook {event}"),
             "timeout": HOOK_SECONDS},
        ]}])
    };
    let hooks: serde_json::Map<String, Value> =
        EVENTS.iter().map(|it| ((*it).to_owned(), hook(it))).collect();
    json!({"disableAllHooks": false, "hooks": hooks}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_spaces_is_one_word_of_the_command() {
        let settings: Value = serde_json::from_slice(&settings("/a b/wb-agent")).unwrap();
        assert_eq!(settings["disableAllHooks"], false);
        let command = &settings["hooks"]["Stop"][0]["hooks"][0]["command"];
        assert_eq!(command, "'/a b/wb-agent' hook Stop");
    }
}
