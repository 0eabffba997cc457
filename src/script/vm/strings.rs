//! `string.find`, `match`, `gmatch` and `gsub` with a step limit.

use mlua::{Lua, LuaString, MultiValue, Value};

use crate::base::fault;
use crate::script::vm::pattern::{Captured, Fit, Search, Wrong, is_plain};

/// The functions as scripts call them. They are written in Lua, so that an error has the line of
/// the caller, and a replacement function is called by Lua itself.
const FUNCTIONS: &str = r#"
local find, match, step, start, replace = ...
local error, type, concat, tostring = error, type, table.concat, tostring
local function fine(is_fine, ...)
  if is_fine then return ... end
  error((...), 2)
end
-- For a function that goes on afterwards, and so has a frame of its own.
local function begun(is_fine, ...)
  if is_fine then return ... end
  error((...), 3)
end
function string.find(...) return fine(find(...)) end
function string.match(...) return fine(match(...)) end
function string.gmatch(...)
  local text, pattern, at = begun(start("gmatch", ...))
  local last
  local function take(is_fine, from, to, ...)
    if not is_fine then error(from, 3) end
    if from == nil then return nil end
    at, last = to, to
    return ...
  end
  return function()
    local function one(...) return take(...) end
    return one(step(text, pattern, at, last, false))
  end
end
function string.gsub(...)
  local _, _, by = ...
  local sort = type(by)
  if sort ~= "function" and sort ~= "table" then return fine(replace(...)) end
  local text, pattern, at, most, anchored, size = begun(start("gsub", ...))
  local parts, count, made, last = {}, 0, 0, nil
  local function put(part) made = made + 1 parts[made] = part end
  local function one(is_fine, from, to, ...)
    if not is_fine then error(from, 3) end
    if from == nil then return false end
    put(text:sub(at + 1, from))
    count, at, last = count + 1, to, to
    local whole = text:sub(from + 1, to)
    local value
    if sort == "function" then value = by(...) else value = by[(...)] end
    local kind = type(value)
    if not value then value = whole
    elseif kind ~= "string" and kind ~= "number" then
      error("invalid replacement value (a " .. kind .. ")", 3)
    end
    put(tostring(value))
    return true
  end
  while count < most and at <= size and one(step(text, pattern, at, last, anchored)) do
    if anchored then break end
  end
  put(text:sub(at + 1))
  return concat(parts), count
end
"#;

/// Error for a capture that is never closed.
const OPEN: &str = "unfinished capture";

/// Replaces the engine's own functions.
pub(crate) fn install(lua: &Lua) -> mlua::Result<()> {
    let bound = !fault::is_off("pattern_steps");
    let find = lua.create_function(move |lua, args| answer(lua, found(lua, &args, true, bound)))?;
    let matched =
        lua.create_function(move |lua, args| answer(lua, found(lua, &args, false, bound)))?;
    let step = lua.create_function(move |lua, args| answer(lua, stepped(lua, args, bound)))?;
    let start = lua.create_function(|lua, args| answer(lua, started(lua, &args)))?;
    let replace = lua.create_function(move |lua, args| answer(lua, replaced(lua, &args, bound)))?;
    let install = lua.load(FUNCTIONS).set_name("=string");
    install.call::<()>((find, matched, step, start, replace))
}

type Values = Result<Vec<Value>, Wrong>;

/// Returns true and the values, or false and the error.
fn answer(lua: &Lua, values: Values) -> mlua::Result<MultiValue> {
    let mut all = MultiValue::new();
    match values {
        Ok(values) => {
            all.push_back(Value::Boolean(true));
            all.extend(values);
        }
        Err(wrong) => {
            all.push_back(Value::Boolean(false));
            all.push_back(Value::String(lua.create_string(wrong)?));
        }
    }
    Ok(all)
}

/// The arguments of a call.
struct Args<'a> {
    function: &'static str,
    values: &'a MultiValue,
    /// How many come before those of the function.
    before: usize,
}

impl Args<'_> {
    fn get(&self, place: usize) -> Value {
        self.values.get(self.before + place - 1).cloned().unwrap_or(Value::Nil)
    }

    fn wrong(&self, place: usize, expected: &str) -> Wrong {
        let value = self.get(place);
        let is_there = self.values.len() >= self.before + place;
        let given = if is_there { value.type_name() } else { "no value" };
        let given = if matches!(value, Value::Integer(_)) { "number" } else { given };
        format!("bad argument #{place} to '{}' ({expected} expected, got {given})", self.function)
    }

    fn text(&self, lua: &Lua, place: usize) -> Result<LuaString, Wrong> {
        let value = self.get(place);
        let is_text = matches!(value, Value::String(_) | Value::Integer(_) | Value::Number(_));
        let text = is_text.then(|| lua.coerce_string(value).ok().flatten()).flatten();
        text.ok_or_else(|| self.wrong(place, "string"))
    }

    fn number(&self, lua: &Lua, place: usize, default: i64) -> Result<i64, Wrong> {
        match self.get(place) {
            Value::Nil => Ok(default),
            value @ (Value::Integer(_) | Value::Number(_) | Value::String(_)) => {
                let whole = lua.coerce_integer(value.clone()).ok().flatten();
                whole.ok_or_else(|| match value {
                    Value::Number(_) => format!(
                        "bad argument #{place} to '{}' (number has no integer representation)",
                        self.function
                    ),
                    _ => self.wrong(place, "number"),
                })
            }
            _ => Err(self.wrong(place, "number")),
        }
    }

    /// Returns the first byte to search; beyond the end there are no matches.
    fn first(&self, lua: &Lua, place: usize, len: usize) -> Result<usize, Wrong> {
        let at = self.number(lua, place, 1)?;
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        let at = match at {
            1.. => at,
            at if at == 0 || at < -len => 1,
            at => len + at + 1,
        };
        Ok(usize::try_from(at - 1).unwrap_or(usize::MAX))
    }
}

fn found(lua: &Lua, values: &MultiValue, is_find: bool, is_bounded: bool) -> Values {
    let args = Args { function: if is_find { "find" } else { "match" }, values, before: 0 };
    let (text, pattern) = (args.text(lua, 1)?, args.text(lua, 2)?);
    let (bytes, pattern) = (text.as_bytes(), pattern.as_bytes());
    let from = args.first(lua, 3, bytes.len())?;
    let nothing = || Ok(vec![Value::Nil]);
    if from > bytes.len() {
        return nothing();
    }
    let asks_plain = !matches!(args.get(4), Value::Nil | Value::Boolean(false));
    let mut search = Search::new(&bytes, &pattern, is_bounded);
    if is_find && (asks_plain || is_plain(&pattern)) {
        let Some(at) = search.plain(from)? else { return nothing() };
        return Ok(vec![number(at + 1), number(at + pattern.len())]);
    }
    let Some(fit) = search.find(from, pattern.first() == Some(&b'^'), None)? else {
        return nothing();
    };
    let mut values = Vec::new();
    if is_find {
        values.extend([number(fit.from + 1), number(fit.to)]);
    }
    values.extend(captures(lua, &bytes, &fit, !is_find)?);
    Ok(values)
}

/// Returns text, pattern and the byte at which to begin, and for `gsub` how often, whether only at
/// the beginning, and the length.
fn started(lua: &Lua, values: &MultiValue) -> Values {
    let is_gsub = matches!(values.front(), Some(Value::String(name)) if name == "gsub");
    let args = Args { function: if is_gsub { "gsub" } else { "gmatch" }, values, before: 1 };
    let (text, pattern) = (args.text(lua, 1)?, args.text(lua, 2)?);
    let len = text.as_bytes().len();
    if !is_gsub {
        let first = args.first(lua, 3, len)?.min(len + 1);
        return Ok(vec![Value::String(text), Value::String(pattern), number(first)]);
    }
    let most = args.number(lua, 4, i64::try_from(len + 1).unwrap_or(i64::MAX))?;
    let is_anchored = pattern.as_bytes().first() == Some(&b'^');
    let (text, pattern) = (Value::String(text), Value::String(pattern));
    let (most, is_anchored) = (Value::Integer(most), Value::Boolean(is_anchored));
    Ok(vec![text, pattern, number(0), most, is_anchored, number(len)])
}

type Stepped = (LuaString, LuaString, usize, Option<usize>, bool);

/// Returns the next match: its first byte, the one after its last, and its captures.
fn stepped(lua: &Lua, args: Stepped, is_bounded: bool) -> Values {
    let (text, pattern, at, last, is_anchored) = args;
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let mut search = Search::new(&text, &pattern, is_bounded);
    let Some(fit) = search.find(at, is_anchored, last)? else {
        return Ok(vec![Value::Nil]);
    };
    let mut values = vec![number(fit.from), number(fit.to)];
    values.extend(captures(lua, &text, &fit, true)?);
    Ok(values)
}

/// `gsub` with a text.
fn replaced(lua: &Lua, values: &MultiValue, is_bounded: bool) -> Values {
    let args = Args { function: "gsub", values, before: 0 };
    let (text, pattern) = (args.text(lua, 1)?, args.text(lua, 2)?);
    let by = args.text(lua, 3).map_err(|_| args.wrong(3, "string/function/table"))?;
    let (text, pattern, by) = (text.as_bytes(), pattern.as_bytes(), by.as_bytes());
    let most = args.number(lua, 4, i64::try_from(text.len() + 1).unwrap_or(i64::MAX))?;
    let is_anchored = pattern.first() == Some(&b'^');
    let mut search = Search::new(&text, &pattern, is_bounded);
    let (mut made, mut count, mut at, mut last) = (Vec::new(), 0, 0, None);
    while count < most && at <= text.len() {
        let Some(fit) = search.find(at, is_anchored, last)? else { break };
        made.extend_from_slice(&text[at..fit.from]);
        write(&mut made, &text, &by, &fit)?;
        if made.len() > crate::script::vm::budget::MEMORY_BYTES_MAX {
            return Err("not enough memory".to_owned());
        }
        (count, at, last) = (count + 1, fit.to, Some(fit.to));
        if is_anchored {
            break;
        }
    }
    made.extend_from_slice(text.get(at..).unwrap_or_default());
    Ok(vec![string(lua, &made)?, Value::Integer(count)])
}

/// Writes the replacement for one match: `%1` is a capture, `%0` the whole match.
fn write(made: &mut Vec<u8>, text: &[u8], by: &[u8], fit: &Fit) -> Result<(), Wrong> {
    let mut bytes = by.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            made.push(*byte);
            continue;
        }
        match bytes.next() {
            Some(b'%') => made.push(b'%'),
            Some(b'0') => made.extend_from_slice(&text[fit.from..fit.to]),
            Some(digit @ b'1'..=b'9') => {
                let index = usize::from(digit - b'1');
                match fit.captures.get(index) {
                    Some(Captured::Part(from, to)) => made.extend_from_slice(&text[*from..*to]),
                    Some(Captured::Place(at)) => made.extend((at + 1).to_string().bytes()),
                    Some(Captured::Open) => return Err(OPEN.to_owned()),
                    None if index == 0 => made.extend_from_slice(&text[fit.from..fit.to]),
                    None => {
                        let number = index + 1;
                        return Err(format!("invalid capture index %{number}"));
                    }
                }
            }
            _ => return Err("invalid use of '%' in replacement string".to_owned()),
        }
    }
    Ok(())
}

/// Returns the captures as values; the whole match, if there are none and `wants_whole`.
fn captures(lua: &Lua, text: &[u8], fit: &Fit, wants_whole: bool) -> Values {
    if fit.captures.is_empty() && wants_whole {
        return Ok(vec![string(lua, &text[fit.from..fit.to])?]);
    }
    let value = |it: &Captured| match it {
        Captured::Part(from, to) => string(lua, &text[*from..*to]),
        Captured::Place(at) => Ok(number(at + 1)),
        Captured::Open => Err(OPEN.to_owned()),
    };
    fit.captures.iter().map(value).collect()
}

fn string(lua: &Lua, bytes: &[u8]) -> Result<Value, Wrong> {
    lua.create_string(bytes).map(Value::String).map_err(|_| "not enough memory".to_owned())
}

fn number(at: usize) -> Value {
    Value::Integer(i64::try_from(at).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use mlua::Function;

    use super::*;

    /// Runs functions that accept a text and a pattern, with our versions and the engine's own.
    const CALLS: [&str; 8] = [
        "text:find(pattern)",
        "text:find(pattern, at)",
        "text:find(pattern, at, true)",
        "text:match(pattern, at)",
        "text:gsub(pattern, by)",
        "text:gsub(pattern, by, 2)",
        "text:gsub(pattern, function(...) return select(at % 3, ...) end)",
        "all(text, pattern, at)",
    ];
    const ALL: &str = "local function all(text, pattern, at)
        local found, count = {}, 0
        for a, b in text:gmatch(pattern, at) do
          count = count + 1
          found[count] = tostring(a) .. ';' .. tostring(b)
          if count > 50 then break end
        end
        return table.concat(found, '|')
      end\n";

    fn shown(lua: &Lua, call: &str, args: &(Vec<u8>, Vec<u8>, Vec<u8>, i64)) -> String {
        let text = format!(
            "{ALL} local text, pattern, by, at = ... \
             local function shown(...) local all = {{ ... }} for i = 1, select('#', ...) do \
             all[i] = type(all[i]) .. ':' .. tostring(all[i]) end \
             return table.concat(all, ',') end \
             return shown(pcall(function() return {call} end))"
        );
        let function: Function = lua.load(text).set_name("=x").into_function().unwrap();
        let (text, pattern, by, at) = args;
        let string = |bytes: &[u8]| lua.create_string(bytes).unwrap();
        let given = (string(text), string(pattern), string(by), *at);
        // A tail call has no frame any more, and so no line.
        let shown = function.call::<LuaString>(given).unwrap().to_string_lossy();
        (1..20).fold(shown, |text, line| text.replace(&format!("x:{line}: "), ""))
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(1500))]
        #[test]
        fn patterns_mean_what_they_mean_to_the_engine(
            text in "[abA0 ()\\[\\]%.\\n]{0,12}",
            pattern in "([abA0.^$()*+?\\[\\]%-]|%[a-z0-9]|%f|%b|\\[\\^?[ab%w-]{1,3}\\]){0,7}",
            by in "([ab]|%[0-3%a]){0,4}",
            at in -14_i64..15,
        ) {
            let (own, engine) = (Lua::new(), Lua::new());
            install(&own).unwrap();
            let args = (text.into_bytes(), pattern.into_bytes(), by.into_bytes(), at);
            for call in CALLS {
                let (ours, theirs) = (shown(&own, call, &args), shown(&engine, call, &args));
                proptest::prop_assert_eq!(ours, theirs, "{} of {:?}", call, args);
            }
        }
    }

    #[test]
    fn what_is_no_text_is_refused_as_by_the_engine() {
        let (own, engine) = (Lua::new(), Lua::new());
        install(&own).unwrap();
        let args = (b"a1b2".to_vec(), b"%d".to_vec(), b"x".to_vec(), 2);
        for call in [
            "string.find()",
            "string.find(nil, 'a')",
            "string.find('a', {})",
            "string.find(12, 2)",
            "string.find('a', 'a', 'x')",
            "string.find('a', 'a', 1.5)",
            "string.gsub('a', 'a')",
            "string.gsub('a', 'a', true)",
            "string.gsub('abc', '%w', { a = 1, b = true, c = false })",
            "string.gsub('abc', '%w', function() return {} end)",
            "string.gsub('abc', '(b)()', '%2%1')",
            "string.gsub('abc', '', '-')",
            "string.gmatch('a')",
            "('x'):rep(300):find(('('):rep(40))",
            "('a'):rep(300):match(('a?'):rep(250) .. 'b')",
            "string.match('ä', '[\\0-\\127\\194-\\244][\\128-\\191]*')",
        ] {
            assert_eq!(shown(&own, call, &args), shown(&engine, call, &args), "{call}");
        }
    }

    #[test]
    fn a_pattern_that_runs_away_ends() {
        let lua = Lua::new();
        install(&lua).unwrap();
        for call in [
            "('a'):rep(200):find(('a*'):rep(60) .. 'b')",
            "('a'):rep(200):gsub(('a-'):rep(60) .. 'b', '')",
            "('a'):rep(7e5):find(('a'):rep(3.5e5) .. 'b', 1, true)",
            "(function() for _ in ('a'):rep(8e4):gmatch(('a'):rep(4e4) .. 'b') do end end)()",
        ] {
            let args = (Vec::new(), Vec::new(), Vec::new(), 1);
            let shown = shown(&lua, call, &args);
            assert!(shown.ends_with("the text pattern takes too long"), "{call}: {shown}");
        }
    }
}
