//! A request in the format of the Messages API.

use serde_json::{Value, json};

use crate::chat::model::{Ask, Block, Turn};
use crate::script::{Anthropic, Thinking};

/// How many of the person's last turns are cached by the provider. With the tools and the system
/// prompt, that makes the four cache points that it allows.
const CACHED_TURNS: usize = 2;

/// Returns the body of a request.
pub(super) fn body(model: &Anthropic, ask: &Ask) -> Value {
    let mut body = json!({
        "model": model.model, "max_tokens": model.max_output, "stream": true,
        "system": [kept(json!({"type": "text", "text": ask.system}))],
        "messages": messages(&ask.turns),
    });
    if !ask.tools.is_empty() {
        let mut tools: Vec<Value> = ask.tools.iter().map(tool).collect();
        if let Some(last) = tools.last_mut() {
            *last = kept(last.take());
        }
        body["tools"] = Value::Array(tools);
    }
    match model.thinking {
        Thinking::Off => {}
        Thinking::Effort(effort) => {
            body["thinking"] = json!({"type": "adaptive"});
            body["output_config"] = json!({"effort": effort});
        }
        Thinking::Budget(tokens) => {
            body["thinking"] = json!({"type": "enabled", "budget_tokens": tokens});
        }
    }
    body
}

fn tool(described: &Value) -> Value {
    json!({
        "name": described["name"], "description": described["description"],
        "input_schema": described["inputSchema"],
    })
}

fn kept(mut block: Value) -> Value {
    block["cache_control"] = json!({"type": "ephemeral"});
    block
}

fn messages(turns: &[Turn]) -> Vec<Value> {
    let mut cached = 0;
    let mut messages: Vec<Value> = Vec::with_capacity(turns.len());
    for turn in turns.iter().rev() {
        let mut content: Vec<Value> = turn.blocks.iter().map(block).collect();
        if !turn.is_model && cached < CACHED_TURNS {
            cached += 1;
            if let Some(last) = content.last_mut() {
                *last = kept(last.take());
            }
        }
        let role = if turn.is_model { "assistant" } else { "user" };
        messages.push(json!({"role": role, "content": content}));
    }
    messages.reverse();
    messages
}

fn block(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Image { kind, bytes } => json!({"type": "image", "source": {
            "type": "base64", "media_type": kind, "data": base64(bytes),
        }}),
        Block::Native(native) => native.clone(),
        Block::Result { id, text, is_ok } => {
            // The API refuses empty text.
            let text = if text.trim().is_empty() { "(nothing)" } else { text.as_str() };
            let content = json!([{"type": "text", "text": text}]);
            let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
            if !is_ok {
                result["is_error"] = Value::Bool(true);
            }
            result
        }
    }
}

pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = (at(0) << 16) | (at(1) << 8) | at(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Secret;

    #[test]
    fn bytes_are_written_in_base64() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn what_repeats_is_marked_for_the_cache() {
        let model = Anthropic {
            model: "m".to_owned(),
            key: Secret::Env("K".to_owned()),
            base_url: "https://x".parse().unwrap(),
            max_output: 100,
            context: 1000,
            thinking: Thinking::Effort("low"),
            price: None,
        };
        let said = |is_model, text: &str| Turn { is_model, blocks: vec![Block::Text(text.into())] };
        let native = json!({"type": "tool_use", "id": "t", "name": "x", "input": {}});
        let result = Block::Result { id: "t".to_owned(), text: " ".to_owned(), is_ok: false };
        let ask = Ask {
            system: "You are.".to_owned(),
            turns: vec![
                said(false, "one"),
                said(true, "two"),
                said(false, "three"),
                Turn { is_model: true, blocks: vec![Block::Native(native.clone())] },
                Turn { is_model: false, blocks: vec![result] },
            ],
            tools: vec![json!({"name": "x", "description": "d", "inputSchema": {}})],
        };
        let body = body(&model, &ask);
        assert_eq!(body.to_string().matches("cache_control").count(), 4);
        assert_eq!(body["messages"][0]["content"][0], json!({"type": "text", "text": "one"}));
        assert_eq!(body["messages"][3]["content"][0], native, "it goes back as it came");
        let told = &body["messages"][4]["content"][0];
        assert_eq!(
            (&told["is_error"], &told["content"][0]["text"]),
            (&json!(true), &json!("(nothing)"))
        );
        assert_eq!(body["tools"][0]["input_schema"], json!({}));
        assert_eq!(body["output_config"]["effort"], "low");
        let alone = Ask { tools: Vec::new(), ..ask };
        assert!(super::body(&model, &alone).get("tools").is_none());
    }
}
