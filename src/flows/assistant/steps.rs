//! The loop of an answer: call the model, stream its text, execute its calls, and call it again.
//!
//! **Invariant:** a step is stored before any of its calls is executed.
//! **Invariant:** text that readers have seen is withdrawn before its step starts over.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use tokio::time::Instant;

use crate::base::{ChatMessageId, Error, ErrorKind, Result, fault, truncate_chars};
use crate::chat::model::{
    Answering, Ask, Block, Fault, Model, ModelCall, Next, Step, Stop, Tokens,
};
use crate::chat::{self, CallState, Item, Line, NewMessage, Role, Run, State, ToolCall};
use crate::flows::Site;
use crate::flows::assistant::calls::{Asked, call};
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::tools;
use crate::flows::assistant::{RUN_ENDED, context_window};
use crate::jobs::{self, JOB_ENDED, Pieces, Task};
use crate::script::AssistantLimits;

/// Most retries of a request.
const RETRIES_MAX: u32 = 2;
/// The pause before the first retry; each following one is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest wait that a provider may demand; beyond it, the answer ends.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Most read-only calls executed concurrently.
const READERS_MAX: usize = 4;
/// How long one wait for a confirmation takes.
const WAIT: Duration = Duration::from_secs(3_600);
/// Longest call id of a model, in bytes.
const CALL_REF_BYTES_MAX: usize = 200;
/// Longest summary of a run, in characters.
const SUMMARY_CHARS_MAX: usize = 500;

/// Why an answer ends early.
#[derive(Debug)]
pub(super) enum Halt {
    /// It was stopped, or its job has ended.
    Stopped,
    /// A fault of the provider, or a limit.
    Fault(Fault),
    /// An error of this program.
    Error(Error),
}

/// An answer in progress.
pub(super) struct Answer<'a> {
    site: &'a Site,
    task: &'a Task,
    run: Run,
    line: Arc<Line>,
    model: Model,
    /// Covers secrets in what the model says.
    pieces: Pieces,
    limits: AssistantLimits,
    ask: Ask,
    /// Most bytes of the turns.
    room: usize,
    is_cut: bool,
    step: u32,
    /// The parent of the next step.
    parent: ChatMessageId,
    written: u64,
    /// Whether readers have seen text of it, even if that was withdrawn.
    is_visible: bool,
    words: String,
    /// Its tokens so far.
    pub(super) tokens: Tokens,
}

impl<'a> Answer<'a> {
    pub(super) fn new(
        (site, task): (&'a Site, &'a Task),
        (run, line): (Run, Arc<Line>),
        (model, pieces, limits): (Model, Pieces, AssistantLimits),
        (ask, room): (Ask, usize),
    ) -> Answer<'a> {
        let parent = run.question_id.clone();
        Answer {
            site,
            task,
            run,
            line,
            model,
            pieces,
            limits,
            ask,
            room,
            is_cut: false,
            step: 0,
            parent,
            written: 0,
            is_visible: false,
            words: String::new(),
            tokens: Tokens::default(),
        }
    }

    /// Returns its model.
    pub(super) fn model_of(&self) -> &Model {
        &self.model
    }

    /// Returns whether nothing of it was shown, so that another engine may begin.
    pub(super) fn is_unseen(&self) -> bool {
        fault::is_off("visible") || (self.step <= 1 && !self.is_visible)
    }

    /// Returns the beginning of its last text.
    pub(super) fn last_words(&self) -> Option<String> {
        let words = truncate_chars(self.words.trim(), SUMMARY_CHARS_MAX);
        (!words.is_empty()).then_some(words)
    }

    /// Writes the answer to its end.
    pub(super) async fn write(&mut self) -> std::result::Result<(), Halt> {
        loop {
            self.step += 1;
            if self.step > self.limits.steps {
                let most = self.limits.steps;
                let message = format!("the answer took {most} steps, which is all it may");
                return Err(Halt::Fault(Fault::lasting("limit_steps", message)));
            }
            self.fit().await?;
            let step = self.ask_model().await?;
            self.count(&step).await?;
            let fault = match &step.stop {
                Stop::Ended => return Ok(()),
                Stop::Calls if !step.calls.is_empty() => {
                    self.refuse_costly()?;
                    self.go_on(step).await?;
                    continue;
                }
                Stop::Paused => {
                    self.refuse_costly()?;
                    self.keep(&step).await?;
                    let said = step.native.into_iter().map(Block::Native).collect();
                    context_window::add(&mut self.ask.turns, true, said);
                    continue;
                }
                Stop::Calls => Fault::lasting("bad_answer", "the model asked for no tool"),
                Stop::MaxTokens => {
                    let most = self.model.room().0;
                    let message = format!("the answer is longer than {most} tokens");
                    Fault::lasting("limit_output", message)
                }
                Stop::Refused => Fault::lasting("refused", "the provider refused to go on"),
                Stop::ContextFull => {
                    Fault::lasting("context_full", "the conversation is too long for the model")
                }
                Stop::Unknown(word) => {
                    let message = format!("the answer ended with `{}`", word.escape_debug());
                    Fault::lasting("bad_answer", message)
                }
            };
            return Err(Halt::Fault(fault));
        }
    }

    /// Executes the calls of a step, and adds both to the next request.
    async fn go_on(&mut self, step: Step) -> std::result::Result<(), Halt> {
        let is_first = !fault::is_off("step_first");
        if is_first {
            self.keep(&step).await?;
        }
        fault::crash_point("after_step");
        let results = self.make(&step.calls).await?;
        if !is_first {
            self.keep(&step).await?;
        }
        let said = step.native.into_iter().map(Block::Native).collect();
        context_window::add(&mut self.ask.turns, true, said);
        context_window::add(&mut self.ask.turns, false, results);
        Ok(())
    }

    async fn fit(&mut self) -> std::result::Result<(), Halt> {
        if context_window::fit(&mut self.ask.turns, self.room) && !self.is_cut {
            self.is_cut = true;
            let message = "the beginning of the conversation is left out: it is too long";
            let code = "context_cut".to_owned();
            self.tell(Item::Status { code, message: message.to_owned() }).await?;
        }
        Ok(())
    }

    async fn count(&mut self, step: &Step) -> std::result::Result<(), Halt> {
        self.tokens.add(step.tokens);
        if !step.text.trim().is_empty() {
            self.words.clone_from(&step.text);
        }
        self.tell(self.usage()).await
    }

    fn usage(&self) -> Item {
        let Tokens { input, output, cache_read, cache_write } = self.tokens;
        let cost_usd = self.model.price().map(|it| self.tokens.cost(it));
        Item::Usage { input, output, cache_read, cache_write, cost_usd }
    }

    /// Counts a step that broke off: the provider charges for it.
    async fn count_cut(&mut self, tokens: Tokens) {
        if tokens == Tokens::default() {
            return;
        }
        self.tokens.add(tokens);
        // The answer may be ending because its stream takes no more.
        if let Err(Halt::Error(cause)) = self.tell(self.usage()).await {
            let job_id = &self.run.job_id;
            tracing::warn!(%job_id, "the tokens of an answer are not shown: {}", cause.chain());
        }
    }

    /// Refuses another step once the cost limit is reached.
    fn refuse_costly(&self) -> std::result::Result<(), Halt> {
        let (Some(price), Some(most)) = (self.model.price(), self.limits.cost_usd) else {
            return Ok(());
        };
        if self.tokens.cost(price) < most {
            return Ok(());
        }
        let message = format!("the answer has cost ${most}, which is all it may");
        Err(Halt::Fault(Fault::lasting("limit_money", message)))
    }

    /// Requests a step, with retries.
    async fn ask_model(&mut self) -> std::result::Result<Step, Halt> {
        let (mut tries, mut has_reset) = (0, false);
        loop {
            let (from_seq, before) = (self.line.next_seq(), self.written);
            let fault = match self.ask_once().await {
                Err(Halt::Fault(fault)) => fault,
                other => return other,
            };
            let is_seen = self.written > before;
            let is_long = fault.wait.is_some_and(|it| it > PAUSE_MAX);
            let is_over = !fault.is_passing || tries == RETRIES_MAX || is_long;
            if is_over || (is_seen && has_reset) {
                return Err(Halt::Fault(fault));
            }
            if is_seen {
                has_reset = true;
                self.written = before;
                if !fault::is_off("visible") {
                    self.tell(Item::Reset { step: self.step, from_seq }).await?;
                }
            }
            // Jitter, so that many answers that met the same limit do not retry at once.
            let spread = self.site.store.clock().now().0.unsigned_abs() % 250;
            let pause = PAUSE * 2_u32.pow(tries) + Duration::from_millis(spread);
            tries += 1;
            tokio::select! {
                () = tokio::time::sleep(fault.wait.unwrap_or(pause)) => {}
                () = self.task.stop.cancelled() => return Err(Halt::Stopped),
            }
        }
    }

    async fn ask_once(&mut self) -> std::result::Result<Step, Halt> {
        let begun = self.model.begin(&self.ask, self.limits.idle, self.pieces.clone());
        let mut answering = or_stop(self.task, begun).await?;
        let read = self.read(&mut answering).await;
        if read.is_err() {
            self.count_cut(answering.tokens()).await;
        }
        read
    }

    async fn read(&mut self, answering: &mut Answering) -> std::result::Result<Step, Halt> {
        loop {
            match or_stop(self.task, answering.next()).await? {
                Next::Done(step) => return Ok(*step),
                Next::Text(delta) => {
                    self.written += delta.len() as u64;
                    if self.written > self.limits.output_bytes {
                        let kib = self.limits.output_bytes / 1024;
                        let message = format!("the answer is longer than {kib} KiB");
                        return Err(Halt::Fault(Fault::lasting("limit_output", message)));
                    }
                    self.is_visible = true;
                    self.tell(Item::Text { step: self.step, delta }).await?;
                }
            }
        }
    }

    async fn tell(&self, item: Item) -> std::result::Result<(), Halt> {
        let line = Arc::clone(&self.line);
        on_disk(move || line.push(item)).await.map_err(|cause| match cause.kind() {
            ErrorKind::TooLarge => {
                Halt::Fault(Fault::lasting("limit_output", "the answer has too many pieces"))
            }
            _ => Halt::Error(cause),
        })
    }

    /// Stores a step.
    async fn keep(&mut self, step: &Step) -> std::result::Result<(), Halt> {
        let (token, ids) = (self.task.token_hash.clone(), self.site.ids.clone());
        let (run, parent, number) = (self.run.clone(), self.parent.clone(), self.step);
        let native = serde_json::Value::Array(step.native.clone()).to_string();
        let (text, model) = (step.text.trim().to_owned(), self.model.name());
        let provider = self.model.provider();
        let kept = self.site.store.write(move |tx| {
            jobs::fence(tx, &token)?;
            let new = NewMessage {
                session: &run.session_id,
                parent: Some(&parent),
                role: Role::Assistant,
                run: Some((&run.job_id, number)),
                state: State::Whole,
                body: &text,
                native: Some((provider, Some(&native))),
                model: Some(&model),
                attachments: &[],
            };
            chat::add_message(tx, &ids, &new)
        });
        self.parent = kept.await.map_err(ended)?;
        Ok(())
    }

    /// Executes the calls of a step: read-only ones concurrently, the others one by one.
    async fn make(&self, calls: &[ModelCall]) -> std::result::Result<Vec<Block>, Halt> {
        let (mut results, mut rest) = (Vec::with_capacity(calls.len()), calls);
        while !rest.is_empty() {
            let readers = rest.iter().take_while(|it| tools::only_reads(&it.tool)).count();
            let (now, later) = rest.split_at(readers.max(1));
            let making: Vec<_> = now.iter().map(|it| self.make_one(it).boxed()).collect();
            let made: Vec<_> = stream::iter(making).buffered(READERS_MAX).collect().await;
            for one in made {
                results.push(one?);
            }
            rest = later;
        }
        Ok(results)
    }

    async fn make_one(&self, asked: &ModelCall) -> std::result::Result<Block, Halt> {
        let result = |text: String, is_ok| Block::Result { id: asked.id.clone(), text, is_ok };
        let Some(args) = &asked.args else {
            return Ok(result("not made: the arguments are no JSON object".to_owned(), false));
        };
        if asked.id.len() > CALL_REF_BYTES_MAX {
            return Ok(result("not made: its id is too long".to_owned(), false));
        }
        let asked = Asked {
            run: self.run.clone(),
            token_hash: self.task.token_hash.clone(),
            step: self.step,
            call_ref: asked.id.clone(),
            tool: asked.tool.clone(),
            args: args.clone(),
        };
        match self.call(&asked).await {
            Ok(made) if made.state.is_final() => {
                Ok(result(made.result.unwrap_or_default(), made.ok == Some(true)))
            }
            // It awaits confirmation, and the answer is being stopped.
            Ok(_) => Err(Halt::Stopped),
            Err(cause) => {
                let is_told = matches!(
                    cause.kind(),
                    ErrorKind::NotFound
                        | ErrorKind::Forbidden
                        | ErrorKind::Invalid
                        | ErrorKind::Conflict
                        | ErrorKind::TooLarge
                );
                match ended(cause) {
                    Halt::Error(cause) if is_told => {
                        let hint = cause.hint_str().map(|it| format!(": {it}"));
                        let text = format!("{}{}", cause.message(), hint.unwrap_or_default());
                        Ok(result(text, false))
                    }
                    halt => Err(halt),
                }
            }
        }
    }

    /// Executes a call. Waiting for the person does not count toward the run's time.
    async fn call(&self, asked: &Asked) -> Result<ToolCall> {
        let stop = &self.task.stop;
        if stop.is_cancelled() {
            return Err(Error::conflict(RUN_ENDED, "the answer is ending"));
        }
        let mut made = call(self.site, asked, (Instant::now(), stop)).await?;
        if made.state == CallState::Waiting {
            let _pause = self.task.clock.pause();
            while made.state == CallState::Waiting && !stop.is_cancelled() {
                made = call(self.site, asked, (Instant::now() + WAIT, stop)).await?;
            }
        }
        Ok(made)
    }
}

/// Returns how an answer ends after a failed write.
pub(super) fn ended(cause: Error) -> Halt {
    match cause.code_str() {
        RUN_ENDED | JOB_ENDED => Halt::Stopped,
        _ => Halt::Error(cause),
    }
}

async fn or_stop<T>(
    task: &Task,
    work: impl Future<Output = std::result::Result<T, Fault>>,
) -> std::result::Result<T, Halt> {
    tokio::select! {
        biased;
        () = task.stop.cancelled() => Err(Halt::Stopped),
        done = work => done.map_err(Halt::Fault),
    }
}
