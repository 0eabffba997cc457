//! Conversations and calls against models of them, for any sequence of what people, answers and
//! clocks do.

use proptest::prelude::*;
use rusqlite::{Connection, named_params};

use crate::base::{ApprovalId, ChatId, ChatMessageId, Clock, Ids, JobId, Millis, PersonId};
use crate::chat::call::{self, CallState, NewCall, Target};
use crate::chat::message::{self, NewMessage, Role, State};
use crate::chat::session::{self, Change, Spent};
use crate::store::{Tx, in_memory};

struct Bench {
    connection: Connection,
    clock: Clock,
    ids: Ids,
    person: PersonId,
}

impl Bench {
    fn new() -> Bench {
        let connection = in_memory();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        let clock = Clock::fixed(Millis(1_700_000_000_000));
        let person: PersonId = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
        let sql = "INSERT INTO persons (id, name, display_name, role, created_ms)
            VALUES (:id, 'ada', 'Ada', 'member', 0)";
        connection.execute(sql, named_params! {":id": person}).unwrap();
        Bench { ids: Ids::new(clock.clone()), connection, clock, person }
    }

    fn tx<T>(&self, work: impl Fn(&Tx<'_>) -> T) -> T {
        self.clock.advance(1);
        let transaction = self.connection.unchecked_transaction().unwrap();
        let done = work(&Tx::for_test(&transaction, self.clock.now()));
        transaction.commit().unwrap();
        done
    }
}

// --- the tree of messages ---

/// What happens to a conversation. Numbers choose among the messages that exist.
#[derive(Clone, Debug)]
enum Turn {
    /// A question after the end of the branch that is shown, or after any message, or first.
    Ask(Place),
    /// An answer of some steps to a question; the person may look at another branch meanwhile.
    Answer { to: usize, steps: usize, looks_at: Option<usize> },
    /// Another branch is shown.
    Show(usize),
}

#[derive(Clone, Debug)]
enum Place {
    Head,
    After(usize),
    First,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let place = prop_oneof![
        4 => Just(Place::Head),
        3 => any::<usize>().prop_map(Place::After),
        1 => Just(Place::First),
    ];
    let looks_at = proptest::option::weighted(0.3, any::<usize>());
    let turn = prop_oneof![
        4 => place.prop_map(Turn::Ask),
        5 => (any::<usize>(), 1_usize..4, looks_at)
            .prop_map(|(to, steps, looks_at)| Turn::Answer { to, steps, looks_at }),
        2 => any::<usize>().prop_map(Turn::Show),
    ];
    prop::collection::vec(turn, 1..24)
}

/// A conversation as it should be: each message with its parent, and the end that is shown.
#[derive(Default)]
struct Tree {
    nodes: Vec<(ChatMessageId, Option<usize>)>,
    head: Option<usize>,
}

impl Tree {
    fn children(&self, parent: Option<usize>) -> Vec<usize> {
        (0..self.nodes.len()).filter(|it| self.nodes[*it].1 == parent).collect()
    }

    /// The end of the newest branch below a message.
    fn tip(&self, from: usize) -> usize {
        self.children(Some(from)).last().map_or(from, |it| self.tip(*it))
    }

    /// The messages from the first one to one.
    fn path(&self, to: usize) -> Vec<usize> {
        let mut path: Vec<usize> =
            std::iter::successors(Some(to), |it| self.nodes[*it].1).collect();
        path.reverse();
        path
    }

    fn id(&self, at: usize) -> &ChatMessageId {
        &self.nodes[at].0
    }

    fn ids(&self, at: &[usize]) -> Vec<ChatMessageId> {
        at.iter().map(|it| self.id(*it).clone()).collect()
    }
}

struct Talk<'b> {
    bench: &'b Bench,
    session: ChatId,
    tree: Tree,
}

impl Talk<'_> {
    fn add(&mut self, parent: Option<usize>, role: Role) -> usize {
        let parent_id = parent.map(|it| self.tree.id(it).clone());
        let id = self.bench.tx(|tx| {
            let new = NewMessage {
                session: &self.session,
                parent: parent_id.as_ref(),
                role,
                run: None,
                state: State::Whole,
                body: "words",
                native: None,
                model: None,
                attachments: &[],
            };
            message::insert(tx, &self.bench.ids, &new).unwrap()
        });
        self.tree.nodes.push((id, parent));
        self.tree.nodes.len() - 1
    }

    fn show(&mut self, at: usize) {
        let (person, id) = (&self.bench.person, self.tree.id(at).clone());
        self.bench.tx(|tx| {
            let head = Some(message::tip(tx.connection(), &id).unwrap());
            let change = Change { head, ..Change::default() };
            session::change(tx, person, &self.session, &change).unwrap();
        });
        self.tree.head = Some(self.tree.tip(at));
    }

    fn play(&mut self, turn: &Turn) {
        let all = self.tree.nodes.len();
        match turn {
            Turn::Ask(place) => {
                let parent = match place {
                    Place::Head => self.tree.head,
                    Place::After(at) => (all > 0).then(|| at % all.max(1)),
                    Place::First => None,
                };
                let asked = self.add(parent, Role::User);
                let id = self.tree.id(asked).clone();
                self.bench.tx(|tx| {
                    let person = &self.bench.person;
                    let session = session::find(tx.connection(), person, &self.session).unwrap();
                    session::note_question(tx, &session, &id, true).unwrap();
                });
                self.tree.head = Some(asked);
            }
            Turn::Answer { to, steps, looks_at } if all > 0 => {
                let question = to % all;
                let mut answers: Vec<usize> = Vec::new();
                for _ in 0..*steps {
                    let parent = answers.last().copied().unwrap_or(question);
                    answers.push(self.add(Some(parent), Role::Assistant));
                }
                if let Some(at) = looks_at {
                    self.show(at % self.tree.nodes.len());
                }
                let (of, ids) = (self.tree.id(question).clone(), self.tree.ids(&answers));
                let who = (&self.bench.person, &self.session);
                self.bench.tx(|tx| {
                    session::note_answer(tx, who, (&of, &ids), Spent::default()).unwrap();
                });
                // Whoever looks at another branch stays there.
                let is_there = |it: usize| it == question || answers.contains(&it);
                if self.tree.head.is_some_and(is_there) {
                    self.tree.head = answers.last().copied();
                }
            }
            Turn::Show(at) if all > 0 => self.show(at % all),
            Turn::Answer { .. } | Turn::Show(_) => {}
        }
    }

    fn check(&self) {
        let (c, tree) = (&self.bench.connection, &self.tree);
        let stored = session::find(c, &self.bench.person, &self.session).unwrap();
        assert_eq!(stored.head_id, tree.head.map(|it| tree.id(it).clone()));
        assert_eq!(stored.messages, tree.nodes.len() as i64);
        let Some(head) = tree.head else { return };
        let path = tree.path(head);
        for limit in [1, 2, path.len(), path.len() + 1] {
            let (branch, has_more) =
                message::branch(c, &self.session, tree.id(head), limit).unwrap();
            let found: Vec<ChatMessageId> = branch.into_iter().map(|it| it.id).collect();
            let shown = &path[path.len() - limit.min(path.len())..];
            assert_eq!((found, has_more), (tree.ids(shown), path.len() > limit));
        }
        for (at, (id, parent)) in tree.nodes.iter().enumerate() {
            let parent_id = parent.map(|it| tree.id(it));
            let siblings = message::siblings(c, &self.session, parent_id).unwrap();
            assert_eq!(siblings, tree.ids(&tree.children(*parent)));
            assert_eq!(message::tip(c, id).unwrap(), *tree.id(tree.tip(at)));
            let is_above = message::is_above(c, id, tree.id(head)).unwrap();
            assert_eq!(is_above, path.contains(&at));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever is asked, answered and looked at, in whatever order: no message is lost or moved,
    /// each has its place among its siblings, and a new answer takes nobody from another branch.
    /// Fails with `WB_WITHOUT=head_parent`.
    #[test]
    fn a_conversation_is_the_tree_that_was_said(turns in turns()) {
        let bench = Bench::new();
        let [session, other] = [(), ()].map(|()| {
            bench.tx(|tx| session::begin(tx, &bench.ids, &bench.person, "words").unwrap()).id
        });
        let mut talk = Talk { bench: &bench, session, tree: Tree::default() };
        for turn in &turns {
            talk.play(turn);
            talk.check();
        }
        // Nothing of it is in another conversation, and no message changes.
        for (id, _) in &talk.tree.nodes {
            let refused = message::find(&bench.connection, &other, id).unwrap_err();
            assert_eq!(refused.code_str(), "no_message");
            let params = named_params! {":id": id, ":other": other};
            for sql in [
                "UPDATE chat_messages SET body = 'x' WHERE id = :id AND :other <> ''",
                "INSERT INTO chat_messages (id, session_id, parent_id, role, state, body,
                    created_ms) VALUES ('x', :other, :id, 'user', 'whole', 'x', 0)",
            ] {
                assert!(bench.connection.execute(sql, params).is_err(), "{sql}");
            }
        }
    }
}

// --- calls ---

/// What happens to calls. The number chooses one.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Start(usize),
    Finish(usize, CallState),
    Again(usize),
    FinishAgain(usize),
    Undo(usize),
    /// The run ends.
    Close,
    /// A server that was killed left calls that were made again.
    Recover,
}

impl Deed {
    /// Returns the call that it is about.
    fn at(self) -> Option<usize> {
        match self {
            Deed::Start(at)
            | Deed::Finish(at, _)
            | Deed::Again(at)
            | Deed::FinishAgain(at)
            | Deed::Undo(at) => Some(at),
            Deed::Close | Deed::Recover => None,
        }
    }
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    const ENDS: [CallState; 5] = [
        CallState::Done,
        CallState::Declined,
        CallState::Expired,
        CallState::Void,
        CallState::Unknown,
    ];
    let at = || 0_usize..4;
    let deed = prop_oneof![
        5 => at().prop_map(Deed::Start),
        5 => (at(), prop::sample::select(&ENDS[..])).prop_map(|(at, it)| Deed::Finish(at, it)),
        4 => at().prop_map(Deed::Again),
        3 => at().prop_map(Deed::FinishAgain),
        2 => at().prop_map(Deed::Undo),
        1 => Just(Deed::Close),
        1 => Just(Deed::Recover),
    ];
    prop::collection::vec(deed, 1..40)
}

/// A call as it should be.
#[derive(Clone, Copy)]
struct Model {
    state: CallState,
    /// How often it was allowed to begin: by the run, and again after its question had expired.
    begun: (u32, u32),
    was_undone: bool,
}

impl Model {
    fn is_open(self) -> bool {
        !self.state.is_final()
    }

    /// Does what a deed should do; returns whether it counts.
    fn step(&mut self, deed: Deed) -> bool {
        let is_again = self.begun.1 > 0;
        let (counts, state) = match deed {
            Deed::Start(_) => {
                (matches!(self.state, CallState::Ready | CallState::Waiting), CallState::Running)
            }
            Deed::Finish(_, end) => (self.is_open(), end),
            Deed::Again(_) => (self.state == CallState::Expired && !is_again, CallState::Running),
            Deed::FinishAgain(_) => (self.state == CallState::Running && is_again, CallState::Done),
            Deed::Undo(_) => {
                let was_made = matches!(self.state, CallState::Done | CallState::Unknown);
                let counts = was_made && !self.was_undone;
                self.was_undone |= counts;
                return counts;
            }
            Deed::Close => {
                let end = match self.state {
                    CallState::Running => CallState::Unknown,
                    _ => CallState::Cancelled,
                };
                (self.is_open() && !is_again, end)
            }
            Deed::Recover => (self.state == CallState::Running && is_again, CallState::Unknown),
        };
        if counts {
            self.state = state;
            self.begun.0 += u32::from(matches!(deed, Deed::Start(_)));
            self.begun.1 += u32::from(matches!(deed, Deed::Again(_)));
        }
        counts
    }
}

/// Adds four calls to a run, two of which wait for their person.
fn calls(bench: &Bench, run: &JobId) -> Vec<(crate::base::CallId, Model)> {
    let target = Target {
        path: "a.md".to_owned(),
        before: "none".to_owned(),
        after: "x".to_owned(),
        to: None,
    };
    let add = |number: usize| {
        let (id, approval): (_, ApprovalId) = (call::mint(&bench.ids), bench.ids.mint());
        let call_ref = number.to_string();
        let made = bench.tx(|tx| {
            let new = NewCall {
                id: &id,
                run: (run, 1),
                call_ref: &call_ref,
                tool: "write_file",
                args: ("{}", "digest"),
                asks: (number % 2 == 1).then_some(("it overwrites", &approval)),
                target: Some(&target),
            };
            call::insert(tx, &new).unwrap()
        });
        (id, Model { state: made.state, begun: (0, 0), was_undone: false })
    };
    (0..4).map(add).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Whatever comes in whatever order: a call begins at most once, and once again after its
    /// question expired; what has ended stays ended, and is undone at most once. Fails with
    /// `WB_WITHOUT=use_once`.
    #[test]
    fn a_call_is_made_at_most_once(deeds in deeds()) {
        let bench = Bench::new();
        // Calls alone: no run, conversation or approval stands behind them here.
        bench.connection.pragma_update(None, "foreign_keys", false).unwrap();
        let run: JobId = bench.ids.mint();
        let mut calls = calls(&bench, &run);
        for deed in deeds {
            let done = bench.tx(|tx| match deed {
                Deed::Start(at) => Some(call::start(tx, &calls[at].0).unwrap()),
                Deed::Finish(at, end) => {
                    let said = (end == CallState::Done, "line", "text");
                    Some(call::finish(tx, &calls[at].0, end, said).unwrap())
                }
                Deed::Again(at) => {
                    let approval: ApprovalId = bench.ids.mint();
                    Some(call::start_again(tx, &calls[at].0, &approval).is_ok())
                }
                Deed::FinishAgain(at) => {
                    call::finish_again(tx, &calls[at].0, CallState::Done, (true, "line")).unwrap();
                    None
                }
                Deed::Undo(at) => Some(call::note_undone(tx, &calls[at].0).unwrap()),
                Deed::Close => {
                    call::close(tx, &run).unwrap();
                    None
                }
                Deed::Recover => {
                    call::close_again(tx).unwrap();
                    None
                }
            });
            let stored = call::of_run(&bench.connection, &run).unwrap();
            for (at, (id, model)) in calls.iter_mut().enumerate() {
                let counts = match deed {
                    Deed::Close | Deed::Recover => model.step(deed),
                    _ => deed.at() == Some(at) && model.step(deed),
                };
                if let (Some(done), true) = (done, deed.at() == Some(at)) {
                    prop_assert_eq!(done, counts, "{:?}: {:?}", deed, model.state);
                }
                let stored = stored.iter().find(|it| it.id == *id).unwrap();
                prop_assert_eq!(stored.state, model.state, "{:?}", deed);
                prop_assert_eq!(stored.undone_at.is_some(), model.was_undone);
                prop_assert!(model.begun.0 <= 1 && model.begun.1 <= 1);
                // Whoever reads it later knows how it ended, unless nobody does.
                let knows = stored.state.is_final() && stored.state != CallState::Cancelled;
                prop_assert!(!knows || stored.ok.is_some() == (stored.state != CallState::Unknown));
            }
        }
    }
}
