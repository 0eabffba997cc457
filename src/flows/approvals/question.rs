//! Questions that an engine asks its user, handled like permissions: a person chooses among its
//! answers.
//!
//! **Invariant:** what the engine reads as answers is what a person chose, and nothing else.

use serde_json::{Map, Value, json};

use crate::approvals::{self, Texts};
use crate::base::{ApprovalId, Result};
use crate::flows::approvals::permission::PermissionRequest;
use crate::store::Tx;

/// The tool with which Claude Code asks its user.
const TOOL: &str = "AskUserQuestion";
/// The field of its input with the questions.
const QUESTIONS: &str = "questions";
/// The field of its input with the answers.
const ANSWERS: &str = "answers";
/// The keyword that marks the schema of such a question.
const MARK: &str = "x-answers";
/// Most questions per call, and most answers per question.
const QUESTIONS_MAX: usize = 10;
const OPTIONS_MAX: usize = 30;

/// A question and its schema.
pub(super) struct Question {
    /// The question, or the first of several.
    pub(super) title: String,
    /// The schema of the answers: a value per question.
    pub(super) schema: Value,
}

/// Returns the question of a call; `None` if it asks for a permission.
pub(super) fn of(request: &PermissionRequest) -> Option<Question> {
    let questions = request.input.get(QUESTIONS)?.as_array()?;
    let is_known = request.tool_name == TOOL && (1..=QUESTIONS_MAX).contains(&questions.len());
    if !is_known {
        return None;
    }
    let mut fields = Map::new();
    for question in questions {
        let text = question["question"].as_str().filter(|it| *it != QUESTIONS)?;
        let options = question["options"].as_array().filter(|it| it.len() <= OPTIONS_MAX)?;
        let labels: Vec<&str> = options.iter().filter_map(|it| it["label"].as_str()).collect();
        let said = options.iter().filter_map(|it| {
            Some(format!("{}: {}", it["label"].as_str()?, it["description"].as_str()?))
        });
        let said = said.collect::<Vec<_>>().join("; ");
        // Several answers are one text with commas, which is not one of the choices.
        let field = match question["multiSelect"] == true || labels.is_empty() {
            true => json!({"type": "string", "description": said}),
            false => json!({"enum": labels, "description": said}),
        };
        fields.insert(text.to_owned(), field);
    }
    let title = fields.keys().next()?.clone();
    Some(Question { title, schema: json!({"type": "object", "properties": fields, MARK: true}) })
}

/// Returns the input for the engine: the approved one, with the answers for a question.
pub(super) fn answered(texts: Texts) -> Value {
    let input = texts.changes.unwrap_or_else(|| texts.payload.clone());
    let is_question = texts.schema.as_ref().is_some_and(|it| it[MARK] == true);
    let (true, Value::Object(chosen)) = (is_question, &input) else { return input };
    let answers: Map<String, Value> = chosen
        .iter()
        .filter(|(name, _)| texts.payload.get(name.as_str()).is_none())
        .map(|(name, answer)| (name.clone(), answer.clone()))
        .collect();
    let mut given = texts.payload;
    given[ANSWERS] = Value::Object(answers);
    given
}

/// Returns whether an approval asks a person, and not for a permission.
pub(super) fn is_one(tx: &Tx<'_>, id: &ApprovalId) -> Result<bool> {
    let schema = approvals::texts(tx.connection(), id)?.schema;
    Ok(schema.is_some_and(|it| it[MARK] == true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_asked_with_its_answers_and_answered_with_the_one_that_was_chosen() {
        let input = json!({"questions": [{
            "question": "Which color?", "header": "Color", "multiSelect": false,
            "options": [{"label": "Blue", "description": "calm"}, {"label": "Red"}],
        }]});
        let Value::Object(fields) = input.clone() else { panic!("an object") };
        let request =
            |tool: &str| PermissionRequest { tool_name: tool.to_owned(), input: fields.clone() };
        assert!(of(&request("Bash")).is_none());
        let question = of(&request(TOOL)).unwrap();
        assert_eq!(question.title, "Which color?");
        let field = &question.schema["properties"]["Which color?"];
        assert_eq!(*field, json!({"enum": ["Blue", "Red"], "description": "Blue: calm"}));
        let mut changes = input.clone();
        changes["Which color?"] = json!("Blue");
        let texts = |changes| Texts {
            payload: input.clone(),
            schema: Some(question.schema.clone()),
            changes,
        };
        let given = answered(texts(Some(changes)));
        assert_eq!(given["answers"], json!({"Which color?": "Blue"}));
        assert_eq!(given["questions"], input["questions"]);
        assert_eq!(answered(texts(None))["answers"], json!({}));
        let plain = Texts { payload: json!({"command": "x"}), schema: None, changes: None };
        assert_eq!(answered(plain), json!({"command": "x"}));
    }
}
