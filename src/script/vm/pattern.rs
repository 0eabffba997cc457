//! Patterns as in Lua 5.4, with a step limit: the engine's own matcher cannot be interrupted, and a
//! short pattern can keep it busy for years.
//!
//! **Invariant:** total, with bounded steps and depth: any bytes are a pattern or an error.

/// Most steps of one search, which take some tens of milliseconds.
const STEPS_MAX: u32 = 4_000_000;
/// Deepest nesting, as in the engine.
const DEPTH_MAX: u32 = 200;
/// Most captures, as in the engine.
const CAPTURES_MAX: usize = 32;
/// Characters with a special meaning in patterns.
const SPECIALS: &[u8] = b"^$*+?.([%-";
const ESCAPE: u8 = b'%';

/// Why a pattern cannot be matched.
pub(crate) type Wrong = String;

/// A capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Captured {
    /// A range of the text: its first byte, and the one after its last.
    Part(usize, usize),
    /// A place in the text, counted from 0.
    Place(usize),
    /// Never closed. It is an error only when it is used.
    Open,
}

/// Where a pattern fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// The first byte.
    pub(crate) from: usize,
    /// The one after the last.
    pub(crate) to: usize,
    /// Its captures.
    pub(crate) captures: Vec<Captured>,
}

#[derive(Clone, Copy)]
enum Length {
    Open,
    Place,
    Bytes(usize),
}

/// A search for a pattern in one text.
pub(crate) struct Search<'t> {
    text: &'t [u8],
    pattern: &'t [u8],
    captures: Vec<(usize, Length)>,
    steps: u32,
    steps_max: u32,
    depth: u32,
}

/// Returns whether a pattern has no special characters.
pub(crate) fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| SPECIALS.contains(byte))
}

impl<'t> Search<'t> {
    /// Creates a search; all calls count toward the same step limit. `is_bounded` is false only
    /// where a test needs an unbounded search.
    pub(crate) fn new(text: &'t [u8], pattern: &'t [u8], is_bounded: bool) -> Search<'t> {
        let steps_max = if is_bounded { STEPS_MAX } else { u32::MAX };
        Search { text, pattern, captures: Vec::new(), steps: 0, steps_max, depth: 0 }
    }

    /// Returns the first literal occurrence at or after a byte.
    pub(crate) fn plain(&mut self, from: usize) -> Result<Option<usize>, Wrong> {
        for at in from..=self.text.len() {
            let rest = &self.text[at..];
            if rest.len() < self.pattern.len() {
                return Ok(None);
            }
            let is_near = rest.first() == self.pattern.first();
            let cost = if is_near { self.pattern.len() / 8 } else { 0 };
            self.count(u32::try_from(cost).unwrap_or(u32::MAX).saturating_add(1))?;
            if rest.starts_with(self.pattern) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Returns the first match at or after a byte that does not end where the previous one did.
    pub(crate) fn find(
        &mut self,
        from: usize,
        is_anchored: bool,
        last_end: Option<usize>,
    ) -> Result<Option<Fit>, Wrong> {
        let first = usize::from(is_anchored);
        for at in from..=self.text.len() {
            self.captures.clear();
            if let Some(to) = self.fit(at, first)?
                && last_end != Some(to)
            {
                let captures = self.captured();
                return Ok(Some(Fit { from: at, to, captures }));
            }
            if is_anchored {
                break;
            }
        }
        Ok(None)
    }

    fn captured(&self) -> Vec<Captured> {
        let captured = |(from, length): &(usize, Length)| match length {
            Length::Open => Captured::Open,
            Length::Place => Captured::Place(*from),
            Length::Bytes(count) => Captured::Part(*from, from + count),
        };
        self.captures.iter().map(captured).collect()
    }

    fn count(&mut self, steps: u32) -> Result<(), Wrong> {
        self.steps = self.steps.saturating_add(steps);
        match self.steps > self.steps_max {
            true => Err("the text pattern takes too long".to_owned()),
            false => Ok(()),
        }
    }

    /// Returns where the rest of the pattern stops matching.
    fn fit(&mut self, at: usize, from: usize) -> Result<Option<usize>, Wrong> {
        if self.depth >= DEPTH_MAX {
            return Err("pattern too complex".to_owned());
        }
        self.depth += 1;
        let fit = self.fit_items(at, from);
        self.depth -= 1;
        fit
    }

    fn fit_items(&mut self, mut at: usize, mut item: usize) -> Result<Option<usize>, Wrong> {
        loop {
            self.count(1)?;
            let Some(byte) = self.pattern.get(item).copied() else { return Ok(Some(at)) };
            let next = self.pattern.get(item + 1).copied();
            match (byte, next) {
                (b'(', Some(b')')) => return self.open(at, item + 2, Length::Place),
                (b'(', _) => return self.open(at, item + 1, Length::Open),
                (b')', _) => return self.close(at, item + 1),
                (b'$', None) => return Ok((at == self.text.len()).then_some(at)),
                (ESCAPE, Some(b'b')) => match self.balanced(at, item + 2)? {
                    Some(end) => (at, item) = (end, item + 4),
                    None => return Ok(None),
                },
                (ESCAPE, Some(b'f')) => match self.frontier(at, item + 2)? {
                    Some(end) => item = end,
                    None => return Ok(None),
                },
                (ESCAPE, Some(digit @ b'0'..=b'9')) => match self.again(at, digit)? {
                    Some(end) => (at, item) = (end, item + 2),
                    None => return Ok(None),
                },
                _ => match self.repeated(at, item)? {
                    Step::On(next_at, next_item) => (at, item) = (next_at, next_item),
                    Step::End(end) => return Ok(end),
                },
            }
        }
    }

    /// Matches one class with its quantifier.
    fn repeated(&mut self, at: usize, item: usize) -> Result<Step, Wrong> {
        let end = self.class_end(item)?;
        let often = self.pattern.get(end).copied();
        let fits = self.is_one(at, item, end);
        Ok(match (often, fits) {
            (Some(b'*' | b'?' | b'-'), false) => Step::On(at, end + 1),
            (_, false) => Step::End(None),
            (Some(b'?'), true) => match self.fit(at + 1, end + 1)? {
                Some(found) => Step::End(Some(found)),
                None => Step::On(at, end + 1),
            },
            (Some(b'+'), true) => Step::End(self.most(at + 1, item, end)?),
            (Some(b'*'), true) => Step::End(self.most(at, item, end)?),
            (Some(b'-'), true) => Step::End(self.least(at, item, end)?),
            (_, true) => Step::On(at + 1, end),
        })
    }

    fn most(&mut self, at: usize, item: usize, end: usize) -> Result<Option<usize>, Wrong> {
        let mut count = 0;
        while self.is_one(at + count, item, end) {
            self.count(1)?;
            count += 1;
        }
        loop {
            if let Some(found) = self.fit(at + count, end + 1)? {
                return Ok(Some(found));
            }
            match count.checked_sub(1) {
                Some(fewer) => count = fewer,
                None => return Ok(None),
            }
        }
    }

    fn least(&mut self, mut at: usize, item: usize, end: usize) -> Result<Option<usize>, Wrong> {
        loop {
            if let Some(found) = self.fit(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.is_one(at, item, end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn open(&mut self, at: usize, item: usize, length: Length) -> Result<Option<usize>, Wrong> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err("too many captures".to_owned());
        }
        let before = self.captures.len();
        self.captures.push((at, length));
        let fit = self.fit(at, item)?;
        if fit.is_none() {
            self.captures.truncate(before);
        }
        Ok(fit)
    }

    fn close(&mut self, at: usize, item: usize) -> Result<Option<usize>, Wrong> {
        let is_open = |it: &(usize, Length)| matches!(it.1, Length::Open);
        let Some(index) = self.captures.iter().rposition(is_open) else {
            return Err("invalid pattern capture".to_owned());
        };
        self.captures[index].1 = Length::Bytes(at - self.captures[index].0);
        let fit = self.fit(at, item)?;
        if fit.is_none() {
            self.captures[index].1 = Length::Open;
        }
        Ok(fit)
    }

    /// `%1`: the text of a capture again.
    fn again(&mut self, at: usize, digit: u8) -> Result<Option<usize>, Wrong> {
        let number = i32::from(digit) - i32::from(b'0');
        let index = usize::try_from(number - 1).ok();
        let (from, count) = match index.and_then(|it| self.captures.get(it)) {
            Some((from, Length::Bytes(count))) => (*from, *count),
            Some((_, Length::Place)) => return Ok(None),
            Some((_, Length::Open)) | None => {
                return Err(format!("invalid capture index %{number}"));
            }
        };
        self.count(u32::try_from(count / 8).unwrap_or(u32::MAX))?;
        let same = self.text.get(at..at + count) == self.text.get(from..from + count);
        Ok(same.then_some(at + count))
    }

    /// `%b()`: from a bracket to the matching one.
    fn balanced(&mut self, at: usize, item: usize) -> Result<Option<usize>, Wrong> {
        let (Some(open), Some(close)) = (self.pattern.get(item), self.pattern.get(item + 1)) else {
            return Err("malformed pattern (missing arguments to '%b')".to_owned());
        };
        if self.text.get(at) != Some(open) {
            return Ok(None);
        }
        let mut depth = 1_u32;
        for (step, byte) in self.text.iter().enumerate().skip(at + 1) {
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    self.count(u32::try_from(step - at).unwrap_or(u32::MAX))?;
                    return Ok(Some(step + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        self.count(u32::try_from(self.text.len() - at).unwrap_or(u32::MAX))?;
        Ok(None)
    }

    /// `%f[set]`: the boundary between a byte outside the set and one inside; returns the rest of
    /// the pattern.
    fn frontier(&mut self, at: usize, item: usize) -> Result<Option<usize>, Wrong> {
        if self.pattern.get(item) != Some(&b'[') {
            return Err("missing '[' after '%f' in pattern".to_owned());
        }
        let end = self.class_end(item)?;
        let before = at.checked_sub(1).map_or(0, |it| self.text[it]);
        let here = self.text.get(at).copied().unwrap_or(0);
        let is_edge = !self.is_in_set(before, item, end) && self.is_in_set(here, item, end);
        Ok(is_edge.then_some(end))
    }

    /// Returns the byte after a class.
    fn class_end(&self, item: usize) -> Result<usize, Wrong> {
        match self.pattern[item] {
            ESCAPE if item + 1 >= self.pattern.len() => {
                Err("malformed pattern (ends with '%')".to_owned())
            }
            ESCAPE => Ok(item + 2),
            b'[' => {
                let mut at = item + 1;
                at += usize::from(self.pattern.get(at) == Some(&b'^'));
                loop {
                    let Some(byte) = self.pattern.get(at) else {
                        return Err("malformed pattern (missing ']')".to_owned());
                    };
                    at += 1;
                    at += usize::from(*byte == ESCAPE && at < self.pattern.len());
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(item + 1),
        }
    }

    /// Returns whether a byte of the text matches a class.
    fn is_one(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(byte) = self.text.get(at).copied() else { return false };
        match self.pattern[item] {
            b'.' => true,
            ESCAPE => is_of(byte, self.pattern[item + 1]),
            b'[' => self.is_in_set(byte, item, end),
            plain => plain == byte,
        }
    }

    /// Returns whether a byte matches the set between two brackets.
    fn is_in_set(&self, byte: u8, item: usize, end: usize) -> bool {
        let is_negated = self.pattern.get(item + 1) == Some(&b'^');
        let (mut at, last) = (item + 1 + usize::from(is_negated), end - 1);
        while at < last {
            let here = self.pattern[at];
            if here == ESCAPE {
                at += 1;
                if is_of(byte, self.pattern[at]) {
                    return !is_negated;
                }
            } else if self.pattern.get(at + 1) == Some(&b'-') && at + 2 < last {
                if (here..=self.pattern[at + 2]).contains(&byte) {
                    return !is_negated;
                }
                at += 2;
            } else if here == byte {
                return !is_negated;
            }
            at += 1;
        }
        is_negated
    }
}

/// Where matching continues, or how it ends.
enum Step {
    On(usize, usize),
    End(Option<usize>),
}

/// Returns whether a byte matches the class after a `%`.
fn is_of(byte: u8, class: u8) -> bool {
    let is_it = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        // Rust does not treat the vertical tab as whitespace.
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        // From older versions of Lua; the engine still supports it.
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_it != class.is_ascii_uppercase()
}
